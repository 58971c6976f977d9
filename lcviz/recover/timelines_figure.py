"""What loop and saver do at every moment in three ways to save, and what a crash would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import pandas as pd

from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import BLUE, GREEN, GREY, PURPLE, VERMILION, Option, Panel, axis, base_option

from .timelines import (
    CHECKS,
    COMMITS,
    ENCODES,
    MERGED_AT_ONCE,
    MERGES,
    REOPENS,
    STANDS_STILL,
    TRAINS,
    WRITES,
    Span,
    Timeline,
)

_HIGH, _LOW = 18, 8  # pixels: bars of two heights, so that neighbours differ not by colour alone
_BARS = {
    TRAINS: (GREY, _LOW),
    STANDS_STILL: (VERMILION, _HIGH),
    ENCODES: (BLUE, _HIGH),
    CHECKS: (PURPLE, _LOW),
    WRITES: (GREEN, _HIGH),
    COMMITS: (VERMILION, _LOW),
    MERGES: (PURPLE, _HIGH),
    REOPENS: (BLUE, _LOW),
}
_LOST = "iterations that a crash would cost"
_ICONS = {_HIGH: "rect", _LOW: "path://M0,3L18,3L18,7L0,7Z"}
_STEPS = "path://M0,9L6,9L6,1L13,1L13,9L18,9L18,10L12,10L12,2L7,2L7,10L0,10Z"
_TOP, _LANES, _APART, _STRIP, _GAP = 66, 60, 10, 36, 30  # pixels: two lanes, what is below them
_BLOCK = _LANES + _APART + _STRIP + _GAP


def timelines_panel(
    found: Sequence[Timeline], crash: float, machine: bool, window: tuple[float, float]
) -> Panel:
    """For each way a lane for the loop and one for the saver, and below what a crash would cost.

    crash: the second that is marked. machine: see `Timeline.restored`. window: seconds, shown.
    """
    there = [what for what in _BARS if any(_spans(line, what) for line in found)]
    legend = [{"name": what, "icon": _ICONS[_BARS[what][1]]} for what in there]
    end = max(line.end for line in found)
    most = max(n for line in found for _, n in line.behind(machine))
    grids: list[Option] = []
    times: list[Option] = []
    ups: list[Option] = []
    series: list[Option] = []
    low, high = (round(1e3 * second, 1) for second in window)
    for line in found:
        i, top = len(grids), _TOP + len(grids) // 2 * _BLOCK
        sides = {"left": 150, "right": 24}
        grids += [
            sides | {"top": top, "height": _LANES},
            sides | {"top": top + _LANES + _APART, "height": _STRIP},
        ]
        for at in (i, i + 1):
            last = line is found[-1] and at > i
            own = {"min": low, "max": high, "axisLabel": {"show": last}}
            times.append({"type": "value", "gridIndex": at, "axisLine": {"onZero": False}} | own)
        ups += [
            {
                "type": "category",
                "gridIndex": i,
                "inverse": True,
                "axisTick": {"show": False},
                "data": [f"{line.way}: training", "saving"],
            },
            {
                "type": "value",
                "gridIndex": i + 1,
                "min": 0,
                "max": most,
                "interval": most,
                "axisLabel": {"formatter": "a crash costs {value}"},
            },
        ]
        series += [_bars(what, line, i, (low, high)) for what in there]
        series += [_lost(line, machine, end, i + 1), _mark(crash, i), _mark(crash, i + 1)]
    times[-1] |= axis("ms since the first iteration shown began")
    option = base_option() | {
        "tooltip": {"confine": True, "trigger": "item", "formatter": "{b}"},
        "legend": base_option()["legend"] | {"data": [*legend, {"name": _LOST, "icon": _STEPS}]},
        "grid": grids,
        "xAxis": times,
        "yAxis": ups,
        "series": series,
    }
    return Panel(
        "What the training and the saver did, and what a crash would have cost, by the ms",
        _sentence(found, machine),
        option,
        "For each way to save, bars of what the training loop and the saver do over time, and "
        "below them a line of the iterations that a crash would cost.",
        _table(found),
        _TOP + len(found) * _BLOCK + 30,
    )


def _spans(line: Timeline, what: str) -> list[Span]:
    return [s for s in (*line.loop, *line.saver) if s.what == what]


def _bars(what: str, line: Timeline, grid: int, window: tuple[float, float]) -> Option:
    """Spans of one kind, cut at the window, in ms: the end of a wide line would stick out."""
    low, high = window
    colour, width = _BARS[what]
    lane = 0 if what in (TRAINS, STANDS_STILL) else 1
    noun = "iteration" if what == TRAINS else "step"
    data = [
        {
            "name": f"{what} {_ms(s.seconds)}, {noun} {s.step}",
            "coords": [
                [round(max(1e3 * s.begin, low), 3), lane],
                [round(min(1e3 * s.end, high), 3), lane],
            ],
        }
        for s in _spans(line, what)
        if 1e3 * s.begin < high and 1e3 * s.end > low
    ]
    return {
        "name": what,
        "type": "lines",
        "coordinateSystem": "cartesian2d",
        "xAxisIndex": grid,
        "yAxisIndex": grid,
        "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "width": width, "opacity": 1, "curveness": 0, "cap": "butt"},
        "data": data,
    }


def _lost(line: Timeline, machine: bool, end: float, grid: int) -> Option:
    points = [*line.behind(machine), (end, line.lost(end, machine))]
    return {
        "name": _LOST,
        "type": "line",
        "step": "end",
        "symbol": "none",
        "silent": True,
        "xAxisIndex": grid,
        "yAxisIndex": grid,
        "itemStyle": {"color": GREY},
        "lineStyle": {"color": GREY, "width": 1.5},
        "areaStyle": {"color": GREY, "opacity": 0.35},
        "data": [[round(1e3 * second, 3), lost] for second, lost in points],
    }


def _mark(crash: float, grid: int) -> Option:
    """A series of its own, because the others come and go."""
    label = {"formatter": "crash", "position": "start"} if grid == 0 else {"show": False}
    return {
        "type": "line",
        "xAxisIndex": grid,
        "yAxisIndex": grid,
        "data": [],
        "silent": True,
        "markLine": {
            "symbol": "none",
            "silent": True,
            "lineStyle": {"color": VERMILION, "type": "dashed", "width": 2},
            "data": [{"xAxis": round(1e3 * crash, 3), "label": label}],
        },
    }


def _sentence(found: Sequence[Timeline], machine: bool) -> str:
    told = []
    for line in found:
        text = (
            f"{line.way} {_ms(line.pause)} for a checkpoint, "
            f"{_share(line.pause / line.iteration)} of an iteration"
        )
        merged = {s.step for s in _spans(line, MERGES)}
        if long := [s.seconds for s in line.pauses if s.step in merged]:
            text += f", and {_ms(median(long))} where {MERGED_AT_ONCE} deltas were merged"
        told.append(text)
    worst = ", ".join(f"{line.way} {max(n for _, n in line.behind(machine))}" for line in found)
    who = "machine" if machine else "training alone"
    return (
        f"The loop stood still: {'; '.join(told)}. A crash of the {who} at the worst moment would "
        f"have cost, in iterations: {worst}."
    )


def _ms(seconds: float) -> str:
    """0.01234 -> '12.3 ms'."""
    value = 1e3 * seconds
    return f"{value:.3g} ms" if value < 999.5 else f"{value:,.0f} ms"


def _share(share: float) -> str:
    """Two digits: a measured time has no more."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:,.0f} %"


def _table(found: Sequence[Timeline]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "way": line.way,
                "who": who,
                "what": s.what,
                "step": s.step,
                "from, ms": round(1e3 * s.begin, 3),
                "to, ms": round(1e3 * s.end, 3),
                "took, ms": round(1e3 * s.seconds, 3),
            }
            for line in found
            for who, spans in (("training", line.loop), ("saver", line.saver))
            for s in spans
        ]
    )


def ways_table(found: Sequence[Timeline]) -> pd.DataFrame:
    """What each way costs, a column for each: time in the loop, and bytes on disk."""
    table = {
        "": [
            "an iteration, median",
            "the loop stands still for a checkpoint, median",
            "as a share of an iteration",
            "the loop stands still, of all time shown",
            "a checkpoint is on disk after, median",
            "all deltas on disk, warm-up included",
            "in records",
            "steps that can be restored",
        ]
    }
    for line in found:
        table[line.way] = [
            _ms(line.iteration),
            _ms(line.pause),
            _share(line.pause / line.iteration),
            _share(line.still),
            _ms(line.delay),
            nbytes_text(line.nbytes),
            f"{line.records:,}",
            f"{line.steps:,}",
        ]
    return pd.DataFrame(table)


def crash_table(found: Sequence[Timeline], crash: float, machine: bool) -> pd.DataFrame:
    """What a crash at this second leaves in each way."""
    rows = []
    for line in found:
        done, restored = line.iterated(crash), line.restored(crash, machine)
        rows.append(
            {
                "saved": f"**{line.way}**",
                "the training": _doing(line.loop, crash),
                "the saver": _doing(line.saver, crash),
                "iterations finished": str(done),
                "restored is step": str(restored),
                "lost": plural(done - restored, "iteration"),
            }
        )
    return pd.DataFrame(rows)


def _doing(spans: Sequence[Span], second: float) -> str:
    """What is under way."""
    for s in spans:
        if s.begin <= second < s.end:
            return f"{s.what} ({s.step})"
    return "is done" if second >= spans[-1].end else "waits"


def ticks(end: float) -> tuple[float, float]:
    """For a slider over so many seconds: its end in ms, and a step that is easy to read."""
    most = 1e3 * end
    step = next(s * 10.0**p for p in range(-1, 9) for s in (1, 2, 5) if most <= 500 * s * 10.0**p)
    return round(math.ceil(most / step) * step, 1), step
