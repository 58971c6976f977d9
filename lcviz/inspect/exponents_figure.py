"""A heat map of how many values of each step got a level of each exponent."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from lcviz.lab.anatomy import BucketKey
from lcviz.text import exponent_text, minus, percent_text, plural
from lcviz.ui.charts import CIVIDIS, PURPLE, Option, Panel, base_option

from .exponents import StepExponents
from .figure_parts import axis, thinned

MAX_COLUMNS = 300
HEIGHT = 340


def exponents_over_steps(steps: Sequence[StepExponents], marked: BucketKey | None = None) -> Panel:
    """The heat map.

    Args:
        steps: In rising order; at least one has a value that changed.
        marked: The bucket whose exponent is highlighted.
    """
    present = {e for one in steps for e in one.counts}
    low, high = min(present), max(present)
    drawn = thinned(steps, MAX_COLUMNS)
    cells = [
        [x, exponent - low, round(math.log10(count), 3), count]
        for x, one in enumerate(drawn)
        for exponent, count in one.counts.items()
    ]
    decades = max(1, math.ceil(max(cell[2] for cell in cells)))
    top, height = 12, HEIGHT - 60
    place: Option = {"left": 72, "right": 76, "show": True}
    # Grey where there are no values, on black and on white.
    grey = {"borderWidth": 0, "backgroundColor": "rgba(128,128,128,0.25)"}
    grids: list[Option] = [place | grey | {"top": top, "height": height}]
    labels = {"data": [one.step for one in drawn], "axisLabel": {"hideOverlap": True}}
    xs = [axis("step (iterations)", 28, "category", **labels)]
    exponents = [minus(e) for e in range(low, high + 1)]
    ys = [axis("exponent e of the level", 40, "category", data=exponents)]
    if marked is not None and low <= marked[0] <= high:
        # A rim around its row: a second grid, since a mark would end in the middle of a cell.
        row = height / len(exponents)
        rim = {"borderColor": PURPLE, "borderWidth": 3, "z": 3}
        grids.append(place | rim | {"top": top + row * (high - marked[0]), "height": row})
        hidden = {"type": "value", "gridIndex": 1, "show": False}
        xs.append(hidden)
        ys.append(hidden)
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"trigger": "item", "confine": True},
        "grid": grids,
        "xAxis": xs,
        "yAxis": ys,
        "visualMap": {
            "type": "continuous",
            "dimension": 2,
            "min": 0,
            "max": decades,
            "calculable": False,
            "inRange": {"color": list(CIVIDIS)},
            "right": 0,
            "top": top,
            "itemWidth": 14,
            "itemHeight": height - 48,
            "text": [f"{10**decades:,}", "1 value"],
            "hoverLink": False,
        },
        "series": [
            {
                "type": "heatmap",
                "dimensions": ["step", "exponent", "log₁₀", "values"],
                "encode": {"x": 0, "y": 1, "value": 2, "tooltip": [0, 1, 3]},
                "data": cells,
                "emphasis": {"disabled": True},
                "progressive": 0,
            }
        ],
    }
    first, last = (percent_text(1 - s.zeros / max(s.n, 1)) for s in (steps[0], steps[-1]))
    sentence = (
        f"Levels reach from {exponent_text(low)} to {exponent_text(high)}. At step "
        f"{steps[0].step}, {first} of {steps[0].n:,} values got a level; at step "
        f"{steps[-1].step}, {last}. Grey: no values."
    )
    if len(drawn) < len(steps):
        sentence += f" Of {plural(len(steps), 'step')} {len(drawn)} are drawn, evenly chosen."
    rows = [(one.step, minus(e), count) for one in steps for e, count in one.counts.items()]
    return Panel(
        "Values that change, by step and exponent of their level (log scale)",
        sentence,
        option,
        "Heat map of the number of changed values by step and exponent of the level.",
        pd.DataFrame(rows, columns=["step", "exponent", "values"]),
        HEIGHT,
        "canvas",
    )
