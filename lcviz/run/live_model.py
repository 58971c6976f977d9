"""What of a run lives in memory alone, and is gone when it is killed."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import codec
import demo_models
from codec.state.tensors import Arrays, copy_arrays, layout_of, to_arrays
from demo_models import Task

from .snapshot import RunSettings


class Living(NamedTuple):
    """The loop's parts; the model itself is the task's.

    training: with the optimizer and what that remembers. checkpointer: with the track. start: u₀,
    name -> float32, what distances are a share of.
    """

    training: demo_models.Training
    checkpointer: codec.Checkpointer
    start: Arrays


def begun(task: Task, settings: RunSettings, path: Path) -> Living:
    """A training at its begin. Raises demo_models.DataError, codec.LccError."""
    training = _training(task, settings)
    return Living(training, _checkpointer(settings, path), arrays_of(task))


def restarted(task: Task, settings: RunSettings, path: Path) -> Living:
    """A training that goes on from the newest step of its chain, as in a new process.

    Model, track and u₀ are read from disk. The chain has the model alone: the optimizer begins
    anew. Raises codec.LccError, OSError.
    """
    start = codec.restore(path, 0)
    checkpointer = _checkpointer(settings, path, resume=True)
    try:
        task.model.to_empty(device="cpu")
        training = _training(task, settings)
        training.load({"model": checkpointer.restore()})
    except BaseException:
        checkpointer.close()
        bury(task)
        raise
    return Living(training, checkpointer, copy_arrays(to_arrays(start, layout_of(start))))


def bury(task: Task) -> None:
    """Take the model's numbers out of memory: names and shapes stay."""
    task.model.to("meta")


def arrays_of(task: Task) -> Arrays:
    """The live model's state as float32 arrays, copied."""
    state = task.model.state_dict()
    return copy_arrays(to_arrays(state, layout_of(state)))


def _training(task: Task, settings: RunSettings) -> demo_models.Training:
    s = settings
    return demo_models.Training(task, s.optimizer, s.lr, s.momentum, s.batch_size)


def _checkpointer(settings: RunSettings, path: Path, *, resume: bool = False) -> codec.Checkpointer:
    s = settings
    return codec.Checkpointer(
        path,
        s.bits,
        s.scope,
        s.coder,
        budget=s.budget,
        base_every=None,  # what is shown are deltas
        resume=resume,
    )
