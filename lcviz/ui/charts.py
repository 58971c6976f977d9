"""`Panel`, a chart with its texts and numbers, and the visual style that all charts share."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from lcviz.text import UNITS

# One table of colours for our own pictures and for Plotly: signs and methods never differ by colour
# alone.
_TABLE = (Path(__file__).parent / "pictures" / "pictures.css").read_text(encoding="utf-8")
UP, DOWN, RESTORED, GOOD, BAD = (
    re.findall(f"--{name}: (#[0-9a-f]{{6}});", _TABLE)[0]
    for name in ("up", "down", "restored", "good", "bad")
)
KEPT = "black"  # the ink of the theme, see `inked_figure`
OTHER = "#808080"
# Cividis, from dark blue to yellow, also for the colour-blind.
CIVIDIS = (
    *("#00224e", "#123570", "#3b496c", "#575d6d", "#707173"),
    *("#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"),
)


INK = {"light": "#31333f", "dark": "#fafafa"}  # the library's own axis grey is too faint
# The background of a text that crosses lines: the page's color, nearly opaque.
BEHIND = {"light": "rgba(255,255,255,0.85)", "dark": "rgba(23,22,20,0.85)"}

GRID = "rgba(128,128,128,0.25)"
_SIDES = {"l": 52, "r": 24, "t": 28, "b": 48}


@dataclass(frozen=True)
class Panel:
    """A picture with its title, its sentence and its numbers.

    title: what is shown, with units. sentence: what this picture shows now. alt: the kind of
    picture, for those who do not see it; always the same, since a chart with a new alt text is
    drawn anew. numbers: its table, or a function that makes it when it is shown.
    """

    title: str
    sentence: str
    figure: go.Figure
    alt: str
    numbers: pd.DataFrame | Callable[[], pd.DataFrame]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Its numbers."""
        return self.numbers() if callable(self.numbers) else self.numbers


def base_figure(x: str, y: str, height: int, **sides: int) -> go.Figure:
    """An empty figure in the common style: explicit margins, all values at one x.

    x, y: names of the axes; that of y is horizontal, above the axis. sides: margins in pixels,
    where they differ: l, r, t, b.
    """
    lines = {"gridcolor": GRID, "zeroline": False, "automargin": False}
    margin = _SIDES | sides
    figure = go.Figure(
        layout={
            "height": height,
            "margin": margin,
            "hovermode": "x unified",
            "showlegend": False,
            "xaxis": lines | {"title": {"text": x, "standoff": 8}},
            "yaxis": lines,
        }
    )
    if y:
        figure.add_annotation(
            text=y,
            showarrow=False,
            xref="paper",
            x=0,
            xanchor="left",
            xshift=8 - margin["l"],
            yref="paper",
            y=1,
            yanchor="bottom",
            yshift=6,
        )
    return figure


def write_at(
    figure: go.Figure, x: float, y: float, text: str, *, left: bool, apart: int, anchor: str
) -> None:
    """Write beside a point. apart: pixels from it. anchor: the side of the text at its height."""
    x, y = (
        math.log10(value) if axis.type == "log" else value
        for value, axis in ((x, figure.layout.xaxis), (y, figure.layout.yaxis))
    )
    figure.add_annotation(
        text=text,
        x=x,
        y=y,
        showarrow=False,
        align="right" if left else "left",
        xanchor="right" if left else "left",
        xshift=-apart if left else apart,
        yanchor=anchor,
    )


def bytes_axis(nbytes: Sequence[float]) -> dict[str, Any]:
    """The properties of a log axis for these bytes, none of them 0, with units at its ticks."""
    lowest, highest = (math.floor(math.log10(f(nbytes, default=1))) for f in (min, max))
    firsts = (1, 2, 5) if highest - lowest < 2 else (1,)
    ticks = [n * 10.0**decade for decade in range(lowest, highest + 1) for n in firsts]
    units = [next((u for u in UNITS.items() if t >= u[1]), ("B", 1.0)) for t in ticks]
    texts = [f"{t / size:g} {name}" for t, (name, size) in zip(ticks, units, strict=True)]
    return {"type": "log", "tickvals": ticks, "ticktext": texts}


def inked_figure(figure: go.Figure, theme: str) -> go.Figure:
    """The figure with its texts, and what is KEPT, in ink. theme: "light" or "dark"."""
    # Plotly checks the whole figure at each of its own updates: a dict is checked once.
    fields = _inked(figure.to_dict(), INK[theme])
    layout = fields["layout"]
    layout.pop("template", None)  # the default one, which the new figure gets again
    axes = [layout[key] for key in layout if re.fullmatch(r"[xy]axis\d*", key)]
    for axis in axes:
        title = axis.setdefault("title", {})
        for font in (axis.setdefault("tickfont", {}), title.setdefault("font", {})):
            font["color"] = INK[theme]
    for annotation in layout.get("annotations", ()):
        annotation.setdefault("bgcolor", BEHIND[theme])
        annotation.setdefault("font", {})["color"] = INK[theme]
    return go.Figure(fields)


def _inked(value: Any, ink: str) -> Any:
    """The value with ink instead of black."""
    if isinstance(value, dict):
        return {key: _inked(part, ink) for key, part in value.items()}
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict | str):
        return [_inked(part, ink) for part in value]
    return ink if isinstance(value, str) and value == KEPT else value


def name_rows(figure: go.Figure, names: Sequence[str]) -> None:
    """Rows from the top down, at y = 0, 1, …, each with its name beside the axis."""
    figure.update_yaxes(
        range=[len(names) - 0.5, -0.5],
        tickvals=list(range(len(names))),
        ticktext=names,
        showgrid=False,
    )


def plotted(value: float, digits: int = 6) -> float | None:
    """A number for a chart: rounded; None, a gap, if it is not finite."""
    return round(value, digits) if math.isfinite(value) else None
