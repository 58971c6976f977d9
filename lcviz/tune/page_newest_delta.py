"""What sections of Tune share: the run of Live, followed while it plays, and its newest delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
import torch

from codec.state.tensors import Arrays, Layout, layout_of
from lcviz.lab.series import LossOf
from lcviz.run.run import Run
from lcviz.run.snapshot import CLOSED, PLAYING, Snapshot
from lcviz.ui import session as state
from lcviz.ui.settings import describe

from .ab import Moment, replayed

_LOSS = "tune-live-loss"  # in the session: of which run and step, and what it is
GONE = "The states of this run are no longer in memory: wait for its next checkpoint."
LARGE = 200_000  # values: what takes many encodings of so many waits while the run plays


@dataclass(frozen=True)
class Delta:
    """A checkpoint of the run: the track before it and what was saved."""

    run_id: str
    layout: Layout
    before: Arrays
    moment: Moment

    @property
    def key(self) -> tuple[str, int]:
        """Tells it from all others."""
        return self.run_id, self.moment.step


def following(show: Callable[[Run, Snapshot], None]) -> None:
    """show(run, snapshot) in a fragment that looks again while the run plays."""
    run = state.current_run()
    if run is None:
        state.await_example()
        return
    poll = state.poll_interval(run)
    st.fragment(_look, run_every=poll)(run, poll, show)


def _look(run: Run, poll: float | None, show: Callable[[Run, Snapshot], None]) -> None:
    run.watch()
    snapshot = run.snapshot()
    if snapshot.status == CLOSED or poll != state.poll_interval(run):
        st.rerun()  # the whole page: polling changes pace, or another tab has reset the run
    if about(run, snapshot):
        show(run, snapshot)


def about(run: Run, snapshot: Snapshot) -> bool:
    """Say which run it is; True if it has a delta."""
    which = "the example" if state.is_example(run) else "your run on Live"
    st.caption(
        f"On {which}: {run.task.title}, iteration {snapshot.iteration} of "
        f"{run.settings.stop_after} · {describe(run.settings)}"
    )
    if snapshot.newest.kind == "base":
        st.info("This run has saved its base only: play it on Live until there is a delta.")
        return False
    return True


def moments(run: Run, snapshot: Snapshot) -> list[Moment]:
    """The checkpoints that are replayed, the base first."""
    newest = snapshot.newest.step
    held = [step for step in run.steps_held() if step <= newest]
    found = []
    for step in replayed(held, run.settings.interval):
        states = run.states(step)
        if states is not None:  # else it was let go just now
            found.append(Moment(step, states.live, snapshot.at(step).moved))
    return found


def newest(run: Run, snapshot: Snapshot) -> Delta | None:
    """The newest delta; None if it was let go just now."""
    step = snapshot.newest.step
    states = run.states(step)
    if states is None:
        return None
    layout = layout_of(states.live)
    return Delta(run.id, layout, states.before, Moment(step, states.live, snapshot.newest.moved))


def loss_of(run: Run) -> LossOf:
    """The loss of a state on the run's own held-out examples."""
    torch.set_num_threads(1)  # as the run's thread does: the same sums, and at once
    return run.task.probe_loss


def live_loss(run: Run, snapshot: Snapshot) -> float:
    """That of the newest state that was saved, measured here if the run had no time for it."""
    step, known = snapshot.newest.step, snapshot.newest.live_loss
    if known is not None:
        return known
    held: tuple[tuple[str, int], float] | None = st.session_state.get(_LOSS)
    if held is None or held[0] != (run.id, step):
        states = run.states(step)
        loss = loss_of(run)(states.live) if states else math.nan
        held = st.session_state[_LOSS] = (run.id, step), loss
    return held[1]


def held_delta(run: Run, snapshot: Snapshot, place: str) -> Delta | None:
    """The newest delta, or of a large model the one that was looked at before, while it plays.

    place: in the session, where that is kept.
    """
    kept: Delta | None = st.session_state.get(place)
    large = sum(a.n for a in snapshot.newest.alphabets) > LARGE
    if kept is not None and kept.run_id == run.id and large and snapshot.status == PLAYING:
        st.caption(f"Below is step {kept.moment.step}: the next one is taken when the run rests.")
        return kept
    delta = newest(run, snapshot)
    if delta is None or (kept is not None and kept.key == delta.key):
        return kept
    st.session_state[place] = delta
    return delta
