"""Every setting on one delta: lines, marks, and which point is which."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lcviz.tune.ab import Saved, Variant
from lcviz.tune.all_settings import every_variant
from lcviz.tune.all_settings_figure import every_panel, every_table, picked
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
TRIED = {
    v: Saved(5, 1000 + 10 * i, 24, 1, 0, 2, 0.5 - 0.01 * i, 0.001)
    for i, v in enumerate(every_variant())
}
MARKED = {"this run": Variant(2), "A": Variant(2), "B": Variant(None, "tensor", "huffman")}


def test_every_point_is_picked_as_what_it_shows(check_option: Check) -> None:
    option = check_option(every_panel(TRIED, 100_000, MARKED))
    seen = set()
    for i, series in enumerate(option["series"]):
        for j, point in enumerate(series["data"]):
            variant = picked(i, j)
            saved = TRIED[variant]
            if i < 4:
                seen.add(variant)
                assert point["value"] == saved.nbytes / 1000
            else:
                assert point["value"] == round(100 * saved.distance, 4)
            assert option["xAxis"][0]["data"][j] == str(variant.bits or "all")
    assert seen == set(TRIED)
    assert all(s["selectedMode"] == "single" for s in option["series"])


def test_marks(check_option: Check) -> None:
    panel = every_panel(TRIED, 100_000, MARKED)
    labels = {
        (i, j): point["label"]["formatter"]
        for i, series in enumerate(check_option(panel)["series"])
        for j, point in enumerate(series["data"])
        if "label" in point
    }
    marked = {(i, picked(i, j)): text for (i, j), text in labels.items()}
    assert marked == {
        (0, Variant(2)): "this run, A",
        (3, Variant(None, "tensor", "huffman")): "B",
        (4, Variant(2)): "this run, A",
        (5, Variant(None, "tensor")): "B",  # the coder does not change a distance
    }
    assert panel.sentence == (
        "The fewest bytes are 1.00 kB (1.00 % of float32), with 1 bit, buckets over the "
        "whole model, run-length, and the nearest is 15.00 % of the way trained, with all "
        "buckets over each tensor, Huffman."
    )
    assert panel.title.startswith("Step 5 ")


def test_a_budget_is_not_marked(check_option: Check) -> None:
    panel = every_panel(TRIED, 100_000, {"A": Variant(None, budget=0.05)})
    option = check_option(panel)
    assert not any("label" in p for s in option["series"] for p in s["data"])
    assert panel.sentence.endswith("A keeps a budget instead of bits and is not marked.")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_distances_that_are_none(check_option: Check, bad: float) -> None:
    some = {v: replace(s, distance=bad) if v.bits == 1 else s for v, s in TRIED.items()}
    assert "the nearest is 15.00 %" in every_panel(some, 100_000, {}).sentence
    none = {v: replace(s, distance=bad) for v, s in TRIED.items()}
    panel = every_panel(none, 100_000, {})
    check_option(panel)
    assert panel.sentence.endswith("run-length; distances have no number here.")


def test_two_lines_are_told_apart_without_colour(check_option: Check) -> None:
    option = check_option(every_panel(TRIED, 100_000, {}))
    assert len({(s["symbol"], s["lineStyle"]["type"]) for s in option["series"][:4]}) == 4
    table = every_table(TRIED, 100_000)
    assert len(table) == 36
    assert table.iloc[8].tolist() == ["all", "one", "run-length", 1080, 1.08, 42.0, 2]
