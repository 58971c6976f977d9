"""How far each way to save restores the last of a visitor's own checkpoints: a bar each."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from lcviz.lab.recovery.last_state import LastState, Restored
from lcviz.text import enumerated, loss_text, nbytes_text, percent_text
from lcviz.ui.charts import Panel, base_figure, plotted
from lcviz.ui.race import STYLES

HEIGHT = 320  # pixels
_ROOM = 1.15  # of the longest bar, for the number right of it


def distances_panel(found: LastState) -> Panel:
    """A bar for each method: the distance of what it restored, in % of the way trained."""
    every = found.restored
    figure = base_figure("distance, % of the way trained", "", HEIGHT, l=128, t=12)
    shares = [plotted(100 * one.distance, 4) for one in every]
    figure.add_trace(
        go.Bar(
            x=shares,
            y=list(range(len(every))),
            orientation="h",
            width=0.6,
            marker={"color": [STYLES[one.method.name][0] for one in every]},
            hoverinfo="skip",
        )
    )
    for row, (one, share) in enumerate(zip(every, shares)):
        text = {"text": percent_text(one.distance), "font": {"size": 13}}
        figure.add_annotation(
            x=share or 0.0, y=row, xanchor="left", xshift=4, showarrow=False, **text
        )
    most = max((share for share in shares if share is not None), default=0.0)
    names = [
        f"{one.method.name}<br>{nbytes_text(one.nbytes)}, {percent_text(one.share)}"
        for one in every
    ]
    figure.update_xaxes(range=[0, _ROOM * (most or 1.0)])
    figure.update_yaxes(
        range=[len(every) - 0.5, -0.5],
        tickvals=list(range(len(every))),
        ticktext=names,
        showgrid=False,
    )
    figure.update_layout(showlegend=False)
    return Panel(
        f"From the restored weights to those of step {found.step:,}",
        _sentence(found),
        figure,
        "Distance of what each method restores, in per cent of the way trained: a bar each.",
        _table(found),
    )


def _sentence(found: LastState) -> str:
    text = "‖restored − u‖ / ‖u − u₀‖ of the weights, with u the last state and u₀ the first."
    if not found.by:
        return text
    told = enumerated([f"{one.method.name} {_lost(one)}" for one in found.restored])
    return f"{text} By the loss of {found.by}, whose tensors these are, a crash costs {told}."


def _lost(one: Restored) -> str:
    return "all" if one.lost is None else f"{one.lost:.1f} steps"


def _table(found: LastState) -> pd.DataFrame:
    rows = []
    for one in found.restored:
        row = {
            "method": one.method.name,
            "distance": percent_text(one.distance),
            "checkpoint, bytes": f"{one.nbytes:,.0f}",
            "of float32": percent_text(one.share),
        }
        if one.loss is not None:
            row |= {"loss": loss_text(one.loss, 4), "lost": _lost(one)}
        rows.append(row)
    return pd.DataFrame(rows)
