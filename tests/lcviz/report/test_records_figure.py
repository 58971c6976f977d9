"""Records drawn and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codec.storage.entry import Entry
from lcviz.lab.records import RecordFacts
from lcviz.report.records_figure import LOST, MAX_POINTS, records_table, sizes_over_steps
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def record(step: int, kind: str = "delta", nbytes: int = 100, **more: Any) -> RecordFacts:
    entry = Entry(step, kind, f"{step:08d}.{kind}.safetensors", nbytes)
    given = {"digest": f"{step:032x}"[::-1], "full_nbytes": 4000, "reached": True, "levels": 3}
    return RecordFacts(entry, 0, **given | more)


RECORDS = (
    record(0, "base", 4100, levels=None),
    record(5, tables=1),
    record(10, nbytes=80, tables=1, tables_reused=1),
    record(20, nbytes=300, tables=4, tables_reused=1),
    record(25, digest=None, levels=None, reached=False, problem="x: expected a, found b"),
    record(30, reached=False),
)


def points(trace: dict[str, Any]) -> list[tuple[int, int]]:
    return list(zip(trace["x"], trace["y"], strict=True))


def test_every_record_is_a_mark(check_figure: Check) -> None:
    panel = sizes_over_steps(RECORDS)
    figure = check_figure(panel)
    assert {trace["name"]: points(trace) for trace in figure["data"]} == {
        "base": [(0, 4100)],
        "delta": [(5, 100), (10, 80), (20, 300)],
        LOST: [(25, 100), (30, 100)],
    }
    assert len({trace["marker"]["symbol"] for trace in figure["data"]}) == 3  # not by colour alone
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert figure["layout"]["yaxis"]["range"] == [1, 4]
    assert figure["layout"]["hovermode"] == "x unified"
    names = [(trace["text"], trace["textposition"]) for trace in figure["data"]]
    assert names[:2] == [(["base"], "top center"), (["", "delta", ""], "bottom center")]
    assert panel.title == "At least half of the 3 deltas take at most 100 B"
    assert panel.sentence == "All: 80 B to 300 B. 2 of 6 code tables reused."
    base = sizes_over_steps(RECORDS[:1])
    assert check_figure(base)
    assert "table" not in base.sentence

    many = (RECORDS[0], *(record(i, tables=1) for i in range(1, 3 * MAX_POINTS)))
    panel = sizes_over_steps(many)
    data = {t["name"]: points(t) for t in check_figure(panel)["data"]}["delta"]
    assert len(data) <= MAX_POINTS
    assert data[-1][0] == 3 * MAX_POINTS - 1
    assert f"{MAX_POINTS} of each kind are drawn" in panel.sentence


def test_records_as_a_table() -> None:
    table = records_table(RECORDS)
    assert table["step"].tolist() == [0, 5, 10, 20, 25, 30]
    tables = ["", "new", "reused", "3 new, 1 reused", "", "none"]
    assert table["code table"].tolist() == tables
    assert table["% of float32"].tolist() == [102.5, 2.5, 2.0, 7.5, 2.5, 2.5]
    assert table["state"].tolist() == 4 * ["ok"] + ["damaged", "after a damaged or missing one"]
    assert table["digest"][1] == "50000000"
    assert table["levels"].isna().tolist() == [True, False, False, False, True, False]
