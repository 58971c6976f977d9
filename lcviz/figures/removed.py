"""Reconstruction error per removed bucket, as in the paper's figure."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from ..lab.removed import RemovedBuckets
from .panel import SIGN_COLOURS, SIGN_NAMES, Panel, exponent_text


def removed_bucket_panel(result: RemovedBuckets) -> Panel:
    """How far the loss moves when one bucket of the delta is left out."""
    figure = go.Figure()
    for sign in (0, 1):
        rows = [b for b in result.buckets if b.sign == sign]
        figure.add_bar(
            x=[b.exponent for b in rows],
            y=[b.loss - result.loss for b in rows],
            name=SIGN_NAMES[sign],
            marker={
                "color": SIGN_COLOURS[sign],
                "pattern": {"shape": ["" if b.kept else "/" for b in rows]},
            },
            customdata=[[b.loss, b.count, b.distance] for b in rows],
            hovertemplate=(
                f"without {SIGN_NAMES[sign]} 2^%{{x}}: loss %{{customdata[0]:.4f}} (%{{y:+.4f}})"
                "<br>%{customdata[1]:,} values, distance %{customdata[2]:.4f}<extra></extra>"
            ),
        )
    figure.update_layout(
        height=320,
        margin={"l": 64, "r": 12, "t": 36, "b": 48},
        barmode="group",
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0.5, "xanchor": "center"},
        xaxis={"title": {"text": "exponent of the removed bucket"}},
        yaxis={"title": {"text": "change of the loss"}, "zeroline": True},
    )
    worst = max(result.buckets, key=lambda b: abs(b.loss - result.loss), default=None)
    harmless = sum(abs(b.loss - result.loss) <= 0.001 * abs(result.loss) for b in result.buckets)
    if worst is None:
        sentence = "Nothing changed in this step, so there is no bucket to remove."
    else:
        sentence = (
            f"With every bucket of step {result.step} the rebuilt model's loss is "
            f"{result.loss:.4f}. Leaving out {exponent_text(worst.exponent, worst.sign)} moves it "
            f"most, to {worst.loss:.4f}; {harmless} of {len(result.buckets)} buckets move it by "
            "less than 0.1 %. Hatched buckets were dropped by priority promotion."
        )
    table = pd.DataFrame(
        {
            "exponent": [b.exponent for b in result.buckets],
            "sign": ["−" if b.sign else "+" for b in result.buckets],
            "values": [b.count for b in result.buckets],
            "kept by promotion": [b.kept for b in result.buckets],
            "loss without it": [round(b.loss, 6) for b in result.buckets],
            "change, %": [round(100 * (b.loss / result.loss - 1), 4) for b in result.buckets],
            "relative distance": [round(b.distance, 6) for b in result.buckets],
        }
    )
    alt = "Change of the loss for each removed exponent bucket, by sign."
    return Panel("Error when one bucket is removed", sentence, figure, alt, table)
