"""The first bits of a stream, cut where its code words end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codec.errors import StreamError
from codec.scheme import huffman, runlength
from codec.scheme.stream import Encoded

LONGEST = 64  # bits: a word has 15 at most, a class 7, a symbol 9, a run 19


@dataclass(frozen=True)
class Word:
    """One code word with the bits that belong to it.

    word: its bits, first bit first. rest: what follows it: open bits of a run; after an escape the
    class, the symbol and open bits. run: zeros before the value. at: index of the value in the
    alphabet. code: of the value; 0 only where every value has a word of its own.
    """

    word: str
    rest: str
    run: int
    at: int
    code: int


def first_words(e: Encoded, most: int) -> tuple[Word, ...]:
    """The first words of the first stream, at most so many; none if it has no code words.

    Raises StreamError if the bits end within a word or are no words.
    """
    if e.table is None or not e.streams.size:
        return ()
    bits = _Bits(e, most)
    token_of = {w: i for i, w in enumerate(huffman.code_words(e.table.lengths)) if w}
    longest = max(map(len, token_of))
    found: list[Word] = []
    at = 0  # the next element
    while len(found) < most and bits.left:
        begin = bits.at
        word = bits.take(1)
        while word not in token_of:
            if len(word) == longest:
                raise StreamError(f"no code word at bit {begin}")
            word += bits.take(1)
        token, begin, run = token_of[word], bits.at, 0
        if e.table.classes == 1:
            code = token
        else:
            if token:
                symbol, kind = divmod(token - 1, e.table.classes)
            else:
                kind = bits.number(runlength.CLASS_BITS)
                symbol = bits.number(runlength.symbol_bits(e.k - 1))
                if kind >= runlength.FIRST_RUN.size or symbol >= e.k - 1:
                    raise StreamError(f"class {kind} and symbol {symbol} after an escape")
            code = symbol + 1
            open_bits = int(runlength.OPEN_BITS[kind])
            run = int(runlength.FIRST_RUN[kind]) + bits.number(open_bits)
        found.append(Word(word, bits.text[begin : bits.at], run, at + run, code))
        at += run + 1
    return tuple(found)


class _Bits:
    """The bits of the first stream, taken from its begin on, enough of them for ``most`` words."""

    def __init__(self, e: Encoded, most: int) -> None:
        n = min(int(e.streams[0]), LONGEST * most)
        words = e.payload[: -(-n // 32)]
        self.text = "".join(map(str, np.unpackbits(words.view(np.uint8), bitorder="little")))[:n]
        self.at = 0

    @property
    def left(self) -> int:
        """How many."""
        return len(self.text) - self.at

    def take(self, n: int) -> str:
        """The next ones."""
        if n > self.left:
            raise StreamError(f"{n} more bits, only {self.left} left")
        self.at += n
        return self.text[self.at - n : self.at]

    def number(self, n: int) -> int:
        """The next ones as a number, its lowest bit first."""
        return int(self.take(n)[::-1] or "0", 2)
