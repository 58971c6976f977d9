"""Means and their intervals, against numbers from tables."""

import math

import pytest

from lcviz.lab.intervals import mean, ratio, upper_bound


def test_five_values() -> None:
    """t(0.975, 4) = 2.776445."""
    found, half = mean([1.0, 2.0, 3.0, 4.0, 5.0]), 2.776445 * math.sqrt(2.5 / 5)
    assert (found.value, found.half, found.n) == (3, pytest.approx(half, rel=1e-6), 5)


def test_one_value_and_none() -> None:
    assert mean([2.0]).half == ratio([1.0], [2.0]).half == math.inf
    for function in (mean, upper_bound, lambda values: ratio(values, values)):
        with pytest.raises(ValueError, match="no values"):
            function([])


def test_upper_bounds() -> None:
    """t(0.95, 4) = 2.131847."""
    deviation = math.sqrt(2.5)
    assert upper_bound([1, 2, 3, 4, 5]) == pytest.approx(3 + 2.131847 * deviation * math.sqrt(1.2))
    assert (upper_bound([1.0]), upper_bound([1.0, math.inf])) == (math.inf, math.inf)
    assert mean([1.0, math.inf]).value == math.inf


def test_a_ratio() -> None:
    """2.1 to 4: residuals -.05, .425 and -.375 sum to 0; t(0.975, 2) = 4.302653."""
    found = ratio([1.0, 2.0, 3.3], [2.0, 3.0, 7.0])
    assert found.value == pytest.approx(2.1 / 4)
    deviation = math.sqrt((0.05**2 + 0.425**2 + 0.375**2) / 2)
    assert found.half == pytest.approx(4.302653 * deviation / math.sqrt(3) / 4, rel=1e-6)
    assert ratio([1.0, 3.0], [2.0, 6.0]).half == 0  # all pairs agree
    assert math.isnan(ratio([1.0], [0.0]).value)
