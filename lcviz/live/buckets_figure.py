"""The exponent bucket histogram: kept solid, dropped hatched, negative values below."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from lcviz.lab.anatomy import BucketKey, BucketTotal
from lcviz.text import exponent_text, minus, plural
from lcviz.ui.charts import (
    HATCH,
    SIGN_COLOURS,
    SIGN_NAMES,
    Option,
    Panel,
    axis,
    base_option,
    highlighted,
)


def bucket_clicked(totals: Sequence[BucketTotal], series: int, index: int) -> BucketKey | None:
    """The bucket a bar of the histogram of these totals stands for; None if there is none."""
    exponents = [b.exponent for b in totals]
    key = (min(exponents, default=0) + index, series // 2)
    return key if any((b.exponent, b.sign) == key for b in totals) else None


def buckets_panel(
    totals: Sequence[BucketTotal], n: int, shared: bool, marked: BucketKey | None = None
) -> Panel:
    """How many values of the delta fall into each bucket, and which buckets are kept.

    Args:
        totals: from `lab.anatomy.totals`.
        n: elements of the delta.
        shared: whether the whole model has one alphabet. Otherwise each tensor has its own, and a
            bucket may be kept in one and dropped in another.
        marked: the highlighted bucket.
    """
    present = [b.exponent for b in totals] or [0]
    exponents = list(range(min(present), max(present) + 1))
    top = max((max(b.kept, b.dropped) for b in totals), default=1)

    def bars(sign: int, what: str) -> Option:
        count = {b.exponent: getattr(b, what) for b in totals if b.sign == sign}
        data = [count.get(e) or None for e in exponents]
        dropped = {"opacity": 0.55, "decal": HATCH} if what == "dropped" else {}
        return {
            "name": f"{SIGN_NAMES[sign]}, {what}",
            "type": "bar",
            "xAxisIndex": sign,
            "yAxisIndex": sign,
            "barGap": "-100%",
            "barWidth": "35%" if what == "kept" and not shared else "80%",
            "itemStyle": {"color": SIGN_COLOURS[sign]} | dropped,
            "label": {"show": False},
            # A click highlights a bucket in all charts. `data` itself shows which one.
            "selectedMode": "single",
            "select": {"itemStyle": {"borderWidth": 0}},
            "data": [
                highlighted({"value": value}, down=sign == 1)
                if value and (e, sign) == marked
                else value
                for e, value in zip(exponents, data)
            ],
        }

    category = {"type": "category", "data": [minus(e) for e in exponents]}
    log_axis = {
        "type": "log",
        "min": 0.5,  # a bucket of one value needs a bar
        "max": 10 ** len(str(top)),
        "splitNumber": 3,
        "axisLabel": {"showMinLabel": False},
    }
    below = category | {"position": "bottom", "axisLine": {"onZero": False}, "gridIndex": 1}
    option: Option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "grid": [{"left": 64, "right": 12, "top": top, "height": 108} for top in (56, 170)],
        "xAxis": [
            category | {"gridIndex": 0, "show": False},
            axis("exponent e: values from 2ᵉ to 2ᵉ⁺¹", 28) | below,
        ],
        "yAxis": [
            axis("values δ > 0", 46, gridIndex=0) | log_axis,
            axis("δ < 0", 46, gridIndex=1, inverse=True) | log_axis,
        ],
        "series": [bars(sign, what) for sign in (0, 1) for what in ("dropped", "kept")],
    }
    sentence = _sentence(totals, n, shared)
    for b in totals:
        if (b.exponent, b.sign) == marked:
            values = plural(b.kept + b.dropped, "value")
            sentence += f" Highlighted: {exponent_text(b.exponent, b.sign)} with {values}."
    return Panel(
        "Exponent buckets of δ (number of values, log scale)",
        sentence,
        option,
        "Histogram of the delta by exponent, positive values above, negative below.",
        partial(_table, totals),
    )


def _sentence(totals: Sequence[BucketTotal], n: int, shared: bool) -> str:
    if not totals:
        return "Nothing changed in this step: every value of δ is zero."
    kept = [b for b in totals if b.kept]
    values = sum(b.kept for b in kept)
    if not kept:
        return (
            f"None of {plural(len(totals), 'bucket')} is kept: the track stays where it is, and "
            "all changes return in the next δ."
        )
    if not any(b.dropped for b in totals):
        return (
            f"All {len(totals)} buckets are kept: every change is rounded to its bucket's middle. "
            f"{n - values:,} of {n:,} values did not change at all."
        )
    smallest = exponent_text(min(b.exponent for b in kept))
    if shared:
        return (
            f"{len(kept)} of {len(totals)} buckets are kept, the ones of largest magnitude, down "
            f"to {smallest}. They hold {values:,} of {n:,} values; all others are 0 in this record "
            "and return in the next δ."
        )
    return (
        f"Every tensor keeps its own largest buckets, down to {smallest}: {values:,} of {n:,} "
        "values. A bucket may be kept in one tensor (narrow solid bar) and dropped in another "
        "(hatched). What is dropped returns in the next δ."
    )


def _table(totals: Sequence[BucketTotal]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "exponent": [b.exponent for b in totals],
            "sign": ["−" if b.sign else "+" for b in totals],
            "kept values": [b.kept for b in totals],
            "dropped values": [b.dropped for b in totals],
        }
    )
