"""A delta in uniform steps: how many values go how many steps, beside the powers of two."""

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
from lcviz.text import exponent_text, plural
from lcviz.ui.picture import Picture

from .buckets_picture import OPTIONS, STEPS
from .followed import largest_among
from .shown_step import ShownStep

MOST_BARS = 40  # on each side of zero


@dataclass(frozen=True)
class Bars:
    """The bars of a delta in equal steps: of its largest alphabet, from the dead zone at 0.

    Attributes:
        alphabet: The alphabet.
        size: Of a step; 0 if everything lies in the dead zone.
        steps: int64 (levels,), how many steps each level goes, with its sign.
        each: Steps that share a bar.
    """

    alphabet: Alphabet
    size: float
    steps: NDArray[np.int64]
    each: int

    @classmethod
    def of(cls, shown: ShownStep) -> Bars:
        """The bars of a step."""
        alphabet = max(shown.alphabets, key=lambda a: a.n)
        levels = alphabet.encoded.levels[1:]
        size = float(levels[0]) if levels.size else 0.0
        steps = np.rint(levels / size).astype(np.int64) if size else np.zeros(0, np.int64)
        reach = (levels.size + 1) // 2  # steps from zero to the furthest level
        return cls(alphabet, size, steps, max(math.ceil(reach / MOST_BARS), 1))

    @property
    def at(self) -> NDArray[np.int64]:
        """int64 (buckets,): the bar of each bucket of the alphabet, 0 for the dead zone."""
        bars = np.zeros(len(self.alphabet.buckets), np.int64)
        bars[: self.steps.size] = np.sign(self.steps) * (-(-np.abs(self.steps) // self.each))
        return bars

    def bar_of(self, followed: Followed) -> int | None:
        """The bar of a weight; None in another alphabet, or without a change."""
        bucket = followed.bucket
        if bucket is None or followed.weight.tensor not in self.alphabet.names:
            return None
        if not followed.kept:
            return 0
        return int(self.at[: self.steps.size][self.steps == round(followed.level / self.size)][0])

    def weight(self, shown: ShownStep, at: int, tensor: str) -> Weight | None:
        """The largest change of a bar, in this tensor if it has one there; None if it is empty."""
        return largest_among(shown, [(self.alphabet, self.at == at)], tensor)


def steps_picture(shown: ShownStep, followed: Followed | None = None) -> Picture:
    """Bars on a line of changes, the dead zone in their middle; of the largest alphabet.

    Args:
        shown: The step.
        followed: A weight whose bar is marked.
    """
    bars = Bars.of(shown)
    alphabet, size, each = bars.alphabet, bars.size, bars.each
    counts = alphabet.buckets.count[: bars.steps.size]
    bar_counts: Counter[int] = Counter()
    for at, count in zip(bars.at.tolist(), counts.tolist()):
        bar_counts[at] += count
    dead = alphabet.n - int(counts.sum())
    whole = "of the weights" if shown.moments else ""
    return Picture(
        "steps",
        "Equal steps",
        whole if len(shown.alphabets) == 1 else alphabet.names[0],
        _sentence(shown, bars),
        {
            "size": size,
            "each": each,
            "bars": [
                {"at": at, "count": count} for at, count in sorted(bar_counts.items()) if count
            ],
            "dead": dead,
            "marked": bars.bar_of(followed) if followed else None,
            "left_out": shown.left_out(),
            "largest": max([dead, *bar_counts.values()]),
            "octaves": _octaves(size, each, max((abs(at) for at in bar_counts), default=1)),
            "options": OPTIONS,
            "bits": STEPS,
        },
        partial(_table, bars, counts, dead),
        2,
    )


def _octaves(size: float, each: int, reach: int) -> list[dict[str, Any]]:
    """Where the paper's buckets would be: the smaller end of each, in bars from zero."""
    if not size:
        return []
    first = math.floor(math.log2(size))
    last = math.floor(math.log2(size * (reach * each + 0.5)))
    return [
        {"at": 2.0**e / size / each + 0.5 - 0.5 / each, "text": exponent_text(e)}
        for e in range(first, last + 1)
    ]


def _sentence(shown: ShownStep, bars: Bars) -> str:
    if not bars.size:
        return f"All changes lie in the dead zone: they {shown.left_out()}."
    alphabet, reach = bars.alphabet, int(np.abs(bars.steps).max())
    every = "" if len(shown.alphabets) == 1 else " of this tensor"
    changed = int(alphabet.buckets.count[: alphabet.kept].sum())
    return (
        f"Steps of {bars.size:.3g}: {changed:,} of {alphabet.n:,} values{every} move by up to "
        f"{plural(reach, 'step')}. Smaller changes lie in the dead zone and {shown.left_out()}."
    )


def _table(bars: Bars, counts: Any, dead: int) -> pd.DataFrame:
    order = np.argsort(bars.steps)
    each = zip(bars.steps[order], counts[order])
    rows = sorted([*((int(q), q * bars.size, int(n)) for q, n in each if n), (0, 0.0, dead)])
    return pd.DataFrame(rows, columns=["steps", "change", "values"])
