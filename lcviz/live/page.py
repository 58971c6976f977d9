"""Live: train a small model and see every checkpoint go through the codec.

The controls stand in the page itself; one polling fragment holds what changes while the run plays.
Its pictures keep their place from tick to tick.
"""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

import codec
import demo_models
from lcviz.run.run import Run
from lcviz.run.snapshot import (
    CLOSED,
    DEAD,
    FAILED,
    FINISHED,
    KILLED,
    PLAYING,
    RunError,
    RunSettings,
    Snapshot,
    Status,
)
from lcviz.text import nbytes_text
from lcviz.ui import follow_weight, recording, session, widgets
from lcviz.ui.settings import SPEEDS, describe, settings_form, speed_slider, training_of

from .details.page import show_details
from .page_kill import kill_button, poll_seconds
from .page_pictures import show_pictures
from .page_step_slider import chosen_step, follow_newest

PATIENCE = 3.0  # seconds that a click waits for what it began
_PROBLEM = "live-problem"  # in the session: when, and why a button could not do what it should
Moment = tuple[RunSettings, Status | None]  # of the form, and of one's own run


def page() -> None:
    """The whole page."""
    with st.container(key="unseen"):  # the menu above says it, too
        st.title("LC-Checkpoint, live", anchor=False)
    settings = settings_form()
    run = session.current_run()
    if run is None:
        with st.container(horizontal=True, vertical_alignment="center", key="controls"):
            _keep((settings, None), _start_button(settings))
            recording.label("This server trains its own example meanwhile.")
        _show_problem((settings, None))
        recording.pictures()
        if not session.all_runs().prepared():
            session.rerun_with_example()
        return
    snapshot = run.snapshot()
    now = settings, None if session.is_example(run) else snapshot.status
    _keep(now, _controls(run, snapshot, settings))
    _show_problem(now)
    poll = poll_seconds(run)
    st.fragment(_watched, run_every=poll)(run, settings, poll, _drawn(snapshot))
    with st.container(horizontal=True, vertical_alignment="center", key="below"):
        follow_weight.choosers(run)
        details = st.toggle(
            "Details",
            key="details",
            bind="query-params",
            help="Sizes over time, bits by x, the code as a tree and a table, removed buckets, "
            "where the time goes, and the lines for your own training.",
        )
        widgets.tables_toggle()
        st.caption(describe(run.settings))
    follow_weight.followed_line(run)
    if details:
        show_details(run)


def _watched(run: Run, settings: RunSettings, poll: float | None, drawn: object) -> None:
    """What follows the run. drawn: what the rest of the page shows."""
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != poll_seconds(run) or drawn != _drawn(snapshot):
        st.rerun()  # the whole page: its pace or its buttons change, or another tab reset the run
    _say_how_it_is(run, snapshot, settings)
    if snapshot.newest.kind == "base":
        st.subheader(f"The base is saved: {nbytes_text(snapshot.newest.nbytes)}", anchor=False)
        st.markdown(
            "It holds the starting weights, bit for bit. Every checkpoint after it is a small δ: "
            "press *Play*, or *Step* for one."
        )
        return
    show_pictures(run, snapshot, settings)


def _drawn(snapshot: Snapshot) -> tuple[object, ...]:
    """What buttons and details depend on."""
    buttons = snapshot.status, len(snapshot.checkpoints) > 1
    if not st.session_state.get("details"):
        return buttons
    return *buttons, chosen_step(), follow_weight.chosen_bucket()


def _controls(run: Run, snapshot: Snapshot, settings: RunSettings) -> str | None:
    """All buttons. Returns why one could not do what it should."""
    playing, over = snapshot.status == PLAYING, snapshot.status in (FINISHED, FAILED, *DEAD)
    problem = None
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        if session.is_example(run):
            problem = _start_button(settings)
            st.markdown(f"An example: {run.task.title}, trained on this server.", width="content")
            return problem
        label, icon = ("Pause", "pause") if playing else ("Play", "play_arrow")
        st.button(
            label,
            type=widgets.main_button(),
            icon=f":material/{icon}:",
            disabled=over,
            key="pause" if playing else "play",  # a click that comes twice does the same twice
            help="Key: space.",
            on_click=_play_or_pause,
            args=(run, not playing),  # as its label, whatever another tab has done since
        )
        st.button(
            "Step",
            icon=":material/skip_next:",
            disabled=playing or over,
            key="step",
            help="Train up to the next checkpoint, then pause. Key: →.",
            on_click=_step,
            args=(run,),
        )
        problem = kill_button(run, snapshot)
        if widgets.button(
            "Reset",
            icon=":material/restart_alt:",
            key="reset",
            help="Begin anew with the settings at the side; this run and its chain are "
            "deleted. Export first what you want to keep.",
        ):
            problem = _create_run(settings, play=False, instead_of=run)
        run.set_speed(SPEEDS[speed_slider()])
    return problem


def _say_how_it_is(run: Run, snapshot: Snapshot, settings: RunSettings) -> None:
    """The run's status, and what to do about it."""
    if session.is_example(run):
        return
    if snapshot.status == FAILED:
        _show_error(snapshot.message)
    elif snapshot.message and snapshot.status != KILLED:  # the report of the kill has its message
        st.info(snapshot.message, icon=":material/pause_circle:")
    elif training_of(settings) != training_of(run.settings):
        st.info("The settings at the side don't apply to this run: Reset begins a new one.")


def _keep(now: Moment, problem: str | None) -> None:
    """Keep a problem until the next click, or until the settings or the run's status change."""
    if problem:
        st.session_state[_PROBLEM] = now, problem


def _show_problem(now: Moment) -> None:
    held = st.session_state.get(_PROBLEM)
    if held is not None and held[0] == now:
        _show_error(held[1])


def _show_error(problem: str) -> None:
    st.error(problem, icon=":material/error:")


def _play_or_pause(run: Run, play: bool) -> None:
    st.session_state.pop(_PROBLEM, None)
    if play:
        run.play()
    else:
        run.pause()
        run.wait(PATIENCE)  # the iteration under way is shown, too


def _step(run: Run) -> None:
    st.session_state.pop(_PROBLEM, None)
    run.step()
    run.wait(PATIENCE)  # then it polls: a run that nobody polls would pause


def _start_button(settings: RunSettings) -> str | None:
    """The button for a first run. Returns why the run cannot start, if it cannot."""
    wanted = widgets.button(
        "Start live training",
        type=widgets.main_button(),
        icon=":material/play_arrow:",
        key="start",
        help="With the settings at the side.",
    )
    return _create_run(settings, play=True) if wanted else None


def _create_run(settings: RunSettings, *, play: bool, instead_of: Run | None = None) -> str:
    """Make a run and show it. Returns why it cannot start; then nothing is lost."""
    try:
        if settings.folder:
            session.check_may_read(Path(os.path.expanduser(settings.folder)))
        run = session.all_runs().create(settings, instead_of)
    except (RunError, demo_models.DataError, codec.LccError) as exc:
        problem = f"This run cannot start. {str(exc).rstrip('.')}."
    else:
        if play:
            run.play()
        st.session_state.pop(_PROBLEM, None)
        follow_newest(True)
        session.look_at(run)
        st.rerun()
    return problem
