"""Priority promotion: what each x of 1 to 8 bits keeps and costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import cycle

import pandas as pd
import plotly.graph_objects as go

from codec import Coding
from codec.inspect import CODERS
from lcviz.lab.anatomy import Promotion
from lcviz.text import CODER_NAMES, kept_name, kept_text, nbytes_text, percent_text
from lcviz.ui.charts import BLUE, GREEN, GREY, PURPLE, SKY, VERMILION, Panel, base_figure

from .size_figure import ONE_BIT

HEIGHT = 344  # pixels
BARS = ((BLUE, ""), (VERMILION, "/"), (SKY, "x"))  # colour and pattern of each coder, in turn
ENTROPY_STYLE = {
    "mode": "markers",
    "marker": {"color": PURPLE, "symbol": "diamond", "size": 10},
    "hovertemplate": "%{y:.3g} %",
}
BIT_STYLE = {
    "mode": "lines",
    "line": {"color": GREY, "dash": "dash", "width": 1.5},
    "hovertemplate": "%{y:.3g} %",
}
ENERGY_STYLE = {
    "mode": "lines+markers",
    "yaxis": "y2",
    "line": {"color": GREEN, "dash": "dot", "width": 2},
    "marker": {"color": GREEN, "size": 6},
    "hovertemplate": "%{y:.4g} %",
}
ENERGY_AXIS = {
    "title": {"text": "kept, % of ‖δ‖²", "standoff": 8},
    "overlaying": "y",
    "side": "right",
    "range": [0, 103],
    "tickmode": "linear",
    "dtick": 20,
    "showgrid": False,
    "zeroline": False,
}
BAND = "rgba(128,128,128,0.2)"  # behind the record's own bars


def bits_panel(promotions: Sequence[Promotion], now: int) -> Panel:
    """Size with each coder and kept energy for every x.

    Args:
        promotions: From `lab.anatomy.promotions`.
        now: The index of the promotion that the record was saved with.
    """
    names = [kept_name(p.rule) for p in promotions]
    return Panel(
        "Priority promotion: what x bits keep and cost",
        _sentence(promotions[now]),
        _figure(promotions, names, now),
        "Size with each coder and kept energy for x from 1 to 8 bits, and for all buckets.",
        partial(_table, promotions, names),
    )


def _figure(promotions: Sequence[Promotion], names: Sequence[str], now: int) -> go.Figure:
    saved = isinstance(promotions[now].rule, Coding)
    saved_text = f"; {names[now]}: as it was saved" if saved else ""
    title = f"x bits for priority promotion (all: every bucket{saved_text})"
    figure = base_figure(title, "size, % of float32", HEIGHT, r=64, t=96)
    figure.update_layout(legend_y=1.1, bargap=0.25, yaxis2=ENERGY_AXIS)  # legend above "now"
    opacity = [1 if i == now else 0.45 for i in range(len(names))]
    for name, (colour, pattern) in zip(CODERS, cycle(BARS)):
        figure.add_bar(
            name=CODER_NAMES[name],
            x=names,
            y=[_percent(p, p.sizes.of(name)) for p in promotions],
            marker={"color": colour, "opacity": opacity, "pattern": {"shape": pattern}},
            hovertemplate="%{y:.3g} %",
        )
    for name, values, style in (
        ("entropy", [_percent(p, p.sizes.entropy) for p in promotions], ENTROPY_STYLE),
        ("1 bit per parameter", [ONE_BIT] * len(names), BIT_STYLE),
        ("energy kept", [round(100 * p.energy_share, 3) for p in promotions], ENERGY_STYLE),
    ):
        figure.add_scatter(name=name, x=names, y=values, **style)
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(type="category", range=[-0.5, len(names) - 0.5], showgrid=False)
    figure.add_vrect(now - 0.5, now + 0.5, line_width=0, fillcolor=BAND, layer="below")
    top = {"y": 1, "yref": "paper", "showarrow": False}
    figure.add_annotation(text="now", x=names[now], yanchor="bottom", **top)
    return figure


def _percent(promotion: Promotion, nbytes: float | None) -> float | None:
    """A size in percent of float32; None, which draws a gap, if the size is not known."""
    return None if nbytes is None else round(100 * promotion.sizes.share(nbytes), 3)


def _sentence(now: Promotion) -> str:
    sizes = now.sizes
    size_texts = [
        f"{CODER_NAMES[coder]} {nbytes_text(nbytes)} ({sizes.bits(nbytes):.3f} bits per parameter)"
        for coder in CODER_NAMES
        if (nbytes := sizes.of(coder)) is not None
    ]
    rule = now.rule
    name = kept_text(rule).capitalize() if isinstance(rule, Coding) else f"x = {kept_name(rule)}"
    return (
        f"{name} keeps {now.buckets_kept} of {now.buckets} buckets and "
        f"{percent_text(now.energy_share)} of δ's energy. With a new table: "
        f"{', '.join(size_texts)}."
    )


def _table(promotions: Sequence[Promotion], names: Sequence[str]) -> pd.DataFrame:
    sizes = [p.sizes for p in promotions]
    return pd.DataFrame(
        {
            "x": names,
            "buckets kept": [f"{p.buckets_kept} of {p.buckets}" for p in promotions],
            "energy kept, %": [round(100 * p.energy_share, 3) for p in promotions],
        }
        | {
            f"{coder.short}, bytes": pd.array([s.of(name) for s in sizes], "Int64")
            for name, coder in CODERS.items()
        }
        | {"entropy, bytes": [round(s.entropy, 1) for s in sizes]}
    )
