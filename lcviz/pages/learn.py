"""Learn: ten numbers, or some weights of the run, through all four stages, one question each."""

from __future__ import annotations

import math
import re
import string
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

import codec

from .. import state
from ..figures.panel import exponent_text, minus, plural
from ..figures.stages import stages_panel
from ..lab.lesson import Lesson, Number, Part, fields, lesson, lesson_of_run, spread
from ..session import Run
from .building import building
from .quiz import Quiz
from .settings import BITS, SCOPES, bits_name

TRACK = "0.5 -0.25 1 0.25 -0.5 0.125 0 -0.75 0.25 0.5"
TRAINED = "1.26 -0.73 1.2 0.32 -0.32 0.615 0.14 -0.36 1.07 0.59"
SOURCES = {"ten": "Ten numbers", "run": "16 weights of this run"}
MOST = 16
ACROSS = 10  # numbers that fit beside one another
LARGEST = 1e30
_HELD = "learn-run"  # in the session: the run's id and the checkpoint that is taken apart


@dataclass(frozen=True)
class Story:
    """What is carried through: the numbers, and how to speak of them."""

    lesson: Lesson
    of_run: bool
    bits: int | None
    followed: Number


def page() -> None:
    """The whole page."""
    st.title("Learn: a checkpoint, number by number", anchor=False)
    st.markdown(
        "A checkpoint lets training go on after a crash. LC-Checkpoint makes it small in four "
        "steps: it takes the **difference δ** to what a restart would have, sorts the differences "
        "into **exponent buckets (E)**, keeps the largest of them (**priority promotion, P**) and "
        "writes what is left with a **Huffman code (H)**. Below you can do all four by hand. "
        "Answer the question to open the next step, or have it all opened."
    )
    story = _story()
    if story is None:
        return
    quiz = Quiz(st.session_state.get("everything", False))
    for step in (_delta, _exponents, _promotion, _huffman, _restart):
        with st.container(border=True, key=step.__name__.strip("_")):
            if not step(story, quiz):
                break


# What the lesson is about.


def _story() -> Story | None:
    with st.container(border=True, key="lesson"):
        source = st.segmented_control(
            "Carry through", list(SOURCES), default="ten", required=True, key="carry",
            format_func=SOURCES.__getitem__, bind="query-params",
            help="The ten numbers are the paper's example. The weights are those of the run on "
            "Live, with the buckets and code words that its whole model has.",
        )  # fmt: skip
        grid = st.grid(2, min_column_width=320, key="choices")
        with grid.cell():
            bits: int | None = st.select_slider(
                "Bits x for priority promotion", BITS, 2, format_func=bits_name, key="learn_bits",
                bind="query-params", help="2ˣ − 1 buckets are kept; “all” keeps every one.",
            )  # fmt: skip
        run = state.current_run() if source == "run" else None
        with grid.cell():
            if run is None:
                scope = st.segmented_control(
                    "Buckets over", list(SCOPES), default="model", required=True,
                    key="learn_scope", format_func=SCOPES.__getitem__, bind="query-params",
                    help="With one set of buckets for each tensor, the first six numbers are taken "
                    "for one tensor, w, and the others for another one, b.",
                )  # fmt: skip
            else:
                st.markdown(f"**{run.task.title}**  \nBuckets over {SCOPES[run.settings.scope]}")
        if source == "run":
            found = _of_run(run, bits) if run else None
            if run is None:
                state.await_example()
        else:
            found = _of_numbers(bits, str(scope))
        if found is None:
            return None
        names = [n.name for n in found.numbers]
        with st.container(horizontal=True, vertical_alignment="bottom", key="looking"):
            name = st.selectbox(
                "Follow one number", names, min(2, len(names) - 1), key=f"follow-{source}",
                persist_state="session", help="Every step below shows what becomes of it.",
                width=220,
            )  # fmt: skip
            st.toggle("Open all steps at once", key="everything", bind="query-params")
        followed = found.numbers[names.index(name)]
    return Story(found, source == "run", bits, followed)


def _of_numbers(bits: int | None, scope: str) -> Lesson | None:
    trained = st.text_input(
        "Trained weights u: what the model has now", TRAINED, key="u", bind="query-params",
        help="Change them as you like; spaces between them. Everything below follows.",
    )  # fmt: skip
    track = st.text_input(
        "Track ũ: what a restart from the last checkpoint would have", TRACK, key="track",
        bind="query-params",
    )  # fmt: skip
    try:
        live, before = read_numbers(trained), read_numbers(track)
        if len(live) != len(before):
            raise ValueError(
                f"there are {len(live)} trained weights, but {len(before)} in the track; "
                "each needs its partner"
            )
        if not 2 <= len(live) <= MOST:
            raise ValueError(f"this page carries 2 to {MOST} numbers; there are {len(live)}")
        cut = math.ceil(0.6 * len(live))
        return lesson(before, live, ["w"] * cut + ["b"] * (len(live) - cut), bits, scope)
    except (ValueError, codec.LccError) as exc:
        st.error(f"These numbers cannot be used: {exc}.", icon=":material/error:")
        return None


def read_numbers(text: str) -> list[float]:
    """Numbers between spaces or semicolons, with a minus of any kind, rounded to float32.

    Raises ValueError, its message a part of a sentence.
    """
    found = []
    for word in re.split(r"[\s;]+", text.strip().replace("−", "-")):
        word = word.rstrip(",")
        try:
            value = float(word)
        except ValueError:
            raise ValueError(f"“{word}” is no number (write 0.76, with a point)") from None
        if not abs(value) <= LARGEST:
            raise ValueError(f"“{word}” is too large")
        found.append(float(np.float32(value)))
    return found


def _of_run(run: Run, bits: int | None) -> Lesson | None:
    held = st.session_state.get(_HELD)
    newest = run.states()
    assert newest is not None, "a run always holds its newest states"
    if (
        held is None
        or held[0] != run.id
        or (
            held[1].step != newest.step
            and st.button(
                f"Take the newest checkpoint, step {newest.step}", icon=":material/refresh:"
            )
        )
    ):
        held = (run.id, newest, run.snapshot().at(newest.step))
    _, states, checkpoint = held
    if not checkpoint.alphabets:
        st.info(
            f"Step {states.step} has no δ to take apart: it is the base, or all of it was stored "
            "exactly. Train on the Live page up to the next checkpoint, and come back."
        )
        return None
    st.session_state[_HELD] = held
    lossy = [name for a in checkpoint.alphabets for name in a.names]
    chosen = spread({name: states.live[name] - states.before[name] for name in lossy}, MOST)
    before, live = (
        np.array([arrays[name].reshape(-1)[i] for name, i in chosen], np.float32)
        for arrays in (states.before, states.live)
    )
    letters = string.ascii_lowercase[: len(chosen)]
    weights = [_weight_name(name, i, states.live[name].shape) for name, i in chosen]
    st.caption(
        f"The checkpoint of step {states.step}. The weights are chosen so that few have changed "
        "much and many have changed little, as in the whole model: "
        + " · ".join(f"**{letter}** {weight}" for letter, weight in zip(letters, weights))
    )
    tensors = [name for name, _ in chosen]
    return lesson_of_run(checkpoint.alphabets, letters, tensors, before, live, bits)


def _weight_name(tensor: str, index: int, shape: tuple[int, ...]) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(index, shape))
    return f"{tensor} ({place})"


# The steps. Each returns whether the next one may be seen.


def _delta(story: Story, quiz: Quiz) -> bool:
    st.subheader("1 · δ: write the difference", anchor=False)
    st.markdown(
        "After a crash, a restart reads the checkpoints written so far. What they give is called "
        "the **track ũ**. The model has trained on since and is at **u**."
    )
    n = story.followed
    shown = quiz.ask(
        "delta",
        f"The track has {_text(n.track)} for {n.name}, the model {_text(n.live)}. What is the "
        "least that the next checkpoint has to say about it?",
        [_text(n.live), _text(n.delta), _text(n.track + n.live)],
        _text(n.delta),
        f"The restart has {_text(n.track)} already: it only needs the difference, "
        f"{_text(n.live)} − {_text(n.track, bracket=True)} = {_text(n.delta)}.",
    )
    numbers = story.lesson.numbers
    rows = {"u": [_text(m.live) for m in numbers], "ũ": [_text(m.track) for m in numbers]}
    if shown:
        rows["δ = u − ũ"] = [_text(m.delta) for m in numbers]
    _table(story, rows)
    if shown:
        st.markdown(
            "Differences are small and alike, where weights are neither: that is what the next "
            "steps live on. It is the difference to the **track**, not to the weights at the last "
            "checkpoint: whatever one checkpoint leaves out, the next one sees again."
        )
    return shown


def _exponents(story: Story, quiz: Quiz) -> bool:
    st.subheader("2 · E: sort into buckets by sign and exponent", anchor=False)
    st.markdown(
        "A float32 number is stored as **sign, exponent and mantissa**: (−1)ˢ · m · 2ᵉ with "
        "1 ≤ m < 2. All numbers with the same sign and the same e go into one **bucket**."
    )
    _bits_of(story.followed)
    numbers = story.lesson.numbers
    rows = {"δ": [_text(m.delta) for m in numbers], "±m · 2ᵉ": [_product(m) for m in numbers]}
    filled = {(m.part.name, m.bucket) for m in numbers if m.bucket is not None}
    alone = {fields(m.delta).exponent for m in numbers if m.delta}
    right = len(filled)
    others = {right, len(alone), len(numbers), right + 1} - {0}
    shown = quiz.ask(
        "exponents",
        f"How many different buckets do these {len(numbers)} numbers fall into? Numbers with "
        "another sign, or another e, are in another bucket.",
        [str(k) for k in sorted(others | {right})][:4],
        str(right),
        f"They fill {plural(right, 'bucket')}. Every member is now replaced by the middle of its "
        "bucket: half of the sum of its smallest and its largest member.",
    )
    if shown:
        rows["after E"] = [_text(m.after_e) for m in numbers]
        rows["off by"] = [_text(m.after_e - m.delta, 2) for m in numbers]
    _table(story, rows)
    if shown:
        n = story.followed
        if n.bucket is not None:
            b = n.part.buckets[n.bucket]
            st.markdown(
                f"{n.name} is in bucket **{exponent_text(b.exponent, b.sign)}**, whose members lie "
                f"between {_text(b.min)} and {_text(b.max)}: ({_text(b.min)} + "
                f"{_text(b.max, bracket=True)}) / 2 = **{_text(b.representative)}**."
            )
        _buckets(story, promotion=False)
        st.markdown(
            "Within a bucket the largest member is less than twice the smallest, so no number is "
            "off by half of its size or more. And an index of the bucket is all that has to "
            "be written, with a list of the buckets' middles."
        )
    return shown


def _promotion(story: Story, quiz: Quiz) -> bool:
    st.subheader("3 · P: keep the largest buckets", anchor=False)
    if story.bits is None:
        st.markdown("“All” keeps every bucket: choose bits x above to see promotion.")
        return True
    x = story.bits
    st.markdown(
        f"Each number now gets exactly **x = {x}** {'bit' if x == 1 else 'bits'}: that tells "
        f"2{'' if x == 1 else _raised(x)} = {2**x} things apart. One of them has to be **0**, for "
        "what is left out."
    )
    right = 2**x - 1
    shown = quiz.ask(
        "promotion",
        "For how many buckets is there room? (The largest ones get it: they hold most of what has "
        "changed.)",
        [str(k) for k in sorted({right, right + 1, right + 2, max(right - 1, 1)})],
        str(right),
        f"2ˣ − 1 = {right}, besides 0. Every other number becomes 0 in this checkpoint.",
    )
    if shown:
        _buckets(story, promotion=True)
        numbers = story.lesson.numbers
        _table(
            story,
            {
                "δ": [_text(m.delta) for m in numbers],
                "after E": [_text(m.after_e) for m in numbers],
                "after P": [_text(m.after_p) for m in numbers],
            },
        )
        n = story.followed
        if n.bucket is None:
            fate = "has not changed, so it is 0 anyway"
        elif n.code:
            fate = f"is in a bucket that is kept: {_text(n.after_p)} is written"
        else:
            fate = "is in a bucket that is dropped: 0 is written, and its change waits"
        st.markdown(f"{n.name} {fate}.")
    return shown


def _huffman(story: Story, quiz: Quiz) -> bool:
    st.subheader("4 · H: short words for what is frequent", anchor=False)
    st.markdown(
        "What is left are few different **symbols**, some of them far more frequent than others. "
        "Huffman's code gives each a word of its own length, so that no word is the beginning of "
        "another one: then the words can stand next to each other without gaps."
    )
    part = _part(story)
    labels = [_text(float(level)) for level in part.levels]
    present = [i for i, count in enumerate(part.counts) if count]
    most = max(part.counts)
    frequent = [labels[i] for i in present if part.counts[i] == most]
    count_of = ", ".join(f"{labels[i]}: {int(part.counts[i]):,} ×" for i in present)
    st.markdown(f"How often each occurs: {count_of}.")
    shown = quiz.ask(
        "huffman",
        "Which symbol should get the shortest word?",
        [labels[i] for i in present],
        frequent,
        f"{frequent[0]} is written {int(most):,} times, so a bit saved there is saved most often.",
    )
    if shown:
        building(part.counts.tolist(), labels, f"{story.of_run}-{part.name}")
        st.table(
            pd.DataFrame(
                {
                    "symbol": [labels[i] for i in present],
                    "count": [f"{int(part.counts[i]):,}" for i in present],
                    "word": [part.words[i] or "(none)" for i in present],
                    "bits": [str(part.lengths[i]) for i in present],
                    "count × bits": [f"{int(part.counts[i]) * int(part.lengths[i]):,}"
                                     for i in present],
                }
            ),
            hide_index=True,
        )  # fmt: skip
        st.caption(
            "The words are those of the canonical code: words of one length are consecutive "
            "binary numbers, so that a record only has to hold the lengths."
        )
        _stream(story)
    return shown


def _restart(story: Story, quiz: Quiz) -> bool:
    st.subheader("5 · A restart, and the next checkpoint", anchor=False)
    numbers = story.lesson.numbers
    _table(
        story,
        {
            "track ũ": [_text(m.track) for m in numbers],
            "written": [_text(m.after_p) for m in numbers],
            "new track": [_text(m.rebuilt) for m in numbers],
            "u": [_text(m.live) for m in numbers],
            "still missing": [_text(float(np.float32(m.live) - np.float32(m.rebuilt)), 3)
                              for m in numbers],
        },
    )  # fmt: skip
    state.show(stages_panel(story.lesson.sizes), "stages")
    dropped = next((m for m in numbers if m.delta and not m.code), None)
    if dropped is None:
        return True
    missing = _text(float(np.float32(dropped.live) - np.float32(dropped.rebuilt)))
    return quiz.ask(
        "restart",
        f"The change of {dropped.name}, {_text(dropped.delta)}, was not written. If training did "
        "not move it any more, what would the next δ of it be?",
        ["0: it is lost", missing, _text(2 * dropped.delta)],
        missing,
        f"The next δ is taken to the new track, where {dropped.name} still is "
        f"{_text(dropped.rebuilt)}: {_text(dropped.live)} − "
        f"{_text(dropped.rebuilt, bracket=True)} = {missing}. Small changes add up until their "
        "bucket is among the largest. That is why so few buckets are enough.",
    )


# What the steps show.


def _table(story: Story, rows: dict[str, list[str]]) -> None:
    """A column for each of ten numbers, a row for each of more; the followed one bold."""
    numbers = story.lesson.numbers
    if len(story.lesson.parts) > 1:
        rows = {"tensor": [m.part.name for m in numbers]} | rows
    table = pd.DataFrame(rows, index=[m.name for m in numbers])
    at = story.followed.name
    table.loc[at] = [f"**{cell}**" for cell in table.loc[at]]
    st.table(table if len(numbers) > ACROSS else table.T)


def _bits_of(number: Number) -> None:
    """Sign, exponent and mantissa of a delta, as they stand in memory."""
    f = fields(number.delta)
    sign, exponent, mantissa = f.bits
    st.markdown(
        f"{number.name}: δ = {_text(number.delta)} is stored as  \n"
        f":blue-background[{sign}] :orange-background[{exponent}] :green-background[{mantissa}]"
    )
    if f.exponent == -127:
        told = "all bits of the exponent are 0: zero, or too small for the rule above"
    else:
        told = (
            f":blue[sign s = {sign}], {'negative' if f.sign else 'positive'} · :orange[exponent: "
            f"{int(exponent, 2)} − 127 = {minus(f.exponent)}] · :green[mantissa m = "
            f"{f.mantissa:.6g}], together {_product(number)}"
        )
    st.markdown(f":small[{told}]")


def _product(number: Number) -> str:
    f = fields(number.delta)
    if f.exponent == -127:
        return "0" if not number.delta else _text(number.delta)
    return f"{'−' if f.sign else '+'}{f.mantissa:.4g} · {exponent_text(f.exponent)}"


def _buckets(story: Story, *, promotion: bool) -> None:
    """The buckets that the numbers are in, or all of them where they are all there is."""
    rows = []
    several = len(story.lesson.parts) > 1
    for part in story.lesson.parts:
        for i, b in enumerate(part.buckets):
            own = [m.name for m in story.lesson.numbers if m.part is part and m.bucket == i]
            if story.of_run and not own and not (promotion and b.level):
                continue
            row = {"tensor": part.name} if several else {}
            row |= {"bucket": exponent_text(b.exponent, b.sign)}
            if story.of_run:
                row |= {"members in the model": f"{b.count:,}", "of ours": ", ".join(own) or "none"}
            else:
                row |= {"members": ", ".join(own)}
            row |= {"smallest": _text(b.min), "largest": _text(b.max)}
            row |= {"middle": _text(b.representative)}
            if promotion:
                row |= {"": "**kept**" if b.level else "dropped"}
            rows.append(row)
    st.table(pd.DataFrame(rows), hide_index=True)


def _part(story: Story) -> Part:
    """Whose code is built: the only one, or that of the tensor of the followed number."""
    if len(story.lesson.parts) > 1:
        st.caption(
            f"Every tensor has a code of its own. Below is that of {story.followed.part.name}, "
            f"where {story.followed.name} is."
        )
    return story.followed.part


def _stream(story: Story) -> None:
    """The words one after the other."""
    numbers = story.lesson.numbers
    n = st.slider(
        "Numbers written", 0, len(numbers), len(numbers), key=f"written-{len(numbers)}",
        help="Move it to see the bit string grow.",
    )  # fmt: skip
    words = [m.word for m in numbers[:n]]
    # Neighbours in two colours: there are no gaps between the words on disk.
    colours = ("blue", "orange")
    text = "".join(f":{colours[i % 2]}-background[{w}]" for i, w in enumerate(words) if w)
    nbits = sum(map(len, words))
    st.markdown(text or "(no bits yet)" if any(m.word for m in numbers) else "(no bits needed)")
    st.markdown(
        f":small[{plural(nbits, 'bit')} for {plural(n, 'number')}, which as float32 are "
        f"{32 * n:,} bits.]"
    )


def _text(value: float, digits: int = 6, *, bracket: bool = False) -> str:
    """A number as a person writes it; a negative one in brackets where it follows a sign."""
    text = minus(f"{value:.{digits}g}") if value else "0"
    return f"({text})" if bracket and value < 0 else text


def _raised(x: int) -> str:
    return str(x).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
