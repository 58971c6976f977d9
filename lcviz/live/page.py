"""Live: train a small model and watch every checkpoint go through the codec.

What changes while the run plays stands in one polling fragment; the charts in it keep their
place in the page from tick to tick.
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
from lcviz.ui import session as state
from lcviz.ui import widgets
from lcviz.ui.curves import loss_curve, size_curve
from lcviz.ui.glossary import explained
from lcviz.ui.live_settings import own_training
from lcviz.ui.settings import describe, settings_form

from .page_headline import headline, number
from .page_kill import kill_button, killed, pace
from .page_panels import inside
from .page_scrubber import follow_newest, scrubber

PATIENCE = 3.0  # seconds that a click waits for what it began


def page() -> None:
    """The whole page."""
    settings = settings_form()
    st.title("LC-Checkpoint, live", anchor=False)
    st.markdown(
        explained(
            "A [[checkpoint]] is a copy of the model, saved so that training can go on after a "
            "crash. LC-Checkpoint saves only the **difference [[δ|delta]]** between the model and "
            "what a restart would have (the **[[track]]**), keeps of it only the largest "
            "power-of-two **[[buckets|bucket]]**, and writes those with a "
            "**[[Huffman|Huffman code]]** code, [[runs of zeros|run-length coder]] included. What "
            "one checkpoint drops, the next one sees again."
        )
    )
    run = state.current_run()
    if run is None:
        with st.container(key="controls"):
            problem = _start(settings)
        if problem:
            st.error(problem, icon=":material/error:")
        state.await_example()
        return
    poll = pace(run)
    st.fragment(_dashboard, run_every=poll)(run, settings, poll)
    timelines_of_run("live", run.settings)
    chosen = run.settings
    own_training(Setting(chosen.bits, chosen.budget, chosen.scope, chosen.coder, chosen.interval))


def _dashboard(run: Run, settings: RunSettings, poll: float | None) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != pace(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    _controls(run, snapshot, settings)
    if snapshot.newest.kind == "base":
        _base_only(snapshot)
        return
    if snapshot.kills:
        killed(run, snapshot)
    headline(snapshot, run.settings)
    viewed = scrubber(run, snapshot)
    _curves(run, snapshot, viewed)
    inside(run, snapshot, viewed)


def _controls(run: Run, snapshot: Snapshot, settings: RunSettings) -> None:
    playing, over = snapshot.status == PLAYING, snapshot.status in (FINISHED, FAILED, *DEAD)
    problem = None
    with st.container(horizontal=True, vertical_alignment="center", key="controls"):
        if state.is_example(run):
            problem = _start(settings)
        else:
            label, icon = ("Pause", "pause") if playing else ("Play", "play_arrow")
            st.button(
                label,
                type=widgets.main_button(),
                icon=f":material/{icon}:",
                disabled=over,
                key="play",
                on_click=_turn,
                args=(run, not playing),  # what it said, whatever another tab has done since
            )
            if st.button(
                "Step",
                icon=":material/skip_next:",
                disabled=playing or over,
                key="step",
                help="Train up to the next checkpoint, then pause.",
            ):
                run.step()
                run.wait(PATIENCE)  # longer ones are watched: else the run took it that nobody is
                st.rerun()
            problem = kill_button(run, snapshot)
            if st.button(
                "Reset",
                icon=":material/restart_alt:",
                key="reset",
                help="Begin anew with the settings at the side; this run and its chain are "
                "deleted. Export first what you want to keep.",
            ):
                problem = _begin(settings, play=False, instead_of=run)
        st.markdown(_where(run, snapshot), width="content")
    st.caption(describe(run.settings))
    if problem:
        st.error(problem, icon=":material/error:")
    if snapshot.status == FAILED:
        st.error(snapshot.message, icon=":material/error:")
    elif snapshot.message and snapshot.status != KILLED:  # what is said of that, is said below
        st.info(snapshot.message, icon=":material/pause_circle:")
    elif settings != run.settings and not state.is_example(run):
        st.info("The settings at the side are not this run's: Reset begins a new run with them.")


def _turn(run: Run, play: bool) -> None:
    """Play, or pause."""
    if play:
        run.play()
    else:
        run.pause()
        run.wait(PATIENCE)  # the iteration under way, so that it is shown


def _start(settings: RunSettings) -> str | None:
    """The button that everybody presses first; says why the run cannot start, if it cannot."""
    wanted = st.button(
        "Start live training",
        type=widgets.main_button(),
        icon=":material/play_arrow:",
        key="start",
        help="With the settings at the side.",
    )
    return _begin(settings, play=True) if wanted else None


def _where(run: Run, snapshot: Snapshot) -> str:
    title = run.task.title
    if state.is_example(run):
        return f"Below: a finished example, {title}, trained here when the first page was opened."
    text = f"{title}: **iteration {snapshot.iteration}** of {run.settings.stop_after}"
    if snapshot.iteration:
        text += f", {snapshot.rate:.3g} iterations/s"
    end = {FINISHED: ", finished.", KILLED: ", killed.", RESTORING: ", killed, being restored."}
    return text + end.get(snapshot.status, "")


def _begin(settings: RunSettings, *, play: bool, instead_of: Run | None = None) -> str:
    """Make a run and look at it; returns why it cannot start, and then nothing is lost."""
    try:
        if settings.folder:
            state.check_may_read(Path(os.path.expanduser(settings.folder)))
        run = state.all_runs().create(settings, instead_of)
    except (RunError, demo_models.DataError, codec.LccError) as exc:
        problem = f"This run cannot start. {str(exc).rstrip('.')}."
    else:
        if play:
            run.play()
        follow_newest(True)
        state.look_at(run)
        st.rerun()
    return problem


def _base_only(snapshot: Snapshot) -> None:
    """Before the first delta there is nothing to take apart."""
    base = snapshot.newest
    st.subheader(f"The base is saved: {nbytes_text(base.nbytes)}, exact", anchor=False)
    st.markdown(
        f"A chain begins with the starting weights, stored bit for bit; their loss is "
        f"{base.live_loss:.6f}. Everything after it is a small delta: *Play* trains on and saves, "
        "*Step* goes to the next checkpoint."
    )


def _curves(run: Run, snapshot: Snapshot, viewed: Checkpoint) -> None:
    every, newest, measured = snapshot.checkpoints, snapshot.newest, snapshot.measured
    live = [number(c.live_loss) for c in measured]
    restored = [number(c.restored_loss) for c in measured]
    nbytes, full = [c.nbytes for c in every], [c.full_nbytes for c in every]
    header = newest.nbytes - newest.stream_nbytes
    grid = st.grid(2, min_column_width=420, border=True, key="curves")
    with grid.cell():
        steps = [c.step for c in measured]
        crashes = [kill.iteration for kill in snapshot.kills]
        widgets.show(loss_curve(steps, live, restored, viewed.step, crashes), "loss")
    with grid.cell():
        budget = run.settings.budget
        allowed = [c.exact_nbytes + (budget or 0) * c.lossy_nbytes for c in every]
        sizes = size_curve(snapshot.steps, nbytes, full, header, viewed.step, budget, allowed)
        widgets.show(sizes, "size")
