"""What the figures of a chain share: axes, fewer points and shorter names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TypeVar

STEP = "step (iterations)"
MAX_POINTS = 600  # of one kind: more points than pixels would only slow every tick
T = TypeVar("T")


def step_range(first: int, last: int) -> list[float]:
    """Limits of an axis of steps: a little more than they span, so that no symbol is cut."""
    margin = 0.02 * max(last - first, 1)
    return [first - margin, max(last, first + 1) + margin]


def decades(low: float, high: float) -> list[int]:
    """Limits of a logarithmic axis for values from low to high: at least one decade."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [begin, max(end, begin + 1)]


def thinned(points: Sequence[T], most: int) -> Sequence[T]:
    """At most `most` of the points, evenly chosen, always with the last one."""
    stride = -(-len(points) // most) or 1
    return points[::-1][::stride][::-1]


def shortened(name: str, most: int) -> str:
    """A name in at most `most` characters: its end, which says more than its beginning."""
    return name if len(name) <= most else "…" + name[1 - most :]


def label(name: str, most: int | None = None) -> str:
    """A name from a visitor's file for Plotly, which reads tags in texts. most: see `shortened`."""
    return escape(name if most is None else shortened(name, most), quote=False)
