"""A run's settings, status, checkpoints and snapshot: immutable values, shared between threads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto
from functools import cached_property
from typing import Any

from codec import Coding, Saved
from demo_models.optimizers import WITH_MOMENTS
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.recovery.kill import Pace, fingerprint
from lcviz.lab.workload import Workload

from .whole_state import Moment


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
BUSY = (PLAYING, RESTORING)  # statuses of a snapshot that will change by itself
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
    """A run cannot do something; the message is a sentence for the page."""


@dataclass(frozen=True)
class RunSettings:
    """Everything that determines a run: the same settings give a chain of the same bytes.

    folder: where MNIST, MovieLens or Jester files are; None for built-in data. interval: iterations
    between checkpoints. stop_after: iterations until the run finishes. optimizer_state: whether
    checkpoints also hold the optimizer's state, with the codec's default for moments; for Adam and
    AdamW only. loss_share: the share of the run's time that measuring losses on held-out examples
    may take; None measures at every checkpoint. It does not change the chain.
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
        own_names = {f.name for f in fields(self)}
        names = own_names & {f.name for f in fields(Workload)}
        return Workload(**{name: getattr(self, name) for name in names})

    def check(self) -> None:
        """Raise RunError, which says what to change, for settings that no run can use."""
        if self.interval < 1 or self.stop_after < 1:
            raise RunError("Checkpoint interval and number of iterations must be at least 1.")
        if self.interval > self.stop_after:
            raise RunError(
                f"With a checkpoint every {self.interval} iterations and {self.stop_after} "
                "iterations in all, nothing would be saved: lower the interval."
            )
        if self.optimizer_state and self.optimizer not in WITH_MOMENTS:
            raise RunError("Only Adam and AdamW have moments to save: save the weights alone.")


@dataclass(frozen=True)
class Losses:
    """A checkpoint on the probe: the live model, and what a restart would load.

    live, restored: losses. live_metric, restored_metric: see `Task.probe_metric`.
    """

    live: float
    restored: float
    live_metric: float
    restored_metric: float


@dataclass(frozen=True)
class Checkpoint:
    """One saved step and its measurements.

    saved: its record in numbers, without the delta. alphabets: of the weights; those of older steps
    are read from disk on access. moments: of the optimizer, if it is saved. weights_nbytes: of the
    weights in float32. distance: ||track - u_t|| / ||u_t - u_0||. moved: its denominator. track:
    xxh3-128 of the track. losses: None if there was no time to measure them.
    """

    saved: Saved
    alphabets: Sequence[Alphabet]
    moments: tuple[Moment, ...]
    weights_nbytes: int
    distance: float
    moved: float
    track: str
    losses: Losses | None = None

    @property
    def step(self) -> int:
        """Its number."""
        return self.saved.step

    @property
    def kind(self) -> str:
        """ "base" or "delta"."""
        return self.saved.kind

    @property
    def nbytes(self) -> int:
        """Bytes of the record."""
        return self.saved.nbytes

    @property
    def full_nbytes(self) -> int:
        """Bytes of the same state in float32."""
        return self.saved.full_nbytes

    @property
    def live_loss(self) -> float | None:
        """Of the live model; None if it was not measured."""
        return self.losses.live if self.losses else None


@dataclass(frozen=True)
class Kill:
    """A crash that a visitor asked for.

    iteration: T, the last that was trained. step: the newest on disk. last_fingerprint: of the
    model at T. pace: the run's pace.
    """

    iteration: int
    step: int
    last_fingerprint: str
    pace: Pace

    @property
    def lost(self) -> int:
        """Iterations after the newest checkpoint."""
        return self.iteration - self.step


@dataclass(frozen=True)
class Snapshot:
    """A run at one time.

    message: a sentence that explains the status, or "". checkpoints: the base first. train_seconds,
    wall_seconds: sums over the run, without pauses. kills: all; the run has gone on after each,
    except after the last one while it is DEAD. restarts: steps from which it went on after its
    process had ended.
    """

    status: Status
    message: str
    iteration: int
    checkpoints: tuple[Checkpoint, ...]
    train_seconds: float
    wall_seconds: float
    kills: tuple[Kill, ...] = ()
    restarts: tuple[int, ...] = ()

    @property
    def _survived(self) -> tuple[Kill, ...]:
        return self.kills[:-1] if self.status in DEAD else self.kills

    @property
    def resumed_at(self) -> tuple[int, ...]:
        """The steps that the run was restored from, rising."""
        return tuple(sorted({*(kill.step for kill in self._survived), *self.restarts}))

    @property
    def trained(self) -> int:
        """Iterations that were trained, those that were lost and repeated included."""
        return self.iteration + sum(kill.lost for kill in self._survived)

    @property
    def rate(self) -> float:
        """Iterations a second of wall-clock time, saving and measuring included."""
        return self.trained / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def newest(self) -> Checkpoint:
        """The last saved step; the base is always there."""
        return self.checkpoints[-1]

    @cached_property
    def losses(self) -> dict[int, tuple[float, float]]:
        """Step -> its live and its restored loss, where these were measured; 0 always has them."""
        return {c.step: (c.losses.live, c.losses.restored) for c in self.checkpoints if c.losses}

    @property
    def steps(self) -> tuple[int, ...]:
        """Saved steps, rising; 0 is the base."""
        return tuple(c.step for c in self.checkpoints)

    def at(self, step: int) -> Checkpoint:
        """The newest checkpoint at or before ``step``."""
        return next(c for c in reversed(self.checkpoints) if c.step <= max(step, 0))

    def killed(self, model: Mapping[str, Any], loss_seconds: float) -> Kill:
        """A kill now. model: its state_dict. loss_seconds: of measuring all losses so far."""
        probed = 2 * len(self.losses) - 1  # losses: two for each checkpoint, one for the base
        pace = Pace(
            self.train_seconds / self.trained,
            loss_seconds / probed,
            statistics.median(c.saved.seconds for c in self.checkpoints),
        )
        return Kill(self.iteration, self.newest.step, fingerprint(model), pace)


def describe_divergence(checkpoints: Sequence[Checkpoint], iteration: int, loss: float) -> str:
    """The message after the loss became NaN or infinite: it says which steps are still good."""
    good = [c.step for c in checkpoints if c.losses and math.isfinite(c.losses.restored)]
    return (
        f"Training diverged: the loss became {loss} at iteration {iteration}. Every checkpoint "
        f"up to step {checkpoints[-1].step} restores; the newest known to have a finite loss is "
        f"step {good[-1]}. Reset, and try a lower learning rate."
    )
