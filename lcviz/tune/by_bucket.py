"""How many buckets are needed: one delta with its largest k buckets, or without some of them.

The model is rebuilt from the track and the buckets that are kept, and its loss measured. With bits
x, priority promotion keeps the 2^x - 1 largest buckets of each alphabet, so every x is one k.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from codec import Coding, Tracker
from codec.inspect import Arrays, Codes, Layout, Track, copy_arrays, n_promoted
from lcviz.lab.anatomy import EVERY_BITS, Alphabet, BucketTotal, changes, dissect, totals
from lcviz.lab.measures import distance
from lcviz.lab.removed_bucket import among, rebuilt
from lcviz.lab.series import LossOf

from .ab import RunState


@dataclass(frozen=True)
class SplitDelta:
    """A delta taken apart, and the track before it, with its exact tensors already in place.

    alphabets, codes: of the exponent stage, as `anatomy.dissect` gives them.
    """

    state: RunState
    before: Arrays
    alphabets: tuple[Alphabet, ...]
    codes: tuple[Codes, ...]

    @property
    def most(self) -> int:
        """Buckets of the alphabet that has most of them."""
        return max((len(a.buckets) for a in self.alphabets), default=0)

    @property
    def buckets(self) -> tuple[BucketTotal, ...]:
        """All of them, summed over alphabets, by falling exponent."""
        return totals(self.alphabets)

    def largest(self, k: int) -> Arrays:
        """The model with the k largest buckets of each alphabet alone."""
        kept = [np.arange(len(a.buckets)) < k for a in self.alphabets]
        return rebuilt(self.before, self.alphabets, self.codes, kept)

    def without(self, left_out: Collection[tuple[int, int]]) -> Arrays:
        """The model without the buckets of these exponents and signs."""
        kept = [~among(a, left_out) for a in self.alphabets]
        return rebuilt(self.before, self.alphabets, self.codes, kept)

    def distance(self, rebuilt: Arrays) -> float:
        """||rebuilt - u_t|| / ||u_t - u_0||."""
        moved = self.state.moved
        return distance(rebuilt, self.state.arrays) / moved if moved else 0.0

    def values(self, k: int) -> int:
        """How many values change if the k largest buckets of each alphabet do."""
        return sum(int(a.buckets.count[:k].sum()) for a in self.alphabets)


def split_delta(layout: Layout, before: Arrays, state: RunState, scope: str) -> SplitDelta:
    """The delta from a track to a state. Raises codec.LccError."""
    tracker = Tracker.resume(Track.of(layout, copy_arrays(before)), Coding(None, scope))
    step = tracker.prepare_arrays(state.arrays)
    alphabets, codes = dissect(changes(state.arrays, before, step), step)
    return SplitDelta(state, {**before, **step.exact_after(before)}, alphabets, tuple(codes))


def marks(most: int) -> dict[int, str]:
    """k -> which bits keep so many buckets, "all" where there are no more."""
    found = {}
    for bits in EVERY_BITS:
        k = n_promoted(bits)
        if k is None or k >= most:
            found[most] = "all"
            break
        found[k] = f"{bits}"
    return found


class LossCurve:
    """The loss of the rebuilt model for every k, measured a few at a time."""

    def __init__(self, delta: SplitDelta, loss_of: LossOf) -> None:
        self.delta, self._loss_of = delta, loss_of
        self.losses: dict[int, float] = {}
        self._left = list(order(delta.most))

    @property
    def total(self) -> int:
        """How many there will be."""
        return self.delta.most + 1

    @property
    def done(self) -> bool:
        """Whether all are there."""
        return len(self.losses) == self.total

    @property
    def drawn(self) -> dict[int, float]:
        """Those of a picture that is drawn anew only when twice as many are known, or all."""
        n = len(self.losses)
        most = n if self.done else 1 << n.bit_length() >> 1
        return dict(islice(self.losses.items(), most))

    def loss(self, k: int) -> float:
        """That of the k largest, measured now if it is not there."""
        if k not in self.losses:
            self.losses[k] = self._loss_of(self.delta.largest(k))
        return self.losses[k]

    def go_on(self, seconds: float) -> None:
        """Measure more of them for so long; one at least, if any is left."""
        until = time.perf_counter() + seconds
        while not self.done:
            self.loss(self._left.pop(0))
            if time.perf_counter() > until:
                break


def order(most: int) -> Iterator[int]:
    """0 to ``most``, so that the first ones already show the shape of all."""
    first = dict.fromkeys([*marks(most), 0])
    yield from first
    seen, leap = set(first), 1 << most.bit_length()
    while leap:
        for k in range(leap, most + 1, leap):
            if k not in seen:
                seen.add(k)
                yield k
        leap //= 2
