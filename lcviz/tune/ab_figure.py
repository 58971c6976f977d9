"""A against B: the same checkpoints saved in two ways, number by number and over the run."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from lcviz.report.figure_parts import MOST_MARKED, STEP, line, step_range
from lcviz.text import loss_text, minus, nbytes_text, percent_text, plural
from lcviz.ui.charts import BLUE, VERMILION, Panel, base_figure, plotted

from .ab import Side, TrialSave

AGAINST = "B against A"
HEIGHT = 230  # pixels
_LOOKS = {"A": (BLUE, "solid", "circle"), "B": (VERMILION, "dash", "square")}


def ab_table(a: Side, b: Side, live_loss: float) -> pd.DataFrame:
    """Every measure of both, and B's difference to A. live_loss: of the model that was saved."""
    of = plural(len(a.saves), "checkpoint")
    x, y = a.newest, b.newest
    slower = f"{_signed(1000 * (b.seconds - a.seconds), '.2f')} ms{_share(a.seconds, b.seconds)}"
    rows: list[tuple[str, Callable[[Side], str], str]] = [
        (
            "newest record, % of float32",
            lambda s: _bytes(s.newest.nbytes, s),
            _more(x.nbytes, y.nbytes),
        ),
        (
            f"mean of {of}",
            lambda s: _bytes(s.mean_nbytes, s),
            _more(a.mean_nbytes, b.mean_nbytes),
        ),
        (
            "bits per parameter, newest record",
            lambda s: f"{s.bits:.3f}",
            f"{_signed(b.bits - a.bits, '.3f')} bits",
        ),
        (
            "distance",
            lambda s: percent_text(s.newest.distance),
            _finite(100 * (y.distance - x.distance), ".2f", " percentage points"),
        ),
        (
            f"loss, restored (live {loss_text(live_loss, 4)})",
            lambda s: loss_text(s.loss),
            _finite(b.loss - a.loss, ".6f"),
        ),
        (
            "buckets kept",
            lambda s: f"{s.newest.kept} of {s.buckets}",
            f"{_signed(y.kept - x.kept, 'd')} bucket{'' if abs(y.kept - x.kept) == 1 else 's'}",
        ),
        ("code tables written, bytes", _tables, _more(x.table_nbytes, y.table_nbytes)),
        (f"time to encode, median of {of}", lambda s: f"{1000 * s.seconds:.2f} ms", slower),
    ]
    cells = [(name, cell(a), cell(b), difference) for name, cell, difference in rows]
    return pd.DataFrame(cells, columns=["measure", "A", "B", AGAINST])


def ab_sentence(a: Side, b: Side) -> str:
    """What B costs and gains, against A."""
    if a.choice == b.choice:
        return "A and B are the same: change one of them."
    size, near = b.mean_nbytes - a.mean_nbytes, b.newest.distance - a.newest.distance
    less = "as many bytes"
    if round(size):
        share = percent_text(abs(size) / a.mean_nbytes)
        less = f"{nbytes_text(abs(size))} ({share}) {'more' if size > 0 else 'less'}"
    points = abs(100 * near)
    far = "as near to what was trained"
    if not math.isfinite(points):
        far = "a distance that is not finite"
    elif points >= 0.005:
        far = f"{points:.2f} percentage points {'further' if near > 0 else 'nearer'}"
    return f"A checkpoint of B, against A: {less}, {far}."


def ab_sizes(a: Side, b: Side) -> Panel:
    """The record of every checkpoint, with both."""
    return _both(
        a,
        b,
        lambda side, s: 100 * s.nbytes / side.full_nbytes,
        "record, % of float32",
        "Size",
        f"On average A {nbytes_text(a.mean_nbytes)}, B {nbytes_text(b.mean_nbytes)}; float32: "
        f"{nbytes_text(a.full_nbytes)}.",
    )


def ab_distances(a: Side, b: Side) -> Panel:
    """How far a restart would be from what was trained, with both."""
    x, y = a.newest.distance, b.newest.distance
    return _both(
        a,
        b,
        lambda _, s: 100 * s.distance,
        "% of the distance trained",
        "Distance to what was trained",
        f"At step {a.newest.step}: A {percent_text(x)}, B {percent_text(y)}.",
    )


def _both(
    a: Side,
    b: Side,
    value: Callable[[Side, TrialSave], float],
    name: str,
    title: str,
    sentence: str,
) -> Panel:
    figure = base_figure(STEP, name, HEIGHT, t=32)
    columns: dict[str, list[float | None]] = {}
    for who, side in (("A", a), ("B", b)):
        points = [(s.step, plotted(value(side, s), 4)) for s in side.saves]
        columns[f"{who}, {name}"] = [y for _, y in points]
        marked = len(points) <= MOST_MARKED
        figure.add_trace(line(who, _LOOKS[who], points, marked, "%{y:.4g} %"))
    steps = [s.step for s in a.saves]
    figure.update_xaxes(range=step_range(steps[0], steps[-1]))
    figure.update_yaxes(rangemode="tozero")
    table = pd.DataFrame({"step": steps} | columns)
    return Panel(title, sentence, figure, f"{title} with A and with B, by step.", table)


def _bytes(n: float, side: Side) -> str:
    return f"{n:,.0f} B, {percent_text(n / side.full_nbytes)}"


def _tables(side: Side) -> str:
    """Bytes of the new ones, and how many were sent before."""
    s = side.newest
    return f"{s.table_nbytes:,} B, {s.reused} of {s.tables} reused"


def _more(a: float, b: float) -> str:
    return f"{_signed(b - a, ',.0f')} B{_share(a, b)}"


def _share(a: float, b: float) -> str:
    return f", {_signed(100 * (b - a) / a, '.1f')} %" if a else ""


def _finite(difference: float, how: str, unit: str = "") -> str:
    return f"{_signed(difference, how)}{unit}" if math.isfinite(difference) else "not finite"


def _signed(difference: float, how: str) -> str:
    """With its sign; what rounds to 0 has none."""
    text = format(difference, f"+{how}")
    return minus(text if text.strip("+-0.,") else text[1:])
