"""The heat map of exponents by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcviz.inspect.exponents import StepExponents
from lcviz.inspect.exponents_figure import MAX_COLUMNS, exponents_over_steps
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def test_exponents_by_step(check_option: Check) -> None:
    steps = [
        StepExponents(0, {}, 50, 50),
        StepExponents(3, {-7: 10, -5: 1}, 39, 50),
        StepExponents(9, {-5: 40}, 10, 50),
    ]
    panel = exponents_over_steps(steps)
    option = check_option(panel)
    (heat,) = option["series"]
    xs, ys = (option[axis][0]["data"] for axis in ("xAxis", "yAxis"))
    assert ys == ["−7", "−6", "−5"]
    cells = [(xs[x], ys[y], count) for x, y, _, count in heat["data"]]
    assert cells == [(3, "−7", 10), (3, "−5", 1), (9, "−5", 40)]
    assert [tuple(row) for row in panel.table.to_numpy()] == cells
    assert option["visualMap"]["text"] == ["100", "1 value"]
    assert "from 2⁻⁷ to 2⁻⁵" in panel.sentence
    assert "step 9, 80.00 %" in panel.sentence


def test_the_marked_exponent_has_a_rim(check_option: Check) -> None:
    steps = [StepExponents(3, {-7: 10, -4: 1}, 39, 50)]
    plot, rim = check_option(exponents_over_steps(steps, (-6, 1)))["grid"]
    row = plot["height"] / 4
    assert rim["height"] == pytest.approx(row)
    assert rim["top"] == pytest.approx(plot["top"] + 2 * row)  # the largest is on top
    assert len(check_option(exponents_over_steps(steps, (-9, 0)))["grid"]) == 1


def test_of_many_steps_some_are_drawn(check_option: Check) -> None:
    last = 3 * MAX_COLUMNS - 1
    panel = exponents_over_steps([StepExponents(i, {-5: i}, 0, 5000) for i in range(1, last + 1)])
    steps = check_option(panel)["xAxis"][0]["data"]
    assert len(steps) <= MAX_COLUMNS
    assert steps[-1] == last == len(panel.table)
    assert f"{len(steps)} are drawn" in panel.sentence
