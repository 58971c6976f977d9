"""The loss over the largest k buckets: the curve so far, the bits on it, the chosen k."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lcviz.tune.by_bucket_figure import kept_panel, kept_sentence
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
LOSSES = {5: 0.5, 1: 0.9, 3: 0.6, 0: 1.0}
MARKS = {1: "1", 3: "2", 5: "all"}


def test_what_is_measured_so_far(check_option: Check) -> None:
    panel = kept_panel(7, LOSSES, 5, MARKS, 3, 0.45)
    curve, live, bits, chosen = check_option(panel)["series"]
    assert curve["data"] == [[0, 1.0], [1, 0.9], [3, 0.6], [5, 0.5]]
    assert live["data"] == [[0, 0.45], [5, 0.45]]
    assert [(p["value"], p["label"]["formatter"]) for p in bits["data"]] == [
        ([1, 0.9], "x = 1"),
        ([3, 0.6], "x = 2"),
        ([5, 0.5], "x = all"),
    ]
    assert chosen["data"] == [[3, 0.6]]
    assert panel.sentence == (
        "With the largest 3 buckets of 5, the loss is 0.600000: +0.150000 to the live model's "
        "0.450000. 2 of 6 points of the curve are still being measured."
    )
    assert panel.table["x"].tolist() == ["", "1", "2", "all"]
    assert panel.table["to the live model"].tolist() == [0.55, 0.45, 0.15, 0.05]
    assert "step 7" in panel.title


def test_all_of_it(check_option: Check) -> None:
    whole = {k: 1 - k / 10 for k in range(6)}
    panel = kept_panel(7, whole, 5, MARKS, 0, 0.45)
    check_option(panel)
    assert "still" not in panel.sentence
    assert panel.alt == kept_panel(8, LOSSES, 5, MARKS, 1, 0.4).alt


def test_losses_that_are_none(check_option: Check) -> None:
    panel = kept_panel(7, {0: math.nan, 1: math.inf}, 1, {1: "all"}, 1, math.nan)
    option = check_option(panel)
    assert option["series"][0]["data"] == [[0, None], [1, None]]
    assert "not finite" in panel.sentence
    assert kept_sentence("Without it", 0.5, math.inf) == (
        "Without it, the loss is 0.500000; the live model's is not finite."
    )


def test_a_delta_without_buckets(check_option: Check) -> None:
    check_option(kept_panel(7, {0: 0.5}, 0, {0: "all"}, 0, 0.5))


def test_where_a_highlighted_bucket_comes_in(check_option: Check) -> None:
    panel = kept_panel(7, LOSSES, 5, MARKS, 3, 0.45, (4, (-6, 1)))
    curve, *others = check_option(panel)["series"]
    ((mark,),) = (curve["markLine"]["data"],)
    assert (mark["xAxis"], mark["label"]["formatter"]) == (4, "with −2⁻⁶")
    assert not any("markLine" in one for one in others)
    assert panel.sentence.endswith("Highlighted: −2⁻⁶ is kept from k = 4 on.")


def test_so_many_of_each_tensor() -> None:
    panel = kept_panel(7, LOSSES, 5, MARKS, 3, 0.45, (4, (-6, 1)), each=True)
    assert "With the largest 3 buckets of each tensor, 5 at most, the loss is" in panel.sentence
    assert panel.sentence.endswith("is kept from k = 4 on, in one tensor at least.")
