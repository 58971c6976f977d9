"""A delta in uniform steps: how many values move by how many steps, beside the powers of two."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lcviz.lab.anatomy import Alphabet
from lcviz.lab.follow_weight import Followed, Weight
from lcviz.ui.picture import Picture

from .followed import largest_among
from .step_record import StepRecord

MOST_BARS = 40  # on each side of zero


@dataclass(frozen=True)
class Bars:
    """The bars of the largest alphabet in equal steps of a delta; bar 0 is the dead zone.

    Attributes:
        alphabet: The alphabet.
        size: Of a step; 0 if all values lie in the dead zone.
        steps: int64 (levels,), the steps from zero to each level, with a sign.
        steps_per_bar: How many steps share a bar.
    """

    alphabet: Alphabet
    size: float
    steps: NDArray[np.int64]
    steps_per_bar: int

    @classmethod
    def of(cls, record: StepRecord) -> Bars:
        """The bars of the largest alphabet in equal steps."""
        alphabet = max((a for a in record.alphabets if a.uniform), key=lambda a: a.n)
        levels = alphabet.encoded.levels[1:]
        size = float(levels[0]) if levels.size else 0.0
        steps = np.rint(levels / size).astype(np.int64) if size else np.zeros(0, np.int64)
        reach = (levels.size + 1) // 2  # steps from zero to the furthest level
        return cls(alphabet, size, steps, max(math.ceil(reach / MOST_BARS), 1))

    @property
    def bar_of_bucket(self) -> NDArray[np.int64]:
        """int64 (buckets,): the bar of each bucket of the alphabet, 0 for the dead zone."""
        bars = np.zeros(len(self.alphabet.buckets), np.int64)
        distances = -(-np.abs(self.steps) // self.steps_per_bar)
        bars[: self.steps.size] = np.sign(self.steps) * distances
        return bars

    def bar_of(self, followed: Followed) -> int | None:
        """The bar of a weight; None if it is in another alphabet or did not change."""
        bucket = followed.bucket
        if bucket is None or followed.weight.tensor not in self.alphabet.sizes:
            return None
        if not followed.level:
            return 0
        bars = self.bar_of_bucket[: self.steps.size]
        return int(bars[self.steps == round(followed.level / self.size)][0])

    def weight(self, record: StepRecord, bar: int, tensor: str) -> Weight | None:
        """The weight with the largest change of a bar; None if the bar is empty.

        A change in the given tensor goes before larger ones elsewhere.
        """
        selected = self.bar_of_bucket == bar
        return largest_among(record, lambda a: selected & (a is self.alphabet), tensor)


def steps_picture(
    record: StepRecord, followed: Followed | None = None, raised_budget: float | None = None
) -> Picture:
    """The bars of the largest alphabet on a line of changes, with the dead zone in the middle.

    Args:
        record: Of the step on the page, in equal steps.
        followed: The weight whose bar is marked.
        raised_budget: The share of float32 that took the place of a smaller one; None if none did.
    """
    bars = Bars.of(record)
    alphabet = bars.alphabet
    counts = alphabet.buckets.count[: bars.steps.size]
    bar_counts: Counter[int] = Counter()
    for bar, count in zip(bars.bar_of_bucket.tolist(), counts.tolist()):
        bar_counts[bar] += count
    dead = alphabet.n - int(counts.sum())
    return Picture(
        "steps",
        {
            "size": bars.size,
            "each": bars.steps_per_bar,
            "bars": [
                {"at": bar, "count": count} for bar, count in sorted(bar_counts.items()) if count
            ],
            "dead": dead,
            "n": alphabet.n,
            "reach": int(np.abs(bars.steps).max(initial=0)),
            "marked": bars.bar_of(followed) if followed else None,
            "tensor": "" if len(record.alphabets) == 1 else alphabet.names[0],
            "moments": bool(record.moments),
            "carries": record.carries,
            "raised": raised_budget,
        },
        partial(_table, bars, counts, dead),
    )


def _table(bars: Bars, counts: Any, dead: int) -> pd.DataFrame:
    occurring = [
        (int(steps), steps * bars.size, int(n)) for steps, n in zip(bars.steps, counts) if n
    ]
    rows = sorted([*occurring, (0, 0.0, dead)])
    return pd.DataFrame(rows, columns=["steps", "change", "values"])
