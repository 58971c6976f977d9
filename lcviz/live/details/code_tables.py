"""Code tables as rows: of single values, as in the paper, and of runs of zeros with a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.inspect import huffman, runlength
from lcviz.lab.anatomy import Alphabet
from lcviz.lab.codewords import runs_of, tokens_of


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


@dataclass(frozen=True)
class TokenRow:
    """One line of a run-length table: a run of zeros and the level that ends it.

    token: its index in the table; 0 is the escape, for every run without a word. symbol: of the
    level, from 1; None for the escape. level, sign: None for the escape and for a symbol that this
    record does not use. first, last: the shortest and the longest run. count:
    occurrences, None if not counted. extra_bits: bits after the word; for the escape their minimum.
    """

    token: int
    symbol: int | None
    level: float | None
    sign: int | None
    first: int
    last: int
    count: int | None
    word: str
    extra_bits: int


def code_table(alphabet: Alphabet) -> tuple[CodeRow, ...]:
    """The paper's table of single values, by level: the record's own, else one for its counts."""
    counts = alphabet.counts(alphabet.n_kept)
    table = alphabet.encoded.table
    lengths = table.lengths if table and table.classes == 1 else huffman.code_lengths(counts)
    words = huffman.code_words(lengths)
    buckets = zip(range(1, counts.size), alphabet.buckets)
    return (
        CodeRow(0, 0.0, None, None, int(counts[0]), words[0]),
        *(
            CodeRow(i, float(b.representative), b.exponent, b.sign, b.count, words[i])
            for i, b in buckets
        ),
    )


def token_table(
    alphabet: Alphabet, codes: NDArray[np.unsignedinteger] | None = None
) -> tuple[TokenRow, ...]:
    """The record's table of runs: every token with a code word, shortest words first.

    Args:
        alphabet: Its table has more than one class.
        codes: (n,), of the exponent stage; without them nothing is counted.
    """
    table, n_kept = alphabet.encoded.table, alphabet.n_kept
    assert table is not None, "there is a table to show"
    assert table.classes > 1, "the table is one of runs"
    words, counts = huffman.code_words(table.lengths), None
    if codes is not None:
        _, tokens, _ = tokens_of(alphabet.encoded, np.where(codes <= n_kept, codes, 0))
        counts = np.bincount(tokens, minlength=len(words)).tolist()
    escape_bits = runlength.CLASS_BITS + runlength.symbol_bits(n_kept)
    rows = [TokenRow(0, None, None, None, 0, 0, counts and counts[0], words[0], escape_bits)]
    for token in (np.flatnonzero(table.lengths[1:]) + 1).tolist():
        symbol, first, last = runs_of(table, token)
        bucket = alphabet.buckets[symbol - 1] if symbol <= n_kept else None
        level, sign = (bucket.representative, bucket.sign) if bucket else (None, None)
        count, extra_bits = counts and counts[token], (last - first).bit_length()
        rows.append(
            TokenRow(token, symbol, level, sign, first, last, count, words[token], extra_bits)
        )
    return tuple(sorted(rows, key=lambda row: (len(row.word), -(row.count or 0), row.token)))
