"""A few numbers carried through the four stages, with all that a reader can check by hand.

Either they are all there is, as in the paper's example, or some weights of a run, whose buckets and
code words are those of the whole model.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import codec
from codec.scheme import huffman
from codec.state.tensors import Arrays

from .anatomy import Alphabet

MANTISSA_BITS, EXPONENT_BITS = 23, 8
BIAS = 127


@dataclass(frozen=True)
class Fields:
    """A float32 taken apart: (-1)**sign * mantissa * 2**exponent.

    sign: 0 or 1. exponent: -127 for zero and subnormals, whose mantissa is below 1 and counts
    2**-126. mantissa: 1 to 2. bits: the three fields as they stand in memory, highest bit first.
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


@dataclass(frozen=True, eq=False)
class Part:
    """What shares one code: the whole model, or one tensor.

    name: of the tensor, or "" for all. n: elements. buckets: with the levels that the bits give.
    """

    name: str
    n: int
    buckets: codec.Buckets
    bits: int | None

    @property
    def kept(self) -> int:
        """How many buckets are promoted."""
        return int(np.count_nonzero(self.buckets.level))

    @cached_property
    def levels(self) -> NDArray[np.float32]:
        """float32 (k,): what the codes stand for, zero first."""
        return self.buckets.levels

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """int64 (k,): occurrences of every code, that of zero first."""
        return self.buckets.counts(self.n)

    @cached_property
    def lengths(self) -> NDArray[np.uint8]:
        """uint8 (k,): bits of the Huffman words."""
        return huffman.code_lengths(self.counts)

    @cached_property
    def words(self) -> list[str]:
        """The Huffman words, "" for a symbol that does not occur, or is alone."""
        return huffman.code_words(self.lengths)

    @property
    def exponent_stage(self) -> NDArray[np.int64]:
        """int64 (b + 1,): the counts if every bucket were kept."""
        return self.buckets.keeping(None).counts(self.n)


@dataclass(frozen=True)
class Sizes:
    """Bits after each stage: as float32; E with an index of fixed length, and with Huffman words;
    P with x bits each; H; and the entropy that bounds H. Tables and levels are not counted."""

    float32: int
    e: int
    e_huffman: int
    p: int
    h: int
    entropy: float


@dataclass(frozen=True)
class Number:
    """One number on its way.

    track: what a restart had before. live: what was trained. delta: live - track, in float32.
    bucket: its index in the part's buckets, None for zero. after_e, after_p: what delta becomes.
    code: index into the part's levels, word: the Huffman word. rebuilt: track + after_p, float32.
    """

    name: str
    part: Part
    track: float
    live: float
    delta: float
    bucket: int | None
    after_e: float
    after_p: float
    code: int
    word: str
    rebuilt: float


@dataclass(frozen=True)
class Lesson:
    """The numbers, and the parts that they belong to."""

    numbers: tuple[Number, ...]
    parts: tuple[Part, ...]

    @property
    def sizes(self) -> Sizes:
        """Of all parts, in bits."""
        p = self.parts
        return Sizes(
            sum(32 * a.n for a in p),
            sum(a.n * _width(a.exponent_stage) for a in p),
            sum(_huffman_bits(a.exponent_stage) for a in p),
            sum(a.n * (_width(a.counts) if a.bits is None else a.bits) for a in p),
            sum(huffman.n_bits(a.counts, a.lengths) for a in p),
            sum(huffman.entropy(a.counts) for a in p),
        )


def lesson(
    track: Sequence[float],
    live: Sequence[float],
    tensors: Sequence[str],
    bits: int | None,
    scope: str,
) -> Lesson:
    """Numbers that are all there is.

    track, live: float32 values. tensors: whose they are, which matters with scope "tensor".
    Raises codec.SettingsError, codec.NonFiniteError.
    """
    before, after = (np.array(values, np.float32) for values in (track, live))
    with np.errstate(over="ignore", invalid="ignore"):
        delta = after - before
    groups = list(dict.fromkeys(tensors)) if scope == "tensor" else [""]
    parts = []
    for name in groups:
        own = delta[[not name or t == name for t in tensors]]
        buckets = codec.quantize(own, bits).buckets
        assert buckets is not None, "quantize knows its buckets"
        parts.append(Part(name, own.size, buckets, bits))
    names = string.ascii_lowercase[: delta.size]
    part_of = {part.name: part for part in parts}
    whose = [part_of[t if scope == "tensor" else ""] for t in tensors]
    return Lesson(_numbers(names, whose, before, after), tuple(parts))


def lesson_of_run(
    alphabets: Sequence[Alphabet],
    names: Sequence[str],
    tensors: Sequence[str],
    track: NDArray[np.float32],
    live: NDArray[np.float32],
    bits: int | None,
) -> Lesson:
    """Some weights of a run, with the buckets and the words of the whole model.

    alphabets: of the step's delta. names: of the weights. tensors: whose they are. track, live:
    float32 (n,), before the step and after training.
    """
    part_of: dict[str, Part] = {}
    for a in alphabets:
        name = "" if len(alphabets) == 1 else a.names[0]
        part = Part(name, a.n, a.buckets.promoted(bits), bits)
        part_of |= dict.fromkeys(a.names, part)
    whose = [part_of[t] for t in tensors]
    return Lesson(_numbers(names, whose, track, live), tuple(dict.fromkeys(part_of.values())))


def _numbers(
    names: Sequence[str],
    parts: Sequence[Part],
    track: NDArray[np.float32],
    live: NDArray[np.float32],
) -> tuple[Number, ...]:
    found = []
    for name, part, before, after in zip(names, parts, track, live, strict=True):
        delta = after - before
        i = bucket_of(part.buckets, float(delta))
        code = 0 if i is None else int(part.buckets.level[i])
        level = part.levels[code]
        found.append(
            Number(
                name,
                part,
                float(before),
                float(after),
                float(delta),
                i,
                0.0 if i is None else part.buckets[i].representative,
                float(level),
                code,
                part.words[code],
                float(before + level),
            )
        )
    return tuple(found)


def bucket_of(buckets: codec.Buckets, delta: float) -> int | None:
    """The index of the bucket that a change falls into, None for 0."""
    if delta == 0:
        return None
    own = fields(delta)
    here = (buckets.exponent == own.exponent) & (buckets.sign == own.sign)
    here &= (buckets.min <= np.float32(delta)) & (np.float32(delta) <= buckets.max)
    return int(np.flatnonzero(here)[0])


def _width(counts: NDArray[np.int64]) -> int:
    """Bits of a fixed-length index of the symbols that occur."""
    return math.ceil(math.log2(max(int((counts > 0).sum()), 1)))


def _huffman_bits(counts: NDArray[np.int64]) -> int:
    return huffman.n_bits(counts, huffman.code_lengths(counts))


@dataclass(frozen=True)
class Merge:
    """One step of Huffman's construction: the two rarest trees become one.

    rare, rarer: their numbers, symbols first: node k + i is the i-th merge's, of k symbols.
    count: of both together.
    """

    rare: int
    rarer: int
    count: int


def merges(counts: Sequence[int]) -> tuple[Merge, ...]:
    """How Huffman's tree grows from its leaves (Huffman, Proc. IRE 40(9), 1952).

    counts: occurrences of each symbol; one without any is left out. Of equally rare trees the one
    that was made first is taken first, a symbol before all merged ones and the larger symbol
    first: so no code word gets longer than it must, and the lengths are those of the codec.
    """
    k = len(counts)
    waiting = [(count, 0, -i, i) for i, count in enumerate(counts) if count > 0]
    found: list[Merge] = []
    while len(waiting) > 1:
        waiting.sort()
        (low, _, _, rarer), (high, _, _, rare), *waiting = waiting
        node = k + len(found)
        found.append(Merge(rare, rarer, low + high))
        waiting.append((low + high, 1, node, node))
    return tuple(found)


def spread(deltas: Arrays, n: int) -> list[tuple[str, int]]:
    """Some elements, few large and many small ones, so that every fate is among them.

    deltas: name -> float32. Returns (name, flat index), in the tensors' order: the elements whose
    ranks by magnitude stand at even ratios from the largest to the smallest.
    """
    names, sizes = list(deltas), [a.size for a in deltas.values()]
    whole = np.concatenate([np.abs(a).reshape(-1) for a in deltas.values()])
    n = min(n, whole.size)
    ranks = np.geomspace(1, whole.size, n).round().astype(np.int64) - 1
    ranks = np.maximum.accumulate(np.maximum(ranks, np.arange(n)))  # the first ones coincide
    chosen = np.sort(np.argsort(-whole, kind="stable")[ranks])
    begins = np.cumsum([0, *sizes])
    owner = np.searchsorted(begins, chosen, side="right") - 1
    return [(names[i], int(at - begins[i])) for i, at in zip(owner, chosen)]
