"""Budget mode: uniform steps as small, or as many buckets, as fit into a share of float32's bytes.

A budget pays for the record's header, code tables, levels and code words. Tensors that are stored
exactly come on top of it: no setting can make them smaller. So do those that are alone, as an
optimizer's moments are: their own bits say what they take.

Several records may share a budget, as those of a rank do (`SharedBudget`): one after another, each
has its part of what is left.

A histogram gives a rough size for any step size and any number of buckets: Shannon's bound, which
runs of zeros may undercut. Counted tokens give an upper bound. Their ratio to the estimate leads to
the next step size. With buckets the search starts with too many and goes down until the size fits;
if much of the budget is left, the next bucket is kept in part, its largest values first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import BudgetError, SettingsError
from codec.state.tensors import Layout, TensorSpec

from . import huffman, tables
from .arithmetic import Matrices
from .coders import coder_of
from .kernels import BLOCK
from .quantize import Buckets
from .remainder import Remainder
from .stream import (
    ArithmeticCode,
    Message,
    arithmetic_code,
    arithmetic_may_serve,
    needs_no_bits,
)
from .survivors import Collected, Survivors
from .tables import CodeTable, Counts
from .uniform import LARGEST_CHANGE, LARGEST_SIZE, SMALLEST_SIZE, Magnitudes, UniformQuantizer

BEST = 0.1  # of the estimate: no coder is expected to need less
HOPE = 0.8  # fewer buckets may leave longer runs, and need less than the last ratio
FULL = 0.75  # of the room: enough, the search ends
PASSES = 12  # at most, to find a part of a bucket, or a step size
USED = 0.975  # of the room: enough for uniform steps, the search ends
EXCESS = 1.012  # bytes of an alphabet as a multiple of the estimate, usually
AIM = 0.992  # of the room: what the next step size is chosen for
CLOSE = 1.0005  # ratio of step sizes that are not worth another pass
NEAR, NEAREST = 0.1, 1.01  # so near to a size that was tried, halving the interval promises more


@dataclass(frozen=True)
class Fitted:
    """Survivors reduced to what fits.

    buckets: those that are kept; None for uniform steps. nbytes: an upper bound of their size; if
    nothing fits, the size of the largest value alone. remainder: what they leave.
    """

    survivors: Survivors
    units: int
    counts: Counts
    levels: NDArray[np.float32]
    buckets: Buckets | None
    nbytes: int
    remainder: Remainder
    arithmetic: ArithmeticCode | None = None

    @property
    def kept(self) -> int:
        """How many values."""
        return int(self.counts.codes[1:].sum())

    def message(self, shape: tuple[int, ...]) -> Message:
        """Ready to be coded."""
        own = self.survivors, self.units, self.counts, self.levels, shape, None
        return Message(*own, self.buckets is None, self.arithmetic)


@dataclass(frozen=True)
class Allowance:
    """What one record may take of a budget.

    Attributes:
        share: The budget, a share of ``whole``.
        whole: Bytes in float32 of the lossy tensors of all records that share the budget, without
            those that are alone.
        nbytes: The part of this record.
        most: Bytes that it may take if its smallest changes need them.
    """

    share: float
    whole: int
    nbytes: float
    most: float

    @classmethod
    def of(cls, share: float, layout: Layout) -> Allowance:
        """All of a budget, for a single record."""
        nbytes = share * layout.lossy_nbytes
        return cls(share, layout.lossy_nbytes, nbytes, nbytes)


@dataclass
class SharedBudget:
    """A budget of several records, which are coded one after another, small ones first.

    Args:
        share: Of ``whole``.
        whole: See `Allowance`.
    """

    share: float
    whole: int
    _spent: int = field(default=0, init=False)
    _coded: int = field(default=0, init=False)  # of the whole

    def allowance(self, nbytes: int) -> Allowance:
        """For the next record, of lossy tensors with so many bytes in float32."""
        left = max(self.share * self.whole - self._spent, 0.0)
        part = left * nbytes / max(self.whole - self._coded, nbytes, 1)
        return Allowance(self.share, self.whole, part, left)

    def spend(self, nbytes: int, taken: int) -> None:
        """Subtract what the record of these tensors took."""
        self._coded += nbytes
        self._spent += taken


@dataclass
class Budget:
    """The bytes of one record, divided among its alphabets while they are coded.

    Small alphabets come first (`order`). Each has its share of what is left, and may take more if
    its smallest change needs it: otherwise a bias would never get a level.

    Args:
        allowance: What the record may take, without tensors stored exactly or alone.
        layout: The track's.
        coder: Its name.
        header: Bytes of the record's header.
    """

    allowance: Allowance
    layout: Layout
    coder: str
    header: int
    _spent: int = field(init=False)
    _elements: int = field(init=False)  # of the model's tensors not coded yet
    _outside: dict[str, int] = field(default_factory=dict, init=False)  # alphabet -> bytes
    _lacking: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._spent = self.header
        self._elements = sum(t.size for t in self.layout.tensors if t.lossy and not t.family)

    @staticmethod
    def order(tensors: Sequence[TensorSpec]) -> tuple[bool, int]:
        """Sort key: alphabets outside the model, whose buckets are all kept, then small ones."""
        return not tensors[0].family, sum(t.size for t in tensors)

    def room(self, tensors: Sequence[TensorSpec]) -> tuple[float, float]:
        """Bytes of an alphabet's share, and all bytes that are left."""
        left, most = (
            max(limit - self._spent, 0.0) for limit in (self.allowance.nbytes, self.allowance.most)
        )
        n = sum(t.size for t in tensors)
        return left * n / max(self._elements, n), most

    def spend(self, tensors: Sequence[TensorSpec], nbytes: int) -> None:
        """Subtract the bytes of an alphabet."""
        if tensors[0].alone:
            return
        self._spent += nbytes
        if tensors[0].family:
            self._outside[tensors[0].name] = nbytes
        else:
            self._elements -= sum(t.size for t in tensors)

    def lacks(self, tensors: Sequence[TensorSpec], nbytes: int) -> None:
        """Note tensors that have changed although their smallest change, nbytes, does not fit."""
        self._lacking |= {t.name: 0 for t in tensors} | {tensors[0].name: nbytes}

    def check(self) -> None:
        """Raise BudgetError if changed tensors get nothing, or tensors outside the model take too
        much."""
        too_much = self._outside and self._spent > self.allowance.most
        if not self._lacking and not too_much:
            return
        needed = self._spent + sum(self._lacking.values())
        parts = [f"the header takes {self.header:,}"]
        if self._outside:
            taken = f"{sum(self._outside.values()):,}"
            parts.append(f"the lossy tensors outside the model ({names_of(self._outside)}) {taken}")
        if self._lacking:
            least = sum(self._lacking.values())
            parts.append(f"the smallest change of {names_of(self._lacking)} would take {least:,}")
        share, whole = self.allowance.share, self.allowance.whole
        if elsewhere := share * whole - self.allowance.most:
            parts.insert(0, f"other records take {int(elsewhere):,}")
        raise BudgetError(
            f"a budget of {100 * share:g} % of the lossy tensors' {whole:,} bytes is "
            f"{int(share * whole):,} bytes, which is too small: {', '.join(parts)}. "
            f"{self._advice(needed + elsewhere)}"
        )

    def _advice(self, needed: float) -> str:
        share = 1.25 * needed / max(self.allowance.whole, 1)  # other steps need more
        digits = 2 - math.ceil(math.log10(share))
        enough = math.ceil(share * 10**digits) / 10**digits  # two digits, rounded up
        ways = [f"pass budget={enough:g} or more"] if enough < 1 else []
        ways.append("pass bits instead of a budget")
        if not coder_of(self.coder).counts_runs:
            ways.append("pass coder='runlength', for plain Huffman takes at least a bit a value")
        if self._outside:
            ways.append("store what is outside the model exactly (policy 'exact')")
        text = ", or ".join(ways)
        return text[0].upper() + text[1:]


class BeyondError(Exception):
    """A sample of magnitudes has missed a much larger one."""


def check_budget(budget: float) -> float:
    """The budget as a float. Raises SettingsError unless it lies above 0 and at most at 1."""
    numbers = int | float | np.integer | np.floating
    number = isinstance(budget, numbers) and not isinstance(budget, bool)
    if not number or not 0 < budget <= 1:
        raise SettingsError(
            "budget is a share of the lossy tensors' float32 size, above 0 and at most 1; got "
            f"{budget!r}"
        )
    return float(budget)


def fit_buckets(
    found: Collected, coder: str, previous: CodeTable | None, room: float, most: float
) -> Fitted:
    """Keep as many buckets as fit into ``room`` bytes, and the largest values of the next one.

    Args:
        found: All bins of a delta.
        coder: Its name.
        previous: The last code table.
        room: Bytes.
        most: Bytes that the fewest values may take if nothing fits into the room.
    """

    def settled(room: float, magnitude: int = 1, n: int | None = None) -> tuple[Fitted, bool]:
        part = found.at_least(magnitude, n)
        fitted = _buckets(part, coder, previous, room)
        return fitted, fitted.levels.size - 1 == len(part.histogram.buckets())

    every = found.histogram.buckets()
    whole = _buckets(found, coder, previous, room)
    kept = whole.levels.size - 1
    if kept == len(every) or whole.nbytes >= FULL * room > 0:
        return whole
    ends = np.abs(np.array([every[kept].min, every[kept].max], np.float32)).view(np.uint32)
    part, magnitude = None, 0
    # Bisection of the magnitude, each step a pass over the delta. Few steps: whole buckets nearly
    # fill most budgets.
    low, high = int(ends.min()), int(ends.max())
    for _ in range(PASSES):
        middle = (low + high) // 2
        fitted, fits = settled(room, middle)
        if fits:
            part, magnitude, high = fitted, middle, middle
        else:
            low = middle + 1
        if low >= high + (not fits) or (fits and fitted.nbytes >= FULL * room):
            break
    if part and part.nbytes > whole.nbytes:
        return settled(room, magnitude)[0]
    if kept:
        return settled(room)[0]
    # Too many values share the largest magnitude: keep the first of them.
    largest = int(found.histogram.high.max())
    least = settled(math.inf, largest, 1)[0].nbytes
    if least > most:
        return replace(settled(0.0, largest, 1)[0], nbytes=least)
    n, end = 1, int(found.at_least(largest).histogram.count.sum())
    while n < end:
        middle = (n + end + 1) // 2
        n, end = (middle, end) if settled(room, largest, middle)[1] else (n, middle - 1)
    return settled(max(room, least), largest, n)[0]


def fit_steps(
    quantize: UniformQuantizer,
    magnitudes: Magnitudes,
    coder: str,
    previous: CodeTable | None,
    room: float,
    most: float,
    matrices: Matrices,
) -> Fitted:
    """Take the smallest uniform steps that fit into ``room`` bytes.

    Args:
        quantize: The delta.
        magnitudes: Its magnitudes.
        coder: Its name.
        previous: The last code table.
        room: Bytes.
        most: Bytes that the fewest values may take if nothing fits into the room.
        matrices: Rows and columns of the tensors.

    Raises:
        BeyondError: A change is larger than the magnitudes say, or not finite.
    """
    largest, offset, n = magnitudes.largest, quantize.offset, quantize.segments.n
    tries_arithmetic = arithmetic_may_serve(coder, n)
    least_size = quantize.finest(largest) if largest else np.float32(SMALLEST_SIZE)

    def settled(
        size: float, first: int | None = None, end: int | None = None, other: float = 0
    ) -> Fitted:
        """first: keep so many survivors only. end, other: see `UniformQuantizer`."""
        fine = max(np.float32(size), least_size)
        found = quantize(fine, largest, end, float(np.float32(other)))
        if found.beyond:
            raise BeyondError
        if first is not None:
            found = found.first(first)
        units, tokens = coder_of(coder).settle(found.survivors, None, found.counts)
        counts = Counts(found.counts, tokens, uniform=True)
        levels = 4 * (counts.codes.size > 1)
        nbytes = _nbytes(found.survivors, units, counts, levels, previous)
        arithmetic = None
        if tries_arithmetic and not needs_no_bits(counts.codes):
            arithmetic = arithmetic_code(found.survivors, matrices)
            nbytes = min(nbytes, arithmetic.payload.size + levels) if arithmetic else nbytes
        quantized = found.survivors, units, counts, found.levels
        return Fitted(*quantized, None, nbytes, found.remainder, arithmetic)

    def cut(size: float, room: float) -> Fitted:
        """As many of the first survivors as fit, one at least."""
        n, end = 1, int(settled(size).counts.codes[1:].sum())
        while n < end:
            middle = (n + end + 1) // 2
            fits = settled(size, middle).nbytes <= room
            n, end = (middle, end) if fits else (n, middle - 1)
        return settled(size, n)

    def blended(size: float, other: float, room: float) -> Fitted:
        """At the beginning all steps of this size that fit, then only changes of a larger one."""
        fits, end = 0, -(-n // BLOCK)
        while fits + 1 < end:
            middle = (fits + end) // 2
            enough = settled(size, end=BLOCK * middle, other=other).nbytes <= room
            fits, end = (middle, end) if enough else (fits, middle)
        return settled(size, end=BLOCK * fits, other=other)

    if not largest:
        return settled(1.0)
    if not largest <= LARGEST_CHANGE:
        raise BeyondError
    # Between these sizes, q of the largest change goes from its limit down to 1.
    finest = max(largest / (quantize.most + 1 - offset), SMALLEST_SIZE)
    coarsest = max(largest / (1 - offset), SMALLEST_SIZE)
    over, fits, best, newest, ratio, most_kept = 0.0, 0.0, None, None, EXCESS, 0
    for _ in range(PASSES):
        low, high = over or finest, fits or coarsest
        size = magnitudes.size_for(8 * AIM * room / ratio / n, offset, low, high)
        if over and fits:
            near = min((fits / over) ** NEAR, NEAREST)
            if not over * near < size < fits / near:
                size = math.sqrt(over) * math.sqrt(fits)
        elif fits and size > fits / NEAREST:  # an estimate that hardly moves is far off
            size = max(fits / 2, finest)
        elif over and size < over * NEAREST:
            size = min(over * 2, coarsest)
        newest = settled(size)
        if newest.nbytes <= room:
            fits, best = size, newest
            enough = newest.kept and newest.nbytes >= USED * room  # in no room, none is not enough
            if enough or size <= finest * CLOSE**2:
                return newest
        else:
            over, most_kept = size, newest.kept
        if (over >= coarsest / CLOSE**2) or (over and fits and fits <= over * CLOSE):
            break
        estimate = max(n * magnitudes.entropy(size, offset) / 8, 1.0)
        ratio = max(newest.nbytes / estimate, 1e-3)
    if best is None or best.levels.size == 1:
        # Even the largest values are too many: keep the first of them.
        least = settled(largest, 1).nbytes
        if least > most:
            return replace(settled(min(4 * largest, LARGEST_SIZE)), nbytes=least)
        return cut(largest, max(room, least))
    if best.nbytes < USED * room and most_kept > best.kept:
        # Of many values of nearly one magnitude no size keeps a part.
        part = blended(over, fits, room)
        if best.nbytes < part.nbytes <= room:
            return part
        newest = part  # the survivors are its now
    return best if best is newest else settled(fits)


def _buckets(found: Collected, coder: str, previous: CodeTable | None, room: float) -> Fitted:
    survivors, histogram = found.survivors, found.histogram
    every = histogram.buckets()
    n = survivors.n
    estimates = np.array([_estimate(every, k, n) for k in range(len(every) + 1)])
    final, keep, ratio = histogram.final(every), len(every), BEST
    while True:
        fitting = np.flatnonzero(ratio * estimates[: keep + 1] <= room)
        keep = max(int(fitting[-1]) if fitting.size else 0, keep // 2)  # do not skip past what fits
        buckets = every.keeping(keep)
        counts = buckets.counts(n)
        final = np.where(final <= keep, final, 0).astype(np.uint16)
        units, tokens = coder_of(coder).settle(survivors, final, counts)
        kept = Counts(counts, tokens)
        exact = _nbytes(survivors, units, kept, 4 * keep, previous)
        if exact <= room or keep == 0:
            buckets = buckets.first(keep)
            remainder = found.remainder(buckets, buckets.levels)
            return Fitted(survivors, units, kept, buckets.levels, buckets, exact, remainder)
        ratio = max(ratio, HOPE * exact / estimates[keep])
        keep -= 1
        final = np.arange(final.size, dtype=np.uint16)  # the survivors' codes are levels now


def _estimate(every: Buckets, keep: int, n: int) -> float:
    counts = every.keeping(keep).counts(n)
    return huffman.entropy(counts) / 8 + 4 * keep


def _nbytes(
    survivors: Survivors, units: int, counts: Counts, levels: int, previous: CodeTable | None
) -> int:
    """levels: their bytes."""
    if needs_no_bits(counts.codes):
        return levels
    streams = -(-survivors.units // units)
    return tables.choose(counts, previous, streams).nbytes(streams) + levels
