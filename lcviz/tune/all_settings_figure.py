"""Every number of bits with both scopes and coders, on one delta: bytes and distance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import plotly.graph_objects as go

from codec import Coding
from codec.inspect import CODERS
from lcviz.lab.anatomy import EVERY_BITS
from lcviz.text import enumerated, kept_name, nbytes_text, percent_text
from lcviz.ui.charts import BLUE, GREEN, PURPLE, VERMILION, Panel, base_figure, plotted

from .ab import TrialSave

Tried = Mapping[Coding, TrialSave]
SIZES = {  # scope, coder -> name, colour, dash, symbol
    ("model", "runlength"): ("whole model, run-length", BLUE, "solid", "circle"),
    ("tensor", "runlength"): ("each tensor, run-length", GREEN, "solid", "triangle-up"),
    ("model", "huffman"): ("whole model, Huffman", VERMILION, "dash", "square"),
    ("tensor", "huffman"): ("each tensor, Huffman", PURPLE, "dash", "diamond"),
}
DISTANCES = (("model", "runlength"), ("tensor", "runlength"))  # the coder does not change them
HEIGHT = 470  # pixels


def all_settings_panel(tried: Tried, full_nbytes: int, marked: Mapping[str, Coding]) -> Panel:
    """Bytes above, distance below, x to the right.

    tried: from `all_settings.try_all`. full_nbytes: of the state in float32. marked: a name ->
    the choice that is marked with it; those that keep a budget are not drawn.
    """
    figure = base_figure("x bits (all: every bucket)", "record, % of float32", HEIGHT)
    below = figure.layout.yaxis.to_plotly_json() | {"domain": [0, 0.4], "rangemode": "tozero"}
    figure.update_layout(
        hovermode="closest",
        dragmode="zoom",
        xaxis={"anchor": "y2", "type": "category", "range": [-0.3, len(EVERY_BITS) - 0.4]},
        yaxis={"domain": [0.5, 1], "rangemode": "tozero"},
        yaxis2=below | {"title": {"text": "distance, %", "standoff": 8}},
    )
    for axis, lines in (("y", SIZES), ("y2", DISTANCES)):
        for which in lines:
            figure.add_trace(_line(tried, which, axis, full_nbytes, marked))
            for coding, names in _here(which, axis, marked).items():
                at = _share(tried[coding], axis, full_nbytes)
                if at is None:
                    continue
                figure.add_annotation(
                    text=f"<b>{', '.join(names)}</b>",
                    x=EVERY_BITS.index(coding.bits),
                    y=at,
                    yref=axis,
                    showarrow=False,
                    xanchor="left",
                    xshift=9,
                    yshift=9,
                )
    step = next(iter(tried.values())).step
    return Panel(
        f"Step {step} with every setting: bytes and distance",
        _sentence(tried, marked),
        figure,
        "Lines over the bits x: size of the record by scope and coder above, relative distance by "
        "scope below.",
        all_settings_table(tried, full_nbytes),
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


def picked(line: int, point: int) -> Coding:
    """Which setting a point of the panel is."""
    scope, coder = [*SIZES, *DISTANCES][line]
    return Coding(EVERY_BITS[point], scope, coder)


def _line(
    tried: Tried, which: tuple[str, str], axis: str, full_nbytes: int, marked: Mapping[str, Coding]
) -> go.Scatter:
    """One scope and coder. axis: "y" of sizes, "y2" of distances."""
    name, colour, dash, symbol = SIZES[which]
    codings = [Coding(bits, *which) for bits in EVERY_BITS]
    here = _here(which, axis, marked)
    return go.Scatter(
        name=name,
        legendgroup=name,
        showlegend=axis == "y",
        x=list(map(kept_name, EVERY_BITS)),
        y=[_share(tried[coding], axis, full_nbytes) for coding in codings],
        yaxis=axis,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2},
        marker={
            "color": colour,
            "symbol": symbol,
            "size": [16 if coding in here else 9 for coding in codings],
            "opacity": 1,
        },
        selected={"marker": {"size": 18}},
        unselected={"marker": {"opacity": 1}},
        cliponaxis=False,
        customdata=[
            (
                coding.describe(),
                f"{tried[coding].nbytes:,} B, {percent_text(tried[coding].nbytes / full_nbytes)}",
                percent_text(tried[coding].distance),
            )
            for coding in codings
        ],
        hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]} of float32<br>distance "
        "%{customdata[2]}<extra></extra>",
    )


def _here(
    which: tuple[str, str], axis: str, marked: Mapping[str, Coding]
) -> dict[Coding, list[str]]:
    """The marked settings on a line, each with its names. The coder does not change distances."""
    found: dict[Coding, list[str]] = {}
    for who, coding in marked.items():
        at = coding if axis == "y" else replace(coding, coder=which[1])
        if at == Coding(coding.bits, *which):
            found.setdefault(at, []).append(who)
    return found


def _share(saved: TrialSave, axis: str, full_nbytes: int) -> float | None:
    return plotted(100 * (saved.nbytes / full_nbytes if axis == "y" else saved.distance), 4)


def _sentence(tried: Tried, marked: Mapping[str, Coding]) -> str:
    small = min(tried, key=lambda v: tried[v].nbytes)
    near = min(
        (v for v in tried if math.isfinite(tried[v].distance)),
        key=lambda v: (tried[v].distance, tried[v].nbytes),
        default=None,
    )
    text = f"Smallest: {nbytes_text(tried[small].nbytes)}, {small.describe()}. "
    if near is None:
        text += "No distance is finite."
    else:
        text += f"Nearest: {percent_text(tried[near].distance)}, {near.describe()}."
    others = [who for who, v in marked.items() if not v.by_bits]
    return text + (f" Not marked, as no x decides: {enumerated(others)}." if others else "")
