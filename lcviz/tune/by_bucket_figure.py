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
    Option,
    Panel,
    axis,
    base_option,
    plotted,
)


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
    known = sorted(losses)
    line = [[k, plotted(losses[k])] for k in known]
    bits = [
        {"value": [k, plotted(losses[k])], "label": {"formatter": f"x = {name}"}}
        for k, name in marks.items()
        if k in losses
    ]
    live = plotted(live_loss)
    option: Option = base_option() | {
        "tooltip": {"trigger": "item", "confine": True, "formatter": "{a}: {c}"},
        "grid": [{"left": 72, "right": 56, "top": 40, "bottom": 48}],
        "xAxis": axis("largest buckets kept, k", min=0, max=max(most, 1), minInterval=1),
        "yAxis": axis("loss on held-out examples", 54, scale=True),
        "series": [
            {
                "name": "rebuilt from k buckets",
                "type": "line",
                "showSymbol": len(known) < 2,
                "lineStyle": {"color": BLUE, "width": 2},
                "itemStyle": {"color": BLUE},
                "data": line,
            }
            | _entering(marked),
            {
                "name": "live model",
                "type": "line",
                "symbol": "none",
                "lineStyle": {"color": GREY, "type": "dashed", "width": 2},
                "itemStyle": {"color": GREY},
                "data": [[0, live], [max(most, 1), live]],
            },
            {
                "name": "bits x",
                "type": "scatter",
                "symbol": "rect",
                "symbolSize": 9,
                "itemStyle": {"color": GREEN, "opacity": 1},
                "label": {"show": True, "position": [11, -12], "fontSize": 11},
                "data": bits,
                "labelLayout": {"hideOverlap": True},
            },
            {
                "name": "chosen",
                "type": "scatter",
                "symbol": "diamond",
                "symbolSize": 18,
                "itemStyle": {"color": VERMILION, "opacity": 1},
                "data": [[chosen, plotted(losses[chosen])]],
            },
        ],
    }
    left = most + 1 - len(known)
    of = f"of each tensor, {most} at most" if each else f"of {most}"
    sentence = rebuilt_sentence(
        f"With the largest {plural(chosen, 'bucket')} {of}", losses[chosen], live_loss
    )
    if left:
        sentence += f" {left} of {most + 1} points of the curve are still being measured."
    if marked is not None:
        where = ", in one tensor at least" if each else ""
        sentence += (
            f" Highlighted: {exponent_text(*marked[1])} is kept from k = {marked[0]} on{where}."
        )
    table = pd.DataFrame(
        {
            "k": known,
            "x": [marks.get(k, "") for k in known],
            "loss": [plotted(losses[k]) for k in known],
            "above live": [plotted(losses[k] - live_loss) for k in known],
        }
    )
    return Panel(
        f"Loss of step {step} rebuilt from its largest buckets",
        sentence,
        option,
        "Loss of the rebuilt model over the number of largest buckets kept, with the bits x on it.",
        table,
        360,
    )


def _entering(marked: tuple[int, BucketKey] | None) -> Option:
    """The line at the k from which on the highlighted bucket is kept."""
    if marked is None:
        return {}
    line = {"xAxis": marked[0], "label": {"formatter": f"with {exponent_text(*marked[1])}"}}
    style = {"color": PURPLE, "width": 2}
    return {"markLine": {"symbol": "none", "silent": True, "lineStyle": style, "data": [line]}}


def rebuilt_sentence(what: str, loss: float, live_loss: float) -> str:
    """The loss of a rebuilt model, and the live one's. what: how it was rebuilt."""
    off = loss - live_loss
    where = f": {abs(off):.6f} {'above' if off > 0 else 'below'}" if math.isfinite(off) else ""
    return f"{what}, the loss is {loss_text(loss)}, live {loss_text(live_loss)}{where}."
