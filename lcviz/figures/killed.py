"""A live run was killed: the loss before, each method's way back, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ..lab.recovery import Outcome
from .panel import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Option,
    Panel,
    base_option,
    loss_text,
    nbytes_text,
    percent_text,
    plotted,
    plural,
)
from .recovery import Points, race_line, race_sentence, way_back

# Of each method: colour, symbol, dash.
_STYLES = {
    "full": (GREEN, "rect", "solid"),
    "scar": (VERMILION, "circle", "dashed"),
    "topn": (PURPLE, "triangle", "dotted"),
    "lc": (BLUE, "diamond", "solid"),
}
_BEFORE, _CALM = "before the crash", "did not crash"
_DOTS = "path://M0,8L4,8L4,10L0,10ZM7,8L11,8L11,10L7,10ZM14,8L18,8L18,10L14,10Z"
_DASH = "path://M0,8L18,8L18,10L0,10Z"
LEVEL = 0.05  # iterations within which two are told to be level


def killed_panel(outcomes: Sequence[Outcome], killed_at: int, smooth: bool) -> Panel:
    """Losses around the crash. outcomes: one of each kind. smooth: on the trend."""
    lines, ends = {}, {}
    for o in outcomes:
        lines[o.method.name], ends[o.method.name] = way_back(o, smooth)
    race = outcomes[0].race
    calm = race.trend if smooth else race.undisturbed
    told = race.trend_before if smooth else race.before
    before = [(float(i + 1 - len(told)), loss) for i, loss in enumerate(told)]
    last = max(points[-1][0] for points in lines.values())
    until = min(max(math.ceil(1.15 * last), 5), len(calm) - 1)
    calm_points = [(float(r), calm[r]) for r in range(until + 1)]
    series = [
        race_line(_BEFORE, GREY, "none", "solid", before) | {"markLine": _marks(calm[0])},
        race_line(_CALM, GREY, "none", "dotted", calm_points),
    ]
    cap = len(calm) - 1
    names = {name: _told(name, end, cap) for name, end in ends.items()}
    for o in outcomes:
        own = o.method.name
        series.append(race_line(names[own], *_STYLES[o.method.kind], lines[own]))
    option = base_option() | {
        "tooltip": {"show": False},
        "legend": base_option()["legend"] | {
            "data": [
                {"name": _BEFORE, "icon": _DASH}, {"name": _CALM, "icon": _DOTS},
                *({"name": name} for name in names.values()),
            ]
        },
        "grid": [{"left": 72, "right": 76, "top": 84, "bottom": 48}],
        "xAxis": {
            "type": "value", "name": f"iterations after the crash (at iteration {killed_at})",
            "nameLocation": "middle", "nameGap": 28, "min": before[0][0] if before else 0,
            "max": until,
        },
        "yAxis": {
            "type": "value", "name": "loss on held-out examples", "nameLocation": "middle",
            "nameGap": 52, "scale": True,
        },
        "series": series,
    }  # fmt: skip
    return Panel(
        f"The way back: loss around the crash, {'on the trend' if smooth else 'as measured'}",
        f"{race_sentence(outcomes, calm[0], ends)} In brackets: iterations until then.",
        option,
        "Loss before the crash, and of each method and of the undisturbed training after it.",
        _table(before, calm_points, lines),
        420,
    )


def _marks(level: float) -> Option:
    """The moment of the crash, and the loss to come back to."""
    return {
        "symbol": "none", "silent": True, "lineStyle": {"color": GREY, "type": "dashed"},
        "data": [
            {"yAxis": plotted(level),
             "label": {"formatter": "back\nagain", "position": "end", "lineHeight": 14}},
            {"xAxis": 0, "label": {"formatter": "crash", "position": "end"}},
        ],
    }  # fmt: skip


def _told(name: str, end: float | None, cap: int) -> str:
    """A method's name in the legend: when it is back."""
    if end is None:
        return f"{name} (> {cap})"
    return f"{name} ({end:.3g})" if end else f"{name} (at once)"


def _table(before: Points, calm: Points, lines: dict[str, Points]) -> pd.DataFrame:
    """Losses at whole iterations; empty where a line has ended."""
    columns = {_BEFORE: before, _CALM: calm, **lines}
    whole = {name: {x: y for x, y in points if x == int(x)} for name, points in columns.items()}
    rows = sorted({x for own in whole.values() for x in own})
    table: dict[str, list[object]] = {"iteration": [f"{x:+.0f}" if x else "0" for x in rows]}
    for name, own in whole.items():
        table[name] = [loss_text(own[x], 5) if x in own else "" for x in rows]
    return pd.DataFrame(table)


def rework_table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """What the crash cost with each method."""
    return pd.DataFrame(
        [
            {
                "method": f"**{o.method.name}**",
                "rework, iterations": _amount(o),
                "as measured": f"{'≥ ' if _never(o) else ''}{o.rework_raw}",
                "a checkpoint": f"{nbytes_text(o.nbytes)}, {percent_text(o.share)}",
                "distance": percent_text(o.distance),
                "loss right after restoring": loss_text(o.loss_restored, 4),
            }
            for o in outcomes
        ]
    )


def verdict(outcomes: Sequence[Outcome]) -> str:
    """Who won at equal bytes, and by how much; what full takes for its place."""
    (full,) = (o for o in outcomes if o.method.kind == "full")
    equal = sorted((o for o in outcomes if o is not full), key=lambda o: (o.capped, o.rework))
    first, *others = equal
    if first.capped:
        cap = plural(len(first.race.trend) - 1, "iteration")
        text = f"**Nobody wins**: at {_bytes(first)}, none of {_names(equal)} was back within {cap}"
    else:
        level = [o for o in others if not o.capped and o.rework - first.rework < LEVEL]
        others = others[len(level) :]
        winners = _names([first, *level])
        lead = f"**{winners} wins**" if not level else f"**{winners} are level**"
        back = "back at once" if not first.rework else f"back after {_iterations(first.rework)}"
        text = f"{lead}: {back}, at {_bytes(first)}"
        told = [f"{o.method.name} {_needs(o, first)}" for o in others]
        if told:
            text += f"; {', '.join(told)}"
    times = full.nbytes / first.nbytes
    own = f"not back within {full.rework:.0f} iterations" if full.capped else (
        f"back after {_iterations(full.rework)}" if full.rework else "back at once"
    )  # fmt: skip
    return f"{text}. Full, with {times:,.0f} times the bytes, is {own}."


def _needs(o: Outcome, first: Outcome) -> str:
    if o.capped:
        text = f"was not back within {_iterations(o.rework)}"
    else:
        text = f"needs {_iterations(o.rework)}"
    if first.rework < LEVEL:  # a multiple of next to nothing says nothing
        return text
    least = "at least " if o.capped else ""
    return f"{text}, {least}{o.rework / first.rework:.3g} times as many"


def _iterations(n: float) -> str:
    return f"{n:.3g} iteration{'' if n == 1 else 's'}"


def _bytes(o: Outcome) -> str:
    return f"{nbytes_text(o.nbytes)} a checkpoint"


def _names(outcomes: Sequence[Outcome]) -> str:
    *most, last = [o.method.name for o in outcomes]
    return f"{', '.join(most)} and {last}" if most else last


def _amount(o: Outcome) -> str:
    return f"{'≥ ' if o.capped else ''}{o.rework:.2f}"


def _never(o: Outcome) -> bool:
    """Whether its loss itself was never back."""
    return min(o.race.restored) > o.loss_before
