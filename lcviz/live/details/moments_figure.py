"""What Adam's moments take in one record, by parameter."""

from __future__ import annotations

from functools import partial

import pandas as pd

from lcviz.run.snapshot import Checkpoint, nbytes_by_kind
from lcviz.text import nbytes_text, percent_text
from lcviz.ui.charts import BLUE, GREEN, VERMILION, Panel, base_figure

HEIGHT = 320  # pixels
BARS = {"m": (BLUE, ""), "v": (VERMILION, "/")}  # colour, pattern


def moments_panel(viewed: Checkpoint) -> Panel:
    """Bits per value of m and v of every parameter, and of the weights. viewed: it has moments."""
    figure = base_figure("", "bits per value", HEIGHT)
    names = list(dict.fromkeys(m.parameter for m in viewed.moments))
    for kind, (colour, pattern) in BARS.items():
        found = {m.parameter: m for m in viewed.moments if m.kind == kind}
        figure.add_bar(
            name=kind,
            x=names,
            y=[round(_bits(m.nbytes, m.n), 4) if (m := found.get(n)) else None for n in names],
            marker={"color": colour, "pattern": {"shape": pattern}},
            hovertemplate="%{y:.3g} bits",
        )
    n = sum(a.n for a in viewed.alphabets)
    figure.add_scatter(
        name="weights, all tensors",
        x=names,
        y=[round(_bits(_weights(viewed), n), 4)] * len(names) if n else [],
        mode="lines",
        line={"color": GREEN, "dash": "dash", "width": 2},
        hovertemplate="%{y:.3g} bits",
    )
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(type="category", showgrid=False)
    return Panel(
        "Adam's moments: bits per value",
        _sentence(viewed),
        figure,
        "Bits per value of Adam's moments m and v of each parameter, beside those of the weights.",
        partial(_table, viewed),
        HEIGHT,
    )


def _bits(nbytes: int, n: int) -> float:
    return 8 * nbytes / n if n else 0.0


def _weights(viewed: Checkpoint) -> int:
    return sum(a.nbytes for a in viewed.alphabets)


def _sentence(viewed: Checkpoint) -> str:
    parts = {"the weights": _weights(viewed)} | nbytes_by_kind(viewed.moments)
    told = [
        f"{name} {nbytes_text(nbytes)} ({percent_text(nbytes / viewed.nbytes)})"
        for name, nbytes in parts.items()
    ]
    return (
        f"Of the record's {nbytes_text(viewed.nbytes)}: {', '.join(told)}; the rest is its header "
        "and what is stored exactly. Each moment has an alphabet of its own, with at most 7 levels."
    )


def _table(viewed: Checkpoint) -> pd.DataFrame:
    weights = ("weights", "all", sum(a.n for a in viewed.alphabets), _weights(viewed))
    rows = [weights, *((m.kind, m.parameter, m.n, m.nbytes) for m in viewed.moments)]
    table = pd.DataFrame(rows, columns=["what", "parameter", "values", "bytes"])
    table["float32 bytes"] = 4 * table["values"]
    table["% of float32"] = (100 * table["bytes"] / table["float32 bytes"]).round(3)
    return table
