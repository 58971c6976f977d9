"""Which numbers Learn shows: ten, those of a reader, or some weights of the run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

import codec
from lcviz.lab.lesson import lesson, pick_weights
from lcviz.run.run import Run
from lcviz.run.snapshot import States
from lcviz.text import plain
from lcviz.ui import session, widgets

from .numbers import MOST, TRACK, TRAINED, check_pairs, read_numbers, write_numbers
from .pictures import LETTERS

SOURCES = {"ten": "Ten numbers", "run": "16 weights of this run"}
_USABLE = "learn-usable"  # in the session: the last usable numbers
_HELD = "learn-run"  # in the session: the run's id and the checkpoint that is shown
_STEP = "learn_step"  # in the URL: that checkpoint's step


@dataclass(frozen=True)
class Numbers:
    """The track's values, the model's now, and those that Reset brings back."""

    track: list[float]
    live: list[float]
    home: list[float]
    of_run: bool = False


def choose_numbers() -> Numbers:
    """The widgets that choose the numbers; while these cannot be used, the last usable ones."""
    source = widgets.choice(
        "Numbers",
        SOURCES,
        default="ten",
        key="carry",
        help="Ten numbers: the paper's example, or your own. The weights are those of the run on "
        "Live; here they are a whole checkpoint of their own.",
    )
    found = None
    if source == "ten":
        found = _of_reader()
    elif (run := session.current_run()) is None:
        session.await_example()
    else:
        found = _of_run(run)
    if found is not None:
        st.session_state[_USABLE] = found
        return found
    example = Numbers(read_numbers(TRACK), read_numbers(TRAINED), read_numbers(TRAINED))
    usable: Numbers = st.session_state.get(_USABLE, example)
    return usable


def keep_numbers(live: list[float] | None, chosen: Numbers) -> None:
    """Write moved values into the field; weights of a run move in the picture alone."""
    if live is not None and not chosen.of_run and len(live) == len(chosen.live):
        st.session_state["u"] = write_numbers(live)


def _of_reader() -> Numbers | None:
    grid = st.grid(2, min_column_width=320, key="fields")
    with grid.cell():
        trained = st.text_input(
            "Trained weights u",
            TRAINED,
            key="u",
            bind="query-params",
            help="What the model has now. Write your own, with spaces between them.",
        )
        live = _read(trained)
    with grid.cell():
        track = st.text_input(
            "Track ũ",
            TRACK,
            key="track",
            bind="query-params",
            help="What a restart from the last checkpoint would load.",
        )
        before = _read(track)
    if live is not None and before is not None:
        try:
            check_pairs(before, live)
            lesson(before, live, None)
        except (ValueError, codec.LccError) as exc:
            _say_wrong(exc)
        else:
            home = read_numbers(TRAINED) if track == TRACK else live
            return Numbers(before, live, home)
    return None


def _read(text: str) -> list[float] | None:
    """The numbers in the field above; returns None and shows the reason if it has none."""
    try:
        return read_numbers(text)
    except ValueError as exc:
        _say_wrong(exc)
        return None


def _say_wrong(problem: Exception) -> None:
    text = plain(str(problem))
    widgets.wrong(f"{text[:1].upper()}{text[1:]}. {_shown_instead()}")


def _shown_instead() -> str:
    what = "last good numbers" if _USABLE in st.session_state else "example"
    return f"The pictures show the {what}."


def _of_run(run: Run) -> Numbers | None:
    states = _checkpoint(run)
    checkpoint = run.snapshot().at(states.step)
    if not checkpoint.alphabets:
        st.info(
            f"Step {states.step} has no δ: it is the base, or all of it was stored exactly. Train "
            f"on the Live page up to the next checkpoint, and come back. {_shown_instead()}"
        )
        return None
    st.session_state[_HELD] = run.id, states
    if st.query_params.get(_STEP) != str(states.step):
        st.query_params[_STEP] = str(states.step)
    lossy = [name for a in checkpoint.alphabets for name in a.names]
    chosen = pick_weights({name: states.live[name] - states.before[name] for name in lossy}, MOST)
    before, live = (
        np.array([arrays[name].reshape(-1)[i] for name, i in chosen], np.float32).tolist()
        for arrays in (states.before, states.live)
    )
    weights = []
    for letter, (name, i) in zip(LETTERS, chosen):
        place = ", ".join(str(int(at)) for at in np.unravel_index(i, states.live[name].shape))
        weights.append(f"**{letter}** {name} ({place})")
    st.caption(
        f"The checkpoint of step {states.step}. Few of these weights have changed much, most of "
        f"them little: {' · '.join(weights)}"
    )
    return Numbers(before, live, live, of_run=True)


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
        st.info(f"Step {step} of this link is no longer kept: below is the newest checkpoint.")
    return states
