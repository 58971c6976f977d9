"""The loss over the run: of the live model, and of the model that a restart would load."""

from __future__ import annotations

import math
from bisect import bisect_right
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
    steps: Sequence[int],
    live: Sequence[float],
    restored: Sequence[float],
    viewed: int,
    last: int,
    kills: Sequence[int] = (),
    trial: Mapping[int, float] | None = None,
    cost: str = "",
) -> Picture:
    """Both losses by step.

    Args:
        steps: The measured steps, rising.
        live, restored: One loss for each step; NaN if not measured.
        viewed: The step that the other pictures show.
        last: The axis ends here or later.
        kills: Iterations at which the run was killed.
        trial: Step -> restored loss if the whole run were saved as a visitor tries; None without a
            trial.
        cost: What a crash now would do in the trial, in words.
    """
    points = thinned(range(len(steps)), MAX_POINTS)
    x = [steps[i] for i in points]
    losses = [v for v in (*live, *restored) if math.isfinite(v)]
    end = max(last, viewed, *steps, *kills, 1)
    marks: list[dict[str, Any]] = [{"step": viewed, "text": f"step {viewed}", "strong": False}]
    for k in kills:
        near = abs(k - viewed) < NEAR * end
        text = f"killed at {k}" if not near else "killed"
        marks.append({"step": k, "text": text, "strong": True, "above": near})
    lines = [
        _line("live", "down", "solid", x, [live[i] for i in points]),
        _line("restored", "up", "dash", x, [restored[i] for i in points]),
    ]
    at = max(bisect_right(steps, viewed) - 1, 0)  # the step viewed may not be measured yet
    text = (
        f"At step {steps[at]}: live {_loss('live', live[at])}, restored "
        f"{_loss('restored', restored[at])}{_gap(live[at], restored[at])}."
    )
    if trial:
        y = list(trial.values())
        lines.append(_line("your try", "good", "solid", list(trial), y))
        losses += [v for v in y if math.isfinite(v)]
        step = max((step for step in trial if step <= viewed), default=min(trial))
        text += f" Saved as you try: restored {_loss('whole-run', trial[step])} at "
        text += f"step {step}"
        text += f"; a crash now {cost}." if cost else "."
    return Picture(
        "curves",
        "Loss",
        "held out · live and restored",
        text,
        {
            "lines": lines,
            "marks": marks,
            "range": [0, end],
            "log": bool(losses) and min(losses) > 0 and max(losses) > FLAT * min(losses),
            "unit": "step",
            "height": HEIGHT,
            "clickable": True,
        },
        lambda: pd.DataFrame({"step": steps, "live": live, "restored": restored}),
        4,
    )


def _loss(whose: str, loss: float) -> str:
    return quantity(f"{whose}-loss", loss, short_loss_text(loss))


def _gap(live: float, restored: float) -> str:
    """The gap in percent of the live loss, ", 0.62 % above"; "" if a loss is not finite."""
    if not math.isfinite(restored) or not math.isfinite(live) or live <= 0:
        return ""
    return f", {percent_text(abs(restored / live - 1))} {'above' if restored >= live else 'below'}"


def _line(
    name: str, colour: str, dash: str, x: Sequence[int], y: Sequence[float]
) -> dict[str, Any]:
    points = [v if math.isfinite(v) else None for v in y]
    return {"name": name, "colour": colour, "dash": dash, "x": list(x), "y": points}
