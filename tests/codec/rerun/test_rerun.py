"""Chains of gradients: what they restore, and what they refuse."""

from __future__ import annotations

import copy
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import codec
from codec import errors
from codec.chain.chain import Chain
from codec.inspect import Reason
from codec.rerun import GradientCheckpointer, restore
from codec.rerun.optimizer import tensors_of
from codec.rerun.steps import same_bits
from codec.saving.checkpointer import Checkpointer
from tests.codec.chains import GOLDEN

Logged = pytest.LogCaptureFixture

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
            for weight_of, stored in zip(self.masters or (), state.get("masters", ())):
                weight_of.copy_(stored)


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
    weight_of = [nn.Parameter(p.detach().float()) for p in model.parameters()]
    return Training(model, torch.optim.AdamW(weight_of, 1e-3), clip, masters=weight_of)


def autocast() -> Training:
    training = adamw()
    training.autocast, training.clip = True, 0.3
    return training


def bfloat16() -> Training:
    model = network(torch.bfloat16)
    return Training(model, torch.optim.AdamW(model.parameters(), 1e-3))


CASES: dict[str, Callable[[], Training]] = {
    "AdamW, one by one": lambda: adamw(foreach=False),
    "AdamW, foreach, amsgrad": lambda: adamw(foreach=True, amsgrad=True),
    "AdamW, fused": lambda: adamw(fused=True),
    "AdamW, groups": groups,
    "Adam with a batch norm": batch_norm,
    "SGD, Nesterov, foreach": lambda: sgd(nesterov=True, foreach=True),
    "SGD, fused": lambda: sgd(fused=True),
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c"


def saved(
    path: Path,
    training: Training,
    n: int = 3,
    interval: int = 1,
    change: Callable[[int], object] = lambda step: None,
    **settings: object,
) -> list:
    """Save n steps, each of which something may change; all states."""
    states = []
    with GradientCheckpointer(path, training.optimizer, **settings) as checkpoints:
        for step in range(n):
            training.step(step)
            change(step)
            if step % interval == interval - 1:
                checkpoints.save(step, training.state)
                states.append((step, copy.deepcopy(training.state)))
    return states


def check(path: Path, state: Any, case: Any = None, step: int | None = None) -> None:
    """That a step, or the newest, restores to the last bit; case: AdamW's if None."""
    case = case or adamw
    optimizer = case if isinstance(case, torch.optim.Optimizer) else case().optimizer
    assert not differences(restore(path, optimizer, step), state)


def kinds(path: Path) -> list[str]:
    return [entry.kind for entry in Chain(path).entries]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_all_steps_restore_to_the_last_bit(
    case: Callable[[], Training], path: Path, caplog: Logged
) -> None:
    """And nothing is told as a fault. A closed one is detached from its optimizer."""
    training = case()
    states = saved(path, training, 4)
    assert not training.optimizer._optimizer_step_pre_hooks
    assert kinds(path) == ["base"] + 3 * ["delta"]
    for step, state in states[1::2]:
        check(path, state, case, step)
    assert codec.verify(path).ok
    assert not caplog.records


def backward(model: nn.Module) -> Tensor:
    model.zero_grad()
    loss = model(torch.ones(2, SIZES[0])).square().mean()
    loss.backward()
    return loss


def test_a_closure_may_compute_the_gradients(path: Path) -> None:
    """Given by its name or not."""
    training = adamw()
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        closure, step = partial(backward, training.model), training.optimizer.step
        for number, way in enumerate((step, partial(step, closure=closure)) * 2):
            loss = way(closure) if way is step else way()  # type: ignore[call-arg, type-var]
            assert loss > 0  # type: ignore[operator]
            checkpoints.save(number, training.state)
            check(path, training.state)
    assert kinds(path) == ["base"] + 3 * ["delta"]


def test_made_after_the_first_step(path: Path) -> None:
    """The gradients that are still there tell how the next ones will be stored."""
    training = masters()
    training.step(0)
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        checkpoints.save(0, training.state)
        for step in (1, 2):
            training.step(step)
            checkpoints.save(step, training.state)
    assert kinds(path) == ["base", "delta", "delta"]
    check(path, training.state, masters)


def test_a_record_without_a_step_and_parameters_without_a_gradient(path: Path) -> None:
    training = adamw()
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        for step in range(9):
            if step % 3 < 2:
                training.step(step)
            if step in (3, 4):
                training.model[0].weight.requires_grad_(step == 4)  # type: ignore[index]
            saved = checkpoints.save(step, training.state)
            assert saved.kind == ("base" if step == 0 else "delta")
            if step % 3 == 2:
                assert saved.nbytes < 2500  # a header
            check(path, training.state)


@pytest.mark.parametrize(("case", "share"), [(adamw, 0.30), (partial(masters, 0.05), 0.16)])
def test_gradients_take_what_the_guide_says(
    case: Callable[[], Training], share: float, path: Path
) -> None:
    """Of parameters and moments, 12 bytes a weight: the figures of large models are in the docs.
    The ratio is that of the state."""
    training = wide(case)
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        for step in range(4):
            training.step(step)
            record = checkpoints.save(step, training.state)
            full = sum(t.nbytes for t in tensors_of(training.optimizer).values())
            assert case is not adamw or record.full_nbytes == full
            assert record.ratio == record.full_nbytes / record.nbytes
    assert record.nbytes < share * sum(12 * p.numel() for p in training.model.parameters())


def wide(case: Callable[[], Training]) -> Training:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SIZES", (24, 3000, 6))
        return case()


def test_killed_at_any_time_and_resumed_it_ends_where_an_undisturbed_training_does(
    path: Path,
) -> None:
    """The process is killed in the middle of steps, of saves and of bases."""
    end = adamw()
    for step in range(STEPS):
        end.step(step)
    rng, reached, n_killed = np.random.default_rng(3), -1, 0
    while reached < STEPS - 1:
        receiver, sender = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                train_until_killed(path, sender)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(sender)
        until = reached + int(rng.integers(2, 8))
        with open(receiver) as lines:
            for line in lines:
                reached = int(line)
                if reached >= until:
                    os.kill(pid, signal.SIGKILL)
                    n_killed += 1
                    break
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, -signal.SIGKILL)
    assert n_killed >= 3
    assert kinds(path).count("base") == 3, "a resume needs no base"
    check(path, end.state)


STEPS = 24


def train_until_killed(path: Path, sender: int) -> None:
    """All steps, from where the chain ends."""
    training = adamw()
    with GradientCheckpointer(path, training.optimizer, resume=True, base_every=8) as checkpoints:
        if (state := checkpoints.restore()) is not None:
            training.load(state)
        reached = -1 if checkpoints.step is None else checkpoints.step
        os.write(sender, b"%d\n" % reached)  # the last step may be saved and not reported yet
        for step in range(reached + 1, STEPS):
            training.step(step)
            checkpoints.save(step, training.state)
            os.write(sender, b"%d\n" % step)


def test_of_the_objects_of_a_training(path: Path) -> None:
    """What `codec.Checkpointer.of` does, without a base when it goes on."""
    alone = adamw()
    for number in range(6):
        alone.step(number)
    for last in (3, 6):
        training = adamw()
        named = {"model": training.model, "optimizer": training.optimizer}
        named["schedule"] = training.schedule
        with GradientCheckpointer.of(path, **named) as checkpoints:
            for step in range(checkpoints.next_step, last):
                training.step(step)
                checkpoints.save(step)
    assert kinds(path) == ["base"] + 5 * ["delta"]
    for mine, other in zip(training.model.parameters(), alone.model.parameters()):
        assert same_bits(mine, other)


def test_resume_without_loading_begins_with_a_base(path: Path) -> None:
    saved(path, adamw())
    training = adamw()
    with GradientCheckpointer(path, training.optimizer, resume=True) as checkpoints:
        checkpoints.restore()  # and not loaded
        training.step(3)
        assert checkpoints.save(3, training.state).kind == "base"
    check(path, training.state)


def clamp(training: Training) -> None:
    for p in training.model.parameters():
        p.data.clamp_(-0.1, 0.1)


def overwrite(training: Training) -> None:
    next(training.model.parameters()).data[0, 0] = -0.0


def forget(training: Training, n: int = 1) -> None:
    for entry in list(training.optimizer.state.values())[-n:]:
        next(value for key, value in entry.items() if key != "step").zero_()


@pytest.mark.parametrize(
    ("case", "change"), [(adamw, clamp), (sgd, forget), (bfloat16, overwrite), (adamw, forget)]
)
def test_what_else_changes_weights_or_state_is_stored_beside_the_gradients(
    case: Callable[[], Training], change: Callable[[Training], None], path: Path, caplog: Logged
) -> None:
    training = case()
    # Other steps than those that are saved, too.
    states = saved(path, training, 8, 2, lambda step: step % 3 and change(training))
    assert kinds(path)[:1] == ["base"]
    assert set(kinds(path)[2:]) == {"delta"}  # the second record has more steps
    for step, state in states[1:]:
        check(path, state, case, step)
    logged = [r for r in caplog.records if "do not lead to them" in r.getMessage()]
    assert len(logged) == 1
    with GradientCheckpointer(path, training.optimizer, resume=True) as checkpoints:
        training.load(checkpoints.restore() or {})
        training.step(8)
        assert checkpoints.save(8, training.state).kind == "delta"
    check(path, training.state, case)


def test_the_saved_settings_are_those_of_the_step(path: Path) -> None:
    """A learning rate in a tensor is a setting, and no result of the steps."""
    training = adamw(foreach=False)
    rate = torch.tensor(0.1)
    training.optimizer.param_groups[0]["lr"] = rate
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        for step in range(3):
            rate.fill_(0.1 / (step + 1))
            backward(training.model)
            training.optimizer.step()
            state = {"model": training.model.state_dict()}
            state["optimizer"] = training.optimizer.state_dict()
            assert checkpoints.save(step, state).kind == ("base" if step == 0 else "delta")
    assert not differences(restore(path, adamw(foreach=False).optimizer), state)


def test_where_most_has_been_changed_the_record_is_a_base(path: Path, caplog: Logged) -> None:
    training = sgd()

    def change(step: int) -> None:
        if step in (2, 3):
            clamp(training)
            forget(training, 6)

    states = saved(path, training, 4, change=change)
    assert kinds(path) == ["base", "delta", "base", "base"]
    reasons = [Chain(path).read(entry).reason for entry in Chain(path).entries]
    assert reasons == [Reason.FIRST, None, Reason.GRADIENTS, Reason.GRADIENTS]
    for step, state in states:
        check(path, state, sgd, step)
    logged = [r for r in caplog.records if "do not lead to most" in r.getMessage()]
    assert len(logged) == 1


def test_new_groups_lead_to_a_base(path: Path) -> None:
    """As a later hook that changes gradients does."""
    training = sgd()
    extra = nn.Parameter(torch.ones(3))
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        training.step(0)
        checkpoints.save(0, training.state)
        training.optimizer.add_param_group({"params": [extra], "lr": 0.1})
        for step, kind in ((1, "base"), (2, "delta"), (3, "base")):
            if step == 3:
                training.optimizer.register_step_pre_hook(halve)
            training.step(step)
            assert checkpoints.save(step, training.state | {"extra": extra}).kind == kind


def halve(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.mul_(0.3)


def test_after_many_steps_comes_a_base(path: Path) -> None:
    """And where a record would have more steps than one may have."""
    training, made = sgd(), []
    with GradientCheckpointer(path, training.optimizer, base_every=3) as checkpoints:
        for step in range(7):
            training.step(step)
            made.append(checkpoints.save(step, training.state).kind)
        assert made == ["base", *3 * ["delta"], "base", "delta", "delta"]
        check(path, training.state, sgd)
        for step in range(7, 16):
            training.step(step)
        assert checkpoints.save(15, training.state).kind == "base"
    check(path, training.state, sgd)


@pytest.mark.parametrize("changed", [False, True])
def test_after_a_failed_save_no_step_is_lost(changed: bool, path: Path, caplog: Logged) -> None:
    """Nor what was changed before it."""
    full = OSError(28, "No space left on device")
    training = adamw()
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        for step in range(6):
            training.step(step)
            if step not in (2, 3):
                checkpoints.save(step, training.state)
                check(path, training.state)
                continue
            if changed:
                overwrite(training)
            with mock.patch.object(os, "fsync", side_effect=full), pytest.raises(errors.WriteError):
                checkpoints.save(step, training.state)
    assert kinds(path) == ["base", "delta", "base", "delta"]
    assert ("do not lead" in caplog.text) == changed


def test_restore_of_the_codec_gives_bases_and_says_what_the_others_need(path: Path) -> None:
    states = dict(saved(path, adamw()))
    assert not differences(codec.restore(path, 0), states[0])
    with pytest.raises(errors.RerunNeededError, match=r"codec\.rerun\.restore"):
        codec.restore(path)


def test_a_chain_of_whole_states_restores_as_it_is(path: Path) -> None:
    training = adamw()
    with Checkpointer(path, policy={"*": "exact"}) as checkpoints:
        for step in range(2):
            training.step(step)
            checkpoints.save(step, training.state)
    check(path, training.state)


def test_the_chain_can_be_compacted_and_packed(path: Path) -> None:
    states = saved(path, adamw(), 8, base_every=4)
    codec.compact(path)
    assert kinds(path)[0] == "base"
    codec.pack(path, packed := path.with_name("c.lcc.zip"))
    check(packed, states[-1][1])


def test_a_damaged_record_costs_the_steps_after_it(path: Path) -> None:
    states = saved(path, adamw(), 5)
    entry = Chain(path).entries[3]
    (path / entry.name).write_bytes(b"nothing")
    with pytest.warns(errors.SkippedRecordWarning, match="restored step 2 instead of 4"):
        state = restore(path, adamw().optimizer)
    assert not differences(state, states[2][1])
    with pytest.raises(codec.RecordError):
        restore(path, adamw().optimizer, 4)
    training = adamw()
    with pytest.warns(errors.SkippedRecordWarning):
        resumed = GradientCheckpointer(path, training.optimizer, resume=True)
    with resumed as checkpoints:
        training.load(checkpoints.restore() or {})
        training.step(3)
        assert checkpoints.save(3, training.state).kind == "delta"
    check(path, states[3][1])


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
    other: Callable[[], torch.optim.Optimizer], text: str | None, path: Path
) -> None:
    states = saved(path, adamw(), 3)
    if text is None:
        check(path, states[-1][1], other())
        return
    optimizer = other()
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(errors.OptimizerMismatchError, match=text):
        restore(path, optimizer)
    assert not differences(optimizer.state_dict(), before)


def test_other_arithmetic_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another version of torch rounded otherwise."""
    states = saved(path, sgd(), 4)
    step = torch.optim.SGD.step
    calls: list[int] = []

    def other(self: torch.optim.SGD, *args: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            self.param_groups[0]["params"][0].grad[0, 0] *= 1 + 1e-6
        return step(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", other)
    with pytest.raises(
        errors.RerunError, match=r"Step 1 restores here\. To restore every step"
    ) as caught:
        restore(path, sgd().optimizer)
    assert f"torch {torch.__version__}, cpu" in str(caught.value)
    check(path, states[1][1], sgd, 1)


@pytest.mark.parametrize("case", ["known", "base after too many changes", "damaged"])
def test_how_far_off_is_said_where_it_is_known(
    case: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step also moves the last bias by 0.0001 here. At the second base, something else has
    changed the first parameter, which is no difference of arithmetic."""

    def change(step: int) -> None:
        if step == 4:
            overwrite(training)
            if case.startswith("base"):
                clamp(training)
                forget(training, 6)

    training = sgd()
    states = saved(path, training, 8, change=change, base_every=3)
    assert kinds(path) == 2 * ["base", "delta", "delta", "delta"]
    if case == "damaged":
        (path / Chain(path).entries[2].name).write_bytes(b"nothing")
    step = torch.optim.SGD.step

    def other(self: torch.optim.SGD, *args: object) -> None:
        step(self, *args)
        self.param_groups[0]["params"][-1].data += 0.0001

    monkeypatch.setattr(torch.optim.SGD, "step", other)
    with pytest.raises(
        errors.RerunError, match=r"Step 4 restores here.*every step.*With exact=False"
    ):
        restore(path, sgd().optimizer)
    with pytest.warns(
        errors.RerunWarning, match="Step 6 was restored with other last bits, by 2 steps"
    ) as caught:
        state = restore(path, sgd().optimizer, 6, exact=False)
    # The momentum has the bits that it was saved with.
    assert differences(state, states[6][1]) == ["/model/3.bias"]
    bias, told = states[4][1]["model"]["3.bias"], str(caught[0].message)
    if case == "known":
        figure = re.search(
            r"step 4, after 4 steps: the largest difference is (\S+) of .* parameters/5$", told
        )
        assert figure
        assert float(figure[1]) == pytest.approx(4e-4 / float(bias.abs().max()), rel=0.05)
    else:
        assert "The difference is not known: " in told
        assert ("00000002.delta" in told) == (case == "damaged")
    check(path, states[4][1], sgd, 4)


def test_what_cannot_be_run_again_is_refused(tmp_path: Path) -> None:
    class WithMore(torch.optim.SGD):
        def step(self, closure: Any = None, more: Any = None) -> None:  # type: ignore[override]
            super().step(closure)

    model, embedding, fused = network(), nn.Embedding(5, 3, sparse=True), adamw(fused=True)
    lbfgs = torch.optim.LBFGS(model.parameters())
    more = WithMore(model.parameters(), 0.1)
    sparse = torch.optim.SGD(embedding.parameters(), 0.1)
    embedding(torch.tensor([1])).sum().backward()
    fused.optimizer.grad_scale = torch.tensor(2.0)  # type: ignore[attr-defined]
    for optimizer, step, message in (
        (lbfgs, lambda: lbfgs.step(lambda: backward(model)), "calls its closure several times"),
        (more, lambda: more.step(more=1), "arguments other than a closure"),
        (sparse, sparse.step, "sparse"),
        (fused.optimizer, lambda: fused.step(0), "GradScaler"),
    ):
        with GradientCheckpointer(tmp_path / message, optimizer) as checkpoints:
            step()  # type: ignore[no-untyped-call]
            with pytest.raises(errors.DTypeError, match=message):
                checkpoints.save(0, {"optimizer": optimizer.state_dict()})


def test_wrong_arguments(path: Path) -> None:
    training = adamw()
    with pytest.raises(errors.SettingsError, match="an optimizer of torch"):
        GradientCheckpointer(path, training.model)  # type: ignore[arg-type]
    with pytest.raises(errors.SettingsError, match="base_every"):
        GradientCheckpointer(path, training.optimizer, base_every=0)
    with GradientCheckpointer(path, training.optimizer) as checkpoints:
        assert checkpoints.restore() is None
        with pytest.raises(errors.StateMismatchError):
            checkpoints.save(0, {"lcc.rerun": 1})
    with pytest.raises(errors.WriteError):
        checkpoints.save(0, training.state)


def elsewhere(capability: str, call: Callable[[str], None], path: Path) -> None:
    """Call a function of this module as on a processor of this capability."""
    code = f"from tests.codec.rerun.test_rerun import *; {call.__name__}({str(path)!r})"
    environment = os.environ | {"ATEN_CPU_CAPABILITY": capability}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


def test_the_golden_chain_restores() -> None:
    """Clipped gradients, a parameter without one, a record of two steps."""
    assert kinds(GOLDEN / "gradients.lcc") == ["base", "delta", "delta", "delta", "delta"]
    elsewhere("default", restore_golden, GOLDEN / "gradients.lcc")


def restore_golden(path: str) -> None:
    parameters = [nn.Parameter(torch.zeros(24, 24)), nn.Parameter(torch.zeros(7))]
    optimizer = torch.optim.SGD(parameters, 0.01, momentum=0.9, foreach=False)
    for step in range(5):
        state = restore(path, optimizer, step)
        assert state["done"] == step
        assert state["b"].tolist() == pytest.approx(state["expected"]["b"], abs=1e-6)
        assert float(state["w"].double().sum()) == pytest.approx(state["expected"]["w"], abs=1e-3)


@pytest.mark.skipif(not torch.cpu.get_capabilities().get("avx2"), reason="needs AVX2")
@pytest.mark.exhaustive
def test_another_kind_of_processor(path: Path) -> None:
    """Refused; with exact=False it restores all but the last bits, and a base follows."""
    elsewhere("default", save_there, path)
    elsewhere("avx2", restore_here, path)


def save_there(path: str) -> None:
    torch.save(saved(Path(path), adamw(), 7, base_every=3)[-1], f"{path}.pt")


def restore_here(path: str) -> None:
    training = adamw()
    remedy = r"AVX2\) than .* DEFAULT\)\. .* set ATEN_CPU_CAPABILITY=default before"
    with pytest.raises(errors.RerunError, match=remedy):
        restore(path, training.optimizer)
    with pytest.warns(errors.RerunWarning, match=r"difference is \d\.\de-0[678] of"):
        state = restore(path, training.optimizer, exact=False)
    there = torch.load(f"{path}.pt")[1]
    assert differences(state, there)
    torch.testing.assert_close(state["model"], there["model"], rtol=0, atol=1e-6)
    training.load(state)
    with GradientCheckpointer(path, training.optimizer, resume=True) as checkpoints:
        for step in (7, 8):
            training.step(step)
            checkpoints.save(step, training.state)
    assert kinds(Path(path))[-2:] == ["base", "delta"]
    check(Path(path), training.state)
