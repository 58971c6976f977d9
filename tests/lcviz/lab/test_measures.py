"""Distances, and what a crash would cost, on loss curves drawn by hand."""

import math

import numpy as np
import pytest

from lcviz.lab.measures import crossing, distance, iterations_behind, recent, smoothed


@pytest.mark.parametrize(
    ("live", "restored", "behind"),
    [
        ([5.0, 4.0, 3.0, 2.0], 2.0, 0),  # restored exactly
        ([5.0, 4.0, 3.0, 2.0], 1.5, 0),  # better than the live model: nothing is lost
        ([5.0, 4.0, 3.0, 2.0], 2.25, 0.25),  # a quarter of the last iteration
        ([5.0, 4.0, 3.0, 2.0], 3.0, 1),  # exactly as bad as at step 2
        ([5.0, 4.0, 3.0, 2.0], 5.0, 3),  # no better than the start
        ([5.0, 4.0, 3.0, 2.0], 9.0, 3),  # worse than the start: everything, not more
        ([5.0, 2.0, 4.0, 3.0], 3.5, 0.5),  # the last time counts, not the first
        ([5.0, math.nan, 3.0, 2.0], 3.5, 1.5),  # not measured: a straight line from 0 to 2
        ([5.0, 4.0, 3.0, math.nan], 3.5, 1.5),
        ([5.0, 4.0, 3.0, 2.0], math.nan, None),  # a diverged model has no such step
        ([5.0, 4.0, 3.0, 2.0], math.inf, None),
    ],
)
def test_iterations_behind(live: list[float], restored: float, behind: float | None) -> None:
    assert iterations_behind([0, 1, 2, 3], live, restored) == behind
    tens = None if behind is None else 10 * behind  # steps count, not places
    assert iterations_behind([0, 10, 20, 30], live, restored) == pytest.approx(tens)


def test_distance() -> None:
    a = {"w": np.array([[3.0, 1.0]], np.float32), "b": np.array([7.0], np.float32)}
    b = {"w": np.array([[0.0, 1.0]], np.float32), "b": np.array([3.0], np.float32)}
    assert (distance(a, b), distance(a, b, ["w"])) == (5.0, 3.0)
    many = {"w": np.full(10**6, 1e-3, np.float32)}  # float32 sums lose digits here
    assert distance(many, {"w": np.zeros(10**6, np.float32)}) == pytest.approx(1.0, rel=1e-6)
    assert math.isnan(distance(a, {"w": a["w"], "b": np.array([math.nan], np.float32)}))
    assert math.isinf(distance(a, {"w": a["w"], "b": np.array([math.inf], np.float32)}))


def test_smoothed() -> None:
    assert smoothed([4.0, 2.0, 0.0, 4.0, 8.0], 1) == [3.0, 2.0, 2.0, 4.0]
    assert (smoothed([4.0, 2.0], 0), smoothed([4.0, 2.0], 2)) == ([4.0, 2.0], [])


@pytest.mark.parametrize(
    ("excess", "expected"),
    [
        ([0.0], 0.0),
        ([-0.5], 0.0),
        ([0.5, 0.5], 0.5),  # the trend falls by 1 an iteration
        ([0.1, 0.1], 0.1),
        ([1.0, 1.0], 1.0),
        ([2.5, 2.5, 2.5, 2.5], 2.5),
        ([3.0, 0.5], 3.0 / 3.5),  # it falls to -0.5 within one
        ([0.5, 3.0, 0.0], 1 + 2.0 / 4.0),  # up to 2 first
        ([math.nan, math.nan, 1.0], 2.0),
        ([math.inf, 1.0], 1.0),
        ([0.0, 3.0, 1.0], 1 + 2.0 / 3.0),  # without the optimizer's state it rises at once
        ([-0.5, 3.0, 1.0], 1 + 2.0 / 3.0),
        ([0.0, 1.5], None),
        ([0.0, 0.9, 5.0], 0.0),
        ([1.5], None),
        ([9.0, 9.0, 9.0], None),
        ([math.nan] * 4, None),
    ],
)
def test_crossing(excess: list[float], expected: float | None) -> None:
    trend = [7.0, 6.0, 5.0, 4.0]
    assert crossing(trend, excess) == pytest.approx(expected)


def test_a_negligible_excess_waits_for_no_trend_that_rises() -> None:
    """This one falls by 1 an iteration on average."""
    trend = [7.0, 7.5, 8.0, 4.0]
    assert (crossing(trend, [1e-9] * 4), crossing(trend, [0.009] * 4)) == (0, 0)
    assert crossing(trend, [0.02] * 4) == pytest.approx(2 + 1.02 / 4)
    assert crossing(trend, [0.5, 1e-9, 0.0, 0.0]) == 1  # where the undisturbed training is
    assert crossing([7.0, 7.0, 7.0], [1e-9] * 3) is None  # one that gains nothing


def test_recent_means() -> None:
    assert (recent([1.0, 3.0, 5.0, 7.0], 3), recent([], 3)) == ([1.0, 2.0, 3.0, 5.0], [])
    exploded = recent([1.0, math.inf, 3.0, 5.0], 3)
    assert math.isnan(exploded.pop(1))
    assert exploded == [1.0, 2.0, 4.0]
