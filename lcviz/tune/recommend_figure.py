"""Settings by what they write and what they lose, and their Pareto frontier."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import pandas as pd

from lcviz.lab.tuner.candidates import Candidate
from lcviz.lab.tuner.tuner import Tuned
from lcviz.text import percent_text, plural
from lcviz.ui.charts import BLUE, GREY, VERMILION, Option, Panel, axis, base_option

MOST_REWORK = 25.0  # iterations on the axis: what loses more is not drawn
MEASURES = {"distance": "distance to what was trained", "rework": "rework, iterations"}


def frontier_panel(tuned: Tuned, measure: str, unit: str) -> Panel:
    """Bytes against distance or rework.

    measure: "distance" or "rework". unit: what bytes are counted for, "iteration" or "checkpoint".
    """
    value = _VALUES[measure]
    drawn = [c for c in tuned.candidates if value(c) <= _HIGHEST[measure]]
    best = tuned.recommended

    def point(c: Candidate) -> Option:
        return {"value": [round(100 * c.rate, 5), round(value(c), 5)], "name": c.setting.text(unit)}

    frontier = _frontier(drawn, value)
    series = [
        {
            "name": "tried",
            "type": "scatter",
            "symbolSize": 6,
            "itemStyle": {"color": GREY, "opacity": 0.6},
            "data": [point(c) for c in drawn],
        },
        {
            "name": "Pareto frontier",
            "type": "line",
            "step": "end",
            "symbol": "circle",
            "symbolSize": 8,
            "lineStyle": {"color": BLUE, "width": 2},
            "itemStyle": {"color": BLUE},
            "data": [point(c) for c in frontier],
        },
    ]
    if best is not None and best in drawn:
        series.append(
            {
                "name": "recommended",
                "type": "scatter",
                "symbol": "diamond",
                "symbolSize": 18,
                "itemStyle": {"color": VERMILION},
                "data": [point(best)],
            }
        )
    low = {"type": "log", "min": 0.001} if measure == "distance" else {"min": 0}
    option = base_option() | {
        "tooltip": {"trigger": "item", "confine": True, "formatter": "{b}"},
        "grid": [{"left": 72, "right": 24, "top": 40, "bottom": 52}],
        "xAxis": axis(f"bytes written for every {unit}, % of float32", 30, type="log"),
        "yAxis": axis(MEASURES[measure], 46) | low,
        "series": series,
    }
    more = len(tuned.candidates) - len(drawn)
    sentence = f"{plural(len(tuned.candidates), 'setting')} tried; the line is the Pareto frontier."
    if more:
        lost = f"lose more than {MOST_REWORK:g} iterations"
        why = "restore what is not finite" if measure == "distance" else lost
        sentence += f" Not drawn: {more} that {why}."
    return Panel(
        f"What is written, and what a crash loses: {MEASURES[measure]}",
        sentence,
        option,
        "Each tried setting as a point, bytes to the right, what is lost upwards, with the line of "
        "the Pareto frontier.",
        frontier_table(tuned, unit),
        380,
    )


def frontier_table(tuned: Tuned, unit: str) -> pd.DataFrame:
    """The Pareto frontier of bytes, distance and rework, and the recommended setting."""
    rows = [c for c in tuned.candidates if c in tuned.frontier or c is tuned.recommended]
    knows_loss = any(c.rework is not None for c in rows)
    table = pd.DataFrame(
        [
            {
                "": "→" if c is tuned.recommended else "",
                f"for every {unit}": f"{100 * c.rate:.3f} %",
                "a checkpoint": percent_text(c.share),
                "distance": f"{c.distance.value:.3f}",
                "rework": _iterations(c),
                "setting": c.setting.text(unit),
            }
            for c in sorted(rows, key=lambda c: c.rate)
        ]
    )
    return table if knows_loss else table.drop(columns="rework")


def _iterations(c: Candidate) -> str:
    if c.rework is None:
        return "–"
    return f"{c.rework.value:.2f}" if math.isfinite(c.rework.value) else "not reached"


def _frontier(drawn: Sequence[Candidate], value: Callable[[Candidate], float]) -> list[Candidate]:
    """By rising bytes, those with less of the measure than all before them."""
    found: list[Candidate] = []
    for c in sorted(drawn, key=lambda c: (c.rate, value(c))):
        if not found or value(c) < value(found[-1]):
            found.append(c)
    return found


_HIGHEST = {"distance": sys.float_info.max, "rework": MOST_REWORK}
_VALUES: dict[str, Callable[[Candidate], float]] = {
    "distance": lambda c: max(c.distance.value, 0.001),
    "rework": lambda c: c.rework.value if c.rework else 0.0,
}
