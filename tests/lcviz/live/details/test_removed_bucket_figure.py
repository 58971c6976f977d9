"""Reconstruction error per removed bucket."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lcviz.lab.removed_bucket import Removed, RemovedBuckets
from lcviz.live.details.removed_bucket_figure import removed_bucket_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]

RESULT = RemovedBuckets(
    12,
    1.5,
    0.01,
    (
        Removed(-3, 0, 10, True, 1.8, 0.3),
        Removed(-3, 1, 12, True, 1.2, 0.4),
        Removed(-5, 0, 900, False, 1.5009, 0.02),
        Removed(-9, 1, 7000, False, 1.5, 0.01),
    ),
)


def bars(option: dict[str, Any]) -> dict[tuple[int, str], dict[str, Any]]:
    """(exponent, sign) -> the bar."""
    exponents = [int(e.replace("−", "-")) for e in option["xAxis"]["data"]]
    return {
        (exponent, series["name"]): bar
        for series in option["series"]
        for exponent, bar in zip(exponents, series["data"], strict=True)
        if bar is not None
    }


def test_bars_are_changes_of_the_loss(check_option: Check) -> None:
    panel = removed_bucket_panel(RESULT)
    found = bars(check_option(panel))
    assert {key: bar["value"] for key, bar in found.items()} == pytest.approx(
        {
            (-3, "positive"): 0.3,
            (-3, "negative"): -0.3,
            (-5, "positive"): 0.0009,
            (-9, "negative"): 0.0,
        }
    )
    hatched = {key for key, bar in found.items() if "decal" in bar.get("itemStyle", {})}
    assert hatched == {(-5, "positive"), (-9, "negative")}  # dropped by promotion
    assert "step 12" in panel.title
    for part in ("1.5000", "+2⁻³", "1.8000", "2 of 4 buckets"):
        assert part in panel.sentence
    assert panel.table["values"].tolist() == [10, 12, 900, 7000]
    assert panel.table["kept by promotion"].tolist() == [True, True, False, False]
    assert panel.table["loss without it"].tolist() == [1.8, 1.2, 1.5009, 1.5]
    assert panel.table["relative distance"].tolist() == [0.3, 0.4, 0.02, 0.01]
    other = removed_bucket_panel(RemovedBuckets(13, 1.4, 0.02, RESULT.buckets[:2]))
    assert other.alt == panel.alt  # else it would be drawn anew


def test_nothing_changed(check_option: Check) -> None:
    panel = removed_bucket_panel(RemovedBuckets(3, 1.5, 0.0, ()))
    assert bars(check_option(panel)) == {}
    assert panel.sentence.startswith("Nothing changed")


@pytest.mark.parametrize(
    ("loss", "without"), [(0.0, 0.5), (math.inf, math.inf), (math.nan, 1.0), (1.0, math.inf)]
)
def test_a_loss_of_zero_or_a_diverged_one(check_option: Check, loss: float, without: float) -> None:
    """Just before a run ends as diverged, the saved loss may be infinite already."""
    removed = Removed(-3, 0, 10, True, without, 0.3)
    panel = removed_bucket_panel(RemovedBuckets(5, loss, 0.1, (removed,)))
    check_option(panel)
    assert len(panel.table) == 1


def test_a_highlighted_bucket(check_option: Check) -> None:
    panel = removed_bucket_panel(RESULT, (-3, 1))
    found = bars(check_option(panel))
    rimmed = {key for key, bar in found.items() if "label" in bar}
    assert rimmed == {(-3, "negative")}
    assert found[-3, "negative"]["label"]["position"] == "bottom"  # the loss falls without it
    assert panel.sentence.endswith("without −2⁻³ it is 1.2000.")
    up = bars(check_option(removed_bucket_panel(RESULT, (-5, 0))))[-5, "positive"]
    assert up["label"]["position"] == "top"
    assert "decal" in up["itemStyle"]  # it is still one that was dropped
    plain, other = removed_bucket_panel(RESULT), removed_bucket_panel(RESULT, (4, 0))
    assert (other.chart, other.sentence) == (plain.chart, plain.sentence)
