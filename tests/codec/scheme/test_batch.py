"""Batches: many small tensors in one alphabet, each with the levels that it would have alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import codec
from codec.errors import StreamError
from codec.record.alphabets import nbytes_of
from codec.record.track import Track
from codec.scheme import batch, stream
from codec.scheme.coding import Coding
from codec.scheme.delta import Group
from codec.scheme.limits import CHANGE, LOOK
from codec.scheme.quantize import Buckets, n_promoted, quantize
from codec.scheme.survivors import Segments
from codec.scheme.track import digest_sums
from codec.scheme.tracker import Tracker
from codec.state.family import Family
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays

F32 = np.float32
ODD = np.array([0, -0.0, 1e-45, -1e-45, 1.1754942e-38, 1e30, -1e30, 1, -1, 0.5, 1.5], F32)


def tensors(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """Values of one tensor each: of any magnitude, or all equal, zeros, subnormals."""
    got = []
    for i in range(n):
        size = int(rng.integers(8, 90))
        kind = rng.integers(6)
        values = rng.standard_normal(size) * np.exp2(rng.integers(-60, 60))
        if kind == 0:
            values[:] = values[0]
        elif kind == 1:
            values = np.abs(values) * np.exp2(-rng.integers(0, 40, size))
        elif kind == 2:
            values = rng.choice(ODD, size)
        elif kind == 3:
            values = np.ldexp(values / np.abs(values).max(), -140)
        elif kind == 4 and i % 2:
            values[:] = 0
        got.append(values.astype(F32))
    return got


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([1, 2, 3, 8, None]))
@example(0, 12, None)
@example(1, 1, 3)
def test_each_tensor_keeps_what_it_would_keep_alone(
    cautious_levels: Callable[[Buckets], np.ndarray], seed: int, n: int, bits: int | None
) -> None:
    """Buckets and levels are those of `quantize`; codes stand for the same values."""
    rng = np.random.default_rng(seed)
    u, tracks = tensors(rng, n), tensors(rng, n)
    tracks = [np.resize(t, a.size) for t, a in zip(tracks, u)]
    segments = Segments(tracks, u)
    got = batch.quantized(segments, n_promoted(bits))
    assert got.levels.shape[1:] == (n,)
    assert got.counts.tolist() == np.bincount(got.codes, minlength=len(got.levels)).tolist()
    begins = segments.starts.tolist()
    for i, (a, t) in enumerate(zip(u, tracks)):
        with np.errstate(all="ignore"):
            delta = a - t
        alone = quantize(delta, bits)
        assert alone.buckets is not None
        levels = cautious_levels(alone.buckets) if a.min() >= 0 else alone.levels
        here = got.levels[:, i]
        assert here[: levels.size].tobytes() == levels.tobytes()
        assert not here[levels.size :].any()
        assert (got.codes[begins[i] : begins[i + 1]] == alone.codes).all()


def layout_of(arrays: Arrays, *, shared: bool) -> Layout:
    """Moments that are one family, or one each."""
    family = "bits=3 {}" if not shared else "bits=3 m"
    return Layout(
        tuple(
            TensorSpec(name, "F32", a.shape, True, "numpy", Family.of(family.format(name)))
            for name, a in arrays.items()
        )
    )


def walk(seed: int, steps: int, n: int = 9) -> list[Arrays]:
    """States; one has NaN, one infinity, and one a change beyond float32's range."""
    rng = np.random.default_rng(seed)
    states = []
    for step in range(steps):
        values = tensors(np.random.default_rng(seed), n)
        state = {f"o/{i}/m": v * F32(1 + 0.01 * step * (i + 1)) for i, v in enumerate(values)}
        for v in state.values():
            v += (rng.standard_normal(v.size) * np.abs(v).max() * 0.1).astype(F32)
        state["o/1/m"] = np.abs(state["o/1/m"])
        if step == 2:
            state["o/3/m"][1] = np.nan
        if step == 3:
            state["o/4/m"][:] = 3e38
            state["o/5/m"][2] = np.inf
        if step == 4:
            state["o/4/m"][:] = -3e38
        states.append(state)
    return states


@pytest.mark.parametrize(
    ("scope", "coder", "seed"), [("model", "runlength", 0), ("tensor", "huffman", 1)]
)
def test_the_track_is_that_of_an_alphabet_each(scope: str, coder: str, seed: int) -> None:
    states = walk(seed, 7)
    coding = Coding(2, scope, coder)
    trackers = []
    for shared in (True, False, True):
        layout = layout_of(states[0], shared=shared)
        trackers.append(Tracker.resume(Track.of(layout, copy_arrays(states[0])), coding))
    one, apart, moving = trackers
    left = 0
    for state in states[1:]:
        delta, expected = one.prepare_arrays(state), apart.prepare_arrays(state)
        assert delta.non_finite == expected.non_finite
        left += len(delta.non_finite)
        assert len(delta.groups) == 1
        (group,) = delta.groups
        assert group.encoded.is_batch
        assert group.encoded.n_levels == sum(g.encoded.n_levels for g in expected.groups)
        assert delta.sums == expected.sums
        one.commit(delta)
        apart.commit(expected)
        moved = moving._encode(state, CHANGE)
        for name, array in moved.exact_after(moving.track.arrays).items():
            moving.track.arrays[name][...] = array
        moving.track.sums, moving._moving = dict(moved.sums or {}), False
        moving.track.tables |= moved.tables
        for name in state:
            bits = apart.state[name].tobytes()
            assert one.state[name].tobytes() == bits
            assert moving.state[name].tobytes() == bits
        assert one.track.sums == digest_sums(one.track.layout, one.state)
    assert left >= 3


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_it(threads: int) -> None:
    """Tensors are cut into pieces of about as many elements."""
    rng = np.random.default_rng(5)
    u = [rng.standard_normal(int(n)).astype(F32) for n in rng.integers(8, 30_000, 30)]
    before = codec.threads()
    codec.set_threads(threads)
    try:
        got = batch.quantized(Segments([np.zeros_like(a) for a in u], u), 7)
    finally:
        codec.set_threads(before)
    levels = [quantize(a, 3).levels for a in u]
    assert got.levels.T.tobytes() == np.array(levels).tobytes()
    assert got.counts.sum() == sum(a.size for a in u)


def encoded(u: list[np.ndarray]) -> tuple[codec.Encoded, Segments]:
    """A batch from zeros, and its track."""
    segments = Segments([np.zeros_like(a) for a in u], u)
    stage = stream.LosslessStage("runlength", (segments.n,), bits=3)
    with batch.quantized(segments, 7).message(stage) as message:
        return stream.code(message)[0], segments


def test_one_bucket_needs_no_bits() -> None:
    """All elements have code 1, whose level differs from tensor to tensor."""
    e, segments = encoded([np.full(9, 0.5, F32), np.full(12, -3, F32)])
    assert e.table is None
    assert e.levels[1].tolist() == [0.5, -3]
    stream.advance(e, segments, CHANGE)
    assert [set(t.tolist()) for t in segments.arrays[0]] == [{0.5}, {-3}]


def test_nothing_has_changed() -> None:
    e, segments = encoded([np.zeros(9, F32), np.full(12, -0.0, F32)])
    assert (e.k, e.n_levels, e.payload_bits) == (1, 0, 0)
    assert not stream.advance(e, segments, LOOK).any()


def test_levels_of_other_tensors() -> None:
    rng = np.random.default_rng(0)
    e, segments = encoded([rng.standard_normal(50).astype(F32) for _ in range(3)])
    with pytest.raises(StreamError, match="levels of 2 tensors, not of 3"):
        stream.advance(replace(e, levels=e.levels[:, :2]), segments, LOOK)
    with pytest.raises(StreamError, match="step size"):
        stream.check(replace(e, uniform=True), segments.n)


def test_nbytes_are_those_on_disk() -> None:
    rng = np.random.default_rng(0)
    u = [rng.standard_normal(50).astype(F32), np.full(9, 2, F32), np.zeros(8, F32)]
    e, _ = encoded(u)
    spec = TensorSpec("o/m", "F32", (50,), True, "numpy", "bits=3 m")
    group = Group((spec,), e)
    assert e.n_levels == 7 + 1 + 0
    assert 0 <= nbytes_of([group]) - e.nbytes - 6 < 4  # its row, padded
