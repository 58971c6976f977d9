"""Every setting as a point: its place, the marks of A and B, and which point is which."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codec.scheme.coding import Coding
from codec.state.tensors import layout_of
from lcviz.tune.compare import OneDelta, TensorTrial, Trial, all_settings
from lcviz.tune.compare_figure import compare_panel, headline, picked, tensors_table
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
STATE = {"w": np.zeros(25_000, np.float32)}  # 100,000 bytes
DELTA = OneDelta("run", 5, layout_of(STATE), STATE, STATE, 1.0)
TRIED = {v: Trial(1000 + 200 * i, 2, 0.6 - 0.01 * i) for i, v in enumerate(all_settings())}


def test_every_point_is_picked_as_what_it_shows(check_figure: Check) -> None:
    last = Coding(None, "tensor", "huffman")
    budget = Coding(None, budget=0.05), Trial(5000, 3, 0.02)
    panel = compare_panel(DELTA, TRIED, {"A": (last, TRIED[last]), "B": budget})
    figure = check_figure(panel)
    shown = set()
    *lines, a, b = figure["data"]
    for i, line in enumerate(lines):
        for j, (x, y) in enumerate(zip(line["x"], line["y"], strict=True)):
            coding = picked(i, j, all_settings())
            assert coding is not None
            shown.add(coding)
            trial = TRIED[coding]
            assert (x, y) == (trial.nbytes / 1000, round(100 * trial.distance, 5))
            assert line["customdata"][j][0] == coding.describe()
            scope = "whole model" if coding.scope == "model" else "each tensor"
            assert line["name"].startswith(scope)
    assert shown == set(TRIED)
    assert picked(len(lines), 0, all_settings()) is None
    assert (a["x"], a["y"]) == ([9.8], [16.0])
    assert (b["x"], b["y"]) == ([5.0], [2.0])
    name, *notes = [(n["text"], n["x"]) for n in figure["layout"]["annotations"]]
    assert name == ("distance, %", 0)
    assert notes == [("<b>A</b>", math.log10(9.8)), ("<b>B</b>", math.log10(5))]
    assert len({(line["marker"]["symbol"], line["line"]["dash"]) for line in lines}) == 6
    assert lines[0]["text"] == ["1", "2", "3", "4", "5", "6", "7", "8", "all"]
    assert len(panel.table) == 54
    assert panel.table.iloc[8].tolist() == ["all", "one", "run-length", 2600, 2.6, 52.0, 2]


def test_the_same_twice_is_one_mark_and_close_points_one_label(check_figure: Check) -> None:
    close = {v: replace(trial, nbytes=1000) for v, trial in TRIED.items()}
    two = Coding(2), close[Coding(2)]
    figure = check_figure(compare_panel(DELTA, close, {"A": two, "B": two}))
    assert [n["text"] for n in figure["layout"]["annotations"][1:]] == ["<b>A, B</b>"]
    assert figure["data"][0]["text"] == ["1", *8 * [""]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_distances_that_are_nothing_or_not_finite(check_figure: Check, bad: float) -> None:
    some = {v: replace(s, distance=bad if v.bits == 1 else 0.0) for v, s in TRIED.items()}
    a, b = ((coding, some[coding]) for coding in (Coding(1), Coding(2)))
    figure = check_figure(compare_panel(DELTA, some, {"A": a, "B": b}))
    assert figure["data"][0]["y"] == [None, *8 * [0.001]]
    assert [n["text"] for n in figure["layout"]["annotations"][1:]] == ["<b>B</b>"]


def test_what_b_costs_and_gains() -> None:
    a, b = Trial(1000, 3, 0.05), Trial(1500, 7, 0.02)
    assert headline(a, b) == "B against A: 500 B (50.00 %) more, 3.00 percentage points nearer"
    assert headline(b, a) == "B against A: 500 B (33.33 %) less, 3.00 percentage points further"
    assert headline(a, a) == "B against A: as many bytes, as near to what was trained"
    assert headline(a, replace(a, distance=math.nan)).endswith("a distance that is not finite")


def test_a_row_for_each_tensor() -> None:
    a = Trial(1, 1, 0.0, 0.0, {"w": TensorTrial(1.23456, 0.5, 0.7512), "b": None})
    b = Trial(1, 1, 0.0, 0.0, {"w": TensorTrial(2.0, math.inf, 0.0), "b": None})
    table = tensors_table({"w": 400, "b": 9}, {"A": a, "B": b})
    assert table.iloc[0, :4].tolist() == ["w", 400, 1.235, 2.0]
    assert table["A, left as it was, %"][0] == 75.1
    missing = table.iloc[:, 2:].isna().to_numpy().tolist()
    assert missing == [[False, False, False, True, False, False], [True] * 6]
