"""The records of a chain, by size."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from codec.storage.source import Entry
from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import BLUE, GREEN, VERMILION, Panel

NEW, AGAIN = "delta, new table", "delta, no new table"
MARKS = {"base": (BLUE, "diamond"), NEW: (VERMILION, "square"), AGAIN: (GREEN, "circle")}


def record_sizes(entries: Sequence[Entry], tables: Sequence[tuple[int, int]]) -> Panel:
    """Bytes of every record, by kind, on a log scale.

    tables: of each record how many code tables it needs, and how many of them were sent before.
    """
    figure = go.Figure()
    kinds = [_kind(e, *of) for e, of in zip(entries, tables, strict=True)]
    for kind, (colour, symbol) in MARKS.items():
        own = [e for e, its in zip(entries, kinds) if its == kind]
        figure.add_scatter(
            x=[e.step for e in own],
            y=[e.nbytes for e in own],
            name=kind,
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 8},
            hovertemplate="step %{x}: %{y:,} bytes<extra>" + kind + "</extra>",
        )
    figure.update_layout(
        height=300,
        margin={"l": 72, "r": 12, "t": 36, "b": 48},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0.5, "xanchor": "center"},
        xaxis={"title": {"text": "step (iterations)"}},
        yaxis={
            "title": {"text": "bytes on disk (log scale)"},
            "type": "log",
            "dtick": 1,
            "tickformat": ",",
        },
    )
    total = sum(e.nbytes for e in entries)
    base = sum(e.nbytes for e in entries if e.kind == "base")
    needed, again = (sum(of) for of in zip(*tables, strict=True))
    sentence = (
        f"{plural(len(entries), 'record')}, {nbytes_text(total)} in all, {nbytes_text(base)} of it "
        "in exact base records."
    )
    if needed:
        sentence += f" {again:,} of {plural(needed, 'code table')} were sent before and used again."
    table = pd.DataFrame(
        {
            "step": [e.step for e in entries],
            "kind": [e.kind for e in entries],
            "code table": [_words(*of) for of in tables],
            "bytes": [e.nbytes for e in entries],
            "file": [e.name for e in entries],
        }
    )
    return Panel("Records of the chain", sentence, figure, "Bytes of each record, by step.", table)


def _kind(entry: Entry, needed: int, again: int) -> str:
    if entry.kind == "base":
        return "base"
    return AGAIN if again == needed else NEW


def _words(needed: int, again: int) -> str:
    """Whether a record's code tables are new."""
    if not needed:
        return "none"
    if needed == 1:
        return "used again" if again else "new"
    return f"{needed - again} new, {again} used again"
