"""Code tables as rows: they are the record's, and the record's bits can be read with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme import huffman
from lcviz.lab.anatomy import Alphabet, dissect
from lcviz.live.details.code_tables import TokenRow, code_table, token_table

MakeCase = Callable[..., Any]


def bits_of(e: codec.Encoded) -> str:
    """The first stream, first bit first."""
    bits = np.unpackbits(e.payload.words.view(np.uint8), bitorder="little")
    return "".join(map(str, bits[: e.payload.streams[0]]))


def sparse(n: int, share: float, kinds: int, seed: int) -> np.ndarray:
    """A delta of zeros and of values in so many buckets, which shrink by half."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, kinds, n)
    delta = np.where(rng.random(n) < share, 2.0**-kind * (1 - 2 * (kind % 2)), 0)
    delta[:kinds] = 2.0 ** -np.arange(kinds) * (1 - 2 * (np.arange(kinds) % 2))
    return delta.astype(np.float32)


def coded(
    deltas: list[np.ndarray], bits: int | None = None
) -> tuple[codec.Encoded, Alphabet, np.ndarray]:
    """The last of these steps with run lengths: its record, anatomy, exponent-stage codes."""
    tracker = codec.Tracker({"w": np.zeros_like(deltas[0])}, bits)
    for delta in deltas:
        before = tracker.state["w"].copy()
        step = tracker.step({"w": before + delta})
    changes = {"w": (before + deltas[-1]) - before}
    (alphabet,), (codes,) = dissect(changes, step)
    return step.groups[0].encoded, alphabet, codes


@pytest.mark.parametrize(("steps", "bits", "scope"), [(1, 1, "tensor"), (3, None, "model")])
def test_code_table_is_that_of_the_record(
    make_case: MakeCase, steps: int, bits: int | None, scope: str
) -> None:
    """Words, counts and levels are those the record was encoded with, its table new or not."""
    case = make_case(11, bits, scope, coder="huffman", steps=steps)
    alphabets, _ = dissect(case.changes, case.step)
    for alphabet, group, codes in zip(alphabets, case.step.groups, case.codes(), strict=True):
        rows = code_table(alphabet)
        real = group.encoded
        assert [r.word for r in rows] == huffman.code_words(real.code_lengths)
        assert [r.level for r in rows] == real.levels.tolist()
        assert [r.count for r in rows] == np.bincount(codes, minlength=len(rows)).tolist()
        assert [r.symbol for r in rows] == list(range(len(rows)))
        assert (rows[0].exponent, rows[0].sign) == (None, None)
        for row in rows[1:]:
            assert row.exponent is not None
            assert 2.0**row.exponent <= abs(row.level) < 2.0 ** (row.exponent + 1)
            assert row.sign == int(row.level < 0)


def test_a_table_sent_before_is_shown_as_it_was_sent() -> None:
    """Its words are not the best ones for these counts, but those that were written."""
    values = np.array([4.0] * 40 + [1.0] * 20 + [0.0] * 41, np.float32)
    other = np.array([4.0] * 41 + [1.0] * 20 + [0.0] * 40, np.float32)
    tracker = codec.Tracker({"w": np.zeros_like(values)}, 2, coder="huffman")
    tracker.step({"w": values})
    before = tracker.state["w"].copy()
    step = tracker.step({"w": before + other})
    (alphabet,), _ = dissect({"w": other}, step)
    assert step.groups[0].encoded.cached
    counts = [r.count for r in code_table(alphabet)]
    best = huffman.code_words(huffman.code_lengths(np.array(counts)))
    assert [r.word for r in code_table(alphabet)] != best


def test_the_paper_s_table_of_a_record_of_runs() -> None:
    """What the paper would have written instead: the best words for the same counts."""
    _, alphabet, _ = coded([sparse(5000, 0.02, 3, 1)])
    rows = code_table(alphabet)
    counts = np.array([r.count for r in rows])
    assert counts.sum() == 5000
    assert [r.word for r in rows] == huffman.code_words(huffman.code_lengths(counts))


def decoded(bits: str, rows: tuple[TokenRow, ...], n: int) -> tuple[list[int], Counter[str]]:
    """What a stream spells, read with the rows alone: its codes, and how often each word."""
    row_of = {r.word: r for r in rows}
    n_symbols = max(r.symbol or 0 for r in rows)
    codes: list[int] = []
    found: Counter[str] = Counter()
    at = 0

    def take(k: int) -> int:
        """The next k bits, lowest first."""
        nonlocal at
        at += k
        return int(bits[at - k : at][::-1] or "0", 2)

    while at < len(bits):
        width = next(w for w in range(1, 16) if bits[at : at + w] in row_of)
        row = row_of[bits[at : at + width]]
        found[row.word] += 1
        at += width
        first, symbol, extra_bits = row.first, row.symbol, row.extra_bits
        if symbol is None:
            kind = take(7)
            symbol = take((n_symbols - 1).bit_length()) + 1
            power = max(kind // 4, 4)
            extra_bits = 0 if kind < 16 else power - 2
            first = kind if kind < 16 else (4 + kind % 4) << (power - 2)
        codes += [0] * (first + take(extra_bits)) + [symbol]
    return codes + [0] * (n - len(codes)), found


@pytest.mark.parametrize(
    ("share", "kinds", "steps"), [(0.001, 3, 4), (0.02, 1, 1), (0.02, 5, 4), (0.4, 3, 4)]
)
def test_tokens_spell_the_payload(share: float, kinds: int, steps: int) -> None:
    """Reading the payload's bits by the rows alone gives the codes back, escapes among them."""
    deltas = [sparse(20_000, share * (1 + i / 9), kinds, seed=i) for i in range(steps)]
    e, alphabet, stage = coded(deltas)
    rows = token_table(alphabet, stage)
    codes, found = decoded(bits_of(e), rows, 20_000)
    assert codes == codec.decode(e).codes.tolist()
    assert {r.word: r.count for r in rows if r.count} == found
    assert [len(r.word) for r in rows] == sorted(len(r.word) for r in rows)
    for r in rows:
        if r.symbol is not None and r.level is not None:
            assert (r.level, r.sign) == (e.levels[r.symbol], int(r.level < 0))
            assert r.last - r.first + 1 == 2**r.extra_bits
    uncounted = token_table(alphabet)
    assert set(uncounted) == {replace(r, count=None) for r in rows}


def test_escapes_are_counted() -> None:
    """A table sent before has no word for what is new: those runs are the escape's."""
    first = np.zeros(2000, np.float32)
    first[::10] = 1.0
    second = first.copy()
    second[5] = 1.0  # runs of 4 zeros, which the first step has not
    e, alphabet, stage = coded([first, second])
    assert e.cached
    rows = token_table(alphabet, stage)
    codes, found = decoded(bits_of(e), rows, 2000)
    assert codes == codec.decode(e).codes.tolist()
    assert {r.word: r.count for r in rows if r.count} == found
    (escape,) = (r for r in rows if r.symbol is None)
    assert (escape.count, escape.extra_bits) == (2, 7)


def test_a_table_for_more_symbols_than_there_are_now() -> None:
    """The last checkpoint had a level that this one has not: its tokens have no level."""
    first = np.zeros(3000, np.float32)
    first[::10] = 1.0
    second = first.copy()
    first[1] = -0.5
    _, alphabet, stage = coded([first, second])
    assert alphabet.encoded.cached
    assert alphabet.n_kept == 1
    rows = token_table(alphabet, stage)
    strange = [r for r in rows if r.symbol == 2]
    assert strange
    assert all((r.level, r.sign, r.count) == (None, None, 0) for r in strange)
