"""Losses and sizes over the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcviz.ui.charts import Panel
from lcviz.ui.curves import FEW, size_curve

Check = Callable[[Panel], dict[str, Any]]


def test_size_curve_leaves_the_base_out(check_option: Check) -> None:
    panel = size_curve([0, 1, 2], [4100, 140, 160], [4000, 4000, 4000], 30, 2)
    record, floor = check_option(panel)["series"]
    assert record["data"] == [[1, 3.5], [2, 4.0]]
    assert floor["data"] == [[1, 3.125], [2, 3.125]]
    for part in ("3 checkpoints", "4.40 kB", "12.0 kB", "3.75 % of float32", "30 bytes"):
        assert part in panel.sentence
    assert panel.table["bytes"].tolist() == [4100, 140, 160]
    assert panel.table["%"].tolist() == [102.5, 3.5, 4.0]
    base = size_curve([0], [4100], [4000], 100, 0)
    assert check_option(base)["series"][0]["data"] == []
    assert "0.00 %" not in base.sentence  # there is no delta record yet
    assert base.alt == panel.alt


def test_size_curve_with_a_budget(check_option: Check) -> None:
    """What it allows each record, with what is stored exactly."""
    sizes, full, allowed = [4100, 190, 200], [4000] * 3, [4000, 200, 220]
    panel = size_curve([0, 1, 2], sizes, full, 30, 2, 0.05, allowed)
    lines = {s["name"]: s for s in check_option(panel)["series"]}
    assert lines["budget"]["data"] == [[1, 5.0], [2, 5.5]]
    assert len({s["lineStyle"]["type"] for s in lines.values()}) == 3  # not by colour alone
    assert "4.88 % of float32 on average (budget 5.00 %)" in panel.sentence
    assert "budget" not in str(size_curve([0, 1, 2], sizes, full, 30, 2).chart)


def test_few_points_are_seen_one_by_one(check_option: Check) -> None:
    for n, shown in ((2, True), (FEW + 1, True), (FEW + 2, False)):
        option = check_option(size_curve(range(n), [9] * n, [90] * n, 3, 0))
        assert [series["showSymbol"] for series in option["series"]] == [shown, shown]
