"""What a run is made from and what it shows: immutable values, safe to share between threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codec.state.tensors import Arrays
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.recovery.kill import Pace
from lcviz.lab.sizes import Tables

PAUSED, PLAYING, FINISHED, FAILED, CLOSED = "paused", "playing", "finished", "failed", "closed"
KILLED, RESTORING = "killed", "restoring"
BUSY = (PLAYING, RESTORING)  # something changes without a person's doing
DEAD = (KILLED, RESTORING)  # the model is not in memory


class RunError(Exception):
    """Something a run cannot do; the message is a sentence for the person at the screen."""


@dataclass(frozen=True)
class RunSettings:
    """Everything that determines a run: the same settings give the same bytes of chain.

    folder: where MNIST, MovieLens or Jester files are; None for built-in data. interval:
    iterations between checkpoints. bits, scope, coder, budget: as for `codec.Tracker`; a budget
    puts bits out of use. stop_after: iterations until the run finishes by itself.
    loss_share: the share of the run's time that measuring losses on held-out examples may
    take; None measures at every checkpoint, whatever it takes. It changes no byte.
    """

    model: str = "lenet5"
    data: str = "digits"
    folder: str | None = None
    optimizer: str = "sgd"
    lr: float = 0.05
    momentum: float = 0.0
    batch_size: int = 32
    seed: int = 0
    interval: int = 1
    bits: int | None = 2
    scope: str = "model"
    coder: str = "runlength"
    budget: float | None = None
    stop_after: int = 200
    loss_share: float | None = None

    def check(self) -> None:
        """Raise RunError, with a way out, for numbers that no run can use."""
        if self.interval < 1 or self.stop_after < 1:
            raise RunError("Checkpoint interval and number of iterations are at least 1.")
        if self.interval > self.stop_after:
            raise RunError(
                f"With a checkpoint every {self.interval} iterations and {self.stop_after} "
                "iterations in all, nothing would be saved: lower the interval."
            )


@dataclass(frozen=True)
class Checkpoint:
    """One saved step and what was measured with it.

    nbytes, full_nbytes: bytes of the record, and of the same state in float32.
    stream_nbytes: the part of nbytes that is payload, table, levels and exact tensors.
    exact_nbytes: what of nbytes is stored exactly, header entries included: outside a budget.
    lossy_nbytes: of the lossy tensors in float32.
    train_loss: of the iteration's batch. live_loss, restored_loss: on the probe, of the
    live model and of the track; None where time did not allow. track: xxh3-128 of the
    track. distance: ||track - u_t|| / ||u_t - u_0||. moved: that denominator. alphabets: of older
    steps they may be read from disk whenever they are looked at; tables: what they tell of theirs.
    train_, codec_, measure_seconds: since the checkpoint before.
    """

    step: int
    kind: str
    nbytes: int
    full_nbytes: int
    stream_nbytes: int
    exact_nbytes: int
    lossy_nbytes: int
    train_loss: float
    live_loss: float | None
    restored_loss: float | None
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
class States:
    """What a delta lies between: the track before it, and the model that was saved.

    Arrays that nobody changes any more: name -> float32. before is empty for a base.
    """

    step: int
    before: Arrays
    live: Arrays

    @property
    def nbytes(self) -> int:
        """What both take in memory."""
        return sum(a.nbytes for arrays in (self.before, self.live) for a in arrays.values())


@dataclass(frozen=True)
class Kill:
    """A crash that somebody asked for.

    iteration: T, the last that was trained. step: the newest on disk. died_as: the fingerprint of
    the model at T. pace: how fast the run was.
    """

    iteration: int
    step: int
    died_as: str
    pace: Pace

    @property
    def lost(self) -> int:
        """Iterations that no checkpoint has seen."""
        return self.iteration - self.step


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment; safe to keep and to share between threads.

    message: a sentence where the status needs one. checkpoints: the base first. The seconds
    are sums over the run; wall_seconds leaves out the pauses. kills: the run went on from every
    one, but for the last one of a run that is DEAD.
    """

    status: str
    message: str
    iteration: int
    checkpoints: tuple[Checkpoint, ...]
    train_seconds: float
    codec_seconds: float
    measure_seconds: float
    wall_seconds: float
    kills: tuple[Kill, ...] = ()

    @property
    def resumed_at(self) -> tuple[int, ...]:
        """Of every time that the run went on after a kill, the step it was restored from."""
        went_on = self.kills[:-1] if self.status in DEAD else self.kills
        return tuple(kill.step for kill in went_on)

    @property
    def trained(self) -> int:
        """Iterations, those included that were lost and had to be trained again."""
        again = self.kills[:-1] if self.status in DEAD else self.kills
        return self.iteration + sum(kill.lost for kill in again)

    @property
    def rate(self) -> float:
        """Iterations a second of wall-clock time, saving and measuring included."""
        return self.trained / self.wall_seconds if self.wall_seconds else 0.0

    @property
    def newest(self) -> Checkpoint:
        """The last saved step; the base is always there."""
        return self.checkpoints[-1]

    @property
    def measured(self) -> tuple[Checkpoint, ...]:
        """The checkpoints whose losses were measured; the base is always one."""
        return tuple(c for c in self.checkpoints if c.measured)

    @property
    def steps(self) -> tuple[int, ...]:
        """Saved steps, rising; 0 is the base."""
        return tuple(c.step for c in self.checkpoints)

    def at(self, step: int) -> Checkpoint:
        """The newest checkpoint at or before ``step``."""
        return next(c for c in reversed(self.checkpoints) if c.step <= max(step, 0))
