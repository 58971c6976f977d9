"""The example that Learn shows: numbers of your own, or some weights of the run."""

from __future__ import annotations

import math
import re
import string
from dataclasses import dataclass

import numpy as np
import streamlit as st

import codec
from lcviz.lab.lesson import Lesson, Number, lesson, lesson_of_run, pick_weights
from lcviz.run.run import Run
from lcviz.run.snapshot import States
from lcviz.ui import session, widgets
from lcviz.ui.coding_form import SCOPES, bits_slider

TRACK = "0.5 -0.25 1 0.25 -0.5 0.125 0 -0.75 0.25 0.5"
TRAINED = "1.26 -0.73 1.2 0.32 -0.32 0.615 0.14 -0.36 1.07 0.59"
SOURCES = {"ten": "Ten numbers", "run": "16 weights of this run"}
MOST = 16
LARGEST = 1e30
_HELD = "learn-run"  # in the session: the run's id and the checkpoint that is shown
_STEP = "learn_step"  # in the URL: that checkpoint's step


@dataclass(frozen=True)
class Example:
    """The numbers of the page.

    of_run: whether they are weights of a run. bits: x of priority promotion. followed: the number
    that the page explains.
    """

    lesson: Lesson
    of_run: bool
    bits: int | None
    followed: Number


def choose_example() -> Example | None:
    """The widgets that choose the numbers; None while there are none."""
    with st.container(border=True, key="lesson"):
        source = widgets.choice(
            "Example",
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
            bits = bits_slider("learn_bits")
        run = session.current_run() if source == "run" else None
        with grid.cell():
            if run is None:
                scope = widgets.choice(
                    "Buckets over",
                    SCOPES,
                    default="model",
                    key="learn_scope",
                    help="With one set of buckets for each tensor, the first six numbers are "
                    "tensor w and the others tensor b.",
                )
            else:
                scope = run.settings.coding.scope
                st.markdown(f"**{run.task.title}**  \nBuckets over {SCOPES[scope]}")
        if source == "ten":
            found = _of_numbers(bits, scope)
        elif run is not None:
            found = _of_run(run, bits)
        else:
            session.await_example()
            found = None
        if found is None:
            return None
        names = [n.name for n in found.numbers]
        with st.container(horizontal=True, vertical_alignment="bottom", key="followed-number"):
            name = st.selectbox(
                "Follow one number",
                names,
                min(2, len(names) - 1),
                key=f"learn_follow_{source}",
                bind="query-params",
                persist_state="session",
                width=220,
                help="Every step below explains this one.",
            )
            st.toggle("Open all steps at once", key="everything", bind="query-params")
        return Example(found, source == "run", bits, found.numbers[names.index(name)])


def _of_numbers(bits: int | None, scope: str) -> Lesson | None:
    trained = st.text_input(
        "Trained weights u: what the model has now",
        TRAINED,
        key="u",
        bind="query-params",
        help="Change them as you like; put spaces between them.",
    )
    track = st.text_input(
        "Track ũ: what a restart from the last checkpoint would load",
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
            raise ValueError(f"this page takes 2 to {MOST} numbers; there are {len(live)}")
        cut = math.ceil(0.6 * len(live))
        return lesson(before, live, ["w"] * cut + ["b"] * (len(live) - cut), bits, scope)
    except (ValueError, codec.LccError) as exc:
        st.error(f"These numbers cannot be used: {exc}.", icon=":material/error:")
        return None


def read_numbers(text: str) -> list[float]:
    """Read numbers between spaces or semicolons, with a minus of any kind, as float32.

    Raises:
        ValueError: for anything else; its message is a part of a sentence.
    """
    if not text.strip():
        raise ValueError("enter numbers")
    found = []
    for word in re.split(r"[\s;]+", text.strip().replace("−", "-")):
        word = word.rstrip(",")
        try:
            value = float(word)
        except ValueError:
            raise ValueError(f"“{word}” is not a number (write 0.76, with a point)") from None
        if not abs(value) <= LARGEST:
            raise ValueError(f"“{word}” is {'too large' if math.isfinite(value) else 'not finite'}")
        found.append(float(np.float32(value)))
    return found


def _of_run(run: Run, bits: int | None) -> Lesson | None:
    states = _checkpoint(run)
    checkpoint = run.snapshot().at(states.step)
    if not checkpoint.alphabets:
        st.info(
            f"Step {states.step} has no δ: it is the base, or all of it was stored exactly. Train "
            "on the Live page up to the next checkpoint, and come back."
        )
        return None
    st.session_state[_HELD] = run.id, states
    if st.query_params.get(_STEP) != str(states.step):
        st.query_params[_STEP] = str(states.step)
    lossy = [name for a in checkpoint.alphabets for name in a.names]
    chosen = pick_weights({name: states.live[name] - states.before[name] for name in lossy}, MOST)
    before, live = (
        np.array([arrays[name].reshape(-1)[i] for name, i in chosen], np.float32)
        for arrays in (states.before, states.live)
    )
    letters = string.ascii_lowercase[: len(chosen)]
    weights = []
    for letter, (name, i) in zip(letters, chosen):
        place = ", ".join(str(int(at)) for at in np.unravel_index(i, states.live[name].shape))
        weights.append(f"**{letter}** {name} ({place})")
    st.caption(
        f"The checkpoint of step {states.step}. Few of these weights have changed much and many "
        f"have changed little, as in the whole model: {' · '.join(weights)}"
    )
    tensors = [name for name, _ in chosen]
    return lesson_of_run(checkpoint.alphabets, letters, tensors, before, live, bits)


def _checkpoint(run: Run) -> States:
    """The checkpoint to show: it stays until another one is asked for."""
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
    """The checkpoint in the URL, while the run still holds it."""
    step = st.query_params.get(_STEP, "")
    states = run.states(int(step)) if step.isdecimal() and len(step) < 10 else None
    if step and states is None:
        st.info(f"Step {step} of this link is no longer in memory: below is the newest checkpoint.")
    return states
