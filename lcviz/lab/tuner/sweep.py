"""Many settings tried out on one series, as a visitor asks for it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from lcviz.lab.progress import Progress
from lcviz.lab.series import OpenedFiles, OpenedSeries, Series, TrainedSeries
from lcviz.lab.workload import Workload, workload

from .candidates import Candidate, Setting, settings
from .replay import try_out

ITERATIONS = 160  # of a training, as `python -m lcviz tune` takes
RUN_ITERATIONS = 100  # of a run that is repeated: the answer has to come within seconds


@dataclass(frozen=True)
class Sweep:
    """What determines the outcome.

    model: of `demo_models`, trained on its built-in data from seed 0; "" for others. own: a digest
    of checkpoints of a visitor's own; opened: these, which alone are not compared. wide: whether
    every setting is tried, or a choice of them. run, seed: what a run trains; its first
    RUN_ITERATIONS are repeated.
    """

    model: str
    own: str = ""
    wide: bool = False
    run: Workload | None = None
    seed: int = 0
    opened: OpenedFiles | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> Sweep:
        """The same without the files: whoever keeps it does not keep them."""
        return replace(self, opened=None)

    @property
    def unit(self) -> str:
        """What bytes and intervals are counted in."""
        return "checkpoint" if self.own else "iteration"

    @property
    def tried(self) -> list[Setting]:
        """The settings."""
        if self.wide:
            return settings()
        few: dict[str, Any] = {
            "bits": (1, 2, 3, 4, None),
            "coders": ("runlength",),
            "quantizers": ("uniform",),
        }
        if self.run is not None:
            return settings(budgets=(0.02, 0.05), scopes=("model",), **few)
        return settings(budgets=(0.02, 0.05, 0.1), intervals=(1, 2, 5), **few)

    @property
    def series(self) -> Series:
        """What they are tried out on. Raises codec.SettingsError."""
        if self.opened is not None:
            return OpenedSeries(self.opened)
        if self.run is not None:
            return TrainedSeries(self.run, self.seed, RUN_ITERATIONS)
        return TrainedSeries(workload(self.model), 0, ITERATIONS)

    def try_out(self, progress: Progress) -> tuple[Candidate, ...]:
        """Replay them all. Raises what `lab.tuner.try_out` does."""
        return try_out(self.series, self.tried, progress)
