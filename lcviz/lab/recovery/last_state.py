"""What a crash at the last state of a series costs with each way to save, at equal bytes.

Nothing is trained: the states are there. Each way saves them all and restores the last one. How far
that is from the state itself is its distance; where a loss is known, the iterations lost are read
from the curve of the states' own losses.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import demo_models
from codec.inspect import Arrays, Front, Policy, copy_arrays, to_arrays
from demo_models import MODELS, Task, TensorMismatchError
from lcviz.lab.measures import distance, iterations_behind
from lcviz.lab.progress import Progress
from lcviz.lab.series import LossOf, Series, check_alike, moved_since

from .methods import Method


@dataclass(frozen=True)
class Restored:
    """What one method made of the last state.

    distance: ||restored - u_T|| / ||u_T - u_0|| of the weights. nbytes: of a checkpoint after the
    first, on disk, the mean. share: of the float32 size. loss: of the restored weights; None where
    no loss is known. lost: see `measures.iterations_behind`.
    """

    method: Method
    distance: float
    nbytes: float
    share: float
    loss: float | None = None
    lost: float | None = None


@dataclass(frozen=True)
class LastState:
    """The outcome of a series. step: of the last state. loss: its own. by: whose loss that is, ""
    where none is known."""

    step: int
    restored: tuple[Restored, ...]
    loss: float | None = None
    by: str = ""


def crash_at_last(
    series: Series,
    methods: Sequence[Method],
    progress: Progress = lambda _done, _total: None,
) -> LastState:
    """Save every state of a series with every method, and restore the last one.

    Raises:
        SettingsError: the states differ in their tensors, or the last one is not finite.
        LccError: what the series or a method raises.
    """
    total = len(series) + len(methods)
    steps: list[int] = []
    losses: list[float] = []
    with ExitStack() as stack:
        savers = []
        for method in methods:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            savers.append(stack.enter_context(closing(method.open(Path(folder)))))
        sizes: list[list[int]] = [[] for _ in methods]
        for moment in series:
            if not steps:
                first, start = moment, copy_arrays(moment.arrays)
                by, of_lab = ("", None) if moment.loss_of else _lab_loss(start)
            check_alike(first, moment)
            for saver, own in zip(savers, sizes):
                own.append(saver.save(moment.step, moment.state))
            steps.append(moment.step)
            if loss_of := moment.loss_of or of_lab:
                losses.append(loss_of(moment.arrays))
            progress(len(steps), total)
        moved = moved_since(start, moment)
        if by and not losses[-1] < losses[0]:  # trained for something else
            by, loss_of = "", None
        found = []
        for method, saver, own in zip(methods, savers, sizes):
            parts, layout = Front(Policy()).look_at(saver.restore())
            track = to_arrays(parts.tensors, layout)
            off = distance(track, moment.arrays, moment.weights) / moved
            nbytes = float(np.mean(own[1:]))
            loss = loss_of(track) if loss_of else None
            lost = None if loss is None else iterations_behind(steps, losses, loss)
            found.append(Restored(method, off, nbytes, nbytes / layout.nbytes, loss, lost))
            progress(len(steps) + len(found), total)
    return LastState(steps[-1], tuple(found), losses[-1] if loss_of else None, by)


def _lab_loss(arrays: Arrays) -> tuple[str, LossOf | None]:
    """Title and loss of the lab's model, on built-in data, that has these names and shapes.

    The model's tensors may lie below one outermost key. "" and None if none fits.
    """
    outermost = {f"{name.partition('/')[0]}/" for name in arrays if "/" in name}
    for name, card in MODELS.items():
        task = demo_models.make_task(name, card.default_data)
        for begin in ("", *sorted(outermost)):
            loss_of = partial(_loss_below, task, begin)
            try:
                loss_of(arrays)
            except TensorMismatchError:
                continue
            return task.title, loss_of
    return "", None


def _loss_below(task: Task, begin: str, arrays: Arrays) -> float:
    """The loss of the tensors whose names begin like this. Raises TensorMismatchError."""
    return task.probe_loss(
        {name.removeprefix(begin): a for name, a in arrays.items() if name.startswith(begin)}
    )
