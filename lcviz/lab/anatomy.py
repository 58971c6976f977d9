"""The anatomy of one delta: its buckets, what each number of bits would keep and cost.

Most of it follows from one histogram of the delta, because promotion order does not depend on the
number of bits. Runs of zeros are not in a histogram: the size with run-length Huffman for another
number of bits is measured by encoding the codes of the exponent stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import codec
from codec.inspect import (
    CODERS,
    Arrays,
    Buckets,
    Codes,
    PrefixCode,
    difference,
    empty_codes,
    huffman,
    n_promoted,
)

from .sizes import (
    RECODED,
    Shapes,
    Sizes,
    coded_nbytes,
    coded_sizes,
    encode_kept,
    encoded_nbytes,
    huffman_nbytes,
)

EVERY_BITS = (*range(1, 9), None)  # x of priority promotion; None: the exponent stage alone
FIRST_WORDS = 64  # uint32 words of a payload that an `Alphabet` holds, for display
T = TypeVar("T", bound=np.generic)
# Buckets, the code of each element (n,), and of each bucket its energy and residual.
_Rows = tuple[Buckets, Codes, NDArray[np.float64], NDArray[np.float64]]
BucketKey = tuple[int, int]  # exponent and sign: the same bucket in every alphabet and step


@dataclass(frozen=True)
class Alphabet:
    """The part of a delta that shares one code: the whole model, or one tensor.

    sizes: tensor -> its elements, in order. buckets: all, in promotion order, with the record's
    levels. In a record in uniform steps each level is a bucket of its own, in the order of
    the codes; the buckets of the changes that became 0 follow.

    energy: float64 (b,), sum of squares of each bucket's members.
    residual: float64 (b,), sum of squared distances to the representative.

    encoded: as in the record, but with the first FIRST_WORDS of the payload only. A payload
    whose bits values share is whole. new_sizes: bytes of the same symbols with a new table, by
    coder as in `coded_sizes`. shapes: of its tensors.
    """

    sizes: Mapping[str, int]
    buckets: Buckets
    energy: NDArray[np.float64]
    residual: NDArray[np.float64]
    encoded: codec.Encoded
    new_sizes: Mapping[str, int]
    shapes: Shapes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its tensors."""
        return tuple(self.sizes)

    @property
    def n(self) -> int:
        """How many elements its tensors have."""
        return sum(self.sizes.values())

    @property
    def begins(self) -> dict[str, int]:
        """Tensor -> its first element in the alphabet."""
        return dict(zip(self.sizes, accumulate(self.sizes.values(), initial=0)))

    def parts(self, values: NDArray[T]) -> dict[str, NDArray[T]]:
        """Values (n,), one for each element, apart by tensor: views."""
        return {name: values[i : i + self.sizes[name]] for name, i in self.begins.items()}

    def place(self, element: int) -> tuple[str, int]:
        """The tensor of an element, and the element's index in it."""
        begins = reversed(self.begins.items())
        return next((name, element - begin) for name, begin in begins if begin <= element)

    @property
    def keys(self) -> list[BucketKey]:
        """The key of each bucket; a bucket of which a budget keeps a part is there twice."""
        return list(zip(self.buckets.exponent.tolist(), self.buckets.sign.tolist()))

    @property
    def n_kept(self) -> int:
        """How many buckets the record keeps."""
        return int(np.count_nonzero(self.buckets.level))

    @property
    def uniform(self) -> bool:
        """Whether the record's levels are multiples of one step size."""
        return self.encoded.uniform

    @property
    def nbytes(self) -> int:
        """Bytes of the record's code words, table and levels."""
        return encoded_nbytes(self.encoded)

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

    @property
    def key(self) -> BucketKey:
        """Its key in every alphabet."""
        return self.exponent, self.sign

    @property
    def members(self) -> int:
        """All."""
        return self.kept_members + self.dropped_members


def changes(state: Arrays, track: Arrays, step: codec.Delta) -> Arrays:
    """What a step encodes, name -> float32.

    Without tensors stored exactly for NaN or infinity, and without an optimizer's moments.
    """
    return {
        t.name: difference(state[t.name], track[t.name])
        for group in step.groups
        for t in group.tensors
        if not t.measure
    }


def dissect(deltas: Arrays, step: codec.Delta) -> tuple[tuple[Alphabet, ...], list[Codes]]:
    """Take one step apart.

    Args:
        deltas: From `changes`, name -> float32: the saved state minus the track before it.
        step: The step.

    Returns:
        Its alphabets, and for each its codes (n,) of the exponent stage alone. Without those of an
        optimizer's moments: their levels are no differences.
    """
    alphabets, codes = [], []
    for group in (g for g in step.groups if not g.encoded.measure):
        delta = np.concatenate([deltas[t.name].reshape(-1) for t in group.tensors])
        e = group.encoded
        all_buckets, exponent_codes, energy, residual = _buckets(delta, e)
        buckets = all_buckets.keeping(e.levels.size - 1)
        known = {}
        if step.coding.coder in RECODED:  # a reused table: add what a new one would take
            table_bits = e.saved_bits if e.cached else 8 * e.table_nbytes
            nbytes = coded_nbytes(e.payload_bits + table_bits, 0, e.stored_levels.size)
            known = {step.coding.coder: nbytes}
        shapes = [t.shape for t in group.tensors]
        new_sizes = coded_sizes(exponent_codes, buckets, shapes, uniform=e.uniform, known=known)
        sizes = {t.name: t.size for t in group.tensors}
        if isinstance(e.payload, PrefixCode):
            words = e.payload.words[:FIRST_WORDS].copy()
            e = replace(e, payload=replace(e.payload, words=words))
        alphabets.append(Alphabet(sizes, buckets, energy, residual, e, new_sizes, shapes))
        codes.append(exponent_codes)
    return tuple(alphabets), codes


def _buckets(delta: NDArray[np.float32], e: codec.Encoded) -> _Rows:
    """Every bucket of a delta.

    A budget may keep only the largest members of the first buckets. Then these members and the
    others are separate rows, the kept ones first. For uniform steps see `Alphabet`.
    """
    if not e.uniform:
        whole = _by_exponent(delta)
        kept = whole[0].first(e.levels.size - 1)
        if (kept.representative == e.levels[1:]).all():
            return whole
    codes = codec.decode(e).codes
    changed = np.where(codes > 0, delta, np.float32(0))
    large = _by_level(delta, codes, e) if e.uniform else _by_exponent(changed)
    small = _by_exponent(np.where(codes > 0, np.float32(0), delta))
    pairs = {f.name: [getattr(rows[0], f.name) for rows in (large, small)] for f in fields(Buckets)}
    buckets = Buckets(**{name: np.concatenate(pair) for name, pair in pairs.items()})
    all_codes = empty_codes(delta.size, 1 + len(buckets))
    all_codes[...] = np.where(small[1] > 0, small[1] + np.uint16(len(large[0])), large[1])
    energy, residual = (np.concatenate(sums) for sums in zip(large[2:], small[2:]))
    return buckets.keeping(None), all_codes, energy, residual


def _by_exponent(delta: NDArray[np.float32]) -> _Rows:
    buckets = codec.quantize(delta).buckets
    assert buckets is not None, "quantize knows its buckets"
    return buckets, *buckets.energies(delta)


def _by_level(delta: NDArray[np.float32], codes: Codes, e: codec.Encoded) -> _Rows:
    """A bucket for each level of uniform steps, with the changes that became this level."""
    levels, squares = e.levels, delta.astype(np.float64) ** 2
    values = levels[1:]
    buckets = Buckets(
        exponent=np.frexp(np.abs(values))[1].astype(np.int16) - np.int16(1),
        sign=(values < 0).astype(np.uint8),
        min=values,
        max=values,
        count=np.bincount(codes, minlength=levels.size)[1:].astype(np.int64),
        level=np.arange(1, levels.size, dtype=np.uint16),
    )
    squared_errors = (delta.astype(np.float64) - levels[codes]) ** 2
    energy = np.bincount(codes, squares, levels.size)[1:].astype(np.float64)
    residual = np.bincount(codes, squared_errors, levels.size)[1:].astype(np.float64)
    return buckets, codes, energy, residual


def cut(alphabet: Alphabet, codes: Codes, most: int, coder: str) -> Alphabet:
    """An alphabet with only its ``most`` largest exponent buckets; its payload is whole."""
    buckets = alphabet.buckets.keeping(min(most, len(alphabet.buckets)))
    encoded = encode_kept(codes, buckets, coder, shapes=alphabet.shapes)
    known = {coder: encoded_nbytes(encoded)} if coder in RECODED else {}
    new_sizes = coded_sizes(codes, buckets, alphabet.shapes, known=known)
    return replace(alphabet, buckets=buckets, encoded=encoded, new_sizes=new_sizes)


def n_kept(bits: int | None, n_buckets: int) -> int:
    """How many of n_buckets buckets x bits promote."""
    most = n_promoted(bits)
    return n_buckets if most is None else min(most, n_buckets)


def totals(alphabets: Sequence[Alphabet]) -> tuple[BucketTotal, ...]:
    """Buckets summed over alphabets, by falling exponent, positive before negative."""
    members: tuple[Counter[BucketKey], Counter[BucketKey]] = Counter(), Counter()
    for alphabet in alphabets:
        for key, bucket in zip(alphabet.keys, alphabet.buckets):
            members[bucket.level > 0][key] += bucket.count
    dropped, kept = members
    keys = sorted(dropped.keys() | kept.keys(), key=lambda key: (-key[0], key[1]))
    return tuple(BucketTotal(*key, kept[key], dropped[key]) for key in keys)


def record_sizes(alphabets: Sequence[Alphabet], coder: str) -> Sizes:
    """What the record's symbols took, and what they would take with the other coders.

    A table that the record reuses costs nothing; those of other coders are new.
    """
    sizes = kept_sizes(alphabets)
    nbytes = sum(a.nbytes for a in alphabets)
    return replace(sizes, by_coder={**sizes.by_coder, coder: nbytes})


def kept_sizes(alphabets: Sequence[Alphabet]) -> Sizes:
    """What the record's symbols would take with new tables."""
    by_coder = {coder: sum(a.new_sizes[coder] for a in alphabets) for coder in RECODED}
    counts = [a.counts(a.n_kept) for a in alphabets]
    plain = sum(huffman_nbytes(c, 1 if a.uniform else None) for a, c in zip(alphabets, counts))
    return Sizes(
        by_coder | dict.fromkeys(CODERS.keys() - by_coder.keys(), plain),
        sum(huffman.entropy(c) for c in counts) / 8,
        sum(a.n for a in alphabets),
    )
