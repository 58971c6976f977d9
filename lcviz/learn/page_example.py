"""What Learn carries through: ten numbers of one's own, or some weights of the run."""

from __future__ import annotations

import math
import re
import string
from dataclasses import dataclass

import numpy as np
import streamlit as st

import codec
from lcviz.lab.lesson import Lesson, Number, lesson, lesson_of_run, spread
from lcviz.run.run import Run
from lcviz.run.snapshot import States
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.settings import BITS, SCOPES, bits_name

TRACK = "0.5 -0.25 1 0.25 -0.5 0.125 0 -0.75 0.25 0.5"
TRAINED = "1.26 -0.73 1.2 0.32 -0.32 0.615 0.14 -0.36 1.07 0.59"
SOURCES = {"ten": "Ten numbers", "run": "16 weights of this run"}
MOST = 16
LARGEST = 1e30
_HELD = "learn-run"  # in the session: the run's id and the checkpoint that is taken apart
_STEP = "learn_step"  # in the URL: that checkpoint's step


@dataclass(frozen=True)
class Story:
    """What is carried through: the numbers, and how to speak of them."""

    lesson: Lesson
    of_run: bool
    bits: int | None
    followed: Number


def choose_story() -> Story | None:
    with st.container(border=True, key="lesson"):
        source = widgets.choice(
            "Carry through",
            list(SOURCES),
            default="ten",
            key="carry",
            format_func=SOURCES.__getitem__,
            bind="query-params",
            help="The ten numbers are the paper's example. The weights are those of the run on "
            "Live, with the buckets and code words that its whole model has.",
        )
        grid = st.grid(2, min_column_width=320, key="choices")
        with grid.cell():
            bits: int | None = st.select_slider(
                "Bits x for priority promotion",
                BITS,
                2,
                format_func=bits_name,
                key="learn_bits",
                bind="query-params",
                help="2ˣ − 1 buckets are kept; “all” keeps every one.",
            )
        run = state.current_run() if source == "run" else None
        with grid.cell():
            if run is None:
                scope = widgets.choice(
                    "Buckets over",
                    list(SCOPES),
                    default="model",
                    key="learn_scope",
                    format_func=SCOPES.__getitem__,
                    bind="query-params",
                    help="With one set of buckets for each tensor, the first six numbers are taken "
                    "for one tensor, w, and the others for another one, b.",
                )
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
                "Follow one number",
                names,
                min(2, len(names) - 1),
                key=f"learn_follow_{source}",
                bind="query-params",
                persist_state="session",
                width=220,
                help="Every step below shows what becomes of it.",
            )
            st.toggle("Open all steps at once", key="everything", bind="query-params")
        followed = found.numbers[names.index(name)]
    return Story(found, source == "run", bits, followed)


def _of_numbers(bits: int | None, scope: str) -> Lesson | None:
    trained = st.text_input(
        "Trained weights u: what the model has now",
        TRAINED,
        key="u",
        bind="query-params",
        help="Change them as you like; spaces between them. Everything below follows.",
    )
    track = st.text_input(
        "Track ũ: what a restart from the last checkpoint would have",
        TRACK,
        key="track",
        bind="query-params",
    )
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
    states = _taken_apart(run)
    checkpoint = run.snapshot().at(states.step)
    if not checkpoint.alphabets:
        st.info(
            f"Step {states.step} has no δ to take apart: it is the base, or all of it was stored "
            "exactly. Train on the Live page up to the next checkpoint, and come back."
        )
        return None
    _keep(run, states)
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


def _taken_apart(run: Run) -> States:
    """The checkpoint that is looked at: it stays until another one is asked for."""
    newest = run.states()
    assert newest is not None, "a run always holds its newest states"
    held: tuple[str, States] | None = st.session_state.get(_HELD)
    states = newest
    if held is None:
        states = _of_link(run) or newest
    elif held[0] == run.id:
        states = held[1]
    if states.step != newest.step and st.button(
        f"Take the newest checkpoint, step {newest.step}", icon=":material/refresh:"
    ):
        return newest
    return states


def _of_link(run: Run) -> States | None:
    """The checkpoint that the URL names, while the run still holds it."""
    named = st.query_params.get(_STEP, "")
    states = run.states(int(named)) if named.isdecimal() and len(named) < 10 else None
    if named and states is None:
        st.info(
            f"Step {named} of this link is no longer in memory: below is the newest checkpoint."
        )
    return states


def _keep(run: Run, states: States) -> None:
    """Look at this checkpoint from now on, and whoever opens a link to it too."""
    st.session_state[_HELD] = run.id, states
    if st.query_params.get(_STEP) != str(states.step):
        st.query_params[_STEP] = str(states.step)


def _weight_name(tensor: str, index: int, shape: tuple[int, ...]) -> str:
    place = ", ".join(str(int(i)) for i in np.unravel_index(index, shape))
    return f"{tensor} ({place})"
