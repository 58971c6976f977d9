"""A heat map of how many values of each step got a level of each exponent."""

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
EMPTY = "rgba(128,128,128,0.25)"  # where no value is: grey on black and on white


def exponents_over_steps(steps: Sequence[StepExponents]) -> Panel:
    """The heat map. steps: in rising order; at least one has a value that changed."""
    present = {e for one in steps for e in one.counts}
    low, high = min(present), max(present)
    drawn = thinned(steps, MAX_COLUMNS)
    exponents = range(low, high + 1)
    counts = [[one.counts.get(e) for one in drawn] for e in exponents]
    most = max(n for row in counts for n in row if n) if any(map(any, counts)) else 1
    decades = max(1, math.ceil(math.log10(most)))
    figure = base_figure(STEP, "exponent of the level", HEIGHT, r=84, t=12)
    figure.add_heatmap(
        x=[str(one.step) for one in drawn],
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
        coloraxis={
            "colorscale": list(CIVIDIS),
            "cmin": 0,
            "cmax": decades,
            "colorbar": {
                "title": {"text": "changed"},
                "tickvals": list(range(decades + 1)),
                "ticktext": [f"{10**n:,}" for n in range(decades + 1)],
                "thickness": 14,
                "outlinewidth": 0,
            },
        },
    )
    figure.update_xaxes(type="category", showgrid=False, nticks=12, tickangle=0)
    if round_steps := _round_steps([one.step for one in drawn]):
        figure.update_xaxes(tickvals=round_steps)
    figure.update_yaxes(showgrid=False, range=[low - 0.5, high + 0.5], tickformat="d")
    figure.update_yaxes(dtick=max(1, len(exponents) // 12))
    first, last = (percent_text(1 - s.zeros / max(s.n, 1)) for s in (steps[0], steps[-1]))
    sentence = (
        f"Values that change: {first} at step {steps[0].step}, {last} at step {steps[-1].step}. "
        "Grey: none."
    )
    if len(drawn) < len(steps):
        sentence += f" {len(drawn)} of {len(steps):,} steps are drawn, evenly chosen."
    rows = [(one.step, minus(e), count) for one in steps for e, count in one.counts.items()]
    return Panel(
        "Exponents over time",
        sentence,
        figure,
        "Heat map of the number of changed values by step and exponent of the level.",
        pd.DataFrame(rows, columns=["step", "exponent", "values"]),
    )


def _round_steps(steps: Sequence[int]) -> list[str]:
    """At most 8 multiples of 1, 2 or 5 · 10ⁿ among the steps; none where there are fewer than 3."""
    for every in (digit * 10**zeros for zeros in range(20) for digit in (1, 2, 5)):
        if len(found := [str(step) for step in steps if step % every == 0]) <= 8:
            return found if len(found) >= 3 else []
    return []
