"""Records of a chain by size."""

from __future__ import annotations

import json
from typing import Any

from codec.storage.source import Entry
from lcviz.export.records_figure import AGAIN, NEW, record_sizes

ENTRIES = (
    Entry(0, "base", "00000000.base.safetensors", 40_000, 0),
    Entry(7, "delta", "00000007.delta.safetensors", 1_300, 7),
    Entry(14, "delta", "00000014.delta.safetensors", 1_250, 14),
    Entry(21, "delta", "00000021.delta.safetensors", 1_200, 21),
)
TABLES = ((0, 0), (1, 0), (1, 1), (0, 0))


def marks(entries: tuple[Entry, ...], tables: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """Name -> the trace, as plain JSON."""
    figure = record_sizes(entries, tables).chart.to_plotly_json()
    plain = json.loads(json.dumps(figure, allow_nan=False, default=list))
    assert plain["layout"]["yaxis"]["type"] == "log"
    assert plain["layout"]["yaxis"]["tickformat"] == ","  # 10,000 as on Inspect, not 10k
    assert plain["layout"]["margin"]
    return {m["name"]: m for m in plain["data"]}


def test_marks_are_the_records() -> None:
    found = marks(ENTRIES, TABLES)
    assert {name: (list(m["x"]), list(m["y"])) for name, m in found.items()} == {
        "base": ([0], [40_000]),
        NEW: ([7], [1_300]),
        AGAIN: ([14, 21], [1_250, 1_200]),  # the last needs no table, so none is new
    }
    symbols = {m["marker"]["symbol"] for m in found.values()}
    assert len(symbols) == 3  # not by colour alone


def test_one_new_table_among_many_makes_a_record_new() -> None:
    found = marks(ENTRIES[:3], ((0, 0), (8, 7), (8, 8)))
    assert (list(found[NEW]["x"]), list(found[AGAIN]["x"])) == ([7], [14])


def test_sentence_and_table() -> None:
    panel = record_sizes(ENTRIES, TABLES)
    for part in ("4 records", "43.8 kB", "40.0 kB", "1 of 2 code tables were sent before"):
        assert part in panel.sentence
    assert panel.table.to_dict("list") == {
        "step": [0, 7, 14, 21],
        "kind": ["base", "delta", "delta", "delta"],
        "code table": ["none", "new", "used again", "none"],
        "bytes": [40_000, 1_300, 1_250, 1_200],
        "file": [e.name for e in ENTRIES],
    }
    assert panel.alt == record_sizes(ENTRIES[:1], TABLES[:1]).alt


def test_tables_of_many_tensors() -> None:
    panel = record_sizes(ENTRIES[:2], ((0, 0), (8, 7)))
    assert panel.table["code table"].tolist() == ["none", "1 new, 7 used again"]


def test_the_base_alone() -> None:
    panel = record_sizes(ENTRIES[:1], TABLES[:1])
    assert panel.sentence.startswith("1 record,")
    assert "table" not in panel.sentence
