"""Reconstruction error per removed bucket, as in the paper's figure."""

from __future__ import annotations

import math

import pandas as pd

from lcviz.lab.anatomy import BucketKey
from lcviz.lab.removed_bucket import RemovedBuckets
from lcviz.text import exponent_text, loss_text, minus
from lcviz.ui.charts import (
    HATCH,
    SIGN_COLOURS,
    SIGN_NAMES,
    Option,
    Panel,
    axis,
    base_option,
    highlighted,
    plotted,
)


def removed_bucket_panel(result: RemovedBuckets, marked: BucketKey | None = None) -> Panel:
    """How far the loss moves without one bucket of the delta. marked: the highlighted one."""
    buckets = {(b.exponent, b.sign): b for b in result.buckets}
    exponents = [exponent for exponent, _ in buckets] or [0]
    span = list(range(min(exponents), max(exponents) + 1))

    def bar(exponent: int, sign: int) -> Option | None:
        bucket = buckets.get((exponent, sign))
        if bucket is None:
            return None
        dropped = {} if bucket.kept else {"itemStyle": {"opacity": 0.55, "decal": HATCH}}
        found = {"value": plotted(bucket.loss - result.loss)} | dropped
        here = (exponent, sign) == marked
        return highlighted(found, down=bucket.loss < result.loss) if here else found

    category = {"type": "category", "data": [minus(e) for e in span]}
    option: Option = base_option() | {
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "grid": [{"left": 72, "right": 12, "top": 36, "bottom": 48}],
        "xAxis": axis("exponent e of the removed bucket", 28, axisLine={"onZero": False})
        | category,
        "yAxis": axis("change of the loss", 54),
        "series": [
            {
                "name": name,
                "type": "bar",
                "barGap": "0%",
                "barCategoryGap": "20%",
                "itemStyle": {"color": SIGN_COLOURS[sign]},
                "label": {"show": False},
                "data": [bar(e, sign) for e in span],
            }
            for sign, name in enumerate(SIGN_NAMES)
        ],
    }
    sentence = _sentence(result)
    if marked is not None and (here := buckets.get(marked)):
        without = loss_text(here.loss, 4)
        sentence += f" Highlighted: without {exponent_text(*marked)} it is {without}."
    return Panel(
        f"Error when one bucket of step {result.step} is removed",
        sentence,
        option,
        "Change of the loss for each removed exponent bucket, by sign.",
        _table(result),
    )


def _table(result: RemovedBuckets) -> pd.DataFrame:
    every = result.buckets
    return pd.DataFrame(
        {
            "exponent": [b.exponent for b in every],
            "sign": ["−" if b.sign else "+" for b in every],
            "values": [b.count for b in every],
            "kept by promotion": [b.kept for b in every],
            "loss without it": [plotted(b.loss) for b in every],
            "change of the loss": [plotted(b.loss - result.loss) for b in every],
            "relative distance": [plotted(b.distance) for b in every],
        }
    )


def _sentence(result: RemovedBuckets) -> str:
    if not result.buckets:
        return "Nothing changed in this step, so there is no bucket to remove."
    if not math.isfinite(result.loss):
        return "The rebuilt model has no finite loss, so its buckets cannot be compared."
    moved = {b: abs(b.loss - result.loss) for b in result.buckets}
    worst = max(moved, key=lambda b: moved[b] if math.isfinite(moved[b]) else math.inf)
    small = sum(change < 0.001 * result.loss for change in moved.values())
    hatched = " Hatched buckets were dropped by priority promotion."
    return (
        f"An experiment: the model rebuilt with every bucket has the loss {result.loss:.4f}. "
        f"Without {exponent_text(worst.exponent, worst.sign)} the loss "
        f"{'falls' if worst.loss < result.loss else 'rises'} most, to {loss_text(worst.loss, 4)}; "
        f"{small} of {len(moved)} buckets move it by less than 0.1 %."
        f"{'' if all(b.kept for b in result.buckets) else hatched}"
    )
