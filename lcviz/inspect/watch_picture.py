"""Several chains side by side as they grow: bytes of each record, and their sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from lcviz.lab.chain_summary import Point
from lcviz.report.figure_parts import shortened, thinned
from lcviz.text import nbytes_text, percent_text, plural
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture

from .watch import Watched

COLOURS, DASHES = ("down", "up", "good", "table"), ("solid", "dash", "dot")
MOST_LINES = len(COLOURS) * len(DASHES)  # no two are drawn alike
MOST_POINTS = 2000  # of all lines together: they are sent at every tick
NAME_LENGTH = 30
HEIGHT = 300  # CSS pixels
WIDTH_OF_LETTER = 7  # CSS pixels
MANY_TIMES = 20  # largest ÷ smallest share from which the axis is logarithmic
MEASURES = {
    "share": "A step, % of float32",
    "bytes": "Bytes so far",
    "times": "Times smaller so far",
}
_ABOUT = {
    "share": "each record, by step · bases, which are exact, are left out",
    "bytes": "on disk, by step",
    "times": "float32 bytes ÷ bytes on disk, by step",
}
_UNITS = {"GB": 1e9, "MB": 1e6, "kB": 1e3}
_VALUES: dict[str, Callable[[Point], float | None]] = {
    "share": lambda p: None if p.share is None else 100 * p.share,
    "bytes": lambda p: p.nbytes,
    "times": lambda p: p.full_nbytes / p.nbytes if p.full_nbytes else None,
}
Line = list[tuple[int, float]]  # of step and value


def runs_over_steps(runs: Sequence[Watched], measure: str) -> Picture | None:
    """A line for each run, by step; None while there is nothing to draw.

    measure: one of MEASURES.
    """
    run_lines = [(run, line) for run in runs if (line := _line(run, measure))]
    if not run_lines:
        return None
    if len(run_lines) > MOST_LINES:  # then those with the newest records
        run_lines.sort(key=lambda pair: pair[0].summary.stamp if pair[0].summary else 0)
        run_lines = sorted(run_lines[-MOST_LINES:], key=lambda pair: pair[0].number)
    xs, ys = zip(*(point for _, line in run_lines for point in line))
    first, last, low, high = min(xs), max(xs), min(ys), max(ys)
    about, unit = _ABOUT[measure], 1.0
    if measure == "bytes":
        units = ((name, size) for name, size in _UNITS.items() if high >= size)
        unit_name, unit = next(units, ("bytes", 1.0))
        about = f"{unit_name} {about}"
    log = measure == "share" and 0 < MANY_TIMES * low < high
    if log:
        about += " · log scale"
    most_points = max(MOST_POINTS // len(run_lines), 2)
    labels = [shortened(run.name, NAME_LENGTH) for run, _ in run_lines]
    if len(set(labels)) < len(labels):  # only their beginnings tell them apart
        labels = [run.name for run, _ in run_lines]
    lines = [
        _line_data(run, label, thinned(line, most_points), unit)
        for label, (run, line) in zip(labels, run_lines)
    ]
    return Picture(
        "curves",
        {
            "title": MEASURES[measure],
            "about": about,
            "text": _sentence([run for run, _ in run_lines], runs, measure),
            "lines": lines,
            "marks": [
                {"step": x, "text": f"step {x}", "strong": False} for x in sorted({first, last})
            ],
            "range": [first, max(last, first + 1)],
            "log": log,
            "unit": "step",
            "height": HEIGHT,
            "right": 14 + WIDTH_OF_LETTER * max(map(len, labels)),
            "clickable": False,
        },
        partial(_table, run_lines, measure),
    )


def _line_data(
    run: Watched, label: str, line: Sequence[tuple[int, float]], unit: float
) -> dict[str, Any]:
    """A line for the picture. unit: its values are divided by it."""
    return {
        "name": run.name,
        "label": label,
        "colour": COLOURS[run.number % len(COLOURS)],
        "dash": DASHES[run.number // len(COLOURS) % len(DASHES)],
        "ends": True,
        "x": [step for step, _ in line],
        "y": [plotted(value / unit, 4) for _, value in line],
    }


def _line(run: Watched, measure: str) -> Line:
    points = run.summary.points if run.summary else ()
    values = ((p.step, _VALUES[measure](p)) for p in points)
    return [(step, value) for step, value in values if value is not None]


def _table(run_lines: Sequence[tuple[Watched, Line]], measure: str) -> pd.DataFrame:
    rows = [(run.name, step, value) for run, line in run_lines for step, value in line]
    return pd.DataFrame(rows, columns=["run", "step", MEASURES[measure]])


def _sentence(drawn_runs: Sequence[Watched], runs: Sequence[Watched], measure: str) -> str:
    summaries = [(run.name, run.summary) for run in drawn_runs if run.summary is not None]
    if measure == "share":
        shares = sorted((summary.share or 0.0, name) for name, summary in summaries)
        (low, least), (high, most) = shares[0], shares[-1]
        text = f"On average a step takes {percent_text(low)} of float32 in {least}"
        if least != most:
            text += f" and {percent_text(high)} in {most}"
        text += "."
    else:
        steps = plural(sum(len(s.steps) for _, s in summaries), "step")
        nbytes, full = (sum(n) for n in zip(*((s.nbytes, s.full_nbytes) for _, s in summaries)))
        text = (
            f"{steps} of {plural(len(summaries), 'run')} in {nbytes_text(nbytes)} instead of "
            f"{nbytes_text(full)}, bases included."
        )
    if len(drawn_runs) == MOST_LINES < len(runs):
        text += f" Only the {MOST_LINES} runs with the newest records are drawn."
    return text
