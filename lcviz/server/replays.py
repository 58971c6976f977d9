"""What visitors try on whole runs: replays in the background, of which the newest try wins."""

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
class Retried:
    """A whole run under another setting, as far as it is.

    Attributes:
        replay: Has the deltas.
        found: The steps that are done, rising.
        n: How many there will be.
        problem: Why it cannot go on; "" if it can.
    """

    replay: Replay
    found: tuple[RetriedStep, ...]
    n: int
    problem: str

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come until the run saves again."""
        return bool(self.problem) or len(self.found) == self.n

    @property
    def losses(self) -> dict[int, float]:
        """Step -> loss of what a restart would load, where it was measured."""
        return {step.step: step.loss for step in self.found if step.loss is not None}

    def at(self, step: int) -> RetriedStep | None:
        """A step, once it is done."""
        return next((done for done in self.found if done.step == step), None)


class Replays:
    """The replays of a server; thread-safe. A visitor who tries something else leaves the last."""

    def __init__(self) -> None:
        self._jobs: Jobs[RetriedStep] = Jobs()
        # Each has a number of its own: one that made room may still be at work.
        self._replays: OrderedDict[Hashable, tuple[int, Replay]] = OrderedDict()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def look(self, run: Run, trial: Trial, step: int, who: str, patience: float) -> Retried:
        """Begin or go on with a replay, and wait a moment for it.

        Args:
            run: Whose states are saved once more.
            trial: How.
            step: Whose delta is wanted most.
            who: The session.
            patience: Seconds to wait for the end.

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
        replay.wanted = step
        steps = replay.steps()
        stride = -(-len(steps) // MEASURED)

        def work(part: int, _: Report) -> RetriedStep:
            measured = (len(steps) - 1 - part) % stride == 0 or steps[part] == step
            return replay.save(steps[part], measured=measured)

        view = self._jobs.look(number, len(steps), who)
        if view.status != FAILED and len(view.found) < len(steps):
            self._jobs.ask(number, len(steps), work, who)
            view = self._jobs.wait(number, len(steps), patience)
        found = tuple(part.value for part in view.found)
        return Retried(replay, found, len(steps), view.message if view.status == FAILED else "")

    def close(self) -> None:
        """Stop all of them."""
        self._jobs.close()
