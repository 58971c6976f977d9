"""What a crash costs with each way to save: rework by seed, and the state right after it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from lcviz.lab.recovery.rework import CrashCost
from lcviz.text import loss_text, nbytes_text, percent_text
from lcviz.ui.charts import GREY, Option, Panel, axis, base_option
from lcviz.ui.race import STYLES

_SPREAD = 12  # pixels over which the seeds of one method are set apart
_LIFT = -17  # pixels that they stand above the mean
_CAPPED = {"symbol": "arrow", "symbolRotate": -90, "symbolSize": 11}


def rework_panel(costs: Sequence[CrashCost]) -> Panel:
    """A point for every seed, the mean with its 95 % interval. costs: one for each method."""
    n = costs[0].rework.n
    names = [f"{c.method.name}\n{nbytes_text(c.nbytes)}, {percent_text(c.share)}" for c in costs]
    points = [
        _point(value, row, capped, i, n, cost.method.name)
        for row, cost in enumerate(costs)
        for i, (value, capped) in enumerate(cost.each)
    ]
    means = [
        {
            "value": [round(c.rework.value, 4), row],
            "label": {"formatter": "" if _bounded(c) else _text(c)},
        }
        for row, c in enumerate(costs)
    ]
    bars = [
        (row, max(c.rework.low, 0.0), c.rework.high, _text(c))
        for row, c in enumerate(costs)
        if _bounded(c)
    ]
    most = max(
        max([c.rework.high if _bounded(c) else c.rework.value, *(v for v, _ in c.each)])
        for c in costs
    )
    grey = {"color": GREY}
    option = base_option() | {
        "tooltip": {"show": False},
        "legend": base_option()["legend"] | {"data": ["one seed", "mean, 95 % interval"]},
        "grid": [{"left": 128, "right": 120, "top": 40, "bottom": 48}],
        "xAxis": axis("rework (iterations)", min=0, max=_ceiling(most)),
        "yAxis": {
            "type": "category",
            "data": names,
            "inverse": True,
            "axisTick": {"show": False},
            "axisLabel": {"lineHeight": 16},
        },
        "series": [
            {
                "name": "one seed",
                "type": "scatter",
                "symbolSize": 8,
                "itemStyle": grey,
                "data": points,
            },
            {
                "name": "mean, 95 % interval",
                "type": "scatter",
                "symbol": "rect",
                "symbolSize": [3, 12],
                "itemStyle": grey | {"opacity": 1},
                "data": means,
                "label": {"show": True, "position": "right", "distance": 10},
            },
            {
                "type": "lines",
                "coordinateSystem": "cartesian2d",
                "silent": True,
                "lineStyle": {"color": GREY, "width": 2, "opacity": 1, "curveness": 0},
                "data": [
                    {"coords": [[round(low, 4), row], [round(high, 4), row]]}
                    for row, low, high, _ in bars
                ],
            },
            {
                "type": "scatter",
                "symbolSize": 1,
                "silent": True,
                "itemStyle": grey,
                "label": {"show": True, "position": "right", "distance": 8},
                "data": [
                    {"value": [round(high, 4), row], "label": {"formatter": text}}
                    for row, _, high, text in bars
                ],
            },
        ],
    }
    return Panel(
        "Rework: iterations until the loss is back where it was",
        _sentence(costs),
        option,
        "Rework of each method in iterations: a point for every seed, the mean and its interval.",
        _table(costs),
        60 * len(costs) + 90,
    )


def _point(value: float, row: int, capped: bool, i: int, n: int, name: str) -> Option:
    colour, symbol, _ = STYLES[name]
    lift = _LIFT + (_SPREAD * (i / (n - 1) - 0.5) if n > 1 else 0)
    style = _CAPPED if capped else {"symbol": symbol}
    return {
        "value": [round(value, 4), row],
        "symbolOffset": [0, round(lift, 1)],
        "itemStyle": {"color": colour, "opacity": 0.8},
        **style,
    }


def _bounded(cost: CrashCost) -> bool:
    """Whether there is an interval: of more than one seed, and of none that was capped."""
    return math.isfinite(cost.rework.half) and not cost.capped


def _text(cost: CrashCost) -> str:
    at_least = "≥ " if cost.capped else ""
    within = f" ± {cost.rework.half:.2f}" if _bounded(cost) else ""
    return f"{at_least}{cost.rework.value:.2f}{within}"


def _ceiling(most: float) -> float:
    """A round number that is not below."""
    if most <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(most))
    return next(scale * m for m in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if scale * m >= most)


def _sentence(costs: Sequence[CrashCost]) -> str:
    n = costs[0].rework.n
    text = (
        "One seed, so there is no interval yet."
        if n == 1
        else f"{n} seeds; the bar is the mean's 95 % interval, not the spread of the seeds."
    )
    if any(c.capped for c in costs):
        text += (
            " An arrow marks a seed that was not back at the cap: its rework is that or more, and "
            "the mean has no interval."
        )
    return f"{text} Below each name: bytes of one checkpoint on disk, and their share of float32."


def _table(costs: Sequence[CrashCost]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "method": c.method.name,
                "rework, mean": _text(c),
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
    """Right after restoring: loss and distance, means over seeds; and what a save took."""
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
