"""The bytes of Adam's moments in one record, by tensor."""

from __future__ import annotations

from functools import partial

import pandas as pd

from lcviz.run.snapshot import Checkpoint
from lcviz.run.whole_state import STEPS, nbytes_by_kind
from lcviz.text import nbytes_text, percent_text
from lcviz.ui.charts import BLUE, VERMILION, Panel, base_figure

HEIGHT = 320  # pixels
BARS = {"m": (BLUE, ""), "v": (VERMILION, "/")}  # colour, pattern


def moments_panel(viewed: Checkpoint) -> Panel:
    """Bytes of m and v by tensor. viewed: a checkpoint with moments."""
    figure = base_figure("", "bytes", HEIGHT)
    names = list(dict.fromkeys(m.parameter for m in viewed.moments))
    for kind, (colour, pattern) in BARS.items():
        moments = {m.parameter: m for m in viewed.moments if m.kind == kind}
        figure.add_bar(
            name=kind,
            x=names,
            y=[m.nbytes if (m := moments.get(n)) else None for n in names],
            customdata=[8 * m.nbytes / m.n if (m := moments.get(n)) else None for n in names],
            marker={"color": colour, "pattern": {"shape": pattern}},
            hovertemplate="%{y:,} bytes, %{customdata:.3g} bits per value",
        )
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(type="category", showgrid=False)
    return Panel(
        "Adam's moments: bytes by tensor",
        _sentence(viewed),
        figure,
        "Bytes of Adam's moments m and v in this record, by tensor.",
        partial(_table, viewed),
    )


def _weights_nbytes(viewed: Checkpoint) -> int:
    return sum(a.nbytes for a in viewed.alphabets)


def _sentence(viewed: Checkpoint) -> str:
    parts = {"the weights": _weights_nbytes(viewed)} | nbytes_by_kind(viewed.moments)
    shares = [
        f"{name} {nbytes_text(nbytes)} ({percent_text(nbytes / viewed.nbytes)})"
        for name, nbytes in parts.items()
    ]
    return (
        f"Of the record's {nbytes_text(viewed.nbytes)}: {', '.join(shares)}; the rest is its "
        f"header and what is stored exactly. m moves in {STEPS['m']}, v in {STEPS['v']}. All "
        "tensors of m share an alphabet, and all of v."
    )


def _table(viewed: Checkpoint) -> pd.DataFrame:
    weights = ("weights", "all", sum(a.n for a in viewed.alphabets), _weights_nbytes(viewed))
    rows = [weights, *((m.kind, m.parameter, m.n, m.nbytes) for m in viewed.moments)]
    table = pd.DataFrame(rows, columns=["what", "parameter", "values", "bytes"])
    table["bits per value"] = (8 * table["bytes"] / table["values"]).round(4)
    table["float32 bytes"] = 4 * table["values"]
    table["% of float32"] = (100 * table["bytes"] / table["float32 bytes"]).round(3)
    return table
