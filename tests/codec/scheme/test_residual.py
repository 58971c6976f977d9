"""Residuals of exact tensors: every bit comes back, and none is larger than its tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec.errors import StreamError
from codec.scheme import residual as residuals
from codec.scheme.kernels.instructions import spread_bits_slowly
from codec.scheme.limits import UNIT
from codec.scheme.residual import LEAST, Elements, Residual, residual_of
from codec.state.tensors import CARRIER, TensorSpec
from tests.bits import same

DTYPES = sorted(CARRIER)


def spec_of(array: np.ndarray, dtype: str) -> TensorSpec:
    shape = array.shape[:-1] if dtype == "C128" else array.shape
    return TensorSpec("x", dtype, shape, False)


def array_of(bits: np.ndarray, dtype: str) -> np.ndarray:
    """An array of the track with these bits, in elements of its own size."""
    array = bits.view(np.uint8).view(CARRIER[dtype])
    return array.reshape(-1, 2) if dtype == "C128" else array


def uints(dtype: str) -> tuple[np.dtype[Any], int]:
    """The unsigned integer that holds an element's bits, and how many there are."""
    array = np.zeros(16, np.uint8).view(CARRIER[dtype])
    kind = Elements.of(spec_of(array.reshape(-1, 2) if dtype == "C128" else array, dtype))
    return np.dtype(f"u{kind.width}"), 8 * kind.width


def moved(dtype: str, n: int, seed: int, share: float, far: float) -> tuple[Any, Any]:
    """Two arrays of n bytes: a share of the elements moves by a small step, or to any bits."""
    rng = np.random.default_rng(seed)
    kind, w = uints(dtype)
    old = rng.integers(0, 2**w, n // kind.itemsize, dtype=np.uint64).astype(kind)
    if rng.random() < 0.5:  # of few exponents, as weights are
        old >>= kind.type(rng.integers(w))
    new = old.copy()
    near = rng.random(old.size) < share
    new[near] += rng.integers(-3, 4, near.sum()).astype(np.int64).astype(kind)
    anywhere = rng.random(old.size) < far * share
    new[anywhere] = rng.integers(0, 2**w, anywhere.sum(), dtype=np.uint64).astype(kind)
    return array_of(old, dtype), array_of(new, dtype)


@settings(max_examples=80)
@given(
    st.sampled_from(DTYPES),
    st.sampled_from([1024, 1040, 4096, 9008, 70_016]),
    st.integers(0, 2**32),
    st.sampled_from([0.0003, 0.01, 0.08, 0.5, 1.0]),
    st.sampled_from([0, 0.1, 1]),
)
def test_every_bit_comes_back(dtype: str, n: int, seed: int, share: float, far: float) -> None:
    old, new = moved(dtype, n, seed, share, far)
    if same(old, new):
        return
    r = residual_of(old, new, spec_of(old, dtype))
    if r is not None:
        assert r.nbytes < new.nbytes
        assert same(r.applied(old), new)


def test_bits_of_updated_weights() -> None:
    """Within a fifth of the entropy of changes and steps, given the exponent of the old value."""
    rng = np.random.default_rng(0)
    w = (rng.standard_normal(400_000) * 0.02).astype(np.float32)
    new = bf16(w + rng.standard_normal(w.size).astype(np.float32) * 8e-7)
    old = bf16(w)
    r = residual_of(old, new, TensorSpec("w", "BF16", old.shape, False))
    assert r is not None
    assert len(r.contexts) > 1
    exponents, steps = old >> 7 & 255, new.astype(int) - old
    bound = 0.0
    for exponent in np.unique(exponents):
        counts = np.unique(steps[exponents == exponent], return_counts=True)[1]
        bound += float((counts * np.log2(counts.sum() / counts)).sum())
    assert bound < 8 * r.nbytes < 1.2 * bound


def bf16(values: np.ndarray) -> np.ndarray:
    """The nearest bfloat16, as uint16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def test_contexts_that_some_streams_have_no_element_of() -> None:
    """Small weights behind large ones: a stream holds only the one kind or the other."""
    rng, n = np.random.default_rng(0), 2**18
    large = np.arange(n) < n // 2
    old = bf16(np.where(large, 1.5, 0.001))
    new = (old.view(np.uint16) + (rng.random(n) < np.where(large, 0.01, 0.2))).astype(np.uint16)
    new = new.view(old.dtype)
    residual = residual_of(old, new, spec_of(old, "BF16"))
    assert residual is not None
    assert len(residual.contexts) == 2
    for context in residual.contexts:
        assert context.table is not None
        assert context.table.classes > 1
        assert not context.code.streams.all()
        assert context.code.streams.any()
    assert same(residual.applied(old), new)


def test_masks_and_counters() -> None:
    rng = np.random.default_rng(0)
    mask = rng.random(400_000) < 0.5
    pruned = mask & (rng.random(400_000) < 0.99)
    r = residual_of(mask, pruned, TensorSpec("mask", "BOOL", mask.shape, False))
    assert r is not None
    assert len(r.contexts) == 2  # what is pruned stays so
    assert r.nbytes < 0.1 * 400_000 / 8
    assert same(r.applied(mask), pruned)
    counts = rng.integers(0, 2**40, 5_000)
    later = counts + rng.integers(0, 4, 5_000)
    r = residual_of(counts, later, TensorSpec("n", "I64", counts.shape, False))
    assert r is not None
    assert r.nbytes < 0.05 * counts.nbytes
    assert same(r.applied(counts), later)


def test_not_where_nothing_is_gained() -> None:
    rng = np.random.default_rng(0)
    old, new = rng.integers(0, 256, (2, 5056)).astype(np.uint8)  # a generator's state
    assert residual_of(old, new, TensorSpec("rng", "U8", (5056,), False)) is None
    short = np.zeros(LEAST - 1, np.uint8)
    assert residual_of(short, short + 1, TensorSpec("x", "U8", short.shape, False)) is None


def test_random_bits_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample decides: nothing else looks at all of them."""

    def look(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(residuals, "_counted", look)
    monkeypatch.setattr(residuals, "_written", look)
    old, new = np.random.default_rng(0).integers(0, 2**32, (2, 2**18)).astype(np.uint32)
    assert residual_of(old, new, TensorSpec("x", "U32", old.shape, False)) is None
    with pytest.raises(AssertionError):
        residual_of(old, old + 1, TensorSpec("x", "U32", old.shape, False))


@pytest.mark.parametrize("threads", [1, 3])
def test_large_tensor(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several streams, tables from a sample, and changes that it has not seen."""
    n = 2 * residuals.COUNTED * UNIT + 77
    rng = np.random.default_rng(0)
    old = rng.integers(0, 2**14, n).astype(np.uint16)
    new = old.copy()
    at = rng.integers(0, n, n // 50)
    new[at] += rng.integers(1, 3, at.size).astype(np.uint16)
    new[UNIT : UNIT + 3] ^= 0xFFFF  # a unit that is skipped: flips
    new[-1] += 9
    spec = TensorSpec("w", "BF16", old.shape, False)
    before = codec.threads()
    try:
        codec.set_threads(threads)
        r = residual_of(old, new, spec)
        assert r is not None
        assert r.contexts[0].code.streams.size > 1
        assert same(r.applied(old), new)
    finally:
        codec.set_threads(before)
    assert r.nbytes < 0.3 * n / 8


def good() -> tuple[Residual, np.ndarray]:
    """A residual in which a fifth of the elements changes."""
    old, new = moved("F32", 40_000, 3, 0.2, 0.1)
    r = residual_of(old, new, spec_of(old, "F32"))
    assert r is not None
    assert any(c.has_runs for c in r.contexts)
    return r, old


@pytest.mark.usefixtures("kernels")
def test_spreading_bits_without_the_instruction() -> None:
    rng = np.random.default_rng(0)
    from numba import njit

    slow = njit(spread_bits_slowly)
    for _ in range(300):
        mask = int(
            rng.integers(0, 2**64, dtype=np.uint64) & rng.integers(0, 2**64, dtype=np.uint64)
        )
        bits = int(rng.integers(0, 2**64, dtype=np.uint64))
        places = [i for i in range(64) if mask >> i & 1]
        expected = sum((bits >> j & 1) << i for j, i in enumerate(places))
        assert int(slow(np.uint64(bits), np.uint64(mask))) == expected
    assert int(slow(np.uint64(5), np.uint64(0))) == 0


DAMAGE: dict[str, Callable[[Residual], Residual]] = {
    "bounds": lambda r: replace(r, bounds=(9, 9), contexts=(*r.contexts, *r.contexts)[:3]),
    "0 contexts": lambda r: replace(r, contexts=(), bounds=()),
    "streams of 33 units": lambda r: replace(r, units=33),
    "levels": lambda r: with_context(r, k=4 * 31 * 4 + 2),
    "a context without": lambda r: with_context(r, code=None),
    "streams for": lambda r: with_code(r, streams=np.zeros(2, np.uint32)),
    "streams of other than 1 units": lambda r: with_code(r, stream_elements=2**17),
    "words": lambda r: with_code(r, words=np.zeros(1, np.uint32)),
}


def with_context(r: Residual, **changes: Any) -> Residual:
    """The same with another first context that has code words."""
    i = next(i for i, c in enumerate(r.contexts) if c.table)
    contexts = (*r.contexts[:i], replace(r.contexts[i], **changes), *r.contexts[i + 1 :])
    return replace(r, contexts=contexts)


def with_code(r: Residual, **changes: Any) -> Residual:
    """The same with other streams in the first context that has code words."""
    code = next(c.code for c in r.contexts if c.code)
    return with_context(r, code=replace(code, **changes))


@pytest.mark.parametrize("message", DAMAGE)
def test_what_cannot_be_a_residual(message: str) -> None:
    r, old = good()
    with pytest.raises(StreamError, match=message):
        DAMAGE[message](r).applied(old)
