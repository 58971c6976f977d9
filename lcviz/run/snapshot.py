"""A run's settings, status, checkpoints and snapshot: immutable values, shared between threads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto
from functools import cached_property
from typing import Any

from codec import Coding
from codec.inspect import Arrays, Layout
from demo_models.optimizers import WITH_MOMENTS
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.recovery.kill import Pace, fingerprint
from lcviz.lab.sizes import Tables
from lcviz.lab.workload import Workload


class Status(StrEnum):
    """What a run does now. Snapshots show STEPPING, PAUSING and DYING as PLAYING."""

    PAUSED = auto()
    PLAYING = auto()
    STEPPING = auto()  # trains up to the next checkpoint
    PAUSING = auto()  # finishes the iteration under way
    FINISHED = auto()
    FAILED = auto()
    DYING = auto()  # finishes the iteration under way, then is KILLED
    KILLED = auto()
    RESTORING = auto()
    CLOSED = auto()


(PAUSED, PLAYING, STEPPING, PAUSING, FINISHED, FAILED, DYING, KILLED, RESTORING, CLOSED) = Status
TRAINING = (PLAYING, STEPPING, PAUSING)
BUSY = (PLAYING, RESTORING)  # of a snapshot: it changes while nobody does anything
DEAD = (KILLED, RESTORING)  # the model is not in memory
_FROM_TRAINING = (*TRAINING, PAUSED, FINISHED, FAILED, DYING, CLOSED)
NEXT: dict[Status, tuple[Status, ...]] = {  # every change of status that a run may make
    PAUSED: (PLAYING, STEPPING, FINISHED, FAILED, DYING, CLOSED),
    **dict.fromkeys(TRAINING, _FROM_TRAINING),
    FINISHED: (DYING, CLOSED),
    FAILED: (CLOSED,),
    DYING: (KILLED, FAILED, CLOSED),
    KILLED: (RESTORING, CLOSED),
    RESTORING: (PAUSED, PLAYING, KILLED, CLOSED),
    CLOSED: (),
}


class RunError(Exception):
    """Something a run cannot do; the message is a sentence for the person at the screen."""


@dataclass(frozen=True)
class RunSettings:
    """Everything that determines a run: the same settings give the same bytes of chain.

    folder: where MNIST, MovieLens or Jester files are; None for built-in data. interval:
    iterations between checkpoints. stop_after: iterations until the run finishes by itself.
    optimizer_state: whether checkpoints hold the optimizer's state beside the weights, with its
    moments as lossy as the codec makes them; for Adam and AdamW.
    loss_share: the share of the run's time that measuring losses on held-out examples may take;
    None measures at every checkpoint. It changes no byte.
    """

    model: str = "logistic-regression"
    data: str = "digits"
    folder: str | None = None
    optimizer: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.0
    batch_size: int = 256
    seed: int = 0
    interval: int = 10
    coding: Coding = field(default_factory=Coding)
    stop_after: int = 600
    loss_share: float | None = None
    optimizer_state: bool = False

    @property
    def workload(self) -> Workload:
        """What is trained."""
        own = {each.name for each in fields(self)}
        shared = (each.name for each in fields(Workload) if each.name in own)
        return Workload(**{name: getattr(self, name) for name in shared})

    def check(self) -> None:
        """Raise RunError, which says what to change, for numbers that no run can use."""
        if self.interval < 1 or self.stop_after < 1:
            raise RunError("Checkpoint interval and number of iterations are at least 1.")
        if self.interval > self.stop_after:
            raise RunError(
                f"With a checkpoint every {self.interval} iterations and {self.stop_after} "
                "iterations in all, nothing would be saved: lower the interval."
            )
        if self.optimizer_state and self.optimizer not in WITH_MOMENTS:
            raise RunError("Only Adam and AdamW keep moments to save: save the weights alone.")


@dataclass(frozen=True)
class Moment:
    """One of Adam's moments in a record.

    kind: "m", the mean of the gradients, or "v", that of their squares. parameter: its name. n:
    elements. nbytes: of its code words, table and levels.
    """

    kind: str
    parameter: str
    n: int
    nbytes: int


def nbytes_by_kind(moments: Sequence[Moment]) -> dict[str, int]:
    """Bytes of "m" and of "v" in a record; {} where it holds none."""
    kinds = sorted({moment.kind for moment in moments})
    return {kind: sum(m.nbytes for m in moments if m.kind == kind) for kind in kinds}


@dataclass(frozen=True)
class Checkpoint:
    """One saved step and what was measured with it.

    nbytes, full_nbytes: bytes of the record, and of the same state in float32.
    stream_nbytes: of nbytes, the payload, tables, levels and exact tensors.
    exact_nbytes: of nbytes, what is stored exactly, with its header entries: outside a budget.
    lossy_nbytes: of the lossy tensors in float32, without the moments.
    weights_full_nbytes: of the weights in float32. moments: of an optimizer that is saved.
    moment_nbytes: of nbytes, theirs, outside a budget.
    train_loss: of the iteration's batch.
    live_loss, restored_loss: on the probe, of the live model and of the track; None where there
    was no time to measure them. live_metric, restored_metric: beside them, see `Task.probe_metric`.
    distance: ||track - u_t|| / ||u_t - u_0||. moved: that denominator.
    alphabets: those of older steps are read from disk on access. tables: of the alphabets.
    train_, codec_, measure_seconds: since the checkpoint before.
    track: xxh3-128 of the track.
    """

    step: int
    kind: str
    nbytes: int
    full_nbytes: int
    stream_nbytes: int
    exact_nbytes: int
    lossy_nbytes: int
    weights_full_nbytes: int
    moments: tuple[Moment, ...]
    moment_nbytes: int
    train_loss: float
    live_loss: float | None
    restored_loss: float | None
    live_metric: float | None
    restored_metric: float | None
    distance: float
    moved: float
    alphabets: Sequence[Alphabet]
    tables: Tables
    non_finite: tuple[str, ...]
    train_seconds: float
    codec_seconds: float
    measure_seconds: float
    track: str

    @property
    def measured(self) -> bool:
        """True if the losses of this step were measured."""
        return self.live_loss is not None


@dataclass(frozen=True)
class WholeStates:
    """The two states of a delta as the codec gets them, where the optimizer's is among them.

    layout: of both. before, live: name -> array; the weights' are those of `States`. values: before
    and live, what is no tensor.
    """

    layout: Layout
    before: Arrays
    live: Arrays
    values: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


@dataclass(frozen=True)
class States:
    """The two states of a delta: the track before it, and the model that was saved.

    Arrays that never change again: name -> float32. before is empty for a base. whole: with the
    optimizer's, if it is saved; None for a base.
    """

    step: int
    before: Arrays
    live: Arrays
    whole: WholeStates | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that both take in memory."""
        both = (self.whole.before, self.whole.live) if self.whole else (self.before, self.live)
        return sum(a.nbytes for arrays in both for a in arrays.values())


@dataclass(frozen=True)
class Kill:
    """A crash that a visitor asked for.

    iteration: T, the last that was trained. step: the newest on disk. died_as: fingerprint of the
    model at T. pace: how fast the run was.
    """

    iteration: int
    step: int
    died_as: str
    pace: Pace

    @property
    def lost(self) -> int:
        """Iterations after the newest checkpoint."""
        return self.iteration - self.step


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment.

    message: a sentence where the status needs one. checkpoints: the base first. train_seconds,
    wall_seconds: sums over the run, without pauses. kills: the run went on after each, except for
    the last one while it is DEAD.
    """

    status: Status
    message: str
    iteration: int
    checkpoints: tuple[Checkpoint, ...]
    train_seconds: float
    wall_seconds: float
    kills: tuple[Kill, ...] = ()

    @property
    def _survived(self) -> tuple[Kill, ...]:
        return self.kills[:-1] if self.status in DEAD else self.kills

    @property
    def resumed_at(self) -> tuple[int, ...]:
        """The steps that the run was restored from, one for each kill after which it went on."""
        return tuple(kill.step for kill in self._survived)

    @property
    def trained(self) -> int:
        """Iterations, with those that were lost and trained again."""
        return self.iteration + sum(kill.lost for kill in self._survived)

    @property
    def codec_seconds(self) -> float:
        """Time that all saves took."""
        return sum(c.codec_seconds for c in self.checkpoints)

    @property
    def measure_seconds(self) -> float:
        """Time that all measurements took."""
        return sum(c.measure_seconds for c in self.checkpoints)

    @property
    def rate(self) -> float:
        """Iterations a second of wall-clock time, saving and measuring included."""
        return self.trained / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def newest(self) -> Checkpoint:
        """The last saved step; the base is always there."""
        return self.checkpoints[-1]

    @cached_property
    def measured(self) -> tuple[Checkpoint, ...]:
        """The checkpoints whose losses were measured, always with the base."""
        return tuple(c for c in self.checkpoints if c.live_loss is not None)

    @property
    def steps(self) -> tuple[int, ...]:
        """Saved steps, rising; 0 is the base."""
        return tuple(c.step for c in self.checkpoints)

    def at(self, step: int) -> Checkpoint:
        """The newest checkpoint at or before ``step``."""
        return next(c for c in reversed(self.checkpoints) if c.step <= max(step, 0))

    def killed(self, model: Mapping[str, Any], loss_seconds: float) -> Kill:
        """A kill at this moment. model: its state_dict. loss_seconds: of all losses measured."""
        probed = 2 * len(self.measured) - 1  # two states each, but one for the base
        pace = Pace(
            self.train_seconds / self.trained,
            loss_seconds / probed,
            statistics.median(c.codec_seconds for c in self.checkpoints),
        )
        return Kill(self.iteration, self.newest.step, fingerprint(model), pace)


def describe_divergence(checkpoints: Sequence[Checkpoint], iteration: int, loss: float) -> str:
    """That the loss became NaN or infinite, and which steps are still good."""
    good = [c.step for c in checkpoints if c.measured and math.isfinite(c.restored_loss or 0.0)]
    return (
        f"Training diverged: the loss became {loss} at iteration {iteration}. Every checkpoint "
        f"up to step {checkpoints[-1].step} restores; the newest known to have a finite loss is "
        f"step {good[-1]}. Reset, and try a lower learning rate."
    )
