"""The loss of a model rebuilt from the largest k buckets of a delta, over k."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from lcviz.lab.anatomy import BucketKey
from lcviz.text import exponent_text, loss_text, plural
from lcviz.ui.charts import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Panel,
    base_figure,
    plotted,
)

HEIGHT = 340  # pixels


def by_bucket_panel(
    step: int,
    losses: Mapping[int, float],
    most: int,
    marks: Mapping[int, str],
    chosen: int,
    live_loss: float,
    marked: tuple[int, BucketKey] | None = None,
    *,
    each: bool = False,
) -> Panel:
    """The curve as far as it is known, the bits x on it, and the chosen k.

    losses: k -> loss, `chosen` among them. most: buckets there are. marks: k -> the bits that keep
    as many. live_loss: of the model that was saved. marked: the bucket that is highlighted, and
    the k from which on it is kept. each: k are kept of each tensor, and `most` are those of the one
    that has most, not of the whole model.
    """
    known, last = sorted(losses), max(most, 1)
    values = {k: plotted(losses[k]) for k in known}
    figure = base_figure("largest buckets kept, k", "loss on held-out examples", HEIGHT, l=76)
    figure.add_scatter(
        name="rebuilt from k buckets",
        x=known,
        y=list(values.values()),
        mode="lines" if len(known) > 1 else "lines+markers",
        line={"color": BLUE, "width": 2},
        hovertemplate="%{y:.6f}",
    )
    figure.add_scatter(
        name="live model",
        x=[0, last],
        y=2 * [plotted(live_loss)],
        mode="lines",
        line={"color": GREY, "dash": "dash", "width": 2},
        hovertemplate="%{y:.6f}",
    )
    by_bits = {k: name for k, name in marks.items() if k in losses}
    figure.add_scatter(
        name="x bits",
        x=list(by_bits),
        y=[values[k] for k in by_bits],
        mode="markers",
        marker={"color": GREEN, "symbol": "square", "size": 9, "opacity": 1},
        customdata=list(by_bits.values()),
        hovertemplate="x = %{customdata}<extra></extra>",
    )
    figure.add_scatter(
        name="chosen",
        x=[chosen],
        y=[values[chosen]],
        mode="markers",
        marker={"color": VERMILION, "symbol": "diamond", "size": 16, "opacity": 1},
        hovertemplate="k = %{x}<extra></extra>",
    )
    for k, name in by_bits.items():
        if values[k] is not None:
            figure.add_annotation(
                text=name, x=k, y=values[k], showarrow=False, xanchor="left", xshift=6, yshift=11
            )
    figure.update_xaxes(range=[-0.02 * last, 1.02 * last], tickformat="d")
    figure.update_traces(cliponaxis=False)
    of = f"of each tensor, {most} at most" if each else f"of {most}"
    sentence = rebuilt_sentence(
        f"The largest {plural(chosen, 'bucket')} {of}", losses[chosen], live_loss
    )
    if marked is not None:
        name = exponent_text(*marked[1])
        figure.add_vline(
            marked[0],
            line={"color": PURPLE, "width": 2},
            annotation={"text": f"with {name}", "yanchor": "top"},
        )
        where = ", in one tensor at least" if each else ""
        sentence += f" Highlighted: {name} is kept from k = {marked[0]} on{where}."
    table = pd.DataFrame(
        {
            "k": known,
            "x": [marks.get(k, "") for k in known],
            "loss": list(values.values()),
            "above live": [plotted(losses[k] - live_loss) for k in known],
        }
    )
    return Panel(
        f"Loss of step {step} rebuilt from its largest buckets",
        sentence,
        figure,
        "Loss of the rebuilt model over the number of largest buckets kept, with the bits x on it.",
        table,
    )


def rebuilt_sentence(what: str, loss: float, live_loss: float) -> str:
    """The loss of a rebuilt model, and the live one's. what: how it was rebuilt."""
    off = loss - live_loss
    where = f"{abs(off):.6f} {'above' if off > 0 else 'below'} live"
    return f"{what}: loss {loss_text(loss)}, {where if math.isfinite(off) else 'not finite'}."
