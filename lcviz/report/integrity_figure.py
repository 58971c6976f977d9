"""Which steps of a chain restore."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from lcviz.text import plural
from lcviz.ui.charts import GREEN, VERMILION, Panel, base_figure

from .figure_parts import STEP, step_range, thinned

HEIGHT = 170  # pixels
MAX_POINTS = 600  # of each kind
RESTORES, LOST = "restores", "lost"


def steps_that_restore(restored: Collection[int], every: Sequence[int]) -> Panel:
    """A mark for each step. every: all steps of the chain, rising."""
    good = [step for step in every if step in restored]
    lost = [step for step in every if step not in restored]
    figure = base_figure(STEP, "", HEIGHT, l=84, t=16)
    for name, steps, colour, symbol in (
        (RESTORES, good, GREEN, "circle"),
        (LOST, lost, VERMILION, "x"),
    ):
        drawn = thinned(steps, MAX_POINTS)
        figure.add_scatter(
            name=name,
            x=list(drawn),
            y=[name] * len(drawn),
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 8},
            cliponaxis=False,
            hovertemplate="step %{x} " + name + "<extra></extra>",
        )
    figure.update_layout(showlegend=False, hovermode="closest")
    figure.update_xaxes(range=step_range(every[0], every[-1]))
    figure.update_yaxes(
        type="category", categoryarray=[LOST, RESTORES], range=[-0.5, 1.5], showgrid=False
    )
    sentence = f"{len(good):,} of {plural(len(every), 'step')} restore."
    if not lost:
        sentence = f"All of {plural(len(every), 'step')} restore, bit for bit as they were saved."
    table = pd.DataFrame(
        [(step, RESTORES if step in restored else LOST) for step in every],
        columns=["step", "state"],
    )
    alt = "Each step: whether it restores."
    return Panel("Integrity: steps that restore", sentence, figure, alt, table)
