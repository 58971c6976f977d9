"""Priority promotion: what x = 1..8 bits keep and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from codec import Coding
from codec.inspect import CODERS
from lcviz.lab.anatomy import BucketKey, Promotion
from lcviz.text import (
    CODER_NAMES,
    exponent_text,
    kept_name,
    kept_text,
    nbytes_text,
    percent_text,
)
from lcviz.ui.charts import (
    BLUE,
    GREEN,
    GREY,
    HATCH,
    PURPLE,
    VERMILION,
    Option,
    Panel,
    axis,
    base_option,
)

FLOOR = 100 / 32  # percent of float32: one bit per parameter
BARS = {
    "runlength": {"color": BLUE},
    "huffman": {"color": VERMILION, "decal": HATCH},
}


def bits_panel(
    promotions: Sequence[Promotion],
    now: int,
    coder: str,
    marked: BucketKey | None = None,
    keeps: int | None = None,
) -> Panel:
    """Size with both coders and kept energy for every x.

    Args:
        promotions: from `lab.anatomy.promotions`.
        now: the index of the one the record was saved with.
        coder: the record's own.
        marked: the highlighted bucket.
        keeps: the index of the first promotion that keeps it.
    """
    names = [kept_name(p.kept) for p in promotions]
    own = promotions[now].kept
    fits = f"; {names[now]}: as it was saved" if isinstance(own, Coding) else ""
    title = f"x bits for priority promotion (all: every bucket{fits})"
    hidden = {"show": False, "axisPointer": {"show": False, "triggerTooltip": False}}
    entropy = _series(
        "entropy",
        "scatter",
        PURPLE,
        [round(100 * p.sizes.share(p.sizes.entropy), 3) for p in promotions],
        symbol="diamond",
        symbolSize=10,
    )
    floor = _series("1 bit per parameter", "line", GREY, [FLOOR] * len(names), symbol="none")
    floor["lineStyle"] = {"type": "dashed", "color": GREY, "width": 1.5}
    energy = [round(100 * p.energy_share, 3) for p in promotions]
    kept = _series("energy kept", "line", GREEN, energy, symbol="circle", symbolSize=6)
    kept |= {"yAxisIndex": 1, "lineStyle": {"color": GREEN, "type": "dotted"}}
    band = [100 if i == now else None for i in range(len(names))]
    here = _series(f"now, {CODER_NAMES[coder]}", "bar", "rgba(128,128,128,0.2)", band)
    here |= {"xAxisIndex": 1, "yAxisIndex": 1, "barWidth": "94%", "silent": True, "z": 0}
    here["label"] = {"show": True, "position": "top", "distance": 2, "formatter": "now"}
    sentence = _sentence(promotions[now])
    if marked is not None and keeps is not None:
        from_on = f"from x = {names[keeps]} on" if names[keeps] != "all" else "by x = all only"
        sentence += f" Highlighted: {exponent_text(*marked)} is kept {from_on}."
        area = [{"name": f"keep {exponent_text(*marked)}", "xAxis": names[keeps]}, {"xAxis": "all"}]
        entropy["markArea"] = {
            "silent": True,
            "itemStyle": {"color": "rgba(204,121,167,0.18)"},
            "label": {"show": True, "position": "top"},
            "data": [area],
        }
    bars = [_bars(promotions, now, name) for name in CODER_NAMES]
    base = base_option()
    explained = [*bars, entropy, floor, kept]
    option: Option = base | {
        "legend": base["legend"] | {"data": [one["name"] for one in explained]},
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 56, "right": 56, "top": 72, "bottom": 48}],
        "xAxis": [
            axis(title, 28, type="category", data=names),
            {"type": "category", "data": names} | hidden,  # of the band behind the record's own
        ],
        "yAxis": [
            axis("size, % of float32", 38, min=0),
            axis("kept, % of ‖δ‖²", 40, min=0, max=100, splitLine={"show": False}),
        ],
        "series": [*explained, here],
    }
    return Panel(
        "Priority promotion: what x bits keep and cost",
        sentence,
        option,
        "Size with both coders and kept energy for x from 1 to 8 bits, and for all buckets.",
        partial(_table, promotions, names),
    )


def _series(name: str, kind: str, colour: str, data: Sequence[Any], **more: Any) -> Option:
    return {"name": name, "type": kind, "itemStyle": {"color": colour}, "data": data} | more


def _bars(promotions: Sequence[Promotion], now: int, coder: str) -> Option:
    """One coder's sizes; the record's own stands out."""
    sizes = [(p.sizes, p.sizes.of(coder)) for p in promotions]
    shares = [None if n is None else round(100 * size.share(n), 3) for size, n in sizes]
    opacity = [{"opacity": 1 if i == now else 0.45} for i in range(len(sizes))]
    return {
        "name": CODER_NAMES[coder],
        "type": "bar",
        "barGap": "0%",
        "itemStyle": BARS[coder],
        "data": [{"value": share, "itemStyle": style} for share, style in zip(shares, opacity)],
    }


def _sentence(now: Promotion) -> str:
    sizes = now.sizes
    both = [
        f"{CODER_NAMES[coder]} {nbytes_text(nbytes)} ({sizes.bits(nbytes):.3f} bits per parameter)"
        for coder in CODER_NAMES
        if (nbytes := sizes.of(coder)) is not None
    ]
    own = now.kept
    what = f"{kept_text(own).capitalize()}" if isinstance(own, Coding) else f"x = {kept_name(own)}"
    return (
        f"{what} keeps "
        f"{now.buckets_kept} of {now.buckets} buckets and {percent_text(now.energy_share)} of δ's "
        f"energy ‖δ‖². Each with a new table: {', '.join(both)}. Diamonds are the entropy: no code "
        "of single values is shorter. The dashed line is 1 bit per parameter: the paper's code "
        "needs at least that, unless all values are the same."
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
