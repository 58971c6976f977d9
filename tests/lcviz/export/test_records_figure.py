"""Records of a chain by size."""

from __future__ import annotations

import json

from codec.storage.source import Entry
from lcviz.export.records_figure import NEW, REUSED, record_sizes

ENTRIES = (
    Entry(0, "base", "00000000.base.safetensors", 40_000, 0),
    Entry(7, "delta", "00000007.delta.safetensors", 1_300, 7),
    Entry(14, "delta", "00000014.delta.safetensors", 1_250, 14),
    Entry(21, "delta", "00000021.delta.safetensors", 1_200, 21),
)
TABLES = ((0, 0), (8, 7), (1, 1), (0, 0))


def test_records_by_step_and_kind() -> None:
    panel = record_sizes(ENTRIES, TABLES)
    figure = panel.chart.to_plotly_json()
    plain = json.loads(json.dumps(figure, allow_nan=False, default=list))
    assert plain["layout"]["yaxis"]["type"] == "log"
    assert {m["name"]: (list(m["x"]), list(m["y"])) for m in plain["data"]} == {
        "base": ([0], [40_000]),
        NEW: ([7], [1_300]),  # one new table of many is enough
        REUSED: ([14, 21], [1_250, 1_200]),  # the last needs no table, so none is new
    }
    assert len({m["marker"]["symbol"] for m in plain["data"]}) == 3  # not by colour alone
    for part in ("4 records", "43.8 kB", "40.0 kB", "8 of 9 code tables"):
        assert part in panel.sentence
    assert panel.table.to_dict("list") == {
        "step": [0, 7, 14, 21],
        "kind": ["base", "delta", "delta", "delta"],
        "code table": ["none", "1 new, 7 reused", "reused", "none"],
        "bytes": [40_000, 1_300, 1_250, 1_200],
        "file": [e.name for e in ENTRIES],
    }
    base = record_sizes(ENTRIES[:1], TABLES[:1])
    assert base.alt == panel.alt
    assert base.sentence.startswith("1 record,")
    assert "table" not in base.sentence
