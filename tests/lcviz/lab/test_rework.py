"""What a crash would cost, on loss curves drawn by hand."""

from __future__ import annotations

import math

import pytest

from lcviz.lab.rework import lost_iterations


@pytest.mark.parametrize(
    ("live", "restored", "iteration", "lost"),
    [
        ([5.0, 4.0, 3.0, 2.0], 2.0, 3, 0),  # restored exactly
        ([5.0, 4.0, 3.0, 2.0], 1.5, 3, 0),  # better than the live model: nothing is lost
        ([5.0, 4.0, 3.0, 2.0], 2.5, 3, 1),  # the training was last as bad as that at step 2
        ([5.0, 4.0, 3.0, 2.0], 3.0, 3, 1),  # exactly as bad as at step 2
        ([5.0, 4.0, 3.0, 2.0], 5.0, 3, 3),  # no better than the start
        ([5.0, 4.0, 3.0, 2.0], 9.0, 3, 3),  # worse than the start: everything, not more
        ([5.0, 2.0, 4.0, 3.0], 3.5, 3, 1),  # the last time counts, not the first
        ([5.0, 4.0, 3.0, 2.0], 2.0, 8, 5),  # unsaved iterations since the newest step
        ([5.0, 4.0, 3.0, 2.0], 3.5, 8, 7),
        ([5.0, math.nan, 3.0, 2.0], 3.5, 3, 2),  # not measured: a straight line from 0 to 2
        ([5.0, 4.0, 3.0, math.nan], 3.5, 3, 2),
        ([5.0, 4.0, 3.0, 2.0], math.nan, 8, None),  # a diverged model has no such step
        ([5.0, 4.0, 3.0, 2.0], math.inf, 8, None),
    ],
)
def test_lost_iterations(
    live: list[float], restored: float, iteration: int, lost: int | None
) -> None:
    assert lost_iterations([0, 1, 2, 3], live, restored, iteration) == lost


def test_steps_count_not_places() -> None:
    """With a checkpoint every 10 iterations the loss is in iterations."""
    assert lost_iterations([0, 10, 20], [3.0, 2.0, 1.0], 1.5, 24) == 9
    assert lost_iterations([0, 10, 20], [3.0, 2.0, 1.0], 1.0, 24) == 4
