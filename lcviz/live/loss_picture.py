"""The loss over the run: of the live model, and of the model that a restart would load."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lcviz.report.figure_parts import thinned
from lcviz.text import percent_text, short_loss_text
from lcviz.ui.picture import Picture, quantity

HEIGHT = 118  # CSS pixels
FLAT = 8  # largest over smallest loss: above this a linear axis shows a flat end, so it is log
NEAR = 0.15  # share of the axis: the texts of closer marks are drawn at different heights
MAX_POINTS = 500  # of a line: more would slow every tick, and no screen shows them


def loss_picture(
    losses: Mapping[int, tuple[float, float]],
    viewed: int,
    last: int,
    kills: Sequence[int] = (),
    trial: Mapping[int, float] | None = None,
    cost: str = "",
) -> Picture:
    """Both losses by step.

    Args:
        losses: Step, rising -> live and restored loss.
        viewed: The step that the other pictures show.
        last: The axis ends here or later.
        kills: Iterations at which the run was killed.
        trial: Step -> restored loss if the whole run were saved as a visitor tries; None without a
            trial.
        cost: What a crash now would do in the trial, in words.
    """
    steps, (live, restored) = list(losses), zip(*losses.values())
    x = thinned(steps, MAX_POINTS)
    values = [*live, *restored, *(trial or {}).values()]
    finite = [value for value in values if math.isfinite(value)]
    end = max(last, viewed, *steps, *kills, 1)
    marks: list[dict[str, Any]] = [{"step": viewed, "text": f"step {viewed}", "strong": False}]
    for k in kills:
        near = abs(k - viewed) < NEAR * end
        text = f"killed at {k}" if not near else "killed"
        marks.append({"step": k, "text": text, "strong": True, "above": near})
    lines = [
        _line("live", "down", "solid", {step: losses[step][0] for step in x}),
        _line("restored", "up", "dash", {step: losses[step][1] for step in x}),
    ]
    if trial:
        lines.append(_line("your try", "good", "solid", trial))
    return Picture(
        "curves",
        "Loss",
        "held out · live and restored",
        _sentence(losses, viewed, trial or {}, cost),
        {
            "lines": lines,
            "marks": marks,
            "range": [0, end],
            "log": bool(finite) and min(finite) > 0 and max(finite) > FLAT * min(finite),
            "unit": "step",
            "height": HEIGHT,
            "clickable": True,
        },
        lambda: pd.DataFrame({"step": steps, "live": live, "restored": restored}),
        4,
    )


def _sentence(
    losses: Mapping[int, tuple[float, float]], viewed: int, trial: Mapping[int, float], cost: str
) -> str:
    """The losses of the step viewed, or of the one before it that was measured."""
    at = max((step for step in losses if step <= viewed), default=min(losses))
    live, restored = losses[at]
    text = f"At step {at}: live {_loss('live', live)}, restored {_loss('restored', restored)}"
    text += f"{_gap(live, restored)}."
    if trial:
        at = max((step for step in trial if step <= viewed), default=min(trial))
        text += f" Saved as you try: restored {_loss('whole-run', trial[at])} at step {at}"
        text += f"; a crash now {cost}." if cost else "."
    return text


def _loss(whose: str, loss: float) -> str:
    return quantity(f"{whose}-loss", loss, short_loss_text(loss))


def _gap(live: float, restored: float) -> str:
    """The gap in percent of the live loss, ", 0.62 % above"; "" if a loss is not finite."""
    if not math.isfinite(restored) or not math.isfinite(live) or live <= 0:
        return ""
    return f", {percent_text(abs(restored / live - 1))} {'above' if restored >= live else 'below'}"


def _line(name: str, colour: str, dash: str, losses: Mapping[int, float]) -> dict[str, Any]:
    y = [loss if math.isfinite(loss) else None for loss in losses.values()]
    return {"name": name, "colour": colour, "dash": dash, "x": list(losses), "y": y}
