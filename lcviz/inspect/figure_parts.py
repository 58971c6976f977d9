"""What the figures of this page share: axes, and fewer points or shorter names where many are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from lcviz.ui.charts import Option

T = TypeVar("T")


def axis(name: str, gap: int, kind: str = "value", **more: Any) -> Option:
    """An axis with its name along its middle. gap: pixels between them."""
    return {"type": kind, "name": name, "nameLocation": "middle", "nameGap": gap, **more}


def step_axis(first: int, last: int) -> Option:
    """A horizontal axis of steps."""
    limits: Option = {"min": first, "max": max(last, first + 1), "minInterval": 1}
    return axis("step (iterations)", 28, **limits, axisLabel={"hideOverlap": True})


def decades(low: float, high: float) -> Option:
    """Limits of a logarithmic axis for values from low to high, one decade at least."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return {"min": 10**begin, "max": 10 ** max(end, begin + 1)}


def thinned(points: Sequence[T], most: int) -> Sequence[T]:
    """At most so many of them, evenly chosen, always with the last one."""
    stride = -(-len(points) // most) or 1
    return points[::-1][::stride][::-1]


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters: its end, which says more than its beginning."""
    return name if len(name) <= most else "…" + name[1 - most :]
