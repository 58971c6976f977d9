"""Buckets of a step by sign: how many values each has, and how far the step moves without it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go

from lcviz.text import exponent_text, percent_text, plural
from lcviz.ui.charts import SIGN_COLOURS, SIGN_NAMES, Panel, base_figure, plotted

from .buckets import KeptBucket, StepBuckets

HEIGHT = 280  # pixels
LOWEST = -0.3  # decades: below 0, so that the bar of a single value shows
PATTERNS = ("", "/")  # positive and negative bars differ not only in colour


def values_by_bucket(step_buckets: StepBuckets) -> Panel:
    """A bar for each bucket: number of its values. step_buckets: with at least one bucket."""
    figure = _bars(step_buckets, "values (log scale)", lambda b: b.count, "%{y:,} values")
    highest = max(b.count for b in step_buckets.buckets)
    figure.update_yaxes(type="log", dtick=1, tickformat=",")
    figure.update_yaxes(range=[LOWEST, math.log10(highest) + 0.1])
    fullest = max(step_buckets.buckets, key=lambda b: b.count)
    name, zeros = exponent_text(fullest.exponent, fullest.sign), step_buckets.zeros / step_buckets.n
    sentence = (
        f"{plural(len(step_buckets.buckets), 'bucket')} kept; {name} has most values, "
        f"{fullest.count:,}. {percent_text(zeros)} of {step_buckets.n:,} values are 0 here: "
        "unchanged or postponed."
    )
    return Panel(
        f"Buckets of step {step_buckets.step}",
        sentence,
        figure,
        "Values in each exponent bucket, by sign.",
        _table(step_buckets),
    )


def removed_bucket(step_buckets: StepBuckets) -> Panel:
    """A bar for each bucket: how far the restored step moves without it.

    step_buckets: with at least one bucket, and with `moved` of all of them.
    """
    text = "%{y:.3g} %"
    figure = _bars(
        step_buckets, "moved, % of the distance trained", lambda b: _percent(b.moved or 0.0), text
    )
    figure.update_yaxes(rangemode="tozero")
    farthest = max(step_buckets.buckets, key=lambda b: b.moved or 0.0)
    name, moved = exponent_text(farthest.exponent, farthest.sign), farthest.moved or 0.0
    sentence = (
        f"Without {name} step {step_buckets.step} moves most: {percent_text(moved)} of the "
        f"distance from base {step_buckets.base}. A chain holds neither the live weights nor the "
        "model: the loss, and the buckets dropped before saving, are not known here."
    )
    return Panel(
        f"Removed bucket: step {step_buckets.step} without one of its buckets",
        sentence,
        figure,
        "Distance that the restored step moves without each bucket, by sign.",
        _table(step_buckets),
    )


def _bars(
    step_buckets: StepBuckets,
    axis_title: str,
    height: Callable[[KeptBucket], float | None],
    hover: str,
) -> go.Figure:
    exponents = sorted({b.exponent for b in step_buckets.buckets})
    figure = base_figure("bucket's exponent e", axis_title, HEIGHT)
    for sign, name in enumerate(SIGN_NAMES):
        of_sign = [b for b in step_buckets.buckets if b.sign == sign]
        if of_sign:
            figure.add_bar(
                name=name,
                x=[b.exponent for b in of_sign],
                y=[height(b) for b in of_sign],
                marker={"color": SIGN_COLOURS[sign], "pattern": {"shape": PATTERNS[sign]}},
                hovertemplate=hover,
            )
    figure.update_layout(bargap=0.3)
    limits = [exponents[0] - 0.6, exponents[-1] + 0.6]
    tick_distance = max(1, (exponents[-1] - exponents[0]) // 12)
    return figure.update_xaxes(range=limits, dtick=tick_distance, tickformat="d")


def _percent(share: float) -> float | None:
    return plotted(100 * share)


def _table(step_buckets: StepBuckets) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "bucket": [exponent_text(b.exponent, b.sign) for b in step_buckets.buckets],
            "values": [b.count for b in step_buckets.buckets],
            "moved without it": [
                "–" if b.moved is None else percent_text(b.moved) for b in step_buckets.buckets
            ],
        }
    )
