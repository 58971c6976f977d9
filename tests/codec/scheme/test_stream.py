"""encode and decode: bit by bit as a slow coder does it, without loss, and no hostile field gets
past the named errors or out of bounds."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import codec
from codec.errors import CodeTableError, PayloadError, StreamError
from codec.scheme import huffman, prefix, workers
from codec.scheme import stream as coding
from codec.scheme.coders import CODERS
from codec.scheme.digest import digest
from codec.scheme.kernels import decode as kernel
from codec.scheme.limits import CHANGE, LOOK
from codec.scheme.payload import Constant
from codec.scheme.prefix import PrefixCode
from codec.scheme.survivors import Segments
from codec.scheme.tables import CodeTable
from codec.scheme.twins import takes_compiled
from codec.scheme.uniform import MAX_STEPS, levels_of
from tests.codec.scheme.made import given as a_table
from tests.codec.scheme.made import lengths, quantized, sparse

UNIT = 2**16
U8, U32, F32 = np.uint8, np.uint32, np.float32

deltas = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7),
    elements=st.one_of(st.sampled_from([0.0, -0.0, 0.5]), st.floats(-1, 1, width=32)),
)
all_bits = st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8])
coders = pytest.mark.parametrize("coder", ["runlength", "huffman"])


def u32(*words: Any) -> np.ndarray:
    return np.array(words, U32)


@pytest.fixture
def encoded(paper: np.ndarray) -> codec.Encoded:
    return codec.encode(codec.quantize(paper, 2))


def changed(e: codec.Encoded, **changes: Any) -> codec.Encoded:
    """An encoding of which some fields, or some of its payload, are others."""
    names = {f.name for f in fields(e.payload)}
    payload = {name: changes.pop(name) for name in names & changes.keys()}
    return replace(e, **({"payload": replace(e.payload, **payload)} | changes))


# Both coders.


@given(deltas, all_bits, st.sampled_from(["runlength", "huffman"]))
def test_round_trip(
    huffman_total: Callable[[list[int]], int], delta: np.ndarray, bits: int | None, coder: str
) -> None:
    q = codec.quantize(delta, bits)
    e = codec.encode(q, coder)
    if coder == "huffman":
        assert e.payload_bits == huffman_total(q.counts.tolist())
    streams = e.payload.streams if e.table else u32()
    assert e.payload.data.size == sum((int(bits) + 31) // 32 * 4 for bits in streams)
    table = 0 if e.table is None else huffman.pack_lengths(e.table.lengths).size
    assert e.table_nbytes == table
    parts = e.payload.data.size, 4 * streams.size, e.table_nbytes, 4 * (e.levels.size - 1)
    assert e.nbytes == sum(parts)
    back = codec.decode(e)
    assert back.codes.dtype == q.codes.dtype
    assert back.codes.tobytes() == q.codes.tobytes()
    assert back.levels.tobytes() == q.levels.tobytes()
    assert (back.shape, back.bits, back.buckets) == (q.shape, q.bits, None)
    assert back.counts.tolist() == q.counts.tolist()
    again = codec.encode(back, coder)
    assert again.payload.data.tobytes() == e.payload.data.tobytes()
    assert again.nbytes == e.nbytes


@coders
@pytest.mark.parametrize("n", [0, 1, 8, UNIT + 1])
def test_one_symbol_needs_no_bits(coder: str, n: int) -> None:
    """All zeros, or all of one level that is not zero."""
    for code in (0, 1) if n else (0,):
        q = quantized(np.full(n, code))
        e = codec.encode(q, coder)
        assert e.table is None
        assert not e.cached
        assert (e.payload.data.size, e.payload_bits, e.table_nbytes) == (0, 0, 0)
        assert e.code_lengths.tolist() == [0] * (1 + code)
        assert e.nbytes == 4 * code
        back = codec.decode(e)
        assert back.codes.dtype == U8
        assert back.codes.tolist() == [code] * n


def test_unknown_coder(encoded: codec.Encoded) -> None:
    with pytest.raises(codec.SettingsError, match="coder must be one of"):
        codec.encode(codec.decode(encoded), "zip")
    with pytest.raises(codec.SettingsError, match="coder must be one of"):
        codec.decode(replace(encoded, coder="zip"))


@pytest.mark.parametrize(
    ("n", "n_symbols", "units"),
    [
        (0, 0, 1),
        (UNIT, 1, 1),
        (14 * UNIT, 1, 1),  # 8 streams of 2 units need more than 14
        (14 * UNIT + 1, 1, 2),
        (16 * UNIT, 2 * 8192 * 8, 1),  # 8192 symbols a stream are enough
        (16 * UNIT, 16 * 8192 - 1, 2),
        (16 * UNIT, 16 * 8192, 1),
        (10**8, 100, 32),  # 2**21 elements at most, whatever there is
        (10**8, 10**8, 1),
    ],
)
def test_units_of_a_stream(n: int, n_symbols: int, units: int) -> None:
    assert prefix.stream_units(n, n_symbols) == units


def test_digest_of_any_layout() -> None:
    grid = np.arange(8, dtype=F32).reshape(2, 4)
    assert digest(grid.T) == digest(grid.T.reshape(-1).copy()) != digest(grid)


# Fields that contradict each other.


WIDE = np.array([0, 1, np.nan, 2], F32)


ALL_FIELDS: dict[tuple[str, str], list[Any]] = {
    ("words", "words and streams are uint32"): [
        *(np.zeros(1, F32), np.zeros((1, 1), U32), np.zeros(1, ">u4"), b"abcd")
    ],
    ("words", "streams of 1 words, found [02]"): [np.zeros(0, U32), np.zeros(2, U32)],
    ("words", "unused bits .* are not zero"): [u32(0x4F70D), u32(0x8000F70D)],
    ("words", "end before 10 elements"): [u32(0x3FFFF)],
    ("words", "go on after 10 elements"): [u32(0)],
    ("payload", "a payload of no kind"): [None, u32(0)],
    ("payload", "4 levels cannot all lack a code word"): [Constant()],
    ("streams", "words and streams are uint32"): [[18], np.array([18]), u32([18])],
    ("streams", "[02] streams for 10 elements"): [np.zeros(0, U32), u32(18, 0)],
    ("streams", f"streams of (0|2|{2**27}) words, found 1"): [u32(n) for n in (0, 33, 2**32 - 1)],
    ("streams", "end before 10 elements|ends within a token"): [u32(17), u32(16)],
    ("streams", "unused bits .* are not zero"): [u32(15)],
    ("streams", "go on after 10 elements"): [u32(19), u32(32)],
    ("stream_elements", "a stream has 65536 to 2097152 el"): [
        *(UNIT - 1, 2**21 + 1, 0, float(UNIT), True, np.int64(UNIT))
    ],
    ("levels", "levels that are not 1 to 511 float32 numbers"): [
        *(np.zeros(4), [0.0, 1.0], np.zeros((4, 0), F32), np.zeros((4, 1, 1, 1), F32)),
        *(np.zeros(0, F32), np.zeros(512, F32)),
    ],
    ("levels", "levels that are not zero, then finite"): [np.ones(4, F32), WIDE],
    ("levels", "4 code lengths for [135] levels"): [np.zeros(n, F32) for n in (3, 5, 1)],
    ("shape", "end before 11 elements"): [(11,)],
    ("shape", "go on after 9 elements"): [(9,)],
    ("shape", rf"1 streams for (0|{UNIT + 1}|{2**62}) elements"): [(0,), (UNIT + 1,), (2**62,)],
    ("shape", "no array can have that shape"): [
        *((-10,), (-2, -5), (10.0,), (2**40, 2**40), (0, 2**63), (10, *[1] * 64), None)
    ],
}
FIELDS = [(name, value, m) for (name, m), values in ALL_FIELDS.items() for value in values]


@pytest.mark.parametrize(("field", "value", "message"), FIELDS, ids=str)
def test_hostile_fields(encoded: codec.Encoded, field: str, value: Any, message: str) -> None:
    error = CodeTableError if re.search("code lengths|lack", message) else StreamError
    with pytest.raises(error, match=message):
        codec.decode(changed(encoded, **{field: value}))


GOOD = lengths(1, 2, 3, 3)
NO_TABLES: list[tuple[Any, Any, str]] = [
    (np.array([1, 2, 3, 3]), 1, "not int64"),
    ([1, 2, 3, 3], 1, "code lengths"),
    *((lengths(*table), 1, "prefix code") for table in ((1, 2, 3, 4), (1, 1, 1, 1))),
    (lengths(1, 16, 3, 3), 1, "16 bits; at most 15"),
    (lengths(0, 0, 0, 0), 1, "cannot all lack"),
    (lengths(0, 0), 1, "without code words"),
    (lengths(), 1, "not 0"),
    (lengths(1, 2, 2), 1, "3 code lengths for 4 levels"),
    (lengths(1, 2, 3, 4, 4), 1, "5 code lengths for 4"),
    *((GOOD, classes, "classes") for classes in (0, -1, 2, 3.0, None)),  # 1 + 2 m tokens
    *((lengths(*[0] * (n - 1), 1, 1), n, "classes") for n in (85, 600)),
]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        *((CodeTable(table, classes), message) for table, classes, message in NO_TABLES),
        *((table, "a table that is not a CodeTable") for table in (None, GOOD)),
    ],
)
def test_hostile_tables(encoded: codec.Encoded, table: Any, message: str) -> None:
    """Some of them would lead a kernel out of bounds."""
    with pytest.raises(CodeTableError, match=message):
        codec.decode(changed(encoded, table=table))


def test_one_symbol_streams_that_do_not_agree() -> None:
    nothing = codec.encode(quantized([0, 0, 0]))
    table = CodeTable(lengths(1, 1, 0), 2)
    with pytest.raises(StreamError, match="a code table, but no level other than zero"):
        codec.decode(replace(nothing, payload=PrefixCode(u32(), u32(), UNIT, table)))
    for n in (2**62, 2**60):  # no bits bound it, so only memory can
        with pytest.raises(StreamError, match=f"no memory for {n} codes"):
            codec.decode(replace(nothing, shape=(n,)))


def test_a_symbol_beyond_the_last_level() -> None:
    """Its table has 4 symbols, its levels are 4: zero and 3 symbols."""
    e = codec.encode(quantized([0, 0, 1, 2, 3, 4] * 20), "runlength")
    assert e.table is not None
    e = changed(e, table=CodeTable(lengths(5, 5, 1, 4, 0, 3, 0, 2, 0), 2), levels=e.levels[:4])
    # 1: class 1 of symbol 1 has the word 0; 1110 is class 0 of 2, 110 of 3, 10 of 4
    for bits, n, message in (
        ("010", 4, "a symbol beyond the last"),
        ("0110", 3, None),
        ("0110", 2, "go on after 2 elements"),
        ("0110", 1, "go on after 1 elements"),
    ):
        payload = np.array([int(bits[::-1], 2)], U32)
        other = changed(e, words=payload, streams=np.array([len(bits)], U32), shape=(n,))
        if message:
            with pytest.raises(StreamError, match=message):
                codec.decode(other)
        else:
            assert codec.decode(other).codes.tolist() == [0, 1, 3]


def test_contradictory_quantized(paper: np.ndarray) -> None:
    """A Quantized changed by hand is refused rather than written out of bounds."""
    q = codec.quantize(paper, 2)
    for coder in CODERS:
        with pytest.raises(StreamError, match="8 different codes for 4 levels"):
            codec.encode(replace(q, codes=np.full(10, 7, U8), buckets=None), coder)
        with pytest.raises(StreamError, match="do not have the counts of their buckets"):
            codec.encode(replace(q, codes=np.full(10, 2, U8)), coder)
        with pytest.raises(StreamError, match=r"counts of their buckets|codes for 4 levels"):
            codec.encode(replace(q, codes=np.full(10, 7, U8)), coder)
        levels = np.arange(512, dtype=F32)
        many = codec.Quantized(np.arange(512, dtype=np.uint16), levels, (512,), None, None)
        with pytest.raises(StreamError, match="512 levels"):
            codec.encode(many, coder)
        other = replace(q, codes=np.where(q.codes == 2, 0, q.codes).astype(U8), buckets=None)
        assert codec.decode(codec.encode(other, coder)).codes.tolist() == other.codes.tolist()


@coders
@pytest.mark.parametrize("codes", [[0] * 10, [1] * 10, [3] * 10])
def test_one_symbol_of_several_levels(paper: np.ndarray, coder: str, codes: list[int]) -> None:
    """No code has a word then, and which one it is cannot be told."""
    q = replace(codec.quantize(paper, 2), codes=np.array(codes, U8), buckets=None)
    with pytest.raises(PayloadError, match="levels"):
        codec.encode(q, coder)


@pytest.mark.parametrize(
    ("coder", "n_streams"), [("runlength", 4), ("huffman", 5), ("runlength", 13)]
)
def test_streams_of_uneven_length(
    coder: str, n_streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread reads them all: a lane that is done takes the next stream, which may be empty."""
    monkeypatch.setattr(workers._crew, "n", 1)
    monkeypatch.setattr(workers, "PIECES", 1)
    monkeypatch.setattr(prefix, "SYMBOLS_A_STREAM", 1)  # a stream for every unit
    rng = np.random.default_rng(n_streams)
    density = rng.choice([0, 0.0001, 0.02, 0.6, 1], n_streams)
    n = n_streams * UNIT - 17
    codes = rng.integers(1, 5, n) * (rng.random(n) < np.repeat(density, UNIT)[:n])
    q = quantized(np.where(np.arange(n) % 9999 == 0, 1, codes))
    e = codec.encode(q, coder)
    assert e.payload.streams.size == n_streams
    assert (codec.decode(e).codes == q.codes).all()
    old = rng.normal(size=n).astype(F32)
    expected = np.where(q.codes > 0, old + e.levels[q.codes], old)
    coding.advance(e, Segments([old[:777], old[777:]]), CHANGE)
    assert old.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("coder", "n_streams", "zeros"),
    [("huffman", 1, 0.0), ("runlength", 3, 0.9), ("huffman", 4, 0.5), ("runlength", 9, 0.5)],
)
def test_words_too_long_for_the_first_look(coder: str, n_streams: int, zeros: float) -> None:
    """Rare symbols, alone and next to each other, among words that are found at once."""
    rng = np.random.default_rng(n_streams)
    n = n_streams * UNIT - 5
    codes = np.minimum(rng.geometric(0.5, n), 16) * (rng.random(n) >= zeros)
    codes[::5000], codes[1::5000], codes[2::5000] = 16, 15, 14
    q = quantized(codes)
    e = codec.encode(q, coder)
    assert e.table is not None
    assert e.table.lengths.max() > kernel.FAST
    assert (codec.decode(e).codes == q.codes).all()
    with by_two():
        assert (codec.decode(e).codes == q.codes).all()


@contextlib.contextmanager
def by_two() -> Iterator[None]:
    """Tokens are looked up by two, however few there are and however seldom two fit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix, "LEAST_WORDS", 0)
        patch.setattr(prefix, "LEAST_PAIRS", 0)
        yield


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("zeros", "twice"), [(0.65, True), (0.9, False)])
def test_tokens_are_looked_up_by_two_where_most_are_short(
    zeros: float, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    q = quantized(rng.integers(1, 4, 9 * UNIT) * (rng.random(9 * UNIT) >= zeros))
    e = codec.encode(q, "runlength")
    assert e.payload.words.size > prefix.LEAST_WORDS
    seen = []
    read = kernel.read

    def spied(*arguments: Any) -> Any:
        seen.append(arguments[2].two.size)
        return read(*arguments)

    monkeypatch.setattr(kernel, "read", spied)
    assert (codec.decode(e).codes == q.codes).all()
    assert set(seen) == {2**kernel.FAST if twice else 0}


# Damaged encodings: every kind of stream, every kind of damage.

GUARD = 64  # elements on either side that nobody may touch


class Guarded(workers.Scratch):
    """Scratch memory between guards."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded: list[np.ndarray] = []
        for name, old in list(vars(self).items()):
            if isinstance(old, np.ndarray):
                setattr(self, name, self.between_guards(old.size, old.dtype).reshape(old.shape))

    def room(self, n: int) -> np.ndarray:
        return self.between_guards(n, np.dtype(U32))

    def between_guards(self, n: int, dtype: np.dtype) -> np.ndarray:
        self.guarded.append(np.full(n + 2 * GUARD, 85, dtype))
        return self.guarded[-1][GUARD:-GUARD]

    def check(self) -> None:
        assert len(self.guarded) > 5
        for whole in self.guarded:
            assert (whole[:GUARD] == 85).all()
            assert (whole[-GUARD:] == 85).all()


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Guarded]]:
    made: list[Guarded] = []

    def make() -> Guarded:
        made.append(Guarded())
        return made[-1]

    monkeypatch.setattr(workers, "Scratch", make)
    monkeypatch.setattr(workers._crew, "idle", [])
    yield made
    assert made or not takes_compiled()
    for one in made:
        one.check()


def victim(kind: str) -> codec.Encoded:
    """A small encoding of every kind of stream."""
    rng = np.random.default_rng(3)
    some = np.where(rng.random(90) < 0.3, rng.integers(1, 4, 90), 0)
    if kind == "plain":
        return codec.encode(quantized(some), "huffman")
    if kind == "dense":
        return codec.encode(quantized(rng.integers(0, 20, 60)), "huffman")
    if kind == "tokens":
        return codec.encode(quantized(np.tile([0, 0, 1, 0, 2, 0, 0, 3], 20)), "runlength")
    if kind == "wide":  # uint16 codes
        return codec.encode(quantized(np.arange(300)), "runlength")
    if kind == "lanes":  # five streams, of which four are read in turn
        at = {u * UNIT + d: 1 + d % 3 for u in range(5) for d in (0, 9, 9000, 60_000)}
        return codec.encode(quantized(sparse(5 * UNIT - 3, at)), "runlength")
    # escapes: a table of two symbols and three classes for what has more of both
    table = CodeTable(lengths(2, 2, 3, 3, 3, 4, 4), 3)
    with a_table(table):
        q = quantized(sparse(300, {0: 1, 1: 2, 7: 1, 8: 3, 11: 2, 260: 1}))
        return codec.encode(q, "runlength")


KINDS = ["plain", "dense", "tokens", "wide", "lanes", "escapes"]
kinds = pytest.mark.parametrize("kind", KINDS)


def check_damaged(e: codec.Encoded, shape: tuple[int, ...]) -> bool:
    """Decoded or refused with a name, by `decode` and by `advance` alike; nothing else changes.

    Returns whether it was decoded.
    """
    try:
        q = codec.decode(e)
    except PayloadError:
        q = None
        with by_two(), pytest.raises(PayloadError):
            codec.decode(e)
    else:
        with by_two():
            assert (codec.decode(e).codes == q.codes).all()
        assert q.codes.shape == shape
        assert q.codes.max(initial=0) < e.levels.size
    n = shape[0]
    room = np.full(n + 2 * GUARD, 2.5, F32)
    track = room[GUARD:-GUARD]
    segments = Segments([track[: n // 3], track[n // 3 : n // 2], track[n // 2 :]])
    for mode in (LOOK, CHANGE):
        if q is None:
            with pytest.raises(PayloadError):
                coding.advance(e, segments, mode)
        else:
            changes = coding.advance(e, segments, mode)
            expected = np.full(n, 2.5, F32) + e.levels[q.codes]
            parts = zip(segments.arrays[0], np.split(expected, [n // 3, n // 2]), changes.tolist())
            for old, new, change in parts:
                before = old if mode == LOOK else np.full(old.size, 2.5, F32)
                assert (digest(before) + change) % 2**64 == digest(new)
        if mode == LOOK:
            assert (room == 2.5).all()
    if q is not None:
        assert track.tobytes() == expected.tobytes()
    assert (room[:GUARD] == 2.5).all()
    assert (room[-GUARD:] == 2.5).all()
    return q is not None


@kinds
def test_damage_of_every_payload_bit(kind: str, scratch: list[Guarded]) -> None:
    """Of long payloads every 7th."""
    e = victim(kind)
    positions = range(0, 32 * e.payload.words.size, 7 if e.payload.words.size > 20 else 1)
    decoded = 0
    for position in positions:
        payload = e.payload.words.copy()
        payload[position // 32] ^= U32(1 << position % 32)
        decoded += check_damaged(changed(e, words=payload), e.shape)
    assert decoded < len(positions)  # padding at least is noticed


@kinds
def test_damage_of_stream_sizes(kind: str, scratch: list[Guarded]) -> None:
    """Of the first and the last one."""
    e = victim(kind)
    for i in {0, e.payload.streams.size - 1}:
        size = int(e.payload.streams[i])
        values = {size ^ 1 << bit for bit in range(32)} | {0, 2**32 - 1}
        values |= {max(size + sign * d, 0) for d in (1, 2, 31, 32, 33, 40) for sign in (1, -1)}
        for value in values - {size}:
            streams = e.payload.streams.copy()
            streams[i] = value
            check_damaged(changed(e, streams=streams), e.shape)
            words = (streams.astype(np.int64) + 31) // 32
            if words.sum() < 1000:  # and with a payload of that many words
                for fill in (0, 2**32 - 1):
                    payload = np.full(int(words.sum()), fill, U32)
                    payload[: e.payload.words.size] = e.payload.words[: payload.size]
                    at = int(words[: i + 1].sum()) - 1
                    if value % 32:
                        payload[at] &= U32((1 << value % 32) - 1)
                    check_damaged(changed(e, streams=streams, words=payload), e.shape)


@kinds
def test_damage_of_the_table(kind: str, scratch: list[Guarded]) -> None:
    """Every bit of every length, two lengths exchanged, other classes."""
    e = victim(kind)
    assert e.table is not None
    old, classes = e.table.lengths, e.table.classes
    for i in range(min(old.size, 20)):
        for bit in range(8):
            new = old.copy()
            new[i] ^= 1 << bit
            assert not check_damaged(changed(e, table=CodeTable(new, classes)), e.shape)
        for j in {0, i // 2, i - 1}:
            new = old.copy()
            new[[i, j]] = new[[j, i]]
            check_damaged(changed(e, table=CodeTable(new, classes)), e.shape)
    for other in range(1, 90):
        if (old.size - 1) % other == 0:
            check_damaged(changed(e, table=CodeTable(old, other)), e.shape)


@kinds
def test_damage_of_levels_and_shape(kind: str, scratch: list[Guarded]) -> None:
    e = victim(kind)
    assert e.table is not None
    assert (e.table.classes == 1) == (kind in ("plain", "dense", "wide"))
    assert check_damaged(e, e.shape)
    for k in {1, 2, 3, 4, 5, 19, 21, 256, 257, 511} - {e.levels.size}:
        check_damaged(replace(e, levels=np.arange(k, dtype=F32)), e.shape)
    n = e.shape[0]
    for other in {0, 1, 2, 3, 63, 64, n - 1, n + 1, n + 2, UNIT, UNIT + 1, 5 * UNIT} - {n}:
        check_damaged(replace(e, shape=(other,)), (other,))
    for elements in (UNIT, UNIT + 1, 2 * UNIT, 2**21):
        check_damaged(changed(e, stream_elements=elements), e.shape)


def test_payload_of_any_layout(encoded: codec.Encoded) -> None:
    """A view with gaps, and one that cannot be written."""
    wide = np.zeros(2, U32)
    wide[0] = encoded.payload.words[0]
    locked = encoded.payload.words.copy()
    locked.flags.writeable = False
    expected = codec.decode(encoded).codes.tolist()
    for payload in (wide[::2], locked):
        assert codec.decode(changed(encoded, words=payload)).codes.tolist() == expected


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    st.integers(0, 10**6),
    st.sampled_from([0, 0.0001, 0.002, 0.02, 0.2]),
)
def test_decoding_onto_tensors_anywhere(sizes: list[int], seed: int, density: float) -> None:
    """Wherever tensors begin in memory; nothing beside them is touched."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    q = quantized((rng.random(n) < density) * rng.integers(1, 3, n))

    rooms = [np.full(size + 64, 9, np.float32) for size in sizes]
    begins = rng.integers(0, 33, len(sizes))
    tracks = [room[b : b + size] for room, b, size in zip(rooms, begins, sizes)]
    for track in tracks:
        track[:] = rng.normal(size=track.size)
    expected = np.concatenate(tracks) + codec.dequantize(q)
    coding.advance(codec.encode(q, "runlength"), Segments(tracks), CHANGE)
    assert np.concatenate(tracks).tobytes() == expected.tobytes()
    for track in tracks:
        track[:] = 9
    assert all((room == 9).all() for room in rooms)


@pytest.mark.parametrize("sizes", [[64], [32, 32], [7, 0, 200], [0, 0, 0], [64] * 9, [1000, 1, 1]])
def test_streams_are_read_where_more_can_be_read(sizes: list[int]) -> None:
    """A decoder looks at up to 16 bytes behind a stream: they must be there."""
    words = [(size + 31) // 32 for size in sizes]
    payload = np.arange(sum(words), dtype=U32)
    begins, buffers = prefix.begins_of(payload, np.array(sizes))
    rest = payload.tolist()
    for begin, n in zip((begins // 8).tolist(), words):
        (its,) = (a for a in buffers if a.ctypes.data <= begin <= a.ctypes.data + a.nbytes)
        at = (begin - its.ctypes.data) // 4
        assert its[at : at + n].tolist() == rest[:n]
        assert at + n + 4 <= its.size
        rest = rest[n:]
    assert rest == []


def test_escapes_of_symbols_of_many_bits() -> None:
    """Word, class and symbol have up to 37 bits, behind up to 31 in a buffer of 64."""
    rng, n, k = np.random.default_rng(0), 3 * 2**16, 2 * MAX_STEPS + 1
    for _ in range(8):
        codes = np.minimum(rng.geometric(0.5, n) - 1, 30).astype(np.uint16)
        codes[rng.choice(n, 2, replace=False)] = k - 1
        steps = codec.Quantized(codes, levels_of(0.001, k), (n,), None, None, uniform=True)
        e = codec.encode(steps, "runlength")
        assert e.table is not None
        assert (codec.decode(e).codes == codes).all()
