"""Rework by seed: every number is where it belongs, capped ones are marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lcviz.lab.recovery.recovery import Outcome
from lcviz.lab.recovery.rework import costs
from lcviz.recover.rework_figure import restored_table, rework_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
Seeds = list[tuple[Outcome, ...]]
NAMES = ["full", "SCAR", "TOPN", "LC Huffman", "LC run-length"]


def notes(figure: dict[str, Any]) -> list[tuple[str, float]]:
    return [(note["text"], note["y"]) for note in figure["layout"]["annotations"]]


def test_a_point_for_every_seed_and_the_mean(check_figure: Check, seeds: Seeds) -> None:
    panel = rework_panel(costs(seeds))
    figure = check_figure(panel)
    *methods, mean = figure["data"]
    assert [t["name"] for t in methods] == NAMES
    assert [t["x"] for t in methods] == [[0, 0], [1.4, 2.4], [4, 4], [0.4, 0.4], [0, 0]]
    assert all(row - 0.5 < y < row for row, t in enumerate(methods) for y in t["y"])
    arrows = [{symbol == "arrow-right" for symbol in t["marker"]["symbol"]} for t in methods]
    assert arrows == [{False}, {False}, {True}, {False}, {False}]
    assert len({t["marker"]["symbol"][0] for t in methods}) == 5  # not by colour alone
    assert mean["x"] == [0, 1.9, 4, 0.4, 0]
    half = 12.706 * math.sqrt(0.5) / math.sqrt(2)
    assert mean["error_x"]["array"] == [0, pytest.approx(half, abs=1e-3), 0, 0, 0]
    assert mean["error_x"]["arrayminus"][1] == 1.9  # rework is never below 0
    texts = ["0.00 ± 0.00", "1.90 ± 6.35", "≥ 4.00", "0.40 ± 0.00", "0.00 ± 0.00"]
    assert notes(figure) == [(text, row) for row, text in enumerate(texts)]
    assert figure["layout"]["xaxis"]["range"][1] >= 1.9 + half
    names = figure["layout"]["yaxis"]["ticktext"]
    assert [n.split("<br>") for n in names] == [[n, "1.23 kB, 4.99 %"] for n in NAMES]
    assert "2 seeds" in panel.sentence
    assert "the loss was not back at the cap" in panel.sentence
    assert panel.table["of each seed"].tolist()[1:3] == ["1.40 · 2.40", "≥ 4.00 · ≥ 4.00"]


def test_one_seed_has_no_interval(check_figure: Check, seeds: Seeds) -> None:
    panel = rework_panel(costs(seeds[:1]))
    figure = check_figure(panel)
    assert set(figure["data"][-1]["error_x"]["array"]) == {0}
    assert notes(figure)[1] == ("1.40", 1)
    assert "no interval yet" in panel.sentence


def test_nothing_lost_at_all(check_figure: Check, seeds: Seeds) -> None:
    full = [own[:1] for own in seeds]
    low, high = check_figure(rework_panel(costs(full)))["layout"]["xaxis"]["range"]
    assert low < 0 < high


def test_right_after_restoring(seeds: Seeds) -> None:
    table = restored_table(costs(seeds))
    losses = ["2.0000", "2.3000", "5.0000", "2.1000", "2.0000"]
    assert table["right after restoring"].tolist() == losses
    assert (set(table["distance"]), set(table["one save"])) == ({"10.00 %"}, {"2.0 ms"})
