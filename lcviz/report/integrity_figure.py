"""Which steps of a chain restore."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pandas as pd

from lcviz.text import plural
from lcviz.ui.charts import BAD, GOOD, Panel, base_figure

from .figure_parts import MAX_POINTS, STEP, step_range, thinned

HEIGHT = 170  # pixels
RESTORES, LOST = "restores", "lost"


def steps_that_restore(restored: Collection[int], steps: Sequence[int]) -> Panel:
    """A mark for each step. restored: the steps that restore. steps: all of the chain, rising."""
    states = [RESTORES if step in restored else LOST for step in steps]
    figure = base_figure(STEP, "", HEIGHT, l=84, t=16)
    for name, colour, symbol in ((RESTORES, GOOD, "circle"), (LOST, BAD, "x")):
        points = thinned([s for s, state in zip(steps, states) if state == name], MAX_POINTS)
        figure.add_scatter(
            name=name,
            x=list(points),
            y=[name] * len(points),
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 8},
            cliponaxis=False,
            hovertemplate="step %{x} " + name + "<extra></extra>",
        )
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(range=step_range(steps[0], steps[-1]))
    figure.update_yaxes(
        type="category", categoryarray=[LOST, RESTORES], range=[-0.5, 1.5], showgrid=False
    )
    title, sentence = f"{states.count(RESTORES):,} of {plural(len(steps), 'step')} restored", ""
    if LOST not in states:
        title, sentence = f"All of {plural(len(steps), 'step')} restored", "Bit for bit as saved."
    table = pd.DataFrame({"step": steps, "state": states})
    alt = "Each step: whether it restores."
    return Panel(title, sentence, figure, alt, table)
