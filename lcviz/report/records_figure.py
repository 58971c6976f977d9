"""The records of a chain: their sizes by step, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd

from lcviz.lab.records import RecordFacts
from lcviz.text import nbytes_text, plural
from lcviz.ui.charts import BAD, KEPT, Panel, base_figure, bytes_axis

from .figure_parts import MAX_POINTS, STEP, decades, step_range, thinned

HEIGHT = 256  # pixels
LOST = "cannot be used"
MARKS = {"base": (KEPT, "diamond"), "delta": (KEPT, "circle"), LOST: (BAD, "x")}


def _mark(record: RecordFacts) -> str:
    """The key of MARKS for a record."""
    if record.problem or not record.reached:
        return LOST
    return "base" if record.entry.kind == "base" else "delta"


def sizes_over_steps(records: Sequence[RecordFacts]) -> Panel:
    """Bytes of every record by step, on a log scale; bases and lost records marked."""
    by_mark: dict[str, list[RecordFacts]] = {mark: [] for mark in MARKS}
    for record in records:
        by_mark[_mark(record)].append(record)
    figure = base_figure(STEP, "bytes", HEIGHT)
    for mark, marked in by_mark.items():
        if marked:
            colour, symbol = MARKS[mark]
            points, size = thinned(marked, MAX_POINTS), 7 if mark == "delta" else 11
            below = mark == "delta"  # nothing else is as small
            named = (min if below else max)(points, key=lambda f: f.entry.nbytes)
            figure.add_scatter(
                name=mark,
                text=[mark if f is named else "" for f in points],
                textposition=f"{'bottom' if below else 'top'} center",
                x=[f.entry.step for f in points],
                y=[max(f.entry.nbytes, 1) for f in points],
                mode="markers+text",
                marker={"color": colour, "symbol": symbol, "size": size},
                cliponaxis=False,
                hovertemplate="%{y:,} bytes",
            )
    sizes = [max(f.entry.nbytes, 1) for f in records]
    first, last = records[0].entry.step, records[-1].entry.step
    figure.update_xaxes(range=step_range(first, last))
    limits = decades(min(sizes), max(sizes) + 1)
    figure.update_yaxes(range=limits, **bytes_axis(sizes))
    alt = "Bytes of each record, by step."
    table = partial(records_table, records)
    title, sentence = _texts(records, by_mark)
    return Panel(title, sentence, figure, alt, table)


def _texts(
    records: Sequence[RecordFacts], by_mark: Mapping[str, Sequence[RecordFacts]]
) -> tuple[str, str]:
    """Title and sentence."""
    title, texts = f"{plural(len(records), 'record')} without usable deltas", []
    if deltas := sorted(record.entry.nbytes for record in by_mark["delta"]):
        median = nbytes_text(deltas[(len(deltas) - 1) // 2])
        ends = f"{nbytes_text(deltas[0])} to {nbytes_text(deltas[-1])}"
        title = f"At least half of the {plural(len(deltas), 'delta')} take at most {median}"
        title = title if len(deltas) > 1 else f"The delta takes {median}"
        texts.append(f"All: {ends}." * (len(deltas) > 1))
    if needed := sum(record.tables for record in records):
        reused = sum(record.tables_reused for record in records)
        texts.append(f"{reused:,} of {plural(needed, 'code table')} reused.")
    if max(map(len, by_mark.values())) > MAX_POINTS:
        texts.append(f"At most {MAX_POINTS} of each kind are drawn, evenly chosen.")
    return title, " ".join(texts)


def records_table(records: Sequence[RecordFacts]) -> pd.DataFrame:
    """One row a record, in reading order."""
    rows = [
        (
            f.entry.step,
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
    return round(100 * f.entry.nbytes / f.full_nbytes, 3) if f.full_nbytes else None


def _tables(f: RecordFacts) -> str:
    """Whether a record's code tables are new."""
    if not f.tables:
        return "" if f.levels is None else "none"
    if f.tables == 1:
        return "reused" if f.tables_reused else "new"
    return f"{f.tables - f.tables_reused} new, {f.tables_reused} reused"


def _state(f: RecordFacts) -> str:
    if f.problem:
        return "damaged" if f.digest is None else "does not fit"
    return "ok" if f.reached else "after a damaged or missing one"
