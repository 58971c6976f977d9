"""What a process that has ended left of a run, beside the chain."""

from __future__ import annotations

import shutil
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
    """What a run has taken so far: training, measuring losses, both with saves, and waiting."""

    train: float = 0.0
    losses: float = 0.0
    wall: float = 0.0
    idle: float = 0.0


@cache
def _code() -> str:
    """Of what the journal's entries are objects of."""
    return "".join(map(source_digest, (codec, lab, run)))


@dataclass(frozen=True)
class Begun:
    """The first entry of a run. code: digest of the code that wrote it."""

    settings: RunSettings
    code: str = field(default_factory=_code)


@dataclass(frozen=True)
class Restarted:
    """An entry: a process went on with the run from this step."""

    step: int


@dataclass
class Past:
    """A run as it is stored. restarts: the steps from which processes went on with it."""

    settings: RunSettings
    saved: SavedSteps
    seconds: Seconds
    kills: list[Kill]
    restarts: list[int]

    @classmethod
    def read(cls, path: Path) -> Past:
        """The past of the run with this chain, which then ends at the newest step that is known.

        A process may end between a save and its entry. Raises RunError if nothing is stored, or
        other code wrote it; what `SavedSteps.take_over` does; codec.LccError.
        """
        saved = SavedSteps(path.parent)
        steps = [entry.step for entry in codec.Chain(path).entries]
        begun, *notes = saved.take_over(steps) or [None]
        if not isinstance(begun, Begun) or begun.code != _code() or not saved.checkpoints:
            raise RunError("This run was begun by another version of the dashboard.")
        step = saved.newest.step
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RewoundWarning)
            if (old := codec.rewind(path, step)) is not None:
                shutil.rmtree(old)
        saved.note(Restarted(step))
        return cls(
            begun.settings,
            saved,
            next((note for note in reversed(notes) if isinstance(note, Seconds)), Seconds()),
            [note for note in notes if isinstance(note, Kill)],
            [*(note.step for note in notes if isinstance(note, Restarted)), step],
        )

    @property
    def step(self) -> int:
        """The newest."""
        return self.saved.newest.step
