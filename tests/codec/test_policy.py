"""Which tensors are lossy, and that lossy moments stay what an optimizer can use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec.policy import Policy, family
from codec.quantize import quantize

F32 = np.float32


def lossy(path: Path, state: Any, policy: dict[str, str] | None = None) -> set[str]:
    """Names of tensors that a Checkpointer codes with loss."""
    with codec.Checkpointer(path, policy=policy) as checkpoints:
        checkpoints.save(0, state)
        assert checkpoints.tracker is not None
        return {t.name for t in checkpoints.tracker.layout.tensors if t.lossy}


def full(*shape: int) -> np.ndarray:
    return np.ones(shape, F32)


def test_default(tmp_path: Path) -> None:
    model = {"w": full(9), "n": np.arange(9), "bn.running_var": full(9), "tiny": full(7)}
    model["bn.running_mean"] = full(9)
    assert lossy(tmp_path / "flat", model) == {"w"}
    deep = {name: array.copy() for name, array in model.items()}
    nested = {
        "model": model, "state_dict": {"deep": [deep]}, "optimizer": {"exp_avg": full(9)},
        "ema": full(9), "other": {"w": full(9)}, "models": {"w": full(9)},
    }  # fmt: skip
    assert lossy(tmp_path / "nested", nested) == {"model/w", "state_dict/deep/0/w", "ema"}


def test_patterns(tmp_path: Path) -> None:
    """The first one that matches counts; * matches a slash too; none makes an integer lossy."""
    state = {"model": {"a": full(9), "b": full(9)}, "o": {"x": {"m": full(9), "n": np.arange(9)}}}
    policy = {"model/b": "exact", "o/*": "lossy", "*/m": "exact"}
    assert lossy(tmp_path / "1", state, policy) == {"model/a", "o/x/m"}
    policy = {"*": "exact", "model/*": "lossy"}
    assert lossy(tmp_path / "2", state, policy) == set()
    assert lossy(tmp_path / "3", state, {"model": "skip", "o/?": "skip"}) == set()
    assert codec.restore(tmp_path / "3") == {"o": {}}
    policy = {"o/x/n": "exact", "model/*": "lossy", "*": "skip"}  # what is kept, and nothing else
    assert lossy(tmp_path / "4", state, policy) == {"model/a", "model/b"}
    found = codec.restore(tmp_path / "4")
    assert (list(found["model"]), list(found["o"]), list(found["o"]["x"])) == (
        ["a", "b"],
        ["x"],
        ["n"],
    )


@pytest.mark.parametrize("policy", [{"a": "x"}, {"a": None}, {1: "lossy"}, {"a": "LOSSY"}])
def test_what_is_no_policy(tmp_path: Path, policy: Any) -> None:
    with pytest.raises(codec.SettingsError, match="a policy maps patterns of names to"):
        codec.Checkpointer(tmp_path / "run.lcc", policy=policy)
    assert not (tmp_path / "run.lcc").exists()


def test_families() -> None:
    assert family("w") == family("model/w") == family("state_dict/x/exp_avg") == ""
    assert family("optimizer/state/0/exp_avg") == "exp_avg"
    assert Policy().is_lossy("w")
    assert not Policy().is_lossy("optimizer/state/0/exp_avg")


def adam(steps: int, seed: int = 0) -> list[dict[str, Any]]:
    """States of a training with Adam, from before its first step on."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    found = []
    for step in range(steps):
        x = torch.randn(16, 30) * (torch.rand(30) < 0.2)  # inputs that come and go
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean() * 10.0 ** -(step % 5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        found.append(torch.utils._pytree.tree_map(
            lambda t: t.clone() if isinstance(t, torch.Tensor) else t, state
        ))  # fmt: skip
    return found


@pytest.mark.parametrize("scope", ["model", "tensor"])
@pytest.mark.parametrize("bits", [1, 2, None])
def test_lossy_moments_of_adam(tmp_path: Path, scope: str, bits: int | None) -> None:
    """Never negative, 0 only where they are, and near enough for updates of the usual size."""
    path, states = tmp_path / "run.lcc", adam(40)
    with codec.Checkpointer(path, bits, scope, policy={"optimizer/*": "lossy"}) as checkpoints:
        for step, state in enumerate(states):
            saved = checkpoints.save(step, state)
            assert checkpoints.tracker is not None
            for name, track in checkpoints.tracker.state.items():
                if not name.endswith("exp_avg_sq"):
                    continue
                *_, number, _ = name.split("/")
                true = state["optimizer"]["state"][int(number)]["exp_avg_sq"].numpy()
                assert (track >= 0).all()
                assert ((track == 0) <= (true == 0)).all()
                assert (track >= 0.5 * true).all()
        assert saved.delta is not None
        families = [g.tensors[0].family for g in saved.delta.groups]
        assert set(families) == {"", "exp_avg", "exp_avg_sq"}
        for group in saved.delta.groups:
            assert group.encoded.bits == (None if group.tensors[0].family else bits)
    restored = codec.restore(path)
    for number, moments in restored["optimizer"]["state"].items():
        true = states[-1]["optimizer"]["state"][number]
        assert moments["step"] == true["step"]
        update, expected = (m["exp_avg"] / (m["exp_avg_sq"].sqrt() + 1e-8) for m in (moments, true))
        assert (update - expected).abs().max() < 1.0


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0, -20, -140]))
def test_a_family_that_is_not_negative_stays_so(seed: int, n: int, scale: int) -> None:
    """Whatever the track was, down to the smallest subnormals."""
    rng = np.random.default_rng(seed)
    spread = np.ldexp(rng.random((2, n)), rng.integers(scale - 9, scale + 9, (2, n)))
    track, values = spread.astype(F32)
    values[rng.random(n) < 0.3] = 0
    with np.errstate(all="ignore"):
        delta = values - track
    q = quantize(delta)
    assert q.buckets is not None
    moved = track + q.buckets.cautious_levels[q.codes]
    assert (moved >= 0).all()
    falls = delta < 0
    assert (moved[falls] >= values[falls] - np.spacing(track[falls])).all()


def test_a_family_with_other_signs_is_not_treated_so(
    tmp_path: Path, random_states: Callable[..., Any]
) -> None:
    """Moments of first order: levels in the middle of their buckets."""
    states = adam(3)
    with codec.Checkpointer(tmp_path / "run.lcc", policy={"*/exp_avg*": "lossy"}) as checkpoints:
        for step, state in enumerate(states):
            saved = checkpoints.save(step, state)
    assert saved.delta is not None
    for group in saved.delta.groups:
        assert group.buckets is not None
        kind = group.tensors[0].family
        own = group.encoded.levels.tobytes()
        assert (own == group.buckets.levels.tobytes()) == (kind != "exp_avg_sq")
        assert (own == group.buckets.cautious_levels.tobytes()) == (kind == "exp_avg_sq")
