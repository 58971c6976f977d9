"""The tensors of one step: what its record changes in each, as bars and as a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.step_tensors import StepFacts, TensorFacts
from lcviz.text import percent_text, plain, plural
from lcviz.ui.charts import BLUE, GREEN, Option, Panel, base_option

from .figure_parts import axis, shortened

MAX_TENSORS = 30  # in the picture; the table has all
NAME_LENGTH = 26
STORED = {"base": "exactly", "codes": "as codes", "whole": "exactly", "unchanged": "not at all"}


def tensors_table(facts: StepFacts) -> pd.DataFrame:
    """One row a tensor."""
    columns = {
        "tensor": lambda t: t.name,
        "shape": lambda t: " × ".join(map(str, t.shape)) or "scalar",
        "dtype": lambda t: t.dtype,
        "stored": lambda t: STORED[t.stored],
        "values": lambda t: t.n,
        "changed": lambda t: t.changed,
        "bits a parameter": lambda t: _rounded(t.bits),
        "largest level": lambda t: _rounded(t.largest),
        "minimum": lambda t: _rounded(t.low),
        "maximum": lambda t: _rounded(t.high),
        "mean": lambda t: _rounded(t.mean),
        "standard deviation": lambda t: _rounded(t.std),
        "not finite": lambda t: t.odd,
    }
    table = {name: list(map(value, facts.tensors)) for name, value in columns.items()}
    return pd.DataFrame(table).astype({"changed": "Int64"})


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def tensor_bars(facts: StepFacts) -> Panel:
    """For each tensor, the largest first: the share of its values that changed, and its bits.

    Tensors without codes in this record are left out. Raises ValueError if all are.
    """
    coded = sorted((t for t in facts.tensors if t.changed is not None), key=lambda t: -t.n)
    shown = coded[:MAX_TENSORS]
    per = "bits a parameter" if facts.together == 1 else "bits a parameter and step"
    columns: list[tuple[str, str, Option, Sequence[float | None]]] = [
        (
            "values changed, %",
            BLUE,
            {"left": 190, "right": "44%"},
            [round(100 * (t.changed or 0) / max(t.n, 1), 3) for t in shown],
        ),
        (
            per,
            GREEN,
            {"left": "60%", "right": 40},
            [None if t.bits is None else round(t.bits, 4) for t in shown],
        ),
    ]
    height = 18 * len(shown) + 12
    names = {"type": "category", "inverse": True}
    names |= {"data": [shortened(t.name, NAME_LENGTH) for t in shown]}
    ticks: Option = {"min": 0, "axisLabel": {"hideOverlap": True}, "splitNumber": 3}
    option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "grid": [across | {"top": 8, "height": height} for _, _, across, _ in columns],
        "xAxis": [axis(c[0], 28, gridIndex=i, **ticks) for i, c in enumerate(columns)],
        "yAxis": [names | {"gridIndex": i, "show": i == 0} for i in range(len(columns))],
        "series": [
            {
                "type": "bar",
                "name": name,
                "xAxisIndex": i,
                "yAxisIndex": i,
                "barWidth": "62%",
                "itemStyle": {"color": colour},
                "data": values,
            }
            for i, (name, colour, _, values) in enumerate(columns)
        ],
    }
    return Panel(
        f"What step {facts.step} changes in each tensor",
        _sentence(facts, coded),
        option,
        "Bars for each tensor: the share of its values that changed, and bits a parameter.",
        tensors_table(facts),
        height + 64,
    )


def _sentence(facts: StepFacts, coded: Sequence[TensorFacts]) -> str:
    n, changed = sum(t.n for t in coded), sum(t.changed or 0 for t in coded)
    most = max(coded, key=lambda t: (t.changed or 0) / max(t.n, 1))
    text = f"{changed:,} of {n:,} lossy values change in this step, "
    text += percent_text(changed / max(n, 1))
    if changed and len(coded) > 1:
        share = percent_text((most.changed or 0) / most.n)
        text += f"; the largest share is that of {plain(most.name)}, {share}"
    text += "."
    if facts.together > 1:
        text += f" Its code words stand for {facts.together} steps at once; each step counts an "
        text += "equal share of their bits."
    if len(coded) > MAX_TENSORS:
        text += f" Drawn are the {MAX_TENSORS} largest of {plural(len(coded), 'tensor')}."
    return text
