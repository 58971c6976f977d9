"""One save of a run, and its delta taken apart."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codec.inspect import Arrays, Codes, Track, copy_arrays, flatten, to_arrays
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.measures import distance

from .live_model import LiveModel
from .snapshot import Checkpoint
from .whole_state import Moment, States, dissect_weights, moments_of, weights_of


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


def save_step(model: LiveModel, iteration: int) -> SavedStep:
    """Save a training through the codec. Raises what `codec.Checkpointer.save` does."""
    checkpointer, tracker = model.checkpointer, model.checkpointer.tracker
    before = copy_arrays(tracker.state) if tracker else {}  # the save moves the track
    values = tracker.track.values if tracker else ()
    saved = checkpointer.save(iteration, model.state)
    tracker = checkpointer.tracker
    assert tracker is not None, "a save makes a tracker"
    parts, layout = flatten(model.state, lambda _: False), tracker.track.layout
    whole_live = copy_arrays(to_arrays(parts.tensors, layout))
    states = States(iteration, layout, before, whole_live, (values, parts.values))
    live = states.live
    track = weights_of(tracker.state)
    alphabets: tuple[Alphabet, ...] = ()
    codes: list[Codes] = []
    moments: tuple[Moment, ...] = ()
    if saved.delta:
        alphabets, codes = dissect_weights(states, saved.delta)
        moments = moments_of(saved.delta, list(live))
    moved = distance(live, model.start)
    checkpoint = Checkpoint(
        replace(saved, delta=None),
        alphabets,
        moments,
        sum(array.nbytes for array in live.values()),
        distance(track, live) / moved if moved else 0.0,
        moved,
        # Computed from all values, not taken from the tracker's sums: exports are compared with it.
        Track.of(layout, tracker.state).digest,
    )
    return SavedStep(checkpoint, states, track, codes)
