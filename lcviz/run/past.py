"""What a process that has ended left of a run, beside the chain."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import codec
from codec.errors import RewoundWarning
from lcviz import lab, run
from lcviz.lab.machine import source_digest

from .saved_steps import SavedSteps
from .snapshot import Kill, RunError, RunSettings


@dataclass
class Seconds:
    """Seconds of a run so far.

    train: in iterations. losses: measuring them. wall: in iterations, saves and measuring. idle:
    waiting to keep the speed limit.
    """

    train: float = 0.0
    losses: float = 0.0
    wall: float = 0.0
    idle: float = 0.0


@cache
def _code_digest() -> str:
    """Digest of the packages whose objects the journal holds."""
    return "".join(map(source_digest, (codec, lab, run)))


@dataclass(frozen=True)
class Begun:
    """The first entry of a run. code: digest of the code that wrote it."""

    settings: RunSettings
    code: str = field(default_factory=_code_digest)


@dataclass(frozen=True)
class Restarted:
    """An entry: a process went on with the run from this step."""

    step: int


@dataclass
class StoredRun:
    """A run as its process left it. restarts: the steps from which processes went on with it."""

    settings: RunSettings
    saved: SavedSteps
    seconds: Seconds
    kills: list[Kill]
    restarts: list[int]

    @classmethod
    def recover(cls, path: Path) -> StoredRun:
        """Load the run of this chain, and end the chain at its newest step in the journal.

        A process may end between a save and its entry. Raises RunError if nothing is stored or
        other code wrote it; codec.LccError, OSError, or whatever unpickling raises.
        """
        saved = SavedSteps(path.parent)
        steps = [entry.step for entry in codec.Chain(path).entries]
        begun, *notes = saved.load(steps) or [None]
        if not isinstance(begun, Begun) or begun.code != _code_digest() or not saved.checkpoints:
            raise RunError("This run was begun by another version of the dashboard.")
        step = saved.newest.step
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RewoundWarning)
            codec.rewind(path, step)
        return cls(
            begun.settings,
            saved,
            next((note for note in reversed(notes) if isinstance(note, Seconds)), Seconds()),
            [note for note in notes if isinstance(note, Kill)],
            [note.step for note in notes if isinstance(note, Restarted)],
        )

    @property
    def step(self) -> int:
        """The newest saved step."""
        return self.saved.newest.step
