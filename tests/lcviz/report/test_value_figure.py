"""One value over the steps, drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lcviz.lab.value_history import Point
from lcviz.report.figure_parts import MAX_POINTS
from lcviz.report.value_figure import value_over_steps
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def points(values: Sequence[float | None], *bases: int) -> list[Point]:
    return [Point(step, value, step in bases) for step, value in enumerate(values)]


def test_a_staircase(check_figure: Check) -> None:
    panel = value_over_steps(points([1.0, 1.0, 1.5, 1.25, 2.0, None, 2.0], 0, 4), 3)
    line, bases, chosen = check_figure(panel)["data"]
    assert line["line"]["shape"] == "hv"
    assert (line["x"], line["y"]) == (list(range(7)), [1.0, 1.0, 1.5, 1.25, 2.0, None, 2.0])
    assert (bases["x"], bases["y"]) == ([0, 4], [1.0, 2.0])
    assert (chosen["name"], chosen["x"], chosen["y"]) == ("step 3", [3], [1.25])
    assert panel.title == "This value moves in 2 of 3 steps, farthest at step 2: by +0.5"
    assert panel.sentence == (
        "The base of step 4 puts it exactly where the training had it: by +0.75."
    )
    assert panel.table["step"].tolist() == [0, 1, 2, 3, 4, 6]
    assert panel.table["exact"].tolist() == ["base", "", "", "", "base", ""]


def test_what_it_says_of_other_chains(check_figure: Check) -> None:
    still = value_over_steps(points([3.0, 3.0, 3.0], 0), 2)
    assert still.title == "This value does not move in 2 steps"
    assert still.sentence == "The base of step 0 holds it exactly."
    only = value_over_steps(points([3.0, 1.0, 2.0], 0, 1, 2), 7)
    assert only.sentence == (
        "Bases put it exactly where the training had it, farthest at step 1: by −2."
    )
    assert [trace["name"] for trace in check_figure(only)["data"]] == ["value", "base, exact"]
    wild = value_over_steps(points([1.0, float("nan"), float("inf"), 2.0], 0), 1)
    line, *_ = check_figure(wild)["data"]
    assert line["y"] == [1.0, None, None, 2.0]
    assert "nan" not in wild.sentence + still.sentence


def test_of_many_steps_those_are_drawn_where_it_moves(check_figure: Check) -> None:
    n = 10 * MAX_POINTS + 10
    few = check_figure(value_over_steps(points([float(i // 1000) for i in range(n)], 0), 5))
    assert few["data"][0]["x"] == [*range(0, n, 1000), n - 1]
    many = value_over_steps(points([float(i) for i in range(n)], 0), 5)
    assert len(check_figure(many)["data"][0]["x"]) <= MAX_POINTS
    assert many.sentence.endswith("Only some of its moves are drawn, evenly chosen.")
