"""Held-out examples, and what the live and the restored model predict for them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import torch

from demo_models import Task
from lcviz.ui.picture import Picture, finite

N, BYTES = 10, 20  # examples on the page, or bytes of a text


def examples_picture(
    task: Task,
    live: torch.Tensor,
    restored: torch.Tensor,
    live_metric: float | None,
    restored_metric: float | None,
    *,
    trial: bool = False,
) -> Picture:
    """The first examples of the probe.

    Args:
        task: Has the probe.
        live, restored: Predictions, (n,), from `Task.predictions`.
        live_metric, restored_metric: Accuracy or RMSE on the whole probe; None if not measured.
        trial: Whether the restored model is from a setting that a visitor tries.
    """
    dataset = task.dataset
    of = "text" if dataset.is_text else "ratings" if dataset.n_classes is None else "images"
    number: Callable[[Any], float | None] = (
        int if of != "ratings" else lambda rating: finite(float(rating))
    )
    shown = [
        _truth(task, of, i) | {"live": number(live[i]), "restored": number(restored[i])}
        for i in range(len(live))
    ]
    return Picture(
        "examples",
        {
            "of": of,
            "shown": shown,
            "live": finite(live_metric),
            "restored": finite(restored_metric),
            "side": image_side(task) or 0,
            "is_trial": trial,
        },
        partial(_table, shown, of),
    )


def _table(shown: Sequence[dict[str, Any]], of: str) -> pd.DataFrame:
    table = pd.DataFrame(shown)[["truth", "live", "restored"]]
    return table.map(lambda byte: repr(chr(byte))) if of == "text" else table


def image_side(task: Task) -> int | None:
    """The side of a task's images, in pixels; None if its inputs are no images."""
    dataset = task.dataset
    if dataset.n_classes is None or dataset.is_text:
        return None
    return int(dataset.held_out[0].shape[-1])


def n_examples(task: Task) -> int:
    """How many examples the page shows."""
    return BYTES if task.dataset.is_text else N


def _truth(task: Task, of: str, i: int) -> dict[str, Any]:
    """What an example is: its class, byte or rating, and its image or who rated what."""
    if of == "text":
        return {"truth": int(task.probe[-1][0][i - BYTES])}
    truth = task.probe[-1][i]
    if of == "ratings":
        user, item = (int(column[i]) for column in task.probe[:2])
        return {"truth": float(truth), "user": user, "item": item}
    pixels = (task.probe[0][i].reshape(-1) * 255).round().to(torch.uint8).numpy()
    return {"truth": int(truth), "pixels": base64.b64encode(pixels.tobytes()).decode()}
