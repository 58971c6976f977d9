"""A chain beside the files it was made of: bytes and distance by step, and by tensor."""

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

from .comparison import Compared, TensorError, totals

MOST_BARS = 16  # tensors in one picture; all of them stand in the table
_GRID = {"left": 76, "right": 24, "top": 48, "bottom": 48}


def sizes_by_step(every: Sequence[Compared]) -> Panel:
    """Bytes of every step: in float32, its file, that file zipped, and its record. Log scale."""
    lines: list[tuple[str, str, str, str, list[int | None]]] = [
        ("in float32", GREY, "dotted", "none", [c.full_nbytes for c in every]),
        ("its file", BLUE, "solid", "rect", [c.file_nbytes for c in every]),
        ("the file zipped", PURPLE, "dashed", "triangle", [c.zipped for c in every]),
        ("record of the chain", VERMILION, "solid", "circle", [c.nbytes for c in every]),
    ]
    shown = [line for line in lines if any(v is not None for v in line[-1])]
    series = [
        _line(name, colour, dash, symbol, [[c.step, v] for c, v in zip(every, values)])
        for name, colour, dash, symbol, values in shown
    ]
    option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [_GRID],
        "xAxis": _steps(every),
        "yAxis": _axis("bytes (log scale)", type="log"),
        "series": series,
    }
    t = totals(every)
    beside = [f"{nbytes_text(t.full)} in float32"]
    beside += [f"{nbytes_text(t.files)} as files"] if t.files is not None else []
    beside += [f"{nbytes_text(t.zipped)} as zipped files"] if t.zipped is not None else []
    bases = sum(c.kind == "base" for c in every)
    sentence = (
        f"{plural(t.n, 'step')} in {nbytes_text(t.chain)} instead of {', '.join(beside)}: "
        f"{percent_text(t.chain / t.full)} of float32. {bases:,} of them "
        f"{'is a base' if bases == 1 else 'are bases'}, stored exactly."
    )
    table = pd.DataFrame(
        {
            "step": [c.step for c in every],
            "file": [c.source for c in every],
            "kind": [c.kind for c in every],
            "float32 bytes": [c.full_nbytes for c in every],
            "file bytes": [c.file_nbytes for c in every],
            "zipped bytes": [c.zipped for c in every],
            "record bytes": [c.nbytes for c in every],
            "record, % of float32": [round(100 * c.nbytes / c.full_nbytes, 3) for c in every],
        }
    ).dropna(axis="columns", how="all")
    alt = "Bytes of every step in float32, as its file, zipped, and as a record of the chain."
    return Panel("Bytes of each step", sentence, option, alt, table)


def distance_by_step(every: Sequence[Compared]) -> Panel:
    """Relative distance of what is restored from the original, by step."""
    points = [[c.step, plotted(c.distance)] for c in every]
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [_GRID | {"top": 16}],
        "xAxis": _steps(every),
        "yAxis": _axis("relative distance", min=0),
        "series": [_line("restored", VERMILION, "solid", "circle", points)],
    }
    t = totals(every)
    if all(c.distance == 0 for c in every):
        sentence = "Every step restores exactly, to the last bit of its tensors in float32."
    else:
        sentence = (
            f"Furthest from its original is step {t.worst}: {_share_text(t.distance)} of the way "
            f"that training had come by then. No weight of any step is off by more than "
            f"{_number_text(t.largest)}."
        )
    table = pd.DataFrame(
        {
            "step": [c.step for c in every],
            "relative distance": [_number_text(c.distance) for c in every],
            "largest error of a weight": [_number_text(c.largest) for c in every],
        }
    )
    alt = "Relative distance of each restored step from the file it was made of."
    return Panel(
        "Distance from the originals, ‖restored − u‖ / ‖u − u₀‖", sentence, option, alt, table
    )


def tensors_of_step(one: Compared) -> Panel:
    """Relative distance of every tensor of a step, the largest ones as bars."""
    worst = sorted(one.tensors, key=_badness, reverse=True)
    bars = worst[:MOST_BARS]
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
                "data": [
                    {
                        "value": plotted(t.distance) if math.isfinite(t.distance) else 0,
                        "label": {"formatter": _number_text(t.distance)},
                    }
                    for t in bars
                ],
            }
        ],
    }
    if not one.tensors:
        sentence = "None of its tensors is delta-coded: all are stored exactly."
    elif one.kind == "base" or all(t.distance == 0 for t in one.tensors):
        sentence = f"Step {one.step} is stored exactly: every tensor restores to the last bit."
    else:
        first, last = worst[0], worst[-1]
        more = f" The {MOST_BARS} furthest are drawn." if len(worst) > MOST_BARS else ""
        sentence = (
            f"At step {one.step} {plain(_short(first.name))} is furthest from its original, "
            f"{_number_text(first.distance)}, {plain(_short(last.name))} closest, "
            f"{_number_text(last.distance)}.{more}"
        )
    table = pd.DataFrame(
        {
            "tensor": [t.name for t in worst],
            "weights": [t.n for t in worst],
            "relative distance": [_number_text(t.distance) for t in worst],
            "largest error of a weight": [_number_text(t.largest) for t in worst],
        }
    )
    height = max(150, 70 + 26 * len(bars))
    return Panel(
        f"Tensors of step {one.step}",
        sentence,
        option,
        "Relative distance of each tensor of a step from its original, as bars.",
        table,
        height,
    )


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


def _steps(every: Sequence[Compared]) -> Option:
    span = {"min": every[0].step, "max": max(every[-1].step, every[0].step + 1)}
    axis = _axis("step", gap=28, minInterval=1, **span)
    return axis | {"axisLabel": {"hideOverlap": True}}


def _axis(name: str, gap: int = 56, **more: Any) -> Option:
    return {"type": "value", "name": name, "nameLocation": "middle", "nameGap": gap} | more


def _badness(t: TensorError) -> float:
    return t.distance if math.isfinite(t.distance) else math.inf


def _share_text(distance: float) -> str:
    return (
        percent_text(distance) if math.isfinite(distance) else "not finite, NaN or infinity, part"
    )


def _number_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"…{name[-39:]}"
