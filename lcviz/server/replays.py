"""Replays of whole runs that visitors try out in the background, each visitor one at a time."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from lcviz.lab.progress import Report
from lcviz.run.run import Run
from lcviz.run.whole_run import Replay, RetriedStep, Trial

from .jobs import FAILED, Jobs

MEASURED = 60  # steps of a run whose loss is measured: a curve does not show more
KEPT = 6  # replays of a server: visitors try things side by side


@dataclass(frozen=True)
class RetriedRun:
    """A whole run under another setting, as far as it is done.

    Attributes:
        replay: Has the deltas.
        steps: The steps that are done, rising.
        n: How many steps there will be.
        problem: Why it cannot go on; "" if it can.
    """

    replay: Replay
    steps: tuple[RetriedStep, ...]
    n: int
    problem: str

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come until the run saves again."""
        return bool(self.problem) or len(self.steps) == self.n

    @property
    def losses(self) -> dict[int, float]:
        """Step -> loss of what a restart would load, for the steps where it was measured."""
        return {step.step: step.loss for step in self.steps if step.loss is not None}

    def at(self, step: int) -> RetriedStep | None:
        """The step of this number; None if it is not done yet."""
        return next((done for done in self.steps if done.step == step), None)


class Replays:
    """The replays of a server; thread-safe. A visitor who begins another one leaves the last."""

    def __init__(self) -> None:
        self._jobs: Jobs[RetriedStep] = Jobs()
        # A number for each, not its key: a dropped replay of the same key may still be at work.
        self._replays: OrderedDict[Hashable, tuple[int, Replay]] = OrderedDict()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def look(self, run: Run, trial: Trial, step: int, watcher: str, patience: float) -> RetriedRun:
        """Begin or go on with a replay, and wait a moment for it.

        Args:
            run: The run whose states are saved once more.
            trial: How they are saved.
            step: The step whose delta the visitor looks at.
            watcher: The id of the session.
            patience: The most seconds to wait for the end.

        Raises:
            CrowdedError: Too many visitors try something at the same time.
        """
        with self._lock:
            key = run.id, trial
            if key not in self._replays:
                self._replays[key] = next(self._numbers), Replay(run, trial)
            self._replays.move_to_end(key)
            number, replay = self._replays[key]
            while len(self._replays) > KEPT:
                self._jobs.forget(self._replays.popitem(last=False)[1][0])
        replay.pinned_step = step
        steps = replay.steps()
        stride = -(-len(steps) // MEASURED)

        def work(part: int, _: Report) -> RetriedStep:
            measured = (len(steps) - 1 - part) % stride == 0 or steps[part] == step
            return replay.save(steps[part], measured=measured)

        view = self._jobs.look(number, len(steps), watcher)
        if view.status != FAILED and len(view.finished_parts) < len(steps):
            self._jobs.ask(number, len(steps), work, watcher)
            view = self._jobs.wait(number, len(steps), patience)
        done = tuple(part.value for part in view.finished_parts)
        return RetriedRun(replay, done, len(steps), view.message if view.status == FAILED else "")

    def close(self) -> None:
        """Stop all replays."""
        self._jobs.close()
