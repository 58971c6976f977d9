"""The anatomy of one delta: its buckets, what each number of bits would keep and cost.

Most of it follows from one histogram of the delta, because promotion order does not depend on the
number of bits. Runs of zeros are not in a histogram: the size with run-length Huffman for another
number of bits is measured by encoding the codes of the exponent stage.
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
FIRST_WORDS = 64  # uint32 words of a payload that an `Alphabet` holds, for display
BucketKey = tuple[int, int]  # exponent and sign: the same bucket in every alphabet and step


@dataclass(frozen=True)
class Alphabet:
    """The part of a delta that shares one code: the whole model, or one tensor.

    names: of its tensors. n: number of elements. buckets: all, in promotion order, with the
    record's levels. In a record in uniform steps each level is a bucket of its own, in the order of
    the codes; the buckets of the changes that became 0 follow.

    energy: float64 (b,), sum of squares of each bucket's members.
    residual: float64 (b,), sum of squared distances to the representative.

    encoded: as in the record, but with the first FIRST_WORDS of the payload only. An arithmetic
    code is whole, because it can only be read as a whole. runlength_nbytes: bytes of the same
    symbols with a new table of run-length Huffman, or with an arithmetic code if that is shorter.
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
    def n_kept(self) -> int:
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

    def counts(self, n_kept: int) -> NDArray[np.int64]:
        """int64 (k,): occurrences of each code if ``n_kept`` buckets are kept; code 0 is zero."""
        return self.buckets.keeping(n_kept).counts(self.n)


@dataclass(frozen=True)
class BucketTotal:
    """Members of one exponent bucket over all alphabets. Some may keep it, others drop it."""

    exponent: int
    sign: int
    kept_members: int
    dropped_members: int


@dataclass(frozen=True)
class Promotion:
    """What one number of bits, or another target, keeps and costs.

    rule: x, None for every bucket; or settings with a budget or a tolerance. buckets_kept, buckets:
    kept and in all, summed over alphabets. energy_share: kept part of the delta's sum of squares.
    error: ||delta - quantized|| / ||delta||. sizes: with new code tables.
    """

    rule: int | Coding | None
    buckets_kept: int
    buckets: int
    energy_share: float
    error: float
    sizes: Sizes


def changes(state: Arrays, track: Arrays, step: codec.Delta) -> Arrays:
    """What a step encodes, name -> float32; without tensors stored exactly for NaN or infinity."""
    return {
        t.name: difference(state[t.name], track[t.name])
        for group in step.groups
        for t in group.tensors
    }


def dissect(deltas: Arrays, step: codec.Delta) -> tuple[tuple[Alphabet, ...], list[Codes]]:
    """Take one step apart.

    Args:
        deltas: From `changes`, name -> float32: the saved state minus the track before it.
        step: The step.

    Returns:
        Its alphabets, and for each its codes (n,) of the exponent stage alone. Each tensor of a
        batch counts as an alphabet of its own.
    """
    alphabets, codes = [], []
    for group in (g for batch in step.groups for g in apart(batch)):
        delta = np.concatenate([deltas[t.name].reshape(-1) for t in group.tensors])
        e = group.encoded
        all_buckets, exponent_codes, energy, residual = _buckets(delta, e)
        buckets = all_buckets.keeping(e.levels.size - 1)
        if step.coding.coder == "runlength":  # a reused table: add what a new one would take
            table_bits = e.saved_bits if e.cached else 8 * e.table_nbytes
            runlength = coded_nbytes(e.payload_bits + table_bits, 0, e.stored_levels.size)
        else:
            runlength = runlength_nbytes(exponent_codes, buckets, uniform=e.uniform)
        names = tuple(t.name for t in group.tensors)
        encoded = e if e.arithmetic else replace(e, payload=e.payload[:FIRST_WORDS].copy())
        alphabets.append(Alphabet(names, delta.size, buckets, energy, residual, encoded, runlength))
        codes.append(exponent_codes)
    return tuple(alphabets), codes


def _buckets(
    delta: NDArray[np.float32], e: codec.Encoded
) -> tuple[Buckets, Codes, NDArray[np.float64], NDArray[np.float64]]:
    """Every bucket of a delta, their codes (n,), energy and residual.

    A budget may keep only the largest members of the first buckets. Then these members and the
    others are separate rows, the kept ones first. For uniform steps see `Alphabet`.
    """
    if e.uniform:
        return _steps(delta, e)
    stage = codec.quantize(delta)
    assert stage.buckets is not None, "quantize knows its buckets"
    n_kept = e.levels.size - 1
    if (stage.buckets.first(n_kept).representative == e.levels[1:]).all():
        return stage.buckets, *stage.buckets.energies(delta)
    is_kept = codec.decode(e).codes.reshape(-1) > 0
    parts = [np.where(mask, delta, np.float32(0)) for mask in (is_kept, ~is_kept)]
    large, small = (codec.quantize(part).buckets for part in parts)
    assert large is not None
    assert small is not None
    columns = {
        f.name: np.concatenate((getattr(large, f.name), getattr(small, f.name)))
        for f in fields(Buckets)
    }
    large_codes, *large_sums = large.energies(parts[0])
    small_codes, *small_sums = small.energies(parts[1])
    codes = empty_codes(delta.size, 1 + len(large) + len(small))
    codes[...] = np.where(small_codes > 0, small_codes + np.uint16(len(large)), large_codes)
    energy, residual = (np.concatenate(sums) for sums in zip(large_sums, small_sums))
    return Buckets(**columns).keeping(None), codes, energy, residual


def _steps(
    delta: NDArray[np.float32], e: codec.Encoded
) -> tuple[Buckets, Codes, NDArray[np.float64], NDArray[np.float64]]:
    """`_buckets` of uniform steps."""
    codes, levels = codec.decode(e).codes.reshape(-1), e.levels.reshape(-1)
    zeroed = np.where(codes > 0, np.float32(0), delta)
    small = codec.quantize(zeroed).buckets
    assert small is not None
    small_codes, small_energy, small_residual = small.energies(zeroed)
    level_values = levels[1:]
    level_buckets = Buckets(
        exponent=np.frexp(np.abs(level_values))[1].astype(np.int16) - np.int16(1),
        sign=(level_values < 0).astype(np.uint8),
        min=level_values,
        max=level_values,
        count=np.bincount(codes, minlength=levels.size)[1:].astype(np.int64),
        level=np.arange(1, levels.size, dtype=np.uint16),
    )
    squared_errors = (delta.astype(np.float64) - levels[codes]) ** 2
    energy = np.bincount(codes, delta.astype(np.float64) ** 2, levels.size)[1:]
    residual = np.bincount(codes, squared_errors, levels.size)[1:]
    columns = {
        f.name: np.concatenate((getattr(level_buckets, f.name), getattr(small, f.name)))
        for f in fields(Buckets)
    }
    all_codes = empty_codes(delta.size, levels.size + len(small))
    all_codes[...] = codes
    is_zeroed = small_codes > 0
    all_codes[is_zeroed] = small_codes[is_zeroed].astype(np.uint16) + np.uint16(levels.size - 1)
    return (
        Buckets(**columns).keeping(None),
        all_codes,
        np.concatenate((energy, small_energy)),
        np.concatenate((residual, small_residual)),
    )


def n_kept(bits: int | None, n_buckets: int) -> int:
    """How many of n_buckets buckets x bits promote."""
    most = n_promoted(bits)
    return n_buckets if most is None else min(most, n_buckets)


def totals(alphabets: Sequence[Alphabet]) -> tuple[BucketTotal, ...]:
    """Buckets summed over alphabets, by falling exponent, positive before negative."""
    kept_members: Counter[BucketKey] = Counter()
    dropped_members: Counter[BucketKey] = Counter()
    for alphabet in alphabets:
        for b in alphabet.buckets:
            (kept_members if b.level else dropped_members)[-b.exponent, b.sign] += b.count
    keys = sorted(kept_members.keys() | dropped_members.keys())
    return tuple(BucketTotal(-k[0], k[1], kept_members[k], dropped_members[k]) for k in keys)


def promotions(
    alphabets: Sequence[Alphabet],
    codes: Sequence[Codes] | None = None,
    coding: Coding | None = None,
) -> tuple[Promotion, ...]:
    """What x = 1..8 and the exponent stage alone would keep and cost, for one delta.

    Args:
        alphabets: Of the delta.
        codes: Of the exponent stage, from `dissect`. Without them run-length sizes are known only
            for what the record itself keeps.
        coding: The record's settings. If they have a budget or a tolerance, what they kept is the
            last promotion, after those of x. A record in uniform steps has this one only.
    """
    energy = sum(float(a.energy.sum()) for a in alphabets)

    @cache
    def runlength(i: int, n: int) -> int | None:
        a = alphabets[i]
        if n == a.n_kept:
            return a.runlength_nbytes
        return None if codes is None else runlength_nbytes(codes[i], a.buckets.keeping(n))

    def promotion(rule: int | Coding | None, keep: Sequence[int]) -> Promotion:
        pairs = list(zip(alphabets, keep))
        runs = [runlength(i, n) for i, n in enumerate(keep)]
        known_sizes = [nbytes for nbytes in runs if nbytes is not None]
        kept_energy = sum(float(a.energy[:k].sum()) for a, k in pairs)
        lost = sum(float(a.residual[:k].sum() + a.energy[k:].sum()) for a, k in pairs)
        return Promotion(
            rule,
            sum(keep),
            sum(len(a.buckets) for a in alphabets),
            kept_energy / energy if energy else 1.0,
            float(np.sqrt(lost / energy)) if energy else 0.0,
            new_sizes(alphabets, keep, sum(known_sizes) if len(known_sizes) == len(runs) else None),
        )

    by_steps = any(a.uniform for a in alphabets)
    by_rule = [
        promotion(x, [n_kept(x, len(a.buckets)) for a in alphabets])
        for x in (() if by_steps else EVERY_BITS)
    ]
    if coding is not None and not coding.by_bits:
        by_rule.append(promotion(coding, [a.n_kept for a in alphabets]))
    return tuple(by_rule)


def record_sizes(alphabets: Sequence[Alphabet], coder: str) -> Sizes:
    """What the record's symbols took, and what they would take with the other coder.

    A table that the record reuses costs nothing; the other coder's is new.
    """
    record_nbytes = sum(a.nbytes for a in alphabets)
    runlength = sum(a.runlength_nbytes for a in alphabets)
    sizes = new_sizes(alphabets, [a.n_kept for a in alphabets], runlength)
    return replace(sizes, **{coder: record_nbytes})


def new_sizes(alphabets: Sequence[Alphabet], keep: Sequence[int], runlength: int | None) -> Sizes:
    """Sizes with new tables if the first keep[i] buckets of the i-th alphabet are kept.

    runlength: bytes with run-length Huffman, None if unknown.
    """
    counts = [a.counts(n) for a, n in zip(alphabets, keep)]
    return Sizes(
        runlength,
        sum(huffman_nbytes(c, 1 if a.uniform else None) for a, c in zip(alphabets, counts)),
        sum(huffman.entropy(c) for c in counts) / 8,
        sum(a.n for a in alphabets),
    )


def tables(alphabets: Iterable[Alphabet]) -> Tables:
    """How many code tables the alphabets needed, and how many of these were reused."""
    needed = [a for a in alphabets if a.table is not None]
    reused = [a for a in needed if a.cached]
    return Tables(len(needed), len(reused), sum(a.encoded.saved_bits for a in reused) / 8)
