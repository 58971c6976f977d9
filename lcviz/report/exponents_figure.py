"""A heat map: number of values by step and by exponent of their level."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from lcviz.text import minus, percent_text
from lcviz.ui.charts import CIVIDIS, Panel, base_figure

from .exponents import StepExponents
from .figure_parts import STEP, thinned

MAX_COLUMNS = 300
HEIGHT = 256  # pixels
EMPTY = "rgba(128,128,128,0.25)"  # for no values: grey on black and on white


def exponents_over_steps(histograms: Sequence[StepExponents]) -> Panel:
    """The heat map. histograms: by rising step; in at least one of them a value changed."""
    present = {e for histogram in histograms for e in histogram.counts}
    exponents = range(min(present), max(present) + 1)
    columns = thinned(histograms, MAX_COLUMNS)
    counts = [[histogram.counts.get(e) for histogram in columns] for e in exponents]
    largest = max((n for row in counts for n in row if n), default=1)
    decades = max(1, math.ceil(math.log10(largest)))
    figure = base_figure(STEP, "exponent of the level", HEIGHT)
    figure.add_heatmap(
        x=[str(histogram.step) for histogram in columns],
        y=list(exponents),
        z=[[n and round(math.log10(n), 3) for n in row] for row in counts],
        customdata=counts,
        coloraxis="coloraxis",
        hoverongaps=False,
        hovertemplate="step %{x}, 2<sup>%{y}</sup>: %{customdata:,} values<extra></extra>",
    )
    figure.update_layout(
        hovermode="closest",
        plot_bgcolor=EMPTY,
        coloraxis={"colorscale": list(CIVIDIS), "cmin": 0, "cmax": decades, "showscale": False},
    )
    figure.update_xaxes(type="category", showgrid=False, nticks=12, tickangle=0)
    if round_steps := _round_steps([histogram.step for histogram in columns]):
        figure.update_xaxes(tickvals=round_steps)
    figure.update_yaxes(
        showgrid=False, range=[exponents[0] - 0.5, exponents[-1] + 0.5], tickformat="d"
    )
    figure.update_yaxes(dtick=max(1, len(exponents) // 12))
    ends = (histograms[0], histograms[-1]) if len(histograms) > 1 else histograms[:1]
    first, *later = (
        (percent_text((h.n - h.zeros) / max(h.n, 1)), f"at step {h.step}") for h in ends
    )
    title = f"{first[0]} of the weights change {first[1]}"
    title += "".join(f", {share} {where}" for share, where in later)
    sentence = f"Dark blue: one weight; yellow: {10**decades:,}, on a log scale. Grey: none."
    if len(columns) < len(histograms):
        sentence += f" {len(columns)} of {len(histograms):,} steps are drawn, evenly chosen."
    rows = [(h.step, minus(e), count) for h in histograms for e, count in h.counts.items()]
    return Panel(
        title,
        sentence,
        figure,
        "Heat map of the number of changed weights by step and exponent of the level.",
        pd.DataFrame(rows, columns=["step", "exponent", "values"]),
    )


def _round_steps(steps: Sequence[int]) -> list[str]:
    """At most 8 multiples of 1, 2 or 5 · 10ⁿ among the steps; none where there are fewer than 3."""
    for interval in (digit * 10**zeros for zeros in range(20) for digit in (1, 2, 5)):
        if len(multiples := [str(step) for step in steps if step % interval == 0]) <= 8:
            return multiples if len(multiples) >= 3 else []
    return []
