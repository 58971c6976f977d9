"""The recovery experiment of the Recover page, and its means over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import codec
from lcviz.lab.intervals import Mean, mean
from lcviz.lab.progress import Progress, counted
from lcviz.lab.workload import workload

from .methods import Method, methods_at
from .recovery import Outcome, Protocol, fail_and_recover


@dataclass(frozen=True)
class CrashExperiment:
    """One model that fails, and five ways to save it at an equal share.

    model: of `demo_models`, on its built-in data, with the lab's settings. share: of float32
    that a checkpoint may take; "full" takes all. protocol: when it fails.
    """

    model: str
    share: float
    protocol: Protocol

    @property
    def methods(self) -> tuple[Method, ...]:
        """Full, SCAR, TOPN, LC with the paper's coder, LC run-length: the last is ours."""
        return Method("full"), *methods_at(self.share)

    def fail(self, seed: int, progress: Progress) -> tuple[Outcome, ...]:
        """One seed, in the order of `methods`. Raises what `fail_and_recover` does."""
        codec.warm_up()  # no save is timed with its compilation
        of, report = workload(self.model), counted(progress)
        return tuple(fail_and_recover(of, seed, self.methods, self.protocol, report))


@dataclass(frozen=True)
class CrashCost:
    """What failures cost with one method: means over seeds.

    rework: iterations, a capped one counted as the cap. each: rework of every seed, and whether
    it was capped. nbytes, share: of a checkpoint on disk, and of float32. loss_before,
    loss_restored, distance, save_seconds: as in `Outcome`.
    """

    method: Method
    rework: Mean
    each: tuple[tuple[float, bool], ...]
    nbytes: float
    share: float
    loss_before: float
    loss_restored: float
    distance: float
    save_seconds: float

    @property
    def capped(self) -> int:
        """How many seeds were capped: with any, the true mean is this one or more."""
        return sum(capped for _, capped in self.each)


def costs(seeds: Sequence[Sequence[Outcome]]) -> list[CrashCost]:
    """By method. seeds: of each one its outcomes, in the same order. Raises ValueError for none."""
    if not seeds:
        raise ValueError("no seeds: there is no mean")
    return [
        CrashCost(
            own[0].method,
            mean([o.rework for o in own]),
            tuple((o.rework, o.capped) for o in own),
            *(
                mean([getattr(o, name) for o in own]).value
                for name in (
                    "nbytes",
                    "share",
                    "loss_before",
                    "loss_restored",
                    "distance",
                    "save_seconds",
                )
            ),
        )
        for own in zip(*seeds, strict=True)
    ]


def times(cost: CrashCost, ours: CrashCost) -> float | None:
    """This rework as a multiple of ours; a lower bound if it was capped.

    None if ours is 0 or was capped.
    """
    if ours.capped or not ours.rework.value or not math.isfinite(cost.rework.value):
        return None
    return cost.rework.value / ours.rework.value
