"""What can be chosen for checkpoints, and what each choice made of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from codec import Coding
from codec.inspect import CODERS, QUANTIZERS, SCOPES
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.lab.intervals import Mean
from lcviz.lab.recovery.methods import SHARES

INTERVALS = (1, 2, 5, 10)
DISTANCES = (0.1, 0.3)


@dataclass(frozen=True)
class Setting:
    """What can be chosen. interval: between checkpoints."""

    coding: Coding
    interval: int

    def text(self, unit: str = "iteration") -> str:
        """In words. unit: what intervals are counted in."""
        every = f"every {unit}" if self.interval == 1 else f"every {self.interval} {unit}s"
        return f"{self.coding.describe()}, saved {every}"

    @property
    def restores(self) -> Setting:
        """A setting that restores the same; with bits, the coder changes only the size."""
        if not self.coding.by_bits:
            return self
        return replace(self, coding=replace(self.coding, coder=Coding.coder))


@dataclass(frozen=True)
class Candidate:
    """A setting, and what it made of one run.

    share: of the float32 bytes, of a delta on disk, the mean; share_bound: what another one stays
    below in 95 of 100 cases, and with a budget always. exact_share: what of it are tensors
    that are stored exactly, an optimizer's, say. rate: share for every iteration (checkpoint of the
    series, where it comes without a training). distance: ||restored - u_T|| / ||u_T - u_0||,
    rework: iterations; both over the failures that were tried, with a bound that another failure
    stays below in 95 of 100 cases. rework and its bound are None where no loss is known.
    """

    setting: Setting
    share: float
    share_bound: float
    exact_share: float
    distance: Mean
    distance_bound: float
    rework: Mean | None
    rework_bound: float | None

    @property
    def rate(self) -> float:
        """Share of the float32 bytes written for every iteration, or checkpoint of the series."""
        return self.share / self.setting.interval

    def meets(self, target: str, most: float) -> bool:
        """Whether a target is met with near certainty."""
        return self.reached(target) <= most

    def reached(self, target: str) -> float:
        """What a target's number is compared with."""
        if target == "rework":
            assert self.rework_bound is not None, "a series without a loss is refused before"
            return self.rework_bound
        return self.share_bound if target == "size" else self.distance_bound

    @property
    def costs(self) -> tuple[float, float, float]:
        """What there should be little of: rate, distance, rework."""
        return self.rate, self.distance.value, self.rework.value if self.rework else 0.0


def settings(
    bits: Sequence[int | None] = EVERY_BITS,
    budgets: Sequence[float] = SHARES,
    scopes: Sequence[str] = SCOPES,
    coders: Sequence[str] = tuple(CODERS),
    intervals: Sequence[int] = INTERVALS,
    quantizers: Sequence[str] = QUANTIZERS,
    distances: Sequence[float] = DISTANCES,
) -> list[Setting]:
    """Every combination of one target with a scope, coder and interval.

    A target is bits, a distance, or a budget with each quantizer.
    """
    targets = [Coding(x) for x in bits]
    targets += [Coding(budget=b, quantizer=q) for b, q in product(budgets, quantizers)]
    targets += [Coding(distance=d) for d in distances]
    return [
        Setting(replace(target, scope=scope, coder=coder), interval)
        for target, scope, coder, interval in product(targets, scopes, coders, intervals)
    ]
