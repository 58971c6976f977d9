"""The removed-bucket experiment on a run's own chain, each step once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import codec
from codec.scheme.quantize import Codes
from codec.state.tensors import Arrays, copy_arrays
from demo_models import Task
from lcviz.lab.removed_bucket import RemovedBuckets, removed_buckets

from .snapshot import Checkpoint, RunError, States


class Removal:
    """What became of every saved step without each of its buckets; safe for several threads.

    task: whose loss it is. path: the chain.
    """

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
        """See `Run.removed_buckets`. codes, states: of the step, None where they are let go."""
        with self._lock:
            if step not in self._known:
                at = next((i for i, c in enumerate(checkpoints) if c.step == step), None)
                if at is None:
                    raise RunError(f"Step {step} was not saved.")
                if at == 0:
                    raise RunError("The base is stored exactly: it has no buckets to remove.")
                if codes is None:
                    raise RunError(
                        f"The dropped values of step {step} are no longer in memory (only those of "
                        "the newest steps are kept): choose a later step."
                    )
                c = checkpoints[at]
                if states is not None:
                    before = _from_memory(states, c)
                else:  # takes the longer, the longer the chain is
                    before = self._before(checkpoints[at - 1].step, step)
                self._known[step] = removed_buckets(
                    step, before, c.alphabets, codes, c.moved, self._task.probe_loss, progress
                )
            return self._known[step]

    def _before(self, previous: int, step: int) -> Arrays:
        """The track of the step before, with the tensors that are new in this one."""
        before: Arrays = {}
        try:
            for position in codec.Chain(self._path).replay(step):
                if position.step == previous:
                    before = copy_arrays(position.state)
        except codec.LccError as exc:
            raise RunError(f"The chain of this run cannot be read. {exc}") from exc
        if position.delta is not None:  # exact tensors have no buckets: they are the new ones
            before.update(position.delta.exact)
        return before


def _from_memory(states: States, checkpoint: Checkpoint) -> Arrays:
    """What `Removal._before` gives, without reading the chain; not copied."""
    lossy = {name for alphabet in checkpoint.alphabets for name in alphabet.names}
    return {
        name: states.before[name] if name in lossy else array for name, array in states.live.items()
    }
