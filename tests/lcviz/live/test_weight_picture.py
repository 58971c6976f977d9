"""The picture of one weight, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec.inspect import Bucket
from lcviz.lab.follow_weight import Followed, Weight, WeightCode
from lcviz.ui.charts import Panel
from lcviz.ui.follow_weight_figure import bucket_text, level_text, said_text, weight_over_steps

Check = Callable[[Panel], dict[str, Any]]
BUCKET = Bucket(-4, 1, -0.12, -0.07, 9, 2)
KEPT = Followed(
    8,
    Weight("c1.weight", 7),
    (2, 5),
    0.5,
    0.4,
    -0.1,
    BUCKET,
    True,
    -0.095,
    WeightCode("101"),
    0.405,
)
DROPPED = replace(
    KEPT, step=9, track=0.405, live=0.3, delta=-0.105, kept=False, level=0.0, restored=0.405
)
BASE = Followed(0, KEPT.weight, (2, 5), 0.0, 0.5, 0.5, None, True, 0.5, None, 0.5, exact=True)


def test_lines_are_the_values(check_figure: Check) -> None:
    panel = weight_over_steps([BASE, KEPT, DROPPED], DROPPED)
    trained, restored = check_figure(panel)["data"]
    assert trained["x"] == restored["x"] == [0, 8, 9]
    assert (trained["y"], restored["y"]) == ([0.5, 0.4, 0.3], [0.5, 0.405, 0.405])
    assert trained["line"]["dash"] != restored["line"]["dash"]
    assert trained["mode"] == "lines+markers"  # few points are seen one by one
    assert "c1.weight (1, 2)" in panel.title
    assert "δ = 0.3 − 0.405 = −0.105, bucket −2⁻⁴" in panel.sentence
    assert "Of the 2 deltas shown, in 1 its change was kept, in 1 " in panel.sentence
    assert panel.table["level"].tolist()[1:] == [-0.095, 0.0]
    assert panel.table["bucket"].tolist() == ["stored exactly", "−2⁻⁴", "−2⁻⁴"]


def test_a_delta_without_a_change_postpones_nothing(check_figure: Check) -> None:
    still = replace(DROPPED, step=10, delta=0.0, bucket=None, live=0.405)
    panel = weight_over_steps([KEPT, still], still)
    check_figure(panel)
    assert panel.sentence.endswith("in 1 its change was kept, in 1 there was none.")
    assert (bucket_text(still), level_text(still)) == ("none: δ is 0", "0")
    assert (level_text(KEPT), level_text(DROPPED)) == ("−0.095, kept", "0, dropped")
    assert (bucket_text(BASE), level_text(BASE)) == ("stored exactly", "the value itself")


def test_small_weights_keep_their_digits(check_figure: Check) -> None:
    tiny = replace(KEPT, live=1.25e-7, restored=1.5e-8)
    trained, restored = check_figure(weight_over_steps([tiny], tiny))["data"]
    assert (trained["y"], restored["y"]) == ([1.25e-7], [1.5e-8])


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (WeightCode("101"), "101"),
        (WeightCode("101", 2, 17, 0), "101 + 2 bits: 17 zeros, then it"),
        (WeightCode("101", 1, 1, 0), "101 + 1 bit: 1 zero, then it"),
        (WeightCode("101", 2, 17, 5), "101 + 2 bits: zero 5 of a run of 17"),
        (WeightCode("11", 11, 300, 4, True), "11 + 11 bits, an escape: zero 4 of a run of 300"),
        (WeightCode(""), "none: all values have the same level"),
        (None, "none: zeros at a stream's end need no bits"),
    ],
)
def test_its_bits(said: WeightCode | None, text: str) -> None:
    assert said_text(replace(KEPT, code=said)) == text
    assert said_text(BASE) == "32 bits of the value"
