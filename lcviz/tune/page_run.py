"""The run on Live that sections of Tune look at, and its newest delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
import torch

from codec.inspect import Arrays, Layout, layout_of
from lcviz.lab.series import LossOf
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, PLAYING, Snapshot
from lcviz.ui import session, widgets
from lcviz.ui.polling import polled
from lcviz.ui.settings import describe

from .ab import RunState, replayed_steps

_LOSS = "tune-live-loss"  # in the session: (run, step) and the loss
GONE = "The states of this run are no longer kept: wait for its next checkpoint."


@dataclass(frozen=True)
class NewestDelta:
    """A checkpoint of the run: the track before it, and what was saved."""

    run_id: str
    layout: Layout
    before: Arrays
    state: RunState

    @property
    def key(self) -> tuple[str, int]:
        """Tells it from all others."""
        return self.run_id, self.state.step


def follow_run(show: Callable[[Run, Snapshot], None]) -> None:
    """Call show(run, snapshot), again and again while the run plays."""
    run = session.current_run()
    if run is None:
        session.await_example()
        return
    poll = session.poll_interval(run)
    polled(poll, _look, run, poll, show)


def _look(run: Run, poll: float | None, show: Callable[[Run, Snapshot], None]) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != session.poll_interval(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    if has_delta(run, snapshot):
        show(run, snapshot)


def has_delta(run: Run, snapshot: Snapshot) -> bool:
    """Describe the run; True if it has a delta."""
    which = "the example" if session.is_example(run) else "your run on Live"
    st.caption(
        f"On {which}: {run.task.title}, iteration {snapshot.iteration} of "
        f"{run.settings.stop_after} · {describe(run.settings)}{weights_alone(run)}"
    )
    if snapshot.newest.kind == "base":
        st.info("So far this run has saved its base only: play it on Live.")
        return False
    return True


def weights_alone(run: Run) -> str:
    """That settings are compared on the weights, where a run saves more; else ""."""
    if not run.settings.optimizer_state:
        return ""
    return ". Below are its weights alone: the moments keep 3 bits whatever is set"


def replayed_states(run: Run, snapshot: Snapshot) -> list[RunState]:
    """The checkpoints that are replayed, the base first."""
    held = [step for step in run.steps_held() if step <= snapshot.newest.step]
    found = ((s, run.states(s)) for s in replayed_steps(held, run.settings.interval))
    # A state that is missing was dropped just now.
    return [RunState(s, both.live, snapshot.at(s).moved) for s, both in found if both is not None]


def newest_delta(run: Run, snapshot: Snapshot) -> NewestDelta | None:
    """The newest delta; None if its states are no longer kept."""
    step = snapshot.newest.step
    if (states := run.states(step)) is None:
        return None
    layout = layout_of(states.live)
    return NewestDelta(
        run.id, layout, states.before, RunState(step, states.live, snapshot.newest.moved)
    )


def loss_of(run: Run) -> LossOf:
    """The loss of a state on the run's own held-out examples."""
    torch.set_num_threads(1)  # as the run's thread does: the same sums, and at once
    return run.task.probe_loss


def live_loss(run: Run, snapshot: Snapshot) -> float:
    """The loss of the newest saved state, measured here if the run had no time for it."""
    step, known = snapshot.newest.step, snapshot.newest.live_loss
    if known is not None:
        return known
    held: tuple[tuple[str, int], float] | None = st.session_state.get(_LOSS)
    if held is None or held[0] != (run.id, step):
        states = run.states(step)
        loss = loss_of(run)(states.live) if states else math.nan
        held = st.session_state[_LOSS] = (run.id, step), loss
    return held[1]


def shown_delta(run: Run, snapshot: Snapshot, place: str) -> NewestDelta | None:
    """The delta to show. place: where the session keeps it."""
    kept: NewestDelta | None = st.session_state.get(place)
    if kept is not None and kept.run_id == run.id and stays(snapshot, kept.state.step):
        return kept
    delta = newest_delta(run, snapshot)
    if delta is None:
        return kept
    st.session_state[place] = delta
    return delta


def stays(snapshot: Snapshot, step: int) -> bool:
    """Whether what is shown of a step stays: while the run plays, until the newest is asked for.

    A Plotly figure is drawn from nothing when it changes: it would flicker, and forget its zoom.
    """
    if step == snapshot.newest.step:
        return True
    if snapshot.status != PLAYING:
        return False
    with st.container(horizontal=True, vertical_alignment="center", key="tune-newer"):
        wanted = widgets.button("Take the newest", icon=":material/skip_next:", key="tune-newest")
        st.markdown(f"Step {step}; the run goes on.", width="content")
    return not wanted
