"""Many settings tried out on one series, as a visitor asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lcviz.lab.progress import Progress
from lcviz.lab.series import OwnSeries, Series, TrainedSeries
from lcviz.lab.workload import Workload, workload

from .candidates import Candidate, Setting, settings
from .replay import try_out

ITERATIONS = 160  # of a training, as `python -m lcviz tune` takes
RUN_ITERATIONS = 100  # of a run that is repeated: the answer has to come within seconds


@dataclass(frozen=True)
class Sweep:
    """What determines the outcome.

    model: of `demo_models`, trained on its built-in data from seed 0; "" for others. own: a folder
    of checkpoints, a file or a chain, with a stamp of its files at that time: see `stamped`. wide:
    whether every setting is tried, or a choice of them. run, seed: what a run trains; its first
    RUN_ITERATIONS are repeated.
    """

    model: str
    own: str = ""
    stamp: int = 0
    wide: bool = False
    run: Workload | None = None
    seed: int = 0

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
        """What they are tried out on. Raises codec.SettingsError, SourceError."""
        if self.own:
            return OwnSeries([Path(self.own)])
        if self.run is not None:
            return TrainedSeries(self.run, self.seed, RUN_ITERATIONS)
        return TrainedSeries(workload(self.model), 0, ITERATIONS)

    def try_out(self, progress: Progress) -> tuple[Candidate, ...]:
        """Replay them all. Raises what `lab.tuner.try_out` does."""
        return try_out(self.series, self.tried, progress)


def stamped(own: str, *, wide: bool) -> Sweep:
    """A sweep over checkpoints as they are now: once they change, it is another one."""
    return Sweep("", own, hash(tuple(_file_stamps(Path(own)))), wide)


def _file_stamps(path: Path) -> Iterator[tuple[str, int, int]]:
    """Names, sizes and times of change of the files; none if they cannot be listed."""
    try:
        for one in [path, *(sorted(path.iterdir()) if path.is_dir() else [])]:
            about = one.stat()
            yield one.name, about.st_size, about.st_mtime_ns
    except (OSError, ValueError):  # of a name that is no name
        return
