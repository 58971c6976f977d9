"""The race back after a crash: the loss of each method until it is as low as before the crash."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import loss_text

from .charts import OTHER, RESTORED, plotted
from .picture import Picture

# As RACE_LOOKS in race.js. Of each method: colour, and Plotly's names of its symbol and dash.
STYLES = {
    "full": (OTHER, "square", "solid"),
    "SCAR": (OTHER, "circle", "dash"),
    "TOPN": (OTHER, "triangle-up", "dot"),
    "LC Huffman": (RESTORED, "diamond", "dash"),
    "LC run-length": (RESTORED, "hexagon", "solid"),
    "LC": (RESTORED, "diamond", "solid"),
}
BEFORE, CALM = "before", "no crash"  # names of lines
Points = list[tuple[float, float]]  # iterations after the crash, loss


@dataclass(frozen=True)
class Ways:
    """The lines of one race.

    smooth: whether losses are smoothed, as rework is counted; else they are as measured. by_method:
    see `way_back`. calm: the training that did not crash, as far as it is drawn. before: the losses
    up to the crash, which is at 0; empty if they are not known. cap: the iterations after which a
    method is given up.
    """

    smooth: bool
    by_method: dict[str, tuple[Points, float | None]]
    calm: Points
    before: Points
    cap: int


def ways_back(outcomes: Sequence[Outcome], smooth: bool) -> Ways:
    """The lines of outcomes of one seed."""
    ways = {o.method.name: way_back(o, smooth) for o in outcomes}
    race = outcomes[0].race
    calm = race.trend if smooth else race.undisturbed
    before = race.trend_before if smooth else race.before
    last = max(points[-1][0] for points, _ in ways.values())
    until = min(max(math.ceil(1.15 * last), 5), len(calm) - 1)
    return Ways(
        smooth,
        ways,
        [(float(r), calm[r]) for r in range(until + 1)],
        [(float(i + 1 - len(before)), loss) for i, loss in enumerate(before)],
        outcomes[0].since + len(calm) - 1,
    )


def way_back(o: Outcome, smooth: bool) -> tuple[Points, float | None]:
    """The line of one method until its loss is back, and after how many iterations; None: never."""
    values = o.on_trend if smooth else o.race.restored
    rework, capped = (o.rework, o.capped) if smooth else (o.rework_raw, o.capped_raw)
    whole = [(float(r), v) for r, v in enumerate(values) if r < rework or r == 0 or capped]
    if not capped and smooth and rework > 0:
        # It may lie below at once.
        end = values[int(rework)] if rework == int(rework) < len(values) else math.inf
        whole.append((rework, min(end, o.race.trend[0])))
    elif not capped and rework > 0:
        whole.append((float(rework), values[int(rework)]))
    return whole, None if capped else whole[-1][0]


def race_picture(
    outcomes: Sequence[Outcome],
    at: int,
    estimate: float | None = None,
    *,
    smooth: bool = True,
    over: bool = True,
    same_bytes: bool = False,
    prices: Sequence[Mapping[str, Any]] = (),
) -> Picture:
    """The loss of each method after a crash, and of the training that did not crash.

    Args:
        outcomes: of one seed so far, at least one; the last may be under way.
        at: the iteration of the crash.
        estimate: of LC's price before the race, in iterations; None if there was none.
        smooth: see `Ways`.
        over: whether no method is under way; then the race is played.
        same_bytes: whether LC, SCAR and TOPN had the same bytes: then the picture says who wins.
        prices: of each method over all seeds, drawn below, see `Price` in race.js.
    """
    ways = ways_back(outcomes, smooth)
    return Picture(
        "curves",
        {
            "kind": "race",
            "at": at,
            "ways": [_way(outcome, *ways.by_method[outcome.method.name]) for outcome in outcomes],
            "before": [plotted(loss) for _, loss in ways.before],
            "calm": [plotted(loss) for _, loss in ways.calm],
            "cap": ways.cap,
            "smooth": smooth,
            "over": over,
            "bytes": same_bytes,
            "estimate": estimate,
            "prices": [*prices],
        },
        partial(race_table, ways),
    )


def _way(outcome: Outcome, points: Points, end: float | None) -> dict[str, Any]:
    return {
        "name": outcome.method.name,
        "nbytes": outcome.nbytes,
        "rework": outcome.rework,
        "capped": end is None,
        "points": [[round(x, 4), plotted(y)] for x, y in points],
    }


def race_table(ways: Ways) -> pd.DataFrame:
    """Losses at whole iterations; empty where a line has ended."""
    lines = {name: points for name, (points, _) in ways.by_method.items()}
    columns = {BEFORE: ways.before, CALM: ways.calm} | lines
    whole = {name: {x: y for x, y in points if x == int(x)} for name, points in columns.items()}
    rows = sorted({x for losses in whole.values() for x in losses})
    sign = "+.0f" if rows[0] < 0 else ".0f"
    table: dict[str, list[object]] = {"iteration": [format(x, sign) if x else "0" for x in rows]}
    for name, losses in whole.items():
        table[name] = [loss_text(losses[x], 5) if x in losses else "" for x in rows]
    return pd.DataFrame(table).drop(columns=[] if ways.before else [BEFORE])
