"""The slider of the Live page: which checkpoint is shown."""

from __future__ import annotations

import secrets

import streamlit as st

from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING, Checkpoint, Snapshot
from lcviz.ui import session

EXAMPLE_OPENS = 20  # a step at which a restart can still go wrong; at the end nothing does
_STEP = "step"  # in the URL, while the newest is not followed
_FOLLOW = "follow"  # in the session: how often the toggle was made, and its value
_SLIDER = "step-slider"  # in the session: (run, step, token) of a slider that can be moved


def step_slider(run: Run, snapshot: Snapshot) -> Checkpoint:
    """The checkpoint to show: the newest, unless another step was chosen."""
    interval, newest = run.settings.interval, snapshot.newest.step
    if _FOLLOW not in st.session_state:
        asked = _step_of_link(snapshot)
        if asked is None and session.is_example(run) and EXAMPLE_OPENS in snapshot.steps:
            asked = EXAMPLE_OPENS
        if asked is not None:
            _put_slider(run, asked)  # first: where a rerun interrupts this, it is done again
            st.session_state[_FOLLOW] = 0, False
    follow = _follow_toggle()
    # The page never moves a slider that a person can move: a poll under way would bring the old
    # value back, and that looks like a choice. It makes a new slider instead.
    running = follow and snapshot.status == PLAYING
    before = st.session_state.get(_SLIDER)
    if before is None or before[0] != run.id or (follow and before[1] != newest):
        _put_slider(run, newest)
    _, at, made = st.session_state[_SLIDER]
    drawn = _drawn()
    key = f"viewed-{run.id}-{'running' if running else made}"
    if running:
        st.session_state[key] = newest

    def leave_newest() -> None:
        # One that is gone may still report: of another step, or of the run before.
        if follow and _drawn() == drawn:
            follow_newest(False)

    # The range is fixed from the start: a slider whose range grew would be made anew each tick.
    step = st.slider(
        "Show step",
        0,
        run.settings.stop_after // interval * interval,
        None if running else at,
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
    """Make a new slider that stands there."""
    st.session_state[_SLIDER] = run.id, step, secrets.token_hex(4)


def _step_of_link(snapshot: Snapshot) -> int | None:
    """The step in the URL, if the run has it."""
    text = session.remembered(_STEP) or ""
    step = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
    return step if step in snapshot.steps else None


def _drawn() -> tuple[object, object]:
    """Which slider and which toggle the page has now."""
    return st.session_state.get(_SLIDER), st.session_state.get(_FOLLOW)


def _follow_toggle() -> bool:
    """Whether the newest step is shown."""
    made, follow = st.session_state.setdefault(_FOLLOW, (0, True))
    key = f"follow-{made}"

    def turn() -> None:
        if st.session_state[_FOLLOW][0] == made:  # a toggle that is gone may still report
            st.session_state[_FOLLOW] = made, st.session_state[key]
            st.session_state.pop(_SLIDER, None)

    st.toggle(
        "Newest",
        follow,  # not through the session: two fast runs and a browser may see only the default
        key=key,
        on_change=turn,
        help="Follow the newest step. Turned off, the slider shows any saved one; 0 is the base.",
    )
    return bool(follow)


def follow_newest(follow: bool) -> None:
    """Show the newest step, or stop following it: with a new toggle, which shows the same."""
    made, _ = st.session_state.get(_FOLLOW, (0, True))
    st.session_state[_FOLLOW] = made + 1, follow
