"""Kill it now: what a crash of the run takes, the race back from it, and going on."""

from __future__ import annotations

import functools
import math

import streamlit as st

from lcviz.lab.progress import Progress
from lcviz.lab.recovery.kill import SECONDS, Crash, OnDisk, Raced
from lcviz.recover.page_rework import nothing_saved
from lcviz.run.run import Run
from lcviz.run.snapshot import (
    DEAD,
    FAILED,
    RESTORING,
    Checkpoint,
    Kill,
    RunError,
    RunSettings,
    Snapshot,
)
from lcviz.text import enumerated, loss_text, nbytes_text, percent_text, plural
from lcviz.ui import session, widgets
from lcviz.ui.experiment import Asking, ControlTexts

from .kill_figure import kill_panel, rework_table, verdict

PATIENCE = 0.4  # seconds that a click waits for a chain; a short one is read by then
LOSSES = {"trend": "on the trend", "measured": "as measured"}


def kill_button(run: Run, snapshot: Snapshot) -> str | None:
    """The button that crashes the run. Returns the problem if the run could not be killed."""
    refused, problem = _why_not(snapshot), None
    if widgets.button(
        "Kill it now",
        icon=":material/bolt:",
        key="kill",
        about=(run.id, len(snapshot.kills)),
        disabled=refused is not None,
        help=refused
        or "A crash at this very moment: the run's thread ends, and the model and its optimizer "
        "are gone from memory. The chain on disk stays. Then see what it cost.",
    ):
        try:
            session.steered().of(run).kill()
        except RunError as exc:
            problem = str(exc)
        else:
            st.rerun()
    return problem


def _why_not(snapshot: Snapshot) -> str | None:
    """Why the run cannot be killed now."""
    if snapshot.status in DEAD:
        return "The run is dead already: go on from its checkpoint, or Reset."
    if snapshot.status == FAILED:
        return "This run has failed by itself: there is nothing left to kill."
    if len(snapshot.checkpoints) < 2:
        return "Not yet: only the base is saved. Play, or Step to the first checkpoint."
    return None


def poll_seconds(run: Run) -> float | None:
    """Seconds between looks at a run, and at the race that this session follows."""
    asking = _asking(run, run.snapshot())
    return session.POLL_SECONDS if asking and asking.watched else session.poll_interval(run)


def show_kill(run: Run, snapshot: Snapshot) -> None:
    """The newest crash of a killed run: what is gone, what is left, and the race."""
    kill, dead = snapshot.kills[-1], snapshot.status in DEAD
    with st.container(border=True, key="kill-report"):
        title = "Killed at" if dead else "The crash at"
        st.subheader(f"{title} iteration {kill.iteration}", anchor=False)
        if dead:
            st.markdown(_describe_kill(snapshot, kill, run.settings))
            _go_on(run, snapshot, kill)
        else:
            st.markdown(
                f"The run went on from step {kill.step}, restored from its chain"
                f"{_optimizer_reset(run.settings)}. The crash is marked on the loss curve."
            )
        asking = _asking(run, snapshot)
        if asking is None:
            st.info(_too_long(_crash(run, snapshot).shortest, kill), icon=":material/timer_off:")
        else:
            _race(asking, kill, session.steered().allows(run))


def _describe_kill(snapshot: Snapshot, kill: Kill, settings: RunSettings) -> str:
    """What is gone and what is left, as two points of a list."""
    again = kill.step in snapshot.resumed_at  # what it had left out was gone already
    gone, memory = ["the model"], ""
    if _has_memory(settings):
        gone.append("the optimizer's state")
        memory = " It holds the model alone: if the run goes on, the optimizer's state is reset."
    if kill.lost:
        gone.append(f"the {plural(kill.lost, 'iteration')} trained since step {kill.step}")
    left_out = ""
    if not again:
        gone.append(f"what the checkpoint of step {kill.step} had left out")
        left_out = _left_out(snapshot.at(kill.step))
    none = "" if kill.lost else " No iteration lost."
    n, nbytes = len(snapshot.checkpoints), sum(c.nbytes for c in snapshot.checkpoints)
    return (
        f"- **Gone** from memory: {enumerated(gone)}{left_out}.{none}\n"
        f"- **Left**: the chain on disk, {plural(n, 'record')}, {nbytes_text(nbytes)}, up to step "
        f"{kill.step}. Nothing that was saved is lost.{memory}"
    )


def _left_out(saved: Checkpoint) -> str:
    """How much of the training a checkpoint did not hold."""
    if not math.isfinite(saved.distance):
        return ", so much that it has no number"
    text = f": {percent_text(saved.distance)} of the distance trained"
    if saved.live_loss is None or saved.restored_loss is None:
        return text
    live, restored = (loss_text(loss, 4) for loss in (saved.live_loss, saved.restored_loss))
    if live == restored:
        return f"{text} (the loss is {live} with and without it)"
    return f"{text} (loss: restored {restored}, live {live})"


def _has_memory(settings: RunSettings) -> bool:
    """Whether the optimizer has a state."""
    return settings.optimizer == "adam" or settings.momentum > 0


def _optimizer_reset(settings: RunSettings) -> str:
    """That momentum or Adam's moments are not in the chain."""
    if not _has_memory(settings):
        return ""
    what = "Adam's moments were" if settings.optimizer == "adam" else "momentum was"
    return f"; {what} not in the chain and began at zero"


def _go_on(run: Run, snapshot: Snapshot, kill: Kill) -> None:
    if snapshot.status == RESTORING:
        st.info(
            f"Step {kill.step} is being restored: {plural(len(snapshot.checkpoints), 'record')} of "
            "the chain are read one after the other. The training goes on by itself.",
            icon=":material/hourglass_top:",
        )
        return
    if session.steered().allows(run) and widgets.button(
        "Go on from the checkpoint",
        icon=":material/play_arrow:",
        key="go-on",
        help=f"Restores step {kill.step} from the chain and trains on from there with the same "
        "batches; the chain goes on where it ended. The chain holds the model alone: the "
        "optimizer's state is reset.",
    ):
        session.steered().of(run).go_on_beside(PATIENCE)
        st.rerun()
    if snapshot.message:
        st.error(snapshot.message, icon=":material/error:")


def _crash(run: Run, snapshot: Snapshot) -> Crash:
    """Everything that decides the race back from the newest crash."""
    s, kill = run.settings, snapshot.kills[-1]
    deltas = [c for c in snapshot.checkpoints if c.kind == "delta" and c.step <= kill.step]
    return Crash(
        s.workload,
        s.seed,
        kill.iteration,
        s.interval,
        OnDisk("lc", chain=run.path, newest=kill.step),
        sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas),
        kill.died_as,
        frozenset(k.step for k in snapshot.kills[:-1]),
    )


def _asking(run: Run, snapshot: Snapshot) -> Asking[Raced] | None:
    """The race as a job; None if there was no crash, or no time for a race."""
    if not snapshot.kills:
        return None
    crash = _crash(run, snapshot).capped(snapshot.kills[-1].pace)
    return Asking("kill", crash, 1, functools.partial(_work, crash)) if crash else None


def _work(crash: Crash, _part: int, progress: Progress) -> Raced:
    return crash.race(progress)


def _race(asking: Asking[Raced], kill: Kill, mine: bool) -> None:
    crash, watching = asking.experiment, asking.watched
    assert isinstance(crash, Crash), "nothing else is asked for here"
    view = asking.look(watching)
    if not view.found and not watching:
        st.markdown(_offer(crash, kill))
    words = ControlTexts(
        start="Race back",
        icon=":material/sprint:",
        working=f"{crash.where(view.share)}.",
        help="In the background: the run can go on meanwhile, and you can stop the race.",
        stop_help="The race is given up; the run is not touched.",
        wrong="" if mine else "You are watching: only who began this run starts its race.",
    )
    asking.controls(view, watching, words)
    if view.found:
        _result(crash, view.found[0].value)


def _offer(crash: Crash, kill: Kill) -> str:
    fewer = again = ""
    if crash.hurried:
        fewer = f", few enough to take no more than {SECONDS / 60:.0f} minutes here"
    if crash.went_on:
        steps = enumerated([str(step) for step in sorted(crash.went_on)])
        again = f" It goes on from step {steps} as this run did."
    return (
        "How much work did that cost? **LC** restores from the chain this run left. **Full**, "
        "**SCAR** and **TOPN** get the same chance: the training is repeated from its seed with "
        f"the same batches.{again} Each saves at the same steps, SCAR and TOPN with no more bytes "
        f"a checkpoint than LC took on average, {percent_text(crash.share)} of float32. Then all "
        f"four race back, for at most {crash.cap} iterations{fewer}. About "
        f"{_duration(crash.seconds(kill.pace))} at most, measured by how fast the run was."
    )


def _too_long(crash: Crash, kill: Kill) -> str:
    return (
        f"A race back would repeat all {plural(crash.fail_at, 'iteration')} of this training: "
        f"about {_duration(crash.seconds(kill.pace))} in all on this server. A race may take "
        f"{SECONDS / 60:.0f} minutes. Kill a shorter or smaller run to see one, or look at "
        "Recover; the run itself can go on from its checkpoint."
    )


def _duration(seconds: float) -> str:
    if seconds < 1.5:
        return "1 second"
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def _result(crash: Crash, raced: Raced) -> None:
    st.markdown(verdict(raced.outcomes))
    if lost := nothing_saved(raced.outcomes):
        st.warning(lost, icon=":material/data_loss_prevention:")
    if not raced.alike:
        st.warning(
            "The repeated training did not reach the same bits as the killed one: full, SCAR and "
            "TOPN saved a slightly different training. Compare with care.",
            icon=":material/difference:",
        )
    losses = widgets.choice(
        "Loss",
        list(LOSSES),
        default="trend",
        key="kill_loss",
        format_func=LOSSES.__getitem__,
        bind="query-params",
        help="Rework is counted on the trend, where jumps from batch to batch are averaged out; as "
        "measured, whole iterations until the loss itself is back. See Recover for the protocol.",
    )
    widgets.show(kill_panel(raced.outcomes, crash.fail_at, losses == "trend"), "kill")
    st.table(rework_table(raced.outcomes), hide_index=True)
    same = "reached the same bits as the killed one. It " if raced.alike else ""
    st.caption(
        f"The repeated training {same}was saved by full, SCAR and TOPN at the run's own steps. "
        "Every method holds the model alone, as the chain does: the optimizer's state is reset "
        "for all of them. Distance: from the restored weights to those at the crash, as a share "
        "of how far training had moved them from their start. This is one crash of one seed; "
        "Recover has more."
    )
