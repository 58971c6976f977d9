"""The slider of the Live page: it chooses the checkpoint to show."""

from __future__ import annotations

import secrets

import streamlit as st

from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING, Checkpoint, Snapshot
from lcviz.server.runs import EXAMPLE_OPENS
from lcviz.ui import session

_STEP = "step"  # in the URL, while the page does not follow the newest step
_FOLLOW = "follow"  # in the session: (how many toggles were made, value of the last one)
_SLIDER = "step-slider"  # in the session: (run id, step, token) of a slider that can be moved


def step_slider(run: Run, snapshot: Snapshot) -> Checkpoint:
    """The checkpoint to show: the newest, unless another step was chosen."""
    interval, newest = run.settings.interval, snapshot.newest.step
    if _FOLLOW not in st.session_state:
        first = _step_of_link(snapshot)
        if first is None and session.is_example(run) and EXAMPLE_OPENS in snapshot.steps:
            first = EXAMPLE_OPENS
        if first is not None:
            # The slider comes first: a rerun between these two lines repeats both.
            _put_slider(run, first)
            st.session_state[_FOLLOW] = 0, False
    follow = _follow_toggle()
    # The page never moves a slider that a person can move: a poll under way would bring the old
    # value back, and that looks like a choice. It makes a new slider instead.
    running = follow and snapshot.status == PLAYING
    slider = st.session_state.get(_SLIDER)
    if slider is None or slider[0] != run.id or (follow and slider[1] != newest):
        _put_slider(run, newest)
    _, start, token = st.session_state[_SLIDER]
    controls = _controls()
    key = f"viewed-{run.id}-{'running' if running else token}"
    if running:
        st.session_state[key] = newest

    def leave_newest() -> None:
        # A slider that is gone, of another step or run, may still report.
        if follow and _controls() == controls:
            follow_newest(False)

    # The range is fixed from the start: with a growing range each tick would make a new slider.
    step = st.slider(
        "Show step",
        0,
        run.settings.stop_after // interval * interval,
        None if running else start,
        step=interval,
        key=key,
        on_change=None if running else leave_newest,
        disabled=running,
        label_visibility="collapsed",
    )
    session.remember(_STEP, None if follow else str(step))
    if step > newest:
        st.caption(f"Step {step} is not saved yet: below is the newest, step {newest}.")
    return snapshot.at(step)


def chosen_step() -> str | None:
    """The step that the slider shows, as text; None while it follows the newest."""
    return session.remembered(_STEP)


def viewed_checkpoint(snapshot: Snapshot) -> Checkpoint:
    """The checkpoint that the slider shows."""
    step = chosen_step()
    return snapshot.newest if step is None else snapshot.at(int(step))


def look_into(run: Run, step: int) -> None:
    """Show a step from now on, from a callback."""
    follow_newest(False)
    _put_slider(run, step)


def _put_slider(run: Run, step: int) -> None:
    """Make a new slider at this step."""
    st.session_state[_SLIDER] = run.id, step, secrets.token_hex(4)


def _step_of_link(snapshot: Snapshot) -> int | None:
    """The step in the URL, if the run has it."""
    text = session.remembered(_STEP) or ""
    step = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
    return step if step in snapshot.steps else None


def _controls() -> tuple[object, object]:
    """The slider and the toggle that the page has now."""
    return st.session_state.get(_SLIDER), st.session_state.get(_FOLLOW)


def _follow_toggle() -> bool:
    """Draw the toggle; returns whether the page follows the newest step."""
    count, follow = st.session_state.setdefault(_FOLLOW, (0, True))
    key = f"follow-{count}"

    def turn() -> None:
        if st.session_state[_FOLLOW][0] == count:  # a toggle that is gone may still report
            st.session_state[_FOLLOW] = count, st.session_state[key]
            st.session_state.pop(_SLIDER, None)

    st.toggle(
        "Newest",
        follow,  # not through the session: after two fast runs a browser may show the default
        key=key,
        on_change=turn,
        help="Follow the newest step. Turned off, the slider shows any saved one; 0 is the base.",
    )
    return bool(follow)


def follow_newest(follow: bool) -> None:
    """Follow the newest step, or stop following it. A new toggle takes the value."""
    count, _ = st.session_state.get(_FOLLOW, (0, True))
    st.session_state[_FOLLOW] = count + 1, follow
