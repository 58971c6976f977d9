"""Held-out examples, and what the live and the restored model predict for them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch

from demo_models import Task
from lcviz.text import minus, percent_text
from lcviz.ui.picture import Picture, quantity

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
    classes, side = task.dataset.n_classes is not None, image_side(task)
    example = _rating if not classes else _text if task.dataset.is_text else _image
    rows = [example(task, i, live[i], restored[i]) for i in range(len(live))]
    differ = sum(row["differ"] for row in rows)
    wrong = sum(row["live_wrong"] for row in rows)
    below = "your try" if trial else "restored"
    text = f"Live above, {below} below: {differ or 'none'} of {len(rows)} differ."
    if classes:
        text += f" Crossed out: {wrong} that the live model gets wrong." if wrong else ""
    restored_name = "whole-run" if trial else "restored"
    scores = [
        _score(quantity_name, label, metric, classes=classes)
        for quantity_name, label, metric in (
            ("live", "live", live_metric),
            (restored_name, below, restored_metric),
        )
        if metric is not None
    ]
    title, about = ("Reads", "held-out examples") if classes else ("Guesses", "held-out ratings")
    if task.dataset.is_text:
        title, about = "Reads", "held-out text, byte by byte"
    return Picture(
        "examples",
        title,
        about,
        text,
        {
            "examples": rows,
            "scores": scores,
            "side": side or 0,
            "letters": task.dataset.is_text,
            "rows": [] if side else ["text" if task.dataset.is_text else "given", "live", below],
        },
        lambda: pd.DataFrame(rows)[["name", "live", "restored"]].rename(
            columns={"name": "example"}
        ),
        5,
    )


def _score(whose: str, name: str, metric: float, *, classes: bool) -> dict[str, str]:
    if classes:
        return {"name": name, "text": quantity(f"{whose}-accuracy", metric, percent_text(metric))}
    return {"name": f"RMSE {name}", "text": quantity(f"{whose}-rmse", metric, f"{metric:.2f}")}


def image_side(task: Task) -> int | None:
    """The side of a task's images, in pixels; None if its inputs are no images."""
    dataset = task.dataset
    if dataset.n_classes is None or dataset.is_text:
        return None
    return int(dataset.held_out[0].shape[-1])


def _rating(task: Task, i: int, live: torch.Tensor, restored: torch.Tensor) -> dict[str, Any]:
    truth = minus(f"{float(task.probe[-1][i]):g}")
    user, item = (int(column[i]) for column in task.probe[:2])
    guesses = [minus(f"{float(value):.1f}") for value in (live, restored)]
    title = f"User {user}, item {item}: given {truth}."
    return _example(truth, guesses, (False, False), guesses[0] != guesses[1], title)


def n_examples(task: Task) -> int:
    """How many examples the page shows."""
    return BYTES if task.dataset.is_text else N


def _text(task: Task, i: int, live: torch.Tensor, restored: torch.Tensor) -> dict[str, Any]:
    truth = int(task.probe[-1][0][i - BYTES])
    return _classified(_byte_text(truth), None, truth, (int(live), int(restored)), _byte_text)


def _image(task: Task, i: int, live: torch.Tensor, restored: torch.Tensor) -> dict[str, Any]:
    truth = int(task.probe[-1][i])
    pixels = (task.probe[0][i].reshape(-1) * 255).round().to(torch.uint8).numpy()
    encoded = base64.b64encode(pixels.tobytes()).decode()
    return _classified(f"a {truth}", encoded, truth, (int(live), int(restored)), str)


def _classified(
    name: str,
    pixels: str | None,
    truth: int,
    predicted: tuple[int, int],
    class_text: Callable[[int], str],
) -> dict[str, Any]:
    """One example as values for the picture. predicted: the live and the restored model's class."""
    live, restored = map(class_text, predicted)
    wrong, differ = [p != truth for p in predicted], predicted[0] != predicted[1]
    title = f"Class {class_text(truth)}; live {live}, restored {restored}."
    return _example(name, (live, restored), wrong, differ, title, pixels)


def _example(
    name: str,
    texts: Sequence[str],
    wrong: Sequence[bool],
    differ: bool,
    title: str,
    pixels: str | None = None,
) -> dict[str, Any]:
    """One example as values for the picture. texts, wrong: of the live and the restored model."""
    example = {"name": name, "pixels": pixels, "live": texts[0], "restored": texts[1]}
    marks = {"live_wrong": wrong[0], "restored_wrong": wrong[1], "differ": differ, "title": title}
    return example | marks


def _byte_text(byte: int) -> str:
    """A byte as one visible character."""
    symbols = {9: "⇥", 10: "↵", 32: "␣"}
    return symbols.get(byte) or (chr(byte) if 32 < byte < 127 else "·")
