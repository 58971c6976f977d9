"""The exponent bucket histogram."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcviz.lab.anatomy import BucketTotal
from lcviz.live.buckets_figure import bucket_clicked, bucket_histogram
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
    option = check_option(bucket_histogram(TOTALS, 2000, True))
    exponents = [int(e.replace("−", "-")) for e in option["xAxis"][1]["data"]]
    assert exponents == list(range(-127, -2))
    assert option["xAxis"][0]["data"] == option["xAxis"][1]["data"]
    found = {}
    for series in option["series"]:
        sign, what = series["name"].split(", ")
        assert series["xAxisIndex"] == series["yAxisIndex"] == int(sign == "negative")
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


def test_dropped_is_hatched_and_kept_is_not(check_option: Check) -> None:
    option = check_option(bucket_histogram(TOTALS, 2000, True))
    for series in option["series"]:
        assert ("decal" in series["itemStyle"]) == series["name"].endswith("dropped")


def test_sentence_and_table(check_option: Check) -> None:
    panel = bucket_histogram(TOTALS, 2000, True)
    check_option(panel)
    for part in ("3 of 5 buckets", "2⁻⁴", "240 of 2,000 values"):
        assert part in panel.sentence
    assert panel.table.to_dict("list") == {
        "exponent": [-3, -3, -4, -6, -127],
        "sign": ["+", "−", "+", "−", "+"],
        "kept values": [120, 80, 40, 0, 0],
        "dropped values": [0, 0, 0, 1500, 2],
    }


def test_per_tensor_both_parts_of_a_bucket_are_visible(check_option: Check) -> None:
    """Kept in one tensor and dropped in another: a narrow bar in front of a wide one."""
    panel = bucket_histogram((BucketTotal(-2, 0, 5, 6),), 20, False)
    widths = {
        s["name"]: (s["barWidth"], s["data"])
        for s in check_option(panel)["series"]
        if s["name"].startswith("positive")
    }
    assert widths["positive, kept"][1] == [5]
    assert widths["positive, dropped"][1] == [6]
    assert widths["positive, kept"][0] != widths["positive, dropped"][0]
    assert "5 of 20 values" in panel.sentence
    assert panel.sentence != bucket_histogram((BucketTotal(-2, 0, 5, 6),), 20, True).sentence


def test_nothing_survives(check_option: Check) -> None:
    """A budget too small for one bucket: that is not the same as nothing having changed."""
    panel = bucket_histogram((BucketTotal(-2, 0, 0, 6), BucketTotal(-3, 0, 0, 1)), 20, True)
    check_option(panel)
    assert panel.sentence.startswith("None of 2 buckets survives")


def test_nothing_changed(check_option: Check) -> None:
    """A delta of zeros has no bucket: an empty picture and a sentence, no error."""
    panel = bucket_histogram((), 2000, True)
    option = check_option(panel)
    assert all(not any(series["data"]) for series in option["series"])
    assert panel.sentence == "Nothing changed in this step: every value of δ is zero."
    assert len(panel.table) == 0


def test_alt_is_the_same_at_every_step() -> None:
    """A chart whose alt text changes is drawn anew."""
    first, second = bucket_histogram(TOTALS, 2000, True), bucket_histogram(TOTALS[:1], 500, True)
    assert first.alt == second.alt
    assert first.sentence != second.sentence


def test_a_highlighted_bucket_has_a_rim_and_a_sign(check_option: Check) -> None:
    panel = bucket_histogram(TOTALS, 2000, True, (-6, 1))
    option = check_option(panel)
    found = [
        (series["name"], value)
        for series in option["series"]
        for value in series["data"]
        if isinstance(value, dict)
    ]
    ((name, bar),) = found
    assert name == "negative, dropped"
    assert bar["value"] == 1500
    assert bar["itemStyle"]["borderWidth"] > 0
    assert bar["label"]["show"] is True
    assert bar["label"]["position"] == "bottom"  # these bars grow downwards
    assert panel.sentence.endswith("Highlighted: −2⁻⁶ with 1,500 values.")
    plain = bucket_histogram(TOTALS, 2000, True)
    other = bucket_histogram(TOTALS, 2000, True, (5, 0))  # it is not among them
    assert (other.chart, other.sentence) == (plain.chart, plain.sentence)


def test_which_bucket_a_bar_stands_for() -> None:
    """Back from where it is drawn to the bucket, for every bar there is."""
    option = bucket_histogram(TOTALS, 2000, True).chart
    drawn = {
        bucket_clicked(TOTALS, i, at): value
        for i, series in enumerate(option["series"])
        for at, value in enumerate(series["data"])
        if value is not None
    }
    assert drawn == {(b.exponent, b.sign): b.kept + b.dropped for b in TOTALS}
    assert bucket_clicked(TOTALS, 0, 3) is None
    assert bucket_clicked((), 0, 0) is None
