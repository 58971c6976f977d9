"""Buckets of a step by sign: how many values each has, and what the step is without it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go

from lcviz.text import exponent_text, percent_text, plural
from lcviz.ui.charts import SIGN_COLOURS, SIGN_NAMES, Panel, base_figure, plotted

from .buckets import KeptBucket, StepBuckets

HEIGHT = 280  # pixels
LOWEST = -0.3  # decades: the bar of a single value still shows
PATTERNS = ("", "/")  # of positive and negative bars: not by colour alone


def values_by_bucket(found: StepBuckets) -> Panel:
    """How many values each bucket has. found: with one bucket at least."""
    figure = _bars(found, "values (log scale)", lambda b: b.count, "%{y:,} values")
    highest = max(b.count for b in found.buckets)
    figure.update_yaxes(type="log", dtick=1, tickformat=",")
    figure.update_yaxes(range=[LOWEST, math.log10(highest) + 0.1])
    most = max(found.buckets, key=lambda b: b.count)
    sentence = (
        f"{plural(len(found.buckets), 'bucket')} kept; {exponent_text(most.exponent, most.sign)} "
        f"has most values, {most.count:,}. {percent_text(found.zeros / found.n)} of {found.n:,} "
        "values are 0 here: unchanged or postponed."
    )
    return Panel(
        f"Buckets of step {found.step}",
        sentence,
        figure,
        "Values in each exponent bucket, by sign.",
        _table(found),
    )


def removed_bucket(found: StepBuckets) -> Panel:
    """How far the restored step moves without one bucket. found: each has such a distance."""
    text = "%{y:.3g} %"
    figure = _bars(
        found, "moved, % of the distance trained", lambda b: _percent(b.moved or 0.0), text
    )
    figure.update_yaxes(rangemode="tozero")
    most = max(found.buckets, key=lambda b: b.moved or 0.0)
    sentence = (
        f"Without {exponent_text(most.exponent, most.sign)} step {found.step} moves most: "
        f"{percent_text(most.moved or 0.0)} of the distance from base {found.base}. A chain holds "
        "neither the live weights nor the model: its loss, and buckets dropped before saving, are "
        "not known here."
    )
    return Panel(
        f"Removed bucket: step {found.step} without one of its buckets",
        sentence,
        figure,
        "Distance that the restored step moves without each bucket, by sign.",
        _table(found),
    )


def _bars(
    found: StepBuckets, y: str, value: Callable[[KeptBucket], float | None], hover: str
) -> go.Figure:
    exponents = sorted({b.exponent for b in found.buckets})
    figure = base_figure("bucket's exponent e", y, HEIGHT)
    for sign, name in enumerate(SIGN_NAMES):
        own = [b for b in found.buckets if b.sign == sign]
        if own:
            figure.add_bar(
                name=name,
                x=[b.exponent for b in own],
                y=[value(b) for b in own],
                marker={"color": SIGN_COLOURS[sign], "pattern": {"shape": PATTERNS[sign]}},
                hovertemplate=hover,
            )
    figure.update_layout(bargap=0.3)
    span = [exponents[0] - 0.6, exponents[-1] + 0.6]
    wide = max(1, (exponents[-1] - exponents[0]) // 12)
    return figure.update_xaxes(range=span, dtick=wide, tickformat="d")


def _percent(share: float) -> float | None:
    return plotted(100 * share)


def _table(found: StepBuckets) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "bucket": [exponent_text(b.exponent, b.sign) for b in found.buckets],
            "values": [b.count for b in found.buckets],
            "moved without it": [
                "–" if b.moved is None else percent_text(b.moved) for b in found.buckets
            ],
        }
    )
