"""Removed bucket: what the loss becomes when one exponent bucket is left out.

The paper's experiment (ICML 2020, "removed bucket" figure): quantize the delta with the
exponent stage alone, set one bucket to zero, rebuild the state and measure it. Small
buckets hardly matter, which is why dropping them is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.state import Arrays, copy_arrays

from .anatomy import Alphabet, totals


@dataclass(frozen=True)
class Removed:
    """One bucket left out.

    count: members over all alphabets. loss: of the rebuilt state. distance: relative
    distance of the rebuilt state, ||rebuilt - u_t|| / ||u_t - u_0||.
    """

    exponent: int
    sign: int
    count: int
    kept: bool
    loss: float
    distance: float


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
    progress: Callable[[int, int], None] | None = None,
) -> RemovedBuckets:
    """Leave out each bucket in turn, rebuild and measure.

    before: the track the step started from, exact tensors already of this step. codes:
    exponent-stage codes of each alphabet, shape (n,). moved: ||u_t - u_0||, the distance's
    denominator. loss_of: evaluates a state. progress(done, total) is called after each bucket.
    """
    residual = sum(float(a.residual.sum()) for a in alphabets)

    def rebuilt_without(key: tuple[int, int] | None) -> tuple[float, float]:
        state = copy_arrays(before)
        lost = residual
        for alphabet, own in zip(alphabets, codes):
            levels = np.concatenate((np.zeros(1, np.float32), alphabet.buckets.representative))
            at = _index(alphabet, key)
            if at is not None:
                levels[at + 1] = 0
                lost += float(alphabet.energy[at] - alphabet.residual[at])
            _add(state, alphabet.names, levels[own])
        return loss_of(state), float(np.sqrt(max(lost, 0.0))) / moved if moved else 0.0

    loss, distance = rebuilt_without(None)
    rows = []
    every = totals(alphabets)
    for done, b in enumerate(every, 1):
        without = rebuilt_without((b.exponent, b.sign))
        rows.append(Removed(b.exponent, b.sign, b.kept + b.dropped, b.kept > 0, *without))
        if progress:
            progress(done, len(every))
    return RemovedBuckets(step, loss, distance, tuple(rows))


def _index(alphabet: Alphabet, key: tuple[int, int] | None) -> int | None:
    """Where an alphabet holds the bucket (exponent, sign), if it does."""
    if key is None:
        return None
    same = (alphabet.buckets.exponent == key[0]) & (alphabet.buckets.sign == key[1])
    found = np.flatnonzero(same)
    return int(found[0]) if found.size else None


def _add(state: Arrays, names: Sequence[str], values: NDArray[np.float32]) -> None:
    position = 0
    for name in names:
        size = state[name].size
        state[name] += values[position : position + size].reshape(state[name].shape)
        position += size
