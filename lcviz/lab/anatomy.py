"""The anatomy of one delta: its buckets, what each choice of bits would keep and cost.

Everything here follows from one histogram of the delta, because promotion order does not
depend on the number of bits: the sizes for x = 1..8 are computed exactly from the counts
(optimal code lengths times counts), without encoding anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import codec
from codec import huffman
from codec.quantize import Codes
from codec.state import Arrays

EVERY_BITS = (*range(1, 9), None)  # x of priority promotion; None: the exponent stage alone


@dataclass(frozen=True)
class Alphabet:
    """The part of a delta that shares one code: the whole model, or one tensor.

    names: its tensors. n: elements. buckets: all of them, in promotion order, with the
    levels of the run's own bits. energy: float64 (b,), sum of squares of each bucket's
    members. residual: float64 (b,), sum of squared distances to the representative.
    """

    names: tuple[str, ...]
    n: int
    buckets: codec.Buckets
    energy: NDArray[np.float64]
    residual: NDArray[np.float64]

    def counts(self, bits: int | None) -> NDArray[np.int64]:
        """int64 (k,): occurrences of each code if ``bits`` were used; code 0 is zero."""
        kept = self.buckets.count[: n_kept(bits, len(self.buckets))]
        return np.concatenate(([self.n - kept.sum()], kept)).astype(np.int64)


@dataclass(frozen=True)
class BucketTotal:
    """One exponent bucket over all alphabets: in some it may be kept, in others dropped."""

    exponent: int
    sign: int
    kept: int
    dropped: int


@dataclass(frozen=True)
class Choice:
    """What one number of bits keeps and costs.

    buckets_kept of buckets: summed over alphabets. energy_share: kept part of the delta's
    sum of squares. error: ||delta - quantized|| / ||delta||. stream_bits, entropy_bits:
    exact length of the code words, and Shannon's bound for the same codes. nbytes: bytes
    of streams, code tables and levels, without the record's header. n: elements.
    """

    bits: int | None
    buckets_kept: int
    buckets: int
    energy_share: float
    error: float
    stream_bits: int
    entropy_bits: float
    nbytes: int
    n: int

    @property
    def share(self) -> float:
        """nbytes over the float32 bytes of the same elements."""
        return self.nbytes / (4 * self.n) if self.n else 0.0

    @property
    def entropy_share(self) -> float:
        """entropy_bits over the float32 bits of the same elements."""
        return self.entropy_bits / (32 * self.n) if self.n else 0.0

    @property
    def bits_per_parameter(self) -> float:
        """Everything counted in nbytes, in bits an element."""
        return 8 * self.nbytes / self.n if self.n else 0.0


@dataclass(frozen=True)
class CodeRow:
    """One line of a Huffman table: a level, how often it occurs, its code word.

    exponent and sign are None for level 0, the zero.
    """

    symbol: int
    level: float
    exponent: int | None
    sign: int | None
    count: int
    word: str


def dissect(
    before: Arrays, after: Arrays, step: codec.Step
) -> tuple[tuple[Alphabet, ...], list[Codes]]:
    """The alphabets of one step, and their codes of the exponent stage alone, each (n,).

    before: the track the step started from. after: the state that was saved, float32.
    """
    alphabets, codes = [], []
    for group in step.groups:
        delta = np.concatenate(
            [(after[t.name] - before[t.name]).reshape(-1) for t in group.tensors]
        )
        buckets = group.quantized.buckets
        assert buckets is not None, "a step from a tracker has them"
        own, energy, residual = buckets.energies(delta)
        names = tuple(t.name for t in group.tensors)
        alphabets.append(Alphabet(names, delta.size, buckets, energy, residual))
        codes.append(own)
    return tuple(alphabets), codes


def n_kept(bits: int | None, n_buckets: int) -> int:
    """Buckets that x bits promote: at most 2^x - 1 (PAPER: priority promotion)."""
    return n_buckets if bits is None else min(2**bits - 1, n_buckets)


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


def choice(alphabets: Sequence[Alphabet], bits: int | None) -> Choice:
    """What ``bits`` would keep and cost for this delta."""
    kept = buckets = stream = nbytes = n = 0
    entropy = energy = kept_energy = lost = 0.0
    for a in alphabets:
        k = n_kept(bits, len(a.buckets))
        counts = a.counts(bits)
        n_bits = huffman.n_bits(counts, huffman.code_lengths(counts))
        kept, buckets, n = kept + k, buckets + len(a.buckets), n + a.n
        stream, entropy = stream + n_bits, entropy + huffman.entropy(counts)
        nbytes += (n_bits + 7) // 8 + counts.size + 4 * k
        energy, kept_energy = energy + a.energy.sum(), kept_energy + a.energy[:k].sum()
        lost += a.residual[:k].sum() + a.energy[k:].sum()
    share = kept_energy / energy if energy else 1.0
    error = float(np.sqrt(lost / energy)) if energy else 0.0
    return Choice(bits, kept, buckets, float(share), error, stream, entropy, nbytes, n)


def choices(alphabets: Sequence[Alphabet]) -> tuple[Choice, ...]:
    """`choice` for x = 1..8 and for the exponent stage alone."""
    return tuple(choice(alphabets, bits) for bits in EVERY_BITS)


def code_table(alphabet: Alphabet, bits: int | None) -> tuple[CodeRow, ...]:
    """The canonical Huffman table of one alphabet, by level."""
    counts = alphabet.counts(bits)
    words = huffman.code_words(huffman.code_lengths(counts))
    rows = [CodeRow(0, 0.0, None, None, int(counts[0]), words[0])]
    levels = alphabet.buckets.representative
    for i in range(counts.size - 1):
        b = alphabet.buckets[i]
        rows.append(CodeRow(i + 1, float(levels[i]), b.exponent, b.sign, b.count, words[i + 1]))
    return tuple(rows)
