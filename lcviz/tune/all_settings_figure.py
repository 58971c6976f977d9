"""Every number of bits with both scopes and coders, on one delta: bytes and distance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from codec import Coding
from codec.inspect import CODERS
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.text import enumerated, kept_name, nbytes_text, percent_text
from lcviz.ui.charts import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Option,
    Panel,
    axis,
    base_option,
    plotted,
)

from .ab import TrialSave

Tried = Mapping[Coding, TrialSave]
SIZES = {  # scope, coder -> name, colour, dash, symbol
    ("model", "runlength"): ("whole model, run-length", BLUE, "solid", "circle"),
    ("tensor", "runlength"): ("each tensor, run-length", GREEN, "solid", "triangle"),
    ("model", "huffman"): ("whole model, Huffman", VERMILION, "dashed", "rect"),
    ("tensor", "huffman"): ("each tensor, Huffman", PURPLE, "dashed", "diamond"),
}
DISTANCES = (("model", "runlength"), ("tensor", "runlength"))  # the coder does not change them


def all_settings_panel(tried: Tried, full_nbytes: int, marked: Mapping[str, Coding]) -> Panel:
    """Bytes above, distance below, x to the right.

    tried: from `lab.choices.tried`. full_nbytes: of the state in float32. marked: a name ->
    the choice that is marked with it; those that keep a budget are not drawn.
    """
    base, bits = base_option(), "x bits for priority promotion (all: every bucket)"
    names = {"type": "category", "data": list(map(kept_name, EVERY_BITS)), "boundaryGap": True}
    option: Option = base | {
        "legend": base["legend"] | {"data": [name for name, *_ in SIZES.values()]},
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [
            {"left": 64, "right": 24, "top": 44, "height": 170},
            {"left": 64, "right": 24, "top": 272, "height": 140},
        ],
        "xAxis": [
            names | {"gridIndex": 0, "name": "", "axisLabel": {"margin": 18}},
            axis(bits, gridIndex=1) | names,
        ],
        "yAxis": [
            axis("record, % of float32", 44, gridIndex=0, min=0),
            axis("distance, %", 44, gridIndex=1, min=0),
        ],
        "series": [
            _line(tried, which, SIZES[which], grid, full_nbytes, marked)
            for grid, lines in enumerate((SIZES, DISTANCES))
            for which in lines
        ],
    }
    step = next(iter(tried.values())).step
    return Panel(
        f"Step {step} with every setting: bytes, and distance to what was trained",
        _sentence(tried, full_nbytes, marked),
        option,
        "Lines over the bits x: size of the record by scope and coder above, relative distance by "
        "scope below.",
        all_settings_table(tried, full_nbytes),
        470,
    )


def all_settings_table(tried: Tried, full_nbytes: int) -> pd.DataFrame:
    """A row for each setting."""
    return pd.DataFrame(
        [
            {
                "x": kept_name(v.bits),
                "alphabets": "one" if v.scope == "model" else "one per tensor",
                "coder": CODERS[v.coder].short,
                "bytes": s.nbytes,
                "% of float32": round(100 * s.nbytes / full_nbytes, 3),
                "distance, %": plotted(100 * s.distance, 3),
                "buckets kept": s.kept,
            }
            for v, s in tried.items()
        ]
    )


def picked(series_index: int, data_index: int) -> Coding:
    """Which setting a point of the panel is."""
    scope, coder = [*SIZES, *DISTANCES][series_index]
    return Coding(EVERY_BITS[data_index], scope, coder)


def _line(
    tried: Tried,
    which: tuple[str, str],
    style: tuple[str, str, str, str],
    grid: int,
    full_nbytes: int,
    marked: Mapping[str, Coding],
) -> Option:
    name, colour, dash, symbol = style
    scope, coder = which
    data = []
    for bits in EVERY_BITS:
        setting = Coding(bits, scope, coder)
        saved = tried[setting]
        share = 100 * (saved.distance if grid else saved.nbytes / full_nbytes)
        point: Option = {"value": plotted(share, 4)}
        here = [
            who for who, v in marked.items() if (replace(v, coder=coder) if grid else v) == setting
        ]
        if here:
            point |= {"symbolSize": 16, "label": {"show": True, "formatter": ", ".join(here)}}
        data.append(point)
    return {
        "name": name,
        "type": "line",
        "xAxisIndex": grid,
        "yAxisIndex": grid,
        "symbol": symbol,
        "symbolSize": 9,
        "showSymbol": True,
        "selectedMode": "single",
        "select": {"itemStyle": {"borderColor": GREY, "borderWidth": 3}},
        "label": {"show": False, "position": "right", "fontWeight": "bold", "offset": [2, 9]},
        "lineStyle": {"color": colour, "type": dash, "width": 2},
        "itemStyle": {"color": colour},
        "data": data,
    }


def _sentence(tried: Tried, full_nbytes: int, marked: Mapping[str, Coding]) -> str:
    small = min(tried, key=lambda v: tried[v].nbytes)
    text = (
        f"The fewest bytes are {nbytes_text(tried[small].nbytes)} "
        f"({percent_text(tried[small].nbytes / full_nbytes)} of float32), with {small.describe()}"
    )
    near = min(
        (v for v in tried if math.isfinite(tried[v].distance)),
        key=lambda v: (tried[v].distance, tried[v].nbytes),
        default=None,
    )
    if near is None:
        text += "; no distance here is finite."
    else:
        far = percent_text(tried[near].distance)
        text += f", and the nearest is {far} of the distance trained, with {near.describe()}."
    others = [who for who, v in marked.items() if not v.by_bits]
    return text + (f" Not marked, as no x decides: {enumerated(others)}." if others else "")
