"""A chain and the files it was made of: bytes and distance by step as charts, tensors as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from lcviz.report.figure_parts import shortened, step_range
from lcviz.text import nbytes_text, percent_text, plain, plural, step_text
from lcviz.ui.charts import KEPT, OTHER, RESTORED, Panel, base_figure, bytes_axis, plotted

from .comparison import EXACTLY, LOSSY, ComparedStep, TensorError, totals

HEIGHT = 320  # pixels
MOST_MARKED = 60  # points of a line that get a symbol each


def sizes_by_step(steps: Sequence[ComparedStep]) -> Panel:
    """Bytes of every step in float32 and as its record; the table also has its file's size."""
    figure = _by_step(steps, "bytes")
    full, records = [c.full_nbytes for c in steps], [c.nbytes for c in steps]
    _draw(figure, "float32", OTHER, steps, full, "%{y:,} bytes")
    _draw(figure, "record of the chain", KEPT, steps, records, "%{y:,} bytes", below=True)
    columns = {
        "step": [c.step for c in steps],
        "file": [c.source for c in steps],
        "kind": [c.kind for c in steps],
        "float32 bytes": full,
        "file bytes": [c.file_nbytes for c in steps],
        "zipped bytes": [c.zipped for c in steps],
        "record bytes": records,
        "record, % of float32": [round(100 * c.nbytes / c.full_nbytes, 3) for c in steps],
    }
    figure.update_yaxes(**bytes_axis([f for c in steps for f in (c.full_nbytes, c.nbytes)]))
    sums = totals(steps)
    sizes = ((sums.full, "in float32"), (sums.files, "as files"), (sums.zipped, "as zipped files"))
    sizes_text = ", ".join(f"{nbytes_text(n)} {what}" for n, what in sizes if n is not None)
    bases = sum(c.kind == "base" for c in steps)
    title = (
        f"Records of {nbytes_text(sums.chain)}, {percent_text(sums.chain / sums.full)} of float32"
    )
    sentence = (
        f"Instead of {sizes_text}. "
        f"{bases:,} of {plural(len(steps), 'step')} {'is a base' if bases == 1 else 'are bases'}."
    )
    table = pd.DataFrame(columns).dropna(axis="columns", how="all")
    alt = "Bytes of every step in float32 and as a record of the chain."
    return Panel(title, sentence, figure, alt, table)


def distance_by_step(steps: Sequence[ComparedStep]) -> Panel:
    """Relative distance of what is restored from the original, by step."""
    figure = _by_step(steps, "distance, ‖restored − u‖ / ‖u − u₀‖, %")
    distances = [100 * c.distance for c in steps]
    _draw(figure, "restored", RESTORED, steps, distances, "%{y:.4g}")
    figure.update_yaxes(rangemode="tozero")
    sums = totals(steps)
    title, sentence = "Every step restores to the last bit", ""
    if any(c.distance != 0 for c in steps):
        lost = percent_text(sums.furthest.distance)
        title = f"Step {sums.furthest.step} is furthest off: {lost} of the distance trained"
        sentence = f"The largest error of a weight is {_number_text(sums.largest)}."
    alt = "Relative distance of each restored step from the file it was made of."
    table = pd.DataFrame({"step": [c.step for c in steps]} | _error_columns(steps))
    return Panel(title, sentence, figure, alt, table)


def tensors_of_step(compared: ComparedStep) -> tuple[pd.DataFrame, str]:
    """All tensors of a step with their distances, the largest first, and a sentence about them."""
    tensors = [t for t in compared.tensors if t.stored != EXACTLY]
    tensors.sort(key=lambda t: t.distance if math.isfinite(t.distance) else math.inf, reverse=True)
    exact = [t for t in compared.tensors if t.stored == EXACTLY]
    if not tensors:
        sentence = "None of its tensors is delta-coded: all are stored exactly."
    elif compared.kind == "base" or all(t.distance == 0 for t in tensors):
        sentence = f"Step {compared.step} is stored exactly: every tensor restores to the last bit."
    else:
        first, last = tensors[0], tensors[-1]
        sentence = (
            f"At step {compared.step} {plain(shortened(first.name, 40))} is furthest from its "
            f"original, {percent_text(first.distance)}, {plain(shortened(last.name, 40))} closest, "
            f"{percent_text(last.distance)}."
        )
        if exact:
            are = "tensor is" if len(exact) == 1 else "tensors are"
            sentence += f" {len(exact):,} {are} stored exactly."
    rows = [*tensors, *exact]
    columns = {
        "tensor": [t.name for t in rows],
        "values": [t.n for t in rows],
        "stored": [stored_text(t.stored) for t in rows],
    }
    return pd.DataFrame(columns | _error_columns(rows)), sentence


def stored_text(stored: str) -> str:
    """How a tensor is stored, in words: "steps of 1/4 octave" for "octaves=0.25"."""
    return stored if stored in (LOSSY, EXACTLY) else step_text(stored)


def _error_columns(errors: Sequence[ComparedStep | TensorError]) -> dict[str, Any]:
    """Distance and largest error of each, as columns of a table."""
    return {
        "distance": [percent_text(e.distance) for e in errors],
        "largest error of a weight": [_number_text(e.largest) for e in errors],
    }


def _by_step(steps: Sequence[ComparedStep], y: str) -> go.Figure:
    figure = base_figure("step", y, HEIGHT)
    return figure.update_xaxes(range=step_range(steps[0].step, steps[-1].step))


def _draw(
    figure: go.Figure,
    name: str,
    colour: str,
    steps: Sequence[ComparedStep],
    values: Sequence[float],
    hover: str,
    *,
    below: bool = False,
) -> None:
    """A line by step. Its name stands above its highest point, or below its lowest.

    hover: Plotly's template of a value.
    """
    pick, side = (min, "bottom") if below else (max, "top")
    last = len(values) - 1
    finite = [i for i in range(last, -1, -1) if math.isfinite(values[i])]
    at = pick(finite, key=values.__getitem__, default=0)
    end = "right" if 3 * at <= last else "left" if 3 * at >= 2 * last else "center"
    figure.add_scatter(
        name=name,
        x=[c.step for c in steps],
        y=list(map(plotted, values)),
        text=["" if i != at else name for i in range(last + 1)],
        textposition=f"{side} {end}",
        mode="lines+text" if last >= MOST_MARKED else "lines+markers+text",
        line={"color": colour, "width": 2},
        marker={"color": colour, "size": 7},
        cliponaxis=False,
        hovertemplate=hover,
    )


def _number_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"
