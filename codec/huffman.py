"""Stage three of LC-Checkpoint: a canonical Huffman code over the levels (H).

A canonical code is fixed by its code lengths alone: words of one length are consecutive
numbers in symbol order, and shorter words come first (the rule of RFC 1951, 3.2.2). So the
table on disk is one byte a level. Among equally short codes the lengths are made
deterministic: on equal counts the symbol of larger index, that is of smaller magnitude, gets
the longer word.

A one-symbol alphabet needs no bits at all: every length is 0, the stream is empty and every
element has the last code, k - 1. Otherwise a length of 0 means that the symbol does not
occur.

Not done here: run lengths; anything below one bit an element is out of a prefix code's reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .errors import CodeTableError, StreamError
from .quantize import Codes, empty_codes

MAX_LENGTH = 15  # of a code word: decoding looks up 2**15 entries at most; costs < 0.1 % in size
MAX_SYMBOLS = 2**16  # codes are uint16 at most


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

    counts: integers, shape (k,), at most 2**limit of them positive. Returns uint8 (k,).
    Method: package-merge (Larmore and Hirschberg, J. ACM 37(3), 1990); without a binding
    limit its total equals Huffman's.
    Raises CodeTableError if so many symbols cannot have words that short.
    """
    counts = np.asarray(counts, np.int64)
    lengths = np.zeros(counts.size, np.uint8)
    present = np.flatnonzero(counts)
    n = present.size
    if n > 2**limit:
        raise CodeTableError(f"{n} symbols cannot all have code words of at most {limit} bits")
    if n < 2:
        return lengths
    symbols = present[np.lexsort((-present, counts[present]))]  # rarest first, ties: larger index
    leaves = counts[symbols]
    row, leaf_flags = leaves, []
    for _ in range(limit):
        order = np.argsort(row, kind="stable")
        leaf_flags.append(order < n)  # leaves come before packages of equal weight
        row = row[order]
        packages = row[: row.size // 2 * 2].reshape(-1, 2).sum(axis=1)
        row = np.concatenate((leaves, packages))
    wanted = 2 * n - 2
    for flags in reversed(leaf_flags):
        n_leaves = int(flags[:wanted].sum())
        lengths[symbols[:n_leaves]] += 1
        wanted = 2 * (wanted - n_leaves)
    return lengths


def code_words(lengths: NDArray[np.uint8]) -> list[str]:
    """The canonical code words as strings of '0' and '1', first transmitted bit first.

    lengths: uint8 (k,). A symbol of length 0 has the empty word.
    """
    return [format(v, f"0{n}b") if n else "" for v, n in zip(_values(lengths), lengths.tolist())]


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
    return float((counts * np.log2(counts.sum() / counts)).sum()) if counts.size else 0.0


def n_bits(counts: NDArray[np.integer], lengths: NDArray[np.uint8]) -> int:
    """Exact length in bits of a message with these counts under this code."""
    return int((np.asarray(counts, np.int64) * lengths).sum())


def encode_codes(codes: Codes, lengths: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """The code words of all elements, packed least significant bit first.

    codes: shape (n,). lengths: uint8 (k,). bits: the exact total, as `n_bits` gives it.
    Returns uint8, ceil(bits / 8) bytes; unused bits of the last byte are 0.
    Raises StreamError if codes, lengths and bits do not belong together.
    """
    payload = np.zeros((bits + 7) // 8, np.uint8)
    if lengths.any():
        words = np.array([int(word[::-1] or "0", 2) for word in code_words(lengths)], np.uint64)
        fits = kernels.pack_words(codes, words, lengths, payload) == bits
    else:  # only the last code can go without saying
        fits = bits == 0 and bool((codes == lengths.size - 1).all())
    if not fits:
        raise StreamError(f"these {codes.size} codes do not make {bits} bits under this code")
    return payload


def decode_codes(
    payload: NDArray[np.uint8], bits: int, lengths: NDArray[np.uint8], n: int
) -> Codes:
    """The n codes that were encoded; the inverse of `encode_codes`.

    Returns uint8 (n,), uint16 beyond 256 levels. Raises CodeTableError for lengths that are
    no complete prefix code, StreamError where payload, bits and n do not agree or memory
    does not hold n codes.
    """
    lengths = checked_lengths(lengths)
    if bits < 0 or (bits + 7) // 8 != payload.size:
        raise StreamError(f"{bits} bits need {(bits + 7) // 8} bytes, found {payload.size}")
    if bits % 8 and payload[-1] >> (bits % 8):
        raise StreamError("the unused bits after the last code word are not zero")
    if not lengths.any():
        if bits:
            raise StreamError(f"a one-symbol alphabet has no code bits, found {bits}")
        codes = _room(n, lengths.size)
        codes.fill(lengths.size - 1)
        return codes
    if n > bits:  # before anything is allocated: a small payload cannot ask for much memory
        raise StreamError(f"{bits} bits end before {n} code words")
    codes = _room(n, lengths.size)
    width = int(lengths.max())
    status = kernels.unpack_words(payload, bits, *_lookup(lengths, width), width, codes)
    if status != kernels.STREAM_OK:
        what = {
            kernels.STREAM_ENDS_EARLY: f"{bits} bits end before {n} code words",
            kernels.STREAM_HAS_NO_SUCH_WORD: "bits that begin no code word",
            kernels.STREAM_GOES_ON: f"{bits} bits go on after {n} code words",
        }[status]
        raise StreamError(what)
    return codes


def checked_lengths(lengths: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The lengths, if they are a complete prefix code (Kraft sum exactly 1) or all 0.

    Raises CodeTableError otherwise: an incomplete code wastes bits, so none of ours is one.
    """
    if lengths.dtype != np.uint8 or lengths.ndim != 1:
        raise CodeTableError(f"code lengths are uint8 (k,), not {lengths.dtype} {lengths.shape}")
    if not 1 <= lengths.size <= MAX_SYMBOLS:
        raise CodeTableError(f"a code table has 1 to {MAX_SYMBOLS} levels, not {lengths.size}")
    if not lengths.any():
        if lengths.size > 2:  # two promoted levels are two symbols: there would be a word
            raise CodeTableError(f"{lengths.size} levels cannot all lack a code word")
        return lengths
    if int(lengths.max()) > MAX_LENGTH:
        raise CodeTableError(
            f"a code word of {lengths.max()} bits; at most {MAX_LENGTH} are allowed"
        )
    used = lengths[lengths > 0].astype(np.int64)
    if int((1 << (MAX_LENGTH - used)).sum()) != 1 << MAX_LENGTH:
        raise CodeTableError(f"code lengths {_brief(lengths)} are not a complete prefix code")
    return lengths


def _room(n: int, n_levels: int) -> Codes:
    try:
        return empty_codes(n, n_levels)
    except (MemoryError, ValueError) as exc:
        raise StreamError(f"no memory for {n} codes: {exc}") from exc


def _brief(lengths: NDArray[np.uint8]) -> str:
    return str(lengths.tolist() if lengths.size <= 32 else [*lengths[:32].tolist(), ...])


def _values(lengths: NDArray[np.uint8]) -> list[int]:
    """The code words as numbers, most significant bit first."""
    values = [0] * lengths.size
    value = 0
    previous = 0
    for symbol in np.lexsort((np.arange(lengths.size), lengths)):
        length = int(lengths[symbol])
        if length:
            value <<= length - previous
            values[symbol] = value
            value, previous = value + 1, length
    return values


def _lookup(lengths: NDArray[np.uint8], width: int) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Symbol and length for every pattern of the next ``width`` bits, first bit lowest."""
    symbol_at = np.zeros(2**width, np.uint16)
    length_at = np.zeros(2**width, np.uint8)
    for symbol, word in enumerate(code_words(lengths)):
        if word:
            first = int(word[::-1], 2)
            symbol_at[first :: 2 ** len(word)] = symbol
            length_at[first :: 2 ** len(word)] = len(word)
    return symbol_at, length_at
