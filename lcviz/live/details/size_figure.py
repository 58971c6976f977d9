"""The size of every checkpoint of a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from codec import Saved
from lcviz.report.figure_parts import MOST_MARKED, STEP, line, step_range, thinned
from lcviz.run.snapshot import Checkpoint
from lcviz.text import nbytes_text, percent_text
from lcviz.ui.charts import GREEN, GREY, VERMILION, Panel, base_figure

HEIGHT = 320  # pixels
MAX_POINTS = 600  # of a line: no screen shows more
ONE_BIT = 100 / 32  # percent of float32: one bit per parameter


def size_panel(checkpoints: Sequence[Checkpoint], viewed: int, budget: float | None) -> Panel:
    """Each delta record as a percentage of float32, by step; the base is left out.

    Args:
        checkpoints: Of a run, the base first.
        viewed: The step that is marked.
        budget: The share of float32 that the lossy tensors must fit into; None without a budget.
    """
    base, *deltas = checkpoints
    points = thinned(deltas, MAX_POINTS)
    figure = base_figure(STEP, "record, % of float32", HEIGHT)
    marked = len(points) <= MOST_MARKED
    hover = "%{y:.3g} %"
    sizes = [(c.step, _percent(c.nbytes, c)) for c in points]
    figure.add_trace(line("record on disk", (GREEN, "solid", "circle"), sizes, marked, hover))
    floor = [(c.step, ONE_BIT) for c in points]
    figure.add_trace(line("1 bit per parameter", (GREY, "dash", None), floor, False, hover))
    if budget is not None:
        limits = [(c.step, _percent(_most_nbytes(c.saved, budget), c)) for c in points]
        figure.add_trace(line("budget", (VERMILION, "dot", None), limits, False, hover))
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(range=step_range(0, max(checkpoints[-1].step, viewed)))
    side = "left" if viewed < checkpoints[-1].step / 2 else "right"  # its text needs the space
    figure.add_vline(
        viewed,
        line={"color": GREY, "width": 1},
        annotation={"text": f"step {viewed}", "xanchor": side, "y": 0.9},
    )
    return Panel(
        "Size of each checkpoint",
        _sentence(base, deltas, budget),
        figure,
        "Size of each delta record in percent of float32, by step.",
        partial(_table, checkpoints),
    )


def _most_nbytes(saved: Saved, budget: float) -> float:
    """What a record may take: exact tensors and moments do not count against the budget."""
    return saved.exact_nbytes + saved.moment_nbytes + budget * saved.lossy_nbytes


def _percent(nbytes: float, checkpoint: Checkpoint) -> float:
    return 100 * nbytes / checkpoint.full_nbytes


def _sentence(base: Checkpoint, deltas: Sequence[Checkpoint], budget: float | None) -> str:
    if not deltas:
        return f"So far only the base, {nbytes_text(base.nbytes)}, which is exact."
    nbytes, full = sum(c.nbytes for c in deltas), sum(c.full_nbytes for c in deltas)
    budget_text = "" if budget is None else f" (budget {percent_text(budget)})"
    return (
        f"{len(deltas) + 1} checkpoints in {nbytes_text(base.nbytes + nbytes)} instead of "
        f"{nbytes_text(base.full_nbytes + full)}; a delta takes {percent_text(nbytes / full)} of "
        f"float32 on average{budget_text}."
    )


def _table(checkpoints: Sequence[Checkpoint]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": [c.step for c in checkpoints],
            "bytes": [c.nbytes for c in checkpoints],
            "float32 bytes": [c.full_nbytes for c in checkpoints],
            "%": [round(_percent(c.nbytes, c), 3) for c in checkpoints],
        }
    )
