"""The part of a run that is only in memory: a kill loses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import codec
import demo_models
from codec.inspect import Arrays, copy_arrays, layout_of, to_arrays
from demo_models import Task
from lcviz.lab.workload import to_load, to_save

from .snapshot import RunSettings


@dataclass
class LiveModel:
    """The objects that train and save. The model belongs to the task.

    training: with the optimizer and its state. checkpointer: with the track. start: u₀, from which
    distances are measured. track: the track's model after the last save. start, track: name ->
    float32. whole: whether checkpoints hold the optimizer's state.
    """

    training: demo_models.Training
    checkpointer: codec.Checkpointer
    start: Arrays
    track: Arrays
    whole: bool

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that a checkpoint would save now, with the live tensors."""
        return to_save(self.training.state(), self.whole)


def new_model(task: Task, settings: RunSettings, path: Path) -> LiveModel:
    """A live model at the start of its training. Raises demo_models.DataError, codec.LccError."""
    training = _training(task, settings)
    if settings.optimizer_state:
        training.begin_optimizer()
    start, checkpointer = arrays_of(task), _checkpointer(settings, path)
    return LiveModel(training, checkpointer, start, start, settings.optimizer_state)


def restarted_model(task: Task, settings: RunSettings, path: Path) -> LiveModel:
    """A live model that goes on from the newest step of its chain, as in a new process.

    Reads model, track and u₀ from disk, and the optimizer's state if the chain holds it; otherwise
    the optimizer is reset. Raises codec.LccError, OSError.
    """
    start = to_load(codec.restore(path, 0), settings.optimizer_state)["model"]
    checkpointer = _checkpointer(settings, path, resume=True)
    try:
        task.model.to_empty(device="cpu")
        training = _training(task, settings)
        restored = checkpointer.restore()
        assert restored is not None, "a chain that was resumed has a step"
        training.load(to_load(restored, settings.optimizer_state))
    except BaseException:
        checkpointer.close()
        forget_model(task)
        raise
    track, first = arrays_of(task), copy_arrays(to_arrays(start, layout_of(start)))
    return LiveModel(training, checkpointer, first, track, settings.optimizer_state)


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
        path, **settings.coding.header(), restore_work=None, resume=resume
    )
