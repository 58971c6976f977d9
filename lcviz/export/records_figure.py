"""The records of a chain, by size."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from codec.inspect import Entry
from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import BLUE, GREEN, PURPLE, VERMILION, Panel

NEW, REUSED = "delta, new table", "delta, no new table"
MARKS = {"base": (BLUE, "diamond"), NEW: (VERMILION, "square"), REUSED: (GREEN, "circle")}
MARKS["merged"] = (PURPLE, "triangle-up")


def record_sizes(entries: Sequence[Entry], tables: Sequence[tuple[int, int]]) -> Panel:
    """Bytes of every record, by kind, on a log scale.

    tables: for each record, how many code tables it needs and how many of them are reused.
    """
    figure = go.Figure()
    kinds = [
        e.kind if e.kind != "delta" else REUSED if reused == needed else NEW
        for e, (needed, reused) in zip(entries, tables, strict=True)
    ]
    for kind, (colour, symbol) in MARKS.items():
        shown = [e for e, its in zip(entries, kinds) if its == kind]
        if not shown:
            continue
        figure.add_scatter(
            x=[e.step for e in shown],
            y=[e.nbytes for e in shown],
            name=kind,
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 8},
            hovertemplate="step %{x}: %{y:,} bytes<extra>" + kind + "</extra>",
        )
    title = {"title": {"text": "bytes on disk (log scale)"}}
    figure.update_layout(
        height=300,
        margin={"l": 72, "r": 12, "t": 36, "b": 48},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0.5, "xanchor": "center"},
        xaxis={"title": {"text": "step (iterations)"}},
        yaxis=title | {"type": "log", "dtick": 1, "tickformat": ","},
    )
    total = sum(e.nbytes for e in entries)
    base = sum(e.nbytes for e in entries if e.kind == "base")
    needed, reused = map(sum, zip(*tables, strict=True))
    sentence = (
        f"{plural(len(entries), 'record')}, {nbytes_text(total)} in all, {nbytes_text(base)} of it "
        "in exact base records."
    )
    if needed:
        sentence += f" {reused:,} of {plural(needed, 'code table')} were reused."
    table = pd.DataFrame(
        {
            "step": [e.step for e in entries],
            "kind": [e.kind for e in entries],
            "code table": [
                None if e.kind == "merged" else _tables_text(*counts)
                for e, counts in zip(entries, tables)
            ],
            "bytes": [e.nbytes for e in entries],
            "file": [e.name for e in entries],
        }
    )
    return Panel("Records of the chain", sentence, figure, "Bytes of each record, by step.", table)


def _tables_text(needed: int, reused: int) -> str:
    if needed > 1:
        return f"{needed - reused} new, {reused} reused"
    return "none" if not needed else "reused" if reused else "new"
