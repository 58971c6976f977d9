"""The anatomy of one delta: its buckets, what each choice of bits would keep and cost.

Most of it follows from one histogram of the delta, because promotion order does not depend on
the number of bits. Only runs of zeros are not in a histogram: what run-length Huffman makes of
another number of bits takes the codes of the exponent stage, and encoding them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
from numpy.typing import NDArray

import codec
from codec.scheme import huffman
from codec.scheme.quantize import Codes, empty_codes, n_promoted
from codec.scheme.tables import CodeTable
from codec.scheme.track import difference
from codec.state.tensors import Arrays

from .sizes import Sizes, Tables, coded_nbytes, huffman_nbytes, runlength_nbytes

EVERY_BITS = (*range(1, 9), None)  # x of priority promotion; None: the exponent stage alone
BucketKey = tuple[int, int]  # exponent and sign: the same bucket in every alphabet and step


@dataclass(frozen=True)
class Alphabet:
    """The part of a delta that shares one code: the whole model, or one tensor.

    names: its tensors. n: elements. buckets: all of them, in promotion order, with the
    levels that the record has. energy: float64 (b,), sum of squares of each bucket's members.
    residual: float64 (b,), sum of squared distances to the representative.

    Of the record: table, the code it was written with, None if no bits were needed. cached:
    that table was the one sent last. saved_bits: what a new one would have cost more.
    word_bits: bits of all code words. stream_elements: elements of each of its streams.
    runlength_nbytes: bytes of the same symbols with run-length Huffman and a new table.
    """

    names: tuple[str, ...]
    n: int
    buckets: codec.Buckets
    energy: NDArray[np.float64]
    residual: NDArray[np.float64]
    table: CodeTable | None
    cached: bool
    saved_bits: int
    word_bits: int
    stream_elements: int
    runlength_nbytes: int

    @property
    def kept(self) -> int:
        """How many buckets the record keeps."""
        return int(np.count_nonzero(self.buckets.level))

    @property
    def table_nbytes(self) -> int:
        """Bytes of the record's table: 0 if it is the one sent last."""
        return 0 if self.table is None or self.cached else self.table.packed.size

    @property
    def nbytes(self) -> int:
        """What the record's code words, table and levels take."""
        return coded_nbytes(self.word_bits, self.table_nbytes, self.kept)

    def counts(self, kept: int) -> NDArray[np.int64]:
        """int64 (k,): occurrences of each code if ``kept`` buckets were; code 0 is zero."""
        return self.buckets.keeping(kept).counts(self.n)


@dataclass(frozen=True)
class BucketTotal:
    """One exponent bucket over all alphabets: in some it may be kept, in others dropped."""

    exponent: int
    sign: int
    kept: int
    dropped: int


@dataclass(frozen=True)
class Choice:
    """What one number of bits, or a budget, keeps and costs.

    bits: x, None for every bucket. budget: the share of float32 that chose instead, or None.
    buckets_kept of buckets: summed over alphabets. energy_share: kept part of the delta's sum
    of squares. error: ||delta - quantized|| / ||delta||. sizes: with new code tables.
    """

    bits: int | None
    budget: float | None
    buckets_kept: int
    buckets: int
    energy_share: float
    error: float
    sizes: Sizes


def changes(state: Arrays, track: Arrays, step: codec.Step) -> Arrays:
    """Name -> float32, what a step encodes. Tensors with NaN or infinity, stored whole, are not
    among them."""
    return {
        t.name: difference(state[t.name], track[t.name])
        for group in step.groups
        for t in group.tensors
    }


def dissect(deltas: Arrays, step: codec.Step) -> tuple[tuple[Alphabet, ...], list[Codes]]:
    """The alphabets of one step, and their codes of the exponent stage alone, each (n,).

    deltas: name -> float32, what the step encodes: the saved state less the track before it.
    """
    alphabets, codes = [], []
    for group in step.groups:
        delta = np.concatenate([deltas[t.name].reshape(-1) for t in group.tensors])
        e = group.encoded
        every, own, energy, residual = _buckets(delta, e)
        buckets = every.keeping(e.levels.size - 1)
        if step.coder == "runlength":  # a new table would cost what the last one saved more
            new = e.saved_bits if e.cached else 8 * e.table_nbytes
            runlength = coded_nbytes(e.payload_bits + new, 0, e.levels.size - 1)
        else:
            runlength = runlength_nbytes(own, buckets)
        names = tuple(t.name for t in group.tensors)
        alphabets.append(
            Alphabet(
                names,
                delta.size,
                buckets,
                energy,
                residual,
                e.table,
                e.cached,
                e.saved_bits,
                e.payload_bits,
                e.stream_elements,
                runlength,
            )
        )
        codes.append(own)
    return tuple(alphabets), codes


def _buckets(
    delta: NDArray[np.float32], e: codec.Encoded
) -> tuple[codec.Buckets, Codes, NDArray[np.float64], NDArray[np.float64]]:
    """Every bucket of a delta, the codes (n,) of all of them, and what `energies` says of each.

    A budget may hold only the largest members of the first buckets: these and the rest of them
    are rows of their own then, in this order.
    """
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
        for f in fields(codec.Buckets)
    }
    (mine, *one), (rest, *other) = large.energies(sides[0]), small.energies(sides[1])
    codes = empty_codes(delta.size, 1 + len(large) + len(small))
    codes[...] = np.where(rest > 0, rest + np.uint16(len(large)), mine)
    energy, residual = (np.concatenate(pair) for pair in zip(one, other))
    return codec.Buckets(**columns).keeping(None), codes, energy, residual


def n_kept(bits: int | None, n_buckets: int) -> int:
    """How many of so many buckets x bits promote."""
    most = n_promoted(bits)
    return n_buckets if most is None else min(most, n_buckets)


def first_to_keep(alphabets: Sequence[Alphabet], key: BucketKey) -> int | None:
    """The index in EVERY_BITS of the fewest bits that keep a bucket, in one alphabet at least.

    None if no alphabet has such a bucket.
    """
    found = [
        next(j for j, x in enumerate(EVERY_BITS) if at < n_kept(x, len(a.buckets)))
        for a, at in _places(alphabets, key)
    ]
    return min(found, default=None)


def rank(alphabets: Sequence[Alphabet], key: BucketKey) -> int | None:
    """The k from which on the k largest buckets of an alphabet have one among them.

    The least over alphabets; None if no alphabet has such a bucket.
    """
    return min((at + 1 for _, at in _places(alphabets, key)), default=None)


def _places(alphabets: Sequence[Alphabet], key: BucketKey) -> list[tuple[Alphabet, int]]:
    """The alphabets that have a bucket, and its place in promotion order, from 0."""
    exponent, sign = key
    return [
        (a, int(at[0]))
        for a in alphabets
        if (at := np.flatnonzero((a.buckets.exponent == exponent) & (a.buckets.sign == sign))).size
    ]


def totals(alphabets: Sequence[Alphabet]) -> tuple[BucketTotal, ...]:
    """Buckets summed over alphabets, by falling exponent, positive before negative."""
    kept: dict[tuple[int, int], int] = {}
    dropped: dict[tuple[int, int], int] = {}
    for alphabet in alphabets:
        for b in alphabet.buckets:
            side = kept if b.level else dropped
            key = (-b.exponent, b.sign)
            side[key] = side.get(key, 0) + b.count
    return tuple(
        BucketTotal(-e, s, kept.get((e, s), 0), dropped.get((e, s), 0))
        for e, s in sorted(kept.keys() | dropped.keys())
    )


def choices(
    alphabets: Sequence[Alphabet], codes: Sequence[Codes] | None = None, budget: float | None = None
) -> tuple[Choice, ...]:
    """What x = 1..8 and the exponent stage alone would keep and cost, for one delta.

    codes: of the exponent stage, as `dissect` gave them; without them run-length sizes are
    known only for what the record itself keeps. budget: if that chose the record's buckets,
    they follow as a last choice.
    """

    @cache
    def runlength(i: int, kept: int) -> int | None:
        a = alphabets[i]
        if kept == a.kept:
            return a.runlength_nbytes
        return None if codes is None else runlength_nbytes(codes[i], a.buckets.keeping(kept))

    def choice(bits: int | None, share: float | None, keep: Sequence[int]) -> Choice:
        runs = [runlength(i, kept) for i, kept in enumerate(keep)]
        known = [nbytes for nbytes in runs if nbytes is not None]
        counts = [a.counts(kept) for a, kept in zip(alphabets, keep)]
        sizes = Sizes(
            sum(known) if len(known) == len(runs) else None,
            sum(huffman_nbytes(c) for c in counts),
            sum(huffman.entropy(c) for c in counts),
            sum(a.n for a in alphabets),
        )
        energy = sum(float(a.energy.sum()) for a in alphabets)
        held = sum(float(a.energy[:k].sum()) for a, k in zip(alphabets, keep))
        lost = sum(
            float(a.residual[:k].sum() + a.energy[k:].sum()) for a, k in zip(alphabets, keep)
        )
        return Choice(
            bits,
            share,
            sum(keep),
            sum(len(a.buckets) for a in alphabets),
            held / energy if energy else 1.0,
            float(np.sqrt(lost / energy)) if energy else 0.0,
            sizes,
        )

    found = [choice(x, None, [n_kept(x, len(a.buckets)) for a in alphabets]) for x in EVERY_BITS]
    if budget is not None:
        found.append(choice(None, budget, [a.kept for a in alphabets]))
    return tuple(found)


def written(alphabets: Sequence[Alphabet], coder: str) -> Sizes:
    """What the record's symbols took, and what the coder that it does not use would have made.

    A table that was used again cost the record nothing; the other coder's is new.
    """
    own = sum(a.nbytes for a in alphabets)
    counts = [a.counts(a.kept) for a in alphabets]
    runlength = own if coder == "runlength" else sum(a.runlength_nbytes for a in alphabets)
    plain = own if coder == "huffman" else sum(huffman_nbytes(c) for c in counts)
    entropy = sum(huffman.entropy(c) for c in counts)
    return Sizes(runlength, plain, entropy, sum(a.n for a in alphabets))


def tables(alphabets: Iterable[Alphabet]) -> Tables:
    """How many code tables these needed, and how many of them were used again."""
    needed = [a for a in alphabets if a.table is not None]
    reused = [a for a in needed if a.cached]
    return Tables(len(needed), len(reused), sum(a.saved_bits for a in reused) / 8)
