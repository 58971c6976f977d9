"""Several chains side by side as they grow: what each record takes, and what that comes to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from lcviz.lab.chain_summary import Point, Summary
from lcviz.report.figure_parts import STEP, decades, shortened, thinned
from lcviz.text import kept_text, nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import (
    BLUE,
    GREEN,
    PURPLE,
    VERMILION,
    Option,
    Panel,
    axis,
    base_option,
    plotted,
)
from lcviz.ui.coding_form import CODERS, SCOPES

from .watch import Watched

COLOURS, DASHES = (BLUE, VERMILION, GREEN, PURPLE), ("solid", "dashed", "dotted")
SYMBOLS = ("circle", "rect", "triangle")
MOST_LINES = len(COLOURS) * len(DASHES)  # no two are drawn alike
MOST_POINTS = 2000  # of all lines together: they are sent at every tick
FEW = 25  # points that are drawn one by one
NAME_LENGTH = 30
LEAST_GAP = 0.05  # seconds: below that, records were copied
SKEW = 5.0  # seconds that a file server's clock may be ahead without a word
BUSY_SECONDS = 60  # any training may pause this long between two records
PATIENCE = 3  # a training is quiet after this many times its usual gap
MEASURES = {
    "share": "A step, % of float32",
    "bytes": "Bytes so far",
    "times": "Times smaller so far",
}
_AXES = {
    "share": "record, % of float32 (log scale)",
    "bytes": "bytes on disk",
    "times": "float32 bytes ÷ bytes on disk",
}
_VALUES: dict[str, Callable[[Point], float | None]] = {
    "share": lambda p: None if p.share is None else 100 * p.share,
    "bytes": lambda p: p.nbytes,
    "times": lambda p: p.full_nbytes / p.nbytes if p.full_nbytes else None,
}
Line = list[tuple[int, float]]  # of step and value


def runs_over_steps(runs: Sequence[Watched], measure: str) -> Panel | None:
    """A line for each run, by step; None while there is nothing to draw.

    measure: one of MEASURES.
    """
    drawn = [(run, line) for run in runs if len(line := _line(run, measure)) > 0]
    if not drawn:
        return None
    if len(drawn) > MOST_LINES:  # those that grow now are among them
        drawn = sorted(drawn, key=lambda one: one[0].summary.stamp if one[0].summary else 0)
        drawn = sorted(drawn[-MOST_LINES:], key=lambda one: one[0].number)
    most = max(MOST_POINTS // len(drawn), 2)
    few = max(len(line) for _, line in drawn) <= FEW
    names = [shortened(run.name, NAME_LENGTH) for run, _ in drawn]
    if len(set(names)) < len(names):
        names = [run.name for run, _ in drawn]
    series = []
    for name, (run, line) in zip(names, drawn):
        colour = COLOURS[run.number % len(COLOURS)]
        style = run.number // len(COLOURS) % len(DASHES)
        series.append(
            {
                "name": name,
                "type": "line",
                "symbol": SYMBOLS[style],
                "symbolSize": 6,
                "showSymbol": few,
                "data": [[step, plotted(value, 4)] for step, value in thinned(line, most)],
                "lineStyle": {"color": colour, "type": DASHES[style], "width": 2},
                "itemStyle": {"color": colour},
            }
        )
    steps = [x for _, line in drawn for x, _ in line]
    values = [y for _, line in drawn for _, y in line]
    scale: Option = {"min": 0}
    if measure == "share":
        begin, end = decades(min(values), max(values))
        scale = {"type": "log", "min": 10**begin, "max": 10**end}
    limits = {"min": min(steps), "max": max(max(steps), min(steps) + 1), "minInterval": 1}
    base = base_option()
    option = base | {
        "legend": base["legend"] | {"type": "scroll", "left": 8, "right": 8},
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 84, "right": 24, "top": 44, "bottom": 48}],
        "xAxis": axis(STEP, 28, **limits, axisLabel={"hideOverlap": True}),
        "yAxis": axis(_AXES[measure], 66, **scale),
        "series": series,
    }
    return Panel(
        MEASURES[measure],
        _sentence([run for run, _ in drawn], runs, measure),
        option,
        "A line for each run, by step.",
        lambda: _table(drawn, measure),
        340,
    )


def _line(run: Watched, measure: str) -> Line:
    points = run.summary.points if run.summary else ()
    found = ((p.step, _VALUES[measure](p)) for p in points)
    return [(step, value) for step, value in found if value is not None]


def _table(drawn: Sequence[tuple[Watched, Line]], measure: str) -> pd.DataFrame:
    rows = [(run.name, step, value) for run, line in drawn for step, value in line]
    return pd.DataFrame(rows, columns=["run", "step", MEASURES[measure]])


def _sentence(drawn: Sequence[Watched], runs: Sequence[Watched], measure: str) -> str:
    known = [(run.name, run.summary) for run in drawn if run.summary is not None]
    if measure == "share":
        shares = sorted((summary.share or 0.0, name) for name, summary in known)
        (low, least), (high, most) = shares[0], shares[-1]
        text = f"On average a step takes {percent_text(low)} of float32 in {plain(least)}"
        if least != most:
            text += f" and {percent_text(high)} in {plain(most)}"
        text += ". Bases, which are exact, are left out."
    else:
        steps = plural(sum(len(s.steps) for _, s in known), "step")
        nbytes, full = (sum(n) for n in zip(*((s.nbytes, s.full_nbytes) for _, s in known)))
        text = (
            f"{steps} of {plural(len(known), 'run')} in {nbytes_text(nbytes)} instead of "
            f"{nbytes_text(full)}, bases included."
        )
    if len(drawn) == MOST_LINES < len(runs):
        text += f" Drawn are the {MOST_LINES} runs with the newest records."
    return text


def runs_table(runs: Sequence[Watched], now: float) -> pd.DataFrame:
    """One row a run, with the same columns whatever happens. now: seconds since 1970."""
    columns: dict[str, Callable[[Summary], object]] = {
        "steps": lambda s: len(s.steps),
        "newest step": lambda s: s.newest,
        "last record": lambda s: ago_text(now - s.stamp / 1e9) if s.stamp else None,
        "% of float32": lambda s: s.share and round(100 * s.share, 3),
        "times smaller": lambda s: s.times and round(s.times, 1),
        "a step, bytes": lambda s: s.step_nbytes and round(s.step_nbytes),
        "on disk, bytes": lambda s: s.nbytes,
        "kept": _kept,
        "coder": lambda s: CODERS[s.codings[-1].coder] if s.codings else None,
    }
    table = {"run": [run.name for run in runs], "state": [_state(run, now) for run in runs]} | {
        name: [run.summary and value(run.summary) for run in runs]
        for name, value in columns.items()
    }
    integers = ("steps", "newest step", "a step, bytes", "on disk, bytes")
    return pd.DataFrame(table).astype(dict.fromkeys(integers, "Int64"))


def _state(run: Watched, now: float) -> str:
    if run.problem:
        return "cannot be opened"
    if run.summary is None:
        return "no record yet" if run.reached else "not reached yet"
    if n := len(run.summary.problems):
        return plural(n, "damaged record")
    if run.unread:
        return f"{run.unread:,} to read"
    if not run.summary.stamp:
        return "ok"
    return "growing" if _grows(now - run.summary.stamp / 1e9, run.summary.gap) else "quiet"


def _kept(summary: Summary) -> str | None:
    """What the newest record keeps, and whether others were written otherwise."""
    if not summary.codings:
        return None
    keep, others = summary.codings[-1], len(summary.codings) - 1
    text = f"{kept_text(keep)}, {SCOPES[keep.scope]}"
    return f"{text}, {others} other before" if others else text


def _grows(seconds: float, gap: float | None) -> bool:
    """Whether so many seconds without a record are usual. gap: as in `Summary`."""
    return seconds < max(BUSY_SECONDS, PATIENCE * (gap or 0))


def since_text(stamp: int, gap: float | None, now: float) -> str:
    """When the last record came, and what a long silence may mean.

    Args:
        stamp: Of the last record, ns.
        gap: Usual seconds between two records; None if unknown.
        now: Seconds since 1970.
    """
    seconds = now - stamp / 1e9
    text = f"Last record {ago_text(seconds)}"
    if gap is not None and gap >= LEAST_GAP:
        text += f"; until then one came every {_duration(gap)}"
    if not _grows(seconds, gap):
        text += ". Nothing new for so long: the training has ended, pauses or hangs"
    return text + "."


def ago_text(seconds: float) -> str:
    """How long ago something was; "ahead" if another machine's clock says so."""
    if seconds < -SKEW:
        return f"{_duration(-seconds)} ahead"
    return f"{_duration(max(math.floor(seconds), 0))} ago"


def _duration(seconds: float) -> str:
    for unit, size in (("day", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and unit != "day"):
            n = int(seconds // size)
            return plural(n, unit) if unit == "day" else f"{n} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
