"""What symbols cost: with the paper's Huffman code, with run-length Huffman, and Shannon's bound.

A size is of code words, code table and levels (4 bytes each but the zero). What a record adds,
its header and the sizes of its streams, is the same for both coders and counted nowhere here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import codec
from codec.scheme import huffman


@dataclass(frozen=True)
class Sizes:
    """The same symbols written both ways.

    runlength, huffman: bytes; runlength is None where it was not computed. entropy_bits:
    Shannon's bound for codes of single values, tables and levels left out. n: elements.
    """

    runlength: int | None
    huffman: int
    entropy_bits: float
    n: int

    def of(self, coder: str) -> int | None:
        """Bytes with that coder."""
        return self.runlength if coder == "runlength" else self.huffman

    def share(self, nbytes: float) -> float:
        """Bytes over the float32 bytes of the same elements."""
        return nbytes / (4 * self.n) if self.n else 0.0

    def bits(self, nbytes: float) -> float:
        """Bytes as bits a parameter."""
        return 8 * nbytes / self.n if self.n else 0.0

    @property
    def entropy(self) -> float:
        """entropy_bits as bytes."""
        return self.entropy_bits / 8


@dataclass(frozen=True)
class Tables:
    """Code tables of some checkpoints.

    n: how many were needed. reused: how many of them were the ones sent last. saved_nbytes:
    what new ones would have cost more, words and tables together.
    """

    n: int
    reused: int
    saved_nbytes: float


def coded_nbytes(word_bits: int, table_nbytes: int, n_levels: int) -> int:
    """Bytes of code words, table and levels, the zero not among them."""
    return (word_bits + 7) // 8 + table_nbytes + 4 * n_levels


def huffman_nbytes(counts: NDArray[np.int64]) -> int:
    """The paper's code for symbols with these counts, its table new. counts: int64 (k,)."""
    lengths = huffman.code_lengths(counts)
    table = huffman.pack_lengths(lengths).size
    return coded_nbytes(huffman.n_bits(counts, lengths), table, counts.size - 1)


def runlength_nbytes(codes: NDArray[np.unsignedinteger], buckets: codec.Buckets) -> int:
    """Run-length Huffman with a new table, by encoding.

    codes: (n,), of the exponent stage. buckets: those of the delta; what has no level there
    counts as zero.
    """
    kept = np.where(codes < buckets.levels.size, codes, 0).astype(codes.dtype)
    quantized = codec.Quantized(kept, buckets.levels, codes.shape, None, buckets)
    e = codec.encode(quantized, "runlength")
    return coded_nbytes(e.payload_bits, e.table_nbytes, e.levels.size - 1)
