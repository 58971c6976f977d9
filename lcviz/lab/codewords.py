"""The first bits of a stream, cut where its code words end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codec import Encoded
from codec.errors import StreamError
from codec.inspect import huffman, runlength

LONGEST = 64  # bits: a word has 15 at most, a class 7, a symbol 9, a run 19


@dataclass(frozen=True)
class CodeWord:
    """One code word and the bits that belong to it.

    word: its bits, first bit first. rest: the bits after it: extra bits of a run; after an escape
    the class, the symbol and extra bits. run: zeros before the value. at: index of the value in the
    alphabet. code: of the value; 0 only where every value has a word of its own.
    """

    word: str
    rest: str
    run: int
    at: int
    code: int


def first_words(e: Encoded, most: int) -> tuple[CodeWord, ...]:
    """At most so many words from the start of the first stream; none if it has no code words.

    Raises StreamError if the bits end within a word or are no words.
    """
    if e.table is None or not e.streams.size:
        return ()
    n = min(int(e.streams[0]), LONGEST * most)
    payload = e.payload[: -(-n // 32)].view(np.uint8)
    bits = "".join(map(str, np.unpackbits(payload, bitorder="little")))[:n]
    token_of = {w: i for i, w in enumerate(huffman.code_words(e.table.lengths)) if w}
    longest = max(map(len, token_of))
    position = 0

    def take(n: int) -> str:
        nonlocal position
        position += n
        if position > len(bits):
            left = len(bits) - position + n
            raise StreamError(f"{n} more bits, only {left} left")
        return bits[position - n : position]

    def number(n: int) -> int:
        """The next bits as a number, lowest bit first."""
        return int(take(n)[::-1] or "0", 2)

    found: list[CodeWord] = []
    at = 0
    while len(found) < most and position < len(bits):
        begin = position
        word = take(1)
        while word not in token_of:
            if len(word) == longest:
                raise StreamError(f"no code word at bit {begin}")
            word += take(1)
        token, begin, run = token_of[word], position, 0
        if e.table.classes == 1:
            code = token
        else:
            if token:
                symbol, kind = divmod(token - 1, e.table.classes)
            else:
                kind = number(runlength.CLASS_BITS)
                symbol = number(runlength.symbol_bits(e.k - 1))
                if kind >= runlength.FIRST_RUN.size or symbol >= e.k - 1:
                    raise StreamError(f"class {kind} and symbol {symbol} after an escape")
            code = symbol + 1
            run = int(runlength.FIRST_RUN[kind]) + number(int(runlength.EXTRA_BITS[kind]))
        at += run
        found.append(CodeWord(word, bits[begin:position], run, at, code))
        at += 1
    return tuple(found)
