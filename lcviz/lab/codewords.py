"""Code words: the first ones of a stream, and how often each occurs in the whole stream.

In a context code, values share the bits; each change has its share.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import codec
from codec import Encoded
from codec.errors import StreamError
from codec.inspect import CodeTable, PrefixCode, element_bits, huffman, runlength

LONGEST = 64  # bits, more than one word takes: 15, its class 7, symbol 9, run 19 at most


@dataclass(frozen=True)
class CodeWord:
    """One code word and the bits that belong to it.

    word: its bits, first bit first. rest: the bits after it: extra bits of a run; after an escape
    the class, the symbol and extra bits. run: zeros before the value. at: index of the value in the
    alphabet. code: of the value; 0 only where every value has a word of its own. share: where
    values share the bits, and have no word and no rest, those of the value and the zeros before it.
    """

    word: str
    rest: str
    run: int
    at: int
    code: int
    share: float | None = None


def first_words(e: Encoded, most: int) -> tuple[CodeWord, ...]:
    """The first ``most`` words of the first stream, or fewer; none if no bits are needed.

    Where values share the bits, the payload must be whole; these are the first shares. Raises
    StreamError if the bits end within a word or are not code words.
    """
    if e.payload.SHARED:
        return _first_shares(e, most)
    if not isinstance(e.payload, PrefixCode) or not e.payload.streams.size:
        return ()
    table = e.payload.table
    n = min(int(e.payload.streams[0]), LONGEST * most)
    first_bytes = e.payload.words[: -(-n // 32)].view(np.uint8)
    bits = _Bits("".join(map(str, np.unpackbits(first_bytes, bitorder="little")))[:n])
    token_of = {w: i for i, w in enumerate(huffman.code_words(table.lengths)) if w}
    words: list[CodeWord] = []
    at = 0
    while len(words) < most and bits.position < n:
        word, begin = bits.word(token_of), bits.position
        code, run = token_of[word], 0
        if table.classes > 1:
            code, run = _run(e, table.classes, code, bits)
        at += run
        words.append(CodeWord(word, bits.text[begin : bits.position], run, at, code))
        at += 1
    return tuple(words)


class _Bits:
    """The bits of a stream as text, first bit first. They are read one after the other."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0

    def take(self, n: int) -> str:
        """The next n bits. Raises StreamError if there are fewer."""
        begin, self.position = self.position, self.position + n
        if self.position > len(self.text):
            raise StreamError(f"{n} more bits, only {len(self.text) - begin} left")
        return self.text[begin : self.position]

    def number(self, n: int) -> int:
        """The next n bits as a number, lowest bit first."""
        return int(self.take(n)[::-1] or "0", 2)

    def word(self, words: Collection[str]) -> str:
        """The next of these code words. Raises StreamError if none begins here."""
        begin, word, longest = self.position, self.take(1), max(map(len, words))
        while word not in words:
            if len(word) == longest:
                raise StreamError(f"no code word at bit {begin}")
            word += self.take(1)
        return word


def _run(e: Encoded, classes: int, token: int, bits: _Bits) -> tuple[int, int]:
    """The code of a token's value, and the zeros before it: the bits after the word say more."""
    symbol, kind = divmod(token - 1, classes)
    if not token:  # an escape
        kind, symbol = (
            bits.number(runlength.CLASS_BITS),
            bits.number(runlength.symbol_bits(e.k - 1)),
        )
        if kind >= runlength.FIRST_RUN.size or symbol >= e.k - 1:
            raise StreamError(f"class {kind} and symbol {symbol} after an escape")
    extra = bits.number(int(runlength.EXTRA_BITS[kind]))
    return symbol + 1, int(runlength.FIRST_RUN[kind]) + extra


def _first_shares(e: Encoded, most: int) -> tuple[CodeWord, ...]:
    codes = codec.decode(e).codes
    at = np.flatnonzero(codes)[:most]
    runs = np.diff(at, prepend=-1) - 1
    until = np.cumsum(element_bits(e))[at]
    shares = np.diff(until, prepend=0.0)
    return tuple(
        CodeWord("", "", run, i, int(codes[i]), share)
        for run, i, share in zip(runs.tolist(), at.tolist(), shares.tolist())
    )


@dataclass(frozen=True)
class CountedWord:
    """One code word of a table that occurs.

    word: its bits. first, last: the shortest and the longest run of zeros before the value; both 0
    where values have words of their own. code: of the value; None for the escape, which stands for
    rare runs and values. count: occurrences. nbits: of all occurrences, with the bits after each.
    """

    word: str
    first: int
    last: int
    code: int | None
    count: int
    nbits: int


def counted_words(e: Encoded, codes: NDArray[np.unsignedinteger]) -> tuple[CountedWord, ...]:
    """Each code word that occurs, the one that takes most bits first.

    () if the payload has no code words. codes: (n,), decoded.
    """
    if e.table is None:
        return ()
    words, classes = huffman.code_words(e.table.lengths), e.table.classes
    if classes == 1:
        tokens, nbits = codes.astype(np.int64), e.table.lengths[codes].astype(np.int64)
    else:
        _, tokens, nbits = tokens_of(e, codes)
    counts = np.bincount(tokens, minlength=len(words))
    sums = np.bincount(tokens, nbits, minlength=len(words)).astype(np.int64)
    occurring = []
    code: int | None
    for token in np.flatnonzero(counts).tolist():
        code, first, last = token, 0, 0
        if classes > 1:
            code, first, last = runs_of(e.table, token) if token else (None, 0, 0)
        word = CountedWord(words[token], first, last, code, int(counts[token]), int(sums[token]))
        occurring.append(word)
    return tuple(sorted(occurring, key=lambda word: (-word.nbits, word.word)))


def runs_of(table: CodeTable, token: int) -> tuple[int, int, int]:
    """The code of a token's value, and the shortest and the longest run of zeros before it.

    token: of a table of runs, but not the escape.
    """
    symbol, kind = divmod(token - 1, table.classes)
    first = int(runlength.FIRST_RUN[kind])
    return symbol + 1, first, first + 2 ** int(runlength.EXTRA_BITS[kind]) - 1


def tokens_of(
    e: Encoded, codes: NDArray[np.unsignedinteger]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where each run of zeros ends, its token and its bits, with the value after it.

    Args:
        e: Must have a table of runs.
        codes: (n,), decoded.

    Returns:
        Three int64 arrays of equal length. Token 0 is the escape.
    """
    assert isinstance(e.payload, PrefixCode), "runs have code words"
    table, stream_elements = e.payload.table, e.payload.stream_elements
    at = np.flatnonzero(codes)
    begin = np.zeros_like(at)
    begin[1:] = at[:-1] + 1
    runs = at - np.maximum(begin, at // stream_elements * stream_elements)
    kinds = np.searchsorted(runlength.FIRST_RUN, runs, side="right") - 1
    escape = int(table.lengths[0]) + runlength.CLASS_BITS + runlength.symbol_bits(e.k - 1)
    symbols = codes[at].astype(np.int64) - 1
    tokens = 1 + symbols * table.classes + kinds
    has_token = (kinds < table.classes) & (symbols < table.n_symbols)
    word_bits = np.where(has_token, table.lengths[np.where(has_token, tokens, 0)], 0).astype(
        np.int64
    )
    nbits = np.where(word_bits > 0, word_bits, escape) + runlength.EXTRA_BITS[kinds]
    return at, np.where(word_bits > 0, tokens, 0), nbits.astype(np.int64)
