"""Live: train a small model and see every checkpoint go through the codec.

The controls are part of the page itself. One polling fragment holds all that changes while the run
plays; its pictures keep their places from tick to tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import streamlit as st

from lcviz.lab.tuner.candidates import Setting
from lcviz.play import page_board
from lcviz.run.run import Run
from lcviz.run.snapshot import (
    CLOSED,
    DEAD,
    FAILED,
    FINISHED,
    KILLED,
    PLAYING,
    RunSettings,
    Snapshot,
    Status,
)
from lcviz.text import enumerated, nbytes_text
from lcviz.ui import navigation, session, share
from lcviz.ui.live_settings import own_training, run_parameters
from lcviz.ui.polling import polled
from lcviz.ui.set_widgets import set_again
from lcviz.ui.settings import (
    Form,
    describe,
    other_training,
    settings_form,
    speed_slider,
)
from lcviz.ui.steering import Steering, keep_in_browser

from .page_attempt import CARRIES, stored_attempt
from .page_kill import kill_button, kill_report, poll_seconds, reports_kill
from .page_pictures import show_base, show_pictures
from .page_play import play_button
from .page_start import begin_button, show_example, show_form_error, start_button, take_sent
from .page_step import look_into

PATIENCE = 3.0  # seconds that a click waits for its effect
TRY_POLL_SECONDS = 0.4
_TRYING = "live-trying"  # in the session: whether a try or a measurement is still under way
_DRAWN = "live-drawn"  # in the session: True once this page was drawn
_PROBLEM = "live-problem"  # in the session: (situation, why a button failed in it)
Situation = tuple[RunSettings | None, Status]  # the form's settings, the run


def page() -> None:
    """The whole page."""
    unseen = st.container(key="unseen")
    with unseen:
        st.title("LC-Checkpoint, live", anchor=False)  # only for screen readers
        page_board.load()
    take_sent()
    set_again()
    _adopt_settings()
    if attempt := stored_attempt():
        attempt.is_ahead = False
    form = settings_form()
    if session.steered().just_begun() is not None:
        st.session_state.pop(_PROBLEM, None)
        look_into(None)
    run = session.own_run()
    with unseen:
        keep_in_browser(session.steered())  # the link may have brought a new key
    if run is None:
        show_example(form)
        return
    snapshot = run.snapshot()
    situation = form.settings, snapshot.status
    switch_above = not reports_kill(run, snapshot)  # the report needs the place
    _show_problem(situation, _controls(run, snapshot, form, switch_above=switch_above))
    poll = _pace(run)
    # If a field of the form is wrong, the pictures show the run's own coding.
    settings = form.settings or replace(run.settings, coding=form.coding or run.settings.coding)
    page_state: list[object] = []
    polled(poll, _watched, run, settings, poll, page_state)
    with st.container(horizontal=True, vertical_alignment="center", key="below"):
        if not switch_above:
            _carries_toggle()
        play_button(run, settings)
        st.button(
            "Back to the example",
            icon=":material/arrow_back:",
            type="tertiary",
            key="to-example",
            help="The run stays on this server for a while: its link opens it again.",
            on_click=session.look_at,
            args=(None,),
        )
        st.caption(describe(run.settings))
    setting = Setting(run.settings.coding, run.settings.interval)
    own_training(setting, optimizer=run.settings.optimizer_state)
    page_state.append(_page_state(snapshot))


def _adopt_settings() -> None:
    """Start the sidebar with the settings of the run in the link, unless the link has settings.

    Otherwise a visitor who only opens a run would see it with the sidebar's defaults.
    """
    is_first = _DRAWN not in st.session_state
    st.session_state[_DRAWN] = True
    if is_first and (run := session.all_runs().get(session.remembered("run"))) is not None:
        settings = run_parameters(run.settings)
        if not settings.keys() & st.query_params.to_dict().keys():
            st.switch_page(
                navigation.page("live"), query_params=st.query_params.to_dict() | settings
            )


def _watched(run: Run, settings: RunSettings, poll: float | None, page_state: list[object]) -> None:
    """The part of the page that follows the run.

    page_state: `_page_state` when the rest of the page was drawn; empty until then.
    """
    started = time.perf_counter()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != _pace(run) or _is_old(page_state, snapshot):
        st.rerun()  # the whole page: its pace or its buttons change, or another tab reset the run
    _show_status(run, snapshot, settings)
    if snapshot.newest.kind == "base":
        first = (
            "the first δ comes in a moment."
            if snapshot.status == PLAYING
            else "press Play, or Step, for the first δ."
        )
        show_base(run, f"The base is saved, {nbytes_text(snapshot.newest.nbytes)}: {first}")
        return
    st.session_state[_TRYING] = show_pictures(run, snapshot, settings)
    if snapshot.status == PLAYING:
        session.time_look(run, time.perf_counter() - started)
    # The pictures come first. Then the rest of the page follows what a visitor changed in them.
    attempt = stored_attempt()
    is_ahead = attempt is not None and attempt.is_ahead
    if is_ahead or _is_old(page_state, snapshot) or poll != _pace(run):
        st.rerun()


def _pace(run: Run) -> float | None:
    """Seconds between looks at the run; None if nothing changes."""
    return TRY_POLL_SECONDS if st.session_state.get(_TRYING) else poll_seconds(run)


def _is_old(page_state: list[object], snapshot: Snapshot) -> bool:
    return bool(page_state) and page_state[0] != _page_state(snapshot)


def _page_state(snapshot: Snapshot) -> tuple[object, ...]:
    """Everything that buttons depend on."""
    return snapshot.status, len(snapshot.checkpoints) > 1


def _controls(run: Run, snapshot: Snapshot, form: Form, *, switch_above: bool) -> str | None:
    """All buttons. Returns the error if a click failed.

    switch_above: whether the switch of the track stands here, not below the pictures.
    """
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        if session.steered().allows(run):
            problem = _steering(run, snapshot, form)
        else:
            st.markdown("You are watching. Only the run's owner can steer it.", width="content")
            problem = start_button(form, "Start your own")
            share.popover(run)
        if switch_above:
            _carries_toggle()
        if snapshot.kills:  # in this row the report moves no picture
            polled(poll_seconds(run), kill_report, run)
    return problem


def _carries_toggle() -> None:
    """The switch that tries the whole run without the track."""
    st.toggle(
        "Keep what is dropped for next time",
        value=True,
        key=CARRIES,
        bind="query-params",
        help="On, as in the paper: what a checkpoint leaves out is still in the next δ. Off: "
        "each δ is the change since the last checkpoint, and what is left out is lost. The "
        "whole run is saved once more like this.",
    )


def _steering(run: Run, snapshot: Snapshot, form: Form) -> str | None:
    """The buttons for a visitor who may steer the run. Returns the error if a click failed."""
    playing, over = snapshot.status == PLAYING, snapshot.status in (FINISHED, FAILED, *DEAD)
    steering = session.steered()
    label, icon = ("Pause", "pause") if playing else ("Play", "play_arrow")
    st.button(
        label,
        type="primary",
        icon=f":material/{icon}:",
        disabled=over,
        key="pause" if playing else "play",
        help="Key: space.",
        on_click=_steer,
        args=(steering, run, _pause if playing else Run.play),  # a click does what the label says
    )
    st.button(
        "Step",
        icon=":material/skip_next:",
        disabled=playing or over,
        key="step",
        help="Train up to the next checkpoint, then pause. Key: →.",
        on_click=_steer,
        args=(steering, run, _step),
    )
    problem = kill_button(run, snapshot)
    problem = _reset_button(run, snapshot, form) or problem
    share.popover(run)
    show_form_error(form)
    if snapshot.status not in DEAD:  # the report takes the slider's place
        speed_slider(run, steering)
    return problem


def _reset_button(run: Run, snapshot: Snapshot, form: Form) -> str | None:
    """The button Reset, which starts over. Returns the error if that fails.

    A second click confirms it if checkpoints would be deleted.
    """
    deletes, icon = len(snapshot.checkpoints) > 1, ":material/restart_alt:"
    disabled = bool(form.wrong)
    text = form.correct_first or "Start over with the sidebar settings."
    key = f"ask-reset-{run.id}"  # under one key it would stay open over the next run
    box = partial(st.popover, "Reset", icon=icon, key=key, disabled=disabled, help=text)
    with box() if deletes else nullcontext():
        if deletes:
            st.markdown("This deletes the run and its checkpoints: export first what you need.")
        return begin_button(
            "Delete and start over" if deletes else "Reset",
            form,
            run,
            icon=icon,
            key="reset",
            about=run.id,
            help=None if deletes else text,
        )


def _show_status(run: Run, snapshot: Snapshot, settings: RunSettings) -> None:
    """The run's status, and what to do about it."""
    may_steer = session.steered().allows(run)
    if snapshot.status == FAILED:
        _show_error(snapshot.message)
    elif snapshot.message and snapshot.status != KILLED:  # the report of the kill has its message
        st.info(snapshot.message, icon=":material/pause_circle:")
    elif may_steer and (other := other_training(settings, run.settings)):
        st.info(
            f"This run keeps its own {enumerated(other)}. *Reset* starts a new run with the "
            "sidebar settings."
        )


def _show_problem(situation: Situation, problem: str | None) -> None:
    """Show a problem until the next click, or until the settings or the run's status change."""
    if problem:
        st.session_state[_PROBLEM] = situation, problem
    problem_situation, text = st.session_state.get(_PROBLEM, (None, ""))
    if problem_situation == situation:
        _show_error(text)


def _show_error(problem: str) -> None:
    st.error(problem, icon=":material/error:")


def _steer(steering: Steering, run: Run, act: Callable[[Run], object]) -> None:
    """A callback. It acts first: access to the session may interrupt it."""
    with steering.turn:  # a second click on Step is a second step
        act(steering.of(run))
    st.session_state.pop(_PROBLEM, None)


def _pause(run: Run) -> None:
    run.pause()
    run.wait(PATIENCE)  # until the iteration under way is done


def _step(run: Run) -> None:
    run.step()
    run.wait(PATIENCE)  # then the page polls: a run that nobody polls would pause
