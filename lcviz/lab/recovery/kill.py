"""The race back of a killed training: LC from its chain, the other methods from a repetition.

A live training saves with LC alone. To compare LC with full, SCAR and TOPN, the training is
repeated from its seed with the same batches, and each of them saves it at the same steps. They save
the model alone or the optimizer's state as well, as the training did; SCAR and TOPN get the bytes
that LC's records after the base took on average. LC restores from the chain on disk. Then all
methods go on, and rework is counted as in `recovery`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import codec
from codec.errors import StepNotFoundError
from codec.inspect import Track, layout_of, to_arrays
from demo_models import Training
from lcviz.lab.progress import Report
from lcviz.lab.workload import Workload, to_load

from .methods import Method
from .recovery import Outcome, Protocol, fail_and_recover

BEFORE = 30  # iterations before the crash whose losses are drawn
CAPS = (100, 50, 25, 10)  # iterations after T to look for rework; the first that fits is taken
SECONDS = 300.0  # longer races are not offered


def fingerprint(model: Mapping[str, Any]) -> str:
    """xxh3-128, hex, of a model's names, shapes and bits. model: name -> tensor or array."""
    layout = layout_of(model)
    arrays = to_arrays(model, layout)
    return Track.of(layout, arrays).digest


@dataclass(frozen=True)
class OnDisk(Method):
    """LC-Checkpoint with records that a training has already written; they are only counted.

    chain: the directory. newest: the step to restore; later ones are ignored. whole: whether its
    records hold the optimizer's state beside the model.
    """

    chain: Path = Path()
    newest: int = 0
    whole: bool = False

    @property
    def name(self) -> str:
        """A race has only one LC."""
        return "LC"

    def open(self, folder: Path) -> _Records:
        """See `Method.open`; the folder stays empty. Raises codec.LccError."""
        return _Records(self)

    def restored(self, step: int) -> dict[str, Any]:
        """A step as `Training.load` takes it. Raises codec.LccError."""
        return to_load(codec.restore(self.chain, step), self.whole)


class _Records:
    """A chain on disk, as a `Saver`."""

    def __init__(self, of: OnDisk) -> None:
        self._of = of
        self._nbytes = {e.step: e.nbytes for e in codec.Chain(of.chain).entries}

    def save(self, step: int, state: Mapping[str, Any]) -> int:
        """Bytes of this step's record. Raises StepNotFoundError if there is none."""
        if step not in self._nbytes:
            raise StepNotFoundError(f"{self._of.chain}: holds no step {step}")
        return self._nbytes[step]

    def restore(self) -> dict[str, Any]:
        return self._of.restored(self._of.newest)

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Pace:
    """Seconds: of an iteration, of one loss on held-out examples, and of one save."""

    iteration: float
    probe: float
    save: float


@dataclass(frozen=True)
class Raced:
    """The outcomes of a crash: full, SCAR, TOPN, LC.

    alike: whether the repeated training reached the bits of the killed one at the crash.
    """

    outcomes: tuple[Outcome, ...]
    alike: bool


@dataclass(frozen=True)
class Crash:
    """A training that was killed, and the chain it left.

    workload, seed: what was trained. fail_at: T, the last iteration. interval: iterations between
    checkpoints. ours: LC with its chain and the newest step. share: of float32, the mean size of
    its records after the base. last_fingerprint: of its model at T. resumed_at: the
    steps from which it resumed after earlier crashes. cap: iterations after T to look for rework.
    """

    workload: Workload
    seed: int
    fail_at: int
    interval: int
    ours: OnDisk
    share: float
    last_fingerprint: str
    resumed_at: frozenset[int] = frozenset()
    cap: int = CAPS[0]

    @property
    def methods(self) -> tuple[Method, ...]:
        """The methods, in the order of the outcomes."""
        share = min(self.share, 1.0)  # a record of a tiny model may be larger than the model
        return Method("full"), Method("scar", share), Method("topn", share), self.ours

    @property
    def protocol(self) -> Protocol:
        """The protocol of `fail_and_recover`."""
        whole = self.ours.whole
        return Protocol(
            self.fail_at,
            self.interval,
            self.cap,
            optimizer=whole,
            optimizer_at_start=whole,
            before=BEFORE,
        )

    def race(self, report: Report) -> Raced:
        """Repeat, restore and race. report, errors: as in `fail_and_recover`."""
        alike = False

        def after(iteration: int, training: Training) -> None:
            nonlocal alike
            if iteration in self.resumed_at:
                training.load(self.ours.restored(iteration))
            if iteration == self.fail_at:
                alike = fingerprint(training.state()["model"]) == self.last_fingerprint

        outcomes = fail_and_recover(
            self.workload, self.seed, self.methods, self.protocol, report, after
        )
        return Raced(tuple(outcomes), alike)

    def seconds(self, pace: Pace) -> float:
        """An upper estimate of how long the race takes."""
        repeated, *raced = self.protocol.iterations(len(self.methods))
        saves = (len(self.methods) - 1) * (repeated // self.interval)  # LC has saved already
        return (
            repeated * pace.iteration
            + saves * pace.save
            + sum(raced) * (pace.iteration + pace.probe)
        )

    def capped(self, pace: Pace) -> Crash | None:
        """The crash with the largest of CAPS that fits into SECONDS; None if none does."""
        crashes = (replace(self, cap=cap) for cap in CAPS)
        return next((crash for crash in crashes if crash.seconds(pace) <= SECONDS), None)

    @property
    def hurried(self) -> bool:
        """Whether the cap is below the largest of CAPS, because the training is slow."""
        return self.cap < CAPS[0]

    @property
    def shortest(self) -> Crash:
        """The crash with the smallest of CAPS."""
        return replace(self, cap=CAPS[-1])

    def where(self, share: float) -> str:
        """What a race does now, in words. share: of its progress, from 0 to 1."""
        repeated, calm, *most = plan = self.protocol.iterations(len(self.methods))
        phases = [
            ("Repeating the training: {} of {}", repeated),
            ("Training on without a crash, to compare: {} of {}", calm),
        ]
        for method, n in zip(self.methods, most, strict=True):
            phases.append((f"Racing back: {method.name}, {{}} of {{}} at most", n))
        done = round(share * sum(plan))
        for text, n in phases:
            if done < n:
                return text.format(done, n)
            done -= n
        return "Counting"
