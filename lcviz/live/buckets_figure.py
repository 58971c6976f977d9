"""The exponent bucket histogram: kept solid, dropped hatched, negative values below."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.anatomy import BucketKey, BucketTotal
from lcviz.text import exponent_text, minus, plural
from lcviz.ui.charts import HATCH, SIGN_COLOURS, SIGN_NAMES, Option, Panel, base_option, highlighted


def bucket_clicked(totals: Sequence[BucketTotal], series: int, index: int) -> BucketKey | None:
    """Which bucket a bar of the histogram of these totals stands for; None if there is none."""
    exponents = [b.exponent for b in totals]
    key = (min(exponents, default=0) + index, series // 2)
    return key if any((b.exponent, b.sign) == key for b in totals) else None


def bucket_histogram(
    totals: Sequence[BucketTotal], n: int, shared: bool, marked: BucketKey | None = None
) -> Panel:
    """How many values of the delta fall into each bucket, and which buckets survive.

    totals: from `lab.anatomy.totals`. n: elements of the delta. shared: one alphabet for
    the whole model; with one a tensor a bucket may be kept in one and dropped in another.
    marked: the bucket that is highlighted.
    """
    present = [b.exponent for b in totals] or [0]
    exponents = list(range(min(present), max(present) + 1))
    top = max((max(b.kept, b.dropped) for b in totals), default=1)
    series = []
    for sign in (0, 1):
        for what, width in (("dropped", "80%"), ("kept", "80%" if shared else "35%")):
            count = {b.exponent: getattr(b, what) for b in totals if b.sign == sign}
            series.append(
                {
                    "name": f"{SIGN_NAMES[sign]}, {what}",
                    "type": "bar",
                    "xAxisIndex": sign,
                    "yAxisIndex": sign,
                    "barGap": "-100%",
                    "barWidth": width,
                    "itemStyle": {"color": SIGN_COLOURS[sign]}
                    | ({"opacity": 0.55, "decal": HATCH} if what == "dropped" else {}),
                    "label": {"show": False},
                    # A click highlights a bucket, in all charts; which one, `data` itself shows.
                    "selectedMode": "single",
                    "select": {"itemStyle": {"borderWidth": 0}},
                    "data": [
                        highlighted({"value": count[e]}, down=sign == 1)
                        if (e, sign) == marked and count.get(e)
                        else count.get(e) or None
                        for e in exponents
                    ],
                }
            )
    labels = [minus(e) for e in exponents]
    log_axis = {
        "type": "log",
        "min": 0.5,  # so that a bucket of one value has a bar
        "max": 10 ** len(str(top)),
        "splitNumber": 3,
        "axisLabel": {"showMinLabel": False},
    }
    option: Option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "axisPointer": {"link": [{"xAxisIndex": "all"}]},
        "grid": [
            {"left": 64, "right": 12, "top": 56, "height": 108},
            {"left": 64, "right": 12, "top": 170, "height": 108},
        ],
        "xAxis": [
            {"type": "category", "data": labels, "gridIndex": 0, "show": False},
            {
                "type": "category",
                "data": labels,
                "gridIndex": 1,
                "position": "bottom",
                "axisLine": {"onZero": False},
                "name": "exponent e: values from 2ᵉ to 2ᵉ⁺¹",
                "nameLocation": "middle",
                "nameGap": 28,
            },
        ],
        "yAxis": [
            log_axis
            | {"gridIndex": 0, "name": "values δ > 0", "nameLocation": "middle", "nameGap": 46},
            log_axis
            | {
                "gridIndex": 1,
                "name": "δ < 0",
                "nameLocation": "middle",
                "nameGap": 46,
                "inverse": True,
            },
        ],
        "series": series,
    }
    kept_values = sum(b.kept for b in totals)
    kept_buckets = sum(b.kept > 0 for b in totals)
    smallest = min((b.exponent for b in totals if b.kept), default=None)
    if smallest is None and totals:
        sentence = (
            f"None of {plural(len(totals), 'bucket')} survives: the track stays where it is, and "
            "all changes are seen again in the next δ."
        )
    elif smallest is None:
        sentence = "Nothing changed in this step: every value of δ is zero."
    elif not any(b.dropped for b in totals):
        sentence = (
            f"All {len(totals)} buckets survive: every change is kept, rounded to its bucket's "
            f"middle. {n - kept_values:,} of {n:,} values did not change at all."
        )
    elif shared:
        sentence = (
            f"{kept_buckets} of {len(totals)} buckets survive, the ones of largest magnitude, down "
            f"to {exponent_text(smallest)}. They hold {kept_values:,} of {n:,} values; all others "
            "become 0 now and are seen again in the next δ."
        )
    else:
        sentence = (
            f"Every tensor keeps its own largest buckets, down to {exponent_text(smallest)}: "
            f"{kept_values:,} of {n:,} values. A bucket may be kept in one tensor (narrow solid "
            "bar) and dropped in another (hatched). What is dropped is seen again in the next δ."
        )
    here = next((b for b in totals if (b.exponent, b.sign) == marked), None)
    if here is not None:
        sentence += (
            f" Highlighted: {exponent_text(here.exponent, here.sign)} with "
            f"{plural(here.kept + here.dropped, 'value')}."
        )

    def table() -> pd.DataFrame:
        return pd.DataFrame(
            {
                "exponent": [b.exponent for b in totals],
                "sign": ["−" if b.sign else "+" for b in totals],
                "kept values": [b.kept for b in totals],
                "dropped values": [b.dropped for b in totals],
            }
        )

    return Panel(
        "Exponent buckets of δ (number of values, log scale)",
        sentence,
        option,
        "Histogram of the delta by exponent, positive values above, negative below.",
        table,
    )
