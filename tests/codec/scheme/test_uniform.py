"""Uniform steps: errors that are bounded, budgets that are met."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import codec
from codec.errors import BudgetError
from codec.scheme import uniform
from codec.scheme.coders import CODERS, FEW
from codec.scheme.context import MOST_PLAIN, ContextCode
from codec.scheme.prefix import PrefixCode
from codec.scheme.survivors import Segments
from codec.scheme.twins import taking

F32 = np.float32
Arrays = dict[str, np.ndarray]
MAX = float(np.finfo(F32).max)
CODER = st.sampled_from(list(CODERS))
SCOPE = st.sampled_from(["model", "tensor"])


def error_of(track: np.ndarray, live: np.ndarray) -> np.ndarray:
    """|track - live| in float64; 0 where both have the same bits, or are NaN."""
    track, live = (np.asarray(a, F32).reshape(-1) for a in (track, live))
    same = (track.view(np.uint32) == live.view(np.uint32)) | (np.isnan(track) & np.isnan(live))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(track.astype(np.float64) - live.astype(np.float64)))


# A tolerance.

ORDINARY = st.floats(-10, 10, width=32)
ANY = st.floats(width=32)  # subnormal, huge, infinite, NaN
NEAR_END = st.sampled_from(
    [MAX, -MAX, MAX / 2, -MAX / 3, 1e38, float(np.nextafter(F32(MAX), F32(0)))]
)
SUBNORMAL = st.sampled_from([1e-45, -1e-45, 1e-40, -1.1e-38, 2.0**-126, 0.0, -0.0])
values = st.lists(st.one_of(ORDINARY, ORDINARY, ANY, NEAR_END, SUBNORMAL), min_size=9, max_size=60)
tolerances = st.one_of(
    st.floats(1e-6, 1.0),
    st.floats(2.0**-126, MAX / 4),
    st.sampled_from([2.0**-126, MAX / 4, 1.2e-38, 1e30, 0.1]),
)


@settings(max_examples=60)
@given(st.lists(values, min_size=2, max_size=4), tolerances, CODER, SCOPE)
@example([[0.0] * 9, [MAX] * 9, [-MAX] * 9], MAX / 4, "runlength", "model")
@example([[0.0] * 9, [MAX] * 5 + [1.0] * 4], 1e34, "runlength", "tensor")
@example([[1.0] * 9, [1e-45] * 9], 2.0**-126, "huffman", "model")
@example([[math.nan] * 9, [math.nan] * 8 + [0.5]], 0.1, "runlength", "model")
@example([[math.inf] * 9, [math.inf] * 8 + [0.5]], 0.1, "runlength", "model")
@example([[math.inf] + [0.5] * 8, [math.inf] + [0.7] * 8], 0.01, "runlength", "model")
@example([[math.nan] + [0.5] * 8, [math.nan] + [0.7] * 8], 0.01, "huffman", "tensor")
def test_no_value_is_further_than_the_tolerance(
    states: list[list[float]], tolerance: float, coder: str, scope: str
) -> None:
    """Element by element; what cannot be said in steps is stored whole, exactly."""
    n = min(map(len, states))
    live = [
        {"w": np.array(s[:n], F32), "v": np.linspace(0, i, 40, dtype=F32)}
        for i, s in enumerate(states)
    ]
    tracker = codec.Tracker(live[0], scope=scope, coder=coder, tolerance=tolerance)
    for before, state in pairwise(live):
        track = {k: a.copy() for k, a in tracker.state.items()}
        prepared = tracker.prepare(state)
        step = tracker.step(state)
        assert prepared.sums == step.sums
        for name, array in state.items():
            got = tracker.state[name]
            if name in step.non_finite:
                assert got.tobytes() == array.tobytes() == step.exact[name].tobytes()
            assert (error_of(got, array) <= tolerance).all(), (name, before)
            assert np.isfinite(got).tolist() == np.isfinite(array).tolist()
        applied = {k: a.copy() for k, a in track.items()}
        codec.apply(step, applied)
        assert all(a.tobytes() == tracker.state[k].tobytes() for k, a in applied.items())
        new = ~np.isfinite(state["w"]) & (state["w"].view(np.uint32) != track["w"].view(np.uint32))
        assert not new.any() or "w" in step.non_finite


def test_the_largest_error_is_near_the_tolerance() -> None:
    """A step size far below it would waste bytes."""
    rng = np.random.default_rng(0)
    for scale in (0.1, 1.0):
        tracker = codec.Tracker({"w": rng.normal(size=100_000).astype(F32)}, tolerance=1e-3)
        w = tracker.state["w"] + scale * rng.normal(size=100_000).astype(F32)
        tracker.step({"w": w})
        assert 0.98e-3 < error_of(tracker.state["w"], w).max() <= 1e-3


def test_run_lengths_leave_few_values_to_a_context_code() -> None:
    """Numpy alone, which is slower, leaves fewer; buckets, and larger alphabets, keep runs."""
    pytest.importorskip("numba")
    for n, target, kinds in (
        (MOST_PLAIN, {"tolerance": 0.01}, (ContextCode, ContextCode)),
        (MOST_PLAIN + 1, {"tolerance": 0.01}, (ContextCode, PrefixCode)),
        (FEW + 1, {"tolerance": 0.01}, (PrefixCode, PrefixCode)),
        (999, {"bits": 3}, (PrefixCode, PrefixCode)),
    ):
        change = np.random.default_rng(0).normal(0, 0.02, n).astype(F32)
        for with_kernels, kind in zip((True, False), kinds, strict=True):
            with taking(with_kernels):
                delta = codec.Tracker({"w": np.zeros(n, F32)}, **target).step({"w": change})
            assert isinstance(delta.groups[0].encoded.payload, kind)


@pytest.mark.parametrize("coder", CODERS)
def test_changes_beyond_the_last_level_are_stored_whole(coder: str) -> None:
    """One tensor of two: the other one is a delta all the same."""
    rng = np.random.default_rng(0)
    state = {name: rng.normal(size=5000).astype(F32) for name in ("a", "b")}
    most = uniform.MAX_STEPS_PLAIN if coder == "huffman" else uniform.MAX_STEPS
    for beyond in (0.9, 1.1):
        tracker = codec.Tracker(state, coder=coder, tolerance=1e-3)
        moved = {k: a + F32(0.01) * rng.normal(size=5000).astype(F32) for k, a in state.items()}
        moved["b"][4321] += F32(beyond * most * 2e-3)
        step = tracker.step(moved)
        assert step.non_finite == (("b",) if beyond > 1 else ())
        assert [t.name for g in step.groups for t in g.tensors] == ["a", "b"][: 2 - (beyond > 1)]
        for name, array in moved.items():
            assert error_of(tracker.state[name], array).max() <= 1e-3


def test_a_level_beyond_float32_is_none() -> None:
    """The nearest step to a change near the end of float32 may lie behind it."""
    tolerance = MAX / 250.6 * (0.5 + uniform.SLACK)
    first, second = (np.full(99, x, F32) for x in (-MAX / 2, MAX / 2 * 0.9999))
    tracker = codec.Tracker({"w": first, "v": np.zeros(9, F32)}, tolerance=tolerance)
    step = tracker.step({"w": second, "v": np.ones(9, F32)})
    assert step.non_finite == ("w",)
    assert tracker.state["w"].tobytes() == second.tobytes()


def test_what_stays_infinite_is_no_change() -> None:
    """It costs nothing, and makes the steps of the others no smaller."""
    rng, sizes = np.random.default_rng(0), []
    for odd in (0.0, np.nan, np.inf, -np.inf):
        w = rng.normal(size=5000).astype(F32)
        w[7] = odd
        tracker = codec.Tracker({"w": w}, tolerance=1e-3)
        step = tracker.step({"w": w + F32(0.1)})
        assert step.non_finite == ()
        sizes.append(step.groups[0].encoded.levels[1])
    assert max(sizes) < 1.001 * min(sizes)


def test_a_large_change_that_a_sample_misses() -> None:
    """Of a large delta not every magnitude is looked at before it is quantized."""
    n = 6 * uniform.SAMPLE
    for at, jump in ((0, 0.5), (n // 13, 1e3), (n // 2 + 99, 1e3), (n - 1, np.inf)):
        w = np.full(n, 0.01, F32)
        w[at] = jump
        tracker = codec.Tracker({"w": np.zeros(n, F32)}, tolerance=1e-3)
        step = tracker.step({"w": w})
        assert error_of(tracker.state["w"], w).max() <= 1e-3
        assert (step.non_finite == ("w",)) == (jump > 1)
        tracker = codec.Tracker({"w": np.zeros(n, F32)}, budget=0.01)
        step = tracker.step({"w": w})
        assert step.nbytes <= 0.01 * 4 * n or step.non_finite
        assert (step.non_finite == ("w",)) == (jump == np.inf)
        assert np.isfinite(tracker.state["w"]).sum() == n - (jump == np.inf)


def test_policy_targets(tmp_path: Path) -> None:
    """Each its own tolerance, whatever the others have; bits too."""
    rng = np.random.default_rng(0)
    policy = {"*.emb": "tolerance=1e-5", "head.*": "tolerance=0.01", "b": "bits=all", "x": "exact"}
    names = ("a.emb", "b.emb", "head.w", "b", "x", "rest")
    targets = ({"bits": 2}, {"budget": 0.4}, {"tolerance": 1e-3, "scope": "tensor"})
    for number, target in enumerate(targets):
        state = {name: rng.normal(size=2000).astype(F32) for name in names}
        worst = {"a.emb": 1e-5, "b.emb": 1e-5, "head.w": 0.01, "x": 0.0}
        worst |= {"rest": 1e-3} if "tolerance" in target else {}
        path = tmp_path / f"{number}"
        with codec.Checkpointer(path, policy=policy, **target) as checkpoints:
            for step in range(3):
                delta = checkpoints.save(step, state).delta
                assert checkpoints.tracker is not None
                track = checkpoints.tracker.state
                assert all(error_of(track[k], state[k]).max() <= most for k, most in worst.items())
                if delta is not None:
                    assert error_of(track["head.w"], state["head.w"]).max() > 0.009
                    in_steps = {
                        t.name for g in delta.groups for t in g.tensors if g.encoded.uniform
                    }
                    expected = {
                        "a.emb",
                        "b.emb",
                        "head.w",
                        *(["rest"] if "bits" not in target else []),
                    }
                    assert in_steps == expected
                    assert "x" in delta.residuals
                state = {
                    k: a + F32(0.01) * rng.normal(size=2000).astype(F32) for k, a in state.items()
                }
        assert codec.verify(path).ok


# A budget.


def training(kind: str, seed: int, n_steps: int) -> list[Arrays]:
    """A matrix of which few rows move, as in an embedding, or all, with heavy tails and at many
    scales; and its bias."""
    rng = np.random.default_rng(seed)
    w = {"w": rng.standard_t(3, size=(300, 60)), "b": np.zeros(150)}
    states = []
    for _ in range(n_steps):
        states.append({k: a.astype(F32) for k, a in w.items()})
        for k, a in w.items():
            scales = np.exp(rng.normal(size=(len(a), *[1] * (a.ndim - 1))))
            if kind == "rows":
                scales *= rng.random(scales.shape) < 0.3
            w[k] = a + 0.01 * rng.standard_t(2.5, size=a.shape) * scales
    return states


@pytest.mark.parametrize(
    ("kind", "scope", "coder"),
    [
        ("rows", "model", "runlength"),
        ("all", "tensor", "runlength"),
        ("rows", "tensor", "context"),
        ("all", "model", "context"),
        ("all", "tensor", "huffman"),
    ],
)
def test_a_budget_is_met(kind: str, scope: str, coder: str) -> None:
    """Never above, and 97 % of it on average. Plain Huffman takes a bit a value: 3.2 %.

    Adam's first step, say, has one magnitude for all: those are not counted.
    """
    shares = []
    for budget in (0.05, 0.1) if coder == "huffman" else (0.01, 0.05):
        for seed in range(2):
            states = training(kind, seed, 6)
            lossy = sum(4 * a.size for a in states[0].values())
            tracker = codec.Tracker(states[0], scope=scope, coder=coder, budget=budget)
            for state in states[1:]:
                moved = sum(error_of(tracker.state[k], a).sum() for k, a in state.items())
                step = tracker.step(state)
                used = step.nbytes / (budget * lossy)
                assert used <= 1.0
                left = sum(error_of(tracker.state[k], a).sum() for k, a in state.items())
                codes = [codec.decode(g.encoded).codes for g in step.groups]
                magnitudes = max(np.unique((c[c > 0] + 1) // 2).size for c in codes)
                # else there was not so much to say, or finer steps would split all values at once
                if left > 0.002 * moved and magnitudes > 1:
                    shares.append(used)
    assert len(shares) >= 12
    assert np.mean(shares) >= 0.97
    assert min(shares) >= 0.85


def test_a_budget_of_more_than_there_is_to_say() -> None:
    """All of it is kept in the finest steps; then it is exact, or nearly."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=3000).astype(F32)
    tracker = codec.Tracker({"w": np.zeros(3000, F32)}, budget=1.0)
    step = tracker.step({"w": w})
    assert step.nbytes < 4 * 3000
    assert error_of(tracker.state["w"], w).max() <= np.abs(w).max() / uniform.MAX_STEPS
    for _ in range(3):
        tracker.step({"w": w})
    assert tracker.state["w"].tobytes() == w.tobytes()


@settings(max_examples=40)
@given(st.lists(values, min_size=2, max_size=4), st.floats(-2.5, 0), CODER, SCOPE)
@example([[0.0] * 9, [MAX] * 9], 0.0, "runlength", "model")
@example([[0.0] * 9, [1e-45] * 9, [-1e-45] * 9], 0.0, "huffman", "model")
@example([[0.0] * 9, [1e-45] * 8 + [MAX / 3]], -0.1, "runlength", "tensor")
def test_a_budget_takes_any_values(
    states: list[list[float]], exponent: float, coder: str, scope: str
) -> None:
    """Of the largest and smallest magnitudes, NaN and infinity: never more than its bytes."""
    n = min(map(len, states))
    budget = 10.0**exponent
    live = [
        {"w": np.array(s[:n], F32), "v": np.linspace(0, i, 40, dtype=F32)}
        for i, s in enumerate(states)
    ]
    tracker = codec.Tracker(live[0], scope=scope, coder=coder, budget=budget)
    for state in live[1:]:
        before = {k: a.tobytes() for k, a in tracker.state.items()}
        try:
            step = tracker.step(state)
        except BudgetError:
            assert budget * 4 * (n + 40) < 100
            assert {k: a.tobytes() for k, a in tracker.state.items()} == before
            continue
        assert step.nbytes - sum(a.nbytes for a in step.exact.values()) <= budget * 4 * (n + 40)
        for name in step.non_finite:
            assert tracker.state[name].tobytes() == state[name].tobytes()


# Settings, and what a chain makes of them.


@pytest.mark.parametrize("most", [uniform.MAX_STEPS, uniform.MAX_STEPS_PLAIN])
def test_the_finest_steps_reach_the_largest_change(most: int) -> None:
    """Also where float32 rounds the size down."""
    for value in np.random.default_rng(0).lognormal(-5, 3, 60).astype(F32):
        segments = Segments([np.zeros(3, F32)], [np.array([value, -value, 0], F32)])
        with uniform.quantizer(segments, uniform.OFFSET, most) as quantize:
            steps = quantize(F32(quantize.finest(float(value))), float(value))
        assert steps.beyond == 0
        assert steps.levels.size == 2 * most + 1
