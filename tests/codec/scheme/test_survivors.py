"""The pass over u - track: what survives it, against a delta written out in full."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec.scheme import prefix, survivors
from codec.scheme.limits import BLOCK
from codec.scheme.plain import Bins
from codec.scheme.quantize import Histogram
from codec.scheme.survivors import Segments, Survivors, collected, packed

UNIT = 2**16
F32, U32 = np.float32, np.uint32
Tensors = list[np.ndarray]


def cut(array: np.ndarray, sizes: Sequence[int]) -> Tensors:
    """Tensors of these sizes, each in memory of its own; the last one takes the rest."""
    return [part.copy() for part in np.split(array, np.cumsum(sizes))]


def from_bits(words: object) -> np.ndarray:
    return np.array(words, U32).view(F32)


def spread_codes(s: Survivors) -> np.ndarray:
    """One code an element; nothing may be marked beyond the last one."""
    assert s.marks.size == s.units * (UNIT // 64)
    marks = np.unpackbits(s.marks.view(np.uint8), bitorder="little").astype(bool)
    assert not marks[s.n :].any()
    codes = np.zeros(s.units * UNIT, np.uint16)
    for unit in range(s.units):
        here = slice(unit * UNIT, (unit + 1) * UNIT)
        assert marks[here].sum() == s.numbers[unit]
        codes[here][marks[here]] = s.codes[here][: s.numbers[unit]]
    return codes[: s.n]


def settled(s: Survivors, final: np.ndarray) -> np.ndarray:
    """The codes once the pass has settled on final ones."""
    marks, codes, numbers = s.marks.copy(), s.codes.copy(), s.numbers.copy()
    copied = Survivors(s.n, marks, codes, numbers, s.memory)
    prefix.settle_tokens(copied, final, np.zeros(2, np.int64), 1)
    return spread_codes(copied)


def full_histogram(delta: np.ndarray) -> Histogram:
    """By numpy, of the delta as a whole."""
    return Histogram(Bins.of(delta.view(U32)), np.arange(512, dtype=np.uint16))


def check(u: Tensors, track: Tensors, keep: int | None) -> None:
    """The promoted buckets and the codes they make are those of the whole delta."""
    with np.errstate(all="ignore"):
        delta = np.concatenate([a.reshape(-1) - b.reshape(-1) for a, b in zip(u, track)])
    full = full_histogram(delta)
    all_buckets = full.buckets().keeping(keep)
    words = delta.view(U32)
    level_of_bin = np.zeros(512, np.uint16)
    level_of_bin[all_buckets.bins] = all_buckets.level
    expected = np.where(words & 0x7FFFFFFF > 0, level_of_bin[words >> 23], 0)
    before = [a.tobytes() for a in (*u, *track)]
    with collected(Segments(track, u), keep) as got:
        s = got.survivors
        promoted = all_buckets.bins[all_buckets.level > 0]
        mantissas = got.histogram.bins.mantissas
        assert (mantissas[promoted] == full.bins.mantissas[promoted]).all()
        histogram = got.histogram
        assert s.n == delta.size
        promotion = histogram.promote(keep, s.n)
        assert promotion.levels.tobytes() == all_buckets.levels.tobytes()
        assert promotion.counts.tolist() == all_buckets.counts(s.n).tolist()
        final = promotion.final
        buckets = histogram.buckets().keeping(keep)
        n = int((all_buckets.level > 0).sum())
        assert list(buckets.first(n)) == list(all_buckets.first(n))
        assert len(buckets) >= n
        if keep is None:
            assert len(buckets) == len(all_buckets)
        assert settled(s, final).tolist() == expected.tolist()
        for units in (1, 2, 32):  # and with the tokens counted at the same time
            copied = Survivors(s.n, s.marks.copy(), s.codes.copy(), s.numbers.copy(), s.memory)
            tokens = prefix._tokens(copied, final, units, max(n, 1))
            assert spread_codes(copied).tolist() == expected.tolist()
            assert tokens.sum(axis=1)[:n].tolist() == all_buckets.count[:n].tolist()
    assert [a.tobytes() for a in (*u, *track)] == before


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of a code in every pass that is made from now on."""
    made: list[int] = []
    collect = survivors._collect

    def spy(
        segments: Segments, keep: int, least: int, noted: np.ndarray, s: Survivors
    ) -> tuple[Histogram, int]:
        made.append(s.codes.itemsize)
        return collect(segments, keep, least, noted, s)

    monkeypatch.setattr(survivors, "_collect", spy)
    return made


def test_what_is_told_is_whole_though_a_rise_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads may raise the threshold at once, and one rise is lost. What they leave out in
    part because of it must not be told of."""
    delta = np.random.default_rng(0).normal(size=17 * UNIT).astype(F32)
    delta[8 * UNIT + 5], delta[8 * UNIT + 6] = 2000, -3000  # the probe does not see them
    monkeypatch.setattr(survivors, "max", lambda raised, _: raised, raising=False)
    with collected(Segments([np.zeros_like(delta)], [delta]), 2) as got:
        histogram = got.histogram
        full, stated = full_histogram(delta), histogram.count > 0
        assert stated.sum() == 2
        for name in ("members", "low", "high"):
            got, expected = getattr(histogram.bins, name), getattr(full.bins, name)
            assert got[stated].tolist() == expected[stated].tolist()


keeps = [None, 1, 2, 3, 7, 15, 63, 255]


@given(
    st.lists(st.sampled_from([*range(1, 9), 63, 64, 65, 250, 256, 300]), min_size=1, max_size=9),
    st.sampled_from(keeps),
    st.integers(0, 2**32 - 1),
)
def test_any_bits(sizes: list[int], keep: int | None, seed: int) -> None:
    """Any finite floats at all: subnormals, -0.0, infinite differences."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    fields = rng.integers(0, 255, n) if seed % 2 else rng.integers(100, 150, n)
    u = from_bits(rng.integers(0, 2, n) << 31 | fields << 23 | rng.integers(0, 2**23, n))
    track = np.where(rng.random(n) < 0.3, u, 0).astype(F32)
    u[rng.random(n) < 0.1] = -0.0
    check(cut(u, sizes[:-1]), cut(track, sizes[:-1]), keep)


def exponents(fields: object, n: int = 1) -> np.ndarray:
    """n values of each of these exponent fields, with both signs."""
    words = np.asarray(fields, U32) << 23 | 5
    return np.tile(np.concatenate((words, words | 0x80000000)), n).astype(U32).view(F32)


TINY, LARGE = exponents([1, 2, 3], 400), exponents(range(130, 140), 400)
FAR, FOLDED = exponents([1, 200], 300), exponents([10, 138, 11, 139], 100)
ALL_BUT_ZERO = np.append(exponents(range(255)), np.zeros(50, F32))
LOWS = (1, 60, 127)
SUBNORMAL = from_bits([1, 2, 0x7FFFFF, 0x80000001, 0, 0x80000000, 0x800000] + [0] * 9)
PASSES: list[Any] = [
    *((exponents(range(low, low + 127)), keep, [1]) for low in LOWS for keep in (None, 255)),
    *((SUBNORMAL, keep, [1]) for keep in (None, 1)),  # one bucket a sign
    # The exponents met are too far apart, those that are promoted are not.
    (np.append(TINY, LARGE), 7, [1, 1]),
    (np.append(LARGE, TINY), 7, [1]),  # the large ones first: one pass skips the rest
    (FAR, 2, [1, 1]),
    # What is promoted is itself too far apart: every bin gets a code of its own.
    (FAR, 3, [1, 1, 2]),
    (ALL_BUT_ZERO, None, [1, 1, 2]),
    *((FOLDED, keep, [1, 1, 2]) for keep in (None, 5)),  # 128 apart: in 7 bits they look alike
    # 256 buckets of both signs, which with zero are a level more than a byte can tell apart.
    *((np.append(exponents(range(low, low + 128), 2), F32(0)), 255, None) for low in (0, *LOWS)),
    (np.append(exponents(range(128), 2), F32(0)), None, None),
]


@pytest.mark.parametrize(("u", "keep", "expected"), PASSES)
@pytest.mark.usefixtures("kernels")
def test_as_many_passes_as_exponents_need(
    u: np.ndarray, keep: int | None, expected: list[int] | None, passes: list[int]
) -> None:
    check([u], [np.zeros_like(u)], keep)
    assert expected is None or passes == expected


@pytest.mark.usefixtures("kernels")
def test_little_is_noted_in_vain() -> None:
    """The last tensor has the largest values, as in training: a probe sees them first."""
    rng = np.random.default_rng(2)
    u = rng.normal(size=20 * UNIT).astype(F32)
    u[-2000:] *= 300
    sizes = [10 * UNIT, 200, 10 * UNIT - 2200]
    with collected(Segments(cut(np.zeros_like(u), sizes), cut(u, sizes)), 7) as got:
        assert got.survivors.numbers.sum() < 20_000
    check(cut(u, sizes), cut(np.zeros_like(u), sizes), 7)
    with collected(Segments([np.zeros_like(u)], [u]), 7) as got:
        assert (
            got.survivors.numbers.sum() > 0.4 * u.size
        )  # one tensor: those few are not among its blocks


def test_a_probe_that_sees_more_than_all_the_rest() -> None:
    """The largest values only where it looks: none of them is lost."""
    u = np.random.default_rng(0).normal(size=9 * UNIT).astype(F32)
    place = (UNIT - BLOCK) // 2  # the first block of a large tensor that is looked at
    for at in (place - 1, place + 255, 8 * UNIT + place):
        changed = u.copy()
        changed[at : at + 50] *= np.float32(1e6)
        for keep in (1, 15):
            check([changed], [np.zeros_like(u)], keep)


def test_non_finite_is_counted() -> None:
    u = np.ones(3 * UNIT, F32)
    u[[5, UNIT, 2 * UNIT + 70]] = np.nan, np.inf, -np.inf
    for keep in (None, 1):
        with collected(Segments([np.zeros_like(u)], [u]), keep) as counted:
            assert counted.histogram.n_non_finite == 3


# Codes that are given.


# Memory.


def test_rooms_are_used_again_and_never_shared() -> None:
    survivors._pool._idle.clear()
    codes = np.ones(100, np.uint8)
    with packed(codes) as first:
        address = first.codes.ctypes.data
        with packed(codes * 2) as second:
            assert not np.shares_memory(first.codes, second.codes)
            assert not np.shares_memory(first.marks, second.marks)
            assert spread_codes(first).tolist() == [1] * 100
            assert spread_codes(second).tolist() == [2] * 100
    assert len(survivors._pool._idle) == 1
    with packed(codes) as third:
        assert third.codes.ctypes.data in (address, second.codes.ctypes.data)
    with pytest.raises(ZeroDivisionError), packed(codes):
        raise ZeroDivisionError
    assert not survivors._pool._idle  # a thread that was not waited for may still write there
    with packed(np.ones(3 * UNIT, np.uint16)) as larger:
        assert spread_codes(larger).tolist() == [1] * (3 * UNIT)
    with packed(codes) as smaller:
        assert smaller.units == 1
        assert spread_codes(smaller).tolist() == [1] * 100


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED"), reason="of Linux")
def test_dense_units_are_given_back() -> None:
    """Once written, the codes of mostly other than zero values take no memory any more."""
    survivors._pool._idle.clear()
    codes = np.ones(4 * UNIT - 5, np.uint16)
    codes[UNIT : UNIT + UNIT // 2] = 0  # half of the second unit
    with packed(codes) as s:
        assert s.codes.itemsize == 2
        s.free_codes(0, 1)
        s.free_codes(1, 2)
        s.free_codes(3, 7)  # the last one ends before
        got = s.codes.reshape(4, UNIT)
        left = [bool(unit[: s.numbers[i]].any()) for i, unit in enumerate(got)]
        assert left == [False, True, True, False]
    with packed(codes) as again:
        assert spread_codes(again).tolist() == codes.tolist()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_writes_into_its_own_room() -> None:
    with packed(np.ones(100_000, np.uint8)) as s:
        child = os.fork()
        if child == 0:
            s.codes[:], s.marks[:] = 7, 7
            os._exit(0)
        os.waitpid(child, 0)
        assert (s.codes[:UNIT] == 1).all()
        assert (s.marks != 7).all()
