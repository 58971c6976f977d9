"""The slider of the Live page: which checkpoint is looked into."""

from __future__ import annotations

import secrets

import streamlit as st

from lcviz.run.run import Run
from lcviz.run.snapshot import PLAYING, Checkpoint, Snapshot
from lcviz.ui import session as state
from lcviz.ui import widgets

_STEP = "step"  # in the URL, while the newest is not followed
_FOLLOW = "follow"  # in the session: how often the toggle was made, and what it says


def scrubber(run: Run, snapshot: Snapshot) -> Checkpoint:
    """The checkpoint to look into: the newest, unless another step was chosen."""
    interval, newest = run.settings.interval, snapshot.newest.step
    place = f"scrubber-{run.id}"
    if _FOLLOW not in st.session_state and (asked := _step_of_link(run, snapshot)) is not None:
        st.session_state[_FOLLOW] = 0, False
        st.session_state[place] = asked, secrets.token_hex(4)
    with st.container(horizontal=True, vertical_alignment="center", key="scrubber"):
        follow = _follow_toggle(place)
        widgets.tables_toggle()
    # What a person can move is never moved by the page: a poll that was under way would bring
    # the old value back, and that looks like a wish. It is made anew where it belongs.
    running = follow and snapshot.status == PLAYING
    if place not in st.session_state or (follow and st.session_state[place][0] != newest):
        st.session_state[place] = newest, secrets.token_hex(4)
    at, made = st.session_state[place]
    key = f"viewed-{run.id}-{'running' if running else made}"
    if running:
        st.session_state[key] = newest
    else:
        st.session_state.setdefault(key, at)

    def leave_newest() -> None:
        if st.session_state.get(place) == (at, made):  # it is also called for one that is gone
            follow_newest(False)

    # The range is fixed from the start: a slider whose range grew would be made anew each tick.
    step = st.slider(
        "Look inside step",
        0,
        run.settings.stop_after // interval * interval,
        step=interval,
        key=key,
        on_change=None if running else leave_newest,
        disabled=running,
        help="Any saved step; 0 is the base. While the run plays, stop following first.",
    )
    state.remember(_STEP, None if follow else str(step))
    if step > newest:
        st.caption(f"Step {step} is not saved yet: below is the newest, step {newest}.")
    return snapshot.at(step)


def _step_of_link(run: Run, snapshot: Snapshot) -> int | None:
    """The step that the URL asks for, if it is one of this run."""
    text = state.remembered(_STEP) or ""
    step = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
    return step if step in snapshot.steps else None


def _follow_toggle(place: str) -> bool:
    """Whether the newest step is looked at. place: that of the slider, which is made anew."""
    made, follow = st.session_state.setdefault(_FOLLOW, (0, True))
    key = f"follow-{made}"

    def turn() -> None:
        if st.session_state[_FOLLOW][0] == made:  # it is also called for one that is gone
            st.session_state[_FOLLOW] = made, st.session_state[key]
            st.session_state.pop(place, None)

    st.session_state.setdefault(key, follow)
    st.toggle("Follow the newest", key=key, on_change=turn)
    return bool(follow)


def follow_newest(follow: bool) -> None:
    """Look at the newest step, or not, with a toggle that says so."""
    made, now = st.session_state.get(_FOLLOW, (0, True))
    if now != follow:
        st.session_state[_FOLLOW] = made + 1, follow
