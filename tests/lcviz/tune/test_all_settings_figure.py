"""Every setting on one delta: lines, marks, and which point is which."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec.scheme.coding import Coding
from lcviz.tune.ab import TrialSave
from lcviz.tune.all_settings import all_choices
from lcviz.tune.all_settings_figure import all_settings_panel, picked
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
LAST = Coding(None, "tensor", "huffman")
TRIED = {
    v: TrialSave(5, 1000 + 10 * i, 24, 1, 0, 2, 0.5 - 0.01 * i, 0.001)
    for i, v in enumerate(all_choices())
}


def test_every_point_is_picked_as_what_it_shows(check_option: Check) -> None:
    marked = {"this run": Coding(2), "A": Coding(2), "B": LAST}
    panel = all_settings_panel(TRIED, 100_000, marked)
    option = check_option(panel)
    sizes, labels = set(), []
    for i, series in enumerate(option["series"]):
        for j, point in enumerate(series["data"]):
            choice = picked(i, j)
            saved = TRIED[choice]
            if series["yAxisIndex"] == 0:
                sizes.add(choice)
                assert point["value"] == saved.nbytes / 1000
            else:
                assert point["value"] == round(100 * saved.distance, 4)
            assert option["xAxis"][0]["data"][j] == str(choice.bits or "all")
            if "label" in point:
                labels.append((choice.bits, choice.scope, point["label"]["formatter"]))
    assert sizes == set(TRIED)
    # Once on the sizes and once on the distances, which the coder does not change.
    assert sorted(labels, key=str) == sorted(
        2 * [(2, "model", "this run, A"), (None, "tensor", "B")], key=str
    )
    styles = [(s["symbol"], s["lineStyle"]["type"]) for s in option["series"]]
    assert len(set(styles)) == 4  # told apart without colour
    assert "1.00 kB (1.00 % of float32), with 1 bit" in panel.sentence
    assert f"15.00 % of the distance trained, with {LAST.describe()}" in panel.sentence
    assert len(panel.table) == 36
    assert panel.table.iloc[8].tolist() == ["all", "one", "run-length", 1080, 1.08, 42.0, 2]


def test_a_budget_is_not_marked(check_option: Check) -> None:
    panel = all_settings_panel(TRIED, 100_000, {"A": Coding(None, budget=0.05)})
    option = check_option(panel)
    assert not any("label" in p for s in option["series"] for p in s["data"])
    assert "Not marked, as no x decides: A." in panel.sentence


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_distances_that_are_not_finite(check_option: Check, bad: float) -> None:
    some = {v: replace(s, distance=bad) if v.bits == 1 else s for v, s in TRIED.items()}
    assert "the nearest is 15.00 %" in all_settings_panel(some, 100_000, {}).sentence
    none = {v: replace(s, distance=bad) for v, s in TRIED.items()}
    panel = all_settings_panel(none, 100_000, {})
    check_option(panel)
    assert "no distance here is finite" in panel.sentence
