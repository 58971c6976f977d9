"""Prefix codes: bit by bit as a slow coder writes them; and how small run-length tokens are."""

from __future__ import annotations

import bisect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec.errors import StreamError
from codec.scheme import huffman, prefix, runlength
from codec.scheme.tables import CodeTable
from tests.codec.scheme.made import given as a_table
from tests.codec.scheme.made import lengths, quantized, sparse

UNIT = 2**16
MAX_STREAM = 2**21
U32 = np.uint32

# The docstring of codec/runlength.py once more, as a list: first run and extra bits of a class.
CLASSES = [(run, 0) for run in range(16)]
for bits in range(2, 19):
    for _ in range(4):
        CLASSES.append((CLASSES[-1][0] + (1 << CLASSES[-1][1]), bits))


def lowest_first(value: int, n_bits: int) -> str:
    return format(value, f"0{n_bits}b")[::-1] if n_bits else ""


def slowly(codes: np.ndarray, e: codec.Encoded) -> tuple[list[int], list[int]]:
    """Payload words and bits of each stream, from strings of '0' and '1'."""
    assert e.table is not None
    table, n_symbols = e.table, e.levels.size - 1
    words = huffman.code_words(table.lengths)
    payload, streams = [], []
    for begin in range(0, codes.size, e.payload.stream_elements):
        stream = codes[begin : begin + e.payload.stream_elements]
        bits = ""
        if table.classes == 1:
            bits = "".join([words[c] for c in stream.tolist()])
        else:
            after = 0
            for at in np.flatnonzero(stream).tolist():
                symbol, run = int(stream[at]), at - after
                after = at + 1
                kind = bisect.bisect_right(CLASSES, (run, 99)) - 1
                first, extra_bits = CLASSES[kind]
                token = 1 + (symbol - 1) * table.classes + kind
                if kind < table.classes and token < len(words) and words[token]:
                    bits += words[token]
                else:
                    size = (n_symbols - 1).bit_length()
                    bits += words[0] + lowest_first(kind, 7) + lowest_first(symbol - 1, size)
                bits += lowest_first(run - first, extra_bits)
        streams.append(len(bits))
        payload += [int(bits[j : j + 32][::-1], 2) for j in range(0, len(bits), 32)]
    return payload, streams


def check_slowly(
    q: codec.Quantized, table: CodeTable | None = None, coder: str = "runlength"
) -> codec.Encoded:
    """Encode, with the table given or chosen, compare, and decode."""
    with a_table(table):
        e = codec.encode(q, coder)
    assert (e.coder, e.cached, e.saved_bits) == (coder, False, 0)
    assert (e.shape, e.bits, e.levels.tobytes()) == (q.shape, q.bits, q.levels.tobytes())
    assert e.table is not None
    assert table is None or e.table is table
    if coder == "huffman":
        assert (e.table.classes, e.payload.stream_elements) == (1, UNIT)
        assert e.table.lengths.tolist() == huffman.code_lengths(q.counts).tolist()
    payload, streams = slowly(q.codes.reshape(-1), e)
    assert (e.payload.words.dtype, e.payload.streams.dtype) == (U32, U32)
    assert e.payload.streams.tolist() == streams
    assert e.payload.words.tolist() == payload
    back = codec.decode(e)
    assert back.codes.dtype == q.codes.dtype
    assert back.codes.tobytes() == q.codes.tobytes()
    return e


# Classes.


# Against the slow coder.


runs = st.one_of(
    st.integers(0, 20),
    st.sampled_from([first + d for first, _ in CLASSES[16:48] for d in (-1, 0, 1)]),
)
lists_of_tokens = st.lists(st.tuples(runs, st.integers(1, 6)), min_size=1, max_size=40)


@given(lists_of_tokens, st.integers(0, 70))
def test_tokens_of_any_kind(tokens: list[tuple[int, int]], zeros: int) -> None:
    codes = [c for run, symbol in tokens for c in [*[0] * run, symbol]] + [0] * zeros
    if len(set(codes)) > 1:
        check_slowly(quantized(codes))


CODERS = st.sampled_from(["runlength", "huffman"])


@given(st.integers(2, 900), st.integers(2, 511), st.floats(0, 1), st.integers(0, 2**32 - 1), CODERS)
def test_codes_of_any_density(n: int, k: int, density: float, seed: int, coder: str) -> None:
    rng = np.random.default_rng(seed)
    symbols = np.minimum(rng.geometric(0.3, n), k - 1) if seed % 2 else rng.integers(1, k, n)
    codes = np.where(rng.random(n) < density, symbols, 0)
    codes[:2] = 0, 1
    check_slowly(quantized(codes), coder=coder)


def random_table(rng: np.random.Generator, n_symbols: int, classes: int) -> CodeTable:
    """Any complete code with an escape; many tokens have no word, some have one of 15 bits."""
    counts = 2 ** rng.integers(0, 20, runlength.n_tokens(n_symbols, classes))
    counts[rng.random(counts.size) < rng.random()] = 0
    counts[:2] = 2 ** rng.integers(0, 20, 2)
    return CodeTable(huffman.code_lengths(counts), classes)


@settings(max_examples=80)
@given(lists_of_tokens, st.integers(1, 9), st.integers(2, 84), st.integers(0, 2**32 - 1))
def test_tokens_with_any_table(
    tokens: list[tuple[int, int]], n_symbols: int, classes: int, seed: int
) -> None:
    """Of more symbols or fewer, of more classes or fewer: what has no word escapes."""
    codes = [c for run, symbol in tokens for c in [*[0] * run, symbol]]
    if len(set(codes)) > 1:
        table = random_table(np.random.default_rng(seed), n_symbols, classes)
        check_slowly(quantized(codes), table)


def test_longest_code_words() -> None:
    """Fibonacci counts: the words of the rarest codes have 15 bits, and the commonest is not 0."""
    counts = [1, 1]
    while len(counts) < 22:
        counts.append(counts[-1] + counts[-2])
    for order in (counts, counts[::-1]):
        codes = np.random.default_rng(0).permutation(np.repeat(np.arange(22), order))
        e = check_slowly(quantized(codes), coder="huffman")
        assert e.table is not None
        assert e.table.lengths.max() == 15


@pytest.mark.parametrize("coder", ["runlength", "huffman"])
@pytest.mark.parametrize("n", [63, 64, 65, 256, 257, UNIT - 1, UNIT, UNIT + 1, 2 * UNIT + 77])
def test_edges_of_units(n: int, coder: str) -> None:
    """With 0.97 the word of code 0 is long and not all zeros: no skipping over runs then."""
    for density in (0.0005, 0.05, 0.6, 0.97, 1) if n < 300 else (0.002, 0.97):
        rng = np.random.default_rng(n)
        codes = np.where(rng.random(n) < density, np.minimum(rng.geometric(0.5, n), 7), 0)
        codes[[0, -1]] = 1, 7
        e = check_slowly(quantized(codes), coder=coder)
        if density == 0.97 and n > 1000 and coder == "huffman":
            assert e.table is not None
            assert huffman.code_words(e.table.lengths)[0].strip("0")


def test_more_streams_than_lanes() -> None:
    """Four streams are read in turn, others one by one; one of them ends early, one is empty,
    and their lists of 2048 symbols fill up at different times."""
    rng = np.random.default_rng(1)
    n = 7 * UNIT + 3
    codes = np.where(rng.random(n) < 0.1, rng.integers(1, 4, n), 0)
    codes[UNIT : 2 * UNIT] = 0
    codes[2 * UNIT + 50 : 3 * UNIT] = 0
    codes[5 * UNIT : 6 * UNIT : 3] = 2
    for coder in ("runlength", "huffman"):
        assert check_slowly(quantized(codes), coder=coder).payload.streams.size == 8
    # the same with escapes in the midst of all lanes
    few = CodeTable(huffman.code_lengths(2 ** np.arange(13)[::-1]), 12)
    check_slowly(quantized(codes), few)


@pytest.mark.parametrize("units", [2, 4, 32])
def test_units_of_a_stream(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "stream_units", lambda n, n_symbols: units)
    rng = np.random.default_rng(units)
    for density in (2e-5, 0.05):
        n = 9 * UNIT + 1
        codes = np.where(rng.random(n) < density, rng.integers(1, 4, n), 0)
        codes[[2 * UNIT - 1, 4 * UNIT, n - 1]] = 1, 2, 3
        e = check_slowly(quantized(codes))
        assert e.payload.stream_elements == units * UNIT
        assert e.payload.streams.size == -(-n // (units * UNIT))


def test_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """First and last run of all 84 classes, each in its own word and after an escape."""
    monkeypatch.setattr(prefix, "stream_units", lambda n, n_symbols: 32)
    its = CodeTable(huffman.code_lengths(np.ones(85, np.int64)), 84)
    escaped = CodeTable(lengths(1, 1, 0), 2)
    for first, extra_bits in CLASSES:
        last = first + (1 << extra_bits) - 1
        for run in {first, last}:
            n = run + 3
            q = quantized((np.arange(n) == run).astype(np.uint8))
            e = codec.encode(q, "runlength")
            for table in (its, escaped) if n < 5000 or run == last else ():
                e = check_slowly(q, table)
                assert e.payload.streams.size == -(-n // MAX_STREAM)
            assert codec.decode(e).codes.tobytes() == q.codes.tobytes()


def test_longest_token_at_every_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """15 bits of word and 18 open ones, written from bit 31 of a word on, make 64 bits."""
    monkeypatch.setattr(prefix, "stream_units", lambda n, n_symbols: 32)
    # A token after no zeros takes one bit.
    table = CodeTable(lengths(2, 1, *range(3, 15), *[0] * 69, 15, 15), 84)
    longest = (1 << 18) - 1 + CLASSES[82][0]
    for n_ones in (0, *range(13, 33)):
        codes = np.zeros(longest + n_ones + 2, np.uint8)
        codes[[*range(n_ones), n_ones + longest, -1]] = 1
        e = check_slowly(quantized(codes), table)
        assert e.payload.streams.tolist() == [n_ones + 33 + 1]


def test_classes_that_do_not_exist() -> None:
    """7 bits could name 128 of them; a stream that does leads beyond its own end."""
    escape = CodeTable(lengths(1, 1, 0), 2)
    e = check_slowly(quantized([0, 1]), escape)
    for kind in range(128):
        words = np.array([int(("0" + lowest_first(kind, 7) + "0" * 18)[::-1], 2)], U32)
        streams = np.array([8 + (CLASSES[kind][1] if kind < 84 else 0)], U32)
        payload = replace(e.payload, words=words, streams=streams, stream_elements=MAX_STREAM)
        changed = replace(e, payload=payload, shape=(MAX_STREAM,))
        if kind < 84:
            assert np.flatnonzero(codec.decode(changed).codes).tolist() == [CLASSES[kind][0]]
        else:
            with pytest.raises(StreamError, match=r"go on after 2097152 el|ends within a token"):
                codec.decode(changed)


# How small.


def test_never_larger_where_padding_decides() -> None:
    """One bit less, but in one word more; one byte less of bits, but more of table."""
    for n in range(2, 80):
        for at in {0, n // 3, n - 1}:
            q = quantized(sparse(n, {at: 1}))
            assert codec.encode(q, "runlength").nbytes <= codec.encode(q, "huffman").nbytes
    rng = np.random.default_rng(0)
    for density in (0.2, 0.3, 0.4, 0.5):  # where both cost nearly the same
        q = quantized((rng.random(3 * UNIT) < density).astype(int))
        assert codec.encode(q, "runlength").nbytes <= codec.encode(q, "huffman").nbytes


@pytest.mark.parametrize(("zeros", "k"), [(0.999, 8), (0.94, 8), (0.62, 8), (0.9, 2)])
def test_near_the_entropy_where_symbols_are_shuffled(zeros: float, k: int) -> None:
    rng = np.random.default_rng(k)
    n = 2**19
    symbols = np.minimum(rng.geometric(0.45, n), k - 1)
    q = quantized(rng.permutation(np.where(np.arange(n) < zeros * n, 0, symbols)))
    e = codec.encode(q, "runlength")
    bound = huffman.entropy(q.counts)
    assert e.payload_bits <= 1.015 * bound < 1.015 * (e.payload_bits + 32 * e.payload.streams.size)
    if zeros < 0.99:  # with fewer symbols, levels and table are not yet lost in the payload
        assert 8 * e.nbytes <= 1.015 * bound
    assert e.nbytes < codec.encode(q, "huffman").nbytes


def test_below_the_entropy_where_zeros_cluster() -> None:
    rng = np.random.default_rng(0)
    n = 2**20
    blocks = np.repeat(rng.random(n // 2**10) < 0.1, 2**10)
    q = quantized(np.where(blocks & (rng.random(n) < 0.5), rng.integers(1, 4, n), 0))
    assert codec.encode(q, "runlength").payload_bits < 0.8 * huffman.entropy(q.counts)
