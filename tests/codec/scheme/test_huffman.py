"""The canonical code: exact words, ties, the one-symbol alphabet, the limit, packed lengths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xxhash
from hypothesis import example, given
from hypothesis import strategies as st

import codec
from codec.errors import CodeTableError
from codec.scheme import huffman
from codec.scheme.huffman import Node
from tests.codec.scheme.made import lengths

U8 = np.uint8


def test_worked_example(paper: np.ndarray, huffman_total: Callable[[list[int]], int]) -> None:
    """PAPER.md: 0 -> 1 bit, 0.79 -> 2, 0.44 and -0.48 -> 3, 18 bits; E alone 23; entropy 17.61."""
    counts = codec.quantize(paper, 2).counts
    assert counts.tolist() == [5, 2, 1, 2]
    got = huffman.code_lengths(counts)
    assert got.tolist() == [1, 2, 3, 3]
    assert huffman.code_words(got) == ["0", "10", "110", "111"]
    assert huffman.n_bits(counts, got) == 18
    assert round(huffman.entropy(counts), 2) == 17.61
    alone = codec.quantize(paper).counts
    assert huffman.n_bits(alone, huffman.code_lengths(alone)) == huffman_total(alone.tolist()) == 23


def test_logarithms_have_the_same_bits_on_every_processor() -> None:
    """Those of np.log2 differ with and without AVX-512."""
    values = np.arange(1, 30000) / 7
    got = huffman.log2(values)
    np.testing.assert_allclose(got, np.log2(values), rtol=4e-16, atol=4e-16)
    assert xxhash.xxh3_64_hexdigest(got) == "524d2e6c691a3a9f"


def test_tight_limits() -> None:
    assert huffman.code_lengths(np.array([100, 1, 1, 1]), limit=2).tolist() == [2, 2, 2, 2]
    with pytest.raises(CodeTableError, match="5 symbols cannot all have code words of at"):
        huffman.code_lengths(np.ones(5, np.int64), limit=2)


def coin_collector(counts: list[int], limit: int) -> list[int]:
    """Package-merge as a coin collector does it: every coin is a weight and its symbols."""
    used = sorted((i for i, n in enumerate(counts) if n), key=lambda i: (counts[i], -i))
    coins = [(counts[i], [i]) for i in used]
    row = coins
    for _ in range(limit - 1):
        packages = [(a[0] + b[0], a[1] + b[1]) for a, b in zip(row[::2], row[1::2])]
        row = sorted(coins + packages, key=lambda coin: coin[0])  # stable: coins before packages
    wanted = [i for _, symbols in row[: max(2 * len(used) - 2, 0)] for i in symbols]
    return [wanted.count(i) for i in range(len(counts))]


@given(
    st.lists(st.one_of(st.integers(0, 5), st.integers(0, 10**6)), max_size=24), st.integers(5, 15)
)
@example([2**i for i in range(24)], 5)
@example([1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584], 15)
def test_lengths_against_coin_collector(counts: list[int], limit: int) -> None:
    got = huffman.code_lengths(np.array(counts, np.int64), limit)
    assert (got.dtype, got.tolist()) == (U8, coin_collector(counts, limit))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
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


def test_words_beyond_the_limit_are_refused() -> None:
    """The kernel counts words of at most 15 bits: more would be written out of its bounds."""
    table = huffman.code_lengths(np.array([2**i for i in range(17)]), limit=16)
    for use in (huffman.code_words, huffman.tree):
        with pytest.raises(CodeTableError, match="a code word of 16 bits; at most 15 are"):
            use(table)
    with pytest.raises(CodeTableError, match=r"\[1, 2\] are not a complete prefix code"):
        huffman.tree(lengths(1, 2))


# Packed lengths.


@pytest.mark.parametrize(
    ("table", "packed"),
    [
        ((1, 2, 3, 3), "0000 1000  010 010 1"),  # the first one as it is: it is far from 8
        ((2, 2, 2, 1, 0, 0), "0000 0100  1 1 001"),  # zeros at the end are left out
        ((8, 7, 9, 7, 8, 15), "1 001 00010 00011 010  0000 1111"),
        ((1, 0, 1), "0000 1000  011 1  1"),  # one zero, then the same as before it
        ((1, 0, 0, 2, 2), "0000 1000  011 01 0  010 1"),
        ((0, 0, 0, 9), "011 01 1  010"),
        ((0,) * 22 + (8,), "011 00001 0110  1"),  # 16 + 0 * 1 + 1 * 2 + 1 * 4 + 0 * 8
        ((8,) * 8, "1 1 1 1 1 1 1 1"),
        ((0, 0, 0), ""),
        ((), ""),
    ],
)
def test_exact_bits_of_lengths(table: tuple[int, ...], packed: str) -> None:
    got = huffman.pack_lengths(lengths(*table))
    assert got.dtype == U8
    bits = packed.replace(" ", "")
    assert got.tobytes() == bytes(int(bits[i : i + 8][::-1], 2) for i in range(0, len(bits), 8))
    assert huffman.unpack_lengths(got, len(table)).tolist() == list(table)
    assert huffman.unpack_lengths(got, len(table) + 9).tolist() == [*table, *[0] * 9]


@given(st.lists(st.one_of(st.just(0), st.integers(0, 15)), max_size=200), st.integers(0, 4000))
def test_packed_lengths_come_back(table: list[int], zeros: int) -> None:
    table = table + [0] * zeros + table
    packed = huffman.pack_lengths(lengths(*table))
    assert packed.size <= len(table)
    assert huffman.unpack_lengths(packed, len(table)).tolist() == table
    used = len(table)
    while used and not table[used - 1]:
        used -= 1
    if used:  # the last length that is not 0 has no room
        with pytest.raises(CodeTableError, match=f"not a list of at most {used - 1} code"):
            huffman.unpack_lengths(packed, used - 1)
