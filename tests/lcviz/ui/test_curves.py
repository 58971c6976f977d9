"""Losses and sizes over the run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lcviz.ui.charts import Panel
from lcviz.ui.curves import FEW, loss_curve, size_curve

Check = Callable[[Panel], dict[str, Any]]


def test_loss_curve(check_option: Check) -> None:
    panel = loss_curve([0, 7, 14], [2.5, 1.5, 1.25], [2.5, 1.75, 1.3], 7)
    option = check_option(panel)
    live, restored = option["series"]
    assert live["data"] == [[0, 2.5], [7, 1.5], [14, 1.25]]
    assert restored["data"] == [[0, 2.5], [7, 1.75], [14, 1.3]]
    assert live["lineStyle"]["type"] != restored["lineStyle"]["type"]  # not by colour alone
    assert live["markLine"]["data"][0]["xAxis"] == 7
    assert "markLine" not in restored
    for part in ("step 14", "1.2500", "1.3000"):
        assert part in panel.sentence
    assert panel.table.to_dict("list") == {
        "step": [0, 7, 14],
        "live": [2.5, 1.5, 1.25],
        "restored": [2.5, 1.75, 1.3],
    }


def test_the_mark_is_inside_where_no_loss_was_measured(check_option: Check) -> None:
    """Losses are measured now and then: the newest step can lie beyond the line's end."""
    for viewed, end in ((19, 19), (5, 14), (0, 14)):
        option = check_option(loss_curve([0, 7, 14], [2.5, 1.5, 1.25], [2.5, 1.75, 1.3], viewed))
        assert option["xAxis"]["max"] == end
    assert check_option(size_curve([0], [4100], [4000], 100, 0))["xAxis"]["max"] == 1


def test_crashes_are_marked(check_option: Check) -> None:
    option = check_option(loss_curve([0, 7, 14], [2.5, 1.5, 1.2], [2.5, 1.7, 1.3], 7, [9, 16]))
    viewed, *crashes = option["series"][0]["markLine"]["data"]
    assert viewed["xAxis"] == 7
    assert [c["xAxis"] for c in crashes] == [9, 16]
    assert [c["label"]["formatter"] for c in crashes] == ["killed at 9", "killed at 16"]
    assert {c["lineStyle"]["type"] for c in crashes} == {"dashed"}
    assert option["xAxis"]["max"] == 16


def test_a_diverged_loss_is_a_gap(check_option: Check) -> None:
    """JSON has neither NaN nor infinity."""
    panel = loss_curve([0, 1, 2, 3], [2.0, -math.inf, math.inf, math.nan], [2.0, 1.0, 1.0, 1.0], 0)
    live, _ = check_option(panel)["series"]
    assert live["data"] == [[0, 2.0], [1, None], [2, None], [3, None]]


def test_a_single_point_is_drawn_as_one(check_option: Check) -> None:
    option = check_option(loss_curve([0], [2.0], [2.0], 0))
    assert all(series["showSymbol"] for series in option["series"])


@pytest.mark.parametrize(("n", "shown"), [(3, True), (FEW, True), (FEW + 1, False)])
def test_few_points_are_seen_one_by_one(check_option: Check, n: int, shown: bool) -> None:
    losses = [1.0 / (i + 1) for i in range(n)]
    option = check_option(loss_curve(range(n), losses, losses, 0))
    assert [series["showSymbol"] for series in option["series"]] == [shown, shown]


def test_size_curve_leaves_the_base_out(check_option: Check) -> None:
    panel = size_curve([0, 1, 2], [4100, 140, 160], [4000, 4000, 4000], 30, 2)
    option = check_option(panel)
    record, floor = option["series"]
    assert record["data"] == [[1, 3.5], [2, 4.0]]
    assert floor["data"] == [[1, 3.125], [2, 3.125]]
    assert record["markLine"]["data"][0]["xAxis"] == 2
    for part in ("3 checkpoints", "4.40 kB", "12.0 kB", "3.75 % of float32", "30 bytes"):
        assert part in panel.sentence
    assert panel.table["bytes"].tolist() == [4100, 140, 160]
    assert panel.table["%"].tolist() == [102.5, 3.5, 4.0]


def test_size_curve_with_a_budget(check_option: Check) -> None:
    """What it grants each record, and what is stored exactly beside it."""
    sizes, full, allowed = [4100, 190, 200], [4000] * 3, [4000, 200, 220]
    panel = size_curve([0, 1, 2], sizes, full, 30, 2, 0.05, allowed)
    lines = {s["name"]: s for s in check_option(panel)["series"]}
    assert lines["budget"]["data"] == [[1, 5.0], [2, 5.5]]
    styles = [s["lineStyle"]["type"] for s in lines.values()]
    assert len(set(styles)) == 3  # not by colour alone
    assert "4.88 % of float32 on average (budget 5.00 %), its header" in panel.sentence
    without = size_curve([0, 1, 2], [4100, 190, 200], [4000] * 3, 30, 2)
    assert "budget" not in without.sentence
    assert "budget" not in str(without.chart)


def test_size_curve_of_the_base_alone(check_option: Check) -> None:
    """Nothing is said about delta records while there is none."""
    panel = size_curve([0], [4100], [4000], 100, 0)
    assert check_option(panel)["series"][0]["data"] == []
    assert "0.00 %" not in panel.sentence


def test_alt_is_the_same_at_every_step() -> None:
    assert (
        loss_curve([0, 1], [2.0, 1.0], [2.0, 1.5], 0).alt
        == loss_curve([0, 1, 2], [2.0, 1.0, 0.5], [2.0, 1.5, 0.6], 2).alt
    )
    assert (
        size_curve([0, 1], [4100, 140], [4000] * 2, 30, 0).alt
        == size_curve([0, 1, 2], [4100, 140, 150], [4000] * 3, 30, 2).alt
    )
