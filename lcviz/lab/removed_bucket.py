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
    """One bucket left out.

    count: members over all alphabets. loss: of the rebuilt state. distance: relative
    distance of the rebuilt state, ||rebuilt - u_t|| / ||u_t - u_0||. loss_below, distance_below:
    with all smaller buckets left out too; None where that was not asked for.
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
    """The experiment's outcome for one step; loss and distance with nothing left out."""

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
    """Leave out each bucket in turn, rebuild and measure; with below, also all smaller ones.

    before: the track the step started from, exact tensors already of this step. codes:
    exponent-stage codes of each alphabet, shape (n,). moved: ||u_t - u_0||, the distance's
    denominator. loss_of: evaluates a state. progress(done, total) is called after each bucket.
    """
    residual = sum(float(a.residual.sum()) for a in alphabets)

    def rebuilt_without(keys: Sequence[BucketTotal]) -> tuple[float, float]:
        gone = [among(a, {(b.exponent, b.sign) for b in keys}) for a in alphabets]
        state = rebuilt(before, alphabets, codes, [~at for at in gone])
        lost = residual
        for a, at in zip(alphabets, gone):
            lost += float((a.energy[at] - a.residual[at]).sum())
        return loss_of(state), float(np.sqrt(max(lost, 0.0))) / moved if moved else 0.0

    loss, distance = rebuilt_without(())
    rows = []
    every = totals(alphabets)
    for done, b in enumerate(every, 1):
        row = Removed(b.exponent, b.sign, b.kept + b.dropped, b.kept > 0, *rebuilt_without([b]))
        if below:
            loss_below, distance_below = rebuilt_without(every[done - 1 :])
            row = replace(row, loss_below=loss_below, distance_below=distance_below)
        rows.append(row)
        if progress:
            progress(done, len(every))
    return RemovedBuckets(step, loss, distance, tuple(rows))


def errors_without(alphabets: Sequence[Alphabet]) -> tuple[float, dict[BucketKey, float]]:
    """What removing each bucket costs, without rebuilding a model.

    Returns ||delta - rebuilt|| / ||delta|| with all buckets, which is the rounding to their
    representatives, and without each of them in turn. All are 0 where delta is 0.
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
    kept: Sequence[NDArray[np.bool_]],
) -> Arrays:
    """The track before a delta, and of the delta these buckets alone.

    codes: of the exponent stage, each (n,). kept: bool (b,), for the buckets of each alphabet.
    """
    state = copy_arrays(before)
    for alphabet, own, keep in zip(alphabets, codes, kept):
        levels = np.concatenate((np.zeros(1, np.float32), alphabet.buckets.representative))
        levels[1:][~keep] = 0
        _add(state, alphabet.names, levels[own])
    return state


def among(alphabet: Alphabet, keys: Collection[tuple[int, int]]) -> NDArray[np.bool_]:
    """bool (b,): which buckets of an alphabet have one of these exponents and signs."""
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
    """The experiment on the last checkpoint of a series, with this coding up to there.

    The loss is NaN if the series has none. Distances are of the tensors that are quantized, from
    where the series last began anew.

    Raises:
        SettingsError: no state follows another one, or nothing changed in the last.
        LccError: a state cannot be encoded.
    """
    first: Arrays = {}
    begun, found = None, None
    replayed, total = part(progress, 0, 2), len(series) - 1
    for done, (moment, tracker) in enumerate(tracked(series, coding), 1):
        if tracker is not begun:
            begun, first = tracker, copy_arrays(tracker.state)
        before = copy_arrays(tracker.state)
        step = tracker.prepare_arrays(moment.arrays)
        tracker.commit(step)
        found = moment, before, copy_arrays(moment.arrays), step
        replayed(done, total)
    assert found is not None, "tracked yields at least one state"
    moment, before, arrays, step = found
    deltas = changes(arrays, before, step)
    alphabets, codes = dissect(deltas, step)
    if not totals(alphabets):
        raise SettingsError(
            f"checkpoint {moment.step}: nothing changed that can be quantized; end with another"
        )
    moved = distance(arrays, first, deltas)
    loss_of = moment.loss_of or (lambda _state: math.nan)
    return removed_buckets(
        moment.step,
        {**before, **step.exact_after(before)},
        alphabets,
        codes,
        moved,
        loss_of,
        part(progress, 1, 2),
        below=True,
    )
