"""Code tables: which one is cheapest, and whether to reuse the last one.

A table is chosen from counts, before anything is coded, and its cost in bits is exact. The last
table is reused if a new one, its own bytes included, would cost more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.errors import CodeTableError
from codec.lazy import lazy

from . import huffman, plain, runlength
from .kernels import codes as kernel
from .limits import MAX_CLASSES
from .twins import twin_of

CLASSES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, MAX_CLASSES)  # numbers to choose from


@dataclass(frozen=True, eq=False)
class CodeTable:
    """A canonical prefix code for codes or for tokens.

    Attributes:
        lengths: uint8, the length of each code word.
        classes: 1 for the paper's code of single values, else the number of classes of runs that
            have tokens, see `runlength`.
    """

    lengths: NDArray[np.uint8]
    classes: int

    @property
    def n_symbols(self) -> int:
        """Number of codes other than 0."""
        return (self.lengths.size - 1) // self.classes

    @lazy
    def packed(self) -> NDArray[np.uint8]:
        """The table as a record stores it, uint8."""
        return huffman.pack_lengths(self.lengths)

    @lazy
    def words(self) -> NDArray[np.uint32]:
        """Code words as `huffman.packed_words` gives them."""
        return huffman.packed_words(self.lengths)

    @classmethod
    def unpacked(
        cls, packed: NDArray[np.uint8], n_symbols: int, classes: int, uniform: bool = False
    ) -> CodeTable:
        """The table that was `packed`.

        n_symbols: codes other than 0. uniform: whether these may be more than fit into a table, as
        in equal steps; then only the first ones have tokens. Raises CodeTableError.
        """
        if uniform and 1 < classes <= MAX_CLASSES:
            n_symbols = min(n_symbols, runlength.n_symbols(classes))
        if not 1 <= classes <= (1 if n_symbols < 1 else runlength.n_classes(n_symbols)):
            raise CodeTableError(f"{classes} classes of runs with {n_symbols} symbols")
        n = runlength.n_tokens(n_symbols, classes)
        table = cls(huffman.unpack_lengths(packed, n), classes)
        table.check()
        return table

    def check(self) -> None:
        """Raise CodeTableError if no message can be read with this table."""
        _ = self._is_sound

    @lazy
    def _is_sound(self) -> bool:
        """True. Raises CodeTableError, see `check`."""
        if not huffman.checked_lengths(self.lengths).any():
            raise CodeTableError("a table without code words")
        classes, most = self.classes, 1
        if isinstance(classes, int) and 0 < classes < self.lengths.size:
            most = runlength.n_classes(self.n_symbols)
        if not isinstance(classes, int) or not 1 <= classes <= most:
            raise CodeTableError(f"{self.lengths.size} code lengths for {classes!r} classes")
        if self.lengths.size != runlength.n_tokens(self.n_symbols, classes):
            raise CodeTableError(f"{self.lengths.size} code lengths for {classes} classes of runs")
        if classes > 1 and not self.lengths[0]:
            raise CodeTableError("the escape has no code word")
        return True

    def cost(self, counts: Counts) -> int | None:
        """Bits of a message with these counts; None if it cannot be written with this table."""
        if self.classes == 1:
            codes = counts.codes
            if codes.size != self.lengths.size or (codes[self.lengths == 0] > 0).any():
                return None
            return huffman.n_bits(codes, self.lengths)
        return None if counts.tokens is None else self._cost_of(counts, counts.tokens)

    def _cost_of(self, counts: Counts, tokens: NDArray[np.int64]) -> int:
        escaped = int(self.lengths[0]) + runlength.CLASS_BITS
        escaped += runlength.symbol_bits(counts.codes.size - 1)
        return _token_bits(tokens, self.lengths, self.classes, escaped)

    def full_words(self, n_symbols: int) -> tuple[NDArray[np.uint32], np.uint32]:
        """For `prefix.write`: each token's word (0 if it is escaped), and the escape's word."""
        if self.classes == 1:
            return self.words, np.uint32(0)
        words, full = self.words, np.zeros((n_symbols + 1, MAX_CLASSES), np.uint32)
        token_words = words[1:].reshape(-1, self.classes)[:n_symbols]
        full[1 : token_words.shape[0] + 1, : self.classes] = token_words
        return full.reshape(-1), words[0]


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each code and token occurs.

    codes: int64 (k,). tokens: int64 (symbols, MAX_CLASSES), each symbol after a run of each class;
    all symbols beyond `runlength.MAX_SYMBOLS` share one row. None if tokens were not counted.
    uniform: whether a table may have tokens for the first symbols only, the most frequent ones.
    """

    codes: NDArray[np.int64]
    tokens: NDArray[np.int64] | None
    uniform: bool = False


@dataclass(frozen=True, eq=False)
class Choice:
    """The table for a message.

    bits: of the message coded with it. cached: whether it is the last table, reused. saved_bits:
    how many bits reuse saves; 0 for a new table.
    """

    table: CodeTable
    bits: int
    cached: bool
    saved_bits: int

    def nbytes(self, streams: int) -> int:
        """Upper bound of the bytes of payload, sizes of the streams and a new table."""
        words = (self.bits + 31) // 32 + streams - 1  # at most: each stream fills its last word
        return 4 * (words + streams) + (0 if self.cached else self.table.packed.size)


def choose(counts: Counts, previous: CodeTable | None, streams: int = 1) -> Choice:
    """The cheapest table, its own bytes included: a new one or the previous one.

    Args:
        counts: Of at least two different codes. Without counted tokens, only the paper's code is
            considered; with them, it is used where it is cheaper than runs.
        previous: The last table.
        streams: Number of streams; each may end with up to 31 unused bits.
    """
    table, bits = _cheapest(counts, streams)
    if previous is not None:
        reused_bits, new_bits = previous.cost(counts), bits + 8 * table.packed.size
        if reused_bits is not None and reused_bits <= new_bits:
            return Choice(previous, reused_bits, True, new_bits - reused_bits)
    return Choice(table, bits, False, 0)


def _cheapest(counts: Counts, streams: int) -> tuple[CodeTable, int]:
    """A new table, and the bits of a message with it."""
    most_bits = None  # of the code of runs, table included
    if counts.tokens is not None:
        runs = _table_of_tokens(counts)
        bits = runs._cost_of(counts, counts.tokens)
        most_bits = 32 * (-(-bits // 32) + streams - 1) + 8 * runs.packed.size
        if most_bits < counts.codes.sum():  # each word has at least one bit
            return runs, bits
        if counts.codes.size > runlength.MAX_TOKENS:
            return runs, bits
    plain = CodeTable(huffman.code_lengths(_two_at_least(counts.codes)), 1)
    plain_bits = huffman.n_bits(counts.codes, plain.lengths)
    if most_bits is not None and most_bits < -(-plain_bits // 32) * 32 + 8 * plain.packed.size:
        return runs, bits
    return plain, plain_bits


def _two_at_least(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts; if a single code other than 0 occurs, code 0 is counted once.

    A prefix code needs two words. In uniform steps, all values may move by one number of steps.
    """
    if np.count_nonzero(codes) > 1:
        return codes
    padded = codes.copy()
    padded[0] = 1
    return padded


def _table_of_tokens(counts: Counts) -> CodeTable:
    tokens = counts.tokens
    assert tokens is not None, "callers have counted tokens"
    used = np.flatnonzero(tokens.any(axis=0))
    # at least 2 classes: 1 would mean a plain code
    classes = max(int(used.max(initial=0)) + 1, 2)
    n_symbols = min(tokens.shape[0], runlength.MAX_SYMBOLS)
    if not counts.uniform:
        classes = min(classes, runlength.n_classes(n_symbols))
    elif classes * n_symbols > runlength.MAX_TOKENS - 1:
        classes = _best_classes(tokens, classes, runlength.symbol_bits(counts.codes.size - 1))
        n_symbols = min(n_symbols, runlength.n_symbols(classes))
    with_word = tokens[:n_symbols, :classes].flatten()
    escaped = int(tokens.sum() - with_word.sum())
    if not with_word.any():  # all tokens are escaped, but a code needs two words
        with_word[0] = 1
    lengths = np.concatenate(([max(escaped, 1)], with_word))
    return CodeTable(huffman.code_lengths(lengths), classes)


def _best_classes(tokens: NDArray[np.int64], most: int, symbol_bits: int) -> int:
    """The number of classes for the fewest bits, by Shannon's bound.

    The more classes have tokens, the fewer symbols can have them.
    """
    total, extra = int(tokens.sum()), runlength.CLASS_BITS + symbol_bits
    bits_by_classes = {}
    for classes in (*(n for n in CLASSES if n < most), most):
        counts = tokens[: runlength.n_symbols(classes), :classes]
        counts = counts[counts > 0]
        escaped = max(total - int(counts.sum()), 1)
        counts = np.append(counts, escaped)
        bits = float((counts * huffman.log2(np.maximum(total / counts, 1))).sum())
        bits_by_classes[classes] = bits + escaped * extra
    return min(bits_by_classes, key=lambda classes: bits_by_classes[classes])


@twin_of(plain.token_bits)
def _token_bits(
    tokens: NDArray[np.int64], lengths: NDArray[np.uint8], classes: int, escaped_bits: int
) -> int:
    """See `plain.token_bits`."""
    return int(kernel.token_bits(tokens, lengths, classes, escaped_bits))
