"""Kill it now: what a crash of the run destroys, the race back from it, and going on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import streamlit as st

from demo_models.optimizers import WITH_MOMENTS
from lcviz.lab.recovery.kill import SECONDS, Crash, OnDisk, Raced
from lcviz.lab.recovery.recovery import Outcome
from lcviz.recover.page_rework import nothing_saved
from lcviz.run.run import Run
from lcviz.run.snapshot import DEAD, FAILED, RESTORING, Checkpoint, Kill, RunError, Snapshot
from lcviz.server.jobs import View
from lcviz.text import enumerated, loss_text, nbytes_text, percent_text, plural
from lcviz.ui import session, widgets
from lcviz.ui.experiment import ControlTexts, PageJob
from lcviz.ui.picture import Picture
from lcviz.ui.race import race_picture

from .headline import estimated_price
from .page_step import look_into

PATIENCE = 0.4  # seconds that a click waits for the restore; a short chain is read by then
RACE_POLL_SECONDS = 0.5
_CLOSED = "kill-closed"  # in the session: the crash whose race was closed


@dataclass(frozen=True)
class RaceBack:
    """The race back from the newest crash of a run.

    crash: everything that determines the race. job: of the race. view: the job's progress. Both are
    None if there is no time for a race. watching: whether this session follows the race or looks at
    its outcome. estimate: of the price of the crash, in iterations; None if there is none.
    """

    crash: Crash
    job: PageJob[Raced] | None
    view: View[Raced] | None
    watching: bool
    estimate: float | None

    @property
    def raced(self) -> Raced | None:
        """The outcome of the race, once it is over."""
        return self.view.finished_parts[0].value if self.view and self.view.finished_parts else None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes of the methods so far."""
        if self.raced:
            return self.raced.outcomes
        return (self.view.so_far or ()) if self.view else ()

    @property
    def lc_outcome(self) -> Outcome | None:
        """LC's outcome, once the race is over."""
        return self.raced.outcomes[-1] if self.raced else None

    @property
    def begun(self) -> bool:
        """Whether this session has started the race."""
        return self.job is not None and self.job.newest_key == self.job.key

    def close(self) -> None:
        """Hide the race once the run goes on."""
        st.session_state[_CLOSED] = self.crash

    @property
    def picture(self) -> Picture | None:
        """The race so far; None until a method runs."""
        if not self.outcomes:
            return None
        at, over = self.crash.fail_at, self.raced is not None
        return race_picture(self.outcomes, at, self.estimate, over=over, same_bytes=True)


def kill_button(run: Run, snapshot: Snapshot) -> str | None:
    """The button that crashes the run. Returns the error if a click failed.

    If the run is dead, the button has no tooltip: the pointer that killed it is still there.
    """
    dead, obstacle = snapshot.status in DEAD, _obstacle(snapshot)
    problem, steering = None, session.steered()
    if widgets.button(
        "Kill it now",
        icon=":material/bolt:",
        key="kill",
        about=(run.id, len(snapshot.kills)),
        disabled=dead or obstacle is not None,
        help=None
        if dead
        else obstacle
        or "A crash at this very moment: the model and its optimizer are gone from memory. The "
        "chain on disk stays as this run saved it, without your tries.",
    ):
        try:
            steering.of(run).kill()
        except RunError as exc:
            problem = str(exc)
        else:
            look_into(None)  # what a restart loads
            st.rerun()
    return problem


def _obstacle(snapshot: Snapshot) -> str | None:
    """Why a run that is not dead cannot be killed now; None if it can."""
    if snapshot.status == FAILED:
        return "This run has failed by itself: there is nothing left to kill."
    if len(snapshot.checkpoints) < 2:
        return "Not yet: only the base is saved. Play, or Step to the first checkpoint."
    return None


def poll_seconds(run: Run) -> float | None:
    """Seconds between looks at a run, and at the race that this session follows."""
    snapshot = run.snapshot()
    job = _job(_crash(run, snapshot), snapshot) if snapshot.kills else None
    return RACE_POLL_SECONDS if job and job.watched else session.poll_interval(run)


def race_back(run: Run, snapshot: Snapshot) -> RaceBack | None:
    """The race back from the newest crash; None if there was none."""
    if not snapshot.kills:
        return None
    crash = _crash(run, snapshot)
    estimate = estimated_price(snapshot, snapshot.newest.step) if snapshot.status in DEAD else None
    job = _job(crash, snapshot)
    if job is None:
        return RaceBack(crash, None, None, False, estimate)
    assert isinstance(job.experiment, Crash), "a race is of a crash"
    view = job.look(job.watched)
    closed = st.session_state.get(_CLOSED) == job.experiment
    over = job.newest_key == job.key and bool(view.finished_parts)
    watching = job.watched or (over and not closed)
    return RaceBack(job.experiment, job, view, watching, estimate)


def reports_kill(run: Run, snapshot: Snapshot) -> bool:
    """Whether `kill_report` has something to say about a crash or a race."""
    back = race_back(run, snapshot)
    return back is not None and (snapshot.status in DEAD or back.watching)


def kill_report(run: Run) -> None:
    """One row beside the buttons: what the newest crash destroyed, going on, and the race.

    Once the run has gone on, the row shows only a race that this session watches.
    """
    snapshot = run.snapshot()
    back = race_back(run, snapshot)
    if back is None:  # another tab has reset the run: the whole page runs again
        return
    kill, may_steer = snapshot.kills[-1], session.steered().allows(run)
    dead, racing = snapshot.status in DEAD, back.job is not None and back.job.watched
    with st.container(horizontal=True, vertical_alignment="center", key="kill-report"):
        if dead and not racing:  # the progress of a race needs the place
            text = f"**Killed at iteration {kill.iteration}**{_unsaved_text(snapshot, kill)}"
            st.markdown(text, help=_gone_and_left(snapshot, kill, run))
        if dead:
            _go_on(run, snapshot, back)
        if back.job and back.view and (dead or racing):
            texts = _texts(back, kill, may_steer=may_steer)
            back.job.controls(back.view, racing, texts, bar=False)
        elif dead:
            seconds = back.crash.shortest.seconds(kill.pace)
            text = f"No race back: it would take {_duration(seconds)} here."
            st.caption(text, width="content")
        elif back.watching and widgets.button(
            "Close the race", icon=":material/close:", key="kill-close"
        ):
            back.close()
            st.rerun()


def show_problems(snapshot: Snapshot, back: RaceBack) -> None:
    """Show what went wrong in going on and in the race."""
    if snapshot.status in DEAD and snapshot.message:
        st.error(snapshot.message, icon=":material/error:")
    if back.raced and (back.watching or snapshot.status in DEAD):
        _show_warnings(back.raced)


def _unsaved_text(snapshot: Snapshot, kill: Kill) -> str:
    """What no checkpoint has: the end of a sentence, short enough to stand beside buttons."""
    if kill.lost:
        return f", {plural(kill.lost, 'iteration')} not saved."
    return ", just saved." if _resumed_here(snapshot, kill) else ", right after a checkpoint."


def _resumed_here(snapshot: Snapshot, kill: Kill) -> bool:
    """Whether the run had resumed from this step: what it left out was gone before the crash."""
    return kill.step in _resumed_before(snapshot)


def _resumed_before(snapshot: Snapshot) -> set[int]:
    """The steps from which the run had resumed before its newest crash."""
    kill = snapshot.kills[-1]
    restarts = {s for s in snapshot.restarts if snapshot.status in DEAD or s < kill.step}
    return restarts | {earlier.step for earlier in snapshot.kills[:-1]}


def _gone_and_left(snapshot: Snapshot, kill: Kill, run: Run) -> str:
    """What is gone and what is left, as a list of two points in Markdown."""
    gone, optimizer = ["the model"], ""
    if run.settings.optimizer in WITH_MOMENTS or run.settings.momentum > 0:
        gone.append("the optimizer's state")
        optimizer = f" {_optimizer_text(run)}"
    if kill.lost:
        gone.append(f"the {plural(kill.lost, 'iteration')} trained since step {kill.step}")
    left_out = ""
    if not _resumed_here(snapshot, kill):
        gone.append(f"what the checkpoint of step {kill.step} had left out")
        left_out = _left_out_text(snapshot.at(kill.step))
    saved = [c for c in snapshot.checkpoints if c.step <= kill.step]
    return (
        f"- **Gone** from memory: {enumerated(gone)}{left_out}.\n"
        f"- **Left**: the chain on disk, {plural(len(saved), 'record')}, "
        f"{nbytes_text(sum(c.nbytes for c in saved))}, up to step {kill.step}.{optimizer}"
    )


def _left_out_text(checkpoint: Checkpoint) -> str:
    """How much of the training a checkpoint leaves out, in words."""
    if not math.isfinite(checkpoint.distance):
        return ", not finite"
    text = f": {percent_text(checkpoint.distance)} of the distance trained"
    if checkpoint.losses is None:
        return text
    live, restored = (loss_text(v, 4) for v in (checkpoint.losses.live, checkpoint.losses.restored))
    if live == restored:
        return f"{text} (the loss is {live} with and without it)"
    return f"{text} (loss: restored {restored}, live {live})"


def _go_on(run: Run, snapshot: Snapshot, back: RaceBack) -> None:
    kill = snapshot.kills[-1]
    if snapshot.status == RESTORING:
        n = plural(len(snapshot.checkpoints), "record")
        st.markdown(f"Restoring step {kill.step} from {n}…", width="content")
        return
    steering = session.steered()
    if steering.allows(run) and widgets.button(
        "Go on from the checkpoint",
        icon=":material/play_arrow:",
        key="go-on",
        help=f"Restores step {kill.step} from the chain and trains on with the same batches. "
        f"{_optimizer_text(run)}",
    ):
        steering.of(run).go_on_in_background(PATIENCE)
        if back.raced:  # the visitor has seen its outcome
            back.close()
        st.rerun()


def _optimizer_text(run: Run) -> str:
    """Whether the chain holds the optimizer's state, in words."""
    if run.settings.optimizer_state:
        return "The chain holds the optimizer's state, too: the run goes on with the saved moments."
    return "The chain holds the model alone: the optimizer's state is reset."


def _crash(run: Run, snapshot: Snapshot) -> Crash:
    """Everything that determines the race back from the newest crash."""
    s, kill = run.settings, snapshot.kills[-1]
    deltas = [c for c in snapshot.checkpoints if c.kind == "delta" and c.step <= kill.step]
    return Crash(
        s.workload,
        s.seed,
        kill.iteration,
        s.interval,
        OnDisk("lc", chain=run.path, newest=kill.step, whole=s.optimizer_state),
        sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas),
        kill.last_fingerprint,
        frozenset(_resumed_before(snapshot)),
    )


def _job(crash: Crash, snapshot: Snapshot) -> PageJob[Raced] | None:
    """The race as a job; None if there is no time for it."""
    capped = crash.capped(snapshot.kills[-1].pace)
    if capped is None:
        return None
    return PageJob("kill", capped, 1, lambda _part, report: capped.race(report))


def _texts(back: RaceBack, kill: Kill, *, may_steer: bool) -> ControlTexts:
    assert back.view is not None
    return ControlTexts(
        start="Race back",
        icon=":material/sprint:",
        working=f"{back.crash.where(back.view.share)}.",
        help=_offer(back.crash, kill),
        stop_help="Stops the race; the run is not touched.",
        wrong="" if may_steer else "You are watching: only the run's owner can start its race.",
    )


def _offer(crash: Crash, kill: Kill) -> str:
    limit = resumes = ""
    if crash.hurried:
        limit = f", few enough for {SECONDS / 60:.0f} minutes here"
    if crash.resumed_at:
        steps = enumerated([str(step) for step in sorted(crash.resumed_at)])
        resumes = f" It goes on from step {steps} as this run did."
    return (
        "What is the price of this crash? **LC** restores from this run's chain. For **full**, "
        "**SCAR** and **TOPN** the training is repeated from its seed with the same batches and "
        f"saved at the same steps.{resumes} SCAR and TOPN get the bytes that LC took on average, "
        f"{percent_text(crash.share)} of float32. {_saved_by_all(crash)} Then all four race back, "
        f"for at most {crash.protocol.since + crash.cap} iterations{limit}. About "
        f"{_duration(crash.seconds(kill.pace))} at most, in the background."
    )


def _saved_by_all(crash: Crash) -> str:
    """What every method saves and restores."""
    if crash.ours.whole:
        return "All save and restore the optimizer's state as well."
    return "All save the model alone, and begin with a new optimizer."


def _duration(seconds: float) -> str:
    if seconds < 1.5:
        return "1 second"
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"


def _show_warnings(raced: Raced) -> None:
    if lost := nothing_saved(raced.outcomes):
        st.warning(lost, icon=":material/data_loss_prevention:")
    if not raced.alike:
        st.warning(
            "The repeated training did not reach the same bits as the killed one: full, SCAR and "
            "TOPN saved a slightly different training. Compare with care.",
            icon=":material/difference:",
        )
