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


def drawn(figure: dict[str, Any]) -> dict[str, list[tuple[int, float | None]]]:
    return {trace["name"]: list(zip(trace["x"], trace["y"])) for trace in figure["data"]}


def test_what_is_measured_so_far(check_figure: Check) -> None:
    panel = by_bucket_panel(7, LOSSES, 5, MARKS, 3, 0.45)
    figure = check_figure(panel)
    assert drawn(figure) == {
        "rebuilt from k buckets": [(0, 1.0), (1, 0.9), (3, 0.6), (5, 0.5)],
        "live model": [(0, 0.45), (5, 0.45)],
        "x bits": [(1, 0.9), (3, 0.6), (5, 0.5)],
        "chosen": [(3, 0.6)],
    }
    notes = [(note["text"], note["x"]) for note in figure["layout"]["annotations"]]
    assert notes == [("1", 1), ("2", 3), ("all", 5)]
    assert figure["layout"]["hovermode"] == "x unified"
    assert panel.sentence == "The largest 3 buckets of 5: loss 0.600000, 0.150000 above live."
    assert panel.table["x"].tolist() == ["", "1", "2", "all"]
    assert panel.table["above live"].tolist() == [0.55, 0.45, 0.15, 0.05]


def test_losses_that_are_not_finite(check_figure: Check) -> None:
    panel = by_bucket_panel(7, {0: math.nan, 1: math.inf}, 1, {1: "all"}, 1, math.nan)
    figure = check_figure(panel)
    assert drawn(figure)["rebuilt from k buckets"] == [(0, None), (1, None)]
    assert "annotations" not in figure["layout"]
    assert "not finite" in panel.sentence
    check_figure(by_bucket_panel(7, {0: 0.5}, 0, {0: "all"}, 0, 0.5))  # a delta without buckets


def test_where_a_highlighted_bucket_comes_in(check_figure: Check) -> None:
    panel = by_bucket_panel(7, LOSSES, 5, MARKS, 3, 0.45, (4, (-6, 1)), each=True)
    layout = check_figure(panel)["layout"]
    (mark,) = layout["shapes"]
    assert (mark["x0"], mark["x1"]) == (4, 4)
    assert layout["annotations"][-1]["text"] == "with −2⁻⁶"
    assert "−2⁻⁶ is kept from k = 4 on, in one tensor at least." in panel.sentence
    assert "3 buckets of each tensor, 5 at most" in panel.sentence
