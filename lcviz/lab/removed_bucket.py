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

from codec.inspect import Arrays, Codes, copy_arrays

from .anatomy import Alphabet, BucketKey, BucketTotal, totals
from .progress import Progress


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


@dataclass(frozen=True)
class Dissection:
    """A delta taken apart, and what it belongs to.

    before: the track before it, with the tensors that the delta stores exactly after it. codes: of
    the exponent stage, shape (n,) for each alphabet.
    """

    before: Arrays
    alphabets: Sequence[Alphabet]
    codes: Sequence[Codes]

    def rebuilt(self, masks: Sequence[NDArray[np.bool_]] = ()) -> Arrays:
        """The track before the delta plus those buckets of the delta that the masks select.

        masks: bool (b,), over the buckets of each alphabet; by default they select what the record
        keeps.
        """
        masks = masks or [np.arange(len(a.buckets)) < a.n_kept for a in self.alphabets]
        state = copy_arrays(self.before)
        for alphabet, exponent_codes, is_kept in zip(self.alphabets, self.codes, masks):
            levels = np.concatenate((np.zeros(1, np.float32), alphabet.buckets.representative))
            levels[1:][~is_kept] = 0
            for name, change in alphabet.parts(levels[exponent_codes]).items():
                state[name] += change.reshape(state[name].shape)
        return state


def removed_buckets(
    step: int,
    delta: Dissection,
    moved: float,
    loss_of: Callable[[Arrays], float],
    progress: Progress | None = None,
    *,
    below: bool = False,
) -> RemovedBuckets:
    """Leave out each bucket in turn, rebuild and measure.

    moved: ||u_t - u_0||, the distance's denominator. loss_of: evaluates a state. progress: called
    after each bucket. below: also measure each bucket together with all smaller ones.
    """
    alphabets = delta.alphabets
    residual = sum(float(a.residual.sum()) for a in alphabets)

    def rebuilt_without(removed: Sequence[BucketTotal]) -> tuple[float, float]:
        masks = [among(a, {b.key for b in removed}) for a in alphabets]
        state = delta.rebuilt([~mask for mask in masks])
        lost = residual
        for a, mask in zip(alphabets, masks):
            lost += float((a.energy[mask] - a.residual[mask]).sum())
        return loss_of(state), float(np.sqrt(max(lost, 0.0))) / moved if moved else 0.0

    loss, distance = rebuilt_without(())
    rows = []
    buckets = totals(alphabets)
    for done, b in enumerate(buckets, 1):
        row = Removed(*b.key, b.members, b.kept_members > 0, *rebuilt_without([b]))
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
        for key, energy, residual in zip(a.keys, a.energy.tolist(), a.residual.tolist()):
            more[key] += energy - residual

    def share(lost: float) -> float:
        return math.sqrt(max(lost, 0.0) / whole) if whole else 0.0

    return share(rounding), {key: share(rounding + lost) for key, lost in more.items()}


def among(alphabet: Alphabet, keys: Collection[BucketKey]) -> NDArray[np.bool_]:
    """bool (b,): which buckets of an alphabet have one of these keys (exponent, sign)."""
    return np.array([key in keys for key in alphabet.keys], np.bool_)
