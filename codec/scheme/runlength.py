"""Run lengths: one code word for a run of zeros and a value, instead of one for each value.

Most values of a quantized delta are 0, and a prefix code spends at least one bit on each. Here a
*token* is a run of zeros and the symbol (a code > 0) that ends it; zeros after the last symbol of a
stream are not written. Runs belong to classes, like the lengths in RFC 1951:

    run      0  1 ... 15 | 16-19 20-23 24-27 28-31 | 32-39 ... | 64-79 ...
    class    0  1 ... 15 |  16    17    18    19   |  20   ... |  24   ...
    extra    0 bits      |  2 bits                 |  3 bits   |  4 bits

From 16 on the class holds the leading one of the run and the 2 bits after it; the other bits of
the run, `EXTRA_BITS` of them, follow the code word. One Huffman code serves all tokens:

    token 0                                  escape
    token 1 + (symbol - 1) * classes + class     that symbol after a run of that class

A token without a code word is written as the escape's word, 7 bits of class, the bits of symbol - 1
(as many as the largest symbol needs), and the extra bits. So a table made for one checkpoint can
serve any later one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .limits import MAX_CLASSES

CLASS_BITS = 7  # of the class after an escape
MAX_TOKENS = 4096  # a table takes 4 KiB at most
MAX_SYMBOLS = (MAX_TOKENS - 1) // 2  # with words after runs of two classes; the rest are escaped

_POWER = np.maximum(np.arange(MAX_CLASSES) // 4, 4)
EXTRA_BITS: NDArray[np.uint8] = np.where(np.arange(MAX_CLASSES) < 16, 0, _POWER - 2).astype(
    np.uint8
)
FIRST_RUN: NDArray[np.int64] = np.where(
    np.arange(MAX_CLASSES) < 16,
    np.arange(MAX_CLASSES),
    (4 + np.arange(MAX_CLASSES) % 4) << (_POWER - 2),
).astype(np.int64)


def n_classes(n_symbols: int) -> int:
    """The largest number of classes with tokens; with many symbols, long runs are escaped."""
    return min(MAX_CLASSES, (MAX_TOKENS - 1) // n_symbols)


def n_symbols(classes: int) -> int:
    """The largest number of symbols with tokens, if a table has ``classes`` classes."""
    return (MAX_TOKENS - 1) // classes


def n_tokens(n_symbols: int, classes: int) -> int:
    """The number of tokens of a table, the escape included."""
    return 1 + n_symbols * classes


def symbol_bits(n_symbols: int) -> int:
    """Bits of symbol - 1 after an escape."""
    return (n_symbols - 1).bit_length()
