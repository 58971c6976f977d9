"""The settings of checkpoints, and what each of them reaches in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from codec import Coding
from codec.inspect import CODERS, DEFAULT_DISTANCE, QUANTIZERS, SCOPES
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.lab.intervals import Mean
from lcviz.lab.recovery.methods import SHARES

INTERVALS = (1, 2, 5, 10)
DISTANCES = (0.1, DEFAULT_DISTANCE)


@dataclass(frozen=True)
class Setting:
    """A setting of checkpoints. interval: between them."""

    coding: Coding
    interval: int

    def text(self, unit: str = "iteration") -> str:
        """The setting in words. unit: of intervals."""
        interval = f"every {unit}" if self.interval == 1 else f"every {self.interval} {unit}s"
        return f"{self.coding.describe()}, saved {interval}"

    @property
    def restores(self) -> Setting:
        """The setting that stands for all that restore the same: with bits, any coder does."""
        if not self.coding.by_bits:
            return self
        return replace(self, coding=replace(self.coding, coder=Coding.coder))


@dataclass(frozen=True)
class Candidate:
    """A setting, and what it reaches in one run.

    share: mean size of a delta on disk, of float32. exact_share: the part of it that is stored
    exactly, such as an optimizer's tensors. distance: ||restored - u_T|| / ||u_T - u_0||. rework:
    iterations; None if no loss is known. Distance and rework are means over all failures.
    share_bound, distance_bound, rework_bound: what another delta or failure of a training stays
    below in 95 of 100 cases, with a budget always; if no loss is known, the largest of the series.
    full_nbytes: of all that is saved, in float32. base_nbytes: of a base. n_deltas: such deltas
    between two bases. counts_bases: whether `rate` includes bases.
    """

    setting: Setting
    share: float
    share_bound: float
    exact_share: float
    distance: Mean
    distance_bound: float
    rework: Mean | None
    rework_bound: float | None
    full_nbytes: int
    base_nbytes: int
    n_deltas: int
    counts_bases: bool = False

    @property
    def with_bases(self) -> Candidate:
        """The same, with the bases of a long chain counted in its rate."""
        return replace(self, counts_bases=True)

    @property
    def rate(self) -> float:
        """Share of the float32 bytes written for every iteration, or checkpoint of the series."""
        share, n = self.share, self.n_deltas
        if self.counts_bases:
            share = (n * share + self.base_nbytes / self.full_nbytes) / (n + 1)
        return share / self.setting.interval

    def meets(self, target: str, most: float) -> bool:
        """Whether a target is met with near certainty."""
        return self.reached(target) <= most

    def reached(self, target: str) -> float:
        """The value that is compared with a target's number."""
        if target == "rework":
            assert self.rework_bound is not None, "a series without a loss is refused before"
            return self.rework_bound
        return {"size": self.share_bound, "rate": self.rate, "distance": self.distance_bound}[
            target
        ]

    @property
    def costs(self) -> tuple[float, float, float]:
        """Rate, distance and rework: the less, the better."""
        return self.rate, self.distance.value, self.rework.value if self.rework else 0.0


@dataclass(frozen=True)
class Grid:
    """Every combination of one target with a scope, coder and interval.

    A target is bits, a distance, or a budget with each quantizer.
    """

    bits: Sequence[int | None] = EVERY_BITS
    budgets: Sequence[float] = SHARES
    scopes: Sequence[str] = SCOPES
    coders: Sequence[str] = tuple(CODERS)
    intervals: Sequence[int] = INTERVALS
    quantizers: Sequence[str] = QUANTIZERS
    distances: Sequence[float] = DISTANCES

    @property
    def settings(self) -> list[Setting]:
        """The settings."""
        targets = [Coding(x) for x in self.bits]
        targets += [
            Coding(budget=b, quantizer=q) for b, q in product(self.budgets, self.quantizers)
        ]
        targets += [Coding(distance=d) for d in self.distances]
        return [
            Setting(replace(target, scope=scope, coder=coder), interval)
            for target in targets
            for scope, coder, interval in product(self.scopes, self.coders, self.intervals)
        ]
