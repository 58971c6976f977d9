"""Many settings tried out on one series, at a visitor's request."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lcviz.lab.progress import Progress
from lcviz.lab.series import OpenedFiles, OpenedSeries, Series, TrainedSeries
from lcviz.lab.workload import Workload, workload

from .candidates import Candidate, Grid, Setting
from .replay import try_out

ITERATIONS = 160  # of a training, as `python -m benchmarks.experiments tune` takes
RUN_ITERATIONS = 100  # of a repeated run: the answer must come within seconds


@dataclass(frozen=True)
class Sweep:
    """All that determines the outcome.

    model: of `demo_models`, trained on its built-in data from seed 0; "" for another series.
    digest: of a visitor's own checkpoints. wide: whether all settings are tried, or a selection.
    run, seed: what a run trains; its first RUN_ITERATIONS are repeated. opened: the visitor's
    checkpoints; they take no part in comparisons.
    """

    model: str
    digest: str = ""
    wide: bool = False
    run: Workload | None = None
    seed: int = 0
    opened: OpenedFiles | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> Sweep:
        """The sweep without the files, so that keeping it does not keep them in memory."""
        return replace(self, opened=None)

    @property
    def candidate_settings(self) -> list[Setting]:
        """The settings that are tried out."""
        few = Grid((1, 2, 3, 4, None), (0.02, 0.05), coders=("runlength",), quantizers=("uniform",))
        if self.wide:
            few = Grid()
        elif self.run is not None:
            few = replace(few, scopes=("model",))
        else:
            few = replace(few, budgets=(0.02, 0.05, 0.1), intervals=(1, 2, 5))
        return few.settings

    @property
    def series(self) -> Series:
        """The series that they are tried out on. Raises codec.SettingsError."""
        if self.opened is not None:
            return OpenedSeries(self.opened)
        if self.run is not None:
            return TrainedSeries(self.run, self.seed, RUN_ITERATIONS)
        return TrainedSeries(workload(self.model), 0, ITERATIONS)

    def try_out(self, progress: Progress) -> tuple[Candidate, ...]:
        """Replay all settings. Raises what `replay.try_out` does."""
        return try_out(self.series, self.candidate_settings, progress)
