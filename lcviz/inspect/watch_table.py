"""Several chains side by side in numbers, and how long ago their last records came."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from lcviz.lab.chain_summary import Summary
from lcviz.text import kept_text, plural
from lcviz.ui.coding_form import CODERS, SCOPES

from .watch import Watched

LEAST_GAP = 0.05  # seconds between records: if they came faster, they were copied
SKEW = 5.0  # seconds that a file server's clock may be ahead without being mentioned
BUSY_SECONDS = 60  # any training may pause this long between two records
PATIENCE = 3  # a training is quiet after this many times its usual gap


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
    """What the newest record keeps, and how many other settings there were before."""
    if not summary.codings:
        return None
    coding, earlier = summary.codings[-1], len(summary.codings) - 1
    text = f"{kept_text(coding)}, {SCOPES[coding.scope]}"
    return f"{text}, {earlier} other before" if earlier else text


def _grows(seconds: float, gap: float | None) -> bool:
    """Whether this many seconds without a record are usual. gap: as in `Summary`."""
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
