"""Stages one and two of LC-Checkpoint: exponent buckets (E) and priority promotion (P).

A value v = (-1)^s * m * 2^e belongs to the bucket (e, s) and is represented by that bucket's
(min + max) / 2. The 2^x - 1 buckets of largest magnitude are promoted; every other value becomes 0.
(Chen, Liu, Ren, Jin: "On Efficient Constructions of Checkpoints", ICML 2020, section 3.)

The exponent of a value is read from its bits, see `plain.Bins`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import DTypeError, NonFiniteError, SettingsError

from . import plain
from .kernels import collect as kernel
from .limits import N_BINS
from .plain import Bins
from .twins import twin_of

Codes = NDArray[np.unsignedinteger[Any]]  # uint8, or uint16 beyond 256 levels

MAX_BITS = 8
EXPONENT_BIAS = 127
MANTISSA_BITS = 23
HUGE = 103 + 127  # the exponent field of 2**103, see `Histogram.n_huge`
NON_FINITE = 255  # the exponent field of NaN and infinity
FIELDS = np.arange(N_BINS) & 0xFF
EXACT_BINS = np.arange(N_BINS, dtype=np.uint16)


@dataclass(frozen=True)
class Bucket:
    """One exponent bucket: all values with the same exponent and sign.

    exponent: e of 2^e, -127 for subnormals (which share one bucket per sign). sign: 0 for
    positive, 1 for negative. min, max: smallest and largest member as signed float32
    values. count: members. level: index into the levels, 0 where the bucket was dropped.
    """

    exponent: int
    sign: int
    min: float
    max: float
    count: int
    level: int

    @property
    def representative(self) -> float:
        """(min + max) / 2, computed in float64 and rounded once to float32."""
        return float(np.float32((np.float64(self.min) + np.float64(self.max)) / 2))


@dataclass(frozen=True)
class Buckets:
    """All buckets of a delta as columns, in promotion order: largest magnitude first.

    exponent: int16 (b,). sign: uint8 (b,). min, max: float32 (b,). count: int64 (b,).
    level: uint16 (b,), 0 where dropped. Iterating or indexing gives `Bucket` rows.
    """

    exponent: NDArray[np.int16]
    sign: NDArray[np.uint8]
    min: NDArray[np.float32]
    max: NDArray[np.float32]
    count: NDArray[np.int64]
    level: NDArray[np.uint16]

    def __len__(self) -> int:
        return self.exponent.size

    def __getitem__(self, i: int) -> Bucket:
        return Bucket(*(column[i].item() for column in vars(self).values()))

    def __iter__(self) -> Iterator[Bucket]:
        return (self[i] for i in range(len(self)))

    @property
    def representative(self) -> NDArray[np.float32]:
        """float32 (b,): (min + max) / 2, computed in float64 and rounded once."""
        return ((self.min.astype(np.float64) + self.max) / 2).astype(np.float32)

    @property
    def bins(self) -> NDArray[np.int64]:
        """int64 (b,): sign << 8 | exponent field, the top nine bits of every member."""
        return self.sign.astype(np.int64) << 8 | (self.exponent + EXPONENT_BIAS)

    def energies(
        self, values: NDArray[np.float32]
    ) -> tuple[Codes, NDArray[np.float64], NDArray[np.float64]]:
        """Each bucket's part of the values' sum of squares, and its squared rounding errors.

        values: float32 (n,), the ones these buckets were counted on. Returns the codes of
        the exponent stage, (n,); energy, float64 (b,), the sum of squares of the members;
        and residual, float64 (b,), their sum of squared distances to the representative.
        """
        levels = self.keeping(None).levels
        code_of_bin = np.zeros(N_BINS, np.uint16)
        code_of_bin[self.bins] = np.arange(1, levels.size)
        codes = plain.codes_of(values.view(np.uint32), code_of_bin)
        codes = codes.astype(empty_codes(0, levels.size).dtype)
        squares = np.square(values, dtype=np.float64)
        errors = np.square(values - levels[codes].astype(np.float64))
        energy = np.bincount(codes, squares, levels.size).astype(np.float64)
        residual = np.bincount(codes, errors, levels.size).astype(np.float64)
        return codes, energy[1:], residual[1:]

    def promoted(self, bits: int | None) -> Buckets:
        """The same buckets with the levels that ``bits`` would give them.

        Promotion order does not depend on bits, so one histogram serves every x.
        Raises SettingsError if bits is not 1..8 or None.
        """
        return self.keeping(n_promoted(bits))

    def keeping(self, n: int | None) -> Buckets:
        """The same buckets with levels for the first n only, None for all."""
        level = np.arange(1, len(self) + 1, dtype=np.uint16)
        if n is not None:
            level[n:] = 0
        return replace(self, level=level)

    def first(self, n: int) -> Buckets:
        """The n largest buckets alone."""
        return Buckets(*(column[:n] for column in vars(self).values()))

    @property
    def levels(self) -> NDArray[np.float32]:
        """float32 (k,): zero, then the representatives of the buckets that have a level."""
        return np.concatenate((np.zeros(1, np.float32), self.representative[self.level > 0]))

    def counts(self, n: int) -> NDArray[np.int64]:
        """int64 (k,): how many of n elements have each code; dropped elements have code 0."""
        bucket_counts = self.count[self.level > 0]
        return np.concatenate(([n - bucket_counts.sum()], bucket_counts)).astype(np.int64)


@dataclass(frozen=True)
class Histogram:
    """The bins (sign << 8 | exponent field) of some values.

    code_of_bin: uint16 (512,), the code that a survivor of each bin has at first.
    """

    bins: Bins
    code_of_bin: NDArray[np.uint16]

    @property
    def count(self) -> NDArray[np.int64]:
        """int64 (512,): how many members each bin has."""
        return self.bins.members

    @property
    def fits_a_byte(self) -> bool:
        """True if at most 255 bins have members, and no two of them fold to the same byte."""
        bins = np.flatnonzero(self.count)
        fields = FIELDS[bins]
        return bins.size == 0 or (bins.size < 256 and fields.max() - fields.min() < 128)

    @property
    def n_non_finite(self) -> int:
        """How many values are NaN or infinite."""
        return int(self.count[[NON_FINITE, NON_FINITE | 256]].sum())

    @property
    def n_huge(self) -> int:
        """How many values are 2**103 or more, NaN and infinity included.

        2**103 is half an ulp of the largest float: adding another value of the same bin to a track
        could overflow.
        """
        return int(self.count.reshape(2, -1)[:, HUGE:].sum())

    def above(self, magnitude: int) -> Histogram:
        """The histogram without the bins of smaller exponent than a magnitude, given as bits."""
        count = self.count.copy()
        count.reshape(2, -1)[:, : magnitude >> MANTISSA_BITS] = 0
        return Histogram(self.bins._replace(members=count), self.code_of_bin)

    def buckets(self) -> Buckets:
        """Every bin that has members, in promotion order, all with a level."""
        bins = np.flatnonzero(self.count)
        sign, field = bins >> 8, bins & 0xFF
        smallest = self.bins.low[bins].view(np.float32)
        largest = self.bins.high[bins].view(np.float32)
        middle = (smallest.astype(np.float64) + largest) / 2
        order = np.lexsort((sign, -middle, -field))  # last key sorts first
        bins, sign, smallest, largest = bins[order], sign[order], smallest[order], largest[order]
        negative = sign == 1
        return Buckets(
            exponent=(field[order] - EXPONENT_BIAS).astype(np.int16),
            sign=sign.astype(np.uint8),
            min=np.where(negative, -largest, smallest).astype(np.float32),
            max=np.where(negative, -smallest, largest).astype(np.float32),
            count=self.count[bins],
            level=np.arange(1, bins.size + 1, dtype=np.uint16),
        )

    def promote(self, keep: int | None, n: int) -> Promotion:
        """Promote the largest buckets.

        Args:
            keep: How many buckets; None for all.
            n: How many elements were counted, those in no bucket included.
        """
        most = N_BINS if keep is None else min(keep, N_BINS)
        new_code, levels, gain = _promoted(self.bins, most)
        promoted = np.flatnonzero(new_code)
        counts = np.zeros(levels.size, np.int64)
        counts[new_code[promoted]] = self.count[promoted]
        counts[0] = n - counts.sum()
        final = np.zeros(N_BINS, np.uint16)
        final[self.code_of_bin[promoted]] = new_code[promoted]
        return Promotion(levels, counts, final, gain)


@twin_of(plain.promote)
def _promoted(bins: Bins, keep: int) -> tuple[NDArray[np.uint16], NDArray[np.float32], float]:
    """See `plain.promote`."""
    levels, code_of_bin = np.zeros(keep + 1, np.float32), np.zeros(N_BINS, np.uint16)
    k, gain = kernel.promote(bins, keep, code_of_bin, levels)
    return code_of_bin, levels[: k + 1], gain


@dataclass(frozen=True)
class Promotion:
    """The promoted buckets of a histogram, as codes.

    Attributes:
        levels: float32 (k,): 0, then a level for each bucket, the largest magnitude first.
        counts: int64 (k,): how many elements have each code.
        final: uint16 (512,): maps the code that `Histogram.code_of_bin` gives to the code here.
        gain: How much smaller ||u - track||^2 gets when each member of a bucket moves by its level.
    """

    levels: NDArray[np.float32]
    counts: NDArray[np.int64]
    final: NDArray[np.uint16]
    gain: float


@dataclass(frozen=True)
class Quantized:
    """A quantized delta.

    Attributes:
        codes: uint8 (uint16 beyond 256 levels), shape (n,), indices into levels.
        levels: float32, shape (k,), levels[0] == 0.0, then by falling magnitude.
        shape: That of the delta; n is its product.
        bits: The x of priority promotion, None for the exponent stage alone.
        buckets: Every bucket, dropped ones too; None if `decode` made this.
        uniform: Whether the levels are multiples of one step size, see `uniform`.
    """

    codes: Codes
    levels: NDArray[np.float32]
    shape: tuple[int, ...]
    bits: int | None
    buckets: Buckets | None
    uniform: bool = False

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 (k,): how many elements have each code."""
        if self.buckets is None:
            return np.bincount(self.codes, minlength=self.levels.size).astype(np.int64)
        return self.buckets.counts(self.codes.size)


def empty_codes(n: int, n_levels: int) -> Codes:
    """An array for n codes, not filled: uint8, or uint16 for more than 256 levels."""
    return np.empty(n, np.uint8 if n_levels <= 256 else np.uint16)


def n_promoted(bits: int | None) -> int | None:
    """How many buckets priority promotion with x bits keeps at most: 2^x - 1, None for all.

    Raises SettingsError if bits is not 1..8 or None.
    """
    bits = check_bits(bits)
    return None if bits is None else 2**bits - 1


def check_bits(bits: int | None) -> int | None:
    """bits as a Python int (2 ** np.int8(8) would wrap around), or None.

    Raises SettingsError unless bits is None or an integer from 1 to 8.
    """
    if bits is None:
        return None
    whole = isinstance(bits, int | np.integer) and not isinstance(bits, bool)
    if not whole or not 1 <= bits <= MAX_BITS:
        raise SettingsError(f"bits must be an integer from 1 to {MAX_BITS}, or None; got {bits!r}")
    return int(bits)


def quantize(delta: NDArray[np.floating], bits: int | None = None) -> Quantized:
    """Exponent-based quantization, then priority promotion with ``bits`` bits.

    Levels are ordered by falling exponent, then by falling |(min + max) / 2|; on a tie the positive
    bucket comes first.

    Args:
        delta: float16, float32 or float64 of any shape, taken as float32.
        bits: 1 to 8 keeps at most 2^bits - 1 buckets; None keeps all (the exponent stage alone).

    Raises:
        DTypeError: The delta has another dtype.
        NonFiniteError: It holds NaN, infinity or a float64 beyond float32's range.
        SettingsError: bits is out of range.
    """
    bits = check_bits(bits)
    delta = np.asarray(delta)
    if delta.dtype.newbyteorder("=") not in (np.float16, np.float32, np.float64):
        raise DTypeError(f"a delta must be float16, float32 or float64, not {delta.dtype}")
    with np.errstate(all="ignore"):  # values that become infinite are reported below
        flat = np.ascontiguousarray(delta, dtype=np.float32).reshape(-1)
    words = flat.view(np.uint32)
    histogram = Histogram(Bins.of(words), EXACT_BINS)
    if histogram.n_non_finite:
        raise NonFiniteError(
            f"{histogram.n_non_finite} of {words.size} values are NaN, infinite or beyond "
            "float32's range; a tracker stores such a tensor exactly for that step"
        )
    buckets = histogram.buckets().promoted(bits)
    promotion = histogram.promote(n_promoted(bits), flat.size)
    codes = plain.codes_of(words, promotion.final)
    codes = codes.astype(empty_codes(0, promotion.levels.size).dtype)
    return Quantized(codes, promotion.levels, delta.shape, bits, buckets)


def dequantize(q: Quantized) -> NDArray[np.float32]:
    """levels[codes] as float32, in the shape of the delta."""
    return q.levels[q.codes].reshape(q.shape)
