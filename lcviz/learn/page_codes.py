"""Learn's last two steps: what is kept becomes bits, and what a restart makes of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from lcviz.lab.lesson import Part
from lcviz.text import plural
from lcviz.ui import widgets

from .page_example import Story
from .page_quiz import Quiz
from .page_tree import building
from .stages_figure import stages_panel
from .tables import number_table, text_of


def huffman(story: Story, quiz: Quiz) -> bool:
    st.subheader("4 · H: short words for what is frequent", anchor=False)
    st.markdown(
        "What is left are few different **symbols**, some of them far more frequent than others. "
        "Huffman's code gives each a word of its own length, so that no word is the beginning of "
        "another one: then the words can stand next to each other without gaps."
    )
    part = part_of(story)
    labels = [text_of(float(level)) for level in part.levels]
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
                    "count × bits": [
                        f"{int(part.counts[i]) * int(part.lengths[i]):,}" for i in present
                    ],
                }
            ),
            hide_index=True,
        )
        st.caption(
            "The words are those of the canonical code: words of one length are consecutive "
            "binary numbers, so that a record only has to hold the lengths."
        )
        _stream(story)
    return shown


def restart(story: Story, quiz: Quiz) -> bool:
    st.subheader("5 · A restart, and the next checkpoint", anchor=False)
    numbers = story.lesson.numbers
    number_table(
        story,
        {
            "track ũ": [text_of(m.track) for m in numbers],
            "written": [text_of(m.after_p) for m in numbers],
            "new track": [text_of(m.rebuilt) for m in numbers],
            "u": [text_of(m.live) for m in numbers],
            "still missing": [
                text_of(float(np.float32(m.live) - np.float32(m.rebuilt)), 3) for m in numbers
            ],
        },
    )
    widgets.show(stages_panel(story.lesson.sizes), "stages")
    dropped = next((m for m in numbers if m.delta and not m.code), None)
    if dropped is None:
        return True
    missing = text_of(float(np.float32(dropped.live) - np.float32(dropped.rebuilt)))
    return quiz.ask(
        "restart",
        f"The change of {dropped.name}, {text_of(dropped.delta)}, was not written. If training did "
        "not move it any more, what would the next δ of it be?",
        ["0: it is lost", missing, text_of(2 * dropped.delta)],
        missing,
        f"The next δ is taken to the new track, where {dropped.name} still is "
        f"{text_of(dropped.rebuilt)}: {text_of(dropped.live)} − "
        f"{text_of(dropped.rebuilt, bracket=True)} = {missing}. Small changes add up until their "
        "bucket is among the largest. That is why so few buckets are enough.",
    )


def part_of(story: Story) -> Part:
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
        "Numbers written",
        0,
        len(numbers),
        len(numbers),
        key=f"learn_written_{len(numbers)}",
        bind="query-params",
        persist_state="session",
        help="Move it to see the bit string grow.",
    )
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
