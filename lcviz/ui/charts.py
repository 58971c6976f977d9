"""What every picture comes with, and the visual style they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go

# Okabe and Ito's colour-blind-safe palette, of it the four that reach a contrast of 3:1 on
# white and on black alike. Signs and methods never differ by colour alone.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
GREY = "#808080"
SIGN_COLOURS = (BLUE, VERMILION)
SIGN_NAMES = ("positive", "negative")
# Cividis, from dark blue to yellow: in the same order for those who see no red or no green.
CIVIDIS = (
    "#00224e",
    "#123570",
    "#3b496c",
    "#575d6d",
    "#707173",
    "#8a8678",
    "#a59c74",
    "#c3b369",
    "#e1cc55",
    "#fee838",
)

HATCH = {
    "symbol": "rect",
    "dashArrayX": [1, 0],
    "dashArrayY": [2, 4],
    "rotation": -0.785,
    "color": "rgba(128,128,128,0.85)",
}

POINTER = "▶"  # in front of what is highlighted, in texts
# A highlighted bar: a rim that shows on both backgrounds, and a sign beside it.
RIM = {"borderColor": PURPLE, "borderWidth": 3}

INK = {"light": "#31333f", "dark": "#fafafa"}  # the library's own axis grey is too faint

Option = dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """A picture with all that a reader needs: what it is, what one sees, and the numbers.

    title: what is shown, with units. sentence: what this picture says just now. chart: an
    ECharts option or a Plotly figure. alt: what kind of picture it is, for those who do not
    see it; the same at every tick, since a chart with a new alt text is drawn anew. numbers: its
    table, or what makes it: most ticks show none. height: in pixels. renderer: of an ECharts
    option; "svg" is crisp at any zoom and its texts can be read by people and by tests, "canvas"
    is quicker with thousands of shapes.
    """

    title: str
    sentence: str
    chart: Option | go.Figure
    alt: str
    numbers: pd.DataFrame | Callable[[], pd.DataFrame]
    height: int = 320
    renderer: Literal["svg", "canvas"] = "svg"

    @cached_property
    def table(self) -> pd.DataFrame:
        """Its numbers."""
        return self.numbers() if callable(self.numbers) else self.numbers


def base_option() -> Option:
    """What all ECharts panels share: changes at once, legend on top and not clickable.

    A tick would undo a click on the legend.
    """
    legend = {"top": 0, "selectedMode": False, "itemWidth": 18, "itemHeight": 10}
    return {"animation": False, "tooltip": {"confine": True}, "legend": legend}


def axis(name: str, gap: int = 28, **more: Any) -> Option:
    """A numeric axis with its name along the middle. gap: pixels between the axis and its name."""
    return {"type": "value", "name": name, "nameLocation": "middle", "nameGap": gap} | more


def highlighted(item: dict[str, Any], *, down: bool = False) -> dict[str, Any]:
    """A bar that stands out. down: it grows downwards. Its series needs a label, hidden."""
    label = {
        "show": True,
        "position": "bottom" if down else "top",
        "formatter": "▲" if down else "▼",
    }
    look = {"itemStyle": item.get("itemStyle", {}) | RIM, "select": {"itemStyle": RIM}}
    return item | look | {"label": label}


def plotted(value: float, digits: int = 6) -> float | None:
    """A number as a chart takes it: rounded, and a gap where it is not finite."""
    return round(value, digits) if math.isfinite(value) else None


def inked(option: Option, theme: str) -> Option:
    """The option with axis and legend text in a readable colour. theme: "light" or "dark"."""
    ink = INK[theme]

    def axes(value: Any) -> Any:
        if isinstance(value, list):
            return [axes(one) for one in value]
        label = value.get("axisLabel", {}) | {"color": ink}
        return value | {"axisLabel": label, "nameTextStyle": {"color": ink}}

    result = dict(option)
    for key in ("xAxis", "yAxis"):
        if key in option:
            result[key] = axes(option[key])
    if "visualMap" in option:
        result["visualMap"] = option["visualMap"] | {"textStyle": {"color": ink}}
    result["legend"] = option["legend"] | {"textStyle": {"color": ink}}
    series = [dict(one) for one in option["series"]]
    for one in series:
        if "label" in one:
            one["label"] = one["label"] | {"color": ink}
        if "markArea" in one:
            label = one["markArea"].get("label", {}) | {"color": ink}
            one["markArea"] = one["markArea"] | {"label": label, "animation": False}
        if "markLine" in one:
            label = one["markLine"].get("label", {}) | {"color": ink}
            # Else it is drawn where the value is once rounded to two digits.
            own = {"label": label, "animation": False, "precision": 9}
            one["markLine"] = one["markLine"] | own
    result["series"] = series
    return result
