"""The race back after a failure: the loss of each method until it is what it was before."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from lcviz.lab.recovery.recovery import Outcome
from lcviz.text import enumerated, loss_text, plural

from .charts import BLUE, GREEN, GREY, PURPLE, VERMILION, base_figure, plotted

# Of each method: colour, and Plotly's names of its symbol and dash. Grey is the training that goes
# on undisturbed.
STYLES = {
    "full": (GREEN, "square", "solid"),
    "SCAR": (VERMILION, "circle", "dash"),
    "TOPN": (PURPLE, "triangle-up", "dot"),
    "LC Huffman": (BLUE, "diamond", "dash"),
    "LC run-length": (BLUE, "hexagon", "solid"),
    "LC": (BLUE, "diamond", "solid"),
}
Points = list[tuple[float, float]]  # iterations after the failure, loss


@dataclass(frozen=True)
class RaceWords:
    """The words of a picture.

    event: what happened, "failure" or "crash". calm: the undisturbed training. before: the training
    until then; "" if that is not drawn.
    """

    event: str
    calm: str
    before: str = ""


@dataclass(frozen=True)
class Ways:
    """The lines of one race.

    smooth: smoothed losses, which rework is counted with; else as measured. lines, ends: by method,
    see `way_back`. calm: the undisturbed training, as far as it is drawn. before: up to the
    failure, which is at 0. cap: iterations after which rework is no longer counted.
    """

    smooth: bool
    lines: dict[str, Points]
    ends: dict[str, float | None]
    calm: Points
    before: Points
    cap: int

    @property
    def level(self) -> float:
        """The loss before the failure."""
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
        {name: points for name, (points, _) in ways.items()},
        {name: end for name, (_, end) in ways.items()},
        [(float(r), calm[r]) for r in range(until + 1)],
        [(float(i + 1 - len(before)), loss) for i, loss in enumerate(before)],
        len(calm) - 1,
    )


def way_back(o: Outcome, smooth: bool) -> tuple[Points, float | None]:
    """The line of one method up to where its loss is back, and when that is; None if never."""
    values = o.on_trend if smooth else o.race.restored
    rework, capped = (o.rework, o.capped) if smooth else (o.rework_raw, o.capped_raw)
    whole = [(float(r), v) for r, v in enumerate(values) if r < rework or r == 0 or capped]
    if not capped and smooth and rework > 0:
        whole.append((rework, o.race.trend[0]))
    elif not capped and rework > 0:
        whole.append((float(rework), values[int(rework)]))
    return whole, None if capped else whole[-1][0]


def race_figure(
    ways: Ways, words: RaceWords, at: int, height: int, names: Mapping[str, str] | None = None
) -> go.Figure:
    """The lines of a race; each ends where its loss is back.

    at: the iteration of the failure. height: in pixels. names: of the methods in the legend, where
    they differ from their own.
    """
    x = f"iterations after the {words.event} (at iteration {at})"
    figure = base_figure(x, "loss on held-out examples", height)
    last = ways.calm[-1][0]
    figure.update_xaxes(range=[ways.before[0][0] if words.before else -0.02 * last, last])
    figure.add_hline(
        ways.level,
        line={"color": GREY, "dash": "dash", "width": 1},
        annotation={"text": f"before the {words.event}", "xanchor": "right", "x": 1},
    )
    if words.before:
        figure.add_vline(0, line={"color": GREY, "dash": "dash", "width": 1})
        figure.add_trace(_line(words.before, GREY, "solid", None, ways.before))
    figure.add_trace(_line(words.calm, GREY, "dot", None, ways.calm))
    for name, points in ways.lines.items():
        colour, symbol, dash = STYLES[name]
        shown = (names or {}).get(name, name)
        figure.add_trace(_line(shown, colour, dash, symbol, points))
    return figure


def _line(name: str, colour: str, dash: str, symbol: str | None, points: Points) -> go.Scatter:
    """A line whose first and last points are marked."""
    last = len(points) - 1
    sizes = [10 if symbol and i in (0, last) else 0 for i in range(len(points))]
    return go.Scatter(
        name=name,
        x=[round(x, 4) for x, _ in points],
        y=[plotted(y) for _, y in points],
        mode="lines+markers" if symbol else "lines",
        line={"color": colour, "dash": dash, "width": 2},
        marker={"symbol": symbol, "size": sizes, "color": colour, "opacity": 1},
        hovertemplate="%{y:.4f}",
    )


def race_sentence(ways: Ways, words: RaceWords) -> str:
    """When each method is back."""
    back = {name: end for name, end in ways.ends.items() if end is not None}
    parts = [
        f"{name} {'immediately' if end == 0 else f'after {end:.3g}'}"
        for name, end in sorted(back.items(), key=lambda item: item[1])
    ]
    never = [name for name, end in ways.ends.items() if end is None]
    if never:
        parts.append(f"{enumerated(never)} not within {plural(ways.cap, 'iteration')}")
    ends_at = "it is back, or at the cap" if never else "it is back"
    return (
        f"{'Smoothed loss' if ways.smooth else 'Loss'} before the {words.event}: "
        f"{loss_text(ways.level, 4)}. Recovered: {', '.join(parts)}. Each line ends where "
        f"{ends_at}."
    )


def race_table(ways: Ways, words: RaceWords) -> pd.DataFrame:
    """Losses at whole iterations; empty where a line has ended."""
    columns = {words.calm: ways.calm, **ways.lines}
    if words.before:
        columns = {words.before: ways.before, **columns}
    whole = {name: {x: y for x, y in points if x == int(x)} for name, points in columns.items()}
    rows = sorted({x for own in whole.values() for x in own})
    sign = "+.0f" if rows[0] < 0 else ".0f"
    table: dict[str, list[object]] = {"iteration": [format(x, sign) if x else "0" for x in rows]}
    for name, own in whole.items():
        table[name] = [loss_text(own[x], 5) if x in own else "" for x in rows]
    return pd.DataFrame(table)
