"""The part of a run that is in memory only, and gone when the run is killed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import codec
import demo_models
from codec.inspect import Arrays, copy_arrays, layout_of, to_arrays
from demo_models import Task

from .snapshot import RunSettings


@dataclass
class LiveModel:
    """What trains and saves; the model itself is the task's.

    training: with the optimizer and its state. checkpointer: with the track. start: u₀, which
    distances are measured from. saved, track: the model at the last save, and the track after it.
    All three are name -> float32.
    """

    training: demo_models.Training
    checkpointer: codec.Checkpointer
    start: Arrays
    saved: Arrays
    track: Arrays


def begun(task: Task, settings: RunSettings, path: Path) -> LiveModel:
    """A training at its start. Raises demo_models.DataError, codec.LccError."""
    training = _training(task, settings)
    start = arrays_of(task)
    return LiveModel(training, _checkpointer(settings, path), start, start, start)


def restarted(task: Task, settings: RunSettings, path: Path) -> LiveModel:
    """A training that goes on from the newest step of its chain, as in a new process.

    Model, track and u₀ are read from disk. The chain holds the model alone: the state of the
    optimizer is reset. Raises codec.LccError, OSError.
    """
    start = codec.restore(path, 0)
    checkpointer = _checkpointer(settings, path, resume=True)
    try:
        task.model.to_empty(device="cpu")
        training = _training(task, settings)
        training.load({"model": checkpointer.restore()})
    except BaseException:
        checkpointer.close()
        forget_model(task)
        raise
    now = arrays_of(task)
    return LiveModel(
        training, checkpointer, copy_arrays(to_arrays(start, layout_of(start))), now, now
    )


def forget_model(task: Task) -> None:
    """Free the model's values; names and shapes stay."""
    task.model.to("meta")


def arrays_of(task: Task) -> Arrays:
    """The live model's state as float32 arrays, copied."""
    state = task.model.state_dict()
    return copy_arrays(to_arrays(state, layout_of(state)))


def _training(task: Task, settings: RunSettings) -> demo_models.Training:
    s = settings
    return demo_models.Training(task, s.optimizer, s.lr, s.momentum, s.batch_size)


def _checkpointer(settings: RunSettings, path: Path, *, resume: bool = False) -> codec.Checkpointer:
    return codec.Checkpointer(  # one base: the pages show deltas
        path, **settings.coding.header(), base_every=None, resume=resume
    )
