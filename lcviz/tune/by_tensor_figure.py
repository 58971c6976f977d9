"""One delta tensor by tensor, a column for each number of bits: a heat map with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from codec import Coding
from lcviz.report.figure_parts import label
from lcviz.text import kept_name, kept_text
from lcviz.ui.charts import CIVIDIS, VERMILION, Panel, base_figure, plotted

from .by_tensor import ByTensor, Cell

MEASURES = {
    "bits": "bits per parameter",
    "error": "relative error ‖δ − q‖ / ‖δ‖",
    "zeros": "values left as they were, %",
}
MAX_ROWS = 40
NAME_LENGTH = 26
LIGHT, DARK = "#ffffff", "#000000"


def by_tensor_panel(found: ByTensor, own: Coding, measure: str, who: str, top: float) -> Panel:
    """Rows are tensors, columns settings.

    own: the one that is framed. measure: one of MEASURES. who: whose it is, "A" or "B". top: the
    number that the lightest colour stands for, the same for all that are compared.
    """
    sizes = sorted(found.sizes, key=lambda name: -found.sizes[name])[:MAX_ROWS]
    names = [name for name in found.sizes if name in sizes]  # in the model's order
    columns = [kept_name(v) for v in found.choices]
    numbers = [
        [None if cell is None else value(cell, measure) for cell in found.rows[name]]
        for name in names
    ]
    height = 76 + 28 * len(names)
    figure = base_figure(_x_name(own), "", height, l=170, r=12, t=8)
    figure.add_heatmap(
        x=list(range(len(columns))),
        y=list(range(len(names))),
        z=[[None if n is None else _drawn(n) for n in row] for row in numbers],
        customdata=[
            [(label(name), column, _text(n, measure)) for column, n in zip(columns, row)]
            for name, row in zip(names, numbers)
        ],
        colorscale=list(CIVIDIS),
        showscale=False,
        zmin=0,
        zmax=top or 1,
        hoverongaps=False,
        hovertemplate="%{customdata[0]}, x = %{customdata[1]}: %{customdata[2]}<extra></extra>",
    )
    figure.add_trace(_texts(numbers, measure, top))
    mine = found.choices.index(own)
    figure.add_shape(
        type="rect",
        x0=mine - 0.5,
        x1=mine + 0.5,
        y0=-0.5,
        y1=len(names) - 0.5,
        line={"color": VERMILION, "width": 3},
    )
    rows = {"range": [len(names) - 0.5, -0.5], "tickvals": list(range(len(names)))}
    figure.update_layout(
        hovermode="closest",
        showlegend=False,
        xaxis={"tickvals": list(range(len(columns))), "ticktext": columns, "showgrid": False}
        | {"range": [-0.5, len(columns) - 0.5]},
        yaxis=rows
        | {"ticktext": [label(name, NAME_LENGTH) for name in names], "showgrid": False}
        | {"ticklabelstandoff": 6},
    )
    return Panel(
        f"{who}, step {found.step}: {MEASURES[measure]}",
        _sentence(found, own, measure, names),
        figure,
        "Heat map: a row for each tensor, a column for each number of bits.",
        _table(found, columns, measure),
    )


def value(cell: Cell, measure: str) -> float:
    """What is shown of a cell: a percentage for zeros."""
    return 100 * cell.zeros if measure == "zeros" else float(getattr(cell, measure))


def highest(founds: tuple[ByTensor, ...], measure: str) -> float:
    """The largest number that is shown."""
    cells = [c for f in founds for row in f.rows.values() for c in row if c is not None]
    return max((value(c, measure) for c in cells), default=0.0)


def ink_on(share: float) -> str:
    """Black or white, whichever can be read better on the colour of a share from 0 to 1."""
    at = min(max(share, 0.0), 1.0) * (len(CIVIDIS) - 1)
    i = min(int(at), len(CIVIDIS) - 2)
    low, high = _rgb(CIVIDIS[i]), _rgb(CIVIDIS[i + 1])
    light = luminance(tuple(a + (at - i) * (b - a) for a, b in zip(low, high)))
    return LIGHT if 1.05 / (light + 0.05) > (light + 0.05) / 0.05 else DARK


def luminance(rgb: tuple[float, ...]) -> float:
    """Relative luminance of a colour, 0 to 1, as in WCAG 2. rgb: 0 to 255 each."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in rgb)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _texts(numbers: Sequence[Sequence[float | None]], measure: str, top: float) -> go.Scatter:
    """Every number in its cell. Plotly's own choice of an ink is hard to read on mid greys."""
    cells = [
        (x, y, number)
        for y, row in enumerate(numbers)
        for x, number in enumerate(row)
        if number is not None
    ]
    return go.Scatter(
        x=[x for x, *_ in cells],
        y=[y for _, y, _ in cells],
        text=[_text(number, measure) for *_, number in cells],
        mode="text",
        textfont={"size": 11, "color": [ink_on(_drawn(n) / (top or 1)) for *_, n in cells]},
        hoverinfo="skip",
    )


def _drawn(number: float) -> float:
    """What its colour stands for: what is not finite is as dark as 0."""
    return plotted(number, 5) or 0


def _text(number: float | None, measure: str) -> str:
    if number is None or not math.isfinite(number):
        return "–"
    return f"{number:.1f}" if measure == "zeros" else f"{number:.2f}"


def _x_name(own: Coding) -> str:
    text = "x bits for priority promotion"
    return text if own.by_bits else f"{text}, and {kept_text(own)}"


def _sentence(found: ByTensor, own: Coding, measure: str, names: list[str]) -> str:
    mine = found.choices.index(own)
    here = {n: c for n, row in found.rows.items() if (c := row[mine]) is not None}
    if not here:
        return "Every tensor was stored exactly: there is nothing to compare."
    by = sorted(here, key=lambda n: value(here[n], measure))
    low, high = (f"{name}, {_with_unit(here[name], measure)}" for name in (by[0], by[-1]))
    text = f"Framed: {low}"
    text += "." if len(by) == 1 else f" to {high}."
    if len(found.sizes) > len(names):
        text += f" Drawn are the {len(names)} largest of {len(found.sizes)} tensors."
    return text


def _with_unit(cell: Cell, measure: str) -> str:
    unit = {"bits": " bits", "error": "", "zeros": " %"}[measure]
    return f"{_text(value(cell, measure), measure)}{unit}"


def _table(found: ByTensor, columns: list[str], measure: str) -> pd.DataFrame:
    return pd.DataFrame(
        {"tensor": list(found.rows), "values": [found.sizes[name] for name in found.rows]}
        | {
            column: [
                None if row[i] is None else round(value(row[i], measure), 4)  # type: ignore[arg-type]
                for row in found.rows.values()
            ]
            for i, column in enumerate(columns)
        }
    )
