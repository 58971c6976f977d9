"""A chain somebody opened: its records by size, one step's tensors, levels by exponent and step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import pandas as pd

from lcviz.lab.anatomy import BucketKey
from lcviz.lab.records import Facts
from lcviz.lab.step_tensors import StepFacts, TensorFacts
from lcviz.text import exponent_text, minus, nbytes_text, percent_text, plain, plural
from lcviz.ui.charts import (
    BLUE,
    CIVIDIS,
    GREEN,
    GREY,
    PURPLE,
    VERMILION,
    Option,
    Panel,
    base_option,
)

from .exponents import Moved

MAX_POINTS = 600  # of one kind: more than the pixels there are would only slow every tick
MAX_COLUMNS = 300  # of the heatmap
HEATMAP_HEIGHT = 340
MAX_TENSORS = 30  # in the picture; the table has all
NAME_LENGTH = 26
LOST = "cannot be used"
MARKS = {
    "base": (BLUE, "diamond"),
    "merged": (PURPLE, "triangle"),
    "delta, new table": (VERMILION, "rect"),
    "delta, no new table": (GREEN, "circle"),
    LOST: (GREY, "arrow"),
}


T = TypeVar("T")


def kind_of(facts: Facts) -> str:
    """Which of MARKS a record has."""
    if facts.problem or not facts.reached:
        return LOST
    if facts.entry.kind != "delta":
        return facts.entry.kind
    return "delta, new table" if facts.again < facts.tables else "delta, no new table"


def sizes_over_steps(every: Sequence[Facts]) -> Panel:
    """Bytes of every record by step, on a log scale; bases, merged ones and lost ones marked."""
    kinds = [kind_of(f) for f in every]
    series = []
    for kind, (colour, symbol) in MARKS.items():
        own = [[f.entry.step, f.entry.nbytes] for f, k in zip(every, kinds) if k == kind]
        if own:
            series.append(
                {
                    "name": kind,
                    "type": "scatter",
                    "symbol": symbol,
                    "symbolSize": 8 if kind.startswith("delta") else 12,
                    "itemStyle": {"color": colour},
                    "data": _thinned(own),
                }
            )
    sizes = [max(f.entry.nbytes, 1) for f in every]
    option: Option = base_option() | {
        "tooltip": {"trigger": "item", "confine": True},
        "grid": [{"left": 72, "right": 24, "top": 40, "bottom": 48}],
        "xAxis": {
            "type": "value",
            "name": "step (iterations)",
            "nameLocation": "middle",
            "nameGap": 28,
            "min": min(f.entry.first for f in every),
            "max": max(max(f.entry.step for f in every), min(f.entry.first for f in every) + 1),
            "minInterval": 1,
            "axisLabel": {"hideOverlap": True},
        },
        "yAxis": {
            "type": "log",
            "name": "bytes on disk (log scale)",
            "nameLocation": "middle",
            "nameGap": 54,
            "min": 10 ** math.floor(math.log10(min(sizes))),
            "max": 10 ** math.ceil(math.log10(max(sizes) + 1)),
        },
        "series": series,
    }
    deltas = [f.entry.nbytes for f, kind in zip(every, kinds) if kind.startswith("delta")]
    sentence = f"{plural(len(every), 'record')}, {nbytes_text(sum(sizes))} in all."
    if deltas:
        sentence += (
            f" Deltas take {nbytes_text(min(deltas))} to {nbytes_text(max(deltas))}, half of them "
            f"at most {nbytes_text(sorted(deltas)[(len(deltas) - 1) // 2])}."
        )
    if max(map(kinds.count, MARKS)) > MAX_POINTS:
        sentence += f" Of each kind {MAX_POINTS} are drawn, evenly chosen."
    return Panel(
        "Size of each record",
        sentence,
        option,
        "Bytes of each record, by step.",
        records_table(every),
        300,
    )


def _thinned(points: Sequence[T], most: int = MAX_POINTS) -> Sequence[T]:
    """At most so many of them, evenly chosen, the newest always among them."""
    stride = -(-len(points) // most) or 1
    return points[::-1][::stride][::-1]


def records_table(every: Sequence[Facts]) -> pd.DataFrame:
    """One row a record, in the order of its reader."""
    return pd.DataFrame(
        {
            "step": [_steps(f) for f in every],
            "kind": [f.entry.kind for f in every],
            "state": [_state(f) for f in every],
            "bytes": [f.entry.nbytes for f in every],
            "% of float32": [_share(f) for f in every],
            "exact bytes": [f.exact_nbytes for f in every],
            "levels": [None if f.levels is None else f.levels for f in every],
            "code table": [_tables(f) for f in every],
            "digest": [(f.digest or "")[:8] for f in every],
            "parent": [(f.parent or "")[:8] for f in every],
        }
    ).astype({"levels": "Int64"})


def _steps(f: Facts) -> str:
    return str(f.entry.step) if f.entry.kind != "merged" else f"{f.entry.first}–{f.entry.step}"


def _share(f: Facts) -> float | None:
    full = f.full_nbytes * len(f.steps)
    return round(100 * f.entry.nbytes / full, 3) if full else None


def _tables(f: Facts) -> str:
    """Whether a record's code tables are new."""
    if not f.tables:
        return "" if f.levels is None else "none"
    if f.tables == 1:
        return "used again" if f.again else "new"
    return f"{f.tables - f.again} new, {f.again} used again"


def _state(f: Facts) -> str:
    if f.problem:
        return "damaged" if f.digest is None else "does not fit"
    if f.aside:
        return "also told by others"
    return "ok" if f.reached else "after a damaged or missing one"


def tensors_table(facts: StepFacts) -> pd.DataFrame:
    """One row a tensor."""
    every = facts.tensors
    return pd.DataFrame(
        {
            "tensor": [t.name for t in every],
            "shape": [" × ".join(map(str, t.shape)) or "scalar" for t in every],
            "dtype": [t.dtype for t in every],
            "stored": [STORED[t.stored] for t in every],
            "values": [t.n for t in every],
            "changed": [t.changed for t in every],
            "bits a parameter": [_rounded(t.bits) for t in every],
            "largest level": [_rounded(t.largest) for t in every],
            "minimum": [_rounded(t.low) for t in every],
            "maximum": [_rounded(t.high) for t in every],
            "mean": [_rounded(t.mean) for t in every],
            "standard deviation": [_rounded(t.std) for t in every],
            "not finite": [t.odd for t in every],
        }
    ).astype({"changed": "Int64"})


STORED = {"base": "exactly", "codes": "as codes", "whole": "exactly", "unchanged": "not at all"}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def tensor_bars(facts: StepFacts) -> Panel:
    """Of each tensor, the largest first: which share of its values changed, and what that took.

    Those without codes in this record are left out; there is one with codes at least.
    """
    coded = sorted((t for t in facts.tensors if t.changed is not None), key=lambda t: -t.n)
    shown = coded[:MAX_TENSORS]
    names = [_short(t.name) for t in shown]
    left = [round(100 * (t.changed or 0) / max(t.n, 1), 3) for t in shown]
    right = [None if t.bits is None else round(t.bits, 4) for t in shown]
    per = "bits a parameter" if facts.together == 1 else "bits a parameter and step"
    columns: list[tuple[str, str, Sequence[float | None]]] = [
        ("values changed, %", BLUE, left),
        (per, GREEN, right),
    ]
    height = 18 * len(shown) + 12
    grids, xs, ys, series = [], [], [], []
    for i, (name, colour, values) in enumerate(columns):
        across: dict[str, Any]
        across = {"left": 190, "right": "44%"} if i == 0 else {"left": "60%", "right": 40}
        grids.append(across | {"top": 8, "height": height})
        xs.append(
            {
                "type": "value",
                "gridIndex": i,
                "name": name,
                "nameLocation": "middle",
                "nameGap": 28,
                "min": 0,
                "axisLabel": {"hideOverlap": True},
                "splitNumber": 3,
            }
        )
        ys.append(
            {"type": "category", "gridIndex": i, "inverse": True, "data": names, "show": i == 0}
        )
        series.append(
            {
                "type": "bar",
                "name": name,
                "xAxisIndex": i,
                "yAxisIndex": i,
                "barWidth": "62%",
                "itemStyle": {"color": colour},
                "data": values,
            }
        )
    option: Option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "grid": grids,
        "xAxis": xs,
        "yAxis": ys,
        "series": series,
    }
    return Panel(
        f"What step {facts.step} changes in each tensor",
        _changes(facts, coded),
        option,
        "Bars for each tensor: the share of its values that changed, and bits a parameter.",
        tensors_table(facts),
        height + 64,
    )


def _changes(facts: StepFacts, coded: Sequence[TensorFacts]) -> str:
    n, changed = sum(t.n for t in coded), sum(t.changed or 0 for t in coded)
    most = max(coded, key=lambda t: (t.changed or 0) / max(t.n, 1))
    text = (
        f"{changed:,} of {n:,} lossy values change in this step, "
        f"{percent_text(changed / max(n, 1))}"
    )
    if changed and len(coded) > 1:
        share = percent_text((most.changed or 0) / most.n)
        text += f"; the largest share is that of {plain(most.name)}, {share}"
    text += "."
    if facts.together > 1:
        text += f" Its code words stand for {facts.together} steps at once: of their bits, each "
        text += "step is given an equal share."
    if len(coded) > MAX_TENSORS:
        text += f" Drawn are the {MAX_TENSORS} largest of {plural(len(coded), 'tensor')}."
    return text


def _short(name: str) -> str:
    """The end of a long name says more than its begin."""
    return name if len(name) <= NAME_LENGTH else "…" + name[1 - NAME_LENGTH :]


def exponents_over_steps(every: Sequence[Moved], marked: BucketKey | None = None) -> Panel:
    """Heatmap of how many values of each step got a level of each exponent.

    every: by rising step; one of them has a value that changed. marked: the bucket whose exponent
    is highlighted.
    """
    present = {e for m in every for e in m.counts}
    exponents = list(range(min(present), max(present) + 1))
    drawn = _thinned(every, MAX_COLUMNS)
    cells = [
        [x, exponent - exponents[0], round(math.log10(count), 3), count]
        for x, m in enumerate(drawn)
        for exponent, count in m.counts.items()
    ]
    decades = max(1, math.ceil(max(cell[2] for cell in cells)))
    place = {"left": 72, "right": 76}
    top, height = 12, HEATMAP_HEIGHT - 60
    grids: list[Option] = [
        # No values: grey, on black as on white.
        place
        | {
            "top": top,
            "height": height,
            "show": True,
            "borderWidth": 0,
            "backgroundColor": "rgba(128,128,128,0.25)",
        }
    ]
    xs: list[Option] = [
        {
            "type": "category",
            "data": [m.step for m in drawn],
            "name": "step (iterations)",
            "nameLocation": "middle",
            "nameGap": 28,
            "axisLabel": {"hideOverlap": True},
        }
    ]
    ys: list[Option] = [
        {
            "type": "category",
            "data": [minus(e) for e in exponents],
            "nameLocation": "middle",
            "name": "exponent e of the level",
            "nameGap": 40,
        }
    ]
    if marked is not None and exponents[0] <= marked[0] <= exponents[-1]:
        # A rim around its row: a second grid, since a mark would end in the middle of a cell.
        row = height / len(exponents)
        above = top + row * (exponents[-1] - marked[0])
        rim = {"show": True, "borderColor": PURPLE, "borderWidth": 3, "z": 3}
        grids.append(place | rim | {"top": above, "height": row})
        xs.append({"type": "value", "gridIndex": 1, "show": False})
        ys.append({"type": "value", "gridIndex": 1, "show": False})
    option: Option = base_option() | {
        "legend": {"show": False},
        "tooltip": {"trigger": "item", "confine": True},
        "grid": grids,
        "xAxis": xs,
        "yAxis": ys,
        "visualMap": {
            "type": "continuous",
            "dimension": 2,
            "min": 0,
            "max": decades,
            "calculable": False,
            "inRange": {"color": list(CIVIDIS)},
            "right": 0,
            "top": top,
            "itemWidth": 14,
            "itemHeight": height - 48,
            "text": [f"{10**decades:,}", "1 value"],
            "hoverLink": False,
        },
        "series": [
            {
                "type": "heatmap",
                "dimensions": ["step", "exponent", "log₁₀", "values"],
                "encode": {"x": 0, "y": 1, "value": 2, "tooltip": [0, 1, 3]},
                "data": cells,
                "emphasis": {"disabled": True},
                "progressive": 0,
            }
        ],
    }
    first, last = every[0], every[-1]
    sentence = (
        f"Levels reach from {exponent_text(min(present))} to {exponent_text(max(present))}. At "
        f"step {first.step}, {percent_text(1 - first.zeros / max(first.n, 1))} of {first.n:,} "
        f"values got a level; at step {last.step}, "
        f"{percent_text(1 - last.zeros / max(last.n, 1))}. Grey: no values."
    )
    if len(drawn) < len(every):
        sentence += f" Of {plural(len(every), 'step')} {len(drawn)} are drawn, evenly chosen."
    rows = [(m.step, e, c) for m in every for e, c in m.counts.items()]
    table = pd.DataFrame(
        {
            "step": [step for step, _, _ in rows],
            "exponent": [minus(e) for _, e, _ in rows],
            "values": [c for _, _, c in rows],
        }
    )
    return Panel(
        "Values that change, by step and exponent of their level (log scale)",
        sentence,
        option,
        "Heatmap of the number of changed values by step and exponent of the level.",
        table,
        HEATMAP_HEIGHT,
        "canvas",
    )
