"""One value over the steps of a chain, as a staircase."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TypeGuard

import pandas as pd

from lcviz.lab.value_history import Point
from lcviz.text import minus, plural
from lcviz.ui.charts import KEPT, RESTORED, Panel, base_figure

from .figure_parts import MAX_POINTS, STEP, step_range, thinned

HEIGHT = 240  # pixels
MOST_BASES = 60  # that get a symbol


def value_over_steps(points: Sequence[Point], chosen: int) -> Panel:
    """The staircase. points: by rising step; at least one has a value. chosen: the marked step."""
    bends = _bends(points)
    drawn = thinned(bends, MAX_POINTS)
    figure = base_figure(STEP, "value", HEIGHT, l=76)
    figure.add_scatter(
        name="value",
        x=[p.step for p in drawn],
        y=[_plotted(p.value) for p in drawn],
        mode="lines",
        line={"color": RESTORED, "width": 2, "shape": "hv"},
        hovertemplate="%{y:.6g}",
    )
    bases = [p for p in points if p.is_base and p.value is not None]
    here = [p for p in points if p.step == chosen and p.value is not None][:1]
    for name, marked, marker in (
        (
            "" if bases[:1] == here else "base, exact",
            thinned(bases, MOST_BASES),
            {"color": RESTORED, "symbol": "diamond"},
        ),
        (f"step {chosen}", here, {"color": KEPT, "symbol": "circle-open"}),
    ):
        if marked:
            at_end = marked[0].step > (points[0].step + points[-1].step) / 2
            known = [p.value for p in drawn if _is_finite(p.value)]
            falls = min(known, default=0.0) < (marked[0].value or 0.0)
            figure.add_scatter(
                name=name,
                text=[name, *[""] * (len(marked) - 1)],
                textposition=f"{'top' if falls else 'bottom'} {'left' if at_end else 'right'}",
                x=[p.step for p in marked],
                y=[_plotted(p.value) for p in marked],
                mode="markers+text",
                marker=marker
                | {"size": 10 if marker["symbol"] == "diamond" else 15}
                | {"line": {"width": 3 if marker["symbol"] != "diamond" else 0}},
                cliponaxis=False,
                hoverinfo="skip",
            )
    figure.update_xaxes(range=step_range(points[0].step, points[-1].step))
    figure.update_yaxes(nticks=6)
    title, *more = _sentences(points, len(drawn) < len(bends))
    return Panel(
        title,
        " ".join(more),
        figure,
        "Staircase of one value by step; its bases and the chosen step are marked.",
        partial(_table, points),
    )


def _plotted(value: float | None) -> float | None:
    """All digits that a float32 needs; None, a gap, if it is not finite."""
    return float(f"{value:.9g}") if _is_finite(value) else None


def _is_finite(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _bends(points: Sequence[Point]) -> Sequence[Point]:
    """The points of the line: of many, those at which it bends, and the last one."""
    if len(points) <= MAX_POINTS:
        return points
    bends = [points[0], *(b for a, b in pairwise(points) if a.value != b.value)]
    return bends if bends[-1] is points[-1] else [*bends, points[-1]]


def _table(points: Sequence[Point]) -> pd.DataFrame:
    rows = [(p.step, p.value, "base" if p.is_base else "") for p in points if p.value is not None]
    return pd.DataFrame(rows, columns=["step", "value", "exact"])


def _sentences(points: Sequence[Point], is_thinned: bool) -> list[str]:
    """What the picture shows, the most important first; the first one without its dot."""
    texts = []
    changes = [
        (after.value - before.value, after)
        for before, after in pairwise(points)
        if _is_finite(before.value) and _is_finite(after.value)
    ]
    by_step = [(change, p.step) for change, p in changes if not p.is_base]
    by_base = [(change, p.step) for change, p in changes if p.is_base]
    if by_step:
        moves = [(change, step) for change, step in by_step if change]
        n = plural(len(by_step), "step")
        if moves:
            change, step = max(moves, key=lambda move: abs(move[0]))
            texts.append(
                f"This value moves in {len(moves):,} of {n}, farthest at step {step}: "
                f"by {_signed(change)}"
            )
        else:
            texts.append(f"This value does not move in {n}")
    bases = [p.step for p in points if p.is_base and p.value is not None]
    if by_base:
        change, step = max(by_base, key=lambda move: abs(move[0]))
        which = f"The base of step {step} puts" if len(by_base) == 1 else "Bases put"
        farthest = f", farthest at step {step}" if len(by_base) > 1 else ""
        texts.append(
            f"{which} it exactly where the training had it{farthest}: by {_signed(change)}."
        )
    elif bases:
        texts.append(f"The base of step {bases[0]} holds it exactly.")
    if is_thinned:
        texts.append("Only some of its moves are drawn, evenly chosen.")
    known = sum(p.value is not None for p in points)
    return texts if by_step else [f"This value at {plural(known, 'step')}", *texts]


def _signed(change: float) -> str:
    return minus(f"{change:+.3g}")
