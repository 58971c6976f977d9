"""The lossless stage: the code of single values, or of runs of zeros, as a tree and as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from codec.inspect import huffman
from lcviz.lab.anatomy import Alphabet
from lcviz.text import exponent_text, minus, nbytes_text, plural
from lcviz.ui.charts import Panel

from .code_tables import CodeRow, TokenRow
from .huffman_tree_figure import huffman_tree


def code_panel(rows: Sequence[CodeRow], alphabet: Alphabet, name: str) -> Panel:
    """The code of single values: levels, counts, code words, and their tree.

    Args:
        rows: From `code_table`.
        alphabet: The alphabet of the code.
        name: Of the alphabet, for the sentence.
    """
    counts = np.array([r.count for r in rows], np.int64)
    lengths = np.array([len(r.word) for r in rows], np.uint8)
    n, word_bits = int(counts.sum()), huffman.n_bits(counts, lengths)
    tree = huffman_tree(
        huffman.tree(lengths), lambda s: (_level_text(rows[s].level), rows[s].sign), "level", 150
    )
    if not lengths.any():
        sentence = f"{name}: a single symbol, so no bits are needed at all."
    else:
        if alphabet.encoded.table is not None and alphabet.encoded.table.classes == 1:
            cost = _cost(alphabet)
        else:
            table_bytes = plural(huffman.pack_lengths(lengths).size, "byte")
            cost = (
                "This record was not written with it: the paper's code would take "
                f"{nbytes_text(word_bits / 8)} of words and a table of {table_bytes}."
            )
        sentence = (
            f"{name}: {sum(counts > 0)} symbols, {word_bits / n:.4f} bits a value on average; the "
            f"entropy is {huffman.entropy(counts) / n:.4f}. {cost}"
        )
    table = pd.DataFrame(
        {
            "symbol": [r.symbol for r in rows],
            "bucket": [
                "zero" if r.exponent is None else exponent_text(r.exponent, r.sign) for r in rows
            ],
            "level": [minus(f"{r.level:.6g}") for r in rows],
            "count": [r.count for r in rows],
            "share, %": [round(100 * r.count / n, 3) for r in rows],
            "bits": [len(r.word) for r in rows],
            "code word": [r.word or "(none)" for r in rows],
        }
    )
    return _panel("Huffman code of single values (paper)", sentence, tree, "The code", table)


def token_panel(rows: Sequence[TokenRow], alphabet: Alphabet, name: str) -> Panel:
    """The code of tokens, each a run of zeros and the level that ends it.

    Args:
        rows: From `token_table`.
        alphabet, name: As for `code_panel`.
    """
    assert alphabet.encoded.table is not None, "tokens have a table"
    by_token = {r.token: r for r in rows}
    tree = huffman_tree(
        huffman.tree(alphabet.encoded.table.lengths),
        lambda t: (token_text(by_token[t]), by_token[t].sign),
        "token",
        230,
    )
    counts = alphabet.counts(alphabet.n_kept)
    n_values, escaped = int(counts[1:].sum()), by_token[0].count
    sentence = (
        f"{name}: {n_values:,} of {alphabet.n:,} values are not 0, each one token with the zeros "
        f"before it: {alphabet.encoded.payload_bits / alphabet.n:.4f} bits per value; the entropy "
        f"is {huffman.entropy(counts) / alphabet.n:.4f}. {_cost(alphabet)}"
    )
    if escaped:
        sentence += f" {plural(escaped, 'rare run')} used the escape code."
    columns: dict[str, list[object]] = {
        "token": [token_text(r) for r in rows],
        "code word": [r.word for r in rows],
        "bits": [len(r.word) for r in rows],
        "extra bits": [f"{'≥ ' if r.symbol is None else ''}{r.extra_bits}" for r in rows],
    }
    if escaped is not None:  # the tokens are counted
        columns["count"] = [r.count for r in rows]
    title = "Run-length Huffman code: zeros, and the level that ends them"
    return _panel(title, sentence, tree, "The code of runs", pd.DataFrame(columns))


def token_text(row: TokenRow) -> str:
    """A token in words: '16–19 zeros, +0.79'."""
    if row.symbol is None:
        return "escape: any other run"
    run = str(row.first) if row.first == row.last else f"{row.first}–{row.last}"
    zeros = "no zero" if row.last == 0 else "1 zero" if row.last == 1 else f"{run} zeros"
    level = f"level {row.symbol}" if row.level is None else _level_text(row.level)
    return f"{zeros}, {level}"


def _panel(title: str, sentence: str, tree: go.Figure, noun: str, table: pd.DataFrame) -> Panel:
    alt = f"{noun} as a binary tree; the table below has the same words."
    return Panel(title, sentence, tree, alt, table)


def _cost(alphabet: Alphabet) -> str:
    """What a record's words and table cost, and whether the table is new."""
    e = alphabet.encoded
    words = nbytes_text(e.payload_bits / 8)
    if e.cached:
        saved = nbytes_text(e.saved_bits / 8)
        return f"The last table is reused, which saved {saved}: only {words} of words."
    return f"The table is new: {plural(e.table_nbytes, 'byte')} and {words} of words."


def _level_text(level: float) -> str:
    return minus(f"{level:+.3g}") if level else "zero"
