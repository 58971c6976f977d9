"""Buckets of a step by sign: how many values each has, and how far the step moves without it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from lcviz.text import exponent_text, percent_text, plural
from lcviz.ui.charts import DOWN, UP, Panel, base_figure, plotted

from .buckets import StepBuckets

HEIGHT = 280  # pixels
LOWEST = -0.3  # decades: below 0, so that the bar of a single value shows
PATTERNS = ("", "/")  # positive and negative bars differ not only in colour


def values_by_bucket(step_buckets: StepBuckets) -> Panel:
    """A bar for each bucket: number of its values. step_buckets: with at least one bucket."""
    counts = [b.count for b in step_buckets.buckets]
    figure = _bars(step_buckets, "values (log scale)", counts, "%{y:,} values")
    limits = [LOWEST, math.log10(max(counts)) + 0.1]
    figure.update_yaxes(type="log", dtick=1, tickformat=",", range=limits)
    fullest = max(step_buckets.buckets, key=lambda b: b.count)
    name, zeros = exponent_text(fullest.exponent, fullest.sign), step_buckets.zeros / step_buckets.n
    sentence = (
        f"{name} has most values, {fullest.count:,}. "
        f"{percent_text(zeros)} of {step_buckets.n:,} values are 0 here: unchanged or postponed."
    )
    return Panel(
        f"Step {step_buckets.step} keeps {plural(len(counts), 'bucket')}",
        sentence,
        figure,
        "Values in each exponent bucket, by sign.",
        _table(step_buckets),
    )


def removed_bucket(step_buckets: StepBuckets) -> Panel:
    """A bar for each bucket: how far the restored step moves without it.

    step_buckets: with at least one bucket, and with `moved` of all of them.
    """
    percents = [plotted(100 * (b.moved or 0.0)) for b in step_buckets.buckets]
    title = "moved, % of the distance trained"
    figure = _bars(step_buckets, title, percents, "%{y:.3g} %").update_yaxes(rangemode="tozero")
    farthest = max(step_buckets.buckets, key=lambda b: b.moved or 0.0)
    name, moved = exponent_text(farthest.exponent, farthest.sign), farthest.moved or 0.0
    sentence = (
        f"In percent of the distance from base {step_buckets.base}. A chain holds neither the live "
        "weights nor the model: the loss, and the buckets dropped before saving, are not known "
        "here."
    )
    return Panel(
        f"Without {name} step {step_buckets.step} moves farthest, by {percent_text(moved)}",
        sentence,
        figure,
        "Distance that the restored step moves without each bucket, by sign.",
        _table(step_buckets),
    )


def _bars(
    step_buckets: StepBuckets, title: str, heights: Sequence[float | None], hover: str
) -> go.Figure:
    """A bar for each bucket. title: of the axis. heights: of the bars."""
    exponents = sorted(b.exponent for b in step_buckets.buckets)
    figure = base_figure("bucket's exponent e", title, HEIGHT)
    for sign, (name, colour) in enumerate((("positive", UP), ("negative", DOWN))):
        of_sign = [(b, y) for b, y in zip(step_buckets.buckets, heights) if b.sign == sign]
        if of_sign:
            figure.add_bar(
                name=name,
                x=[b.exponent for b, _ in of_sign],
                y=[y for _, y in of_sign],
                marker={"color": colour, "pattern": {"shape": PATTERNS[sign]}},
                text=["−" if sign else "+"] * len(of_sign),
                textposition="outside",
                cliponaxis=False,
                hovertemplate=hover,
            )
    figure.update_layout(bargap=0.3)
    limits = [exponents[0] - 0.6, exponents[-1] + 0.6]
    tick_distance = max(1, (exponents[-1] - exponents[0]) // 12)
    return figure.update_xaxes(range=limits, dtick=tick_distance, tickformat="d")


def _table(step_buckets: StepBuckets) -> pd.DataFrame:
    names = [exponent_text(b.exponent, b.sign) for b in step_buckets.buckets]
    counts = [b.count for b in step_buckets.buckets]
    moved = ["–" if b.moved is None else percent_text(b.moved) for b in step_buckets.buckets]
    return pd.DataFrame({"bucket": names, "values": counts, "moved without it": moved})
