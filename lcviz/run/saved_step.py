"""One save of a run, and the parts of its delta, taken while it is in memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

import codec
from codec import Tracker
from codec.inspect import Arrays, Codes, Track, copy_arrays, difference
from demo_models import Task
from lcviz.lab.anatomy import dissect, tables
from lcviz.lab.measures import distance

from .live_model import arrays_of
from .snapshot import Checkpoint, States


@dataclass(frozen=True)
class SavedStep:
    """A checkpoint whose losses are not measured yet.

    states: the two states of its delta. track: what a restart would load now, name -> float32; the
    checkpointer's own arrays. codes: of the exponent stage, by alphabet.
    """

    checkpoint: Checkpoint
    states: States
    track: Arrays
    codes: list[Codes]


def save_step(
    task: Task,
    checkpointer: codec.Checkpointer,
    start: Arrays,
    iteration: int,
    train_loss: float,
    train_seconds: float,
) -> SavedStep:
    """Save the task's model through the codec.

    start: u₀, see `LiveModel`. train_loss, train_seconds: see `Checkpoint`. Raises what
    `codec.Checkpointer.save` does.
    """
    started = time.perf_counter()
    live = arrays_of(task)
    before = checkpointer.tracker
    deltas = _deltas(live, before)  # the save moves the track
    states = States(iteration, copy_arrays(before.state) if before else {}, live)
    prepared = time.perf_counter() - started
    saved = checkpointer.save(iteration, task.model.state_dict())
    started = time.perf_counter()
    tracker = checkpointer.tracker
    assert tracker is not None, "a save makes one"
    track = tracker.state
    alphabets, codes = dissect(deltas, saved.delta) if saved.delta else ((), [])
    moved = distance(live, start)
    checkpoint = Checkpoint(
        step=saved.step,
        kind=saved.kind,
        nbytes=saved.nbytes,
        full_nbytes=saved.full_nbytes,
        stream_nbytes=saved.delta.nbytes if saved.delta else saved.full_nbytes,
        exact_nbytes=saved.exact_nbytes,
        lossy_nbytes=saved.lossy_nbytes,
        train_loss=train_loss,
        live_loss=None,
        restored_loss=None,
        live_metric=None,
        restored_metric=None,
        distance=distance(track, live) / moved if moved else 0.0,
        moved=moved,
        alphabets=alphabets,
        tables=tables(alphabets),
        non_finite=saved.delta.non_finite if saved.delta else (),
        train_seconds=train_seconds,
        codec_seconds=saved.seconds,
        measure_seconds=time.perf_counter() - started + prepared,
        # From all values instead of the tracker's own sums: exports are compared with it.
        track=Track.of(tracker.track.layout, track).digest,
    )
    return SavedStep(checkpoint, states, track, codes)


def _deltas(live: Arrays, tracker: Tracker | None) -> Arrays:
    """What a save will encode: live - track of every lossy tensor, name -> float32."""
    if tracker is None:
        return {}
    lossy = [t.name for t in tracker.track.layout.tensors if t.lossy]
    return {name: difference(live[name], tracker.state[name]) for name in lossy}
