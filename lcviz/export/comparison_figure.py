"""Charts of a chain and the files it was made of: bytes and distance by step, and by tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from lcviz.text import nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Option,
    Panel,
    base_option,
    plotted,
)

from .comparison import ComparedStep, TensorError, totals

MOST_BARS = 16  # tensors in one picture; the table has all of them
_GRID = {"left": 76, "right": 24, "top": 48, "bottom": 48}
_TOOLTIP = {"trigger": "axis", "confine": True}
# name, colour, dash, symbol, attribute of ComparedStep, column of the table
_SIZES = (
    ("in float32", GREY, "dotted", "none", "full_nbytes", "float32 bytes"),
    ("its file", BLUE, "solid", "rect", "file_nbytes", "file bytes"),
    ("the file zipped", PURPLE, "dashed", "triangle", "zipped", "zipped bytes"),
    ("record of the chain", VERMILION, "solid", "circle", "nbytes", "record bytes"),
)


def sizes_by_step(steps: Sequence[ComparedStep]) -> Panel:
    """Bytes of every step: in float32, its file, that file zipped, and its record. Log scale."""
    series = []
    columns: dict[str, list[Any]] = {
        "step": [c.step for c in steps],
        "file": [c.source for c in steps],
        "kind": [c.kind for c in steps],
    }
    for name, colour, dash, symbol, attribute, column in _SIZES:
        values = columns[column] = [getattr(c, attribute) for c in steps]
        if any(v is not None for v in values):
            points = [[c.step, v] for c, v in zip(steps, values)]
            series.append(_line(name, colour, dash, symbol, points))
    columns["record, % of float32"] = [round(100 * c.nbytes / c.full_nbytes, 3) for c in steps]
    option = base_option() | {
        "tooltip": _TOOLTIP,
        "grid": [_GRID],
        "xAxis": _step_axis(steps),
        "yAxis": _axis("bytes (log scale)", type="log"),
        "series": series,
    }
    t = totals(steps)
    others = ((t.full, "in float32"), (t.files, "as files"), (t.zipped, "as zipped files"))
    sizes = ", ".join(f"{nbytes_text(n)} {what}" for n, what in others if n is not None)
    bases = sum(c.kind == "base" for c in steps)
    sentence = (
        f"{plural(len(steps), 'step')} in {nbytes_text(t.chain)} instead of {sizes}: "
        f"{percent_text(t.chain / t.full)} of float32. {bases:,} of them "
        f"{'is a base' if bases == 1 else 'are bases'}, stored exactly."
    )
    table = pd.DataFrame(columns).dropna(axis="columns", how="all")
    alt = "Bytes of every step in float32, as its file, zipped, and as a record of the chain."
    return Panel("Bytes of each step", sentence, option, alt, table)


def distance_by_step(steps: Sequence[ComparedStep]) -> Panel:
    """Relative distance of what is restored from the original, by step."""
    points = [[c.step, plotted(c.distance)] for c in steps]
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": _TOOLTIP,
        "grid": [_GRID | {"top": 16}],
        "xAxis": _step_axis(steps),
        "yAxis": _axis("relative distance", min=0),
        "series": [_line("restored", VERMILION, "solid", "circle", points)],
    }
    t = totals(steps)
    sentence = "Every step restores exactly, to the last bit of its tensors in float32."
    if any(c.distance != 0 for c in steps):
        sentence = (
            f"Step {t.furthest.step} is furthest from its original: "
            f"{percent_text(t.furthest.distance)} of the distance trained by then. No weight of "
            f"any step is off by more than {_number_text(t.largest)}."
        )
    title = "Distance from the originals, ‖restored − u‖ / ‖u − u₀‖"
    alt = "Relative distance of each restored step from the file it was made of."
    table = pd.DataFrame({"step": [c.step for c in steps]} | _error_columns(steps))
    return Panel(title, sentence, option, alt, table)


def tensors_of_step(one: ComparedStep) -> Panel:
    """Relative distance of every tensor of a step, the largest ones as bars."""

    def size(t: TensorError) -> float:
        return t.distance if math.isfinite(t.distance) else math.inf

    tensors = sorted(one.tensors, key=size, reverse=True)
    bars = tensors[:MOST_BARS]
    data = [
        {"value": plotted(t.distance) or 0, "label": {"formatter": _number_text(t.distance)}}
        for t in bars
    ]
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"show": False},
        "grid": [{"left": 180, "right": 90, "top": 8, "bottom": 46}],
        "xAxis": _axis("relative distance", gap=28, min=0),
        "yAxis": {
            "type": "category",
            "inverse": True,
            "data": [_short(t.name) for t in bars],
            "axisLabel": {"width": 165, "overflow": "truncate"},
        },
        "series": [
            {
                "name": "relative distance",
                "type": "bar",
                "silent": True,
                "barMaxWidth": 18,
                "label": {"show": True, "position": "right"},
                "itemStyle": {"color": GREEN},
                "data": data,
            }
        ],
    }
    if not tensors:
        sentence = "None of its tensors is delta-coded: all are stored exactly."
    elif one.kind == "base" or all(t.distance == 0 for t in tensors):
        sentence = f"Step {one.step} is stored exactly: every tensor restores to the last bit."
    else:
        first, last = tensors[0], tensors[-1]
        more = f" The {MOST_BARS} furthest are drawn." if len(tensors) > MOST_BARS else ""
        sentence = (
            f"At step {one.step} {plain(_short(first.name))} is furthest from its original, "
            f"{_number_text(first.distance)}, {plain(_short(last.name))} closest, "
            f"{_number_text(last.distance)}.{more}"
        )
    names = {"tensor": [t.name for t in tensors], "weights": [t.n for t in tensors]}
    table = pd.DataFrame(names | _error_columns(tensors))
    alt = "Relative distance of each tensor of a step from its original, as bars."
    height = max(150, 70 + 26 * len(bars))
    return Panel(f"Tensors of step {one.step}", sentence, option, alt, table, height)


def _error_columns(errors: Sequence[ComparedStep | TensorError]) -> dict[str, Any]:
    """Columns of a table."""
    return {
        "relative distance": [_number_text(e.distance) for e in errors],
        "largest error of a weight": [_number_text(e.largest) for e in errors],
    }


def _line(name: str, colour: str, dash: str, symbol: str, points: list[list[Any]]) -> Option:
    return {
        "name": name,
        "type": "line",
        "symbol": symbol,
        "symbolSize": 7,
        "showSymbol": len(points) <= 60 and symbol != "none",
        "lineStyle": {"color": colour, "type": dash, "width": 2},
        "itemStyle": {"color": colour},
        "data": points,
    }


def _step_axis(steps: Sequence[ComparedStep]) -> Option:
    span = {"min": steps[0].step, "max": max(steps[-1].step, steps[0].step + 1)}
    return _axis("step", gap=28, minInterval=1, axisLabel={"hideOverlap": True}, **span)


def _axis(name: str, gap: int = 56, **more: Any) -> Option:
    return {"type": "value", "name": name, "nameLocation": "middle", "nameGap": gap} | more


def _number_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"…{name[-39:]}"
