"""Kill it now: what a crash of the run takes, the race back from it, and going on."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import streamlit as st

from demo_models.optimizers import WITH_MOMENTS
from lcviz.lab.progress import Report
from lcviz.lab.recovery.kill import SECONDS, Crash, OnDisk, Raced
from lcviz.lab.recovery.recovery import Outcome
from lcviz.recover.page_rework import nothing_saved
from lcviz.run.run import Run
from lcviz.run.snapshot import DEAD, FAILED, RESTORING, Checkpoint, Kill, RunError, Snapshot
from lcviz.server.jobs import View
from lcviz.text import amount_text, enumerated, loss_text, nbytes_text, percent_text, plural
from lcviz.ui import session, widgets
from lcviz.ui.experiment import Asking, ControlTexts
from lcviz.ui.picture import Picture

from .headline import estimated_price
from .race_picture import race_picture

PATIENCE = 0.4  # seconds that a click waits for a chain; a short one is read by then
RACE_POLL_SECONDS = 0.5
_CLOSED = "kill-closed"  # in the session: the crash whose race was closed


@dataclass(frozen=True)
class RaceBack:
    """The race back from the newest crash of a run.

    crash: everything that decides it. asking: its job, and view: how far that is; None if there is
    no time for a race. watching: whether this session follows it, or looks at what came of it.
    estimate: of the price, in words, while the run is dead.
    """

    crash: Crash
    asking: Asking[Raced] | None
    view: View[Raced] | None
    watching: bool
    estimate: str

    @property
    def raced(self) -> Raced | None:
        """Its result, once it is over."""
        return self.view.found[0].value if self.view and self.view.found else None

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What each method has come to so far."""
        if self.raced:
            return self.raced.outcomes
        return (self.view.so_far or ()) if self.view else ()

    @property
    def ours(self) -> Outcome | None:
        """LC's outcome, once the race is over."""
        return self.raced.outcomes[-1] if self.raced else None

    @property
    def begun(self) -> bool:
        """Whether this session has asked for it."""
        return self.asking is not None and self.asking.asked == self.asking.key

    def close(self) -> None:
        """Do not show it any more once the run goes on."""
        st.session_state[_CLOSED] = self.crash

    @property
    def picture(self) -> Picture | None:
        """The race as far as it is, once a method runs."""
        if not self.outcomes:
            return None
        differs = self.ours and amount_text(self.ours.rework) not in self.estimate.split()
        estimate = self.estimate if differs else ""
        return race_picture(self.outcomes, self.crash.fail_at, self.raced is not None, estimate)


def kill_button(run: Run, snapshot: Snapshot) -> str | None:
    """The button that crashes the run. Returns the problem if the run could not be killed."""
    refused, problem, steering = _why_not(snapshot), None, session.steered()
    if widgets.button(
        "Kill it now",
        icon=":material/bolt:",
        key="kill",
        about=(run.id, len(snapshot.kills)),
        disabled=refused is not None,
        help=refused
        or "A crash at this very moment: the model and its optimizer are gone from memory. The "
        "chain on disk stays, as this run has saved it: what you only try is not in it.",
    ):
        try:
            steering.of(run).kill()
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
    snapshot = run.snapshot()
    asking = _asking(_crash(run, snapshot), snapshot) if snapshot.kills else None
    return RACE_POLL_SECONDS if asking and asking.watched else session.poll_interval(run)


def race_back(run: Run, snapshot: Snapshot) -> RaceBack | None:
    """The race back from the newest crash; None if there was none."""
    if not snapshot.kills:
        return None
    crash, estimate = _crash(run, snapshot), ""
    price = estimated_price(snapshot) if snapshot.status in DEAD else None
    if price is not None:
        estimate = f"about {amount_text(price)}"
    asking = _asking(crash, snapshot)
    if asking is None:
        return RaceBack(crash, None, None, False, estimate)
    assert isinstance(asking.experiment, Crash), "nothing else is asked for here"
    view = asking.look(asking.watched)
    closed = st.session_state.get(_CLOSED) == asking.experiment
    over = asking.asked == asking.key and bool(view.found)
    watching = asking.watched or (over and not closed)
    return RaceBack(asking.experiment, asking, view, watching, estimate)


def reports_kill(run: Run, snapshot: Snapshot) -> bool:
    """Whether there is something to say beside the buttons: of a crash, or of a race."""
    back = race_back(run, snapshot)
    return back is not None and (snapshot.status in DEAD or back.watching)


def kill_report(run: Run) -> None:
    """One row beside the buttons: what the newest crash took, going on, and the race.

    Once the run has gone on, nothing but a race that is looked at.
    """
    snapshot = run.snapshot()
    back = race_back(run, snapshot)
    if back is None:  # another tab has reset the run: the whole page runs again
        return
    kill, mine = snapshot.kills[-1], session.steered().allows(run)
    dead, racing = snapshot.status in DEAD, back.asking is not None and back.asking.watched
    with st.container(horizontal=True, vertical_alignment="center", key="kill-report"):
        if dead and not racing:  # else the race says how far it is, and needs the room
            text = f"**Killed at iteration {kill.iteration}**{_when(snapshot, kill)}"
            st.markdown(text, help=_gone_and_left(snapshot, kill, run))
        if dead:
            _go_on(run, snapshot, back)
        if back.asking and back.view and (dead or racing):
            back.asking.controls(back.view, racing, _texts(back, kill, mine=mine), bar=False)
        elif dead:
            st.caption(_too_long(back.crash.shortest, kill), width="content")
        elif back.watching and widgets.button(
            "Close the race", icon=":material/close:", key="kill-close"
        ):
            back.close()
            st.rerun()


def show_problems(snapshot: Snapshot, back: RaceBack) -> None:
    """What went wrong in going on, and in the race."""
    if snapshot.status in DEAD and snapshot.message:
        st.error(snapshot.message, icon=":material/error:")
    if back.raced and (back.watching or snapshot.status in DEAD):
        _show_warnings(back.raced)


def _when(snapshot: Snapshot, kill: Kill) -> str:
    """What no checkpoint has, the end of a sentence that must fit beside buttons."""
    if kill.lost:
        return f", {plural(kill.lost, 'iteration')} not saved."
    return ", just saved." if _left_out_before(snapshot, kill) else ", right after a checkpoint."


def _left_out_before(snapshot: Snapshot, kill: Kill) -> bool:
    """Whether the run had resumed from this step: what it left out was gone already."""
    survived = snapshot.kills[:-1]
    return any(earlier.step == kill.step for earlier in survived)


def _gone_and_left(snapshot: Snapshot, kill: Kill, run: Run) -> str:
    """What is gone and what is left, as two points of a list."""
    gone, memory = ["the model"], ""
    if run.settings.optimizer in WITH_MOMENTS or run.settings.momentum > 0:
        gone.append("the optimizer's state")
        memory = f" {_what_it_holds(run)}"
    if kill.lost:
        gone.append(f"the {plural(kill.lost, 'iteration')} trained since step {kill.step}")
    left_out = ""
    if not _left_out_before(snapshot, kill):
        gone.append(f"what the checkpoint of step {kill.step} had left out")
        left_out = _left_out(snapshot.at(kill.step))
    saved = [c for c in snapshot.checkpoints if c.step <= kill.step]
    return (
        f"- **Gone** from memory: {enumerated(gone)}{left_out}.\n"
        f"- **Left**: the chain on disk, {plural(len(saved), 'record')}, "
        f"{nbytes_text(sum(c.nbytes for c in saved))}, up to step {kill.step}.{memory}"
    )


def _left_out(saved: Checkpoint) -> str:
    """How much of the training a checkpoint did not hold."""
    if not math.isfinite(saved.distance):
        return ", not finite"
    text = f": {percent_text(saved.distance)} of the distance trained"
    if saved.live_loss is None or saved.restored_loss is None:
        return text
    live, restored = (loss_text(loss, 4) for loss in (saved.live_loss, saved.restored_loss))
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
        f"{_what_it_holds(run)}",
    ):
        steering.of(run).go_on_beside(PATIENCE)
        if back.raced:  # it was seen
            back.close()
        st.rerun()


def _what_it_holds(run: Run) -> str:
    """What the chain has of the optimizer's state."""
    if run.settings.optimizer_state:
        return "The chain holds the optimizer's state, too: the run goes on with the saved moments."
    return "The chain holds the model alone: the optimizer's state is reset."


def _crash(run: Run, snapshot: Snapshot) -> Crash:
    """Everything that decides the race back from the newest crash."""
    s, kill = run.settings, snapshot.kills[-1]
    deltas = [c for c in snapshot.checkpoints if c.kind == "delta" and c.step <= kill.step]
    return Crash(
        s.workload,
        s.seed,
        kill.iteration,
        s.interval,
        OnDisk("lc", chain=run.path, newest=kill.step, whole=s.optimizer_state),
        sum(c.nbytes for c in deltas) / sum(c.full_nbytes for c in deltas),
        kill.died_as,
        frozenset(k.step for k in snapshot.kills[:-1]),
    )


def _asking(crash: Crash, snapshot: Snapshot) -> Asking[Raced] | None:
    """The race as a job; None if there is no time for it."""
    capped = crash.capped(snapshot.kills[-1].pace)
    return Asking("kill", capped, 1, functools.partial(_work, capped)) if capped else None


def _work(crash: Crash, _part: int, report: Report) -> Raced:
    return crash.race(report)


def _texts(back: RaceBack, kill: Kill, *, mine: bool) -> ControlTexts:
    assert back.view is not None
    return ControlTexts(
        start="Race back",
        icon=":material/sprint:",
        working=f"{back.crash.where(back.view.share)}.",
        help=_offer(back.crash, kill),
        stop_help="The race is given up; the run is not touched.",
        wrong="" if mine else "You are watching: only who began this run starts its race.",
    )


def _offer(crash: Crash, kill: Kill) -> str:
    fewer = again = ""
    if crash.hurried:
        fewer = f", few enough for {SECONDS / 60:.0f} minutes here"
    if crash.went_on:
        steps = enumerated([str(step) for step in sorted(crash.went_on)])
        again = f" It goes on from step {steps} as this run did."
    return (
        "What is the price of this crash? **LC** restores from this run's chain. For **full**, "
        "**SCAR** and **TOPN** the training is repeated from its seed with the same batches and "
        f"saved at the same steps.{again} SCAR and TOPN get the bytes that LC took on average, "
        f"{percent_text(crash.share)} of float32. {_saved_by_all(crash)} Then all four race back, "
        f"for at most {crash.protocol.since + crash.cap} iterations{fewer}. About "
        f"{_duration(crash.seconds(kill.pace))} at most, in the background."
    )


def _saved_by_all(crash: Crash) -> str:
    """What every method saves and restores."""
    if crash.ours.whole:
        return "All save and restore the optimizer's state as well."
    return "All save the model alone, and begin with a new optimizer."


def _too_long(crash: Crash, kill: Kill) -> str:
    return f"No race back: it would take {_duration(crash.seconds(kill.pace))} here."


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
