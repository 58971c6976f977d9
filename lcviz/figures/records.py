"""The records of a chain, by size."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go

from codec.chain import Entry

from .panel import BLUE, GREEN, Panel, nbytes_text


def record_sizes(entries: Sequence[Entry]) -> Panel:
    """Bytes of every record, bases and deltas apart, on a log scale."""
    figure = go.Figure()
    for kind, colour, symbol in (("base", BLUE, "diamond"), ("delta", GREEN, "circle")):
        own = [e for e in entries if e.kind == kind]
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
        yaxis={"title": {"text": "bytes on disk (log scale)"}, "type": "log", "dtick": 1},
    )
    total = sum(e.nbytes for e in entries)
    base = sum(e.nbytes for e in entries if e.kind == "base")
    sentence = (
        f"{len(entries)} records, {nbytes_text(total)} in all, {nbytes_text(base)} of it in exact "
        "base records."
    )
    table = pd.DataFrame(
        {
            "step": [e.step for e in entries],
            "kind": [e.kind for e in entries],
            "bytes": [e.nbytes for e in entries],
            "file": [e.name for e in entries],
        }
    )
    return Panel("Records of the chain", sentence, figure, "Bytes of each record, by step.", table)
