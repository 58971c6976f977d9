"""Held-out examples, and what the live and the restored model make of them."""

from __future__ import annotations

import base64
from typing import Any

import pandas as pd
import torch

from demo_models import Task
from lcviz.text import minus, percent_text
from lcviz.ui.picture import Picture

N = 10  # examples shown


def examples_picture(
    task: Task,
    live: torch.Tensor,
    restored: torch.Tensor,
    live_metric: float | None,
    restored_metric: float | None,
) -> Picture:
    """The first N examples of the probe.

    Args:
        task: where they come from.
        live, restored: predictions, (N,), from `Task.predictions`.
        live_metric, restored_metric: accuracy or RMSE on the whole probe; None if not measured.
    """
    images = task.dataset.n_classes is not None
    rows = [_example(task, i, live[i], restored[i]) for i in range(len(live))]
    differ = sum(row["differ"] for row in rows)
    wrong = sum(row["live_wrong"] for row in rows)
    text = f"Live above, restored below: {differ or 'none'} of {len(rows)} differ."
    if images:
        text += f" Crossed out: {wrong} that the live model gets wrong." if wrong else ""
    unit = percent_text if images else (lambda value: f"{value:.2f}")
    scores = [
        {"name": name if images else f"RMSE {name}", "text": unit(value)}
        for name, value in (("live", live_metric), ("restored", restored_metric))
        if value is not None
    ]
    side = task.dataset.held_out[0].shape[-1] if images else 0
    return Picture(
        "examples",
        "Reads" if images else "Guesses",
        "held-out examples" if images else "held-out ratings",
        text,
        {"examples": rows, "scores": scores, "side": side},
        lambda: pd.DataFrame(
            {
                "example": [row["name"] for row in rows],
                "live": [row["live"] for row in rows],
                "restored": [row["restored"] for row in rows],
            }
        ),
        5,
    )


def _example(task: Task, i: int, live: torch.Tensor, restored: torch.Tensor) -> dict[str, Any]:
    truth = task.probe[-1][i]
    if task.dataset.n_classes is None:
        user, item = (int(column[i]) for column in task.probe[:2])
        guesses = [minus(f"{float(value):.1f}") for value in (live, restored)]
        name = f"given {minus(f'{float(truth):g}')}"
        return {
            "name": name,
            "pixels": None,
            "live": guesses[0],
            "restored": guesses[1],
            "live_wrong": False,
            "restored_wrong": False,
            "differ": guesses[0] != guesses[1],
            "title": f"User {user}, item {item}: {name}.",
        }
    pixels = (task.probe[0][i].reshape(-1) * 255).round().to(torch.uint8).numpy()
    said = int(live), int(restored)
    return {
        "name": f"a {int(truth)}",
        "pixels": base64.b64encode(pixels.tobytes()).decode(),
        "live": str(said[0]),
        "restored": str(said[1]),
        "live_wrong": said[0] != int(truth),
        "restored_wrong": said[1] != int(truth),
        "differ": said[0] != said[1],
        "title": f"Class {int(truth)}; live {said[0]}, restored {said[1]}.",
    }
