"""The canonical code: exact words, ties, the one-symbol alphabet, the limit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import codec
from codec import huffman
from codec.huffman import Node

U8 = np.uint8


def lengths(*values: int) -> np.ndarray:
    return np.array(values, U8)


def test_worked_example(paper: np.ndarray, huffman_total: Callable[[list[int]], int]) -> None:
    """PAPER.md: 0 -> 1 bit, 0.79 -> 2, 0.44 and -0.48 -> 3, 18 bits; E alone 23; entropy 17.61."""
    counts = codec.quantize(paper, 2).counts
    assert counts.tolist() == [5, 2, 1, 2]
    found = huffman.code_lengths(counts)
    assert found.tolist() == [1, 2, 3, 3]
    assert huffman.code_words(found) == ["0", "10", "110", "111"]
    assert huffman.n_bits(counts, found) == 18
    assert round(huffman.entropy(counts), 2) == 17.61
    alone = codec.quantize(paper).counts
    assert huffman.n_bits(alone, huffman.code_lengths(alone)) == huffman_total(alone.tolist()) == 23


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1, 1], ["0", "1"]),
        ([1, 9], ["0", "1"]),
        ([1, 1, 1], ["0", "10", "11"]),  # tie: the smaller index is the shorter
        ([1, 1, 2], ["10", "11", "0"]),
        ([1, 1, 1, 1], ["00", "01", "10", "11"]),
        ([0, 3, 0, 3, 3], ["", "0", "", "10", "11"]),  # absent symbols have no word
        ([8, 4, 2, 1, 1], ["0", "10", "110", "1110", "1111"]),
        ([1, 1, 2, 4, 8], ["1110", "1111", "110", "10", "0"]),
    ],
)
def test_exact_words(counts: list[int], expected: list[str]) -> None:
    assert huffman.code_words(huffman.code_lengths(np.array(counts))) == expected


@pytest.mark.parametrize("counts", [[], [0], [5], [0, 7], [0, 0]])
def test_fewer_than_two_symbols_have_no_words(counts: list[int]) -> None:
    found = huffman.code_lengths(np.array(counts, np.int64))
    assert found.tolist() == [0] * len(counts)
    assert huffman.code_words(found) == [""] * len(counts)


def test_one_symbol_stream() -> None:
    """No bits; every element is the last code."""
    for k, code in ((1, 0), (2, 1)):
        table = np.zeros(k, U8)
        codes = np.full(5, code, U8)
        payload = huffman.encode_codes(codes, table, 0)
        assert payload.size == 0
        assert huffman.decode_codes(payload, 0, table, 5).tolist() == codes.tolist()
    with pytest.raises(codec.StreamError, match="do not make 0 bits"):
        huffman.encode_codes(np.zeros(5, U8), np.zeros(2, U8), 0)


def test_bit_order_of_payload(paper: np.ndarray) -> None:
    q = codec.quantize(paper, 2)
    assert huffman.encode_codes(q.codes, lengths(1, 2, 3, 3), 18).tobytes().hex() == "0df700"


def test_limit_binds_on_fibonacci_counts(huffman_total: Callable[[list[int]], int]) -> None:
    """Fibonacci counts make the deepest tree: 24 symbols want 23 bits and get 15."""
    counts = [1, 1]
    while len(counts) < 24:
        counts.append(counts[-1] + counts[-2])
    found = huffman.code_lengths(np.array(counts))
    assert found.max() == 15
    assert sum(2.0 ** -int(n) for n in found) == 1.0
    best = huffman_total(counts)
    assert best < huffman.n_bits(np.array(counts), found) < best * 1.001
    free = huffman.code_lengths(np.array(counts), limit=23)
    assert free.max() == 23
    assert huffman.n_bits(np.array(counts), free) == best


def test_tight_limits() -> None:
    assert huffman.code_lengths(np.array([100, 1, 1, 1]), limit=2).tolist() == [2, 2, 2, 2]
    with pytest.raises(codec.CodeTableError, match="5 symbols cannot all have code words of at"):
        huffman.code_lengths(np.ones(5, np.int64), limit=2)


counts_lists = st.lists(st.integers(0, 1000), min_size=1, max_size=40)


@given(counts_lists)
@example([2**40, 1, 2**40, 1])
@example([1] * 511)
def test_optimal_and_complete(huffman_total: Callable[[list[int]], int], counts: list[int]) -> None:
    array = np.array(counts, np.int64)
    found = huffman.code_lengths(array)
    assert found.dtype == U8
    if (array > 0).sum() < 2:
        assert not found.any()
        return
    assert ((found > 0) == (array > 0)).all()
    assert sum(2.0 ** -int(n) for n in found if n) == 1.0
    assert huffman.n_bits(array, found) == huffman_total(counts)
    assert huffman.entropy(array) <= huffman.n_bits(array, found) + 1e-6
    for i, n in enumerate(
        counts
    ):  # rarer is never shorter; among equals the larger index is longer
        for j in range(i + 1, len(counts)):
            if n and n == counts[j]:
                assert found[i] <= found[j]


@given(counts_lists)
def test_tree_and_words_agree(counts: list[int]) -> None:
    table = huffman.code_lengths(np.array(counts, np.int64))
    if not table.any():
        table = table[:1]
    words = huffman.code_words(table)

    def leaves(node: Node, path: str) -> dict[int, str]:
        assert node.word == path
        if node.symbol is not None:
            assert node.zero is None
            assert node.one is None
            return {node.symbol: path}
        assert node.zero is not None
        assert node.one is not None
        return leaves(node.zero, path + "0") | leaves(node.one, path + "1")

    expected = {i: w for i, w in enumerate(words) if w} or {table.size - 1: ""}
    assert leaves(huffman.tree(table), "") == expected


@given(counts_lists)
def test_canonical(counts: list[int]) -> None:
    """Sorted by (length, symbol), words rise as binary fractions; no one begins another."""
    words = huffman.code_words(huffman.code_lengths(np.array(counts, np.int64)))
    used = [w for _, _, w in sorted((len(w), i, w) for i, w in enumerate(words) if w)]
    assert used == sorted(used)
    assert not any(b.startswith(a) for a, b in pairwise(used))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (lengths(), "a code table has 1 to 65536 levels, not 0"),
        (lengths(0, 0, 0), "3 levels cannot all lack a code word"),
        (lengths(1, 16), "a code word of 16 bits; at most 15 are allowed"),
        (lengths(1, 2), r"\[1, 2\] are not a complete prefix code"),
        (lengths(1, 1, 1), r"\[1, 1, 1\] are not a complete prefix code"),
        (lengths(1, 0), r"\[1, 0\] are not a complete prefix code"),
        (np.ones(70_000, U8), "1 to 65536 levels, not 70000"),
        (np.array([1, 1, -3]), "code lengths are uint8"),
        (np.ones((2, 1), U8), r"code lengths are uint8 \(k,\), not uint8 \(2, 1\)"),
    ],
)
def test_tables_that_are_no_code(table: np.ndarray, message: str) -> None:
    with pytest.raises(codec.CodeTableError, match=message):
        huffman.decode_codes(np.zeros(1, U8), 2, table, 2)
    with pytest.raises(codec.CodeTableError, match=message):
        huffman.tree(table)


@pytest.mark.parametrize(
    ("payload", "bits", "n", "message"),
    [
        ([0x0D, 0xF7, 0], 17, 10, "17 bits end before 10 code words"),
        ([0x0D, 0xF7, 0], 18, 9, "18 bits go on after 9 code words"),
        ([0x0D, 0xF7, 0], 18, 19, "18 bits end before 19 code words"),
        ([0x0D, 0xF7, 0], 18, 2**60, "18 bits end before"),
        ([0x0D, 0xF7, 0x80], 18, 10, "the unused bits after the last code word are not zero"),
        ([0x0D, 0xF7], 18, 10, "18 bits need 3 bytes, found 2"),
        ([], -1, 0, "-1 bits need 0 bytes, found 0"),
        ([0xFF], 2**64 - 1, 4, "bytes, found 1"),
        ([0x03], 2, 1, "2 bits end before 1 code words"),
    ],
)
def test_streams_that_do_not_agree(payload: list[int], bits: int, n: int, message: str) -> None:
    with pytest.raises(codec.StreamError, match=message):
        huffman.decode_codes(np.array(payload, U8), bits, lengths(1, 2, 3, 3), n)


def test_one_symbol_streams_that_do_not_agree() -> None:
    with pytest.raises(codec.StreamError, match="a one-symbol alphabet has no code bits, found 1"):
        huffman.decode_codes(np.zeros(1, U8), 1, lengths(0), 1)
    for n in (2**62, 2**64):  # no bits bound it, so only memory can
        with pytest.raises(codec.StreamError, match=f"no memory for {n} codes"):
            huffman.decode_codes(np.zeros(0, U8), 0, lengths(0), n)


def test_encoder_never_writes_out_of_bounds() -> None:
    """Codes that do not fit the table or the bits are an error, not a crash."""
    for codes, bits in (([0, 1, 4], 3), ([3] * 1000, 18), ([0, 0], 18), ([0] * 8, 1)):
        with pytest.raises(codec.StreamError, match=f"do not make {bits} bits"):
            huffman.encode_codes(np.array(codes, U8), lengths(1, 2, 3, 3), bits)
    with pytest.raises(codec.StreamError, match="do not make 2 bits"):  # symbol 1 has no word
        huffman.encode_codes(np.array([0, 1, 2], U8), lengths(1, 0, 1), 2)
