"""The exponent bucket histogram."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcviz.lab.anatomy import BucketTotal
from lcviz.live.buckets_figure import bucket_clicked, buckets_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]

TOTALS = (
    BucketTotal(-3, 0, 120, 0),
    BucketTotal(-3, 1, 80, 0),
    BucketTotal(-4, 0, 40, 0),
    BucketTotal(-6, 1, 0, 1500),
    BucketTotal(-127, 0, 0, 2),
)


def test_bars_are_the_counts(check_option: Check) -> None:
    panel = buckets_panel(TOTALS, 2000, True)
    option = check_option(panel)
    exponents = [int(e.replace("−", "-")) for e in option["xAxis"][1]["data"]]
    assert exponents == list(range(-127, -2))
    found = {}
    for series in option["series"]:
        sign, what = series["name"].split(", ")
        assert series["xAxisIndex"] == series["yAxisIndex"] == int(sign == "negative")
        assert ("decal" in series["itemStyle"]) == (what == "dropped")
        for exponent, value in zip(exponents, series["data"], strict=True):
            if value is not None:
                found[exponent, sign, what] = value
    assert found == {
        (-3, "positive", "kept"): 120,
        (-3, "negative", "kept"): 80,
        (-4, "positive", "kept"): 40,
        (-6, "negative", "dropped"): 1500,
        (-127, "positive", "dropped"): 2,
    }
    assert all(axis["max"] == 10_000 for axis in option["yAxis"])  # room for 1500 on a log axis
    assert option["yAxis"][1]["inverse"] is True
    for part in ("3 of 5 buckets", "2⁻⁴", "240 of 2,000 values"):
        assert part in panel.sentence
    assert panel.table["kept values"].tolist() == [120, 80, 40, 0, 0]
    assert panel.table["dropped values"].tolist() == [0, 0, 0, 1500, 2]


def test_per_tensor_both_parts_of_a_bucket_are_visible(check_option: Check) -> None:
    """Kept in one tensor and dropped in another: a narrow bar in front of a wide one."""
    panel = buckets_panel((BucketTotal(-2, 0, 5, 6),), 20, False)
    option = check_option(panel)
    drawn = {s["name"]: (s["barWidth"], s["data"]) for s in option["series"]}
    assert drawn["positive, kept"][1] == [5]
    assert drawn["positive, dropped"][1] == [6]
    assert drawn["positive, kept"][0] != drawn["positive, dropped"][0]
    assert "5 of 20 values" in panel.sentence


@pytest.mark.parametrize(
    ("totals", "begin"),
    [
        ((BucketTotal(-2, 0, 0, 6), BucketTotal(-3, 0, 0, 1)), "None of 2 buckets"),
        ((BucketTotal(-2, 0, 6, 0),), "All 1 buckets"),
        ((), "Nothing changed in this step"),
    ],
)
def test_all_kept_or_none(check_option: Check, totals: tuple[BucketTotal, ...], begin: str) -> None:
    """A budget too small for one bucket is not the same as nothing having changed."""
    panel = buckets_panel(totals, 20, True)
    option = check_option(panel)
    assert any(any(series["data"]) for series in option["series"]) == bool(totals)
    assert panel.sentence.startswith(begin)
    assert len(panel.table) == len(totals)
    assert panel.alt == buckets_panel(TOTALS, 2000, True).alt  # else it would be drawn anew


def test_a_highlighted_bucket_has_a_rim_and_a_sign(check_option: Check) -> None:
    panel = buckets_panel(TOTALS, 2000, True, (-6, 1))
    drawn = [(s["name"], v) for s in check_option(panel)["series"] for v in s["data"]]
    ((name, bar),) = ((name, value) for name, value in drawn if isinstance(value, dict))
    assert (name, bar["value"]) == ("negative, dropped", 1500)
    assert bar["itemStyle"]["borderWidth"] > 0
    assert bar["label"]["show"] is True
    assert bar["label"]["position"] == "bottom"  # these bars grow downwards
    assert panel.sentence.endswith("−2⁻⁶ with 1,500 values.")
    plain = buckets_panel(TOTALS, 2000, True)
    other = buckets_panel(TOTALS, 2000, True, (5, 0))  # it is not among them
    assert (other.chart, other.sentence) == (plain.chart, plain.sentence)


def test_which_bucket_a_bar_stands_for() -> None:
    """Back from where it is drawn to the bucket, for every bar there is."""
    option = buckets_panel(TOTALS, 2000, True).chart
    drawn = {
        bucket_clicked(TOTALS, i, at): value
        for i, series in enumerate(option["series"])
        for at, value in enumerate(series["data"])
        if value is not None
    }
    assert drawn == {(b.exponent, b.sign): b.kept + b.dropped for b in TOTALS}
    assert bucket_clicked(TOTALS, 0, 3) is None
    assert bucket_clicked((), 0, 0) is None
