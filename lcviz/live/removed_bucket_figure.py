"""Reconstruction error per removed bucket, as in the paper's figure."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from lcviz.lab.anatomy import BucketKey
from lcviz.lab.removed_bucket import Removed, RemovedBuckets
from lcviz.text import exponent_text, loss_text, minus
from lcviz.ui.charts import (
    HATCH,
    SIGN_COLOURS,
    SIGN_NAMES,
    Option,
    Panel,
    base_option,
    highlighted,
    plotted,
)


def removed_bucket_panel(result: RemovedBuckets, marked: BucketKey | None = None) -> Panel:
    """How far the loss moves when one bucket of the delta is left out. marked: highlighted."""
    exponents = [b.exponent for b in result.buckets] or [0]
    axis = list(range(min(exponents), max(exponents) + 1))
    series = []
    for sign in (0, 1):
        rows = {b.exponent: b for b in result.buckets if b.sign == sign}
        series.append(
            {
                "name": SIGN_NAMES[sign],
                "type": "bar",
                "barGap": "0%",
                "barCategoryGap": "20%",
                "itemStyle": {"color": SIGN_COLOURS[sign]},
                "label": {"show": False},
                "data": [_bar(rows.get(e), result.loss, (e, sign) == marked) for e in axis],
            }
        )
    option: Option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "grid": [{"left": 72, "right": 12, "top": 36, "bottom": 48}],
        "xAxis": {
            "type": "category",
            "data": [minus(e) for e in axis],
            "axisLine": {"onZero": False},
            "name": "exponent e of the removed bucket",
            "nameLocation": "middle",
            "nameGap": 28,
        },
        "yAxis": {
            "type": "value",
            "name": "change of the loss",
            "nameLocation": "middle",
            "nameGap": 54,
        },
        "series": series,
    }
    sentence = _sentence(result)
    here = next((b for b in result.buckets if (b.exponent, b.sign) == marked), None)
    if here is not None:
        sentence += (
            f" Highlighted: without {exponent_text(here.exponent, here.sign)} it is "
            f"{loss_text(here.loss, 4)}."
        )
    table = pd.DataFrame(
        {
            "exponent": [b.exponent for b in result.buckets],
            "sign": ["−" if b.sign else "+" for b in result.buckets],
            "values": [b.count for b in result.buckets],
            "kept by promotion": [b.kept for b in result.buckets],
            "loss without it": [plotted(b.loss) for b in result.buckets],
            "change of the loss": [plotted(b.loss - result.loss) for b in result.buckets],
            "relative distance": [plotted(b.distance) for b in result.buckets],
        }
    )
    alt = "Change of the loss for each removed exponent bucket, by sign."
    return Panel(
        f"Error when one bucket of step {result.step} is removed", sentence, option, alt, table
    )


def _sentence(result: RemovedBuckets) -> str:
    if not result.buckets:
        return "Nothing changed in this step, so there is no bucket to remove."
    if not math.isfinite(result.loss):
        return "The rebuilt model has no finite loss, so its buckets cannot be compared."
    moved = {b: abs(b.loss - result.loss) for b in result.buckets}
    worst = max(moved, key=lambda b: moved[b] if math.isfinite(moved[b]) else math.inf)
    small = sum(change < 0.001 * result.loss for change in moved.values())
    text = (
        f"An experiment: the model rebuilt with every bucket, none dropped, has the loss "
        f"{result.loss:.4f}. Leaving out {exponent_text(worst.exponent, worst.sign)} "
        f"{'lowers' if worst.loss < result.loss else 'raises'} it most, to "
        f"{loss_text(worst.loss, 4)}; {small} of {len(moved)} buckets move it by less than 0.1 %."
    )
    hatched = " Hatched ones were dropped by priority promotion."
    return text if all(b.kept for b in result.buckets) else text + hatched


def _bar(bucket: Removed | None, loss: float, marked: bool) -> dict[str, Any] | None:
    """One bar: hatched where priority promotion dropped the bucket anyway."""
    if bucket is None:
        return None
    dropped = {} if bucket.kept else {"itemStyle": {"opacity": 0.55, "decal": HATCH}}
    bar = {"value": plotted(bucket.loss - loss)} | dropped
    return highlighted(bar, down=bucket.loss < loss) if marked else bar
