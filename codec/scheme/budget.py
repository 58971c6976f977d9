"""Budget mode: uniform steps as small, or as many buckets, as fit into a share of float32's bytes.

A budget pays for the record's header, code tables, levels and code words. It does not pay
for tensors that are stored exactly, which no setting can make smaller, nor for tensors that are
alone, as an optimizer's moments are, whose size follows from their own target.

Several records may share a budget, as the records of a rank do (`SharedBudget`). They are coded one
after another, and each gets its part of the bytes not yet spent.

A histogram gives a rough size for any step size and any number of buckets: Shannon's bound, which
runs of zeros may undercut. Counted tokens give an upper bound of the true size. The ratio of
the two corrects the estimate that the next step size is chosen by. With buckets, the search starts
with too many and keeps fewer until they fit. If much of the budget then remains, the next bucket is
kept in part, its largest values first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from codec.caps import names_of
from codec.errors import BudgetError, SettingsError
from codec.state.tensors import Layout, TensorSpec

from . import huffman
from .coders import coder_of
from .limits import BLOCK, N_BINS
from .remainder import Remainder
from .stream import LosslessStage, Message
from .survivors import Collected
from .uniform import LARGEST_CHANGE, LARGEST_SIZE, SMALLEST_SIZE, Magnitudes, UniformQuantizer

BEST = 0.1  # share of the estimate: no coder is expected to need less
HOPE = 0.8  # of the last ratio: with fewer buckets, runs may be longer and the ratio smaller
FULL = 0.75  # share of the limit from which on the search for buckets ends
PASSES = 12  # at most, to find a part of a bucket, or a step size
USED = 0.975  # share of the limit from which on the search for a step size ends
EXCESS = 1.012  # usual ratio of an alphabet's bytes to the estimate
AIM = 0.992  # share of the limit that the next step size is chosen for
CLOSE = 1.0005  # step sizes of a smaller ratio are not worth another pass
# A size must differ by this ratio from those tried: MARGIN as a power of the interval's ratio,
# at most MOST_MARGIN.
MARGIN, MOST_MARGIN = 0.1, 1.01


@dataclass(frozen=True)
class Fitted:
    """The survivors of an alphabet that fit into its share of a budget.

    nbytes: an upper bound of the encoded size; if nothing fits, the size of the largest value
    alone. remainder: what the step leaves.
    """

    message: Message
    nbytes: int
    remainder: Remainder

    @property
    def levels(self) -> NDArray[np.float32]:
        """float32 (k,)."""
        return self.message.levels

    @property
    def n_kept(self) -> int:
        """How many values are kept."""
        return int(self.message.counts.codes[1:].sum())


@dataclass(frozen=True)
class Allowance:
    """What one record may take of a budget.

    Attributes:
        share: The budget as a share of ``whole``.
        whole: float32 bytes of the lossy tensors of all records that share the budget, without
            tensors that are alone.
        nbytes: Bytes of this record's part.
        most: Bytes that the record may take if its smallest changes need them.
    """

    share: float
    whole: int
    nbytes: float
    most: float

    @classmethod
    def of(cls, share: float, layout: Layout) -> Allowance:
        """The whole budget, for a single record."""
        nbytes = share * layout.lossy_nbytes
        return cls(share, layout.lossy_nbytes, nbytes, nbytes)


@dataclass
class SharedBudget:
    """A budget of several records, which are coded one after another, small ones first.

    Args:
        share: The budget as a share of ``whole``.
        whole: See `Allowance`.
    """

    share: float
    whole: int
    _spent: int = field(default=0, init=False)
    _coded: int = field(default=0, init=False)  # of the whole

    def allowance(self, nbytes: int) -> Allowance:
        """The allowance of the next record. nbytes: float32 bytes of its lossy tensors."""
        unspent = max(self.share * self.whole - self._spent, 0.0)
        part = unspent * nbytes / max(self.whole - self._coded, nbytes, 1)
        return Allowance(self.share, self.whole, part, unspent)

    def spend(self, nbytes: int, record_nbytes: int) -> None:
        """Subtract the bytes of a record. nbytes: float32 bytes of its lossy tensors."""
        self._coded += nbytes
        self._spent += record_nbytes


@dataclass
class Budget:
    """The bytes of one record, divided among its alphabets while they are coded.

    Small alphabets come first (`order`). Each gets its share of the unspent bytes. It may take
    more if its smallest change needs it: otherwise a bias would never get a level.

    Args:
        allowance: What the record may take, without tensors stored exactly or alone.
        layout: The layout of the track.
        coder: The coder's name.
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
        self._elements = sum(t.size for t in self.layout.tensors if t.lossy and t.family.is_model)

    @staticmethod
    def order(tensors: Sequence[TensorSpec]) -> tuple[bool, int]:
        """Sort key: alphabets outside the model, whose size is fixed, then the model's by size."""
        return tensors[0].family.is_model, sum(t.size for t in tensors)

    def limits(self, tensors: Sequence[TensorSpec]) -> tuple[float, float]:
        """Bytes of an alphabet's share, and all unspent bytes."""
        unspent, all_unspent = (
            max(limit - self._spent, 0.0) for limit in (self.allowance.nbytes, self.allowance.most)
        )
        n = sum(t.size for t in tensors)
        return unspent * n / max(self._elements, n), all_unspent

    def spend(self, tensors: Sequence[TensorSpec], nbytes: int) -> None:
        """Subtract the bytes of an alphabet."""
        if tensors[0].measure:
            return
        self._spent += nbytes
        if tensors[0].family.is_model:
            self._elements -= sum(t.size for t in tensors)
        else:
            self._outside[tensors[0].name] = nbytes

    def lacks(self, tensors: Sequence[TensorSpec], nbytes: int) -> None:
        """Note changed tensors whose smallest change, of ``nbytes``, does not fit."""
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
            lacking = sum(self._lacking.values())
            parts.append(f"the smallest change of {names_of(self._lacking)} would take {lacking:,}")
        share, whole = self.allowance.share, self.allowance.whole
        if other_records := share * whole - self.allowance.most:
            parts.insert(0, f"other records take {int(other_records):,}")
        advised = self._advised(needed + other_records)
        raise BudgetError(
            f"a budget of {100 * share:g} % of the lossy tensors' {whole:,} bytes is "
            f"{int(share * whole):,} bytes, which is too small: {', '.join(parts)}. "
            f"{self._advice(advised)}",
            advised,
        )

    def _advised(self, needed: float) -> float | None:
        """The budget to advise where a record needs so many bytes; None if there is none."""
        share = 1.25 * needed / max(self.allowance.whole, 1)  # a margin: other steps may need more
        digits = 2 - math.ceil(math.log10(share))
        advised = math.ceil(share * 10**digits) / 10**digits  # two digits, rounded up
        return advised if advised < 1 else None

    def _advice(self, advised: float | None) -> str:
        ways = [] if advised is None else [f"pass budget={advised:g} or more"]
        ways.append("pass bits instead of a budget")
        if not coder_of(self.coder).counts_runs:
            ways.append("pass coder='runlength', for plain Huffman takes at least a bit a value")
        if self._outside:
            ways.append("store what is outside the model exactly (policy 'exact')")
        text = ", or ".join(ways)
        return text[0].upper() + text[1:]


class BeyondError(Exception):
    """A change is larger than the magnitudes say, or not finite."""


def check_budget(budget: float) -> float:
    """The budget as a float. Raises SettingsError unless it is above 0 and at most 1."""
    numbers = int | float | np.integer | np.floating
    number = isinstance(budget, numbers) and not isinstance(budget, bool)
    if not number or not 0 < budget <= 1:
        raise SettingsError(
            "budget is a share of the lossy tensors' float32 size, above 0 and at most 1; got "
            f"{budget!r}"
        )
    return float(budget)


def fit_buckets(
    collected: Collected, stage: LosslessStage, limit: float, hard_limit: float
) -> Fitted:
    """Keep as many buckets as fit into ``limit`` bytes, and the largest values of the next one.

    Args:
        collected: All bins of a delta.
        stage: How they are coded.
        limit: Bytes of the alphabet's share.
        hard_limit: Bytes that the largest value alone may take if it does not fit into ``limit``.
    """

    def fit_part(limit: float, magnitude: int = 1, n: int | None = None) -> tuple[Fitted, bool]:
        part = collected.at_least(magnitude, n)
        fitted = _fit_whole(part, stage, limit)
        return fitted, fitted.levels.size - 1 == len(part.histogram.buckets())

    all_buckets = collected.histogram.buckets()
    whole_buckets = _fit_whole(collected, stage, limit)
    n_kept = whole_buckets.levels.size - 1
    if n_kept == len(all_buckets) or whole_buckets.nbytes >= FULL * limit > 0:
        return whole_buckets
    partial = all_buckets[n_kept]
    ends = np.abs(np.array([partial.min, partial.max], np.float32)).view(np.uint32)
    part, magnitude = None, 0
    # Bisection of the magnitude, each step a pass over the delta. Few steps: whole buckets nearly
    # fill most budgets.
    low, high = int(ends.min()), int(ends.max())
    for _ in range(PASSES):
        middle = (low + high) // 2
        fitted, fits = fit_part(limit, middle)
        if fits:
            part, magnitude, high = fitted, middle, middle
        else:
            low = middle + 1
        if low >= high + (not fits) or (fits and fitted.nbytes >= FULL * limit):
            break
    if part and part.nbytes > whole_buckets.nbytes:
        return fit_part(limit, magnitude)[0]
    if n_kept:
        return fit_part(limit)[0]
    # Too many values share the largest magnitude: keep the first of them.
    largest = int(collected.histogram.bins.high.max())
    smallest_nbytes = fit_part(math.inf, largest, 1)[0].nbytes
    if smallest_nbytes > hard_limit:
        return replace(fit_part(0.0, largest, 1)[0], nbytes=smallest_nbytes)
    end = int(collected.at_least(largest).histogram.count.sum())
    n = _most(1, end, lambda n: fit_part(limit, largest, n)[1])
    return fit_part(max(limit, smallest_nbytes), largest, n)[0]


def _most(n: int, end: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to ``end`` that fits, as ``n`` does."""
    while n < end:
        middle = (n + end + 1) // 2
        n, end = (middle, end) if fits(middle) else (n, middle - 1)
    return n


def fit_steps(
    quantize: UniformQuantizer,
    magnitudes: Magnitudes,
    stage: LosslessStage,
    limit: float,
    hard_limit: float,
) -> Fitted:
    """Take the smallest uniform steps that fit into ``limit`` bytes.

    Args:
        quantize: The quantizer of the delta.
        magnitudes: The magnitudes of the delta.
        stage: How its codes are written.
        limit: Bytes of the alphabet's share.
        hard_limit: Bytes that the first value alone may take if it does not fit into ``limit``.

    Raises:
        BeyondError: A change is larger than the magnitudes say, or not finite.
    """
    largest = magnitudes.largest
    fitter = _StepFitter(quantize, largest, stage)
    if not largest:
        return fitter.fit(1.0)
    if not largest <= LARGEST_CHANGE:
        raise BeyondError
    search = _search(fitter, magnitudes, limit)
    best = search.best
    if best is None or best.levels.size == 1:
        # Even the largest values are too many: keep the first of them.
        smallest_nbytes = fitter.fit(largest, 1).nbytes
        if smallest_nbytes > hard_limit:
            return replace(fitter.fit(min(4 * largest, LARGEST_SIZE)), nbytes=smallest_nbytes)
        most = max(limit, smallest_nbytes)
        n = _most(1, fitter.fit(largest).n_kept, lambda n: fitter.fit(largest, n).nbytes <= most)
        return fitter.fit(largest, n)
    newest = search.newest
    if best.nbytes < USED * limit and search.n_kept_too_fine > best.n_kept:
        # No single size keeps only a part of many values of nearly equal magnitude.
        part = fitter.fit_blend(search.too_fine, search.fitting, limit)
        if best.nbytes < part.nbytes <= limit:
            return part
        newest = part  # it now has the survivors' memory
    return best if best is newest else fitter.fit(search.fitting)


@dataclass(frozen=True)
class _StepFitter:
    """Quantizes a delta in uniform steps and counts the bytes. largest: its largest change."""

    quantize: UniformQuantizer
    largest: float
    stage: LosslessStage

    def fit(
        self, size: float, first: int | None = None, end: int | None = None, other: float = 0
    ) -> Fitted:
        """Quantize in steps of one size.

        first: how many survivors to keep; None for all. end, other: see `UniformQuantizer`.
        """
        largest = self.largest
        least_size = self.quantize.finest(largest) if largest else np.float32(SMALLEST_SIZE)
        fine = max(np.float32(size), least_size)
        steps = self.quantize(fine, largest, end, float(np.float32(other)))
        if steps.beyond:
            raise BeyondError
        if first is not None:
            steps = steps.first(first)
        message = self.stage.message(steps.survivors, steps.counts, steps.levels, uniform=True)
        return Fitted(message, message.most_nbytes, steps.remainder)

    def fit_blend(self, size: float, other: float, limit: float) -> Fitted:
        """Steps of this size in as many of the first blocks as nearly fill the limit.

        In the blocks after them, only changes that would be a step of size ``other``.
        """
        n_fine, n_too_many = 0, -(-self.quantize.segments.n // BLOCK)
        while n_fine + 1 < n_too_many:
            middle = (n_fine + n_too_many) // 2
            part = self.fit(size, end=BLOCK * middle, other=other)
            if USED * limit <= part.nbytes <= limit:
                return part
            n_fine, n_too_many = (middle, n_too_many) if part.nbytes <= limit else (n_fine, middle)
        return self.fit(size, end=BLOCK * n_fine, other=other)


@dataclass
class _Search:
    """Step sizes between which the smallest that fits lies.

    finest, coarsest: the limits of any search. too_fine, fitting: the sizes nearest to each other
    that were tried; 0 if there is none yet. n_kept_too_fine: the values that ``too_fine`` keeps.
    best: the steps of the size ``fitting``. newest: the steps that were tried last.
    """

    finest: float
    coarsest: float
    too_fine: float = 0.0
    fitting: float = 0.0
    n_kept_too_fine: int = 0
    best: Fitted | None = None
    newest: Fitted | None = None

    def next_size(self, estimate: float) -> float:
        """The estimate, or a size further away from those tried where it would hardly move."""
        too_fine, fitting = self.too_fine, self.fitting
        if too_fine and fitting:
            margin = min((fitting / too_fine) ** MARGIN, MOST_MARGIN)
            if not too_fine * margin < estimate < fitting / margin:
                return math.sqrt(too_fine) * math.sqrt(fitting)
        elif fitting and estimate > fitting / MOST_MARGIN:
            return max(fitting / 2, self.finest)
        elif too_fine and estimate < too_fine * MOST_MARGIN:
            return min(too_fine * 2, self.coarsest)
        return estimate

    @property
    def is_closed(self) -> bool:
        """Whether no size between those tried is worth another pass."""
        ratio = MOST_MARGIN if self.best and self.n_kept_too_fine > self.best.n_kept else CLOSE
        too_coarse = self.too_fine >= self.coarsest / CLOSE**2
        return too_coarse or 0 < self.fitting <= self.too_fine * ratio


def _search(fitter: _StepFitter, magnitudes: Magnitudes, limit: float) -> _Search:
    """Try step sizes until one nearly fills the limit, or PASSES are over."""
    largest, offset, n = magnitudes.largest, fitter.quantize.offset, fitter.quantize.segments.n
    # Between these sizes, q of the largest change goes from its limit down to 1.
    finest = max(largest / (fitter.quantize.most + 1 - offset), SMALLEST_SIZE)
    search = _Search(finest, max(largest / (1 - offset), SMALLEST_SIZE))
    ratio = EXCESS
    for _ in range(PASSES):
        low, high = search.too_fine or finest, search.fitting or search.coarsest
        bits = 8 * AIM * limit / ratio / n
        size = search.next_size(magnitudes.size_for(bits, offset, low, high))
        newest = search.newest = fitter.fit(size)
        if newest.nbytes <= limit:
            search.fitting, search.best = size, newest
            enough = newest.n_kept and newest.nbytes >= USED * limit  # nothing is never enough
            if enough or size <= finest * CLOSE**2:
                search.n_kept_too_fine = 0
                break
        else:
            search.too_fine, search.n_kept_too_fine = size, newest.n_kept
        if search.is_closed:
            break
        estimate = max(n * magnitudes.entropy(size, offset) / 8, 1.0)
        ratio = max(newest.nbytes / estimate, 1e-3)
    return search


def _fit_whole(collected: Collected, stage: LosslessStage, limit: float) -> Fitted:
    survivors, histogram = collected.survivors, collected.histogram
    all_buckets = histogram.buckets()
    n = survivors.n
    counts = (all_buckets.keeping(keep).counts(n) for keep in range(len(all_buckets) + 1))
    estimates = np.array([huffman.entropy(c) / 8 + 4 * keep for keep, c in enumerate(counts)])
    final, keep, ratio = None, len(all_buckets), BEST
    while True:
        fitting = np.flatnonzero(ratio * estimates[: keep + 1] <= limit)
        # at most halved: a larger number than the estimate says may fit
        keep = max(int(fitting[-1]) if fitting.size else 0, keep // 2)
        p = histogram.promote(keep, n)
        if final is None:
            final = p.final
        else:  # the survivors' codes are levels already
            final = np.arange(N_BINS, dtype=np.uint16)
            final[keep + 1 :] = 0
        message = stage.message(survivors, p.counts, p.levels, final=final)
        nbytes = message.most_nbytes
        if nbytes <= limit or keep == 0:
            return Fitted(message, nbytes, collected.remainder(p))
        ratio = max(ratio, HOPE * nbytes / estimates[keep])
        keep -= 1
