"""Chains of gradients: what they restore, and what they refuse."""

from __future__ import annotations

import copy
import logging
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import codec
from codec.chain.chain import Chain
from codec.errors import (
    DTypeError,
    OptimizerMismatchError,
    RerunError,
    RerunNeededError,
    SettingsError,
    SkippedRecordWarning,
    StateMismatchError,
    WriteError,
)
from codec.rerun import GradientCheckpointer, restore
from codec.rerun.optimizer import tensors_of
from codec.rerun.steps import same_bits
from codec.saving.checkpointer import Checkpointer

ROOT = Path(codec.__file__).parents[1]
SIZES = (24, 48, 6)


@dataclass
class Training:
    """A model, its optimizer and its schedule; `step` depends on its number alone.

    masters: float32 copies of the weights that the optimizer changes, where these are bfloat16.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    clip: float | None = None
    autocast: bool = False
    masters: list[nn.Parameter] | None = None

    def __post_init__(self) -> None:
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 1000)

    def step(self, number: int) -> None:
        generator = torch.Generator().manual_seed(number)
        x = torch.randn(16, SIZES[0], generator=generator)
        y = torch.randint(SIZES[-1], (16,), generator=generator)
        weights = list(self.model.parameters())
        self.model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            out = self.model(x.to(weights[0].dtype))
        cross_entropy(out.float(), y).backward()
        changed = self.masters or weights
        for master, weight in zip(self.masters or (), weights):
            assert weight.grad is not None
            master.grad = weight.grad.float()
        if self.clip:
            nn.utils.clip_grad_norm_(changed, self.clip)
        self.optimizer.step()
        self.schedule.step()
        with torch.no_grad():
            for master, weight in zip(self.masters or (), weights):
                weight.copy_(master)

    @property
    def state(self) -> dict[str, Any]:
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        if self.masters:
            state["masters"] = [m.detach() for m in self.masters]
        return state | {"schedule": self.schedule.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        with torch.no_grad():
            for own, stored in zip(self.masters or (), state.get("masters", ())):
                own.copy_(stored)


def network(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(5)
    a, b, c = SIZES
    return nn.Sequential(nn.Linear(a, b), nn.GELU(), nn.LayerNorm(b), nn.Linear(b, c)).to(dtype)


def adamw(**settings: Any) -> Training:
    model = network()
    return Training(model, torch.optim.AdamW(model.parameters(), 1e-3, **settings))


def groups() -> Training:
    model = network()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [{"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0}]
    wanted = [{"params": matrices, "lr": 3e-3, "betas": (0.8, 0.95)}, *others]
    return Training(model, torch.optim.AdamW(wanted, 1e-3))


def sgd(**settings: Any) -> Training:
    model = network()
    return Training(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, **settings))


def batch_norm() -> Training:
    model = network()
    model.insert(1, nn.BatchNorm1d(SIZES[1]))  # type: ignore[operator]
    return Training(model, torch.optim.Adam(model.parameters(), 1e-3))


def masters(clip: float | None = None) -> Training:
    model = network(torch.bfloat16)
    own = [nn.Parameter(p.detach().float()) for p in model.parameters()]
    return Training(model, torch.optim.AdamW(own, 1e-3), clip, masters=own)


def autocast() -> Training:
    training = adamw()
    training.autocast, training.clip = True, 0.3
    return training


def bfloat16() -> Training:
    model = network(torch.bfloat16)
    return Training(model, torch.optim.AdamW(model.parameters(), 1e-3))


CASES: dict[str, Callable[[], Training]] = {
    "AdamW": adamw,
    "AdamW, one by one": lambda: adamw(foreach=False),
    "AdamW, foreach": lambda: adamw(foreach=True),
    "AdamW, fused": lambda: adamw(fused=True),
    "AdamW, amsgrad": lambda: adamw(amsgrad=True),
    "AdamW, groups": groups,
    "Adam with a batch norm": batch_norm,
    "SGD": lambda: sgd(),
    "SGD, Nesterov, foreach": lambda: sgd(nesterov=True, foreach=True),
    "SGD, fused": lambda: sgd(fused=True),
    "float32 masters": masters,
    "float32 masters, clipped": lambda: masters(0.1),
    "autocast, clipped": autocast,
    "bfloat16": bfloat16,
}


def differences(a: Any, b: Any, name: str = "") -> list[str]:
    """Names of what is not equal to the last bit."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [d for key in a for d in differences(a[key], b[key], f"{name}/{key}")]
    if isinstance(a, list | tuple) and isinstance(b, type(a)) and len(a) == len(b):
        return [d for i, (x, y) in enumerate(zip(a, b)) for d in differences(x, y, f"{name}/{i}")]
    same = same_bits(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b
    return [] if same else [name]


def saved(path: Path, training: Training, n: int = 8, every: int = 1, **settings: object) -> list:
    """Save n steps; all states."""
    states = []
    with GradientCheckpointer(path, training.optimizer, **settings) as checkpoints:
        for step in range(n):
            training.step(step)
            if step % every == every - 1:
                checkpoints.save(step, training.state)
                states.append((step, copy.deepcopy(training.state)))
    return states


def kinds(path: Path) -> list[str]:
    return [entry.kind for entry in Chain(path).entries]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_step_restores_to_the_last_bit(case: Callable[[], Training], tmp_path: Path) -> None:
    states = saved(tmp_path / "c", case())
    assert kinds(tmp_path / "c") == ["base"] + 7 * ["delta"]
    for step, state in states[::3]:
        assert not differences(restore(tmp_path / "c", case().optimizer, step), state)
    assert codec.verify(tmp_path / "c").ok


def backward(model: nn.Module) -> Tensor:
    model.zero_grad()
    loss = model(torch.ones(2, SIZES[0])).square().mean()
    loss.backward()
    return loss


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_may_compute_the_gradients(by_name: bool, tmp_path: Path) -> None:
    training = adamw()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(3):

            def closure() -> Tensor:
                return backward(training.model)

            if by_name:
                loss = training.optimizer.step(closure=closure)
            else:
                loss = training.optimizer.step(closure)
            assert loss > 0  # type: ignore[operator]
            checkpoints.save(step, training.state)
    assert kinds(tmp_path / "c") == ["base", "delta", "delta"]
    assert not differences(restore(tmp_path / "c", adamw().optimizer), training.state)


@pytest.mark.parametrize("case", [adamw, masters])
def test_made_after_the_first_step(case: Callable[[], Training], tmp_path: Path) -> None:
    """The gradients that are still there tell how the next ones will be stored."""
    training = case()
    training.step(0)
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        checkpoints.save(0, training.state)
        for step in (1, 2):
            training.step(step)
            checkpoints.save(step, training.state)
    assert kinds(tmp_path / "c") == ["base", "delta", "delta"]
    assert not differences(restore(tmp_path / "c", case().optimizer), training.state)


def test_a_wrapper_stands_for_the_optimizer_inside(tmp_path: Path) -> None:
    class Wrapper(torch.optim.Optimizer):
        """As Accelerate's: it has no hooks, and no state."""

        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

    training = adamw()
    with GradientCheckpointer(tmp_path / "c", Wrapper(training.optimizer)) as checkpoints:
        for step in range(3):
            training.step(step)
            checkpoints.save(step, training.state)
    assert kinds(tmp_path / "c") == ["base", "delta", "delta"]
    for optimizer in (adamw().optimizer, Wrapper(adamw().optimizer)):
        assert not differences(restore(tmp_path / "c", optimizer), training.state)


@pytest.mark.parametrize("every", [2, 5])
def test_several_steps_a_save(every: int, tmp_path: Path) -> None:
    states = saved(tmp_path / "c", adamw(), 20, every)
    assert set(kinds(tmp_path / "c")[2:]) == {"delta"}  # the second record has more steps
    for step, state in states:
        assert not differences(restore(tmp_path / "c", adamw().optimizer, step), state)


def test_a_record_without_a_step_and_parameters_without_a_gradient(tmp_path: Path) -> None:
    training = adamw()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(9):
            if step % 3 < 2:
                training.step(step)
            if step in (3, 4):
                training.model[0].weight.requires_grad_(step == 4)  # type: ignore[index]
            saved = checkpoints.save(step, training.state)
            assert saved.kind == ("base" if step == 0 else "delta")
            if step % 3 == 2:
                assert saved.nbytes < 2500  # a header
            state = restore(tmp_path / "c", adamw().optimizer)
            assert not differences(state, training.state)


def test_gradients_take_what_the_guide_says(tmp_path: Path) -> None:
    """Of parameters and moments, 12 bytes a weight: the figures of large models are in the docs."""

    def share(training: Training) -> float:
        with GradientCheckpointer(tmp_path / str(id(training)), training.optimizer) as own:
            for step in range(4):
                training.step(step)
                found = own.save(step, training.state)
        return found.nbytes / sum(12 * p.numel() for p in training.model.parameters())

    assert share(wide(adamw)) < 0.30
    assert share(wide(masters)) < 0.16
    assert share(wide(lambda: masters(0.05))) < 0.16  # clipped


def test_the_ratio_is_that_of_the_state(tmp_path: Path) -> None:
    training = wide(adamw)
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(3):
            training.step(step)
            found = checkpoints.save(step, training.state)
            full = sum(t.nbytes for t in tensors_of(training.optimizer).values())
            assert found.full_nbytes == full
            assert found.ratio == full / found.nbytes


def wide(case: Callable[[], Training]) -> Training:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SIZES", (24, 3000, 6))
        return case()


def test_killed_at_any_time_and_resumed_it_ends_where_an_undisturbed_training_does(
    tmp_path: Path,
) -> None:
    """300 steps; the process is killed in the middle of steps, of saves and of bases."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # in both processes: with another number, sums are rounded otherwise
    end = adamw()
    for step in range(300):
        end.step(step)
    torch.set_num_threads(threads)
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    rng, reached, killed = np.random.default_rng(3), -1, 0
    while reached < 299:
        command = [sys.executable, __file__, tmp_path / "c"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            until = reached + int(rng.integers(20, 70))
            for line in process.stdout:
                reached = int(line)
                if reached >= until:
                    os.kill(process.pid, signal.SIGKILL)
                    killed += 1
                    break
        assert process.wait() in (0, -signal.SIGKILL)
    assert killed >= 4
    assert kinds(tmp_path / "c").count("base") == 3, "a resume needs no base"
    assert not differences(restore(tmp_path / "c", adamw().optimizer), end.state)


def test_resume_without_loading_begins_with_a_base(tmp_path: Path) -> None:
    saved(tmp_path / "c", adamw(), 3)
    training = adamw()
    with GradientCheckpointer(tmp_path / "c", training.optimizer, resume=True) as checkpoints:
        checkpoints.restore()  # and not loaded
        training.step(3)
        assert checkpoints.save(3, training.state).kind == "base"
    assert not differences(restore(tmp_path / "c", adamw().optimizer), training.state)


def clamp(training: Training) -> None:
    for p in training.model.parameters():
        p.data.clamp_(-0.1, 0.1)


def overwrite(training: Training) -> None:
    next(training.model.parameters()).data[0, 0] = -0.0


def forget(training: Training, n: int = 1) -> None:
    for kept in list(training.optimizer.state.values())[-n:]:
        next(value for key, value in kept.items() if key != "step").zero_()


@pytest.mark.parametrize("change", [clamp, overwrite, forget])
@pytest.mark.parametrize("case", [adamw, sgd, bfloat16])
def test_what_else_changes_weights_or_state_is_stored_beside_the_gradients(
    case: Callable[[], Training],
    change: Callable[[Training], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    states = []
    training = case()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(12):
            training.step(step)
            if step % 3:  # other steps than those that are saved, too
                change(training)
            if step % 2:
                checkpoints.save(step, training.state)
                states.append((step, copy.deepcopy(training.state)))
    assert kinds(tmp_path / "c")[:1] == ["base"]
    assert set(kinds(tmp_path / "c")[2:]) == {"delta"}  # the second record has more steps
    for step, state in states:
        assert not differences(restore(tmp_path / "c", case().optimizer, step), state)
    told = [r for r in caplog.records if "do not lead to them" in r.getMessage()]
    assert len(told) == 1
    with GradientCheckpointer(tmp_path / "c", training.optimizer, resume=True) as checkpoints:
        training.load(checkpoints.restore() or {})
        training.step(12)
        assert checkpoints.save(12, training.state).kind == "delta"
    assert not differences(restore(tmp_path / "c", case().optimizer), training.state)


def test_an_average_that_is_swapped_in_for_a_save_needs_no_base(tmp_path: Path) -> None:
    training = wide(adamw)
    average = copy.deepcopy(training.model.state_dict())
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(6):
            training.step(step)
            for name, own in training.model.state_dict().items():
                average[name].lerp_(own, 0.1)
            live = copy.deepcopy(training.model.state_dict())
            if step in (2, 3):
                training.model.load_state_dict(average)
            saved = checkpoints.save(step, training.state)
            assert saved.kind == ("base" if step == 0 else "delta")
            assert step == 0 or saved.nbytes < 0.6 * 12 * sum(map(Tensor.numel, live.values()))
            state = restore(tmp_path / "c", wide(adamw).optimizer)
            assert not differences(state, training.state)
            training.model.load_state_dict(live)


def test_the_saved_settings_are_those_of_the_step(tmp_path: Path) -> None:
    """A learning rate in a tensor is a setting, and no result of the steps."""
    training = adamw(foreach=False)
    rate = torch.tensor(0.1)
    training.optimizer.param_groups[0]["lr"] = rate
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(3):
            rate.fill_(0.1 / (step + 1))
            backward(training.model)
            training.optimizer.step()
            state = {"model": training.model.state_dict()}
            state["optimizer"] = training.optimizer.state_dict()
            assert checkpoints.save(step, state).kind == ("base" if step == 0 else "delta")
    assert not differences(restore(tmp_path / "c", adamw(foreach=False).optimizer), state)


def test_where_most_has_been_changed_the_record_is_a_base(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    training = sgd()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(4):
            training.step(step)
            if step in (2, 3):
                clamp(training)
                forget(training, 6)
            kind = checkpoints.save(step, training.state).kind
            assert kind == ("delta" if step == 1 else "base")
            state = restore(tmp_path / "c", sgd().optimizer)
            assert not differences(state, training.state)
    told = [r for r in caplog.records if "do not lead to most" in r.getMessage()]
    assert len(told) == 1


def test_after_a_failed_save_what_was_changed_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = adamw()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(4):
            training.step(step)
            if step == 1:
                overwrite(training)
                save_on_a_full_disk(monkeypatch, checkpoints, step, training.state)
            else:
                checkpoints.save(step, training.state)
                state = restore(tmp_path / "c", adamw().optimizer)
                assert not differences(state, training.state)


def test_a_later_hook_that_changes_gradients_is_noticed(tmp_path: Path) -> None:
    training = sgd()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        training.step(0)
        checkpoints.save(0, training.state)
        training.optimizer.register_step_pre_hook(lambda own, *_: halve(own))
        training.step(1)
        assert checkpoints.save(1, training.state).kind == "base"


def halve(optimizer: torch.optim.Optimizer) -> None:
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad.mul_(0.3)


def test_new_groups_lead_to_a_base(tmp_path: Path) -> None:
    training = sgd()
    extra = nn.Parameter(torch.ones(3))
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        training.step(0)
        checkpoints.save(0, training.state)
        training.optimizer.add_param_group({"params": [extra], "lr": 0.1})
        training.step(1)
        assert checkpoints.save(1, training.state | {"extra": extra}).kind == "base"
        training.step(2)
        assert checkpoints.save(2, training.state | {"extra": extra}).kind == "delta"


def test_after_many_steps_comes_a_base(tmp_path: Path) -> None:
    training = sgd()
    with GradientCheckpointer(tmp_path / "c", training.optimizer, base_every=3) as checkpoints:
        found = []
        for step in range(9):
            training.step(step)
            found.append(checkpoints.save(step, training.state).kind)
        assert found == ["base", "delta", "delta", "delta"] * 2 + ["base"]
        for step in range(9, 18):
            training.step(step)
        assert checkpoints.save(17, training.state).kind == "base"
    assert not differences(restore(tmp_path / "c", sgd().optimizer), training.state)


def test_without_base_every_there_are_no_more_bases(tmp_path: Path) -> None:
    states = saved(tmp_path / "c", sgd(), 5, base_every=None)
    assert kinds(tmp_path / "c") == ["base"] + 4 * ["delta"]
    assert not differences(restore(tmp_path / "c", sgd().optimizer), states[-1][1])


def test_a_failed_save_loses_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training = adamw()
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        for step in range(6):
            training.step(step)
            if step in (2, 3):
                save_on_a_full_disk(monkeypatch, checkpoints, step, training.state)
            else:
                checkpoints.save(step, training.state)
        state = restore(tmp_path / "c", adamw().optimizer)
        assert not differences(state, training.state)
    assert kinds(tmp_path / "c") == ["base", "delta", "delta", "delta"]  # with room for three steps
    assert "do not lead" not in caplog.text


def save_on_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, checkpoints: GradientCheckpointer, step: int, state: Any
) -> None:
    """A save that must fail."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WriteError):
            checkpoints.save(step, state)


def test_restore_of_the_codec_gives_bases_and_says_what_the_others_need(tmp_path: Path) -> None:
    states = dict(saved(tmp_path / "c", adamw(), 3))
    assert not differences(codec.restore(tmp_path / "c", 0), states[0])
    with pytest.raises(RerunNeededError, match=r"codec\.rerun\.restore"):
        codec.restore(tmp_path / "c")


def test_a_chain_of_whole_states_restores_as_it_is(tmp_path: Path) -> None:
    training = adamw()
    with Checkpointer(tmp_path / "c", policy={"*": "exact"}) as checkpoints:
        for step in range(2):
            training.step(step)
            checkpoints.save(step, training.state)
    assert not differences(restore(tmp_path / "c", adamw().optimizer), training.state)


def test_the_chain_can_be_merged_compacted_and_packed(tmp_path: Path) -> None:
    states = saved(tmp_path / "c", adamw(), 16, base_every=6)
    codec.merge(tmp_path / "c", 4)
    assert "merged" in kinds(tmp_path / "c")
    for step, state in states:
        assert not differences(restore(tmp_path / "c", adamw().optimizer, step), state)
    codec.compact(tmp_path / "c")
    assert kinds(tmp_path / "c").count("base") == 2
    codec.pack(tmp_path / "c", tmp_path / "c.lcc.zip")
    for step, state in states[7:]:
        assert not differences(restore(tmp_path / "c.lcc.zip", adamw().optimizer, step), state)


def test_a_damaged_record_costs_the_steps_after_it(tmp_path: Path) -> None:
    states = saved(tmp_path / "c", adamw(), 5)
    entry = Chain(tmp_path / "c").entries[3]
    (tmp_path / "c" / entry.name).write_bytes(b"nothing")
    with pytest.warns(SkippedRecordWarning, match="restored step 2 instead of 4"):
        state = restore(tmp_path / "c", adamw().optimizer)
    assert not differences(state, states[2][1])
    with pytest.raises(codec.RecordError):
        restore(tmp_path / "c", adamw().optimizer, 4)
    training = adamw()
    with pytest.warns(SkippedRecordWarning):
        resumed = GradientCheckpointer(tmp_path / "c", training.optimizer, resume=True)
    with resumed as checkpoints:
        training.load(checkpoints.restore() or {})
        training.step(3)
        assert checkpoints.save(3, training.state).kind == "delta"
    assert not differences(restore(tmp_path / "c", adamw().optimizer), states[3][1])


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (lambda: sgd().optimizer, "the chain is of torch.optim.adamw.AdamW"),
        (lambda: torch.optim.AdamW(network().parameters(), 1e-3), None),
        (lambda: torch.optim.AdamW(list(network().parameters())[:2]), "groups of"),
        (lambda: torch.optim.AdamW(network(torch.float64).parameters()), "parameter 0"),
    ],
)
def test_another_optimizer(
    other: Callable[[], torch.optim.Optimizer], text: str | None, tmp_path: Path
) -> None:
    states = saved(tmp_path / "c", adamw(), 3)
    if text is None:
        assert not differences(restore(tmp_path / "c", other()), states[-1][1])
        return
    optimizer = other()
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(OptimizerMismatchError, match=text):
        restore(tmp_path / "c", optimizer)
    assert not differences(optimizer.state_dict(), before)


def test_other_arithmetic_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another version of torch rounded otherwise."""
    states = saved(tmp_path / "c", sgd(), 4)
    step = torch.optim.SGD.step
    calls: list[int] = []

    def other(self: torch.optim.SGD, *args: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            self.param_groups[0]["params"][0].grad[0, 0] *= 1 + 1e-6
        return step(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", other)
    with pytest.raises(RerunError, match=r"Step 1 restores here.*all steps do") as caught:
        restore(tmp_path / "c", sgd().optimizer)
    assert f"torch {torch.__version__}, cpu" in str(caught.value)
    assert not differences(restore(tmp_path / "c", sgd().optimizer, 1), states[1][1])


def test_what_cannot_be_run_again_is_refused(tmp_path: Path) -> None:
    lbfgs = Training(model := network(), torch.optim.LBFGS(model.parameters()))
    closure = GradientCheckpointer(tmp_path / "closure", lbfgs.optimizer)
    lbfgs.optimizer.step(lambda: backward(model))
    with pytest.raises(DTypeError, match="calls its closure several times"):
        closure.save(0, lbfgs.state)
    closure.close()

    class WithMore(torch.optim.SGD):
        def step(self, closure: Any = None, more: Any = None) -> None:  # type: ignore[override]
            super().step(closure)

    more = Training(model, WithMore(model.parameters(), 0.1))
    other = GradientCheckpointer(tmp_path / "other", more.optimizer)
    more.optimizer.step(more=1)  # type: ignore[call-arg]
    with pytest.raises(DTypeError, match="arguments other than a closure"):
        other.save(0, more.state)
    other.close()

    embedding = nn.Embedding(5, 3, sparse=True)
    own = torch.optim.SGD(embedding.parameters(), 0.1)
    sparse = GradientCheckpointer(tmp_path / "sparse", own)
    embedding(torch.tensor([1])).sum().backward()
    own.step()
    with pytest.raises(DTypeError, match="sparse"):
        sparse.save(0, embedding.state_dict())
    sparse.close()

    fused = adamw(fused=True)
    scaled = GradientCheckpointer(tmp_path / "scaled", fused.optimizer)
    fused.optimizer.grad_scale = torch.tensor(2.0)  # type: ignore[attr-defined]
    fused.step(0)
    with pytest.raises(DTypeError, match="GradScaler"):
        scaled.save(0, fused.state)
    scaled.close()


def test_wrong_arguments(tmp_path: Path) -> None:
    training = adamw()
    with pytest.raises(SettingsError, match="an optimizer of torch"):
        GradientCheckpointer(tmp_path / "c", training.model)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="base_every"):
        GradientCheckpointer(tmp_path / "c", training.optimizer, base_every=0)
    with GradientCheckpointer(tmp_path / "c", training.optimizer) as checkpoints:
        assert checkpoints.restore() is None
        with pytest.raises(StateMismatchError):
            checkpoints.save(0, {"lcc.rerun": 1})
    with pytest.raises(WriteError):
        checkpoints.save(0, training.state)


def test_a_closed_one_is_detached(tmp_path: Path) -> None:
    training = adamw()
    saved(tmp_path / "c", training, 2)
    assert not training.optimizer._optimizer_step_pre_hooks


def test_the_first_steps_are_not_told_as_a_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with warnings.catch_warnings(action="error"):
        saved(tmp_path / "c", autocast(), 4)
    assert not caplog.records


def test_the_golden_chain_restores(golden: Path) -> None:
    """Clipped gradients, a parameter without one, a record of two steps."""
    path = golden / "gradients.lcc"
    assert kinds(path) == ["base", "delta", "delta", "delta", "delta"]
    w, b = torch.zeros(24, 24), torch.zeros(7)
    parameters = [nn.Parameter(w), nn.Parameter(b)]
    optimizer = torch.optim.AdamW(parameters, 0.01, foreach=False)
    for step in range(5):
        state = restore(path, optimizer, step)
        assert state["done"] == step
        assert state["b"].tolist() == pytest.approx(state["expected"]["b"], abs=1e-6)
        assert float(state["w"].double().sum()) == pytest.approx(state["expected"]["w"], abs=1e-3)


def train_until_killed(path: str) -> None:
    """300 steps, from where the chain ends."""
    torch.set_num_threads(1)
    training = adamw()
    with GradientCheckpointer(path, training.optimizer, resume=True, base_every=100) as own:
        if (state := own.restore()) is not None:
            training.load(state)
        for step in range(0 if own.step is None else own.step + 1, 300):
            training.step(step)
            own.save(step, training.state)
            print(step, flush=True)


if __name__ == "__main__":
    train_until_killed(sys.argv[1])
