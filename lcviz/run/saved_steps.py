"""The saved steps of a run: every checkpoint, and the states and codes of the newest deltas."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from codec.inspect import Codes

from .memory import Journal, NewestSteps
from .saved_step import SavedStep
from .snapshot import Checkpoint, Losses
from .whole_state import States

JOURNAL = "journal"  # a file in the folder of a run
CODES_BUDGET = 16 * 2**20  # bytes of exponent-stage codes kept for "removed bucket"
STATES_BUDGET = 64 * 2**20  # bytes of the states of the newest deltas
IN_MEMORY = 1 / 16  # share of both budgets that is also in memory


class SavedSteps:
    """The saved steps of a run, the base first. Thread-safe, but only one thread may add.

    folder: of the files, from which another process can take them over.
    """

    def __init__(self, folder: Path) -> None:
        def newest(budget: int, name: str) -> NewestSteps[Any]:
            return NewestSteps(budget, int(budget * IN_MEMORY), folder / name)

        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._checkpoints: list[Checkpoint] = []
        self._codes: NewestSteps[list[Codes]] = newest(CODES_BUDGET, "codes")
        self._states: NewestSteps[States] = newest(STATES_BUDGET, "states")
        self._journal = Journal(folder / JOURNAL)

    def load(self, chain_steps: Sequence[int]) -> list[Any]:
        """Load what another process has left, up to the first step that is not the chain's next.

        Returns the notes. Raises what `Journal.entries` does.
        """
        notes = []
        for entry in self._journal.entries():
            if isinstance(entry, Losses):
                self.add_losses(entry, write=False)
            elif not isinstance(entry, Checkpoint):
                notes.append(entry)
            elif entry.step == next(iter(chain_steps[len(self._checkpoints) :]), None):
                self._checkpoints.append(entry)
            else:
                break
        known = {c.step for c in self._checkpoints}
        for steps in (self._states, self._codes):
            for step in set(steps.steps) - known:
                steps.drop(step)
        return notes

    def note(self, entry: Any) -> None:
        """Store something that `load` returns to another process."""
        self._journal.add(entry)

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """All so far."""
        with self._lock:
            return tuple(self._checkpoints)

    @property
    def newest(self) -> Checkpoint:
        """The last one."""
        return self._checkpoints[-1]

    def states(self, step: int | None = None) -> States | None:
        """The two states of a step's delta; step None: the newest step.

        None if they were dropped: the newest STATES_BUDGET bytes stay, and at least one step.
        """
        with self._lock:
            return self._states.get(self.newest.step if step is None else step)

    def with_states(self) -> tuple[int, ...]:
        """The steps that `states` has, rising."""
        with self._lock:
            return self._states.steps

    def codes(self, step: int) -> list[Codes] | None:
        """The exponent stage's codes of a step, by alphabet; None if they were dropped."""
        with self._lock:
            return self._codes.get(step)

    def add(self, saved: SavedStep) -> None:
        """Add the next step."""
        step = saved.checkpoint.step
        with self._lock:
            self._states.add(step, saved.states, saved.states.nbytes)
            self._codes.add(step, saved.codes, sum(c.nbytes for c in saved.codes))
            # Last: another process shows a step with its states.
            self._checkpoints.append(self._journal.add(saved.checkpoint))

    def add_losses(self, losses: Losses, *, write: bool = True) -> None:
        """Add the losses of the newest step. write: also to the journal."""
        with self._lock:
            self._checkpoints[-1] = replace(self.newest, losses=losses)
            if write:
                self._journal.add(losses)

    def forget(self) -> None:
        """Drop all states but the newest, which a page may still show, and all codes."""
        with self._lock:
            self._codes.keep(0)
            self._states.keep(1)
