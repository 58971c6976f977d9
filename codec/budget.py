"""Budget mode: as many buckets as fit into so many bytes.

How many bytes a number of buckets takes at most is known once their tokens are counted, and
roughly from the histogram: Shannon's bound, which runs of zeros may undercut. So the search begins
with too many buckets and goes down until the size fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import huffman, tables
from .coding import Message, needs_no_bits, settle
from .errors import SettingsError
from .quantize import Buckets, Histogram
from .survivors import Survivors
from .tables import CodeTable, Counts

BEST = 0.1  # of the estimate: no coder is hoped to need less
HOPE = 0.8  # fewer buckets may leave longer runs, and need less than the ratio just seen


@dataclass(frozen=True)
class Fitted:
    """Survivors settled on as many buckets as fit."""

    survivors: Survivors
    units: int
    counts: Counts
    buckets: Buckets

    def message(self, shape: tuple[int, ...]) -> Message:
        """Ready to be coded."""
        levels = self.buckets.levels
        return Message(self.survivors, self.units, self.counts, levels, shape, None)


def check_budget(budget: float) -> float:
    """The budget as a float. Raises SettingsError unless it lies above 0 and at most at 1."""
    number = isinstance(budget, int | float | np.number) and not isinstance(budget, bool)
    if not number or not 0 < budget <= 1:
        raise SettingsError(
            f"budget is a share of the float32 size above 0 and at most 1; got {budget!r}"
        )
    return float(budget)


def fit(
    survivors: Survivors,
    histogram: Histogram,
    coder: str,
    previous: CodeTable | None,
    room: float,
) -> Fitted:
    """Keep as many buckets as `room` bytes hold.

    histogram: of all bins. previous: the table sent last.
    """
    every = histogram.buckets()
    n = survivors.n
    estimates = np.array([_estimate(every, k, n) for k in range(len(every) + 1)])
    final, keep, ratio = histogram.final(every), len(every), BEST
    while True:
        fitting = np.flatnonzero(ratio * estimates[: keep + 1] <= room)
        keep = max(int(fitting[-1]) if fitting.size else 0, keep // 2)  # no leap past what fits
        buckets = every.keeping(keep)
        counts = buckets.counts(n)
        final = np.where(final <= keep, final, 0).astype(np.uint16)
        units, tokens = settle(survivors, final, counts, coder)
        exact = _nbytes(survivors, units, Counts(counts, tokens), previous)
        if exact <= room or keep == 0:
            return Fitted(survivors, units, Counts(counts, tokens), buckets)
        ratio = max(ratio, HOPE * exact / estimates[keep])
        keep -= 1
        final = np.arange(final.size, dtype=np.uint16)  # the survivors' codes are levels now


def _estimate(every: Buckets, keep: int, n: int) -> float:
    counts = every.keeping(keep).counts(n)
    return huffman.entropy(counts) / 8 + 4 * keep


def _nbytes(survivors: Survivors, units: int, counts: Counts, previous: CodeTable | None) -> int:
    levels = 4 * (counts.codes.size - 1)
    if needs_no_bits(counts.codes):
        return levels
    streams = -(-survivors.units // units)
    choice = tables.choose(counts, previous, streams)
    words = (choice.bits + 31) // 32 + streams - 1  # at most: every stream ends with a word
    table = 0 if choice.cached else choice.table.packed.size
    return 4 * (words + streams) + table + levels
