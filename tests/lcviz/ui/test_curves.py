"""The numbers on the axes of curves, called in Node.js."""

from __future__ import annotations

import pytest

from lcviz.ui.picture import drawing
from tests.node import in_node


@pytest.mark.parametrize(
    ("low", "high", "log", "expected"),
    [
        (-0.0238, 0.0044, False, [-0.02, -0.01, 0]),
        (0, 2.4, False, [0, 1, 2]),
        (3, 4, False, [3, 3.25, 3.5, 3.75, 4]),
        (0.3, 0.7, False, [0.3, 0.4, 0.5, 0.6, 0.7]),
        (0.135, 2.42, True, [0.2, 0.5, 1, 2]),
        (0.001, 1000, True, [0.001, 0.1, 10, 1000]),
        (0.152, 0.43, True, [0.2, 0.3, 0.4]),
        (0.95, 1.04, True, [0.95, 1.04]),  # no round number between
    ],
)
def test_axes_have_a_few_round_numbers(
    low: float, high: float, log: bool, expected: list[float]
) -> None:
    answer = in_node([drawing("curves")], "one => ticks(...one)", [low, high, log])
    assert answer == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-0.02, 0, 0.01], ["−0.02", "0", "0.01"]),
        ([-0.03148, -0.03146], ["−0.03148", "−0.03146"]),  # with three digits they are alike
        ([0.00012, 0.00014], ["1.2e−4", "1.4e−4"]),
    ],
)
def test_numbers_of_an_axis_differ(values: list[float], expected: list[str]) -> None:
    assert in_node([drawing("curves")], "tickTexts", values) == expected
