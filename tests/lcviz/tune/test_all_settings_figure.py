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
MARKED = ((2, "model"), (None, "tensor"))
TRIED = {
    v: TrialSave(5, 1000 + 10 * i, 24, 1, 0, 2, 0.5 - 0.01 * i, 0.001)
    for i, v in enumerate(all_choices())
}


def test_every_point_is_picked_as_what_it_shows(check_figure: Check) -> None:
    marked = {"this run": Coding(2), "A": Coding(2), "B": LAST}
    panel = all_settings_panel(TRIED, 100_000, marked)
    figure = check_figure(panel)
    sizes, large = set(), []
    for i, line in enumerate(figure["data"]):
        for j, value in enumerate(line["y"]):
            choice = picked(i, j)
            saved = TRIED[choice]
            if line["yaxis"] == "y":
                sizes.add(choice)
                assert value == saved.nbytes / 1000
            else:
                assert value == round(100 * saved.distance, 4)
            assert line["x"][j] == str(choice.bits or "all")
            assert line["customdata"][j][0] == choice.describe()
            if line["marker"]["size"][j] > 9:
                large.append((choice.bits, choice.scope, line["yaxis"]))
    assert sizes == set(TRIED)
    # Once on the sizes and once on the distances, which the coder does not change.
    places = [(bits, scope, axis) for axis in ("y", "y2") for bits, scope in MARKED]
    assert sorted(large, key=str) == sorted(places, key=str)
    notes = [(n["text"], n["x"], n["yref"]) for n in figure["layout"]["annotations"]]
    texts = [("<b>this run, A</b>", 1), ("<b>B</b>", 8)]
    assert sorted(notes) == sorted((*text, axis) for axis in ("y", "y2") for text in texts)
    styles = {(line["marker"]["symbol"], line["line"]["dash"]) for line in figure["data"]}
    assert len(styles) == 4  # told apart without colour
    assert "Smallest: 1.00 kB, 1 bit" in panel.sentence
    assert f"Nearest: 15.00 %, {LAST.describe()}" in panel.sentence
    assert len(panel.table) == 36
    assert panel.table.iloc[8].tolist() == ["all", "one", "run-length", 1080, 1.08, 42.0, 2]


def test_a_budget_is_not_marked(check_figure: Check) -> None:
    panel = all_settings_panel(TRIED, 100_000, {"A": Coding(None, budget=0.05)})
    figure = check_figure(panel)
    assert "annotations" not in figure["layout"]
    assert all(size == 9 for line in figure["data"] for size in line["marker"]["size"])
    assert "Not marked, as no x decides: A." in panel.sentence


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_distances_that_are_not_finite(check_figure: Check, bad: float) -> None:
    some = {v: replace(s, distance=bad) if v.bits == 1 else s for v, s in TRIED.items()}
    assert "Nearest: 15.00 %" in all_settings_panel(some, 100_000, {}).sentence
    none = {v: replace(s, distance=bad) for v, s in TRIED.items()}
    panel = all_settings_panel(none, 100_000, {"A": Coding(2)})
    figure = check_figure(panel)
    assert [note["yref"] for note in figure["layout"]["annotations"]] == ["y"]
    assert "No distance is finite." in panel.sentence
