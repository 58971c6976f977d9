"""What loop and saver do over time in two ways to save, and how many iterations are not saved."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd
import plotly.graph_objects as go

from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import BLUE, GREEN, GREY, PURPLE, VERMILION, Panel, base_figure

from . import timelines
from .timelines import STANDS_STILL, TRAINS, Span, Timeline

_HIGH, _LOW = 0.62, 0.28  # of a lane: neighbours differ in height, not only in colour
_BARS = {
    TRAINS: (GREY, _LOW),
    STANDS_STILL: (VERMILION, _HIGH),
    timelines.ENCODES: (BLUE, _HIGH),
    timelines.CHECKS: (PURPLE, _LOW),
    timelines.WRITES: (GREEN, _HIGH),
    timelines.COMMITS: (VERMILION, _LOW),
}
_LOST = "iterations not saved"
_TOP, _LANES, _APART, _STRIP, _GAP, _BELOW = 70, 60, 10, 36, 30, 50  # pixels
_BLOCK = _LANES + _APART + _STRIP + _GAP  # of one way


def timelines_panel(
    lines: Sequence[Timeline], crash: float, whole_machine: bool, window: tuple[float, float]
) -> Panel:
    """For each way a lane of the loop and one of the saver, and below them the unsaved iterations.

    crash: the second to mark. whole_machine: see `Timeline.restored`. window: first, last second.
    """
    activities = [activity for activity in _BARS if any(_spans(line, activity) for line in lines)]
    inside = len(lines) * _BLOCK - _GAP
    height = _TOP + inside + _BELOW
    name = "ms since the first iteration shown began"
    figure = base_figure(name, "", height, l=150, t=_TOP, b=_BELOW)
    below = figure.layout.yaxis.to_plotly_json() | {"fixedrange": True}
    most_unsaved = max(unsaved for line in lines for _, unsaved in line.behind(whole_machine))
    end = max(line.end for line in lines)
    axes = {}
    for i, line in enumerate(lines):
        lanes, strip = f"y{2 * i + 1}", f"y{2 * i + 2}"
        top = inside - i * _BLOCK
        low = top - _LANES - _APART
        axes[f"yaxis{2 * i + 1}"] = below | {
            "domain": [(top - _LANES) / inside, top / inside],
            "range": [1.5, -0.5],
            "tickvals": [0, 1],
            "ticktext": [f"{line.way}: training", "saving"],
            "showgrid": False,
        }
        axes[f"yaxis{2 * i + 2}"] = below | {
            "domain": [max((low - _STRIP) / inside, 0), low / inside],
            "range": [0, most_unsaved],
            "tickvals": [0, most_unsaved],
            "tickprefix": "not saved: ",
        }
        for activity in activities:
            first = next(other for other in lines if _spans(other, activity))
            figure.add_trace(_bars(activity, line, lanes, legend=line is first))
        figure.add_trace(_unsaved_line(line, whole_machine, end, strip, legend=i == 0))
    axes["yaxis"] = axes.pop("yaxis1")
    figure.update_layout(axes, barmode="overlay", hovermode="closest")
    figure.update_xaxes(anchor=f"y{2 * len(lines)}", range=[1e3 * second for second in window])
    mark = {"color": VERMILION, "dash": "dash", "width": 2}
    at = 1e3 * crash
    figure.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref="paper", line=mark)
    figure.add_annotation(text="crash", x=at, y=1, yref="paper", yanchor="bottom", showarrow=False)
    return Panel(
        "Training and saving by the millisecond, and what is not saved",
        _sentence(lines, whole_machine),
        figure,
        "For each way to save, bars of what the training loop and the saver do over time, and "
        "below them a line of the iterations that are not saved.",
        partial(_table, lines),
    )


def _spans(line: Timeline, activity: str) -> list[Span]:
    return [s for s in (*line.loop, *line.saver) if s.activity == activity]


def _bars(activity: str, line: Timeline, axis: str, *, legend: bool) -> go.Bar:
    """Spans of one activity, in ms. axis: of the way's lanes. legend: whether the legend has it."""
    colour, height = _BARS[activity]
    spans = _spans(line, activity)
    noun = "iteration" if activity == TRAINS else "step"
    return go.Bar(
        name=activity,
        legendgroup=activity,
        showlegend=legend,
        orientation="h",
        base=[_in_ms(s.begin) for s in spans],
        x=[_in_ms(s.seconds) for s in spans],
        y=[0 if activity in (TRAINS, STANDS_STILL) else 1] * len(spans),
        yaxis=axis,
        width=height,
        marker={"color": colour, "line": {"width": 0}},
        customdata=[f"{activity} {_ms(s.seconds)}, {noun} {s.step}" for s in spans],
        hovertemplate="%{customdata}<extra></extra>",
    )


def _unsaved_line(
    line: Timeline, whole_machine: bool, end: float, axis: str, *, legend: bool
) -> go.Scatter:
    points = [*line.behind(whole_machine), (end, line.lost(end, whole_machine))]
    return go.Scatter(
        name=_LOST,
        legendgroup=_LOST,
        showlegend=legend,
        x=[_in_ms(second) for second, _ in points],
        y=[lost for _, lost in points],
        yaxis=axis,
        mode="lines",
        line={"color": GREY, "width": 1.5, "shape": "hv"},
        fill="tozeroy",
        hovertemplate="%{x:.1f} ms: %{y} not saved<extra></extra>",
    )


def _sentence(lines: Sequence[Timeline], whole_machine: bool) -> str:
    most_lost = [(line.way, max(lost for _, lost in line.behind(whole_machine))) for line in lines]
    worst = ", ".join(f"{way} {lost}" for way, lost in most_lost)
    crashing = "machine" if whole_machine else "training alone"
    return f"A crash of the {crashing} costs at most, in iterations since the checkpoint: {worst}."


def _in_ms(seconds: float) -> float:
    return round(1e3 * seconds, 3)


def _ms(seconds: float) -> str:
    """0.01234 -> '12.3 ms'."""
    value = 1e3 * seconds
    return f"{value:.3g} ms" if value < 999.5 else f"{value:,.0f} ms"


def _share(share: float) -> str:
    """Two digits: a measured time has no more."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:,.0f} %"


def _table(lines: Sequence[Timeline]) -> pd.DataFrame:
    rows = [
        (line.way, actor, s.activity, s.step, *map(_in_ms, (s.begin, s.end, s.seconds)))
        for line in lines
        for actor, spans in (("training", line.loop), ("saver", line.saver))
        for s in spans
    ]
    columns = ["way", "who", "what", "step", "from, ms", "to, ms", "took, ms"]
    return pd.DataFrame(rows, columns=columns)


def ways_table(lines: Sequence[Timeline]) -> pd.DataFrame:
    """What each way costs in the loop's time and in bytes on disk: a column for each way."""
    measures: dict[str, Callable[[Timeline], str]] = {
        "iteration": lambda line: _ms(line.iteration),
        "pause for a checkpoint": lambda line: _ms(line.pause),
        "of an iteration": lambda line: _share(line.pause / line.iteration),
        "pauses, of the loop's time": lambda line: _share(line.still),
        "on disk after": lambda line: _ms(line.delay),
        "deltas, warm-up included": lambda line: nbytes_text(line.nbytes),
    }
    columns = {line.way: [text(line) for text in measures.values()] for line in lines}
    return pd.DataFrame({"measure": list(measures)} | columns)


def crash_table(lines: Sequence[Timeline], crash: float, whole_machine: bool) -> pd.DataFrame:
    """What loop and saver do at this second, and which step restores: a row for each way."""
    rows = []
    for line in lines:
        done, restored = line.iterated(crash), line.restored(crash, whole_machine)
        rows.append(
            {
                "saved": f"**{line.way}**",
                "the training": _doing(line.loop, crash),
                "the saver": _doing(line.saver, crash),
                "iterations": str(done),
                "restored": str(restored),
                "not saved": plural(done - restored, "iteration"),
            }
        )
    return pd.DataFrame(rows)


def _doing(spans: Sequence[Span], second: float) -> str:
    """The activity at this second, with its step."""
    for s in spans:
        if s.begin <= second < s.end:
            return f"{s.activity} ({s.step})"
    return "is done" if second >= spans[-1].end else "waits"


def ticks(end: float) -> tuple[float, float]:
    """The end in ms of a slider over this many seconds, and a step that is easy to read."""
    end_ms = 1e3 * end
    step = next(s * 10.0**p for p in range(-1, 9) for s in (1, 2, 5) if end_ms <= 500 * s * 10.0**p)
    return round(math.ceil(end_ms / step) * step, 1), step
