"""Exponent buckets and priority promotion, against a slow reference and the paper's example."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import codec
from codec.errors import DTypeError, NonFiniteError
from codec.scheme.quantize import Bucket

SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, 2.0**-126, -(2.0**-126), 2.0**-149, 3 * 2.0**-149]
SPECIAL += [-(2.0**-149), 2.0**-127, 1 - 2.0**-24, 3.4028234663852886e38, -3.4028234663852886e38]


def values(dtype: np.dtype) -> st.SearchStrategy[float]:
    """Finite values whose float32 is finite; special ones often."""
    width = 16 if dtype == np.float16 else 32
    special = [v for v in SPECIAL if abs(v) <= 65504] if width == 16 else SPECIAL
    anything = st.floats(allow_nan=False, allow_infinity=False, width=width)
    few = st.floats(-1, 1, width=16)  # of a like exponent, so that buckets get many members
    return st.one_of(st.sampled_from([float(dtype.type(v)) for v in special]), anything, few)


deltas = st.sampled_from(
    [np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)]
).flatmap(
    lambda dtype: hnp.arrays(
        dtype,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6),
        elements=values(dtype),
    )
)
all_bits = st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8])


def float32(x: float) -> float:
    """Rounded to float32 by the C compiler behind struct, not by numpy."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def reference(delta: np.ndarray, bits: int | None) -> tuple[list[int], list[float], list[Bucket]]:
    """The same by lists and math.frexp."""
    flat = [float32(v) for v in delta.reshape(-1).tolist()]
    members: dict[tuple[int, int], list[float]] = {}
    keys = []
    for v in flat:
        mantissa, exponent = math.frexp(v)  # v = mantissa * 2**exponent, 0.5 <= |mantissa| < 1
        key = (max(exponent - 1, -127), int(v < 0)) if mantissa else None
        keys.append(key)
        if key:
            members.setdefault(key, []).append(v)
    middle = {k: (min(m) + max(m)) / 2 for k, m in members.items()}
    order = sorted(members, key=lambda k: (-k[0], -abs(middle[k]), k[1]))
    chosen = order if bits is None else order[: 2**bits - 1]
    code = {None: 0} | dict.fromkeys(order, 0) | {k: i for i, k in enumerate(chosen, 1)}
    buckets = [
        Bucket(*k, min(members[k]), max(members[k]), len(members[k]), code[k]) for k in order
    ]
    levels = [0.0] + [float32(middle[k]) for k in chosen]
    return [code[k] for k in keys], levels, buckets


@given(deltas, all_bits)
@example(np.zeros(0, np.float32), 2)
@example(np.array(-0.0, np.float32), None)
@example(np.full((2, 3), 2.0**-149, np.float32), 1)
@example(np.array([1.25, -1.25, 1.75, -1.75], np.float32), 1)  # a tie: the positive bucket stays
def test_against_reference(delta: np.ndarray, bits: int | None) -> None:
    q = codec.quantize(delta, bits)
    codes, levels, buckets = reference(delta, bits)
    assert q.codes.dtype == np.uint8
    assert q.codes.tolist() == codes
    assert q.levels.dtype == np.float32
    assert q.levels.tobytes() == np.array(levels, np.float32).tobytes()
    assert list(q.buckets or []) == buckets
    assert (q.shape, q.bits) == (delta.shape, bits)
    assert q.counts.tolist() == [codes.count(i) for i in range(len(levels))]
    restored = codec.dequantize(q)
    assert restored.shape == delta.shape
    assert restored.tobytes() == np.array([levels[c] for c in codes], np.float32).tobytes()


@given(deltas)
def test_promotion_of_one_histogram(delta: np.ndarray) -> None:
    everything = codec.quantize(delta).buckets
    assert everything is not None
    for bits in (1, 3, 8):
        assert list(everything.promoted(bits)) == list(codec.quantize(delta, bits).buckets or [])
    assert [b.representative for b in everything] == everything.representative.tolist()


@given(deltas, st.integers(0, 9))
def test_any_number_of_buckets(delta: np.ndarray, n: int) -> None:
    """The n largest keep their order and get the levels 1, 2, 3 ..."""
    everything = codec.quantize(delta).buckets
    assert everything is not None
    chosen = everything.keeping(n)
    assert chosen.level.tolist() == [i if i <= n else 0 for i in range(1, len(everything) + 1)]
    assert chosen.levels.tobytes() == everything.levels[: n + 1].tobytes()
    assert list(chosen.first(n)) == list(everything)[:n]
    counts = [b.count for b in list(everything)[:n]]
    assert chosen.counts(delta.size).tolist() == [delta.size - sum(counts), *counts]
    assert everything.keeping(None).level.tolist() == list(range(1, len(everything) + 1))
    top = [b.sign << 8 | (b.exponent + 127) for b in everything]
    assert everything.bins.tolist() == top


@given(deltas)
def test_energies(delta: np.ndarray) -> None:
    """Sums of squares, and of squared distances to the representative, bucket by bucket."""
    with np.errstate(over="ignore"):
        flat = delta.astype(np.float32).reshape(-1)
    q = codec.quantize(flat)
    assert q.buckets is not None
    codes, energy, residual = q.buckets.promoted(1).energies(flat)
    assert codes.tolist() == q.codes.tolist()  # of all buckets, whatever is promoted
    values = flat.astype(np.float64)
    for i in range(len(q.buckets)):
        members = values[q.codes == i + 1]
        assert energy[i] == pytest.approx((members**2).sum(), rel=1e-12)
        off = members - float(q.levels[i + 1])
        assert residual[i] == pytest.approx((off**2).sum(), rel=1e-12, abs=0)


@pytest.mark.parametrize("n", [2**16, 3 * 2**16 + 3])
def test_pieces_of_large_deltas(n: int) -> None:
    """Counted and coded in pieces, and each element belongs to one of them."""
    rng = np.random.default_rng(n)
    delta = rng.normal(size=n).astype(np.float32)
    delta[[0, -1]] = 1e9, -1e-9  # buckets of one member in the first and the last piece
    q = codec.quantize(delta)
    assert q.buckets is not None
    words = delta.view(np.uint32)
    level_of = np.zeros(512, np.uint16)
    for bucket in q.buckets:
        members = delta[words >> 23 == bucket.sign << 8 | (bucket.exponent + 127)]
        assert (bucket.min, bucket.max) == (members.min(), members.max())
        assert bucket.count == members.size
        level_of[bucket.sign << 8 | (bucket.exponent + 127)] = bucket.level
    assert q.codes.tolist() == level_of[words >> 23].tolist()
    assert q.codes[[0, -1]].tolist() == [1, len(q.buckets)]


def test_worked_example(paper: np.ndarray) -> None:
    """PAPER.md: five buckets, of which two bits keep 0.79, -0.48 and 0.44."""
    e = codec.quantize(paper)
    assert e.buckets is not None
    buckets = [(b.exponent, b.sign) for b in e.buckets]
    assert buckets == [(-1, 0), (-2, 1), (-2, 0), (-3, 0), (-4, 0)]
    ends = [[0.76, 0.82], [-0.48, -0.48], [0.39, 0.49], [0.14, 0.2], [0.07, 0.09]]
    exact = np.array(ends, np.float32).astype(np.float64).mean(axis=1)
    assert e.levels[1:].tobytes() == exact.astype(np.float32).tobytes()
    printed = [round(float(v), 2) for v in codec.dequantize(e)]
    assert printed == [0.79, -0.48, 0.17, 0.08, 0.17, 0.44, 0.17, 0.44, 0.79, 0.08]
    p = codec.quantize(paper, bits=2)
    assert p.codes.tolist() == [1, 2, 0, 0, 0, 3, 0, 3, 1, 0]
    assert p.levels.tobytes() == e.levels[:4].tobytes()


def test_more_than_256_levels() -> None:
    """All 255 finite exponent fields with both signs are 511 levels, and codes uint16."""
    fields = np.arange(255, dtype=np.uint32) << 23
    words = np.concatenate((fields | 1, fields | 1 | 0x80000000)).astype(np.uint32)
    q = codec.quantize(words.view(np.float32))
    assert q.codes.dtype == np.uint16
    assert q.levels.size == 511
    assert codec.dequantize(q).tobytes() == words.tobytes()  # one member a bucket: exact
    assert codec.quantize(words.view(np.float32), 8).codes.dtype == np.uint8


def test_representatives_do_not_overflow() -> None:
    """min + max of the largest bucket is beyond float32, but not beyond float64."""
    top = np.array([2.0**127, 3.4028234663852886e38], np.float32)
    assert codec.quantize(top).levels[1] == np.float32((2.0**127 + float(top[1])) / 2)


def test_arrays_of_any_layout(paper: np.ndarray) -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert codec.quantize(matrix.T).codes.tolist() == codec.quantize(matrix.T.copy()).codes.tolist()
    assert codec.quantize(matrix[:, ::2]).shape == (3, 2)
    big = codec.quantize(paper.astype(">f4"), 2)
    assert big.codes.tolist() == codec.quantize(paper, 2).codes.tolist()
    assert big.levels.tobytes() == codec.quantize(paper, 2).levels.tobytes()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_bits_of_numpy(kind: type) -> None:
    """2 ** np.int8(8) would be 0."""
    with pytest.raises(codec.SettingsError, match="bits must be an integer from 1 to 8, or None"):
        codec.quantize(np.zeros(3, np.float32), kind(9))
    delta = np.array([2.0**-i for i in range(100)], np.float32)
    q = codec.quantize(delta, kind(8))
    assert q.levels.size == 101
    assert type(q.bits) is int
    assert q.buckets is not None
    assert (q.buckets.promoted(kind(8)).level > 0).all()


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.complex64, np.longdouble, object])
def test_other_dtypes(dtype: type) -> None:
    with pytest.raises(DTypeError, match="must be float16, float32 or float64, not"):
        codec.quantize(np.zeros(3, dtype))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_non_finite(value: float) -> None:
    with pytest.raises(NonFiniteError, match="2 of 4 values are NaN, infinite"):
        codec.quantize(np.array([1.0, value, 0.0, value]))


def test_underflow_is_zero_under_any_error_state() -> None:
    with np.errstate(all="raise"):
        assert codec.quantize(np.array([1e-300, 1e-320])).codes.tolist() == [0, 0]
