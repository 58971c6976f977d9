"""A target of distance: what is left of a change, and that every step measures it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import codec
from codec.scheme import uniform
from codec.scheme.coders import CODERS
from codec.scheme.coding import Coding
from codec.scheme.origin import SAMPLE, Origin
from codec.scheme.remainder import DeltaRest, Remainder, Rest, restart_warning
from codec.state.tensors import layout_of

F32 = np.float32
Arrays = dict[str, np.ndarray]


def norm(arrays: Arrays, others: Arrays) -> float:
    """||arrays - others|| in float64, over all tensors."""
    return math.sqrt(sum(((arrays[k].astype(np.float64) - others[k]) ** 2).sum() for k in arrays))


def copies(arrays: Arrays) -> Arrays:
    return {name: array.copy() for name, array in arrays.items()}


def weights(n: int, seed: int = 0) -> Arrays:
    """Two tensors whose blocks meet in the middle of a block of 256."""
    rng = np.random.default_rng(seed)
    flat = (0.05 * rng.normal(size=n)).astype(F32)
    return {"a": flat[: n // 3], "b": flat[n // 3 :]}


def moved(before: Arrays, seed: int, spread: float = 1.0) -> Arrays:
    """After some training: most changes are small."""
    rng = np.random.default_rng(seed)
    return {
        name: array
        + (1e-3 * rng.laplace(size=array.size) * np.exp(spread * rng.normal(size=array.size)))
        .astype(F32)
        .reshape(array.shape)
        for name, array in before.items()
    }


@pytest.mark.parametrize(
    ("n", "distance", "coder", "scope"),
    [
        (50, 0.02, "huffman", "model"),
        (50, 0.3, "context", "tensor"),
        (3000, 0.9, "runlength", "tensor"),
        (3000, 0.02, "context", "model"),
        (200_000, 0.3, "runlength", "model"),
        (200_000, 0.02, "huffman", "tensor"),
        (200_000, 0.9, "context", "tensor"),
    ],
)
def test_no_more_is_left_than_the_distance_allows(
    n: int, distance: float, coder: str, scope: str
) -> None:
    """Of every alphabet, step after step; in large ones nearly all that is allowed is left."""
    live = weights(n)
    tracker = codec.Tracker(live, scope=scope, coder=coder, distance=distance)
    for step in range(3):
        before, live = copies(tracker.state), moved(live, step)
        tracker.step(live)
        alphabets = [["a", "b"]] if scope == "model" else [["a"], ["b"]]
        for names in alphabets:
            its = {name: live[name] for name in names}
            share = norm(its, tracker.state) / norm(its, before)
            assert share <= distance
            assert n < 9000 or share >= 0.97 * distance


@settings(max_examples=30)
@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=9, max_size=80),
    st.floats(0.01, 0.95),
    st.sampled_from(list(CODERS)),
)
@example([1.0] * 9, 0.5, "runlength")
@example([1e3, *[1e-3] * 70], 0.01, "huffman")
@example([1e-42, *[0.0] * 20], 0.1, "runlength")
def test_any_change(values: list[float], distance: float, coder: str) -> None:
    """Also beside weights so large that float32 rounds most of the change away."""
    for place in (0.0, 1.0, 2.0**20):
        before = {"w": np.full(len(values), place, F32)}
        live = {"w": before["w"] + np.array(values, F32)}
        tracker = codec.Tracker(before, coder=coder, distance=distance)
        tracker.step(live)
        assert norm(live, tracker.state) <= distance * norm(live, before) * (1 + 1e-12)


def test_what_stands_still_costs_nothing() -> None:
    live = weights(70_000)
    tracker = codec.Tracker(live, distance=0.3)
    delta = tracker.step(copies(live))
    assert delta.nbytes == 0
    assert delta.rest == (0.0, 0.0)
    assert tracker.step(moved(live, 1)).nbytes > 1000


def test_a_change_that_a_sample_misses() -> None:
    """One block of many has changed: the first pass looks at every 4th and sees nothing."""
    n = 4 * uniform.SAMPLE
    live = {"w": np.zeros(n, F32)}
    tracker = codec.Tracker(live, distance=0.1)
    live = copies(live)
    live["w"][256:512] = np.random.default_rng(0).normal(size=256)
    before = copies(tracker.state)
    tracker.step(live)
    assert norm(live, tracker.state) <= 0.1 * norm(live, before)


def test_a_change_too_large_for_all_others() -> None:
    """Steps small enough for a million changes cannot reach one that is far larger: its tensor is
    stored whole."""
    rng = np.random.default_rng(0)
    live = {"large": np.zeros(9, F32), "small": np.zeros(1_000_000, F32)}
    tracker = codec.Tracker(live, distance=0.001)
    live = {"large": np.array([1e5, *[0.5] * 8], F32), "small": rng.normal(size=1_000_000)}
    live["small"] = live["small"].astype(F32)
    before = copies(tracker.state)
    delta = tracker.step(live)
    assert delta.non_finite == ("large",)
    assert norm(live, tracker.state) <= 0.001 * norm(live, before)


def test_the_estimate_of_what_steps_leave() -> None:
    """From a histogram, against the real sum; within a hundredth."""
    rng = np.random.default_rng(0)
    values = (rng.laplace(size=50_000) * np.exp(rng.normal(size=50_000))).astype(F32)
    count = np.bincount(np.abs(values).view(np.uint32) >> 17, minlength=uniform.N_FINE)
    magnitudes = uniform.Magnitudes(
        count, np.abs(values).max(keepdims=True).view(np.uint32), 50_000
    )
    for size in (0.01, 0.3, 2.0, 20.0):
        for offset in (uniform.OFFSET, uniform.NEAREST):
            q = np.sign(values) * np.floor(np.abs(values, dtype=np.float64) / size + offset)
            real = ((values - q * size) ** 2).sum() / (values.astype(np.float64) ** 2).sum()
            assert magnitudes.share_left(size, offset) == pytest.approx(real, rel=0.01)


def test_what_is_too_far_for_a_restart() -> None:
    """The worst of the steps, how many more there are, and what helps."""
    bits, default = Coding(1), Coding.safe()
    assert restart_warning([]) == restart_warning([DeltaRest(1, default, Rest(0.3, 0.35))]) == ""
    triples = (1, bits, Rest(0.9, 0.7)), (2, default, Rest(0.3, 0.9)), (3, bits, Rest(0.9, 0.3))
    deltas = [DeltaRest(*triple) for triple in triples]
    assert restart_warning(deltas) == (
        "Too far for a restart: step 2 is behind by 90.0% of what was trained since the base (2 "
        "steps by more than 35%); save with distance=0.15 instead."
    )
    assert restart_warning(deltas[:1]).endswith("since the base; save with distance=0.3 instead.")


def test_behind_is_estimated_from_a_sample() -> None:
    """Of models larger than the sample; here within 2 % of the true share."""
    n = 3 * SAMPLE + 1000
    base = weights(n)
    tracker = codec.Tracker(base, bits=3)
    live = moved(base, 1, 0.5)
    rest = tracker.step(live).rest
    assert rest is not None
    assert rest.behind == pytest.approx(norm(live, tracker.state) / norm(live, base), rel=0.02)


def test_a_sample_covers_every_element_of_small_models() -> None:
    """Tensors of any size, the last block not full."""
    rng = np.random.default_rng(0)
    sizes = (8, 300, 256, 1000, 9)
    arrays = {f"{i}": rng.normal(size=n).astype(F32) for i, n in enumerate(sizes)}
    origin = Origin.of(layout_of(arrays), arrays)
    n = sum(sizes)
    assert np.array_equal(origin.weights.reshape(-1)[:n], np.concatenate(list(arrays.values())))
    assert not origin.weights.reshape(-1)[n:].any()
    later = {name: array + 1 for name, array in arrays.items()}
    assert origin.behind(later, Remainder(1.0, 4.0)) == pytest.approx(math.sqrt(4 / n), rel=1e-6)
    assert origin.behind(arrays, Remainder()) == 0.0
    assert origin.behind(arrays, Remainder(1.0, 1.0)) == math.inf
