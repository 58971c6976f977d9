"""The sizes of records over a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lcviz.text import nbytes_text, percent_text

from .charts import GREEN, GREY, VERMILION, Option, Panel, base_option, plotted

MAX_POINTS = 500  # of a line: more would slow every tick, and no screen shows them
FEW = 25  # points that are drawn one by one
Lines = dict[str, tuple[str, str, Sequence[float]]]  # name -> colour, dash, values


def size_curve(
    steps: Sequence[int],
    nbytes: Sequence[int],
    full: Sequence[int],
    header: int,
    viewed: int,
    budget: float | None = None,
    allowed: Sequence[float] = (),
) -> Panel:
    """Size of each delta record as a percentage of float32, by step; the base is left out.

    nbytes, full: bytes of each record and of the same state in float32, the base first. header: of
    the newest record, in bytes. budget: the share that the lossy tensors must fit, if there is one.
    allowed: bytes that it allows each record, with what is stored exactly.
    """
    share = np.round(100 * np.asarray(nbytes) / np.asarray(full), 3).tolist()
    lines: Lines = {
        "record on disk": (GREEN, "solid", share[1:]),
        "1 bit per parameter": (GREY, "dashed", [3.125] * len(share[1:])),
    }
    if budget is not None:
        most = np.round(100 * np.asarray(allowed) / np.asarray(full), 3).tolist()
        lines["budget"] = (VERMILION, "dotted", most[1:])
    option = _lines_option(steps[1:], lines, "record, % of float32", viewed)
    option["yAxis"]["min"] = 0
    mean = sum(nbytes[1:]) / max(1, sum(full[1:]))
    within = "" if budget is None else f" (budget {percent_text(budget)})"
    sentence = f"So far only the base, {nbytes_text(nbytes[0])}, which is exact."
    if len(steps) > 1:
        sentence = (
            f"{len(steps)} checkpoints in {nbytes_text(sum(nbytes))} instead of "
            f"{nbytes_text(sum(full))}: the base is exact, a delta record takes "
            f"{percent_text(mean)} of float32 on average{within}, with a header of {header:,} "
            "bytes."
        )
    alt = "Size of each delta record in percent of float32, by step."

    def table() -> pd.DataFrame:
        return pd.DataFrame({"step": steps, "bytes": nbytes, "float32 bytes": full, "%": share})

    return Panel("Size of each checkpoint", sentence, option, alt, table)


def thinned(n: int) -> range:
    """At most MAX_POINTS of n points, evenly chosen, always with the newest."""
    stride = -(-n // MAX_POINTS) or 1
    return range((n - 1) % stride, n, stride)


def _lines_option(steps: Sequence[int], series: Lines, y_name: str, viewed: int) -> Option:
    """Lines over steps, with a mark at the viewed one."""
    mark = {
        "symbol": "none",
        "silent": True,
        "animation": False,
        "lineStyle": {"color": GREY},
        "data": [{"xAxis": viewed, "label": {"formatter": f"step {viewed}"}}],
    }
    shown = thinned(len(steps))
    return base_option() | {
        "tooltip": {"trigger": "axis", "confine": True},
        "grid": [{"left": 64, "right": 24, "top": 48, "bottom": 48}],
        "xAxis": {
            "type": "value",
            "name": "step (iterations)",
            "nameLocation": "middle",
            "nameGap": 28,
            "min": 0,
            "max": max(*steps, viewed, 1),  # the mark is inside, wherever the line ends
            "minInterval": 1,
            "axisLabel": {"hideOverlap": True},
        },
        "yAxis": {
            "type": "value",
            "name": y_name,
            "nameLocation": "middle",
            "nameGap": 46,
            "scale": True,
        },
        "series": [
            {
                "name": name,
                "type": "line",
                "showSymbol": len(steps) <= FEW,  # a line of three points looks like a straight one
                "symbolSize": 5,
                "lineStyle": {"color": colour, "type": dash, "width": 2},
                "itemStyle": {"color": colour},
                "data": [[steps[i], plotted(values[i])] for i in shown],
            }
            | ({"markLine": mark} if place == 0 else {})
            for place, (name, (colour, dash, values)) in enumerate(series.items())
        ],
    }
