"""Budget mode: as many buckets as fit into a share of the bytes that the lossy tensors have.

A budget pays for what is lossy: the record's header, code tables, levels and code words. Tensors
that are stored exactly come on top of it, since no setting could make them smaller.

How many bytes a number of buckets takes at most is known once their tokens are counted, and
roughly from the histogram: Shannon's bound, which runs of zeros may undercut. So the search begins
with too many buckets and goes down until the size fits. Where the largest bucket alone is too
much, its largest members are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from . import huffman, tables
from .coding import Message, needs_no_bits, settle
from .errors import BudgetError, SettingsError
from .quantize import Buckets, Histogram
from .state import Layout, TensorSpec
from .survivors import Collected, Survivors
from .tables import CodeTable, Counts
from .untrusted import names_of

BEST = 0.1  # of the estimate: no coder is hoped to need less
HOPE = 0.8  # fewer buckets may leave longer runs, and need less than the ratio just seen
LEAST = 24  # bytes that a few values of one level take: level, table, one short stream
FULL = 0.9  # of the room: a part of a bucket that fills so much of it is large enough
EXPONENT = 0x7F800000  # of a float32's magnitude


@dataclass(frozen=True)
class Fitted:
    """Survivors settled on as many buckets as fit.

    nbytes: what they take at most; where nothing fits, what the largest value alone would take.
    """

    survivors: Survivors
    units: int
    counts: Counts
    buckets: Buckets
    nbytes: int

    def message(self, shape: tuple[int, ...]) -> Message:
        """Ready to be coded."""
        levels = self.buckets.levels
        return Message(self.survivors, self.units, self.counts, levels, shape, None)


@dataclass
class Budget:
    """What one record may take, shared out among its alphabets as they are coded.

    share: of the float32 bytes of all lossy tensors. header: bytes of the record's header.
    Small alphabets come first (`order`), and each may take what a few values need: by its share
    alone, a bias would never get a level. What they leave goes to the larger ones.
    """

    share: float
    layout: Layout
    coder: str
    header: int
    _spent: int = field(init=False)
    _elements: int = field(init=False)  # of the model's tensors that are not coded yet
    _outside: dict[str, int] = field(default_factory=dict, init=False)  # alphabet -> bytes
    _lacking: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._spent = self.header
        self._elements = sum(t.size for t in self.layout.tensors if t.lossy and not t.family)

    @property
    def nbytes(self) -> float:
        """Bytes that the record may take, tensors stored exactly not counted."""
        return self.share * self.layout.lossy_nbytes

    @staticmethod
    def order(tensors: Sequence[TensorSpec]) -> tuple[bool, int]:
        """Sort key: alphabets outside the model, whose buckets are all kept, then small ones."""
        return not tensors[0].family, sum(t.size for t in tensors)

    def room(self, tensors: Sequence[TensorSpec]) -> float:
        """Bytes that an alphabet of the model may take."""
        left = max(self.nbytes - self._spent, 0.0)
        n = sum(t.size for t in tensors)
        least = LEAST + (n / 8 if self.coder == "huffman" else 0)  # which takes a bit a value
        return min(left, max(left * n / max(self._elements, 1), least))

    def spend(self, tensors: Sequence[TensorSpec], nbytes: int) -> None:
        """An alphabet has taken so many bytes."""
        self._spent += nbytes
        if tensors[0].family:
            self._outside[tensors[0].name] = nbytes
        else:
            self._elements -= sum(t.size for t in tensors)

    def lacks(self, tensors: Sequence[TensorSpec], nbytes: int) -> None:
        """Tensors have changed, and there was no room for the nbytes that say the least of it."""
        self._lacking |= {t.name: 0 for t in tensors} | {tensors[0].name: nbytes}

    def check(self) -> None:
        """Raise BudgetError if tensors that have changed would get nothing."""
        if not self._lacking:
            return
        needed = self._spent + sum(self._lacking.values())
        parts = [f"the header takes {self.header:,}"]
        if self._outside:
            taken = f"{sum(self._outside.values()):,}"
            parts.append(f"the lossy tensors outside the model ({names_of(self._outside)}) {taken}")
        parts.append(
            f"the smallest change of {names_of(self._lacking)} would take {needed - self._spent:,}"
        )
        raise BudgetError(
            f"a budget of {100 * self.share:g} % of the lossy tensors' "
            f"{self.layout.lossy_nbytes:,} bytes is {int(self.nbytes):,} bytes, which is too "
            f"small: {', '.join(parts)}. {self._advice(needed)}"
        )

    def _advice(self, needed: int) -> str:
        share = needed / max(self.layout.lossy_nbytes, 1)
        digits = 2 - math.ceil(math.log10(share))
        enough = math.ceil(share * 10**digits) / 10**digits  # two digits, rounded up
        ways = [f"pass a budget well above {enough:g}"] if enough < 1 else []
        ways.append("pass bits instead of a budget")
        if self.coder == "huffman":
            ways.append("pass coder='runlength', for plain Huffman takes at least a bit a value")
        if self._outside:
            ways.append("store what is outside the model exactly (policy 'exact')")
        text = ", or ".join(ways)
        return text[0].upper() + text[1:]


def check_budget(budget: float) -> float:
    """The budget as a float. Raises SettingsError unless it lies above 0 and at most at 1."""
    number = isinstance(budget, int | float | np.number) and not isinstance(budget, bool)
    if not number or not 0 < budget <= 1:
        raise SettingsError(
            f"budget is a share of the float32 size above 0 and at most 1; got {budget!r}"
        )
    return float(budget)


def fit(found: Collected, coder: str, previous: CodeTable | None, room: float) -> Fitted:
    """Keep as many buckets as `room` bytes hold; if not even one, the largest values of it.

    found: all bins of a delta. previous: the table sent last.
    """
    fitted = _buckets(found.survivors, found.histogram, coder, previous, room)
    if len(fitted.buckets) or not found.histogram.count.any():
        return fitted
    return _largest_values(found, coder, previous, room)


def _buckets(
    survivors: Survivors,
    histogram: Histogram,
    coder: str,
    previous: CodeTable | None,
    room: float,
) -> Fitted:
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
            kept = Counts(counts, tokens)
            return Fitted(survivors, units, kept, buckets.first(keep), exact)
        ratio = max(ratio, HOPE * exact / estimates[keep])
        keep -= 1
        final = np.arange(final.size, dtype=np.uint16)  # the survivors' codes are levels now


def _largest_values(
    found: Collected, coder: str, previous: CodeTable | None, room: float
) -> Fitted:
    """The members of the largest bucket from some magnitude on: as many as fit, or nearly.

    Found by bisection, with a pass over the delta each: seldom needed, where one bucket holds much
    of the delta and the budget is small.
    """
    largest = int(found.histogram.high.max())
    low, high, fits = largest & EXPONENT, largest + 1, 0

    def settled(magnitude: int, room: float) -> tuple[Fitted, bool]:
        part = found.at_least(magnitude)
        fitted = _buckets(part.survivors, part.histogram, coder, previous, room)
        return fitted, len(fitted.buckets) == len(part.histogram.buckets())

    while low < high:
        magnitude = (low + high) // 2
        fitted, whole = settled(magnitude, room)
        if whole:
            high = fits = magnitude
            if fitted.nbytes >= FULL * room:
                return fitted
        else:
            low = magnitude + 1
    if fits:
        return settled(fits, room)[0]
    least = settled(largest, math.inf)[0].nbytes
    return replace(settled(largest, 0.0)[0], nbytes=least)


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
