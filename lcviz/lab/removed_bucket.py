"""Removed bucket: what the loss becomes when one exponent bucket is left out.

The paper's experiment (ICML 2020, "removed bucket" figure): quantize the delta with the
exponent stage alone, set one bucket to zero, rebuild the state and measure it. Small
buckets hardly matter, which is why dropping them is cheap.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codec import Coding
from codec.errors import SettingsError
from codec.inspect import Arrays, copy_arrays

from .anatomy import Alphabet, BucketKey, BucketTotal, changes, dissect, totals
from .measures import distance
from .progress import Progress, part
from .series import Series, tracked


@dataclass(frozen=True)
class Removed:
    """The effect of one bucket left out.

    count: members over all alphabets. kept: whether a record keeps any of them. loss: of the
    rebuilt state. distance: of the rebuilt state, ||rebuilt - u_t|| / ||u_t - u_0||. loss_below,
    distance_below: with all smaller buckets left out too; None if not measured.
    """

    exponent: int
    sign: int
    count: int
    kept: bool
    loss: float
    distance: float
    loss_below: float | None = None
    distance_below: float | None = None


@dataclass(frozen=True)
class RemovedBuckets:
    """The experiment's outcome for one step. loss, distance: with no bucket left out."""

    step: int
    loss: float
    distance: float
    buckets: tuple[Removed, ...]


def removed_buckets(
    step: int,
    before: Arrays,
    alphabets: Sequence[Alphabet],
    codes: Sequence[NDArray[np.unsignedinteger]],
    moved: float,
    loss_of: Callable[[Arrays], float],
    progress: Progress | None = None,
    *,
    below: bool = False,
) -> RemovedBuckets:
    """Leave out each bucket in turn, rebuild and measure.

    before: the track before the step, with the exact tensors of this step. codes: of the exponent
    stage, shape (n,) for each alphabet. moved: ||u_t - u_0||, the distance's denominator. loss_of:
    evaluates a state. progress: called after each bucket. below: also measure each bucket together
    with all smaller ones.
    """
    residual = sum(float(a.residual.sum()) for a in alphabets)

    def rebuilt_without(removed: Sequence[BucketTotal]) -> tuple[float, float]:
        masks = [among(a, {(b.exponent, b.sign) for b in removed}) for a in alphabets]
        state = rebuilt(before, alphabets, codes, [~mask for mask in masks])
        lost = residual
        for a, mask in zip(alphabets, masks):
            lost += float((a.energy[mask] - a.residual[mask]).sum())
        return loss_of(state), float(np.sqrt(max(lost, 0.0))) / moved if moved else 0.0

    loss, distance = rebuilt_without(())
    rows = []
    buckets = totals(alphabets)
    for done, b in enumerate(buckets, 1):
        count, is_kept = b.kept_members + b.dropped_members, b.kept_members > 0
        row = Removed(b.exponent, b.sign, count, is_kept, *rebuilt_without([b]))
        if below:
            loss_below, distance_below = rebuilt_without(buckets[done - 1 :])
            row = replace(row, loss_below=loss_below, distance_below=distance_below)
        rows.append(row)
        if progress:
            progress(done, len(buckets))
    return RemovedBuckets(step, loss, distance, tuple(rows))


def errors_without(alphabets: Sequence[Alphabet]) -> tuple[float, dict[BucketKey, float]]:
    """The error ||delta - rebuilt|| / ||delta|| without each bucket; no model is rebuilt.

    Returns the error with all buckets, which comes from rounding to their representatives, and the
    error without each of them in turn. All are 0 where delta is 0.
    """
    whole = sum(float(a.energy.sum()) for a in alphabets)
    rounding = sum(float(a.residual.sum()) for a in alphabets)
    more: Counter[BucketKey] = Counter()
    for a in alphabets:
        pairs = zip(a.buckets.exponent.tolist(), a.buckets.sign.tolist())
        for key, energy, residual in zip(pairs, a.energy.tolist(), a.residual.tolist()):
            more[key] += energy - residual

    def share(lost: float) -> float:
        return math.sqrt(max(lost, 0.0) / whole) if whole else 0.0

    return share(rounding), {key: share(rounding + lost) for key, lost in more.items()}


def rebuilt(
    before: Arrays,
    alphabets: Sequence[Alphabet],
    codes: Sequence[NDArray[np.unsignedinteger]],
    masks: Sequence[NDArray[np.bool_]],
) -> Arrays:
    """The track before a delta plus those buckets of the delta that the masks select.

    codes: of the exponent stage, each (n,). masks: bool (b,), over the buckets of each alphabet.
    """
    state = copy_arrays(before)
    for alphabet, exponent_codes, is_kept in zip(alphabets, codes, masks):
        levels = np.concatenate((np.zeros(1, np.float32), alphabet.buckets.representative))
        levels[1:][~is_kept] = 0
        _add(state, alphabet.names, levels[exponent_codes])
    return state


def among(alphabet: Alphabet, keys: Collection[tuple[int, int]]) -> NDArray[np.bool_]:
    """bool (b,): which buckets of an alphabet have one of these keys (exponent, sign)."""
    pairs = zip(alphabet.buckets.exponent.tolist(), alphabet.buckets.sign.tolist())
    return np.array([pair in keys for pair in pairs], np.bool_)


def _add(state: Arrays, names: Sequence[str], values: NDArray[np.float32]) -> None:
    position = 0
    for name in names:
        size = state[name].size
        state[name] += values[position : position + size].reshape(state[name].shape)
        position += size


def removed_from_series(
    series: Series, coding: Coding, progress: Progress = lambda _done, _total: None
) -> RemovedBuckets:
    """The experiment on the last checkpoint of a series, which is saved with this coding.

    The loss is NaN if the series has none. Distances are those of the quantized tensors; u_0 is the
    first state with the layout of the last one.

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
        {**before, **step.exact_after(before)},
        alphabets,
        codes,
        moved,
        loss_of,
        part(progress, 1, 2),
        below=True,
    )
