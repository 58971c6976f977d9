"""A chart of settings by what they write and what they lose, with their Pareto frontier."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import pandas as pd
import plotly.graph_objects as go

from lcviz.lab.tuner.candidates import Candidate
from lcviz.lab.tuner.tuner import Tuned
from lcviz.text import nbytes_text, percent_text, plural
from lcviz.ui.charts import GOOD, KEPT, OTHER, Panel, base_figure, bytes_axis, write_at

from .answer import Measure, named

MOST_REWORK = 25.0  # iterations on the axis; settings that lose more are not drawn
LEAST_DISTANCE = 0.1  # % on the logarithmic axis
HEIGHT = 320  # pixels
_FRONTIER = {
    "mode": "lines+markers",
    "line": {"color": KEPT, "width": 1.5, "shape": "hv"},
    "marker": {"size": 7, "color": KEPT},
}
_TRIED = {"mode": "markers", "marker": {"size": 7, "color": OTHER, "opacity": 0.6}}
_BEST = {"mode": "markers", "marker": {"symbol": "diamond", "size": 16, "color": GOOD}}
_LIMIT = {"color": KEPT, "width": 1, "dash": "dash"}
LIMIT = "your limit"
ON_THE_LINE = "On the line: the settings that are the best for their bytes."


def frontier_panel(tuned: Tuned, measure: Measure, unit: str) -> Panel:
    """What settings write against what they lose, and the limit.

    The losses drawn are bounds, see `Candidate`, and so are the bytes if the target is the size of
    a checkpoint. The limit is compared with what is drawn.

    unit: of intervals, "iteration", "file" or "step".
    """
    by_distance = measure.by_distance
    highest = sys.float_info.max if by_distance else MOST_REWORK
    drawn = [c for c in tuned.candidates if measure.loss(c) <= highest]
    x = f"bytes {measure.per}"
    y = "distance, %" if by_distance else "price of a crash in iterations"
    figure = base_figure(x, f"{y}, {measure.sure}", HEIGHT)
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(**bytes_axis([measure.nbytes(c) for c in drawn]))
    if by_distance:
        figure.update_yaxes(type="log", dtick="D2", tickformat="~g")
    else:
        figure.update_yaxes(rangemode="tozero")
    frontier = _frontier(drawn, measure)
    best = [c for c in drawn if c is tuned.recommended]
    if drawn and math.isfinite(tuned.most):
        _draw_limit(figure, tuned, drawn, measure)
    for name, points, style in (
        ("tried", drawn, _TRIED),
        ("Pareto frontier", frontier, _FRONTIER),
        ("recommended", best, _BEST),
    ):
        if points:
            figure.add_scatter(
                name=name,
                x=[float(f"{measure.nbytes(c):.6g}") for c in points],
                y=[_height(c, measure) for c in points],
                customdata=[c.setting.text(unit) for c in points],
                cliponaxis=False,
                hovertemplate="%{customdata}<br>%{x:.3s}B, %{y:.3g}<extra></extra>",
                **style,
            )
    more, sentence = len(tuned.candidates) - len(drawn), ""
    if more:
        lost = f"cost more than {MOST_REWORK:g} iterations after a crash"
        lost = "restore what is not finite" if by_distance else lost
        sentence = f"Not drawn: {more} that {lost}."
    tried = f"{plural(len(tuned.candidates), 'setting')} tried"
    title = f"{tried}: the {len(frontier)} on the line are the best for their bytes"
    for c in best:  # a name beside the point would hide others
        point = f"{named(c.setting)}, {nbytes_text(measure.nbytes(c))}"
        title = f"◆ {point}: of {tried}, the best within the limit"
        sentence = f"{ON_THE_LINE} {sentence}".strip()
    return Panel(
        title,
        sentence,
        figure,
        "Each tried setting as a point, bytes to the right, what a crash costs upwards, with the "
        "line of the Pareto frontier and a dashed line at the limit.",
        candidates_table(tuned, measure),
    )


def _draw_limit(
    figure: go.Figure, tuned: Tuned, drawn: Sequence[Candidate], measure: Measure
) -> None:
    """A line across the picture at the limit, with its name."""
    of_bytes = tuned.target in ("size", "rate")
    sizes, losses = ([f(c) for c in drawn] for f in (measure.nbytes, lambda c: _height(c, measure)))
    if of_bytes:
        # What is written for the target's share: the measure is in proportion to it.
        most = tuned.most * measure.nbytes(drawn[0]) / drawn[0].reached(tuned.target)
        x, y = [most, most], [min(losses), max(losses)]
    else:
        most = 100 * tuned.most if measure.by_distance else tuned.most
        x, y = [min(sizes), max(sizes)], [most, most]
    figure.add_scatter(name=LIMIT, x=x, y=y, mode="lines", line=_LIMIT, hoverinfo="skip")
    anchor = "middle" if of_bytes else "top"
    if of_bytes and tuned.recommended:  # at the end that is further from the diamond
        best = math.log1p(_height(tuned.recommended, measure))
        y.sort(key=lambda end: -abs(math.log1p(end) - best))
    write_at(figure, x[0], y[0], LIMIT, left=of_bytes, apart=4, anchor=anchor)


def candidates_table(tuned: Tuned, measure: Measure) -> pd.DataFrame:
    """All settings by rising bytes, the advised one first.

    Columns: what the picture draws, other bounds, means.
    """
    sure = measure.sure
    drawn = f"bytes {measure.per}"
    bounds = {
        f"price, {sure}": lambda c: _iterations(c.rework_bound),
        f"distance, {sure}": lambda c: percent_text(c.distance_bound),
    }
    columns: dict[str, Callable[[Candidate], str]] = {
        "advised": lambda c: "→" if c is tuned.recommended else "",
        "setting": lambda c: named(c.setting),
        drawn: lambda c: nbytes_text(measure.nbytes(c)),
        **dict(sorted(bounds.items(), reverse=not measure.by_distance)),
        f"a checkpoint, {sure}": lambda c: nbytes_text(c.share_bound * c.full_nbytes),
        "a checkpoint, mean": lambda c: nbytes_text(c.share * c.full_nbytes),
        "price, mean": lambda c: _iterations(c.rework.value if c.rework else None),
        "distance, mean": lambda c: percent_text(c.distance.value),
    }
    if tuned.target == "size":
        del columns[f"a checkpoint, {sure}"]  # what is drawn
    if tuned.candidates[0].rework is None:
        columns = {name: text for name, text in columns.items() if "price" not in name}
    rows = sorted(tuned.candidates, key=lambda c: (c is not tuned.recommended, measure.nbytes(c)))
    return pd.DataFrame({name: list(map(text, rows)) for name, text in columns.items()})


def _iterations(rework: float | None) -> str:
    if rework is None:
        return "–"
    return f"{rework:.2f}" if math.isfinite(rework) else "not reached"


def _height(candidate: Candidate, measure: Measure) -> float:
    """Where a setting is drawn; a logarithmic axis has no 0."""
    loss = measure.loss(candidate)
    return round(max(loss, LEAST_DISTANCE) if measure.by_distance else loss, 5)


def _frontier(drawn: Sequence[Candidate], measure: Measure) -> list[Candidate]:
    """The candidates, by rising bytes, whose loss is below that of all with fewer bytes."""
    frontier: list[Candidate] = []
    for c in sorted(drawn, key=lambda c: (measure.nbytes(c), _height(c, measure))):
        if not frontier or _height(c, measure) < _height(frontier[-1], measure):
            frontier.append(c)
    return frontier
