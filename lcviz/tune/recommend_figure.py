"""A chart of settings by what they write and what they lose, with their Pareto frontier."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import pandas as pd
import plotly.graph_objects as go

from lcviz.lab.tuner.candidates import Candidate
from lcviz.lab.tuner.tuner import Tuned
from lcviz.text import kept_text, percent_text, plural
from lcviz.ui.charts import BLUE, GREY, PURPLE, VERMILION, Panel, base_figure

Value = Callable[[Candidate], float]
MOST_REWORK = 25.0  # iterations on the axis; settings that lose more are not drawn
HEIGHT = 320  # pixels
_FRONTIER = {
    "mode": "lines+markers",
    "line": {"color": BLUE, "width": 2, "shape": "hv"},
    "marker": {"size": 8, "color": BLUE},
}
_TRIED = {"mode": "markers", "marker": {"size": 7, "color": GREY, "opacity": 0.6}}
_MARK = {"symbol": "diamond", "size": 16, "color": VERMILION}
_BEST = {"mode": "markers+text", "marker": _MARK, "textposition": "top right"}
_LIMIT = {"color": PURPLE, "width": 2, "dash": "dash"}
SURE = "95 of 100 below"  # the meaning of a bound, in words
LIMIT = "your limit, kept in 95 of 100"
MEASURES = {
    "distance": f"distance, {SURE}",
    "rework": f"price of a crash in iterations, {SURE}",
}


def frontier_panel(tuned: Tuned, measure: str, unit: str) -> Panel:
    """Bytes against distance or rework, and the limit.

    The losses drawn are bounds that 95 of 100 other failures stay below. If the target is a size,
    the bytes are such bounds, too. The limit is compared with these bounds.

    measure: "distance" or "rework". unit: what bytes are counted for, "iteration" or "checkpoint".
    """
    value = _VALUES[measure]
    of_size = tuned.target == "size"
    x = f"bytes written for every {unit}, % of float32"
    nbytes: Value = lambda c: 100 * c.rate  # noqa: E731
    if of_size:
        x, nbytes = f"bytes of a checkpoint, {SURE}, % of float32", lambda c: 100 * c.share_bound
    drawn = [c for c in tuned.candidates if value(c) <= _HIGHEST[measure]]
    figure = base_figure(x, MEASURES[measure], HEIGHT)
    if drawn and math.isfinite(tuned.most) and (of_size or tuned.target == measure):
        figure.add_trace(_limit_line(tuned, drawn, nbytes, value))
    for name, points, style in (
        ("tried", drawn, _TRIED),
        ("Pareto frontier", _frontier(drawn, nbytes, value), _FRONTIER),
        ("recommended", [c for c in drawn if c is tuned.recommended], _BEST),
    ):
        if points:
            figure.add_scatter(
                name=name,
                x=[round(nbytes(c), 5) for c in points],
                y=[round(value(c), 5) for c in points],
                customdata=[c.setting.text(unit) for c in points],
                text=[f"<b>{kept_text(c.setting.coding)}</b>" for c in points],
                cliponaxis=False,
                hovertemplate="%{customdata}<br>%{x:.3g} %, %{y:.3g}<extra></extra>",
                **style,
            )
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(type="log", dtick="D2", tickformat="~g")
    if measure == "distance":
        figure.update_yaxes(type="log", dtick="D2", tickformat="~g")
    else:
        figure.update_yaxes(rangemode="tozero")
    more = len(tuned.candidates) - len(drawn)
    best, sentence = len(_frontier(drawn, nbytes, value)), ""
    if more:
        lost = f"cost more than {MOST_REWORK:g} iterations after a crash"
        why = "restore what is not finite" if measure == "distance" else lost
        sentence = f"Not drawn: {more} that {why}."
    return Panel(
        f"{plural(len(tuned.candidates), 'setting')} tried: the {best} on the line are the best "
        "for their bytes",
        sentence,
        figure,
        "Each tried setting as a point, bytes to the right, what a crash costs upwards, with the "
        "line of the Pareto frontier and a dashed line at the limit.",
        frontier_table(tuned, unit),
    )


def _limit_line(
    tuned: Tuned, drawn: Sequence[Candidate], nbytes: Value, value: Value
) -> go.Scatter:
    """A line across the picture at the limit."""
    along = list(map(value if tuned.target == "size" else nbytes, drawn))
    ends, at = [min(along), max(along)], [100 * tuned.most] * 2
    x, y = (at, ends) if tuned.target == "size" else (ends, [tuned.most] * 2)
    return go.Scatter(
        name=LIMIT,
        x=x,
        y=y,
        mode="lines+text",
        text=["", LIMIT] if tuned.target == "size" else [LIMIT, ""],  # where no settings are
        textposition="bottom right",
        line=_LIMIT,
        hoverinfo="skip",
    )


def frontier_table(tuned: Tuned, unit: str) -> pd.DataFrame:
    """The Pareto frontier of bytes, distance and rework, and the recommended setting.

    Columns are means, and bounds that 95 of 100 other checkpoints or failures stay below.
    """
    best = tuned.recommended
    rows = [c for c in tuned.candidates if c in tuned.frontier or c is best]
    knows_loss = any(c.rework is not None for c in rows)
    table = pd.DataFrame(
        [
            {
                "advised": "→" if c is best else "",
                f"for every {unit}": f"{100 * c.rate:.3f} %",
                "a checkpoint": percent_text(c.share),
                f"a checkpoint, {SURE}": percent_text(c.share_bound),
                "distance": f"{c.distance.value:.3f}",
                f"distance, {SURE}": f"{c.distance_bound:.3f}",
                "price": _iterations(c.rework.value if c.rework else None),
                f"price, {SURE}": _iterations(c.rework_bound),
                "setting": c.setting.text(unit),
            }
            for c in sorted(rows, key=lambda c: c.rate)
        ]
    )
    return table if knows_loss else table.drop(columns=["price", f"price, {SURE}"])


def _iterations(rework: float | None) -> str:
    if rework is None:
        return "–"
    return f"{rework:.2f}" if math.isfinite(rework) else "not reached"


def _frontier(drawn: Sequence[Candidate], nbytes: Value, value: Value) -> list[Candidate]:
    """The candidates, by rising bytes, whose measure is below that of all with fewer bytes."""
    frontier: list[Candidate] = []
    for c in sorted(drawn, key=lambda c: (nbytes(c), value(c))):
        if not frontier or value(c) < value(frontier[-1]):
            frontier.append(c)
    return frontier


_HIGHEST = {"distance": sys.float_info.max, "rework": MOST_REWORK}
_VALUES: dict[str, Value] = {
    "distance": lambda c: max(c.distance_bound, 0.001),
    "rework": lambda c: c.rework_bound or 0.0,
}
