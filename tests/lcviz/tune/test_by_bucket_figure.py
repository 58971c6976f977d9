"""The loss over the largest k buckets: the curve so far, the bits on it, the chosen k."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lcviz.tune.by_bucket_figure import by_bucket_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
LOSSES = {5: 0.5, 1: 0.9, 3: 0.6, 0: 1.0}
MARKS = {1: "1", 3: "2", 5: "all"}


def drawn(option: dict[str, Any]) -> dict[str, Any]:
    return {s["name"]: s for s in option["series"]}


def test_what_is_measured_so_far(check_option: Check) -> None:
    panel = by_bucket_panel(7, LOSSES, 5, MARKS, 3, 0.45)
    series = drawn(check_option(panel))
    assert series["rebuilt from k buckets"]["data"] == [[0, 1.0], [1, 0.9], [3, 0.6], [5, 0.5]]
    assert series["live model"]["data"] == [[0, 0.45], [5, 0.45]]
    assert [(p["value"], p["label"]["formatter"]) for p in series["bits x"]["data"]] == [
        ([1, 0.9], "x = 1"),
        ([3, 0.6], "x = 2"),
        ([5, 0.5], "x = all"),
    ]
    assert series["chosen"]["data"] == [[3, 0.6]]
    assert "loss is 0.600000, live 0.450000: 0.150000 above" in panel.sentence
    assert "2 of 6 points" in panel.sentence
    assert panel.table["x"].tolist() == ["", "1", "2", "all"]
    assert panel.table["above live"].tolist() == [0.55, 0.45, 0.15, 0.05]
    whole = by_bucket_panel(8, {k: 1 - k / 10 for k in range(6)}, 5, MARKS, 0, 0.45)
    assert "points" not in whole.sentence
    assert whole.alt == panel.alt


def test_losses_that_are_not_finite(check_option: Check) -> None:
    panel = by_bucket_panel(7, {0: math.nan, 1: math.inf}, 1, {1: "all"}, 1, math.nan)
    series = drawn(check_option(panel))
    assert series["rebuilt from k buckets"]["data"] == [[0, None], [1, None]]
    assert "not finite" in panel.sentence
    check_option(by_bucket_panel(7, {0: 0.5}, 0, {0: "all"}, 0, 0.5))  # a delta without buckets


def test_where_a_highlighted_bucket_comes_in(check_option: Check) -> None:
    panel = by_bucket_panel(7, LOSSES, 5, MARKS, 3, 0.45, (4, (-6, 1)), each=True)
    curve, *others = check_option(panel)["series"]
    (mark,) = curve["markLine"]["data"]
    assert (mark["xAxis"], mark["label"]["formatter"]) == (4, "with −2⁻⁶")
    assert not any("markLine" in one for one in others)
    assert "−2⁻⁶ is kept from k = 4 on, in one tensor at least." in panel.sentence
    assert "3 buckets of each tensor, 5 at most" in panel.sentence
