"""The race back after a crash: the loss of each method until it is as low as before the crash."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import amount_text, enumerated, loss_text, plural, short_loss_text

from .charts import BLUE, GREEN, PURPLE, VERMILION, plotted
from .picture import Picture

# Of each method: colour, and Plotly's names of its symbol and dash.
STYLES = {
    "full": (GREEN, "square", "solid"),
    "SCAR": (VERMILION, "circle", "dash"),
    "TOPN": (PURPLE, "triangle-up", "dot"),
    "LC Huffman": (BLUE, "diamond", "dash"),
    "LC run-length": (BLUE, "hexagon", "solid"),
    "LC": (BLUE, "diamond", "solid"),
}
TITLE = "Race back"
HEIGHT = 230  # CSS pixels
FLAT = 2  # from this multiple of the loss before the crash on, the axis is logarithmic
SECONDS = 6  # that the race takes on the screen
BEFORE, CALM = "before", "no crash"  # names of lines
_COLOURS = {GREEN: "good", VERMILION: "up", PURPLE: "table", BLUE: "down"}
_LETTER = 6.4  # CSS pixels, of a name beside the end of its line
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

    @property
    def level(self) -> float:
        """The loss before the crash."""
        return self.calm[0][1]


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
    text: str = "",
    about: str = "",
    *,
    smooth: bool = True,
    over: bool = True,
) -> Picture:
    """The loss of each method after a crash, and of the training that did not crash.

    Args:
        outcomes: of one seed so far, at least one; the last may be under way.
        at: the iteration of the crash.
        text: the sentence below the picture; "" for `race_sentence`.
        about: more words beside the title.
        smooth: see `Ways`.
        over: whether no method is under way; then the race is played.
    """
    ways = ways_back(outcomes, smooth)
    lines = [
        _line(BEFORE, "grey", "solid", ways.before),
        _line(CALM, "grey", "dot", ways.calm) | {"label": CALM},
    ]
    for name, (points, end) in ways.by_method.items():
        colour, _, dash = STYLES[name]
        running = not over and name == outcomes[-1].method.name
        price = f" {amount_text(points[-1][0])}" if end is not None else f" > {ways.cap}"
        label = {"label": name if running else f"{name}{price}", "ends": not running}
        lines.append(_line(name, _COLOURS[colour], dash, points) | label)
    losses = [y for line in lines for y in line["y"] if y is not None]
    measure = "smoothed loss" if smooth else "loss as measured"
    return Picture(
        "curves",
        TITLE,
        f"{measure}, by iterations after the crash{about}",
        text or race_sentence(ways),
        {
            "lines": lines,
            "marks": [{"step": 0, "text": f"crash at {at}", "strong": True}],
            "level": {"y": plotted(ways.level), "text": f"{short_loss_text(ways.level)} before"},
            "range": [ways.before[0][0] if ways.before else 0, ways.calm[-1][0]],
            "log": min(losses) > 0 and max(losses) > FLAT * ways.level,  # else all lie on the level
            "unit": "iteration",
            "height": HEIGHT,
            "right": round(10 + _LETTER * max(len(line["label"]) for line in lines)),
            "clickable": False,
        }
        | ({"play": SECONDS} if over else {}),
        partial(race_table, ways),
    )


def _line(name: str, colour: str, dash: str, points: Points) -> dict[str, Any]:
    return {
        "name": name,
        "label": "",
        "colour": colour,
        "dash": dash,
        "x": [round(x, 4) for x, _ in points],
        "y": [plotted(y) for _, y in points],
    }


def race_sentence(ways: Ways) -> str:
    """A sentence about when each method is back."""
    back = [(end, name) for name, (_, end) in ways.by_method.items() if end is not None]
    parts = [
        f"{name} {f'after {amount_text(end)}' if end else 'at once'}"
        for end, name in sorted(back, key=itemgetter(0))
    ]
    if never := [name for name, (_, end) in ways.by_method.items() if end is None]:
        parts.append(f"{enumerated(never)} not within {plural(ways.cap, 'iteration')}")
    ends_at = "it is back, or given up" if never else "it is back"
    return (
        f"{'Smoothed loss' if ways.smooth else 'Loss'} before the crash: "
        f"{loss_text(ways.level, 4)}. Back: {', '.join(parts)}. Each line ends where {ends_at}."
    )


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
