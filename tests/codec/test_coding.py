"""encode and decode: without loss, and no hostile field gets past the named errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import codec
from codec.coding import check_coder

deltas = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=7),
    elements=st.one_of(st.sampled_from([0.0, -0.0, 0.5]), st.floats(-1, 1, width=32)),
)
all_bits = st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8])


@pytest.fixture
def encoded(paper: np.ndarray) -> codec.Encoded:
    return codec.encode(codec.quantize(paper, 2))


@given(deltas, all_bits)
def test_round_trip(
    huffman_total: Callable[[list[int]], int], delta: np.ndarray, bits: int | None
) -> None:
    q = codec.quantize(delta, bits)
    e = codec.encode(q)
    assert e.payload_bits == huffman_total(q.counts.tolist())
    assert e.payload.nbytes == (e.payload_bits + 7) // 8
    assert e.nbytes == e.payload.size + e.code_lengths.size + 4 * (e.levels.size - 1)
    back = codec.decode(e)
    assert back.codes.dtype == q.codes.dtype
    assert back.codes.tobytes() == q.codes.tobytes()
    assert back.levels.tobytes() == q.levels.tobytes()
    assert (back.shape, back.bits, back.buckets) == (q.shape, q.bits, None)
    assert back.counts.tolist() == q.counts.tolist()
    assert codec.encode(back).payload.tobytes() == e.payload.tobytes()


def test_worked_example(encoded: codec.Encoded) -> None:
    assert encoded.payload_bits == 18
    assert encoded.code_lengths.tolist() == [1, 2, 3, 3]
    assert encoded.payload.tobytes().hex() == "0df700"
    assert encoded.nbytes == 3 + 4 + 12


def test_uint16_codes() -> None:
    words = np.arange(0, 255, dtype=np.uint32) << 23 | 1
    delta = np.concatenate((words, words | 0x80000000)).astype(np.uint32).view(np.float32)
    q = codec.quantize(np.tile(delta, 3))
    assert codec.decode(codec.encode(q)).codes.tobytes() == q.codes.tobytes()
    assert q.codes.dtype == np.uint16


@pytest.mark.parametrize("coder", ["", "Huffman", None, ["huffman"]])
def test_unknown_coder(encoded: codec.Encoded, paper: np.ndarray, coder: Any) -> None:
    with pytest.raises(codec.SettingsError, match="coder must be one of huffman"):
        check_coder(coder)
    with pytest.raises(codec.SettingsError, match="coder must be one of"):
        codec.encode(codec.quantize(paper), coder)
    with pytest.raises(codec.SettingsError, match="coder must be one of"):
        codec.decode(replace(encoded, coder=coder))


U8, F32 = np.uint8, np.float32


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("payload", np.zeros(3, F32), codec.StreamError, "a payload is uint8"),
        ("payload", np.zeros((3, 1), U8), codec.StreamError, "a payload is uint8"),
        ("payload", b"abc", codec.StreamError, "a payload is uint8"),
        ("payload", np.zeros(2, U8), codec.StreamError, "18 bits need 3 bytes"),
        ("payload_bits", -1, codec.StreamError, "bytes, found 3"),
        ("payload_bits", 18.0, codec.StreamError, "payload_bits an integer"),
        ("payload_bits", True, codec.StreamError, "payload_bits an integer"),
        ("payload_bits", np.uint64(18), codec.StreamError, "payload_bits an integer"),
        ("payload_bits", 2**64 - 1, codec.StreamError, "bytes, found 3"),
        ("payload_bits", 2**64 + 18, codec.StreamError, "bytes, found 3"),
        ("code_lengths", np.array([1, 2, 3, 3]), codec.CodeTableError, "not uint8"),
        ("code_lengths", [1, 2, 3, 3], codec.CodeTableError, "not uint8"),
        ("code_lengths", np.array([1, 2, 3, 4], U8), codec.CodeTableError, "prefix code"),
        ("code_lengths", np.array([1, 2, 2], U8), codec.StreamError, "one for each of 3"),
        ("levels", np.zeros(4), codec.StreamError, "levels are not float32"),
        ("levels", np.ones(4, F32), codec.StreamError, "levels are not zero, then finite"),
        ("levels", np.array([0, 1, np.nan, 2], F32), codec.StreamError, "then finite"),
        ("levels", np.zeros(3, F32), codec.StreamError, "one for each of 4"),
        ("shape", (11,), codec.StreamError, "18 bits end before 11"),
        ("shape", (9,), codec.StreamError, "go on after 9"),
        ("shape", (-10,), codec.StreamError, "no array can have that shape"),
        ("shape", (-2, -5), codec.StreamError, "no array can have that shape"),
        ("shape", (10.0,), codec.StreamError, "no array can have that shape"),
        ("shape", (2**40, 2**40), codec.StreamError, "no array can have that shape"),
        ("shape", (0, 2**63), codec.StreamError, "no array can have that shape"),
        ("shape", (10, *[1] * 64), codec.StreamError, "no array can have that shape"),
        ("shape", None, codec.StreamError, "no array can have that shape"),
        ("shape", (2**62,), codec.StreamError, "18 bits end before"),
    ],
)
def test_hostile_fields(
    encoded: codec.Encoded, field: str, value: Any, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        codec.decode(replace(encoded, **{field: value}))


def test_empty_table() -> None:
    nothing = codec.Encoded(
        np.zeros(0, U8), 0, np.zeros(0, U8), np.zeros(0, F32), (0,), 2, "huffman"
    )
    with pytest.raises(codec.CodeTableError, match="not 0"):
        codec.decode(nothing)


@settings(max_examples=300)
@given(
    st.binary(max_size=6),
    st.integers(-3, 60) | st.sampled_from([2**63, 2**64]),
    st.lists(st.integers(0, 17), max_size=6) | st.sampled_from([[1, 2, 3, 3], [1, 1], [0], [0, 0]]),
    st.lists(st.integers(-1, 20), max_size=3).map(tuple),
)
def test_any_fields(payload: bytes, bits: int, table: list[int], shape: tuple[int, ...]) -> None:
    """Decodes to codes below k in that shape, or is refused by a PayloadError."""
    e = codec.Encoded(
        np.frombuffer(payload, U8), bits, np.array(table, U8), np.zeros(len(table), F32),
        shape, 2, "huffman",
    )  # fmt: skip
    try:
        q = codec.decode(e)
    except codec.PayloadError:
        return
    assert codec.dequantize(q).shape == shape
    assert q.codes.max(initial=0) < len(table)


def test_contradictory_quantized(paper: np.ndarray) -> None:
    """A Quantized changed by hand is refused rather than written out of bounds."""
    q = codec.quantize(paper, 2)
    with pytest.raises(codec.StreamError, match="4 levels"):
        codec.encode(replace(q, codes=np.full(10, 7, U8), buckets=None))
    with pytest.raises(codec.StreamError, match="do not make 18 bits"):
        codec.encode(replace(q, codes=np.full(10, 2, U8)))
    with pytest.raises(codec.CodeTableError, match="4 levels cannot all lack a code word"):
        codec.encode(replace(q, codes=np.zeros(10, U8), buckets=None))
    other = replace(q, codes=np.where(q.codes == 2, 0, q.codes).astype(U8), buckets=None)
    assert codec.decode(codec.encode(other)).codes.tolist() == other.codes.tolist()
