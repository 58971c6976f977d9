"""A, B and every setting on one delta: bytes against distance, and a row for each tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from codec import Coding
from codec.inspect import CODERS
from lcviz.text import kept_name, nbytes_text, percent_text
from lcviz.ui.charts import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Panel,
    base_figure,
    plotted,
)
from lcviz.ui.coding_form import SCOPES

from .compare import OneDelta, Trial

# Of each coder in turn: colour, dash and symbol of the whole model's line, then of each tensor's.
STYLES = (
    ((BLUE, "solid", "circle"), (GREEN, "solid", "triangle-up")),
    ((VERMILION, "dash", "square"), (PURPLE, "dash", "diamond")),
    ((ORANGE, "dot", "cross"), (SKY, "dot", "x")),
)
LINES = {  # scope, coder -> name, colour, dash, symbol
    (scope, name): (f"{text}, {coder.short}", *style)
    for (name, coder), styles in zip(CODERS.items(), cycle(STYLES))
    for (scope, text), style in zip(SCOPES.items(), styles)
}
MEASURES = {"bits": "bits per value", "error": "relative error", "zeros": "left as it was, %"}
LABELLED = LINES["model", "runlength"][0]
APART = 1.06  # times as many bytes: closer points have one label
MARK = "circle-open"
LEAST_DISTANCE = 0.001  # %: what is nearer is drawn here, as a logarithm needs more than 0
HEIGHT = 300  # pixels


def compare_panel(
    delta: OneDelta, trials: Mapping[Coding, Trial], sides: Mapping[str, tuple[Coding, Trial]]
) -> Panel:
    """Bytes to the right, distance upwards; a line for each scope and coder over the bits x.

    trials: from `compare.try_all`. sides: a name, such as "A" or "B" -> the setting that is marked
    with it, and its trial.
    """
    full = delta.layout.nbytes
    figure = base_figure("record, % of float32", "distance, %", HEIGHT)
    figure.update_layout(hovermode="closest", dragmode="zoom")
    figure.update_xaxes(type="log", dtick="D2", tickformat="~g")
    figure.update_yaxes(type="log", dtick="D2", tickformat="~g")
    for (scope, coder), (name, colour, dash, symbol) in LINES.items():
        line = {v: s for v, s in trials.items() if (v.scope, v.coder) == (scope, coder)}
        how: dict[str, Any] = {
            "mode": "lines+markers",
            "line": {"color": colour, "dash": dash, "width": 2},
            "marker": {"color": colour, "symbol": symbol, "size": 9},
            "selected": {"marker": {"size": 12}},
            "unselected": {"marker": {"opacity": 1}},
        }
        if name == LABELLED:
            how |= {"mode": "lines+markers+text", "textposition": "bottom left"}
            how |= {"text": _labels(line), "textfont": {"color": colour, "size": 13}}
        figure.add_trace(_points(name, line, full, how))
    for coding, trial in dict(sides.values()).items():
        names = ", ".join(who for who, (of_side, _) in sides.items() if of_side == coding)
        _mark(figure, names, coding, trial, full)
    return Panel(
        f"Step {delta.step} with every setting: bytes and distance",
        "The numbers are bits x of the first line. **Click a point** to put it into B.",
        figure,
        "A line for each scope and coder, a point for each number of bits: size of the record to "
        "the right, relative distance upwards; A and B are circled.",
        _table(trials, full),
    )


def _mark(figure: go.Figure, names: str, coding: Coding, trial: Trial, full: int) -> None:
    """A circle around a setting, with the names of those who chose it."""
    how = {
        "mode": "markers",
        "marker": {"symbol": MARK, "size": 20, "color": VERMILION, "line": {"width": 3}},
        "showlegend": False,
    }
    mark = _points(names, {coding: trial}, full, how)
    if mark.y[0] is not None:
        figure.add_trace(mark)
        at = {"x": math.log10(mark.x[0]), "y": math.log10(mark.y[0])}
        figure.add_annotation(at, text=f"<b>{names}</b>", showarrow=False, xshift=14, yshift=14)


def _table(trials: Mapping[Coding, Trial], full: int) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "x": kept_name(v.bits),
                "alphabets": "one" if v.scope == "model" else "one per tensor",
                "coder": CODERS[v.coder].short,
                "bytes": s.nbytes,
                "% of float32": round(100 * s.nbytes / full, 3),
                "distance, %": plotted(100 * s.distance, 3),
                "buckets kept": s.buckets,
            }
            for v, s in trials.items()
        ]
    )


def picked(line: int, point: int, codings: Iterable[Coding]) -> Coding | None:
    """Which setting a point of the panel is; None for a mark of A or B."""
    if line >= len(LINES):
        return None
    return [v for v in codings if (v.scope, v.coder) == list(LINES)[line]][point]


def headline(a: Trial, b: Trial) -> str:
    """What B costs and gains, against A."""
    size, near = b.nbytes - a.nbytes, 100 * (b.distance - a.distance)
    less = "as many bytes"
    if size:
        share = percent_text(abs(size) / a.nbytes)
        less = f"{nbytes_text(abs(size))} ({share}) {'more' if size > 0 else 'less'}"
    far = "as near to what was trained"
    if not math.isfinite(near):
        far = "a distance that is not finite"
    elif abs(near) >= 0.005:
        far = f"{abs(near):.2f} percentage points {'further' if near > 0 else 'nearer'}"
    return f"B against A: {less}, {far}"


def tensors_table(sizes: Mapping[str, int], sides: Mapping[str, Trial]) -> pd.DataFrame:
    """A row for each tensor of the layout's lossy ones.

    sizes: name -> values. sides: "A" and "B". Empty cells: the tensor is stored whole.
    """
    columns: dict[str, list[object]] = {"tensor": list(sizes), "values": list(sizes.values())}
    for measure, name in MEASURES.items():
        for who, trial in sides.items():
            cells = [trial.tensors[tensor] for tensor in sizes]
            columns[f"{who}, {name}"] = [
                None if cell is None else _cell(getattr(cell, measure), measure) for cell in cells
            ]
    return pd.DataFrame(columns)


def _cell(number: float, measure: str) -> float | None:
    return plotted(100 * number, 1) if measure == "zeros" else plotted(number, 3)


def _labels(line: Mapping[Coding, Trial]) -> list[str]:
    """The bits x of each point; of those that lie together, the first."""
    labels, last = [], 0.0
    for coding, trial in line.items():
        apart = trial.nbytes > APART * last
        labels.append(kept_name(coding.bits) if apart else "")
        last = trial.nbytes if apart else last
    return labels


def _points(
    name: str, points: Mapping[Coding, Trial], full: int, how: dict[str, Any]
) -> go.Scatter:
    return go.Scatter(
        name=name,
        x=[round(100 * s.nbytes / full, 4) for s in points.values()],
        y=[_height(s.distance) for s in points.values()],
        customdata=[
            (
                v.describe(),
                f"{s.nbytes:,} B, {percent_text(s.nbytes / full)}",
                percent_text(s.distance),
            )
            for v, s in points.items()
        ],
        hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]} of float32<br>distance "
        "%{customdata[2]}<extra></extra>",
        cliponaxis=False,
        **how,
    )


def _height(distance: float) -> float | None:
    """Where it is drawn, in %; None if it is not finite."""
    share = plotted(100 * distance, 5)
    return share if share is None else max(share, LEAST_DISTANCE)
