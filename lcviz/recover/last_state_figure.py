"""How exactly each way to save restores the last of a visitor's own checkpoints, as bars."""

from __future__ import annotations

import pandas as pd

from lcviz.lab.recovery.last_state import LastState, Restored
from lcviz.text import enumerated, loss_text, nbytes_text, percent_text
from lcviz.ui.charts import Panel, base_figure, name_rows, plotted
from lcviz.ui.race import STYLES

HEIGHT = 320  # pixels
_AXIS_LENGTH = 1.15  # in longest bars: the number right of a bar needs space


def distances_panel(last_state: LastState) -> Panel:
    """A bar for each method: distance of the state it restored, in % of the distance trained."""
    states = last_state.restored
    figure = base_figure("distance, % of the distance trained", "", HEIGHT, l=128, t=12)
    shares = [plotted(100 * state.distance, 4) for state in states]
    figure.add_bar(
        x=shares,
        y=list(range(len(states))),
        orientation="h",
        width=0.6,
        marker={"color": [STYLES[state.method.name][0] for state in states]},
        hoverinfo="skip",
    )
    for row, (state, share) in enumerate(zip(states, shares)):
        text = {"text": percent_text(state.distance), "font": {"size": 13}}
        figure.add_annotation(
            x=share or 0.0, y=row, xanchor="left", xshift=4, showarrow=False, **text
        )
    longest = max((share for share in shares if share is not None), default=0.0)
    names = [
        f"{state.method.name}<br>{nbytes_text(state.nbytes)}, {percent_text(state.share)}"
        for state in states
    ]
    figure.update_xaxes(range=[0, _AXIS_LENGTH * (longest or 1.0)])
    name_rows(figure, names)
    ours = percent_text(states[-1].distance)
    return Panel(
        f"LC is {ours} of the way trained off step {last_state.step:,}",
        _sentence(last_state),
        figure,
        "A bar for each method: distance of the state it restores, in % of the distance trained.",
        _table(last_state),
    )


def _sentence(last_state: LastState) -> str:
    text = "‖restored − u‖ / ‖u − u₀‖ of the weights, with u the last state and u₀ the first."
    if not last_state.by:
        return text
    costs = enumerated([f"{state.method.name} {_lost(state)}" for state in last_state.restored])
    return f"{text} Measured by the loss of {last_state.by}, a crash costs {costs}."


def _lost(state: Restored) -> str:
    return "all" if state.lost is None else f"{state.lost:.1f} steps"


def _table(last_state: LastState) -> pd.DataFrame:
    rows = []
    for state in last_state.restored:
        row = {
            "method": state.method.name,
            "distance": percent_text(state.distance),
            "checkpoint, bytes": f"{state.nbytes:,.0f}",
            "of float32": percent_text(state.share),
        }
        if state.loss is not None:
            row |= {"loss": loss_text(state.loss, 4), "lost": _lost(state)}
        rows.append(row)
    return pd.DataFrame(rows)
