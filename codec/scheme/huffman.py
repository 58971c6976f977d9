"""Stage three of LC-Checkpoint: a canonical Huffman code over the levels (H).

The code lengths alone define a canonical code: words of one length are consecutive numbers in
symbol order, and shorter words come first (RFC 1951, 3.2.2). Among equally short codes the lengths
are deterministic: on equal counts the symbol of larger index, that is of smaller magnitude, gets
the longer word.

A one-symbol alphabet needs no bits: every length is 0, the stream is empty and every element has
the last code, k - 1. Otherwise a length of 0 means that the symbol does not occur.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.caps import short
from codec.errors import CodeTableError

from . import plain
from .kernels import codes as kernel
from .kernels import instructions
from .limits import MAX_LENGTH
from .twins import twin_of

MAX_SYMBOLS = 2**16  # codes are uint16 at most
_SHARES = np.array([0, *(2.0**-n for n in range(1, 256))])  # of all words, of one of each length


@dataclass(frozen=True)
class Node:
    """A node of a code tree: a leaf has a symbol, an inner node two children.

    word: the path from the root as '0' and '1'. symbol: int for a leaf, else None.
    """

    word: str
    symbol: int | None
    zero: Node | None = None
    one: Node | None = None


def code_lengths(counts: NDArray[np.integer], limit: int = MAX_LENGTH) -> NDArray[np.uint8]:
    """Optimal code lengths of at most ``limit`` bits.

    Package-merge (Larmore and Hirschberg, J. ACM 37(3), 1990). Its total equals Huffman's unless
    the limit binds.

    Args:
        counts: Integers, shape (k,), k at most 2**16, none negative, at most 2**limit positive.
        limit: Bits.

    Returns:
        uint8 (k,).

    Raises:
        CodeTableError: More than 2**limit counts are positive.
    """
    contiguous: NDArray[np.int64] = np.ascontiguousarray(counts, np.int64)
    if counts.size > 2**limit and (n := np.count_nonzero(counts)) > 2**limit:
        raise CodeTableError(f"{n} symbols cannot all have code words of at most {limit} bits")
    return _code_lengths(contiguous, limit)


@twin_of(plain.code_lengths)
def _code_lengths(counts: NDArray[np.int64], limit: int) -> NDArray[np.uint8]:
    """See `plain.code_lengths`."""
    kernel.package_merge(counts, limit, lengths := np.zeros(counts.size, np.uint8))
    return lengths


def code_words(lengths: NDArray[np.uint8]) -> list[str]:
    """The canonical code words as strings of '0' and '1', first transmitted bit first.

    lengths: uint8 (k,). A symbol of length 0 has the empty word.
    """
    words = packed_words(lengths).tolist()
    return [format(w & 0xFFFF, f"0{w >> 16}b")[::-1] if w else "" for w in words]


def tree(lengths: NDArray[np.uint8]) -> Node:
    """The code as a binary tree; a one-symbol alphabet is a single leaf."""
    lengths = checked_lengths(lengths)
    leaf_at = {word: symbol for symbol, word in enumerate(code_words(lengths)) if word}
    if not leaf_at:
        return Node("", lengths.size - 1)

    def grow(word: str) -> Node:
        if word in leaf_at:
            return Node(word, leaf_at[word])
        return Node(word, None, grow(word + "0"), grow(word + "1"))

    return grow("")


def entropy(counts: NDArray[np.integer]) -> float:
    """Shannon's bound in bits for the whole message: -sum(count * log2(count / total))."""
    counts = np.asarray(counts, np.float64)
    counts = counts[counts > 0]
    return float((counts * log2(counts.sum() / counts)).sum())


@twin_of(plain.log2)
def log2(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The base-2 logarithms of positive numbers, the same bits on every processor."""
    instructions.log2(values, logarithms := np.empty_like(values))
    return logarithms


def n_bits(counts: NDArray[np.integer], lengths: NDArray[np.uint8]) -> int:
    """Exact length in bits of a message with these counts under this code."""
    return int((np.asarray(counts, np.int64) * lengths).sum())


def packed_words(lengths: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """uint32 (k,): the code words, first transmitted bit lowest, | their length << 16.

    Raises CodeTableError for a length above 15.
    """
    _check_limit(lengths)
    return _canonical(lengths)


@twin_of(plain.canonical)
def _canonical(lengths: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """See `plain.canonical`."""
    kernel.canonical(lengths, words := np.zeros(lengths.size, np.uint32))
    return words


def pack_lengths(lengths: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Code lengths as bits, uint8, as a record stores a table.

    Neighbours are similar, so most lengths are stored as the difference from the last length other
    than 0, which is 8 at first. Each item takes the lowest free bits, first bit first:

        1            the same
        010, 001     one more, one less
        00010, 00011 two more, two less
        0000         the length itself, 4 bits
        011          a run of zeros, its length in Elias' gamma code (IEEE Trans. Inf. Theory 21,
                     1975): as many zeros as it has bits below the highest, a 1, and those bits

    Numbers stand lowest bit first. Zeros at the end are left out.
    """
    return _packed_lengths(lengths)


@twin_of(plain.pack_lengths)
def _packed_lengths(lengths: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """See `pack_lengths`."""
    packed = np.empty(lengths.size + 2, np.uint32)
    return packed.view(np.uint8)[: kernel.pack_lengths(lengths, packed)].copy()


def unpack_lengths(packed: NDArray[np.uint8], n: int) -> NDArray[np.uint8]:
    """The n lengths that `pack_lengths` packed. Raises CodeTableError."""
    lengths = _unpacked_lengths(packed, n)
    if lengths is None:
        raise CodeTableError(f"{packed.size} bytes are not a list of at most {n} code lengths")
    return lengths


@twin_of(plain.unpack_lengths)
def _unpacked_lengths(packed: NDArray[np.uint8], n: int) -> NDArray[np.uint8] | None:
    """See `plain.unpack_lengths`."""
    lengths = np.zeros(n, np.uint8)
    padded = np.concatenate((packed, np.zeros(8, np.uint8)))
    return lengths if kernel.unpack_lengths(padded, 8 * packed.size, lengths) else None


def checked_lengths(lengths: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The lengths, if they are a complete prefix code (Kraft sum exactly 1) or all 0.

    Raises CodeTableError otherwise: an incomplete code wastes bits, and the encoder writes none.
    """
    if not isinstance(lengths, np.ndarray):
        raise CodeTableError(f"code lengths are an array, not a {type(lengths).__name__}")
    if lengths.dtype != np.uint8 or lengths.ndim != 1:
        raise CodeTableError(f"code lengths are uint8 (k,), not {lengths.dtype} {lengths.shape}")
    if not 1 <= lengths.size <= MAX_SYMBOLS:
        raise CodeTableError(f"a code table has 1 to {MAX_SYMBOLS} levels, not {lengths.size}")
    if not lengths.any():
        if lengths.size > 2:  # two promoted levels are two symbols: there would be a word
            raise CodeTableError(f"{lengths.size} levels cannot all lack a code word")
        return lengths
    _check_limit(lengths)
    if _SHARES[lengths].sum() != 1:
        listed = short(lengths.tolist())
        raise CodeTableError(f"code lengths {listed} are not a complete prefix code")
    return lengths


def _check_limit(lengths: NDArray[np.uint8]) -> None:
    if (longest := int(lengths.max(initial=0))) > MAX_LENGTH:
        raise CodeTableError(f"a code word of {longest} bits; at most {MAX_LENGTH} are allowed")
