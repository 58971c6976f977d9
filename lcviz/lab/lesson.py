"""A few numbers in all four stages, for a reader to check by hand, as in the paper's example."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import codec
from codec.inspect import Arrays, Buckets, huffman

from .follow_weight import Weight

MANTISSA_BITS, EXPONENT_BITS = 23, 8
BIAS = 127


@dataclass(frozen=True)
class Fields:
    """A float32 taken apart: (-1)**sign * mantissa * 2**exponent.

    sign: 0 or 1. exponent: -127 for zero and subnormals, whose mantissa is below 1 and counts
    2**-126. mantissa: 1 to 2. bits: the three fields as in memory, highest bit first.
    """

    sign: int
    exponent: int
    mantissa: float
    bits: tuple[str, str, str]


def fields(value: float) -> Fields:
    """The fields of a number, rounded to float32 first."""
    whole = int(np.float32(value).view(np.uint32))
    text = f"{whole:032b}"
    bits = text[0], text[1 : 1 + EXPONENT_BITS], text[1 + EXPONENT_BITS :]
    field, fraction = int(bits[1], 2), int(bits[2], 2) / 2**MANTISSA_BITS
    return Fields(int(bits[0]), field - BIAS, fraction + (field > 0), bits)


@dataclass(frozen=True)
class Number:
    """One number in every stage.

    track: its value in the track. live: in the model. delta: live - track, in float32. bits: of
    delta, see `Fields`. bucket: index into the lesson's buckets, None for zero. middle, written:
    what E, and then P, makes of delta. code: index into the levels. rebuilt: track + written,
    float32.
    """

    track: float
    live: float
    delta: float
    bits: list[str]
    bucket: int | None
    middle: float
    written: float
    code: int
    rebuilt: float


@dataclass(frozen=True, eq=False)
class Lesson:
    """The numbers, and the code that they share.

    buckets: with their levels. x: bits of priority promotion, None for all buckets.
    """

    numbers: tuple[Number, ...]
    buckets: Buckets
    x: int | None

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 (k,): occurrences of each code, zero first."""
        return self.buckets.counts(len(self.numbers))

    @property
    def stage_bits(self) -> dict[str, int]:
        """Bits of the numbers as float32 and after each stage, without tables and levels.

        e: E with an index of fixed length. p: P with x bits for each number. h: H.
        """
        n, counts = len(self.numbers), self.counts
        return {
            "float32": 32 * n,
            "e": n * _width(self.buckets.keeping(None).counts(n)),
            "p": n * (_width(counts) if self.x is None else self.x),
            "h": huffman.n_bits(counts, huffman.code_lengths(counts)),
        }


def lesson(track: Sequence[float], live: Sequence[float], bits: int | None) -> Lesson:
    """Take a few numbers through the stages, as one tensor.

    Args:
        track, live: float32 values.
        bits: x of priority promotion; None keeps every bucket.

    Raises:
        codec.SettingsError, NonFiniteError: as `codec.quantize`.
    """
    before, after = (np.array(values, np.float32) for values in (track, live))
    with np.errstate(over="ignore", invalid="ignore"):
        delta = after - before
    buckets = codec.quantize(delta, bits).buckets
    assert buckets is not None, "quantize knows its buckets"
    numbers = (_number(buckets, *pair) for pair in zip(before, after, strict=True))
    return Lesson(tuple(numbers), buckets, bits)


def _number(buckets: Buckets, track: np.float32, live: np.float32) -> Number:
    delta = live - track
    parts, i = fields(float(delta)), None
    if delta:
        is_bucket = (buckets.exponent == parts.exponent) & (buckets.sign == parts.sign)
        is_bucket &= (buckets.min <= delta) & (delta <= buckets.max)
        i = int(np.flatnonzero(is_bucket)[0])
    code = 0 if i is None else int(buckets.level[i])
    middle = 0.0 if i is None else buckets[i].representative
    written = buckets.levels[code]
    rebuilt = float(track + written)
    return Number(
        float(track),
        float(live),
        float(delta),
        list(parts.bits),
        i,
        middle,
        float(written),
        code,
        rebuilt,
    )


def _width(counts: NDArray[np.int64]) -> int:
    """Bits of a fixed-length index of the symbols that occur."""
    return math.ceil(math.log2(max(int((counts > 0).sum()), 1)))


@dataclass(frozen=True)
class Merge:
    """One step of Huffman's construction: the two rarest trees become one.

    rare, rarer: the nodes of the two trees. With k symbols, nodes 0 to k - 1 are the symbols and
    node k + i comes from the i-th merge. count: the sum of both.
    """

    rare: int
    rarer: int
    count: int


def huffman_merges(counts: Sequence[int]) -> tuple[Merge, ...]:
    """How Huffman's tree grows from its leaves (Huffman, Proc. IRE 40(9), 1952).

    Of equally rare trees, symbols are merged before nodes, larger symbols before smaller ones, and
    older nodes before newer ones. This keeps the longest code word short, as in the codec.

    counts: occurrences of each symbol; symbols that do not occur are left out.
    """
    k = len(counts)
    waiting = [(count, 0, -i, i) for i, count in enumerate(counts) if count > 0]
    merges: list[Merge] = []
    while len(waiting) > 1:
        waiting.sort()
        (low, _, _, rarer), (high, _, _, rare), *waiting = waiting
        node = k + len(merges)
        merges.append(Merge(rare, rarer, low + high))
        waiting.append((low + high, 1, node, node))
    return tuple(merges)


def pick_weights(deltas: Arrays, n: int) -> list[Weight]:
    """Pick few large and many small elements: some that are kept and some that are dropped.

    Args:
        deltas: Name -> float32.
        n: Number of elements, at most.

    Returns:
        The weights, in the tensors' order. Their ranks by magnitude grow
        geometrically from the largest to the smallest element.
    """
    names, sizes = list(deltas), [a.size for a in deltas.values()]
    whole = np.concatenate([np.abs(a).reshape(-1) for a in deltas.values()])
    n = min(n, whole.size)
    ranks = np.geomspace(1, whole.size, n).round().astype(np.int64) - 1
    ranks = np.maximum.accumulate(np.maximum(ranks, np.arange(n)))  # the first ones coincide
    chosen = np.sort(np.argsort(-whole, kind="stable")[ranks])
    begins = np.cumsum([0, *sizes])
    owner = np.searchsorted(begins, chosen, side="right") - 1
    return [Weight(names[i], int(at - begins[i])) for i, at in zip(owner, chosen)]
