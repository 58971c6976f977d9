"""The race back after a failure: the loss of each method until it is what it was before."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from lcviz.lab.recovery.recovery import Outcome
from lcviz.ui.charts import FIGURE_DASHES, FIGURE_SYMBOLS, GREY, Panel, base_figure, plotted
from lcviz.ui.race import STYLES, RaceWords, Ways, race_sentence, race_table, ways_back

HEIGHT = 350  # pixels
_WORDS = RaceWords("failure", "did not fail")


def race_panel(outcomes: Sequence[Outcome], fail_at: int, smooth: bool) -> Panel:
    """The loss after the failure, of each method and of the training that did not fail.

    outcomes: of one seed. smooth: see `Ways`. Each line ends where the loss is back.
    """
    ways = ways_back(outcomes, smooth)
    x = f"iterations after the failure (at iteration {fail_at})"
    figure = base_figure(x, "loss on held-out examples", HEIGHT)
    figure.update_xaxes(range=[-0.02 * ways.calm[-1][0], ways.calm[-1][0]])
    figure.add_hline(
        ways.level,
        line={"color": GREY, "dash": "dash", "width": 1},
        annotation={"text": "before the failure", "xanchor": "right", "x": 1},
    )
    figure.add_trace(_line(_WORDS.calm, GREY, "dot", None, ways.calm))
    for name, points in ways.lines.items():
        colour, symbol, dash = STYLES[name]
        figure.add_trace(_line(name, colour, FIGURE_DASHES[dash], FIGURE_SYMBOLS[symbol], points))
    return Panel(
        f"The race back: loss after the failure, {_measure(ways)}",
        race_sentence(ways, _WORDS),
        figure,
        "Loss after the failure by iteration, of each method and of the undisturbed training.",
        race_table(ways, _WORDS),
        HEIGHT,
    )


def _measure(ways: Ways) -> str:
    return "on the trend" if ways.smooth else "as measured"


def _line(
    name: str, colour: str, dash: str, symbol: str | None, points: Sequence[tuple[float, float]]
) -> go.Scatter:
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
