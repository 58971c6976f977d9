"""An optimizer's moments with bits of their own: an alphabet each, and never below zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import codec
from codec.record.track import Track
from codec.saving.checkpointer import Front
from codec.state.moments import bounded
from codec.state.policy import Policy
from codec.state.tensors import copy_arrays, layout_of, to_arrays
from codec.state.tree import flatten

F32 = np.float32
Adam = Callable[[int], list[dict[str, Any]]]
POLICY = {"optimizer/*": "bits=3"}
EXTREMES = [0.0, 1e-45, 1e-38, 1e-30, 1e-8, 1.0, 1e8, 1e30, float(np.finfo(F32).max)]
VALUES = st.one_of(st.sampled_from(EXTREMES), st.floats(0, EXTREMES[-1], width=32))


SIGNED = st.tuples(VALUES, st.sampled_from([-1, 1])).map(lambda pair: F32(pair[0]) * pair[1])
STEPS = st.lists(
    st.tuples(arrays(F32, 24, elements=SIGNED), arrays(F32, 24, elements=VALUES)),
    min_size=1,
    max_size=4,
)
BETAS = st.sampled_from([(0.9, 0.999), (0.9, 0.95), (0.0, 0.99), (0.9, 0.5), None])


@settings(deadline=None, max_examples=40)
@given(STEPS, BETAS, st.sampled_from(["float32", "bfloat16", "float16"]))
def test_whatever_was_saved_an_optimizer_can_use_what_is_restored(
    moments: list[tuple[np.ndarray, np.ndarray]], betas: object, dtype: str
) -> None:
    """Finite, a second moment never negative, nor its track, and no update without a bound."""

    def typed(array: np.ndarray) -> torch.Tensor:
        kind = getattr(torch, dtype)
        return torch.from_numpy(array).clamp(torch.finfo(kind).min, torch.finfo(kind).max).to(kind)

    tracker = None
    for m, v in moments:
        stored = {"exp_avg": typed(m), "exp_avg_sq": typed(v), "max_exp_avg_sq": typed(v)}
        groups = [{"betas": betas, "params": [0]}]
        state = {"optimizer": {"state": {0: stored}, "param_groups": groups}}
        parts, layout = Front(Policy()).look_at(state)
        values = to_arrays(parts.tensors, layout)
        if tracker is None:
            first = Track.of(layout, copy_arrays(values), parts.values)
            tracker = codec.Tracker.resume(first, codec.Coding())
        else:
            tracker.commit(tracker.prepare_arrays(values))
        for key in ("exp_avg_sq", "max_exp_avg_sq"):
            track = tracker.state[f"optimizer/state/0/{key}"]
            assert np.isfinite(track).all()
            assert track.min() >= 0
        restored = tracker.track.restore()["optimizer"]["state"][0]
        for key, tensor in restored.items():
            assert tensor.dtype == getattr(torch, dtype)
            assert bool(tensor.isfinite().all())
            assert key == "exp_avg" or float(tensor.min()) >= 0
        least = restored["exp_avg"].double() ** 2 / 1010  # the track's, but for rounding
        if dtype == "float32":
            for key in ("exp_avg_sq", "max_exp_avg_sq"):
                bounded_by = least.clamp(max=float(np.finfo(F32).max))
                assert bool((restored[key] >= bounded_by * (least > 1e-37)).all())


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_each_moment_has_levels_of_its_own(adam: Adam, tmp_path: Path, scope: str) -> None:
    *_, last = states = adam(12)
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, policy=POLICY, scope=scope) as checkpoints:
        for step, state in enumerate(states):
            saved = checkpoints.save(step, state)
    assert saved.delta is not None
    groups = [g for g in saved.delta.groups if g.tensors[0].name.startswith("optimizer/")]
    assert len(groups) == 2  # two moments of four parameters; steps are exact
    for group in groups:
        assert len(group.tensors) == 4
        assert group.encoded.levels.shape == (8, 4)
    restored = codec.restore(path)
    for i in range(4):
        moments, live = (s["optimizer"]["state"][i] for s in (restored, last))
        assert moments["step"] == live["step"]
        assert float(moments["exp_avg_sq"].min()) >= 0
        error = (moments["exp_avg"] - live["exp_avg"]).norm() / live["exp_avg"].norm()
        assert 0 < float(error) < 0.5


def sparse(path: Path, betas: object, policy: dict[str, str]) -> tuple[dict, dict]:
    """The live and the restored moments of a parameter whose gradients come late: below those of
    most others, so few bits leave out its second moment first."""
    live: dict = {}
    with codec.Checkpointer(path, policy=policy) as checkpoints:
        for step in range(4):
            m, v = np.full(400, 1e-3, F32), np.full(400, 1e-5, F32)
            m[:100], v[:100] = (1e-4, 1e-9) if step else (0, 0)
            v[100:] *= np.exp2(-np.arange(300) % 24 + step).astype(F32)
            live = {"exp_avg": m, "exp_avg_sq": v, "max_exp_avg_sq": v.copy()}
            groups = [{"lr": 0.1, "betas": betas, "params": [0]}]
            optimizer = {"state": {0: live}, "param_groups": groups}
            state = {"model": {"w": m.copy()}, "optimizer": optimizer}
            checkpoints.save(step, state)
        assert checkpoints.tracker is not None
        track = dict(checkpoints.tracker.state)
    return track, codec.restore(path)["optimizer"]["state"][0]


WIDE = 1000  # no update is 32 times the rate or more
BOUNDS = [((0.9, 0.999), 0.01 / (0.001 * (1 - 0.81 / 0.999))), ((0.9, 0.5), WIDE), ((0.9, 1), WIDE)]


@pytest.mark.parametrize(("betas", "bound"), [*BOUNDS, (None, WIDE), ("no", WIDE)])
def test_a_second_moment_is_at_least_what_the_first_one_implies(
    tmp_path: Path, betas: object, bound: float
) -> None:
    """Its square by a bound, which is a wide one where the betas say nothing."""
    track, restored = sparse(tmp_path / "run.lcc", betas, POLICY)
    least = restored["exp_avg"].astype(float) ** 2 / bound
    for second in ("exp_avg_sq", "max_exp_avg_sq"):
        before = track[f"optimizer/state/0/{second}"]
        assert (before < 0.5 * least).any()
        assert (restored[second] > 0.998 * least).all()
        unchanged = before >= least
        assert unchanged.any()
        assert np.array_equal(restored[second][unchanged], before[unchanged])


@pytest.mark.parametrize(
    "policy",
    [{"optimizer/*": "exact"}, {"optimizer/*exp_avg_sq": "exact", "optimizer/*": "bits=3"}],
)
def test_exact_second_moments_are_those_of_the_track(
    tmp_path: Path, policy: dict[str, str]
) -> None:
    track, restored = sparse(tmp_path / "run.lcc", (0.9, 0.999), policy)
    for key, value in restored.items():
        assert np.array_equal(value, track[f"optimizer/state/0/{key}"])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_exact_first_moments_bound_lossy_second_ones(tmp_path: Path, dtype: str) -> None:
    first = torch.linspace(-2, 2, 40).to(getattr(torch, dtype))
    state = {"optimizer": {"exp_avg": first, "exp_avg_sq": torch.zeros(40)}}
    with codec.Checkpointer(tmp_path, policy={"*/exp_avg": "exact"}) as checkpoints:
        checkpoints.save(0, state)
    restored = codec.restore(tmp_path)["optimizer"]
    assert torch.equal(restored["exp_avg"], first)
    assert restored["exp_avg_sq"].numpy() == pytest.approx(first.double().numpy() ** 2 / 1001)


def test_exact_moments_keep_the_bound(adam: Adam, tmp_path: Path) -> None:
    """A base is restored to the bit, and its moments are lossy in the layout."""
    for step, state in enumerate(adam(3)[1:]):
        path = tmp_path / f"{step}"
        with codec.Checkpointer(path, policy=POLICY) as checkpoints:
            checkpoints.save(step, state)
        restored = codec.restore(path)["optimizer"]["state"]
        for i, moments in state["optimizer"]["state"].items():
            for key, value in moments.items():
                assert torch.equal(restored[i][key], value)


@pytest.mark.parametrize("m", [0.0, 1e-30, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("v", [0.0, 1e-40, 1e-8, np.inf, np.nan])
def test_extreme_moments(m: float, v: float) -> None:
    """Nothing finite becomes infinite or NaN, and nothing that is neither is hidden."""
    moments = {"exp_avg": np.full(99, m, F32), "exp_avg_sq": np.full(99, v, F32)}
    groups = [{"betas": (0.9, 0.999), "params": [0]}]
    state = {"optimizer": {"state": {0: moments}, "param_groups": groups}}
    parts = flatten(state, lambda _: False)
    layout = replace(layout_of(parts.tensors), structure=parts.structure)
    second = bounded(parts.tensors, layout, parts.values)["optimizer/state/0/exp_avg_sq"]
    assert second.dtype == F32
    if np.isfinite(v):
        assert np.isfinite(second).all()
        assert (second >= F32(v)).all()
    else:
        assert np.array_equal(second, moments["exp_avg_sq"], equal_nan=True)


def test_a_models_own_tensors_are_left_as_they_are(tmp_path: Path) -> None:
    """Whatever their names are."""
    m, v = np.ones(40, F32), np.full(40, 1e-9, F32)
    state = {"model": {"exp_avg": m, "exp_avg_sq": v}, "other": {"exp_avg": m + 1}}
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, state)
    restored = codec.restore(tmp_path / "run.lcc")["model"]
    assert np.array_equal(restored["exp_avg_sq"], v)
