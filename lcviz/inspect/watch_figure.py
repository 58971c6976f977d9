"""Several chains side by side, as they grow: what each record takes, and what that comes to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from lcviz.text import CODER_NAMES, nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import BLUE, GREEN, PURPLE, VERMILION, Option, Panel, base_option, plotted

from .heads import Account, Keep, Point
from .rhythm import grows
from .watch import Watched

COLOURS, DASHES = (BLUE, VERMILION, GREEN, PURPLE), ("solid", "dashed", "dotted")
SYMBOLS = ("circle", "rect", "triangle")
MOST_LINES = len(COLOURS) * len(DASHES)  # no two are drawn alike
MOST_POINTS = 2000  # of all lines together: what is sent at every tick
FEW = 25  # points that are drawn one by one
NAME_LENGTH = 30
LEAST_GAP = 0.05  # seconds: below that records were copied, or are too many to wait for
SKEW = 5.0  # seconds that a file server's clock may be ahead without a word
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


def runs_over_steps(runs: Sequence[Watched], measure: str) -> Panel | None:
    """A line for each run, by step; None while there is nothing to draw.

    measure: one of MEASURES.
    """
    drawn = [(run, line) for run in runs if len(line := _points(run, measure)) > 0]
    if not drawn:
        return None
    if len(drawn) > MOST_LINES:  # what is written now is among them
        drawn = sorted(drawn, key=lambda one: one[0].account.stamp if one[0].account else 0)
        drawn = sorted(drawn[-MOST_LINES:], key=lambda one: one[0].number)
    most = max(MOST_POINTS // len(drawn), 2)
    names = _names([run for run, _ in drawn])
    few = max(len(line) for _, line in drawn) <= FEW
    series = [
        {
            "name": name,
            "type": "line",
            "symbol": SYMBOLS[_style(run)],
            "symbolSize": 6,
            "showSymbol": few,
            "data": _thinned(line, most),
            "lineStyle": {"color": colour, "type": DASHES[_style(run)], "width": 2},
            "itemStyle": {"color": colour},
        }
        for name, (run, line) in zip(names, drawn)
        for colour in [COLOURS[run.number % len(COLOURS)]]
    ]
    steps = [x for _, line in drawn for x, _ in line]
    values = [y for _, line in drawn for _, y in line]
    axis: Option = {"type": "value", "min": 0}
    if measure == "share":
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        axis = {"type": "log", "min": 10**low, "max": 10 ** max(high, low + 1)}
    base = base_option()
    option = base | {
        "legend": base["legend"] | {"type": "scroll", "left": 8, "right": 8},
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 84, "right": 24, "top": 44, "bottom": 48}],
        "xAxis": {
            "type": "value",
            "name": "step (iterations)",
            "nameLocation": "middle",
            "nameGap": 28,
            "min": min(steps),
            "max": max(max(steps), min(steps) + 1),
            "minInterval": 1,
            "axisLabel": {"hideOverlap": True},
        },
        "yAxis": axis | {"name": _AXES[measure], "nameLocation": "middle", "nameGap": 66},
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


def runs_table(runs: Sequence[Watched], now: float) -> pd.DataFrame:
    """One row a run, with the same columns whatever happens. now: seconds since 1970."""
    known = [run.account for run in runs]
    return pd.DataFrame(
        {
            "run": [run.name for run in runs],
            "state": [_state(run, now) for run in runs],
            "steps": [a and a.steps for a in known],
            "newest step": [a and a.newest for a in known],
            "last record": [
                ago_text(now - a.stamp / 1e9) if a and a.stamp else None for a in known
            ],
            "% of float32": [_percent(a) for a in known],
            "times smaller": [_rounded(a.times if a else None, 1) for a in known],
            "a step, bytes": [_rounded(a.step_nbytes if a else None, 0) for a in known],
            "on disk, bytes": [a and a.nbytes for a in known],
            "kept": [_kept(a) for a in known],
            "coder": [_coder(a) for a in known],
        }
    ).astype(dict.fromkeys(("steps", "newest step", "a step, bytes", "on disk, bytes"), "Int64"))


def since_text(stamp: int, gap: float | None, now: float) -> str:
    """When the last record came, whether that is long ago, and what it may mean.

    stamp: ns. gap: seconds from record to record until then, None if that is not known. now:
    seconds since 1970.
    """
    seconds = now - stamp / 1e9
    text = f"Last record {ago_text(seconds)}"
    if gap is not None and gap >= LEAST_GAP:
        text += f"; until then one came every {_duration(gap)}"
    if not grows(seconds, gap):
        text += ". No new one for so long: the training has ended, rests or stalls"
    return text + "."


def kept_text(keep: Keep) -> str:
    """How much of a change is kept."""
    if keep.budget is not None:
        return f"budget {percent_text(keep.budget)}"
    return "all buckets" if keep.bits is None else plural(keep.bits, "bit")


def _points(run: Watched, measure: str) -> list[tuple[int, float]]:
    every = run.account.points if run.account else ()
    found = ((p.step, _VALUES[measure](p)) for p in every)
    return [(step, value) for step, value in found if value is not None]


def _thinned(line: Sequence[tuple[int, float]], most: int) -> list[list[float | None]]:
    """At most so many points, evenly chosen, the newest always among them."""
    stride = -(-len(line) // most) or 1
    return [[step, plotted(value, 4)] for step, value in line[::-1][::stride][::-1]]


def _style(run: Watched) -> int:
    return run.number // len(COLOURS) % len(DASHES)


def _names(runs: Sequence[Watched]) -> list[str]:
    """As the legend gives them: the end of a long name says more than its begin."""
    short = [
        n if len(n) <= NAME_LENGTH else "…" + n[1 - NAME_LENGTH :] for n in (r.name for r in runs)
    ]
    return short if len(set(short)) == len(short) else [run.name for run in runs]


def _sentence(drawn: Sequence[Watched], runs: Sequence[Watched], measure: str) -> str:
    told = [(run.name, run.account) for run in drawn if run.account is not None]
    if measure == "share":
        least, most = (pick(told, key=lambda one: one[1].share or 0.0) for pick in (min, max))
        text = f"On average a step takes {_share(least)} of float32 in {plain(least[0])}"
        if least[0] != most[0]:
            text += f" and {_share(most)} in {plain(most[0])}"
        text += ". Bases, which are exact, are left out."
    else:
        steps, whole = sum(a.steps for _, a in told), sum(a.full_nbytes for _, a in told)
        nbytes = sum(a.nbytes for _, a in told)
        text = (
            f"{plural(steps, 'step')} of {plural(len(told), 'run')} in {nbytes_text(nbytes)} "
            f"instead of {nbytes_text(whole)}, bases included."
        )
    if len(drawn) == MOST_LINES < len(runs):
        text += f" Drawn are the {MOST_LINES} runs with the newest records."
    return text


def _share(one: tuple[str, Account]) -> str:
    return percent_text(one[1].share or 0.0)


def _table(drawn: Sequence[tuple[Watched, list[tuple[int, float]]]], measure: str) -> pd.DataFrame:
    rows = [(run.name, step, value) for run, line in drawn for step, value in line]
    return pd.DataFrame(rows, columns=["run", "step", MEASURES[measure]])


def _state(run: Watched, now: float) -> str:
    if run.problem:
        return "cannot be opened"
    if run.account is None:
        return "no record yet" if run.reached else "not reached yet"
    if n := len(run.account.problems):
        return plural(n, "damaged record")
    if run.unread:
        return f"{run.unread:,} to read"
    if not run.account.stamp:
        return "ok"
    return "growing" if grows(now - run.account.stamp / 1e9, run.account.gap) else "quiet"


def ago_text(seconds: float) -> str:
    """How long ago something was; ahead of now is what another machine's clock says."""
    if seconds < -SKEW:
        return f"{_duration(-seconds)} ahead"
    return f"{_duration(max(math.floor(seconds), 0))} ago"


def _duration(seconds: float) -> str:
    for unit, size in (("day", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and unit != "day"):
            n = int(seconds // size)
            return plural(n, unit) if unit == "day" else f"{n} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _percent(found: Account | None) -> float | None:
    return None if found is None or found.share is None else round(100 * found.share, 3)


def _kept(found: Account | None) -> str | None:
    """The newest record's, and whether others were written otherwise."""
    if found is None or not found.keeps:
        return None
    keep = found.keeps[-1]
    scope = "each tensor" if keep.scope == "tensor" else "whole model"
    more = f", {len(found.keeps) - 1} other before" if len(found.keeps) > 1 else ""
    return f"{kept_text(keep)}, {scope}{more}"


def _coder(found: Account | None) -> str | None:
    if found is None or not found.keeps:
        return None
    return CODER_NAMES[found.keeps[-1].coder].removesuffix(" Huffman")
