"""Records of a chain by size."""

from __future__ import annotations

import json

from codec.chain import Entry
from lcviz.figures.records import record_sizes

ENTRIES = (
    Entry(0, "base", "00000000.base.safetensors", 40_000),
    Entry(7, "delta", "00000007.delta.safetensors", 1_300),
    Entry(14, "delta", "00000014.delta.safetensors", 1_250),
)


def test_marks_are_the_records() -> None:
    panel = record_sizes(ENTRIES)
    figure = json.loads(json.dumps(panel.chart.to_plotly_json(), allow_nan=False, default=list))
    marks = {m["name"]: (list(m["x"]), list(m["y"])) for m in figure["data"]}
    assert marks == {"base": ([0], [40_000]), "delta": ([7, 14], [1_300, 1_250])}
    base, delta = figure["data"]
    assert base["marker"]["symbol"] != delta["marker"]["symbol"]  # not by colour alone
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert figure["layout"]["margin"]


def test_sentence_and_table() -> None:
    panel = record_sizes(ENTRIES)
    for part in ("3 records", "42.5 kB", "40.0 kB"):
        assert part in panel.sentence
    assert panel.table.to_dict("list") == {
        "step": [0, 7, 14],
        "kind": ["base", "delta", "delta"],
        "bytes": [40_000, 1_300, 1_250],
        "file": [e.name for e in ENTRIES],
    }
    assert panel.alt == record_sizes(ENTRIES[:1]).alt


def test_the_base_alone() -> None:
    assert record_sizes(ENTRIES[:1]).sentence.startswith("1 record")
