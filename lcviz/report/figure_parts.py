"""What the figures of a chain share: axes, lines, fewer points and shorter names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TypeVar

import plotly.graph_objects as go

from lcviz.ui.charts import plotted

STEP = "step (iterations)"
MAX_POINTS = 600  # of one kind: more points than pixels would only slow every tick
MOST_MARKED = 60  # points of a line that get a symbol each
T = TypeVar("T")


def step_range(first: int, last: int) -> list[float]:
    """Limits of an axis of steps: a little more than they span, so that no symbol is cut."""
    margin = 0.02 * max(last - first, 1)
    return [first - margin, max(last, first + 1) + margin]


def decades(low: float, high: float) -> list[int]:
    """Limits of a logarithmic axis for values from low to high: at least one decade."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [begin, max(end, begin + 1)]


def line(
    name: str,
    look: tuple[str, str, str | None],
    points: Sequence[tuple[int, float | None]],
    marked: bool,
    hover: str,
    named: float,
) -> go.Scatter:
    """A line by step, with its name.

    Args:
        name: Of the line.
        look: Colour, Plotly's dash and symbol.
        points: Step and value; None and what is not finite are gaps.
        marked: Whether every point has its symbol.
        hover: Plotly's template of a value.
        named: Where its name stands, from 0, at its first point, to 1, at its last one; at 2/3
            below the line, else above.
    """
    colour, dash, symbol = look
    return go.Scatter(
        name=name,
        x=[step for step, _ in points],
        y=[None if value is None else plotted(value) for _, value in points],
        text=[name if i == round(named * (len(points) - 1)) else "" for i in range(len(points))],
        textposition=("top right", "top center", "bottom center", "top left")[round(3 * named)],
        mode="lines+markers+text" if symbol and marked else "lines+text",
        line={"color": colour, "dash": dash, "width": 2},
        marker={"color": colour, "symbol": symbol, "size": 7},
        cliponaxis=False,
        hovertemplate=hover,
    )


def thinned(points: Sequence[T], most: int) -> Sequence[T]:
    """At most `most` of the points, evenly chosen, always with the last one."""
    stride = -(-len(points) // most) or 1
    return points[::-1][::stride][::-1]


def shortened(name: str, most: int) -> str:
    """A name in at most `most` characters: its end, which says more than its beginning."""
    return name if len(name) <= most else "…" + name[1 - most :]


def label(name: str, most: int | None = None) -> str:
    """A name from a visitor's file for Plotly, which reads tags in texts. most: see `shortened`."""
    return escape(name if most is None else shortened(name, most), quote=False)
