"""Priority promotion: what x = 1..8 bits keep and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from lcviz.lab.anatomy import BucketKey, Choice
from lcviz.text import CODER_NAMES, exponent_text, nbytes_text, percent_text
from lcviz.ui.charts import BLUE, GREEN, GREY, HATCH, PURPLE, VERMILION, Option, Panel, base_option

FLOOR = 100 / 32  # percent of float32: one bit a parameter
COLOURS = {"runlength": BLUE, "huffman": VERMILION}


def bit_choices(
    choices: Sequence[Choice],
    now: int,
    coder: str,
    marked: BucketKey | None = None,
    keeps: int | None = None,
) -> Panel:
    """Size with both coders and kept energy for every x.

    choices: from `lab.anatomy.choices`. now: the index of what the record keeps. coder: the
    one that it was written with. marked: the bucket that is highlighted; keeps: the index of
    the first choice that keeps it.
    """
    names = [_name(c) for c in choices]
    mine = choices[now]
    budget = "" if mine.budget is None else f"; {names[now]}: what fits into the budget"
    base = base_option()
    named = [*CODER_NAMES.values(), "entropy", "1 bit a parameter", "energy kept"]
    option: Option = base | {
        "legend": base["legend"] | {"data": named},
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 56, "right": 56, "top": 72, "bottom": 48}],
        "xAxis": [
            {
                "type": "category",
                "data": names,
                "name": f"x bits for priority promotion (all: every bucket{budget})",
                "nameLocation": "middle",
                "nameGap": 28,
            },
            {  # of the band behind what the record keeps
                "type": "category",
                "data": names,
                "show": False,
                "axisPointer": {"show": False, "triggerTooltip": False},
            },
        ],
        "yAxis": [
            {
                "type": "value",
                "name": "size, % of float32",
                "nameLocation": "middle",
                "nameGap": 38,
                "min": 0,
            },
            {
                "type": "value",
                "name": "kept, % of ‖δ‖²",
                "nameLocation": "middle",
                "nameGap": 40,
                "min": 0,
                "max": 100,
                "splitLine": {"show": False},
            },
        ],
        "series": [
            *(_bars(choices, now, name) for name in CODER_NAMES),
            {
                "name": "entropy",
                "type": "scatter",
                "symbol": "diamond",
                "symbolSize": 10,
                "itemStyle": {"color": PURPLE},
                "data": [round(100 * c.sizes.share(c.sizes.entropy), 3) for c in choices],
            }
            | _keeping(marked, keeps, names),
            {
                "name": "1 bit a parameter",
                "type": "line",
                "symbol": "none",
                "lineStyle": {"type": "dashed", "color": GREY, "width": 1.5},
                "itemStyle": {"color": GREY},
                "data": [FLOOR] * len(choices),
            },
            {
                "name": "energy kept",
                "type": "line",
                "yAxisIndex": 1,
                "symbol": "circle",
                "symbolSize": 6,
                "lineStyle": {"color": GREEN, "type": "dotted"},
                "itemStyle": {"color": GREEN},
                "data": [round(100 * c.energy_share, 3) for c in choices],
            },
            {
                "name": f"now, {CODER_NAMES[coder]}",
                "type": "bar",
                "xAxisIndex": 1,
                "yAxisIndex": 1,
                "barWidth": "94%",
                "silent": True,
                "z": 0,
                "itemStyle": {"color": "rgba(128,128,128,0.2)"},
                "label": {"show": True, "position": "top", "distance": 2, "formatter": "now"},
                "data": [100 if i == now else None for i in range(len(choices))],
            },
        ],
    }
    sentence = _sentence(mine)
    if marked is not None and keeps is not None:
        from_on = f"from x = {names[keeps]} on" if names[keeps] != "all" else "by x = all only"
        sentence += f" Highlighted: {exponent_text(*marked)} is kept {from_on}."
    alt = "Size with both coders and kept energy for x from 1 to 8 bits, and for all buckets."
    return Panel(
        "Priority promotion: what x bits keep and cost",
        sentence,
        option,
        alt,
        partial(_table, choices, names),
    )


def _keeping(marked: BucketKey | None, keeps: int | None, names: Sequence[str]) -> dict[str, Any]:
    """The area of the choices that keep the highlighted bucket."""
    if marked is None or keeps is None:
        return {}
    last = len(names) - 1 - (names[-1] not in ("all",))  # a budget is no more bits
    area = [
        {"name": f"keep {exponent_text(*marked)}", "xAxis": names[keeps]},
        {"xAxis": names[last]},
    ]
    return {
        "markArea": {
            "silent": True,
            "itemStyle": {"color": "rgba(204,121,167,0.18)"},
            "label": {"show": True, "position": "top"},
            "data": [area],
        }
    }


def _bars(choices: Sequence[Choice], now: int, coder: str) -> dict[str, Any]:
    """One coder's sizes; what the record keeps stands out."""
    bars = []
    for i, c in enumerate(choices):
        nbytes = c.sizes.of(coder)
        bars.append(
            {
                "value": None if nbytes is None else round(100 * c.sizes.share(nbytes), 3),
                "itemStyle": {"opacity": 1 if i == now else 0.45},
            }
        )
    hatched = {"decal": HATCH} if coder == "huffman" else {}
    return {
        "name": CODER_NAMES[coder],
        "type": "bar",
        "barGap": "0%",
        "itemStyle": {"color": COLOURS[coder]} | hatched,
        "data": bars,
    }


def _sentence(now: Choice) -> str:
    sizes = now.sizes
    if now.budget is not None:
        who = f"The budget of {_name(now)}"
    else:
        who = "x = all" if now.bits is None else f"x = {now.bits}"
    both = [
        f"{CODER_NAMES[coder]} {nbytes_text(nbytes)} ({sizes.bits(nbytes):.3f} bits a parameter)"
        for coder in CODER_NAMES
        if (nbytes := sizes.of(coder)) is not None
    ]
    return (
        f"{who} keeps {now.buckets_kept} of {now.buckets} buckets and "
        f"{percent_text(now.energy_share)} of δ's energy ‖δ‖². Each with a new table: "
        f"{', '.join(both)}. Diamonds are the entropy: no code of single values gets below it. "
        "Dashed is 1 bit a parameter: the paper's code gets below that only if all values are "
        "the same."
    )


def _table(choices: Sequence[Choice], names: Sequence[str]) -> pd.DataFrame:
    sizes = [c.sizes for c in choices]
    return pd.DataFrame(
        {
            "x": names,
            "buckets kept": [f"{c.buckets_kept} of {c.buckets}" for c in choices],
            "energy kept, %": [round(100 * c.energy_share, 3) for c in choices],
            "run-length, bytes": pd.array([s.runlength for s in sizes], "Int64"),
            "Huffman, bytes": [s.huffman for s in sizes],
            "entropy, bytes": [round(s.entropy, 1) for s in sizes],
        }
    )


def _name(choice: Choice) -> str:
    if choice.budget is not None:
        return f"{100 * choice.budget:g} %"
    return "all" if choice.bits is None else str(choice.bits)
