"""What a crash at the last state of a series costs with each method of saving, at equal bytes.

Nothing is trained: the states exist already. Each method saves them all and restores the last one.
The distance is that of the restored state from the last one. If a loss is known, the steps lost are
read from the curve of the states' losses.
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
    """The last state as one method restores it.

    distance: ||restored - u_T|| / ||u_T - u_0|| of the weights. nbytes: mean size on disk of a
    checkpoint after the first. share: of the float32 size. loss: of the restored weights, None if
    unknown. lost: steps lost, see `measures.iterations_behind`.
    """

    method: Method
    distance: float
    nbytes: float
    share: float
    loss: float | None = None
    lost: float | None = None


@dataclass(frozen=True)
class LastState:
    """The outcome of a series.

    step, loss: of the last state. by: title of the lab's model that gives the loss; "" if the loss
    is the user's own, or unknown.
    """

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
        SettingsError: The states differ in their tensors, or the last one is not finite.
        LccError: The series or a method raises it.
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
        for state in series:
            if not steps:
                first, start = state, copy_arrays(state.arrays)
                by, of_lab = ("", None) if state.loss_of else _lab_loss(start)
            check_alike(first, state)
            for saver, record_sizes in zip(savers, sizes):
                record_sizes.append(saver.save(state.step, state.state))
            steps.append(state.step)
            if loss_of := state.loss_of or of_lab:
                losses.append(loss_of(state.arrays))
            progress(len(steps), total)
        moved = moved_since(start, state)
        if by and not losses[-1] < losses[0]:  # not trained for this loss
            by, loss_of = "", None
        restored = []
        for method, saver, record_sizes in zip(methods, savers, sizes):
            parts, layout = Front(Policy()).look_at(saver.restore())
            track = to_arrays(parts.tensors, layout)
            off = distance(track, state.arrays, state.weights) / moved
            nbytes = float(np.mean(record_sizes[1:]))
            loss = loss_of(track) if loss_of else None
            lost = None if loss is None else iterations_behind(steps, losses, loss)
            restored.append(Restored(method, off, nbytes, nbytes / layout.nbytes, loss, lost))
            progress(len(steps) + len(restored), total)
    return LastState(steps[-1], tuple(restored), losses[-1] if loss_of else None, by)


def _lab_loss(arrays: Arrays) -> tuple[str, LossOf | None]:
    """Title and loss of the lab's model with these tensor names and shapes, on built-in data.

    The model's tensors may lie below one outermost key. Returns "" and None if no model fits.
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
    """The loss of the tensors whose names start with begin. Raises TensorMismatchError."""
    return task.probe_loss(
        {name.removeprefix(begin): a for name, a in arrays.items() if name.startswith(begin)}
    )
