"""The numbers on Learn: the example's ten, a reader's, or some weights of the run."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

import codec
from lcviz.lab.lesson import lesson, pick_weights
from lcviz.run.run import Run
from lcviz.run.whole_state import States
from lcviz.text import plain
from lcviz.ui import session, widgets

from .numbers import MOST, TRACK, TRAINED, check_pairs, read_numbers, write_numbers
from .pictures import LETTERS

SOURCES = {"ten": "Ten numbers", "run": "16 weights of this run"}
_USABLE = "learn-usable"  # in the session: the last usable numbers
_STATES = "learn-run"  # in the session: the run's id, and the states of the checkpoint on the page
_STEP = "learn_step"  # in the URL: that checkpoint's step


@dataclass(frozen=True)
class Numbers:
    """The numbers of a lesson.

    track: what a restart would load. live: what the model has. home: the live values that Reset
    brings back. of_run: whether they are weights of a run.
    """

    track: list[float]
    live: list[float]
    home: list[float]
    of_run: bool = False


def choose_numbers() -> Numbers:
    """Draw the widgets that choose the numbers. Returns these, or the last usable ones."""
    source = widgets.choice(
        "Numbers",
        SOURCES,
        default="ten",
        key="carry",
        help="Ten numbers: the paper's example, or your own. The weights are those of the run on "
        "Live; here they are a whole checkpoint of their own.",
    )
    numbers = None
    if source == "ten":
        numbers = _of_reader()
    elif (run := session.current_run()) is None:
        session.await_example()
    else:
        numbers = _of_run(run)
    if numbers is not None:
        st.session_state[_USABLE] = numbers
        return numbers
    example = Numbers(read_numbers(TRACK), read_numbers(TRAINED), read_numbers(TRAINED))
    usable: Numbers = st.session_state.get(_USABLE, example)
    return usable


def keep_numbers(live: list[float] | None, numbers: Numbers) -> None:
    """Write moved values into the field; weights of a run move in the picture only.

    live: the moved values; None if the reader has moved none. numbers: those on the page.
    """
    if live is not None and not numbers.of_run and len(live) == len(numbers.live):
        st.session_state["u"] = write_numbers(live)


def _of_reader() -> Numbers | None:
    grid = st.grid(2, min_column_width=320, key="fields")
    with grid.cell():
        live_text = st.text_input(
            "Trained weights u",
            TRAINED,
            key="u",
            bind="query-params",
            help="What the model has now. Write your own, with spaces between them.",
        )
        live = _read(live_text)
    with grid.cell():
        track_text = st.text_input(
            "Track ũ",
            TRACK,
            key="track",
            bind="query-params",
            help="What a restart from the last checkpoint would load.",
        )
        track = _read(track_text)
    if live is not None and track is not None:
        try:
            check_pairs(track, live)
            lesson(track, live, None)
        except (ValueError, codec.LccError) as exc:
            _show_problem(exc)
        else:
            home = read_numbers(TRAINED) if track_text == TRACK else live
            return Numbers(track, live, home)
    return None


def _read(text: str) -> list[float] | None:
    """The numbers in the field above. Shows the reason and returns None if they are not numbers."""
    try:
        return read_numbers(text)
    except ValueError as exc:
        _show_problem(exc)
        return None


def _show_problem(problem: Exception) -> None:
    text = plain(str(problem))
    widgets.wrong(f"{text[:1].upper()}{text[1:]}. {_fallback_text()}")


def _fallback_text() -> str:
    """Which numbers the pictures show instead."""
    numbers = "last good numbers" if _USABLE in st.session_state else "example"
    return f"The pictures show the {numbers}."


def _of_run(run: Run) -> Numbers | None:
    states = _checkpoint(run)
    checkpoint = run.snapshot().at(states.step)
    if not checkpoint.alphabets:
        st.info(
            f"Step {states.step} has no δ: it is the base, or all of it was stored exactly. Train "
            f"on the Live page up to the next checkpoint, and come back. {_fallback_text()}"
        )
        return None
    st.session_state[_STATES] = run.id, states
    if st.query_params.get(_STEP) != str(states.step):
        st.query_params[_STEP] = str(states.step)
    lossy = [name for a in checkpoint.alphabets for name in a.names]
    weights = pick_weights({name: states.live[name] - states.before[name] for name in lossy}, MOST)
    track, live = ([w.of(arrays) for w in weights] for arrays in (states.before, states.live))
    labels = [
        f"**{letter}** {weight.text(states.live[weight.tensor].shape)}"
        for letter, weight in zip(LETTERS, weights)
    ]
    st.caption(
        f"The checkpoint of step {states.step}. Few of these weights have changed much, most of "
        f"them little: {' · '.join(labels)}"
    )
    return Numbers(track, live, live, of_run=True)


def _checkpoint(run: Run) -> States:
    """The states of the checkpoint to show. It stays until a reader takes the newest."""
    newest = run.saved.states()
    assert newest is not None, "a run always has its newest states"
    stored: tuple[str, States] | None = st.session_state.get(_STATES)
    states = newest
    if stored is None:
        states = _of_link(run) or newest
    elif stored[0] == run.id:
        states = stored[1]
    if states.step != newest.step and st.button(
        f"Take the newest checkpoint, step {newest.step}", icon=":material/refresh:"
    ):
        return newest
    return states


def _of_link(run: Run) -> States | None:
    """The states of the checkpoint in the URL; None if the run does not have them any more."""
    step = st.query_params.get(_STEP, "")
    states = run.saved.states(int(step)) if step.isdecimal() and len(step) < 10 else None
    if step and states is None:
        st.info(f"Step {step} of this link is no longer kept: below is the newest checkpoint.")
    return states
