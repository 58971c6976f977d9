"""Live: train a small model and see every checkpoint go through the codec.

One polling fragment holds what changes while the run plays. Its charts keep their place from tick
to tick.
"""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

import codec
import demo_models
from lcviz.lab.tuner.candidates import Setting
from lcviz.recover.page_timelines import timelines_of_run
from lcviz.run.run import Run
from lcviz.run.snapshot import (
    CLOSED,
    DEAD,
    FAILED,
    FINISHED,
    KILLED,
    PLAYING,
    RESTORING,
    Checkpoint,
    RunError,
    RunSettings,
    Snapshot,
)
from lcviz.text import nbytes_text
from lcviz.ui import session, widgets
from lcviz.ui.curves import loss_curve, size_curve
from lcviz.ui.glossary import explained
from lcviz.ui.live_settings import own_training
from lcviz.ui.settings import describe, settings_form

from .page_checkpoint import show_checkpoint
from .page_costs import loss_or_nan, show_costs
from .page_kill import kill_button, poll_seconds, show_kill
from .page_step_slider import follow_newest, step_slider

PATIENCE = 3.0  # seconds that a click waits for what it began


def page() -> None:
    """The whole page."""
    settings = settings_form()
    st.title("LC-Checkpoint, live", anchor=False)
    st.markdown(
        explained(
            "A [[checkpoint]] is a copy of the model, saved for training to go on after a crash. "
            "LC-Checkpoint saves only the **difference [[δ|delta]]** between the model and what a "
            "restart would load (the **[[track]]**), keeps only its largest power-of-two "
            "**[[buckets|bucket]]**, and writes those with a **[[Huffman|Huffman code]]** code, "
            "[[runs of zeros|run-length coder]] included. What is left out stays in the next δ."
        )
    )
    run = session.current_run()
    if run is None:
        with st.container(key="controls"):
            problem = _start_button(settings)
        _show_error(problem)
        session.await_example()
        return
    poll = poll_seconds(run)
    st.fragment(_dashboard, run_every=poll)(run, settings, poll)
    timelines_of_run("live", run.settings)
    own_training(Setting(run.settings.coding, run.settings.interval))


def _dashboard(run: Run, settings: RunSettings, poll: float | None) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != poll_seconds(run):
        st.rerun()  # the whole page: polling changes its interval, or another tab reset the run
    _controls(run, snapshot, settings)
    base = snapshot.newest
    if base.kind == "base":
        st.subheader(f"The base is saved: {nbytes_text(base.nbytes)}, exact", anchor=False)
        st.markdown(
            f"A chain begins with the starting weights, stored bit for bit; their loss is "
            f"{base.live_loss:.6f}. Everything after it is a small delta: *Play* trains on and "
            "saves, *Step* goes to the next checkpoint."
        )
        return
    if snapshot.kills:
        show_kill(run, snapshot)
    show_costs(snapshot, run.settings)
    viewed = step_slider(run, snapshot)
    _curves(run, snapshot, viewed)
    show_checkpoint(run, snapshot, viewed)


def _controls(run: Run, snapshot: Snapshot, settings: RunSettings) -> None:
    playing, over = snapshot.status == PLAYING, snapshot.status in (FINISHED, FAILED, *DEAD)
    problem = None
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        if session.is_example(run):
            problem = _start_button(settings)
        else:
            label, icon = ("Pause", "pause") if playing else ("Play", "play_arrow")
            st.button(
                label,
                type=widgets.main_button(),
                icon=f":material/{icon}:",
                disabled=over,
                key="play",
                on_click=_play_or_pause,
                args=(run, not playing),  # as its label, whatever another tab has done since
            )
            if st.button(
                "Step",
                icon=":material/skip_next:",
                disabled=playing or over,
                key="step",
                help="Train up to the next checkpoint, then pause.",
            ):
                run.step()
                run.wait(PATIENCE)  # then it polls: a run that nobody polls would pause
                st.rerun()
            problem = kill_button(run, snapshot)
            if st.button(
                "Reset",
                icon=":material/restart_alt:",
                key="reset",
                help="Begin anew with the settings at the side; this run and its chain are "
                "deleted. Export first what you want to keep.",
            ):
                problem = _create_run(settings, play=False, instead_of=run)
        st.markdown(_status_line(run, snapshot), width="content")
    st.caption(describe(run.settings))
    _show_error(problem)
    if snapshot.status == FAILED:
        _show_error(snapshot.message)
    elif snapshot.message and snapshot.status != KILLED:  # the report of the kill has its message
        st.info(snapshot.message, icon=":material/pause_circle:")
    elif settings != run.settings and not session.is_example(run):
        st.info("The settings at the side don't apply to this run: Reset begins a new one.")


def _show_error(problem: str | None) -> None:
    if problem:
        st.error(problem, icon=":material/error:")


def _play_or_pause(run: Run, play: bool) -> None:
    if play:
        run.play()
    else:
        run.pause()
        run.wait(PATIENCE)  # the iteration under way is shown, too


def _start_button(settings: RunSettings) -> str | None:
    """The button for a first run. Returns why the run cannot start, if it cannot."""
    wanted = st.button(
        "Start live training",
        type=widgets.main_button(),
        icon=":material/play_arrow:",
        key="start",
        help="With the settings at the side.",
    )
    return _create_run(settings, play=True) if wanted else None


def _status_line(run: Run, snapshot: Snapshot) -> str:
    title = run.task.title
    if session.is_example(run):
        return f"Below: a finished example, {title}, trained on this server."
    text = f"{title}: **iteration {snapshot.iteration}** of {run.settings.stop_after}"
    if snapshot.iteration:
        text += f", {snapshot.rate:.3g} iterations/s"
    end = {FINISHED: ", finished.", KILLED: ", killed.", RESTORING: ", killed, being restored."}
    return text + end.get(snapshot.status, "")


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
        follow_newest(True)
        session.look_at(run)
        st.rerun()
    return problem


def _curves(run: Run, snapshot: Snapshot, viewed: Checkpoint) -> None:
    every, newest, measured = snapshot.checkpoints, snapshot.newest, snapshot.measured
    budget = run.settings.coding.budget
    losses = loss_curve(
        [c.step for c in measured],
        [loss_or_nan(c.live_loss) for c in measured],
        [loss_or_nan(c.restored_loss) for c in measured],
        viewed.step,
        [kill.iteration for kill in snapshot.kills],
    )
    sizes = size_curve(
        snapshot.steps,
        [c.nbytes for c in every],
        [c.full_nbytes for c in every],
        newest.nbytes - newest.stream_nbytes,
        viewed.step,
        budget,
        [c.exact_nbytes + (budget or 0) * c.lossy_nbytes for c in every],
    )
    grid = st.grid(2, min_column_width=420, border=True, key="curves")
    for panel, name in ((losses, "loss"), (sizes, "size")):
        with grid.cell():
            widgets.show(panel, name)
