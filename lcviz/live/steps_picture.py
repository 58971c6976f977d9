"""A delta in uniform steps: how many values go how many steps, beside the powers of two."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from lcviz.lab.anatomy import Alphabet
from lcviz.text import exponent_text, plural
from lcviz.ui.picture import Picture

from .buckets_picture import OPTIONS, STEPS
from .shown_step import ShownStep

MOST_BARS = 40  # on each side of zero


def steps_picture(shown: ShownStep) -> Picture:
    """Bars on a line of changes, the dead zone in their middle; of the largest alphabet."""
    alphabet = max(shown.alphabets, key=lambda a: a.n)
    levels = alphabet.encoded.levels[1:]
    counts = alphabet.buckets.count[: levels.size]
    size = float(levels[0]) if levels.size else 0.0
    reach = (levels.size + 1) // 2  # steps from zero to the furthest level
    each = max(math.ceil(reach / MOST_BARS), 1)  # steps of one bar
    steps = np.rint(levels / size).astype(int) if size else np.zeros(0, int)
    bars: dict[int, int] = {}
    for q, count in zip(steps.tolist(), counts.tolist()):
        at = math.copysign((abs(q) - 1) // each + 1, q)
        bars[int(at)] = bars.get(int(at), 0) + count
    dead = alphabet.n - int(counts.sum())
    whole = "of the weights" if shown.moments else ""
    return Picture(
        "steps",
        "Equal steps",
        whole if len(shown.alphabets) == 1 else alphabet.names[0],
        _sentence(shown, alphabet, size, reach),
        {
            "size": size,
            "each": each,
            "bars": [{"at": at, "count": count} for at, count in sorted(bars.items()) if count],
            "dead": dead,
            "largest": max([dead, *bars.values()]),
            "octaves": _octaves(size, each, max((abs(at) for at in bars), default=1)),
            "options": OPTIONS,
            "bits": STEPS,
        },
        partial(_table, size, steps, counts, dead),
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


def _sentence(shown: ShownStep, alphabet: Alphabet, size: float, reach: int) -> str:
    if not size:
        return f"All changes lie in the dead zone: they {shown.left_out()}."
    every = "" if len(shown.alphabets) == 1 else " of this tensor"
    changed = int(alphabet.buckets.count[: alphabet.kept].sum())
    return (
        f"Steps of {size:.3g}: {changed:,} of {alphabet.n:,} values{every} move by up to "
        f"{plural(reach, 'step')}. Smaller changes lie in the dead zone and {shown.left_out()}."
    )


def _table(size: float, steps: Any, counts: Any, dead: int) -> pd.DataFrame:
    order = np.argsort(steps)
    rows = [(int(q), q * size, int(n)) for q, n in zip(steps[order], counts[order]) if n]
    rows = sorted([*rows, (0, 0.0, dead)])
    return pd.DataFrame(rows, columns=["steps", "change", "values"])
