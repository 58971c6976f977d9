"""Losses and sizes over the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lcviz.ui.charts import Panel
from lcviz.ui.curves import FEW, loss_curve, size_curve

Check = Callable[[Panel], dict[str, Any]]


def test_loss_curve(check_option: Check) -> None:
    panel = loss_curve([0, 7, 14], [2.5, 1.5, 1.25], [2.5, 1.75, 1.3], 7)
    live, restored = check_option(panel)["series"]
    assert live["data"] == [[0, 2.5], [7, 1.5], [14, 1.25]]
    assert restored["data"] == [[0, 2.5], [7, 1.75], [14, 1.3]]
    assert live["lineStyle"]["type"] != restored["lineStyle"]["type"]  # not by colour alone
    assert [mark["xAxis"] for mark in live["markLine"]["data"]] == [7]
    assert all(part in panel.sentence for part in ("step 14", "1.2500", "1.3000"))
    assert panel.table.to_dict("list") == {
        "step": [0, 7, 14],
        "live": [2.5, 1.5, 1.25],
        "restored": [2.5, 1.75, 1.3],
    }
    assert panel.alt == loss_curve([0, 1], [2.0, 1.0], [2.0, 1.5], 0).alt


def test_marks_are_inside(check_option: Check) -> None:
    """Not every loss is measured: the newest step can lie beyond the line's end; crashes, too."""
    for viewed, killed, end in ((19, (), 19), (5, (), 14), (0, (), 14), (7, (9, 16), 16)):
        losses = [2.5, 1.5, 1.25], [2.5, 1.75, 1.3]
        option = check_option(loss_curve([0, 7, 14], *losses, viewed, killed))
        assert option["xAxis"]["max"] == end
        marks = option["series"][0]["markLine"]["data"]
        assert [mark["xAxis"] for mark in marks] == [viewed, *killed]
        assert all(f"killed at {at}" == m["label"]["formatter"] for at, m in zip(killed, marks[1:]))


def test_a_diverged_loss_is_a_gap(check_option: Check) -> None:
    """JSON has neither NaN nor infinity."""
    panel = loss_curve([0, 1, 2, 3], [2.0, -math.inf, math.inf, math.nan], [2.0, 1.0, 1.0, 1.0], 0)
    live, _ = check_option(panel)["series"]
    assert live["data"] == [[0, 2.0], [1, None], [2, None], [3, None]]


def test_few_points_are_seen_one_by_one(check_option: Check) -> None:
    for n, shown in ((1, True), (3, True), (FEW, True), (FEW + 1, False)):
        losses = [1.0 / (i + 1) for i in range(n)]
        option = check_option(loss_curve(range(n), losses, losses, 0))
        assert [series["showSymbol"] for series in option["series"]] == [shown, shown]


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
