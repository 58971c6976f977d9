"""Several chains side by side as they grow: what each record takes, and what that comes to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from lcviz.lab.chain_summary import Point, Summary
from lcviz.report.figure_parts import STEP, decades, label, line, step_range, thinned
from lcviz.text import kept_text, nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import BLUE, GREEN, PURPLE, VERMILION, Panel, base_figure
from lcviz.ui.coding_form import CODERS, SCOPES

from .watch import Watched

COLOURS, DASHES = (BLUE, VERMILION, GREEN, PURPLE), ("solid", "dash", "dot")
SYMBOLS = ("circle", "square", "triangle-up")
MOST_LINES = len(COLOURS) * len(DASHES)  # no two are drawn alike
MOST_POINTS = 2000  # of all lines together: they are sent with every new record
FEW = 25  # points that are drawn one by one
NAME_LENGTH = 30
HEIGHT = 340  # pixels
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
    "share": "record, % of float32 (log)",
    "bytes": "bytes on disk",
    "times": "float32 bytes ÷ bytes on disk",
}
_HOVERS = {"share": "%{y:.3g} %", "bytes": "%{y:,} bytes", "times": "%{y:.4g} ×"}
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
    drawn = [(run, points) for run in runs if (points := _points(run, measure))]
    if not drawn:
        return None
    if len(drawn) > MOST_LINES:  # those that grow now are among them
        drawn = sorted(drawn, key=lambda one: one[0].summary.stamp if one[0].summary else 0)
        drawn = sorted(drawn[-MOST_LINES:], key=lambda one: one[0].number)
    most = max(MOST_POINTS // len(drawn), 2)
    few = max(len(points) for _, points in drawn) <= FEW
    names = [label(run.name, NAME_LENGTH) for run, _ in drawn]
    if len(set(names)) < len(names):
        names = [label(run.name) for run, _ in drawn]
    # The legend grows upwards, three or more names in a row.
    figure = base_figure(STEP, _AXES[measure], HEIGHT, l=84, t=24 + 20 * -(-len(drawn) // 3))
    for name, (run, points) in zip(names, drawn):
        style = run.number // len(COLOURS) % len(DASHES)
        look = (COLOURS[run.number % len(COLOURS)], DASHES[style], SYMBOLS[style])
        figure.add_trace(line(name, look, thinned(points, most), few, _HOVERS[measure]))
    steps = [x for _, points in drawn for x, _ in points]
    values = [y for _, points in drawn for _, y in points]
    figure.update_xaxes(range=step_range(min(steps), max(steps)))
    if measure == "share":
        limits = decades(min(values), max(values))
        figure.update_yaxes(type="log", range=limits, dtick=1, tickformat="~g")
    else:
        figure.update_yaxes(rangemode="tozero")
    return Panel(
        MEASURES[measure],
        _sentence([run for run, _ in drawn], runs, measure),
        figure,
        "A line for each run, by step.",
        lambda: _table(drawn, measure),
        HEIGHT,
    )


def _points(run: Watched, measure: str) -> Line:
    points = run.summary.points if run.summary else ()
    found = ((p.step, _VALUES[measure](p)) for p in points)
    return [(step, value) for step, value in found if value is not None]


def _table(drawn: Sequence[tuple[Watched, Line]], measure: str) -> pd.DataFrame:
    rows = [(run.name, step, value) for run, points in drawn for step, value in points]
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
