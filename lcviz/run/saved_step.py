"""One save of a run, and its delta taken apart."""

from __future__ import annotations

import time
from dataclasses import dataclass

from codec import Tracker
from codec.inspect import Arrays, Codes, Track, copy_arrays, difference, flatten, to_arrays
from lcviz.lab.anatomy import Alphabet, dissect, tables
from lcviz.lab.measures import distance

from .live_model import LiveModel, arrays_of
from .snapshot import Checkpoint, Moment, States, WholeStates
from .whole_state import delta_of_weights, is_weight, moments_of, own_name, weights_of


@dataclass(frozen=True)
class SavedStep:
    """A checkpoint whose losses are not measured yet.

    states: the two states of its delta. track: the weights that a restart would load now, name ->
    float32; these are the checkpointer's arrays. codes: of the exponent stage, by alphabet.
    """

    checkpoint: Checkpoint
    states: States
    track: Arrays
    codes: list[Codes]


def save_step(
    model: LiveModel, iteration: int, train_loss: float, train_seconds: float
) -> SavedStep:
    """Save a training through the codec.

    train_loss, train_seconds: see `Checkpoint`. Raises what `codec.Checkpointer.save` does.
    """
    started = time.perf_counter()
    checkpointer, live = model.checkpointer, arrays_of(model.training.task)
    before = checkpointer.tracker
    deltas = _deltas(live, before)  # the save moves the track
    states = _states(model, iteration, live, before)
    prepared = time.perf_counter() - started
    saved = checkpointer.save(iteration, model.state)
    started = time.perf_counter()
    tracker = checkpointer.tracker
    assert tracker is not None, "a save makes a tracker"
    track = weights_of(tracker.state)
    alphabets: tuple[Alphabet, ...] = ()
    codes: list[Codes] = []
    moments: tuple[Moment, ...] = ()
    if saved.delta:
        alphabets, codes = dissect(deltas, delta_of_weights(saved.delta))
        moments = moments_of(saved.delta, list(live))
    moved = distance(live, model.start)
    checkpoint = Checkpoint(
        step=saved.step,
        kind=saved.kind,
        nbytes=saved.nbytes,
        full_nbytes=saved.full_nbytes,
        stream_nbytes=saved.delta.nbytes if saved.delta else saved.full_nbytes,
        exact_nbytes=saved.exact_nbytes,
        lossy_nbytes=saved.lossy_nbytes,
        weights_full_nbytes=sum(array.nbytes for array in live.values()),
        moments=moments,
        moment_nbytes=saved.moment_nbytes,
        train_loss=train_loss,
        live_loss=None,
        restored_loss=None,
        live_metric=None,
        restored_metric=None,
        distance=distance(track, live) / moved if moved else 0.0,
        moved=moved,
        alphabets=alphabets,
        tables=tables(alphabets),
        non_finite=tuple(map(own_name, saved.delta.non_finite)) if saved.delta else (),
        train_seconds=train_seconds,
        codec_seconds=saved.seconds,
        measure_seconds=time.perf_counter() - started + prepared,
        # Computed from all values, not taken from the tracker's sums: exports are compared with it.
        track=Track.of(tracker.track.layout, tracker.state).digest,
    )
    return SavedStep(checkpoint, states, track, codes)


def _deltas(live: Arrays, tracker: Tracker | None) -> Arrays:
    """The deltas that a save will encode: live - track of the lossy weights, name -> float32."""
    if tracker is None:
        return {}
    lossy = [t.name for t in tracker.track.layout.tensors if t.lossy and is_weight(t.name)]
    return {own_name(name): difference(live[own_name(name)], tracker.state[name]) for name in lossy}


def _states(model: LiveModel, step: int, live: Arrays, tracker: Tracker | None) -> States:
    """Copies of both states of the delta that a save will make. live: the weights."""
    if tracker is None:
        return States(step, {}, live)
    before = copy_arrays(tracker.state)
    if not model.whole:
        return States(step, before, live)
    parts, layout = flatten(model.state, lambda _: False), tracker.track.layout
    arrays = to_arrays(parts.tensors, layout)  # the live ones
    copied = {
        name: live[own_name(name)] if is_weight(name) else array.copy()
        for name, array in arrays.items()
    }
    values = tracker.track.values, parts.values
    return States(step, weights_of(before), live, WholeStates(layout, before, copied, values))
