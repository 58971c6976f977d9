"""`Checkpointer.of`: the objects of a training, their states, and what is lossy in them."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import codec
from codec.errors import SettingsError, StateMismatchError
from codec.state import objects
from codec.state.tensors import TensorSpec
from tests.codec.chains import save_all, tracker_of

Of = Callable[..., codec.Checkpointer]


class Own:
    """An object of one's own."""

    def __init__(self) -> None:
        self.epoch = 0

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch = state["epoch"]


class Encoder(nn.Module):
    """Its names are those of an optimizer's state."""

    def __init__(self) -> None:
        super().__init__()
        self.mu, self.exp_avg = nn.Parameter(torch.randn(20)), nn.Parameter(torch.randn(20))


def training() -> dict[str, Any]:
    """Objects of every kind."""
    actor = nn.Sequential(nn.Linear(9, 9), nn.BatchNorm1d(9), nn.Dropout(0.5))
    opt = Encoder()
    adam = torch.optim.AdamW([*actor.parameters(), *opt.parameters()])
    return {
        "actor": actor,
        "ema": copy.deepcopy(actor),
        "opt": opt,
        "adam": adam,
        "schedule": torch.optim.lr_scheduler.StepLR(adam, 2),
        "own": Own(),
        "torch_order": torch.Generator(),
        "numpy_order": np.random.default_rng(0),
        "python_order": random.Random(0),
    }


def iterate(named: dict[str, Any]) -> list[float]:
    """One iteration; returns numbers drawn from every generator."""
    x = torch.randn(8, 9)
    loss = named["actor"](x).square().mean() + named["opt"].mu.sum() + named["opt"].exp_avg.sum()
    named["adam"].zero_grad()
    loss.backward()
    named["adam"].step()
    named["schedule"].step()
    named["own"].epoch += 1
    with torch.no_grad():
        for average, weight in zip(named["ema"].parameters(), named["actor"].parameters()):
            average.lerp_(weight, 0.1)
    drawn = [loss.item(), random.random(), np.random.random(), named["numpy_order"].random()]
    return [*drawn, named["python_order"].random(), *torch.rand(2, generator=named["torch_order"])]


def lossy_in(checkpoints: codec.Checkpointer) -> dict[str, TensorSpec]:
    return {t.name: t for t in tracker_of(checkpoints).track.layout.tensors if t.lossy}


@pytest.mark.parametrize("settings", [{}, {"asynchronous": True}])
def test_everything_comes_back(settings: dict[str, Any], tmp_path: Path, forks: None) -> None:
    """What a restart draws and computes is what the training would have, to the last bit."""
    named = training()
    exact: dict[str, Any] = {"policy": {"*": "exact"}, **settings}
    with codec.Checkpointer.of(tmp_path / "run.lcc", **named, **exact) as checkpoints:
        assert checkpoints.next_step == 0
        for step in range(3):
            iterate(named)
            checkpoints.save(step, {"epoch": step})
        expected = [iterate(named) for _ in range(3)]
    again = training()
    weight = again["actor"][0].weight
    with codec.Checkpointer.of(tmp_path / "run.lcc", **again, **settings) as checkpoints:
        assert checkpoints.next_step == 3
        assert (checkpoints.restore() or {})["epoch"] == 2
        assert [iterate(again) for _ in range(3)] == expected
    assert again["own"].epoch == 6
    assert again["actor"][0].weight is weight
    assert torch.equal(again["ema"][1].running_mean, named["ema"][1].running_mean)


def test_what_is_lossy_follows_from_the_objects(tmp_path: Path) -> None:
    """Whatever they are called; what no optimizer trains has an alphabet of its own."""
    path, named = tmp_path / "run.lcc", training()
    with codec.Checkpointer.of(path, **named) as checkpoints:
        iterate(named)
        checkpoints.save(0)
        found = {name: str(t.family) for name, t in lossy_in(checkpoints).items()}
        iterate(named)
        delta = checkpoints.save(1).delta
    weights = {"actor/0.weight", "actor/0.bias", "actor/1.weight", "actor/1.bias"}
    averages = {name.replace("actor", "ema") for name in weights}
    moments = {f"adam/state/{i}/exp_avg{end}" for i in range(6) for end in ("", "_sq")}
    assert found.keys() == weights | averages | moments | {"opt/mu", "opt/exp_avg"}
    assert {name for name, text in found.items() if not text} == weights | {"opt/mu", "opt/exp_avg"}
    assert {name for name, text in found.items() if text == "average"} == averages
    assert delta is not None
    groups = [g for g in delta.groups if not g.tensors[0].measure]
    assert [g.encoded.uniform for g in groups] == [True, True]
    assert all(0.1 < g.remainder.distance <= 0.3 for g in groups)
    # The chain knows it: a reader goes on with it, and so does a plain writer.
    with codec.Checkpointer(path, resume=True) as checkpoints:
        checkpoints.save(2, codec.restore(path))
        assert lossy_in(checkpoints).keys() == found.keys()


def test_a_policy_wins(tmp_path: Path) -> None:
    path, named = tmp_path / "run.lcc", training()
    policy = {"actor/*": "exact", "opt/mu": "distance=0.1", "opt/exp_avg": "lossy"}
    with codec.Checkpointer.of(path, **named, policy=policy) as checkpoints:
        checkpoints.save(0)
        found = lossy_in(checkpoints)
    assert {name.partition("/")[0] for name in found} == {"ema", "opt"}
    assert str(found["opt/mu"].family) == "distance=0.1"
    assert not str(found["opt/exp_avg"].family)
    with codec.Checkpointer.of(path, **named) as checkpoints:  # with the chain's policy
        checkpoints.save(1)
        assert "actor/0.weight" not in lossy_in(checkpoints)
    save_all(tmp_path / "plain.lcc", [{"actor": named["actor"].state_dict(), "n": 1}])
    with pytest.raises(SettingsError, match=r"'actor/0.weight'.*exact in this chain"):
        codec.Checkpointer.of(tmp_path / "plain.lcc", actor=named["actor"])
    model = nn.Linear(64, 64)
    save_all(tmp_path / "model.lcc", [{"model": model.state_dict()}])
    with codec.Checkpointer.of(tmp_path / "model.lcc", model=model) as checkpoints:
        assert checkpoints.save(1).kind == "delta"
    with codec.Checkpointer(tmp_path / "model.lcc", resume=True) as checkpoints:
        assert checkpoints.policy.modules == {"model": "model"}


def test_a_budget_is_for_what_is_trained(tmp_path: Path) -> None:
    """An average has the default distance."""
    path, named = tmp_path / "run.lcc", training()
    with codec.Checkpointer.of(path, **named, policy={"opt/*": "exact"}, budget=0.4) as checkpoints:
        checkpoints.save(0)
        iterate(named)
        delta = checkpoints.save(1).delta
    assert delta is not None
    trained, average = (g for g in delta.groups if not g.tensors[0].measure)
    assert str(average.tensors[0].family) == "average"
    assert 0.1 < average.remainder.distance <= 0.3
    assert trained.tensors[0].name == "actor/0.weight"


def test_what_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With what to do instead; the chain stays as it was, and unlocked."""
    path, net = tmp_path / "run.lcc", nn.Linear(9, 9)
    sgd = torch.optim.SGD(net.parameters())
    refused: list[tuple[str, dict[str, Any]]] = [
        (r"epoch=3: is no setting.* save\(step, \{'epoch': …\}\)", {"epoch": 3}),
        ("asynchronus=True: is no setting", {"asynchronus": True}),
        ("kind=.*Own", {"kind": Own}),
        ("net: is an optimizer; give it another name", {"net": sgd}),
        ("'random' is the name of the random states", {"random": net}),
    ]
    for message, named in refused:
        with pytest.raises(SettingsError, match=message):
            codec.Checkpointer.of(path, **named)
    with pytest.raises(SettingsError, match="modules map names to model or average; got"):
        codec.state.policy.Policy(modules={"a": "b"})
    with codec.Checkpointer.of(path, net=net) as checkpoints:
        with pytest.raises(StateMismatchError, match="'net' is the name of an object"):
            checkpoints.save(0, {"net": 1})
        checkpoints.save(0)
    with pytest.raises(StateMismatchError, match=r"run.lcc, step 0 has no 'sgd': give each object"):
        codec.Checkpointer.of(path, net=net, sgd=sgd)
    with pytest.raises(StateMismatchError, match=r"'net' does not take its state: RuntimeError"):
        codec.Checkpointer.of(path, net=nn.Linear(9, 8))
    with codec.Checkpointer(tmp_path / "plain.lcc") as checkpoints:
        with pytest.raises(codec.errors.DTypeError, match=r"is for codec.Checkpointer.of"):
            checkpoints.save(0)
        checkpoints.save(0, {"net": net.state_dict()})
    codec.Checkpointer.of(tmp_path / "plain.lcc", net=net).close()
    assert "plain.lcc, step 0 has no random states" in caplog.text


def test_an_object_may_have_the_name_of_a_setting(tmp_path: Path) -> None:
    net = nn.Linear(9, 9)
    with codec.Checkpointer.of(tmp_path / "run.lcc", policy=net, bits=3) as checkpoints:
        checkpoints.save(0)
        assert checkpoints.coding.bits == 3
        assert "policy/weight" in lossy_in(checkpoints)


def test_random_states_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those in use; set on those that are there."""
    state = [torch.tensor([1], dtype=torch.uint8), torch.tensor([2], dtype=torch.uint8)]
    got: list[tuple[str, int, int]] = []

    def fake(name: str, count: int) -> SimpleNamespace:
        return SimpleNamespace(
            is_initialized=lambda: True,
            get_rng_state_all=lambda: state,
            device_count=lambda: count,
            set_rng_state=lambda one, i: got.append((name, i, int(one))),
        )

    assert objects.random_states().keys() == {"python", "numpy", "cpu"}
    monkeypatch.setattr(torch, "cuda", fake("cuda", 1))
    monkeypatch.setattr(torch, "xpu", fake("xpu", 3))
    states = objects.random_states()
    assert states["cuda"] == state
    objects.set_random_states(states)
    assert got == [("cuda", 0, 1), ("xpu", 0, 1), ("xpu", 1, 2)]
