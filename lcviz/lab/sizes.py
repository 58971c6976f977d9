"""What symbols cost: with each coder, and Shannon's bound.

A size counts code words, code table and levels (4 bytes each, without the zero; 4 bytes in all for
uniform steps). It does not count the record's header and the sizes of its streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

import codec
from codec.inspect import CODERS, Buckets, Codes, huffman

Shapes = Sequence[tuple[int, ...]]
# Coders whose sizes only an encoding tells. That of a code of single values follows from counts.
RECODED = tuple(name for name, coder in CODERS.items() if coder.counts_runs)


@dataclass(frozen=True)
class Sizes:
    """The same symbols with each coder.

    by_coder: coder -> bytes. entropy: Shannon's bound for codes of single values, in bytes, without
    tables and levels. n: elements.
    """

    by_coder: Mapping[str, int]
    entropy: float
    n: int

    def of(self, coder: str) -> int:
        """Bytes with a coder."""
        return self.by_coder[coder]

    def share(self, nbytes: float) -> float:
        """Bytes over the float32 bytes of the same elements."""
        return nbytes / (4 * self.n) if self.n else 0.0

    def bits(self, nbytes: float) -> float:
        """Bytes as bits per parameter."""
        return 8 * nbytes / self.n if self.n else 0.0


def coded_nbytes(word_bits: int, table_nbytes: int, n_levels: int) -> int:
    """Bytes of code words, table and levels. n_levels: without the zero."""
    return (word_bits + 7) // 8 + table_nbytes + 4 * n_levels


def huffman_nbytes(counts: NDArray[np.int64], n_levels: int | None = None) -> int:
    """Bytes with the paper's code and a new table.

    counts: int64 (k,), of each symbol. n_levels: stored levels without the zero, None for k - 1.
    """
    lengths = huffman.code_lengths(counts)
    table = huffman.pack_lengths(lengths).size
    levels = counts.size - 1 if n_levels is None else n_levels
    return coded_nbytes(huffman.n_bits(counts, lengths), table, levels)


def encoded_nbytes(e: codec.Encoded) -> int:
    """Bytes of its code words, table and levels; 0 of a table that is reused."""
    return coded_nbytes(e.payload_bits, e.table_nbytes, e.stored_levels.size)


def encode_kept(
    codes: Codes,
    buckets: Buckets,
    coder: str = "runlength",
    *,
    uniform: bool = False,
    shapes: Shapes | None = None,
) -> codec.Encoded:
    """Encode the changes of the buckets that have a level; all others become zero.

    Args:
        codes: (n,), of the exponent stage, or of uniform steps.
        buckets: Of the delta.
        coder: The coder's name.
        uniform: Whether the levels are multiples of one step size.
        shapes: Of the tensors, if several share the alphabet.
    """
    kept_codes = np.where(codes < buckets.levels.size, codes, 0).astype(codes.dtype)
    quantized = codec.Quantized(kept_codes, buckets.levels, codes.shape, None, buckets, uniform)
    return codec.encode(quantized, coder, shapes)


def coded_sizes(
    codes: Codes,
    buckets: Buckets,
    shapes: Shapes,
    *,
    uniform: bool = False,
    known: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, int]:
    """Coder -> bytes of what `encode_kept` encodes, for each coder in RECODED.

    known: the sizes that need not be computed.
    """
    sizes = dict(known)
    for name in RECODED:
        if name not in sizes:
            encoded = encode_kept(codes, buckets, name, uniform=uniform, shapes=shapes)
            sizes[name] = encoded_nbytes(encoded)
    return {name: sizes[name] for name in RECODED}
