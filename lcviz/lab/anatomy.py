"""The anatomy of one delta: its buckets, what each number of bits would keep and cost.

Most of it follows from one histogram of the delta, because promotion order does not depend on the
number of bits. Runs of zeros are not in a histogram: the size with run-length Huffman for another
number of bits takes the codes of the exponent stage, and encoding them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Coding
from codec.inspect import (
    Arrays,
    Buckets,
    Codes,
    CodeTable,
    difference,
    empty_codes,
    huffman,
    n_promoted,
)

from .batches import apart
from .sizes import Sizes, Tables, coded_nbytes, huffman_nbytes, runlength_nbytes

EVERY_BITS = (*range(1, 9), None)  # x of priority promotion; None: the exponent stage alone
FIRST_WORDS = 64  # uint32 words of a payload that an alphabet keeps, to show
BucketKey = tuple[int, int]  # exponent and sign: the same bucket in every alphabet and step


@dataclass(frozen=True)
class Alphabet:
    """The part of a delta that shares one code: the whole model, or one tensor.

    names: its tensors. n: elements. buckets: all of them, in promotion order, with the
    levels that the record has. Of a record in uniform steps each level is a bucket of its own, in
    the order of their codes; then come the buckets of the changes that became 0.

    energy: float64 (b,), sum of squares of each bucket's members.
    residual: float64 (b,), sum of squared distances to the representative.

    encoded: as in the record, but of code words only the FIRST_WORDS of the payload; an arithmetic
    code is whole, because it can only be read as a whole. runlength_nbytes: bytes of the same
    symbols with run-length Huffman, or an arithmetic code if that is shorter, and a new table.
    """

    names: tuple[str, ...]
    n: int
    buckets: Buckets
    energy: NDArray[np.float64]
    residual: NDArray[np.float64]
    encoded: codec.Encoded
    runlength_nbytes: int

    @property
    def table(self) -> CodeTable | None:
        """The record's code; None if no bits were needed."""
        return self.encoded.table

    @property
    def cached(self) -> bool:
        """Whether the record reuses the last table."""
        return self.encoded.cached

    @property
    def kept(self) -> int:
        """How many buckets the record keeps."""
        return int(np.count_nonzero(self.buckets.level))

    @property
    def table_nbytes(self) -> int:
        """Bytes of the record's table: 0 if the last one is reused."""
        return self.encoded.table_nbytes

    @property
    def uniform(self) -> bool:
        """Whether the record's levels are multiples of one step size."""
        return self.encoded.uniform

    @property
    def nbytes(self) -> int:
        """Bytes of the record's code words, table and levels."""
        levels = self.encoded.stored_levels.size
        return coded_nbytes(self.encoded.payload_bits, self.table_nbytes, levels)

    def counts(self, kept: int) -> NDArray[np.int64]:
        """int64 (k,): occurrences of each code with ``kept`` buckets; code 0 is zero."""
        return self.buckets.keeping(kept).counts(self.n)


@dataclass(frozen=True)
class BucketTotal:
    """One exponent bucket over all alphabets: in some it may be kept, in others dropped."""

    exponent: int
    sign: int
    kept: int
    dropped: int


@dataclass(frozen=True)
class Promotion:
    """What one number of bits, or another target, keeps and costs.

    kept: x, None for every bucket; or settings with a budget or a tolerance. buckets_kept of
    buckets: summed over alphabets. energy_share: kept part of the delta's sum of squares. error:
    ||delta - quantized|| / ||delta||. sizes: with new code tables.
    """

    kept: int | Coding | None
    buckets_kept: int
    buckets: int
    energy_share: float
    error: float
    sizes: Sizes


def changes(state: Arrays, track: Arrays, step: codec.Delta) -> Arrays:
    """Name -> float32, what a step encodes; without tensors stored exactly for NaN or infinity."""
    return {
        t.name: difference(state[t.name], track[t.name])
        for group in step.groups
        for t in group.tensors
    }


def dissect(deltas: Arrays, step: codec.Delta) -> tuple[tuple[Alphabet, ...], list[Codes]]:
    """Take one step apart.

    Args:
        deltas: name -> float32, from `changes`: the saved state less the track before it.
        step: the step.

    Returns:
        Its alphabets, and their codes of the exponent stage alone, each (n,). Each tensor of a
        batch counts as an alphabet that is coded alone.
    """
    alphabets, codes = [], []
    for group in (g for together in step.groups for g in apart(together)):
        delta = np.concatenate([deltas[t.name].reshape(-1) for t in group.tensors])
        e = group.encoded
        every, own, energy, residual = _buckets(delta, e)
        buckets = every.keeping(e.levels.size - 1)
        if step.coding.coder == "runlength":  # a new table would take what the last one saved
            new = e.saved_bits if e.cached else 8 * e.table_nbytes
            runlength = coded_nbytes(e.payload_bits + new, 0, e.stored_levels.size)
        else:
            runlength = runlength_nbytes(own, buckets, uniform=e.uniform)
        names = tuple(t.name for t in group.tensors)
        start = e if e.arithmetic else replace(e, payload=e.payload[:FIRST_WORDS].copy())
        alphabets.append(Alphabet(names, delta.size, buckets, energy, residual, start, runlength))
        codes.append(own)
    return tuple(alphabets), codes


def _buckets(
    delta: NDArray[np.float32], e: codec.Encoded
) -> tuple[Buckets, Codes, NDArray[np.float64], NDArray[np.float64]]:
    """Every bucket of a delta, their codes (n,), energy and residual.

    A budget may keep only the largest members of the first buckets. These and the remaining
    members are separate rows then, in this order. For uniform steps see `Alphabet`.
    """
    if e.uniform:
        return _steps(delta, e)
    stage = codec.quantize(delta)
    assert stage.buckets is not None, "quantize knows its buckets"
    kept = e.levels.size - 1
    if (stage.buckets.first(kept).representative == e.levels[1:]).all():
        return stage.buckets, *stage.buckets.energies(delta)
    part = codec.decode(e).codes.reshape(-1) > 0
    sides = [np.where(side, delta, np.float32(0)) for side in (part, ~part)]
    large, small = (codec.quantize(side).buckets for side in sides)
    assert large is not None
    assert small is not None
    columns = {
        f.name: np.concatenate((getattr(large, f.name), getattr(small, f.name)))
        for f in fields(Buckets)
    }
    (mine, *one), (rest, *other) = large.energies(sides[0]), small.energies(sides[1])
    codes = empty_codes(delta.size, 1 + len(large) + len(small))
    codes[...] = np.where(rest > 0, rest + np.uint16(len(large)), mine)
    energy, residual = (np.concatenate(pair) for pair in zip(one, other))
    return Buckets(**columns).keeping(None), codes, energy, residual


def _steps(
    delta: NDArray[np.float32], e: codec.Encoded
) -> tuple[Buckets, Codes, NDArray[np.float64], NDArray[np.float64]]:
    """`_buckets` of uniform steps."""
    codes, levels = codec.decode(e).codes.reshape(-1), e.levels.reshape(-1)
    rest = np.where(codes > 0, np.float32(0), delta)
    small = codec.quantize(rest).buckets
    assert small is not None
    small_codes, small_energy, small_residual = small.energies(rest)
    own = levels[1:]
    kept = Buckets(
        exponent=np.frexp(np.abs(own))[1].astype(np.int16) - np.int16(1),
        sign=(own < 0).astype(np.uint8),
        min=own,
        max=own,
        count=np.bincount(codes, minlength=levels.size)[1:].astype(np.int64),
        level=np.arange(1, levels.size, dtype=np.uint16),
    )
    off = (delta.astype(np.float64) - levels[codes]) ** 2
    energy = np.bincount(codes, delta.astype(np.float64) ** 2, levels.size)[1:]
    residual = np.bincount(codes, off, levels.size)[1:]
    columns = {
        f.name: np.concatenate((getattr(kept, f.name), getattr(small, f.name)))
        for f in fields(Buckets)
    }
    every = empty_codes(delta.size, levels.size + len(small))
    every[...] = codes
    dropped = small_codes > 0
    every[dropped] = small_codes[dropped].astype(np.uint16) + np.uint16(levels.size - 1)
    return (
        Buckets(**columns).keeping(None),
        every,
        np.concatenate((energy, small_energy)),
        np.concatenate((residual, small_residual)),
    )


def n_kept(bits: int | None, n_buckets: int) -> int:
    """How many of so many buckets x bits promote."""
    most = n_promoted(bits)
    return n_buckets if most is None else min(most, n_buckets)


def totals(alphabets: Sequence[Alphabet]) -> tuple[BucketTotal, ...]:
    """Buckets summed over alphabets, by falling exponent, positive before negative."""
    kept: Counter[BucketKey] = Counter()
    dropped: Counter[BucketKey] = Counter()
    for alphabet in alphabets:
        for b in alphabet.buckets:
            (kept if b.level else dropped)[-b.exponent, b.sign] += b.count
    keys = sorted(kept.keys() | dropped.keys())
    return tuple(BucketTotal(-key[0], key[1], kept[key], dropped[key]) for key in keys)


def promotions(
    alphabets: Sequence[Alphabet],
    codes: Sequence[Codes] | None = None,
    own: Coding | None = None,
) -> tuple[Promotion, ...]:
    """What x = 1..8 and the exponent stage alone would keep and cost, for one delta.

    Args:
        alphabets: of the delta.
        codes: of the exponent stage, from `dissect`. Without them run-length sizes are known only
            for what the record itself keeps.
        own: the record's settings. With a budget or a tolerance what they kept is one more, the
            last promotion. It is the only one of a record in uniform steps: no x promotes these.
    """
    energy = sum(float(a.energy.sum()) for a in alphabets)

    @cache
    def runlength(i: int, kept: int) -> int | None:
        a = alphabets[i]
        if kept == a.kept:
            return a.runlength_nbytes
        return None if codes is None else runlength_nbytes(codes[i], a.buckets.keeping(kept))

    def promotion(kept: int | Coding | None, keep: Sequence[int]) -> Promotion:
        pairs = list(zip(alphabets, keep))
        runs = [runlength(i, kept) for i, kept in enumerate(keep)]
        known = [nbytes for nbytes in runs if nbytes is not None]
        held = sum(float(a.energy[:k].sum()) for a, k in pairs)
        lost = sum(float(a.residual[:k].sum() + a.energy[k:].sum()) for a, k in pairs)
        return Promotion(
            kept,
            sum(keep),
            sum(len(a.buckets) for a in alphabets),
            held / energy if energy else 1.0,
            float(np.sqrt(lost / energy)) if energy else 0.0,
            new_sizes(alphabets, keep, sum(known) if len(known) == len(runs) else None),
        )

    by_steps = any(a.uniform for a in alphabets)
    found = [
        promotion(x, [n_kept(x, len(a.buckets)) for a in alphabets])
        for x in (() if by_steps else EVERY_BITS)
    ]
    if own is not None and not own.by_bits:
        found.append(promotion(own, [a.kept for a in alphabets]))
    return tuple(found)


def record_sizes(alphabets: Sequence[Alphabet], coder: str) -> Sizes:
    """What the record's symbols took, and what the other coder would have made of them.

    A reused table cost the record nothing; the other coder's is new.
    """
    own = sum(a.nbytes for a in alphabets)
    runlength = sum(a.runlength_nbytes for a in alphabets)
    sizes = new_sizes(alphabets, [a.kept for a in alphabets], runlength)
    return replace(sizes, **{coder: own})


def new_sizes(alphabets: Sequence[Alphabet], keep: Sequence[int], runlength: int | None) -> Sizes:
    """Sizes with new tables if so many buckets of each alphabet are kept.

    runlength: bytes with run-length Huffman, None if they are not known.
    """
    counts = [a.counts(kept) for a, kept in zip(alphabets, keep)]
    return Sizes(
        runlength,
        sum(huffman_nbytes(c, 1 if a.uniform else None) for a, c in zip(alphabets, counts)),
        sum(huffman.entropy(c) for c in counts) / 8,
        sum(a.n for a in alphabets),
    )


def tables(alphabets: Iterable[Alphabet]) -> Tables:
    """How many code tables these needed, and how many of them were reused."""
    needed = [a for a in alphabets if a.table is not None]
    reused = [a for a in needed if a.cached]
    return Tables(len(needed), len(reused), sum(a.encoded.saved_bits for a in reused) / 8)
