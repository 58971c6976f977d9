"""The elements of a delta that are not zero once it is quantized.

One pass over u - track finds them; no array as large as the delta is ever written. During the pass
a threshold rises to the exponents that can still be promoted, and elements below it are skipped
64 at a time. Survivors take one bit a position and one byte a survivor, at most 1.125
bytes an element.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from . import plain, workers
from .kernels import collect as kernel
from .kernels import instructions
from .kernels.instructions import Tensors
from .limits import N_BINS, UNIT, WORD
from .memory import Pages
from .plain import Bins
from .quantize import EXACT_BINS, Codes, Histogram, Promotion
from .remainder import Remainder
from .twins import takes_compiled, twin_of

PROBED = 4  # units, at least, for a probe: in fewer, the threshold rises soon enough without it
FOLDED_BINS = (EXACT_BINS & 127 | EXACT_BINS >> 1 & 128).astype(np.uint16)  # sign, 7 bits


class Segments:
    """Neighbouring tensors, addressed as one long array of n elements.

    Args:
        tracks: The arrays that are compared and changed; float32, C-contiguous.
        sources: The arrays that are saved, of the same sizes. Empty where only the track matters.
        seconds: The second moments beside them, see `measures.Scale`.

    Attributes:
        addresses: What kernels take.
    """

    def __init__(
        self,
        tracks: Sequence[NDArray[np.float32]],
        sources: Sequence[NDArray[np.float32]] = (),
        seconds: Sequence[NDArray[np.float32]] = (),
    ) -> None:
        self.arrays = (tuple(tracks), tuple(sources))  # kept alive: kernels use addresses
        self.seconds = tuple(seconds)
        ends = itertools.accumulate((t.size for t in tracks), initial=0)
        self.starts = np.array(list(ends), np.int64)
        self.addresses = Tensors(addresses_of(sources), addresses_of(tracks), self.starts)
        self.n = int(self.starts[-1])

    def with_sources(self, sources: Sequence[NDArray[np.float32]]) -> Segments:
        """The same tracks with other sources."""
        other = Segments.__new__(Segments)  # faster than `copy.copy`
        other.arrays, other.seconds = (self.arrays[0], tuple(sources)), self.seconds
        other.starts, other.n = self.starts, self.n
        other.addresses = Tensors(addresses_of(sources), self.addresses.tracks, self.starts)
        return other


class _Memory:
    """Memory for the survivors of some units.

    codes: in small pages. Unused ones take no memory and used ones can be freed: where most of a
    delta is zero, at most a third is used.
    """

    def __init__(self, units: int) -> None:
        self.marks = np.empty(units * (UNIT // WORD), np.uint64)
        self.codes = Pages(units * UNIT)


@dataclass
class Survivors:
    """Marks and codes of n elements, see `kernels.collect`.

    marks: uint64 (units * 1024,). codes: uint8 or uint16 (units * 65536,). numbers: int32
    (units,): survivors of each unit.
    """

    n: int
    marks: NDArray[np.uint64]
    codes: Codes
    numbers: NDArray[np.int32]
    memory: _Memory

    @property
    def units(self) -> int:
        """Stretches of 65536 elements, the last one shorter."""
        return self.numbers.size

    @property
    def marked(self) -> tuple[NDArray[np.uint64], Codes, NDArray[np.int32]]:
        """What kernels take."""
        return self.marks, self.codes, self.numbers

    @property
    def dense(self) -> bool:
        """Whether more than half of all elements survive."""
        return _are_dense(self.numbers)

    @property
    def all_codes(self) -> NDArray[np.uint16]:
        """The code of each element, survivor or not: uint16 (n,)."""
        positions, codes = plain.survivors_of(self)
        all_codes = np.zeros(self.n, np.uint16)
        all_codes[positions] = codes
        return all_codes

    def of_width(self, itemsize: int) -> Survivors:
        """The same memory for codes of 1 byte, or of 2 if these have 2."""
        codes: Codes = self.memory.codes.content[: self.units * UNIT * itemsize]
        codes = codes if itemsize == 1 else codes.view(np.uint16)
        return Survivors(self.n, self.marks, codes, self.numbers, self.memory)

    def keep_first(self, most: int, k: int) -> NDArray[np.int64]:
        """Keep the first ``most`` survivors only. Returns int64 (k,): how many have each code."""
        ends = np.cumsum(self.numbers)
        unit = int(np.searchsorted(ends, most))
        n_last = most - int(ends[unit] - self.numbers[unit])
        words = UNIT // WORD
        marks = self.marks[unit * words : (unit + 1) * words]
        bits = np.unpackbits(marks.view(np.uint8), bitorder="little")
        bits[np.flatnonzero(bits)[n_last:]] = 0
        marks[:] = np.packbits(bits, bitorder="little").view(np.uint64)
        self.marks[(unit + 1) * words :] = 0
        self.numbers[unit], self.numbers[unit + 1 :] = n_last, 0
        counts = np.zeros(k, np.int64)
        for i in range(unit + 1):
            codes = self.codes[i * UNIT : i * UNIT + self.numbers[i]]
            counts += np.bincount(codes, minlength=k)
        return counts

    def free_codes(self, first: int, last: int) -> None:
        """Free the codes of the units first..last, if there are many.

        A few codes keep their memory, because reusing it is faster.
        """
        numbers, unit = self.numbers[first:last], UNIT * self.codes.itemsize
        if _are_dense(numbers):
            self.memory.codes.give_back(first * unit, (first + numbers.size) * unit)


class _MemoryPool:
    """Memory kept for reuse: fresh pages cost more time than the work.

    Without a lock, which a fork could leave locked: append and pop of a list are atomic.
    """

    def __init__(self) -> None:
        self._idle: list[_Memory] = []

    @contextmanager
    def borrow(self, n: int, itemsize: int) -> Iterator[Survivors]:
        """Memory for the survivors of n elements."""
        units = -(-n // UNIT)
        try:
            memory = self._idle.pop()
        except IndexError:
            memory = _Memory(0)
        if memory.codes.content.size < units * UNIT * itemsize:
            memory = _Memory(units * itemsize)
        marks = memory.marks[: units * (UNIT // WORD)]
        numbers = np.empty(units, np.int32)
        yield Survivors(n, marks, memory.codes.content, numbers, memory).of_width(itemsize)
        # not after an error: another thread may still write there
        if not self._idle:  # one is enough: two states are seldom saved at the same time
            self._idle.append(memory)


_pool = _MemoryPool()


@dataclass(frozen=True)
class Collected:
    """The survivors of a delta, and the histogram of the bins that can be promoted.

    histogram: each bin in it is counted completely; its `code_of_bin` explains the survivors'
    codes. energy: the sum of squares of all elements, survivors or not.
    """

    segments: Segments
    survivors: Survivors
    histogram: Histogram
    energy: float

    def remainder(self, promotion: Promotion) -> Remainder:
        """What the step leaves."""
        return Remainder(self.energy, max(self.energy - promotion.gain, 0.0))

    def at_least(self, magnitude: int, most: int | None = None) -> Collected:
        """The elements of at least this magnitude (as bits), or the first ``most`` of them.

        They replace these survivors, whose memory they use.
        """
        s, code_of_bin = self.survivors, self.histogram.code_of_bin
        histogram, _, _ = _collect(self.segments, N_BINS, magnitude, code_of_bin, s)
        if most is not None:
            code_counts = s.keep_first(most, N_BINS)
            count = np.where(histogram.count > 0, code_counts[code_of_bin], 0)
            # The mean mantissa of a bin is exact: where only some members are kept, all are equal.
            mantissas = histogram.bins.mantissas * count // np.maximum(histogram.count, 1)
            bins = histogram.bins._replace(members=count, mantissas=mantissas)
            histogram = replace(histogram, bins=bins)
        return replace(self, histogram=histogram)


@contextmanager
def collected(segments: Segments, keep: int | None) -> Iterator[Collected]:
    """The survivors of sources - tracks, and the histogram of their largest buckets.

    keep: how many buckets; None for all.
    """
    most = N_BINS if keep is None else keep
    with _pool.borrow(segments.n, 1) as survivors:
        histogram, least, energy = _collect(segments, most, 1, FOLDED_BINS, survivors)
        fits = histogram.fits_a_byte
        if not fits:  # once more, without the small magnitudes
            histogram, least, energy = _collect(segments, most, least, FOLDED_BINS, survivors)
            fits = histogram.fits_a_byte
        if fits:
            yield Collected(segments, survivors, histogram.above(least), energy)
            return
    with _pool.borrow(segments.n, 2) as survivors:
        histogram, least, energy = _collect(segments, most, least, EXACT_BINS, survivors)
        yield Collected(segments, survivors, histogram.above(least), energy)


@contextmanager
def memory_for(n: int) -> Iterator[Survivors]:
    """Memory for the survivors of n elements, with codes of 2 bytes, or of 1: see `of_width`."""
    with _pool.borrow(n, 2) as survivors:
        yield survivors


@contextmanager
def packed(codes: Codes) -> Iterator[Survivors]:
    """Codes, one for each element, as survivors."""
    with _pool.borrow(codes.size, codes.itemsize) as survivors:
        _pack(codes, survivors)
        yield survivors


@twin_of(plain.pack)
def _pack(codes: Codes, s: Survivors) -> None:
    """See `plain.pack`."""

    def work(i: int, _scratch: workers.Scratch) -> None:
        kernel.pack(codes, pieces[i], s.marked)

    pieces = workers.pieces(s.units)
    workers.spread(work, len(pieces))


def _collect(
    segments: Segments, keep: int, least: int, code_of_bin: NDArray[np.uint16], s: Survivors
) -> tuple[Histogram, int, float]:
    bins, least, energy = _collected(segments, keep, least, code_of_bin, s)
    return Histogram(bins, code_of_bin), least, energy


@twin_of(plain.collect)
def _collected(
    segments: Segments, keep: int, least: int, code_of_bin: NDArray[np.uint16], s: Survivors
) -> tuple[Bins, int, float]:
    """See `plain.collect`. Some members of smaller bins survive, too, until they are settled."""
    tensors = segments.addresses
    if keep < N_BINS and s.units >= PROBED:
        with workers.scratch() as scratch:
            count = np.zeros(N_BINS, np.int64)
            least = max(least, int(kernel.probe(tensors, keep, scratch.delta, count)))
    pieces = workers.pieces(s.units, least=8)
    bins = [Bins.empty() for _ in pieces]
    threshold = np.uint32(least)
    reached = np.full(len(pieces), threshold)
    energy = np.zeros(s.units)

    def work(i: int, scratch: workers.Scratch) -> None:
        nonlocal threshold
        known = keep, threshold, code_of_bin, scratch.delta
        reached[i] = kernel.survivors(tensors, pieces[i], *known, s.marked, bins[i], energy)
        # A lower threshold from another piece does no harm. But below the highest threshold,
        # the bins are incomplete.
        threshold = max(threshold, reached[i])

    workers.spread(work, len(pieces))
    return Bins.joined(bins), int(reached.max(initial=least)), float(energy.sum())


def _are_dense(numbers: NDArray[np.int32]) -> bool:
    """Whether more than half of the elements of these units survive."""
    return int(numbers.sum(dtype=np.int64)) > numbers.size * (UNIT // 2)


def addresses_of(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.uint64]:
    """Where the data of each array begins: uint64 (arrays,)."""
    flat = [a if a.ndim == 1 else a.reshape(-1) for a in arrays]
    # The kernel is seven times as fast as numpy.
    address = instructions.address if takes_compiled() else _address
    return np.array(list(map(address, flat)), np.uint64)


def _address(array: NDArray[np.float32]) -> int:
    return array.ctypes.data
