"""The price of a crash with each way to save, and the states right after restoring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from lcviz.lab.recovery.rework import CrashCost
from lcviz.text import loss_text, nbytes_text, percent_text


def prices(costs: Sequence[CrashCost]) -> list[dict[str, Any]]:
    """Facts of the rows under the race: see `Price` in race.js. costs: one for each method."""
    return [
        {
            "name": cost.method.name,
            "nbytes": round(cost.nbytes),
            "mean": round(cost.rework.value, 4),
            "half": round(cost.rework.half, 4) if _bounded(cost) else None,
            "each": [[round(price, 4), capped] for price, capped in cost.each],
        }
        for cost in costs
    ]


def _bounded(cost: CrashCost) -> bool:
    """Whether the mean has an interval: there are several seeds, and none was capped."""
    return math.isfinite(cost.rework.half) and not cost.capped


def restored_table(costs: Sequence[CrashCost]) -> pd.DataFrame:
    """Loss and distance right after restoring, prices, and the time of a save: means over seeds."""
    return pd.DataFrame(
        [
            {
                "method": f"**{c.method.name}**",
                "checkpoint": f"{nbytes_text(c.nbytes)}, {percent_text(c.share)}",
                "loss before the crash": loss_text(c.loss_before, 4),
                "right after restoring": loss_text(c.loss_restored, 4),
                "distance": percent_text(c.distance),
                "price of each seed": " · ".join(
                    f"{'≥ ' if capped else ''}{price:.2f}" for price, capped in c.each
                ),
                "one save": f"{1e3 * c.save_seconds:.1f} ms",
            }
            for c in costs
        ]
    )
