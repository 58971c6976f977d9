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
Bar = tuple[float | None, str, int]  # height, pattern, width of the rim

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


def bars(figure: dict[str, Any]) -> dict[tuple[int, str], Bar]:
    """(exponent, sign) -> the bar."""
    found = {}
    for trace in figure["data"]:
        marker = trace["marker"]
        looks = zip(trace["y"], marker["pattern"]["shape"], marker["line"]["width"], strict=True)
        for exponent, bar in zip(trace["x"], looks, strict=True):
            found[exponent, trace["name"]] = bar
    return found


def test_bars_are_changes_of_the_loss(check_figure: Check) -> None:
    panel = removed_bucket_panel(RESULT)
    found = bars(check_figure(panel))
    assert {key: height for key, (height, _, _) in found.items()} == pytest.approx(
        {
            (-3, "positive"): 0.3,
            (-3, "negative"): -0.3,
            (-5, "positive"): 0.0009,
            (-9, "negative"): 0.0,
        }
    )
    hatched = {key for key, (_, pattern, _) in found.items() if pattern}
    assert hatched == {(-5, "positive"), (-9, "negative")}  # dropped by promotion
    assert "step 12" in panel.title
    for part in ("1.5000", "+2⁻³", "1.8000", "2 of 4 buckets", "Hatched: dropped."):
        assert part in panel.sentence
    assert panel.table["values"].tolist() == [10, 12, 900, 7000]
    assert panel.table["kept by promotion"].tolist() == [True, True, False, False]
    assert panel.table["loss without it"].tolist() == [1.8, 1.2, 1.5009, 1.5]
    assert panel.table["relative distance"].tolist() == [0.3, 0.4, 0.02, 0.01]
    other = removed_bucket_panel(RemovedBuckets(13, 1.4, 0.02, RESULT.buckets[:2]))
    assert other.alt == panel.alt
    assert "Hatched" not in other.sentence


def test_nothing_changed(check_figure: Check) -> None:
    panel = removed_bucket_panel(RemovedBuckets(3, 1.5, 0.0, ()))
    assert bars(check_figure(panel)) == {}
    assert panel.sentence.startswith("Nothing changed")


@pytest.mark.parametrize(
    ("loss", "without"), [(0.0, 0.5), (math.inf, math.inf), (math.nan, 1.0), (1.0, math.inf)]
)
def test_a_loss_of_zero_or_a_diverged_one(check_figure: Check, loss: float, without: float) -> None:
    """Just before a run ends as diverged, the saved loss may be infinite already."""
    removed = Removed(-3, 0, 10, True, without, 0.3)
    panel = removed_bucket_panel(RemovedBuckets(5, loss, 0.1, (removed,)), (-3, 0))
    check_figure(panel)
    assert len(panel.table) == 1


def test_a_highlighted_bucket(check_figure: Check) -> None:
    panel = removed_bucket_panel(RESULT, (-3, 1))
    figure = check_figure(panel)
    rimmed = {key for key, (_, _, rim) in bars(figure).items() if rim}
    assert rimmed == {(-3, "negative")}
    (note,) = figure["layout"]["annotations"]
    assert (note["text"], note["x"], note["y"]) == ("▼ −2⁻³", -3, 0)  # the loss falls without it
    assert panel.sentence.endswith("without −2⁻³ it is 1.2000.")
    up = check_figure(removed_bucket_panel(RESULT, (-5, 0)))
    _, pattern, rim = bars(up)[-5, "positive"]
    assert pattern  # it is still one that was dropped
    assert rim
    plain, other = removed_bucket_panel(RESULT), removed_bucket_panel(RESULT, (4, 0))
    assert (other.figure, other.sentence) == (plain.figure, plain.sentence)
