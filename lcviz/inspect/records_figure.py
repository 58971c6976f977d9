"""The records of a chain: their sizes by step, and a table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lcviz.lab.records import RecordFacts
from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import BLUE, GREEN, GREY, PURPLE, VERMILION, Panel, base_option

from .figure_parts import axis, decades, step_axis, thinned

MAX_POINTS = 600  # of one kind: more than there are pixels would only slow every tick
LOST = "cannot be used"
MARKS = {
    "base": (BLUE, "diamond"),
    "merged": (PURPLE, "triangle"),
    "delta, new table": (VERMILION, "rect"),
    "delta, no new table": (GREEN, "circle"),
    LOST: (GREY, "arrow"),
}


def _mark(facts: RecordFacts) -> str:
    """Which of MARKS a record has."""
    if facts.problem or not facts.reached:
        return LOST
    if facts.entry.kind != "delta":
        return facts.entry.kind
    return "delta, new table" if facts.again < facts.tables else "delta, no new table"


def sizes_over_steps(records: Sequence[RecordFacts]) -> Panel:
    """Bytes of every record by step, on a log scale; bases, merged and lost records marked."""
    by_mark: dict[str, list[RecordFacts]] = {mark: [] for mark in MARKS}
    for record in records:
        by_mark[_mark(record)].append(record)
    series = [
        {
            "name": mark,
            "type": "scatter",
            "symbol": MARKS[mark][1],
            "symbolSize": 8 if mark.startswith("delta") else 12,
            "itemStyle": {"color": MARKS[mark][0]},
            "data": [[f.entry.step, f.entry.nbytes] for f in thinned(marked, MAX_POINTS)],
        }
        for mark, marked in by_mark.items()
        if marked
    ]
    sizes = [max(f.entry.nbytes, 1) for f in records]
    limits = decades(min(sizes), max(sizes) + 1)
    first, last = min(f.entry.first for f in records), max(f.entry.step for f in records)
    option = base_option() | {
        "tooltip": {"trigger": "item", "confine": True},
        "grid": [{"left": 72, "right": 24, "top": 40, "bottom": 48}],
        "xAxis": step_axis(first, last),
        "yAxis": axis("bytes on disk (log scale)", 54, "log", **limits),
        "series": series,
    }
    sentence = f"{plural(len(records), 'record')}, {nbytes_text(sum(sizes))} in all."
    deltas = sorted(
        f.entry.nbytes for m, marked in by_mark.items() if m.startswith("delta") for f in marked
    )
    if deltas:
        sentence += (
            f" Deltas take {nbytes_text(deltas[0])} to {nbytes_text(deltas[-1])}, half of them "
            f"at most {nbytes_text(deltas[(len(deltas) - 1) // 2])}."
        )
    if max(map(len, by_mark.values())) > MAX_POINTS:
        sentence += f" Of each kind {MAX_POINTS} are drawn, evenly chosen."
    alt = "Bytes of each record, by step."
    return Panel("Size of each record", sentence, option, alt, lambda: records_table(records), 300)


def records_table(records: Sequence[RecordFacts]) -> pd.DataFrame:
    """One row a record, in reading order."""
    rows = [
        (
            str(f.entry.step) if f.entry.kind != "merged" else f"{f.entry.first}–{f.entry.step}",
            f.entry.kind,
            _state(f),
            f.entry.nbytes,
            _percent(f),
            f.exact_nbytes,
            f.levels,
            _tables(f),
            (f.digest or "")[:8],
            (f.parent or "")[:8],
        )
        for f in records
    ]
    columns = "step,kind,state,bytes,% of float32,exact bytes,levels,code table,digest,parent"
    return pd.DataFrame(rows, columns=columns.split(",")).astype({"levels": "Int64"})


def _percent(f: RecordFacts) -> float | None:
    full = f.full_nbytes * len(f.steps)
    return round(100 * f.entry.nbytes / full, 3) if full else None


def _tables(f: RecordFacts) -> str:
    """Whether a record's code tables are new."""
    if not f.tables:
        return "" if f.levels is None else "none"
    if f.tables == 1:
        return "reused" if f.again else "new"
    return f"{f.tables - f.again} new, {f.again} reused"


def _state(f: RecordFacts) -> str:
    if f.problem:
        return "damaged" if f.digest is None else "does not fit"
    if f.aside:
        return "also in other records"
    return "ok" if f.reached else "after a damaged or missing one"
