"""Uniform quantization with a dead zone: every level is a multiple of one step size.

A change v becomes q steps, q = sign(v) * floor(|v| / size + offset), and q * size stands for it.
Changes below (1 - offset) * size become 0. At equal entropy this leaves less error than levels that
double: see Sullivan, "Efficient Scalar Quantization of Exponential and Laplacian Random Variables",
IEEE Trans. Inf. Theory 42(5), 1996.

Codes rise with |q|: 0 is 0, then 1, -1, 2, -2, ... So a record holds the step size and the number
of codes in place of levels.

A budget and a tolerance choose the step size. A histogram of magnitudes estimates the entropy for
every size, so a budget needs few passes. A tolerance t limits the error: |track - u| <= t.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from codec.errors import SettingsError
from codec.lazy import lazy

from . import huffman, plain, workers
from .kernels import collect as kernel
from .limits import FINE_SHIFT, N_FINE, NON_FINITE_FIELD, UNIT
from .remainder import Remainder
from .survivors import Segments, Survivors, memory_for
from .twins import twin_of

OFFSET = 0.375  # with a budget: it left the smallest distance, over models and optimizers
# The offset with a tolerance: it minimizes the largest error. Also with a distance: with a smaller
# offset, all weights lag behind in the direction of the training, which costs more loss than errors
# of both signs.
NEAREST = 0.5
MAX_STEPS = 16_383  # limit of |q|: a decoder reads symbols of 15 bits
NARROW = 127  # limit of |q| for codes of one byte
SAMPLE = 2**18  # number of elements sampled from a larger delta for its magnitudes
MAX_STEPS_PLAIN = 2047  # limit of |q| with a code of single values: a table has at most 4,096 words
# In steps: |level - q * size|, and the rounding of u - track; 2**-9 each for q up to MAX_STEPS.
SLACK = 0.0025
# From this level on, its error may take a track near the largest float32 out of range.
OVERFLOWING = 2.0**102
SMALLEST_SIZE, LARGEST_SIZE = 2.0**-149, float(np.finfo(np.float32).max)
LARGEST_CHANGE = LARGEST_SIZE / 2  # a level may be larger than the change that it represents
LEAST_TOLERANCE, MOST_TOLERANCE = 2.0**-126, LARGEST_SIZE / 4


@dataclass(frozen=True)
class Magnitudes:
    """How large the changes of an alphabet are.

    count: int64 (N_FINE,), changes other than 0 by the fine bin of their magnitude. high: uint32
    (tensors,), the largest magnitude of each tensor as bits. n: sampled elements, unchanged ones
    included.
    """

    count: NDArray[np.int64]
    high: NDArray[np.uint32]
    n: int

    @property
    def largest(self) -> float:
        """The largest magnitude; 0.0 if nothing has changed."""
        return float(self.high.max(initial=0).astype(np.uint32).view(np.float32))

    def beyond(self, magnitude: float) -> NDArray[np.intp]:
        """The numbers of the tensors with a change that is larger than this or not finite."""
        return np.flatnonzero(~(self.high.view(np.float32) <= magnitude))

    @lazy
    def _below(self) -> NDArray[np.float64]:
        return np.concatenate(([0.0], np.cumsum(self.count, dtype=np.float64)))

    def at_least(self, magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Estimated number of changes with at least these magnitudes. float64 of any shape."""
        return self._below[-1] - np.interp(magnitudes, _EDGES, self._below)

    def entropy(self, size: float, offset: float) -> float:
        """Estimated bits per element: Shannon's bound for single values."""
        most = min(int(self.largest / size + offset) + 1, MAX_STEPS)
        reached = self.at_least((np.arange(1, most + 2, dtype=np.float64) - offset) * size)
        zeros = max(self.n - reached[0], 0.0)
        members = np.append(reached[:-1] - reached[1:], zeros)
        members = members[members > 0]
        bits = float(
            (members * huffman.log2(2 * self.n / members)).sum()
        )  # either sign is as likely
        return (bits - zeros) / max(self.n, 1)  # 0 has no sign

    def size_for(self, bits: float, offset: float, low: float, high: float) -> float:
        """The step size in [low, high] that takes about this many bits per element."""
        while high > low * 1.001:
            middle = np.sqrt(low) * np.sqrt(high)
            low, high = (low, middle) if self.entropy(middle, offset) <= bits else (middle, high)
        return float(high)

    def share_left(self, size: float, offset: float) -> float:
        """The estimated share of the sum of squares that steps of this size leave."""
        return _squares_left(*self._bins, size, offset) / max(self._energy, 1e-300)

    def size_leaving(self, share: float, offset: float, low: float, high: float) -> float:
        """The step size in [low, high] that leaves about this share of the sum of squares."""
        while high > low * 1.001:
            middle = np.sqrt(low) * np.sqrt(high)
            more = self.share_left(middle, offset) > share
            low, high = (low, middle) if more else (middle, high)
        return float(low)

    @lazy
    def _bins(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Lower and upper ends of the bins that have members, and their numbers of members."""
        bins = np.flatnonzero(self.count)
        return _EDGES[bins], _EDGES[bins + 1], self.count[bins]

    @lazy
    def _energy(self) -> float:
        """The estimated sum of squares, with magnitudes spread evenly in each bin."""
        low, high, count = self._bins
        return float((count * (low * low + low * high + high * high) / 3).sum())


def _edges() -> NDArray[np.float64]:
    """The rising lower ends of all fine bins, and the upper end of the last one."""
    finite = np.arange(NON_FINITE_FIELD << 6, dtype=np.uint32) << FINE_SHIFT
    edges = finite.view(np.float32).astype(np.float64)
    return np.append(edges, 2.0**128 * np.arange(1, N_FINE - finite.size + 2))


_EDGES = _edges()


def magnitudes_of(segments: Segments, *, sampled: bool = False) -> Magnitudes:
    """The magnitudes of sources - tracks. sampled: read only a sample of a large delta."""
    return Magnitudes(*_magnitudes(segments, max(segments.n // SAMPLE, 1) if sampled else 1))


@twin_of(plain.magnitudes)
def _magnitudes(
    segments: Segments, stride: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], int]:
    """See `plain.magnitudes`."""
    pieces = workers.pieces(-(-segments.n // UNIT), least=8)
    count = np.zeros((len(pieces), N_FINE), np.int64)
    high = np.zeros((len(pieces), len(segments.starts) - 1), np.uint32)
    read = np.zeros(len(pieces), np.int64)

    def work(i: int, scratch: workers.Scratch) -> None:
        found = scratch.delta, count[i], high[i]
        read[i] = kernel.magnitudes(segments.addresses, pieces[i], stride, *found)

    workers.spread(work, len(pieces))
    return count.sum(axis=0), high.max(axis=0, initial=0), int(read.sum())


@twin_of(plain.squares_left)
def _squares_left(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    count: NDArray[np.int64],
    size: float,
    offset: float,
) -> float:
    """See `plain.squares_left`."""
    return float(kernel.squares_left(low, high, count, size, offset))


@dataclass(frozen=True)
class Steps:
    """A delta in steps of one size.

    survivors: with their codes. counts: int64 (k,), how often each code occurs. levels: float32
    (k,). remainder: what the step leaves. beyond: how many changes are lost, because they are not
    finite or too large for any level.
    """

    survivors: Survivors
    counts: NDArray[np.int64]
    levels: NDArray[np.float32]
    remainder: Remainder
    beyond: int = 0

    def first(self, most: int) -> Steps:
        """The first ``most`` survivors only, in the memory of these survivors.

        The remainder is estimated as if all survivors reduced it equally.
        """
        n_survivors = self.survivors.n - int(self.counts[0])
        counts = self.survivors.keep_first(most, self.counts.size)
        share_dropped = 1 - counts.sum() / max(n_survivors, 1)
        gain = self.remainder.changed - self.remainder.left
        remainder = replace(self.remainder, left=self.remainder.left + share_dropped * gain)
        counts[0] = self.survivors.n - counts.sum()
        k = int(np.flatnonzero(counts)[-1]) + 1
        return Steps(self.survivors, counts[:k], self.levels[:k], remainder)


@dataclass(frozen=True)
class UniformQuantizer:
    """Quantizes sources - tracks in steps of any size.

    Each call replaces the survivors of the last call, whose memory it uses. offset: see the
    module. most: the limit of |q|. _wide: that memory, for codes of 2 bytes.
    """

    segments: Segments
    offset: float
    most: int
    _wide: Survivors

    def finest(self, largest: float) -> np.float32:
        """The smallest size for which q of the largest change does not exceed its limit."""
        size = max(np.float32(largest / (self.most + 1 - self.offset)), np.float32(SMALLEST_SIZE))
        if largest / float(size) + self.offset >= self.most + 1:  # it was rounded down
            size = np.nextafter(size, np.float32(np.inf))
        return size

    def fine(self, size: float, largest: float) -> Steps:
        """Quantize in steps of this size, or of the finest size that can express ``largest``."""
        return self(max(np.float32(size), self.finest(largest)), largest)

    def __call__(
        self, size: np.float32, largest: float, end: int | None = None, other: float = 0
    ) -> Steps:
        """Quantize in steps of this size.

        Args:
            size: The step size.
            largest: The largest magnitude that is expected.
            end: From this element on, only changes that would be a step of size ``other`` survive.
            other: A size larger than ``size``.
        """
        narrow = largest / float(size) + self.offset < NARROW
        end, other = (self.segments.n, float(size)) if end is None else (end, other)
        steps = self._quantized(size, NARROW if narrow else self.most, end, other)
        if steps.beyond and narrow and self.most > NARROW:
            steps = self._quantized(size, self.most, end, other)
        return steps

    def _quantized(self, size: np.float32, most: int, end: int, other: float) -> Steps:
        s = self._wide.of_width(1 if most <= NARROW else 2)
        thresholds = tuple(_first_step(1 / each, self.offset) for each in (float(size), other))
        step = float(size), self.offset
        counts, squares, left = _collected(self.segments, thresholds, end, step, most, s)
        beyond, counts[0] = int(counts[0]), 0
        counts[0] = s.n - counts.sum()
        codes_used = np.flatnonzero(counts)
        counts = counts[: int(codes_used[-1]) + 1 if codes_used.size else 1]
        levels = levels_of(size, counts.size)
        remainder = Remainder(float(squares.sum()), max(float(left.sum()), 0.0))
        return Steps(s, counts, levels, remainder, beyond + (not np.isfinite(levels[-1])))


@twin_of(plain.steps)
def _collected(
    segments: Segments,
    thresholds: tuple[np.uint32, ...],
    end: int,
    step: tuple[float, float],
    most: int,
    s: Survivors,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """See `plain.steps`."""
    pieces = workers.pieces(s.units, least=8)
    counts = np.zeros((len(pieces), 2 * most + 1), np.int64)
    squares = np.zeros((2, s.units))
    (size, offset), (least, least_behind) = step, thresholds
    own = kernel.Step(size, offset, least, least_behind, end)

    def work(i: int, scratch: workers.Scratch) -> None:
        found = scratch.delta, s.marked, counts[i], squares
        kernel.steps(segments.addresses, pieces[i], own, *found)

    workers.spread(work, len(pieces))
    return counts.sum(axis=0), squares[0], squares[1]


def largest_of(array: NDArray[np.float32]) -> float:
    """The largest magnitude of the finite values."""
    largest = np.maximum(array.max(initial=0), -array.min(initial=0))
    if not np.isfinite(largest):
        largest = np.abs(array, where=np.isfinite(array), out=np.zeros_like(array)).max(initial=0)
    return float(largest)


@contextmanager
def quantizer(segments: Segments, offset: float, most: int) -> Iterator[UniformQuantizer]:
    """A quantizer of sources - tracks."""
    with memory_for(segments.n) as survivors:
        yield UniformQuantizer(segments, offset, most, survivors)


def levels_of(size: np.float32 | float, k: int) -> NDArray[np.float32]:
    """float32 (k,): q * size for the codes 0 to k - 1, each product rounded once."""
    code = np.arange(k)
    q = np.where(code % 2, 1, -1) * ((code + 1) // 2)
    with np.errstate(over="ignore", invalid="ignore"):  # callers refuse infinite levels
        return (q * np.float64(np.float32(size))).astype(np.float32) + np.float32(0)


def size_within(tolerance: float, largest: float) -> np.float32:
    """The largest step size that keeps every value of the track within the tolerance.

    Rounding to the nearest level leaves half a step and SLACK. Adding the level to the track rounds
    to float32. This changes the track by at most half a unit in the last place of u and, as u is a
    float32 itself, by at most the error before rounding.

    Args:
        tolerance: Above 0.
        largest: The largest |u|.
    """
    end = np.float32(min(largest + tolerance, LARGEST_SIZE))
    place = float(np.spacing(end)) / 2
    size = max(tolerance - place, tolerance / 2) / (0.5 + SLACK)
    rounded = np.float32(size)
    return rounded if rounded <= size else np.nextafter(rounded, np.float32(0))


def check_tolerance(tolerance: float) -> float:
    """The tolerance as a float. Raises SettingsError unless it is above 0 and a normal float32."""
    numbers = int | float | np.integer | np.floating
    number = isinstance(tolerance, numbers) and not isinstance(tolerance, bool)
    plain = float(tolerance) if number and isinstance(tolerance, np.generic) else tolerance
    if not number or not LEAST_TOLERANCE <= plain <= MOST_TOLERANCE:
        raise SettingsError(
            f"tolerance is the largest error of a saved value, above 0, as 1e-4; got {tolerance!r}"
        )
    return float(tolerance)


def _first_step(per_step: float, offset: float) -> np.uint32:
    """The smallest magnitude, as bits, that is quantized to a step."""
    bits = int(np.float32((1 - offset) / per_step).view(np.uint32))
    while bits > 1 and _steps(bits - 1, per_step, offset) >= 1:
        bits -= 1
    while _steps(bits, per_step, offset) < 1:
        bits += 1
    return np.uint32(max(bits, 1))


def _steps(bits: int, per_step: float, offset: float) -> float:
    return float(np.uint32(bits).view(np.float32)) * per_step + offset
