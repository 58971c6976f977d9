"""The saved steps of a run: every checkpoint, and the states and codes of the newest deltas."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from codec.inspect import Codes

from .memory import AlphabetsOnDisk, NewestSteps
from .saved_step import SavedStep
from .snapshot import Checkpoint, Losses
from .whole_state import States

CODES_BUDGET = 16 * 2**20  # bytes of exponent-stage codes kept for "removed bucket"
STATES_BUDGET = 64 * 2**20  # bytes of the states of the newest deltas
IN_MEMORY = 1 / 16  # share of both budgets that is in memory; the rest is on disk


class SavedSteps:
    """The saved steps of a run, the base first. Thread-safe, but only one thread may add.

    folder: of the files with what is not in memory.
    """

    def __init__(self, folder: Path) -> None:
        def newest(budget: int) -> NewestSteps[Any]:
            return NewestSteps(budget, int(budget * IN_MEMORY), folder)

        self._lock = threading.Lock()
        self._checkpoints: list[Checkpoint] = []
        self._codes: NewestSteps[list[Codes]] = newest(CODES_BUDGET)
        self._states: NewestSteps[States] = newest(STATES_BUDGET)
        self._alphabets, self._n_on_disk = AlphabetsOnDisk(folder), 0

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
            self._checkpoints.append(saved.checkpoint)
            self._states.add(step, saved.states, saved.states.nbytes)
            self._codes.add(step, saved.codes, sum(c.nbytes for c in saved.codes))
        self._move_to_disk()

    def add_losses(self, losses: Losses) -> None:
        """Add the losses of the newest step."""
        with self._lock:
            self._checkpoints[-1] = replace(self.newest, losses=losses)

    def forget(self) -> None:
        """Drop all states but the newest, which a page may still show, and all codes."""
        with self._lock:
            self._codes.keep(0)
            self._states.keep(1)

    def _move_to_disk(self) -> None:
        """Move alphabets to disk, those of steps whose states are no longer in memory."""
        in_memory = self._states.steps_in_memory[0]
        while self._checkpoints[self._n_on_disk].step < in_memory:  # the newest stays there
            older = self._checkpoints[self._n_on_disk]
            if older.alphabets:
                try:
                    stored = replace(older, alphabets=self._alphabets.put(older.alphabets))
                except OSError:  # the disk is full: they stay in memory until the next try
                    return
                with self._lock:
                    self._checkpoints[self._n_on_disk] = stored
            self._n_on_disk += 1
