"""The removed-bucket experiment on a run's own chain, each step once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import codec
from codec.inspect import Arrays, Codes, copy_arrays
from demo_models import Task
from lcviz.lab.removed_bucket import RemovedBuckets, removed_buckets

from .snapshot import Checkpoint, RunError, States
from .whole_state import weights_of


class RemovedBucketResults:
    """The experiment's outcome by step; thread-safe. task: whose loss it is. path: the chain."""

    def __init__(self, task: Task, path: Path) -> None:
        self._task, self._path = task, path
        self._known: dict[int, RemovedBuckets] = {}
        self._lock = threading.Lock()

    def of(
        self,
        step: int,
        checkpoints: Sequence[Checkpoint],
        codes: list[Codes] | None,
        states: States | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> RemovedBuckets:
        """See `Run.removed_buckets`. codes, states: of the step, None if no longer kept."""
        with self._lock:
            if step not in self._known:
                at = next((i for i, c in enumerate(checkpoints) if c.step == step), None)
                if at is None:
                    raise RunError(f"Step {step} was not saved.")
                if at == 0:
                    raise RunError("The base is stored exactly: it has no buckets to remove.")
                if codes is None:
                    raise RunError(
                        f"The dropped values of step {step} are no longer kept, only those "
                        "of the newest steps. Choose a later step."
                    )
                c = checkpoints[at]
                if states is not None:
                    lossy = {name for alphabet in c.alphabets for name in alphabet.names}
                    before = states.live | {name: states.before[name] for name in lossy}
                else:  # the longer the chain, the longer this takes
                    before = self._read(checkpoints[at - 1].step, step)
                self._known[step] = removed_buckets(
                    step, before, c.alphabets, codes, c.moved, self._task.probe_loss, progress
                )
            return self._known[step]

    def _read(self, previous: int, step: int) -> Arrays:
        """The track of the previous step, with the exact tensors of this one: from the chain."""
        before: Arrays = {}
        try:
            for position in codec.Chain(self._path).replay(step):
                if position.step == previous:
                    before = copy_arrays(position.track.arrays)
        except codec.LccError as exc:
            raise RunError(f"The chain of this run cannot be read. {exc}") from exc
        exact = position.delta.exact_after(before) if position.delta else {}
        return weights_of({**before, **exact})
