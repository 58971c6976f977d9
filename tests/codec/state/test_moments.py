"""An optimizer's moments with bits of their own: an alphabet each, and never below zero."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import codec
from codec.scheme.track import Track
from codec.state.policy import Policy
from codec.state.tensors import Layout, layout_of

F32 = np.float32
POLICY = {"optimizer/*": "bits=3"}
EXTREMES = [0.0, 1e-45, 1e-38, 1e-30, 1e-8, 1.0, 1e8, 1e30, float(np.finfo(F32).max)]
VALUES = st.one_of(st.sampled_from(EXTREMES), st.floats(0, EXTREMES[-1], width=32))


def adam(n_steps: int) -> list[dict[str, object]]:
    """States of a small training with AdamW, copied."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x = torch.randn(256, 40)
    y = x[:, :8] * 2 - x[:, 8:16]
    found = []
    for _ in range(n_steps):
        at = torch.randint(0, 256, (32,))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x[at]), y[at]).backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        found.append(torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, state))
    return found


@settings(deadline=None, max_examples=60)
@given(st.lists(arrays(F32, 24, elements=VALUES), min_size=2, max_size=5))
def test_second_moments_are_never_negative(moments: list[np.ndarray]) -> None:
    first, *later = moments
    family = Policy(POLICY).family("optimizer/state/0/exp_avg_sq")
    spec = replace(layout_of({"exp_avg_sq": first}).tensors[0], family=family)
    track = Track.of(Layout((spec,)), {"exp_avg_sq": first.copy()})
    tracker = codec.Tracker.resume(track, codec.Coding())
    for v in later:
        tracker.commit(tracker.prepare_arrays({"exp_avg_sq": v}))
        kept = tracker.state["exp_avg_sq"]
        assert np.isfinite(kept).all()
        assert kept.min() >= 0


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_each_moment_has_an_alphabet(tmp_path: Path, scope: str) -> None:
    states, path = adam(12), tmp_path / "run.lcc"
    with codec.Checkpointer(path, policy=POLICY, scope=scope) as checkpoints:
        for step, state in enumerate(states):
            saved = checkpoints.save(step, state)
        assert checkpoints.tracker is not None
        assert saved.delta is not None
        of_optimizer = [
            group for group in saved.delta.groups if group.tensors[0].name.startswith("optimizer/")
        ]
        assert len(of_optimizer) == 8  # two moments of four parameters; steps are exact
        for group in of_optimizer:
            assert len(group.tensors) == 1
            assert group.encoded.levels.size <= 8
    assert codec.verify(path).ok
    restored = codec.restore(path)
    for i in range(4):
        moments = restored["optimizer"]["state"][i]
        live = states[-1]["optimizer"]["state"][i]
        assert moments["step"] == live["step"]
        assert float(moments["exp_avg_sq"].min()) >= 0
        error = (moments["exp_avg"] - live["exp_avg"]).norm() / live["exp_avg"].norm()
        assert 0 < float(error) < 0.5


def test_an_optimizer_goes_on_from_them(tmp_path: Path) -> None:
    *_, last = states = adam(12)
    with codec.Checkpointer(tmp_path / "run.lcc", policy=POLICY) as checkpoints:
        for step, state in enumerate(states):
            saved = checkpoints.save(step, state)
    nbytes = sum(t.numel() * 4 for t in last["model"].values())
    assert saved.nbytes < nbytes  # of three times as many floats
    model = torch.nn.Sequential(torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    restored = codec.restore(tmp_path / "run.lcc")
    model.load_state_dict(restored["model"])
    optimizer.load_state_dict(restored["optimizer"])
    model(torch.randn(8, 40)).pow(2).mean().backward()
    optimizer.step()
    assert all(bool(p.isfinite().all()) for p in model.parameters())
