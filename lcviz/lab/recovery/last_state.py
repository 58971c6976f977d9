"""What a crash at the last state of a series costs with each method of saving, at equal bytes.

Nothing is trained: the states exist already. Each method saves them all and restores the last one.
The distance is that of the restored state from the last one. If a loss is known, the steps lost are
read from the curve of the states' losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import demo_models
from codec.inspect import Arrays, Front, Policy, copy_arrays, to_arrays
from demo_models import MODELS, Task, TensorMismatchError
from lcviz.lab.measures import distance, iterations_behind
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.series import LossOf, Series, SeriesState, check_alike, moved_since

from .methods import Method
from .savers import savers_of


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
    series: Series, methods: Sequence[Method], progress: Progress = unreported
) -> LastState:
    """Save every state of a series with every method, and restore the last one.

    Raises:
        SettingsError: The states differ in their tensors, or the last one is not finite.
        LccError: The series or a method raises it.
    """
    total = len(series) + len(methods)
    losses: dict[int, float] = {}
    first: SeriesState | None = None
    with savers_of(methods) as savers:
        for i, state in enumerate(series, 1):
            if first is None:
                first, start = state, copy_arrays(state.arrays)
                by, of_lab = ("", None) if state.loss_of else _demo_loss(start)
            check_alike(first, state)
            for saver in savers:
                saver.save(state.step, state.state)
            if loss_of := state.loss_of or of_lab:
                losses[state.step] = loss_of(state.arrays)
            progress(i, total)
        moved, curve = moved_since(start, state), list(losses.values())
        if by and not curve[-1] < curve[0]:  # not trained for this loss
            by, loss_of = "", None
        restored = []
        for method, saver in zip(methods, savers):
            parts, layout = Front(Policy()).look_at(saver.restore())
            track = to_arrays(parts.tensors, layout)
            off = distance(track, state.arrays, state.weights) / moved
            loss = loss_of(track) if loss_of else None
            lost = None if loss is None else iterations_behind(list(losses), curve, loss)
            share = saver.nbytes / layout.nbytes
            restored.append(Restored(method, off, saver.nbytes, share, loss, lost))
            progress(len(series) + len(restored), total)
    return LastState(state.step, tuple(restored), curve[-1] if loss_of else None, by)


def _demo_loss(arrays: Arrays) -> tuple[str, LossOf | None]:
    """Title and loss of the first demo model with these tensor names and shapes.

    The loss is that on the model's default data. The model's tensors may lie below one outermost
    key. Returns "" and None if no model fits.
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
