"""Code tables as rows: of single values, as in the paper, and of runs of zeros with a value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codec.inspect import huffman, runlength
from lcviz.lab.anatomy import Alphabet


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
    level, from 1; None for the escape. level, exponent, sign: None for the escape and for a symbol
    that this record does not use. first, last: the shortest and the longest run. count:
    occurrences, None if not counted. extra_bits: bits after the word; for the escape their minimum.
    """

    token: int
    symbol: int | None
    level: float | None
    exponent: int | None
    sign: int | None
    first: int
    last: int
    count: int | None
    word: str
    extra_bits: int


def code_table(alphabet: Alphabet) -> tuple[CodeRow, ...]:
    """The paper's table of single values, by level: the record's own, else one for its counts."""
    counts = alphabet.counts(alphabet.n_kept)
    table = alphabet.table
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
    table, n_kept, buckets = alphabet.table, alphabet.n_kept, alphabet.buckets
    assert table is not None, "there is a table to show"
    assert table.classes > 1, "the table is one of runs"
    counts = None
    if codes is not None:
        counts = token_counts(codes, n_kept, alphabet.encoded.stream_elements)
    words, levels = huffman.code_words(table.lengths), buckets.representative
    rows = []
    for token in (np.flatnonzero(table.lengths[1:]) + 1).tolist():
        symbol, kind = divmod(token - 1, table.classes)
        used = symbol < n_kept
        count = None if counts is None else int(counts[symbol, kind]) if used else 0
        first, extra_bits = int(runlength.FIRST_RUN[kind]), int(runlength.EXTRA_BITS[kind])
        rows.append(
            TokenRow(
                token,
                symbol + 1,
                float(levels[symbol]) if used else None,
                int(buckets.exponent[symbol]) if used else None,
                int(buckets.sign[symbol]) if used else None,
                first,
                first + 2**extra_bits - 1,
                count,
                words[token],
                extra_bits,
            )
        )
    escaped = None
    if counts is not None:
        escaped = int(counts.sum()) - sum(row.count or 0 for row in rows)
    escape_bits = runlength.CLASS_BITS + runlength.symbol_bits(n_kept)
    rows.append(TokenRow(0, None, None, None, None, 0, 0, escaped, words[0], escape_bits))
    return tuple(sorted(rows, key=lambda row: (len(row.word), -(row.count or 0), row.token)))


def token_counts(
    codes: NDArray[np.unsignedinteger], n_kept: int, stream_elements: int
) -> NDArray[np.int64]:
    """Count how often each symbol follows a run of each class.

    Args:
        codes: (n,), of the exponent stage; codes above ``n_kept`` count as zeros.
        n_kept: Number of symbols that are not zero.
        stream_elements: Elements of a stream. No run begins before its stream.

    Returns:
        int64 (n_kept, classes).
    """
    positions = np.flatnonzero((codes > 0) & (codes <= n_kept))
    begin = np.zeros_like(positions)
    begin[1:] = positions[:-1] + 1
    runs = positions - np.maximum(begin, positions // stream_elements * stream_elements)
    kinds = np.searchsorted(runlength.FIRST_RUN, runs, side="right") - 1
    classes = runlength.FIRST_RUN.size
    flat = (codes[positions].astype(np.int64) - 1) * classes + kinds
    return np.bincount(flat, minlength=n_kept * classes).reshape(n_kept, classes)
