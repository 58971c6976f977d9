"""A chain and the files it was made of: bytes and distance by step as charts, tensors as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from lcviz.report.figure_parts import MOST_MARKED, line, shortened, step_range
from lcviz.text import nbytes_text, percent_text, plain, plural, step_text
from lcviz.ui.charts import KEPT, OTHER, RESTORED, Panel, base_figure, bytes_axis

from .comparison import EXACTLY, LOSSY, ComparedStep, TensorError, totals

HEIGHT = 320  # pixels
# name, look, attribute of ComparedStep, column of the table
_SIZES: tuple[tuple[str, tuple[str, str, str | None], str, str], ...] = (
    ("float32", (OTHER, "dot", None), "full_nbytes", "float32 bytes"),
    ("file", (OTHER, "solid", "square"), "file_nbytes", "file bytes"),
    ("zipped file", (OTHER, "dash", "triangle-up"), "zipped", "zipped bytes"),
    ("record of the chain", (KEPT, "solid", "circle"), "nbytes", "record bytes"),
)


def sizes_by_step(steps: Sequence[ComparedStep]) -> Panel:
    """Bytes of every step: in float32, its file, that file zipped, and its record."""
    figure = _by_step(steps, "bytes")
    columns: dict[str, list[Any]] = {
        "step": [c.step for c in steps],
        "file": [c.source for c in steps],
        "kind": [c.kind for c in steps],
    }
    for i, (name, look, attribute, column) in enumerate(_SIZES):
        values = columns[column] = [getattr(c, attribute) for c in steps]
        if any(v is not None for v in values):
            points = [(c.step, v) for c, v in zip(steps, values)]
            is_marked, named = len(points) <= MOST_MARKED, i / (len(_SIZES) - 1)
            figure.add_trace(line(name, look, points, is_marked, "%{y:,} bytes", named))
    columns["record, % of float32"] = [round(100 * c.nbytes / c.full_nbytes, 3) for c in steps]
    figure.update_yaxes(**bytes_axis([f for c in steps for f in (c.full_nbytes, c.nbytes)]))
    sums = totals(steps)
    sizes = ((sums.full, "in float32"), (sums.files, "as files"), (sums.zipped, "as zipped files"))
    sizes_text = ", ".join(f"{nbytes_text(n)} {what}" for n, what in sizes if n is not None)
    bases = sum(c.kind == "base" for c in steps)
    title = f"{nbytes_text(sums.chain)}, {percent_text(sums.chain / sums.full)} of float32"
    sentence = (
        f"Instead of {sizes_text}. "
        f"{bases:,} of {plural(len(steps), 'step')} {'is a base' if bases == 1 else 'are bases'}."
    )
    table = pd.DataFrame(columns).dropna(axis="columns", how="all")
    alt = "Bytes of every step in float32, as its file, zipped, and as a record of the chain."
    return Panel(title, sentence, figure, alt, table)


def distance_by_step(steps: Sequence[ComparedStep]) -> Panel:
    """Relative distance of what is restored from the original, by step."""
    figure = _by_step(steps, "distance, ‖restored − u‖ / ‖u − u₀‖, %")
    points = [(c.step, 100 * c.distance) for c in steps]
    look = (RESTORED, "solid", "circle")
    figure.add_trace(line("restored", look, points, len(points) <= MOST_MARKED, "%{y:.4g}", 1))
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


def _number_text(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"
