"""One weight over the steps of a run, and what one step does to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from lcviz.lab.follow_weight import Followed
from lcviz.ui.charts import plotted
from lcviz.ui.picture import Picture, finite

from .followed import WeightHistory

DIGITS = 9  # after the point: weights are small


def weight_picture(
    history: WeightHistory, interval: int, last: int, *, carries: bool = True
) -> Picture:
    """Trained and restored value of one weight: u is trained, ũ follows in steps.

    Args:
        history: The weight.
        interval: Iterations between two checkpoints.
        last: The end of the axis.
        carries: Whether what a checkpoint leaves out stays in the next δ.
    """
    f, stairs = history.followed, history.stairs
    # A stair has ũ just before its step: the value since the step before.
    track = {step - interval: stair.track for step, stair in stairs.items()}
    track |= {f.step: f.restored}
    return Picture(
        "curves",
        {
            **weight_facts(f),
            "last": last,
            "trained": points({step: stair.u for step, stair in stairs.items()}),
            "restored": points(dict(sorted(track.items()))),
            "carries": carries,
        },
        pd.DataFrame(
            {
                "step": list(stairs),
                "trained u": [stair.u for stair in stairs.values()],
                "ũ before it": [stair.track for stair in stairs.values()],
            }
        ),
    )


def weight_facts(f: Followed) -> dict[str, Any]:
    """What one step does to a weight."""
    return {
        "kind": "weight",
        "step": f.step,
        "where": f.weight.text(f.shape),
        "exact": f.exact,
        "u": finite(f.live),
        "track": finite(f.track),
        "delta": finite(f.delta),
        "coded": finite(f.level),
        "bucket": None if f.bucket is None else [f.bucket.exponent, f.bucket.sign],
        "code": None if f.code is None else asdict(f.code),
    }


def points(values: Mapping[int, float]) -> list[list[float | None]]:
    """Step and value, rounded."""
    return [[step, plotted(value, DIGITS)] for step, value in values.items()]
