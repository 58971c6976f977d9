"""The loss over the run, of the live model and of what a restart would load."""

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
FLAT = 8  # from this ratio of losses on, the end of a curve is flat, and the axis logarithmic
NEAR = 0.15  # of the axis: marks so near have their texts at different heights
MAX_POINTS = 500  # of a line: more would slow every tick, and no screen shows them


def loss_picture(
    steps: Sequence[int],
    live: Sequence[float],
    restored: Sequence[float],
    viewed: int,
    last: int,
    killed: Sequence[int] = (),
    tried: Mapping[int, float] | None = None,
    cost: str = "",
) -> Picture:
    """Both losses by step.

    Args:
        steps: that were measured, rising.
        live, restored: one loss for each; NaN where there is none.
        viewed: the step that the other pictures show.
        last: where the axis ends at least.
        killed: iterations at which the run was killed.
        tried: step -> restored loss if the whole run were saved as a visitor tries; None if not.
        cost: What a crash now would then do, in words.
    """
    shown = thinned(range(len(steps)), MAX_POINTS)
    x = [steps[i] for i in shown]
    seen = [v for v in (*live, *restored) if math.isfinite(v)]
    end = max(last, viewed, *steps, *killed, 1)
    marks: list[dict[str, Any]] = [{"step": viewed, "text": f"step {viewed}", "strong": False}]
    for k in killed:  # where two texts would meet, one says both
        near = abs(k - viewed) < NEAR * end
        text = f"killed at {k}" if not near else "killed"
        marks.append({"step": k, "text": text, "strong": True, "above": near})
    lines = [
        _line("live", "down", "solid", x, [live[i] for i in shown]),
        _line("restored", "up", "dash", x, [restored[i] for i in shown]),
    ]
    at = max(bisect_right(steps, viewed) - 1, 0)  # the newest loss may not be known yet
    text = (
        f"At step {steps[at]}: live {_loss('live', live[at])}, restored "
        f"{_loss('restored', restored[at])}{_gap(live[at], restored[at])}."
    )
    if tried:
        y = list(tried.values())
        lines.append(_line("your try", "good", "solid", list(tried), y))
        seen += [v for v in y if math.isfinite(v)]
        known = max((step for step in tried if step <= viewed), default=min(tried))
        text += f" Saved as you try: restored {_loss('whole-run', tried[known])} at "
        text += f"step {known}"
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
            "log": bool(seen) and min(seen) > 0 and max(seen) > FLAT * min(seen),
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
    """How much of the live loss lies between both, ", 0.62 % above"; "" if nobody can tell."""
    if not math.isfinite(restored) or not math.isfinite(live) or live <= 0:
        return ""
    return f", {percent_text(abs(restored / live - 1))} {'above' if restored >= live else 'below'}"


def _line(
    name: str, colour: str, dash: str, x: Sequence[int], y: Sequence[float]
) -> dict[str, Any]:
    points = [v if math.isfinite(v) else None for v in y]
    return {"name": name, "colour": colour, "dash": dash, "x": list(x), "y": points}
