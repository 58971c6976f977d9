"""The heat map of exponents by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lcviz.report.exponents import StepExponents
from lcviz.report.exponents_figure import MAX_COLUMNS, exponents_over_steps
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def test_exponents_by_step(check_figure: Check) -> None:
    steps = [
        StepExponents(0, {}, 50, 50),
        StepExponents(3, {-7: 10, -5: 1}, 39, 50),
        StepExponents(9, {-5: 40}, 10, 50),
    ]
    panel = exponents_over_steps(steps)
    figure = check_figure(panel)
    (heat,) = figure["data"]
    assert (heat["x"], heat["y"]) == (["0", "3", "9"], [-7, -6, -5])
    assert heat["customdata"] == [[None, 10, None], 3 * [None], [None, 1, 40]]
    assert heat["z"] == [[None, 1.0, None], 3 * [None], [None, 0.0, 1.602]]
    colours = figure["layout"]["coloraxis"]
    assert (colours["cmin"], colours["cmax"]) == (0, 2)
    rows = [tuple(row) for row in panel.table.to_numpy()]
    assert rows == [(3, "−7", 10), (3, "−5", 1), (9, "−5", 40)]
    assert panel.title == "0.00 % of the weights change at step 0, 80.00 % at step 9"
    assert panel.sentence.startswith("Dark blue: one weight; yellow: 100, on a log scale.")


def test_the_axis_names_round_steps(check_figure: Check) -> None:
    def named(*steps: int) -> list[str] | None:
        panel = exponents_over_steps([StepExponents(step, {-5: 1}, 0, 9) for step in steps])
        ticks: list[str] | None = check_figure(panel)["layout"]["xaxis"].get("tickvals")
        return ticks

    assert named(*range(10, 610, 10)) == ["100", "200", "300", "400", "500", "600"]
    assert named(0, 3, 9) == ["0", "3", "9"]
    assert named(*range(1, 1000, 2)) is None  # none of them is round


def test_of_many_steps_some_are_drawn(check_figure: Check) -> None:
    last = 3 * MAX_COLUMNS - 1
    panel = exponents_over_steps([StepExponents(i, {-5: i}, 0, 5000) for i in range(1, last + 1)])
    steps = check_figure(panel)["data"][0]["x"]
    assert len(steps) <= MAX_COLUMNS
    assert int(steps[-1]) == last == len(panel.table)
    assert f"{len(steps)} of {last} steps are drawn" in panel.sentence
