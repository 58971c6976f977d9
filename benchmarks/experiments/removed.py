"""The removed-bucket experiment on the last checkpoint of a series."""

from __future__ import annotations

import math

from codec import Coding
from codec.errors import SettingsError
from codec.inspect import Arrays, copy_arrays
from lcviz.lab.anatomy import changes, dissect, totals
from lcviz.lab.measures import distance
from lcviz.lab.progress import Progress, part, unreported
from lcviz.lab.removed_bucket import Dissection, RemovedBuckets, removed_buckets
from lcviz.lab.series import Series, tracked


def remove_buckets_of_last(
    series: Series, coding: Coding, progress: Progress = unreported
) -> RemovedBuckets:
    """Save a series with a coding, then leave out each bucket of its last delta in turn.

    A last state with a new layout has no delta and is skipped. The loss is NaN if the series has
    none. Distances are those of the quantized tensors, from the first state with the layout of the
    delta.

    Raises:
        SettingsError: No two states in a row have the same layout, or nothing changed in the last.
        LccError: A state cannot be encoded.
    """
    first: Arrays = {}
    last_tracker, last_step = None, None
    replayed, total = part(progress, 0, 2), len(series) - 1
    for done, (state, tracker) in enumerate(tracked(series, coding), 1):
        if tracker is not last_tracker:
            last_tracker, first = tracker, copy_arrays(tracker.state)
        before = copy_arrays(tracker.state)
        step = tracker.prepare_arrays(state.arrays)
        tracker.commit(step)
        last_step = state, before, copy_arrays(state.arrays), step
        replayed(done, total)
    assert last_step is not None, "tracked yields at least one state"
    state, before, arrays, step = last_step
    deltas = changes(arrays, before, step)
    alphabets, codes = dissect(deltas, step)
    if not totals(alphabets):
        raise SettingsError(
            f"checkpoint {state.step}: no change can be quantized; end with another checkpoint"
        )
    moved = distance(arrays, first, deltas)
    loss_of = state.loss_of or (lambda _state: math.nan)
    return removed_buckets(
        state.step,
        Dissection({**before, **step.exact_after(before)}, alphabets, codes),
        moved,
        loss_of,
        part(progress, 1, 2),
        below=True,
    )
