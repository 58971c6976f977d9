"""The recovery experiment of the Recover page, and its means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lcviz.lab.intervals import Mean, mean
from lcviz.lab.progress import Progress, as_report
from lcviz.lab.workload import workload

from .methods import Method, methods_at
from .recovery import Outcome, Protocol, fail_and_recover

# Of `CrashCost`, those that are means of the same field of `Outcome`.
MEANS = ("nbytes", "share", "loss_before", "loss_restored", "distance", "save_seconds")


@dataclass(frozen=True)
class CrashExperiment:
    """A training that fails, and five methods of saving it at an equal share.

    model: of `demo_models`, on its built-in data, with the lab's settings. share: of float32 that a
    checkpoint may take; "full" takes all of it. protocol: when the training fails.
    """

    model: str
    share: float
    protocol: Protocol

    @property
    def methods(self) -> tuple[Method, ...]:
        """Full, SCAR, TOPN, the paper's LC, and ours."""
        return Method("full"), *methods_at(self.share)

    def fail(self, seed: int, progress: Progress) -> tuple[Outcome, ...]:
        """The outcomes of one seed, in the order of `methods`. Errors: see `fail_and_recover`."""
        trained, report = workload(self.model), as_report(progress)
        return tuple(fail_and_recover(trained, seed, self.methods, self.protocol, report))


@dataclass(frozen=True)
class CrashCost:
    """What failures cost with one method: means over seeds.

    rework: iterations; capped ones count as the cap. each: the rework of every seed, and whether it
    was capped. The others: see `Outcome`.
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
        """How many seeds were capped; with any, the mean rework is a lower bound."""
        return sum(capped for _, capped in self.each)


def costs(seeds: Sequence[Sequence[Outcome]]) -> list[CrashCost]:
    """The cost of each method.

    seeds: the outcomes of each seed, in the same order. Raises ValueError without seeds.
    """
    if not seeds:
        raise ValueError("no seeds: there is no mean")
    return [
        CrashCost(
            outcomes[0].method,
            mean([o.rework for o in outcomes]),
            tuple((o.rework, o.capped) for o in outcomes),
            *(mean([getattr(o, name) for o in outcomes]).value for name in MEANS),
        )
        for outcomes in zip(*seeds, strict=True)
    ]
