"""What a crash costs with each way to save: rework by seed, and the race back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from ..lab.recovery import Outcome
from ..lab.rework import Cost
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

# Of each method: colour, symbol, dash.
STYLES = {
    "full": (GREY, "rect", "solid"),
    "SCAR": (VERMILION, "circle", "dashed"),
    "TOPN": (PURPLE, "triangle", "dotted"),
    "LC Huffman": (GREEN, "diamond", "dashed"),
    "LC run-length": (BLUE, "roundRect", "solid"),
}
Points = list[tuple[float, float]]  # iterations after the failure, loss
_SPREAD = 12  # pixels over which the seeds of one method are set apart
_LIFT = -17  # pixels that they stand above the mean
_CALM = "did not fail"
_DOTS = "path://M0,8L4,8L4,10L0,10ZM7,8L11,8L11,10L7,10ZM14,8L18,8L18,10L14,10Z"
_CAPPED = {"symbol": "arrow", "symbolRotate": -90, "symbolSize": 11}


def rework_panel(costs: Sequence[Cost]) -> Panel:
    """A point for every seed, the mean with its 95 % interval. costs: one for each method."""
    n = costs[0].rework.n
    names = [f"{c.method.name}\n{nbytes_text(c.nbytes)}, {percent_text(c.share)}" for c in costs]
    points = [
        _point(value, row, capped, i, n, cost.method.name)
        for row, cost in enumerate(costs)
        for i, (value, capped) in enumerate(cost.each)
    ]
    means = [
        {
            "value": [round(c.rework.value, 4), row],
            "label": {"formatter": "" if _bounded(c) else _text(c)},
        }
        for row, c in enumerate(costs)
    ]
    bars = [
        (row, max(c.rework.low, 0.0), c.rework.high, _text(c))
        for row, c in enumerate(costs)
        if _bounded(c)
    ]
    most = max(
        max([c.rework.high if _bounded(c) else c.rework.value, *(v for v, _ in c.each)])
        for c in costs
    )
    grey = {"color": GREY}
    option = base_option() | {
        "tooltip": {"show": False},
        "legend": base_option()["legend"] | {"data": ["one seed", "mean, 95 % interval"]},
        "grid": [{"left": 128, "right": 120, "top": 40, "bottom": 48}],
        "xAxis": {
            "type": "value", "name": "rework (iterations)", "nameLocation": "middle",
            "nameGap": 28, "min": 0, "max": _ceiling(most),
        },
        "yAxis": {
            "type": "category", "data": names, "inverse": True, "axisTick": {"show": False},
            "axisLabel": {"lineHeight": 16},
        },
        "series": [
            {"name": "one seed", "type": "scatter", "symbolSize": 8, "itemStyle": grey,
             "data": points},
            {"name": "mean, 95 % interval", "type": "scatter", "symbol": "rect",
             "symbolSize": [3, 12], "itemStyle": grey | {"opacity": 1}, "data": means,
             "label": {"show": True, "position": "right", "distance": 10}},
            {"type": "lines", "coordinateSystem": "cartesian2d", "silent": True,
             "lineStyle": {"color": GREY, "width": 2, "opacity": 1, "curveness": 0},
             "data": [{"coords": [[round(low, 4), row], [round(high, 4), row]]}
                      for row, low, high, _ in bars]},
            {"type": "scatter", "symbolSize": 1, "silent": True, "itemStyle": grey,
             "label": {"show": True, "position": "right", "distance": 8},
             "data": [{"value": [round(high, 4), row], "label": {"formatter": text}}
                      for row, _, high, text in bars]},
        ],
    }  # fmt: skip
    return Panel(
        "Rework: iterations until the loss is back where it was", _sentence(costs), option,
        "Rework of each method in iterations: a point for every seed, the mean and its interval.",
        _table(costs), 60 * len(costs) + 90,
    )  # fmt: skip


def _point(value: float, row: int, capped: bool, i: int, n: int, name: str) -> Option:
    colour, symbol, _ = STYLES[name]
    lift = _LIFT + (_SPREAD * (i / (n - 1) - 0.5) if n > 1 else 0)
    style = _CAPPED if capped else {"symbol": symbol}
    return {
        "value": [round(value, 4), row],
        "symbolOffset": [0, round(lift, 1)],
        "itemStyle": {"color": colour, "opacity": 0.8},
        **style,
    }


def _bounded(cost: Cost) -> bool:
    """Whether there is an interval: of more than one seed, and of none that was capped."""
    return math.isfinite(cost.rework.half) and not cost.capped


def _text(cost: Cost) -> str:
    at_least = "≥ " if cost.capped else ""
    within = f" ± {cost.rework.half:.2f}" if _bounded(cost) else ""
    return f"{at_least}{cost.rework.value:.2f}{within}"


def _ceiling(most: float) -> float:
    """A round number that is not below."""
    if most <= 0:
        return 1.0
    scale = 10.0 ** math.floor(math.log10(most))
    return next(scale * m for m in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if scale * m >= most)


def _sentence(costs: Sequence[Cost]) -> str:
    n = costs[0].rework.n
    text = (
        "One seed, so there is no interval yet." if n == 1
        else f"{n} seeds; the bar is the mean's 95 % interval, not the spread of the seeds."
    )  # fmt: skip
    if any(c.capped for c in costs):
        text += (
            " An arrow was not back when the cap was reached: its rework is that or more, and the "
            "mean has no interval."
        )
    return f"{text} Below each name: bytes of one checkpoint on disk, and their share of float32."


def _table(costs: Sequence[Cost]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "method": c.method.name,
                "rework, mean": _text(c),
                "of each seed": " · ".join(
                    f"{'≥ ' if capped else ''}{value:.2f}" for value, capped in c.each
                ),
                "bytes": f"{c.nbytes:,.0f}",
                "of float32": percent_text(c.share),
            }
            for c in costs
        ]
    )


def race_panel(outcomes: Sequence[Outcome], fail_at: int, smooth: bool) -> Panel:
    """The loss after the failure, of each method and of the training that did not fail.

    outcomes: of one seed. smooth: on the trend, where rework is counted; else as measured. Each
    line ends where the loss is back, and its last point is that.
    """
    lines, ends = {}, {}
    for o in outcomes:
        lines[o.method.name], ends[o.method.name] = way_back(o, smooth)
    first = outcomes[0].race
    calm = first.trend if smooth else first.undisturbed
    level = calm[0]
    last = max(points[-1][0] for points in lines.values())
    until = min(max(math.ceil(1.15 * last), 5), len(calm) - 1)
    mark = {
        "symbol": "none", "silent": True, "lineStyle": {"color": GREY, "type": "dashed"},
        "data": [{"yAxis": plotted(level), "label": {
            "formatter": "before\nthe failure", "position": "end", "lineHeight": 14}}],
    }  # fmt: skip
    calm_points = [(float(r), calm[r]) for r in range(until + 1)]
    series = [race_line(_CALM, GREY, "none", "dotted", calm_points) | {"markLine": mark}]
    series += [race_line(name, *STYLES[name], points) for name, points in lines.items()]
    option = base_option() | {
        "tooltip": {"show": False},
        "legend": base_option()["legend"] | {
            "data": [{"name": _CALM, "icon": _DOTS}, *({"name": name} for name in lines)]
        },
        "grid": [{"left": 72, "right": 76, "top": 64, "bottom": 48}],
        "xAxis": {
            "type": "value", "name": f"iterations after the failure (at iteration {fail_at})",
            "nameLocation": "middle", "nameGap": 28, "min": 0, "max": until,
        },
        "yAxis": {
            "type": "value", "name": "loss on held-out examples", "nameLocation": "middle",
            "nameGap": 52, "scale": True,
        },
        "series": series,
    }  # fmt: skip
    where = "on the trend" if smooth else "as measured"
    return Panel(
        f"The race back: loss after the failure, {where}",
        race_sentence(outcomes, level, ends),
        option,
        "Loss after the failure by iteration, of each method and of the undisturbed training.",
        _race_table(lines, calm_points),
        380,
    )


def way_back(o: Outcome, smooth: bool) -> tuple[Points, float | None]:
    """The line of one method, whose last point is where it is back, and when that is.

    None if it never is. smooth: on the trend.
    """
    values = o.race.on_trend if smooth else o.race.restored
    rework, capped = (o.rework, o.capped) if smooth else (o.rework_raw, _raw_capped(o))
    whole = [(float(r), v) for r, v in enumerate(values) if r < rework or r == 0 or capped]
    if not capped and smooth and rework > 0:
        whole.append((rework, o.race.trend[0]))
    elif not capped and rework > 0:
        whole.append((float(rework), values[int(rework)]))
    return whole, None if capped else whole[-1][0]


def _raw_capped(outcome: Outcome) -> bool:
    return min(outcome.race.restored) > outcome.loss_before


def race_line(
    name: str, colour: str, symbol: str, dash: str, points: Sequence[tuple[float, float]]
) -> Option:
    """A line whose first and last points are marked."""
    data = []
    for i, (x, y) in enumerate(points):
        marked = i in (0, len(points) - 1)
        data.append({"value": [round(x, 4), plotted(y)], "symbolSize": 9 if marked else 0})
    return {
        "name": name, "type": "line", "symbol": symbol, "showSymbol": symbol != "none",
        "showAllSymbol": True, "itemStyle": {"color": colour},
        "lineStyle": {"color": colour, "type": dash, "width": 2}, "data": data,
    }  # fmt: skip


def race_sentence(outcomes: Sequence[Outcome], level: float, ends: dict[str, float | None]) -> str:
    """Who is back when. level: the loss before. ends: by name of the method, see `way_back`."""
    back = {name: end for name, end in ends.items() if end is not None}
    text = f"Before the failure the loss was {loss_text(level, 4)}. Back there: "
    told = [
        f"{name} {'at once' if end == 0 else f'after {end:.3g}'}"
        for name, end in sorted(back.items(), key=lambda item: item[1])
    ]
    never = [name for name, end in ends.items() if end is None]
    if never:
        cap = len(outcomes[0].race.trend) - 1
        told.append(f"{' and '.join(never)} not within {plural(cap, 'iteration')}")
    ends_at = "it is back, or at the cap" if never else "it is back"
    return f"{text}{', '.join(told)}. Each line ends where {ends_at}."


def _race_table(
    lines: dict[str, list[tuple[float, float]]], calm: Sequence[tuple[float, float]]
) -> pd.DataFrame:
    """Losses at whole iterations; empty where a line has ended."""
    whole = {name: {x: y for x, y in points if x == int(x)} for name, points in lines.items()}
    rows = max([len(calm), *(len(points) for points in lines.values())])
    at = dict(calm)
    table: dict[str, list[object]] = {"iteration": [str(r) for r in range(rows)]}
    for name, values in {_CALM: at, **whole}.items():
        table[name] = [loss_text(values[r], 5) if r in values else "" for r in range(rows)]
    return pd.DataFrame(table)


def restored_table(costs: Sequence[Cost]) -> pd.DataFrame:
    """Right after restoring: loss and distance, means over seeds; and what a save took."""
    return pd.DataFrame(
        [
            {
                "method": f"**{c.method.name}**",
                "checkpoint": f"{nbytes_text(c.nbytes)}, {percent_text(c.share)}",
                "loss before the failure": loss_text(c.loss_before, 4),
                "right after restoring": loss_text(c.loss_restored, 4),
                "distance": percent_text(c.distance),
                "one save": f"{1e3 * c.save_seconds:.1f} ms",
            }
            for c in costs
        ]
    )
