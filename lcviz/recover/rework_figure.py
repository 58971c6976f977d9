"""The price of a crash with each way to save, by seed, and the states right after restoring."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from lcviz.lab.recovery.rework import CrashCost
from lcviz.text import loss_text, nbytes_text, percent_text
from lcviz.ui.charts import GREY, Panel, base_figure, name_rows
from lcviz.ui.race import STYLES

_CAPPED = "arrow-right"
_SPREAD = 0.14  # of a row's height: the seeds of one method are spread over it
_LIFT = 0.3  # of a row's height: the seeds stand this far above their mean
_HEIGHT = 350  # pixels
_AXIS_LENGTH = 1.4  # in longest bars: the number right of a bar needs space


def rework_panel(costs: Sequence[CrashCost]) -> Panel:
    """A point for every seed, and the mean with its 95 % interval. costs: one for each method."""
    figure = base_figure("price of a crash (iterations)", "", _HEIGHT, l=128, t=12)
    for row, cost in enumerate(costs):
        figure.add_trace(_points(row, cost))
    halves = [c.rework.half if _bounded(c) else 0.0 for c in costs]
    means = [c.rework.value for c in costs]
    figure.add_scatter(
        name="mean, 95 % interval",
        x=[round(value, 4) for value in means],
        y=list(range(len(costs))),
        mode="markers",
        marker={"symbol": "line-ns-open", "size": 12, "color": GREY, "line": {"width": 3}},
        error_x={
            "type": "data",
            "array": [round(half, 4) for half in halves],
            "arrayminus": [round(min(h, m), 4) for h, m in zip(halves, means)],
            "color": GREY,
            "width": 0,
        },
        customdata=[_text(c) for c in costs],
        hovertemplate="mean %{customdata}<extra></extra>",
    )
    for row, (cost, half) in enumerate(zip(costs, halves)):
        end = cost.rework.value + half
        figure.add_annotation(x=end, y=row, text=_text(cost), xanchor="left", **_LABEL)
    longest = max(max([m + h, *(v for v, _ in c.each)]) for c, m, h in zip(costs, means, halves))
    names = [f"{c.method.name}<br>{nbytes_text(c.nbytes)}, {percent_text(c.share)}" for c in costs]
    figure.update_xaxes(range=[-0.02 * (longest or 1.0), _AXIS_LENGTH * (longest or 1.0)])
    name_rows(figure, names)
    figure.update_yaxes(range=[len(costs) - 0.5, -0.6])
    figure.update_layout(hovermode="closest", showlegend=False)
    return Panel(
        "Price of a crash: iterations until the loss is back",
        _sentence(costs),
        figure,
        "What a crash costs with each method, in iterations: a point for every seed, the mean and "
        "its interval.",
        _table(costs),
    )


_LABEL = {"showarrow": False, "xshift": 8, "font": {"size": 13}}


def _points(row: int, cost: CrashCost) -> go.Scatter:
    """The seeds of one method, above its mean; capped ones are arrows."""
    colour, symbol, _ = STYLES[cost.method.name]
    n = len(cost.each)
    offsets = [_SPREAD * (i / (n - 1) - 0.5) if n > 1 else 0.0 for i in range(n)]
    return go.Scatter(
        name=cost.method.name,
        x=[round(value, 4) for value, _ in cost.each],
        y=[round(row - _LIFT + offset, 3) for offset in offsets],
        mode="markers",
        marker={
            "symbol": [_CAPPED if capped else symbol for _, capped in cost.each],
            "size": 9,
            "color": colour,
            "opacity": 0.85,
        },
        customdata=[
            f"seed {i}: {'≥ ' if capped else ''}{value:.2f}"
            for i, (value, capped) in enumerate(cost.each)
        ],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _bounded(cost: CrashCost) -> bool:
    """Whether the mean has an interval: there are several seeds, and none was capped."""
    return math.isfinite(cost.rework.half) and not cost.capped


def _text(cost: CrashCost) -> str:
    at_least = "≥ " if cost.capped else ""
    within = f" ± {cost.rework.half:.2f}" if _bounded(cost) else ""
    return f"{at_least}{cost.rework.value:.2f}{within}"


def _sentence(costs: Sequence[CrashCost]) -> str:
    n = costs[0].rework.n
    text = (
        "One seed: no interval yet." if n == 1 else f"{n} seeds; bars: 95 % intervals of the means."
    )
    if any(c.capped for c in costs):
        text += " Arrows: the loss was not back at the cap; the price is that or more."
    return text


def _table(costs: Sequence[CrashCost]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "method": c.method.name,
                "price, mean": _text(c),
                "of each seed": " · ".join(
                    f"{'≥ ' if capped else ''}{value:.2f}" for value, capped in c.each
                ),
                "bytes": f"{c.nbytes:,.0f}",
                "of float32": percent_text(c.share),
            }
            for c in costs
        ]
    )


def restored_table(costs: Sequence[CrashCost]) -> pd.DataFrame:
    """Loss and distance right after restoring, and the time of a save: means over seeds."""
    return pd.DataFrame(
        [
            {
                "method": f"**{c.method.name}**",
                "checkpoint": f"{nbytes_text(c.nbytes)}, {percent_text(c.share)}",
                "loss before the crash": loss_text(c.loss_before, 4),
                "right after restoring": loss_text(c.loss_restored, 4),
                "distance": percent_text(c.distance),
                "one save": f"{1e3 * c.save_seconds:.1f} ms",
            }
            for c in costs
        ]
    )
