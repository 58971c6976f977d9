"""The tensors of one step: what its record changes in each, as bars and as a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.step_tensors import StepFacts, TensorFacts
from lcviz.text import percent_text, plain, plural, step_text
from lcviz.ui.charts import KEPT, Panel, base_figure, name_rows

from .figure_parts import label

MAX_TENSORS = 30  # in the picture; the table has all
NAME_LENGTH = 20  # characters: a phone has room for the bars, too
STORED = {
    "base": "exactly",
    "codes": "as codes",
    "whole": "exactly",
    "residual": "exactly, as a residual",
    "unchanged": "not at all",
}


def tensors_table(facts: StepFacts) -> pd.DataFrame:
    """One row a tensor."""
    columns = {
        "tensor": lambda t: t.name,
        "shape": lambda t: " × ".join(map(str, t.shape)) or "scalar",
        "dtype": lambda t: t.dtype,
        "stored": stored_text,
        "values": lambda t: t.n,
        "changed": lambda t: t.changed,
        "bits per parameter": lambda t: _rounded(t.bits),
        "largest level": lambda t: _rounded(t.largest),
        "minimum": lambda t: _rounded(t.low),
        "maximum": lambda t: _rounded(t.high),
        "mean": lambda t: _rounded(t.mean),
        "standard deviation": lambda t: _rounded(t.std),
        "not finite": lambda t: t.n_not_finite,
    }
    table = {name: list(map(value, facts.tensors)) for name, value in columns.items()}
    return pd.DataFrame(table).astype({"changed": "Int64"})


def stored_text(tensor: TensorFacts) -> str:
    """How the record holds a tensor, in words."""
    how = STORED[tensor.stored]
    return f"{how}, in {step_text(tensor.target)}" if "code" in how and tensor.target else how


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def tensor_bars(facts: StepFacts) -> Panel:
    """For each tensor, the largest first: the share of its values that changed, and its bits.

    Tensors without codes in this record are left out. Raises ValueError if none has codes.
    """
    coded = sorted((t for t in facts.tensors if t.changed is not None), key=lambda t: -t.n)
    largest = coded[:MAX_TENSORS]
    names = [label(t.name, NAME_LENGTH) for t in largest]
    room = round(24 + 6.5 * max(map(len, names)))
    figure = base_figure("values changed, %", "", 18 * len(largest) + 80, l=room, t=8)
    changed = [round(100 * (t.changed or 0) / max(t.n, 1), 3) for t in largest]
    bits = [None if t.bits is None else round(t.bits, 4) for t in largest]
    for i, (name, colour, values) in enumerate(
        (("values changed, %", KEPT, changed), ("bits per parameter", KEPT, bits)), 1
    ):
        figure.add_bar(
            name=name,
            x=values,
            y=list(range(len(largest))),  # two names may look alike once shortened
            customdata=[label(t.name) for t in largest],
            orientation="h",
            marker={"color": colour},
            xaxis=f"x{i}",
            yaxis=f"y{i}",
            hovertemplate=f"%{{customdata}}<br>%{{x}} {name}<extra></extra>",
        )
    name_rows(figure, names)
    figure.update_yaxes(ticklabelstandoff=6)
    figure.update_layout(
        hovermode="closest",
        bargap=0.35,
        xaxis={"domain": [0, 0.46], "rangemode": "tozero"},
        xaxis2=figure.layout.xaxis.to_plotly_json()
        | {"domain": [0.54, 1], "anchor": "y2", "rangemode": "tozero"}
        | {"title": {"text": "bits per parameter", "standoff": 8}},
        yaxis2={"matches": "y", "anchor": "x2", "showticklabels": False, "showgrid": False},
    )
    return Panel(
        *_texts(facts, coded),
        figure,
        "Bars for each tensor: the share of its values that changed, and bits per parameter.",
        tensors_table(facts),
    )


def _texts(facts: StepFacts, coded: Sequence[TensorFacts]) -> tuple[str, str]:
    """Title and sentence."""
    n, changed = sum(t.n for t in coded), sum(t.changed or 0 for t in coded)
    most_changed = max(coded, key=lambda t: (t.changed or 0) / max(t.n, 1))
    title = f"Step {facts.step} changes {percent_text(changed / max(n, 1))} of {n:,} lossy values"
    text = f"{changed:,} of them"
    if changed and len(coded) > 1:
        share = percent_text((most_changed.changed or 0) / most_changed.n)
        text += f"; most of all in {plain(most_changed.name)}, {share}"
    text += "."
    if len(coded) > MAX_TENSORS:
        text += f" Drawn are the {MAX_TENSORS} largest of {plural(len(coded), 'tensor')}."
    return title, text
