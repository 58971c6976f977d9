"""The hook beside save_state, with the real Accelerator on random data."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import codec
from codec import errors
from codec.rerun import restore
from codec.trainers import pointer
from tests.bits import same

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

EXACT = {"policy": {"*": "exact"}}


class Loop(SimpleNamespace):
    """A model, its optimizer and one batch, prepared by an Accelerator."""

    def step(self, n: int = 1) -> None:
        for _ in range(n):
            self.optimizer.zero_grad()
            self.accelerator.backward(self.model(self.x).square().mean())
            self.optimizer.step()

    @property
    def weights(self) -> torch.Tensor:
        return self.model.weight.detach().clone()


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: Patch, few_objects: Callable[[], None]) -> Iterator[Loop]:
    """In its own folder, with the hook's class. Accelerate's state is one for the whole process."""
    import accelerate
    from accelerate.state import AcceleratorState

    from codec.trainers.accelerate import ChainHook

    few_objects()
    monkeypatch.chdir(tmp_path)
    logging.getLogger("accelerate").setLevel(logging.ERROR)
    torch.manual_seed(0)
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    yield Loop(
        accelerator=accelerator,
        model=model,
        optimizer=optimizer,
        x=torch.randn(16, 8),
        Hook=ChainHook,
    )
    AcceleratorState._reset_state(reset_partial_state=True)


def test_saved_loaded_and_gone_on(loop: Loop, tmp_path: Path) -> None:
    """A record for each save_state; load_state is as ever, and the chain goes back with it."""
    weights = {}
    with loop.Hook(loop.accelerator, "run.lcc", **EXACT):
        for name in "abc":
            loop.step()
            weights[name] = loop.weights
            loop.accelerator.save_state(name)
        assert codec.Chain("run.lcc").steps == (0, 1, 2)
        for step, name in enumerate("abc"):
            assert torch.equal(codec.restore("run.lcc", step)["model"]["weight"], weights[name])
        with pytest.warns(errors.RewoundWarning, match="goes on from step 1 and was at 2"):
            loop.accelerator.load_state("b")
        assert torch.equal(loop.weights, weights["b"])
        loop.step()
        assert torch.equal(loop.weights, weights["c"])  # the optimizer is as it was, too
        loop.step()
        loop.accelerator.save_state("d")
        assert codec.Chain("run.lcc").steps == (0, 1, 2)
        assert torch.equal(codec.restore("run.lcc")["model"]["weight"], loop.weights)
        old = codec.restore("run.lcc/until-2.lcc")["model"]["weight"]
        assert torch.equal(old, weights["c"])
    loop.accelerator.save_state("e")  # closed: no record, no file
    assert codec.Chain("run.lcc").steps == (0, 1, 2)
    assert not (tmp_path / "e" / "lcc.json").exists()
    files = {p.name for p in (tmp_path / "d").iterdir()}
    assert files == {p.name for p in (tmp_path / "e").iterdir()} | {"lcc.json"}

    with loop.Hook(loop.accelerator, "run.lcc", **EXACT):
        loop.accelerator.load_state("e")  # has no file: the chain goes on where it ends
        loop.accelerator.save_state("f")
    assert codec.Chain("run.lcc").steps == (0, 1, 2, 3)
    assert codec.verify("run.lcc").ok


@pytest.mark.parametrize("settings", [EXACT, {}], ids=["exact", "lossy"])
@pytest.mark.parametrize("n_models", [1, 2])
def test_a_chain_in_place_of_accelerate_s_files(
    loop: Loop, settings: dict[str, Any], n_models: int
) -> None:
    """Models and optimizers are in the chain alone; load_state takes them from there."""
    second = [loop.accelerator.prepare(torch.nn.Linear(3, 3)) for _ in range(n_models - 1)]
    with loop.Hook(loop.accelerator, "run.lcc", whole=True, **settings):
        for name in "abc":
            loop.step()
            loop.accelerator.save_state(name)
        files = {p.name for name in "abc" for p in Path(name).iterdir()}
        assert files == {"lcc.json", "random_states_0.pkl"}
        at, expected = loop.weights, loop.step() or loop.weights
        with torch.no_grad():
            for module in second:
                module.weight.zero_()
        loop.step(9)
        loop.accelerator.load_state("c")
        assert all(module.weight.any() for module in second)
        tolerance = {"rtol": 0.0, "atol": 0.0 if settings else 0.1}  # a step
        torch.testing.assert_close(loop.weights, at, **tolerance)
        loop.step()
        torch.testing.assert_close(loop.weights, expected, **tolerance)
        assert loop.accelerator._optimizers == [loop.optimizer]
        loop.accelerator.save_state("d")
    loop.accelerator.save_state("e")  # closed: Accelerate's own files are back
    assert {"model.safetensors", "optimizer.bin"} <= {p.name for p in Path("e").iterdir()}
    with loop.Hook(loop.accelerator, "plain.lcc", **EXACT):
        loop.accelerator.save_state("f")
    with (
        loop.Hook(loop.accelerator, "plain.lcc", whole=True, **EXACT),
        pytest.raises(
            errors.StepNotFoundError, match=r"plain\.lcc has no whole state of this folder"
        ),
    ):
        loop.accelerator.load_state("f")


def test_a_folder_of_another_training(loop: Loop, tmp_path: Path) -> None:
    """Its step is not that of the chain, though the number is there."""

    def saved(path: str, *names: str, load: str = "", **more: bool) -> torch.Tensor:
        with loop.Hook(loop.accelerator, path, **EXACT, **more):
            if load:
                loop.accelerator.load_state(load)
            loaded = loop.weights
            for name in names:
                loop.accelerator.save_state(name)
                loop.step()
        return loaded

    saved("run.lcc", "a0", "a1", "a2", "a3")
    old = saved("none.lcc", load="a3")
    with pytest.warns(errors.RewoundWarning, match="goes on from step 0 and was at 3"):
        saved("run.lcc", "b1", "b2", "b3", load="a0")  # by another hook, from step 0
    before = loop.weights
    new = codec.restore("run.lcc", 3)["model"]["weight"]
    assert not torch.equal(new, old)
    for name, step in (("a3", 3), ("a2", 2)):
        with pytest.raises(
            errors.StepNotFoundError, match=f"{name}/lcc.json: names step {step} of"
        ):
            saved("run.lcc", load=name)
    assert torch.equal(loop.weights, before)  # nothing was loaded
    assert codec.Chain("run.lcc").steps == (0, 1, 2, 3)
    saved("run.lcc", "c", load="a2", resume=True)
    assert codec.Chain("run.lcc").steps == (0, 1, 2, 3, 4)
    assert torch.equal(codec.restore("run.lcc", 3)["model"]["weight"], new)

    saved("tuned.lcc", "t0", "t1", load="a1")  # a new chain, which begins at 0
    assert codec.Chain("tuned.lcc").steps == (0, 1)
    with pytest.raises(errors.StepNotFoundError, match=r"the directory it was saved in, a new"):
        saved("tuned.lcc", "u0", load="a1")
    assert not Path("u0").exists()

    # Lost or damaged: what is before it, of the same training or where that began, tells enough.
    saved("run.lcc", "d", "e", load="c")
    for step in (6, 5):
        newest = tmp_path / "run.lcc" / f"{step:08}.delta.safetensors"
        newest.write_bytes(newest.read_bytes()[:-1])
        with pytest.warns(errors.SkippedRecordWarning):
            saved("run.lcc", load="e")
        assert codec.Chain("run.lcc").steps == tuple(range(step))
    saved("run.lcc", "f", load="e")
    assert codec.Chain("run.lcc").steps == (0, 1, 2, 3, 4, 5)
    with pytest.raises(errors.StepNotFoundError):
        saved("run.lcc", load="d")  # the step 5 that is there is that of f
    assert codec.verify("run.lcc").ok


def test_numbers_of_ones_own_and_more(loop: Loop) -> None:
    done, second = 0, loop.accelerator.prepare(torch.nn.Linear(3, 3))
    hook = loop.Hook(
        loop.accelerator,
        "run.lcc",
        step=lambda: done,
        more=lambda: {"optimizer": loop.optimizer.state_dict()},
        bits=3,
    )
    for _ in range(3):
        loop.step(5)
        done += 5
        loop.accelerator.save_state("s")
    loop.step()
    for name, done in (("t", 15), ("u", 2)):  # 15: of other weights than those that it has
        order = f"step {done} is not after the chain's newest, 15"
        with pytest.raises(errors.StepOrderError, match=order):
            loop.accelerator.save_state(name)
        assert not list(Path(name).iterdir())
    hook.close()
    assert codec.Chain("run.lcc").steps == (5, 10, 15)
    state = codec.restore("run.lcc")
    assert list(state["model"]) == ["0", "1"]
    second.load_state_dict(state["model"]["1"])
    loop.model.load_state_dict(state["model"]["0"])
    loop.optimizer.load_state_dict(state["optimizer"])
    assert state["optimizer"]["state"][0]["step"] == 15
    assert pointer.read("s/lcc.json") == pointer.Pointer("run.lcc", 15, state[pointer.TOKEN])


@pytest.mark.parametrize("n", [1, 2])
def test_killed_while_accelerate_writes(loop: Loop, monkeypatch: Patch, n: int) -> None:
    """Over what it wrote before: the folder names a record that its files do not go with."""

    def fails(*_args: object, **_more: object) -> None:
        raise ZeroDivisionError

    done = 0

    def trained() -> None:
        nonlocal done
        loop.step(5)
        done += 5
        loop.accelerator.save_state("s")

    hook = loop.Hook(loop.accelerator, "run.lcc", step=lambda: done, **EXACT)
    for _ in range(n - 1):
        trained()
    before = loop.weights
    with monkeypatch.context() as patch:
        patch.setattr("accelerate.accelerator.save_accelerator_state", fails)
        with pytest.raises(ZeroDivisionError):
            trained()
    killed = loop.weights
    hook.close()
    if n == 1:  # there is nothing else in the folder
        loop.accelerator.save_state("s")
    with loop.Hook(loop.accelerator, "run.lcc", step=lambda: done, **EXACT):
        loop.accelerator.load_state("s")
        assert torch.equal(loop.weights, before if n > 1 else killed)
        done = 5 * (n - 1)
        with pytest.warns(errors.RewoundWarning, match=f"and was at {5 * n}"):
            trained()
        done -= 5
        with pytest.raises(errors.StepOrderError, match="is not after the chain's newest"):
            trained()
        done = 0
        loop.accelerator.load_state("s")
        if n > 1:  # that many steps are not done again because of one folder
            with pytest.raises(errors.StepOrderError, match="is not after the chain's newest"):
                trained()
    assert codec.Chain("run.lcc").steps == tuple(range(5, 5 * n + 1, 5))
    assert torch.equal(codec.restore(f"run.lcc/until-{5 * n}.lcc")["model"]["weight"], killed)


def test_failed_and_refused(loop: Loop, monkeypatch: Patch, tmp_path: Path) -> None:
    def fails() -> None:
        with loop.Hook(loop.accelerator, "run.lcc"):
            loop.accelerator.save_state("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with (
        codec.Checkpointer("run.lcc", resume=True),  # that one is closed
        loop.Hook(loop.accelerator, "run.lcc", resume=True),
        pytest.raises(errors.LockedError, match="another writer is at work here"),
    ):
        loop.accelerator.save_state("b")
    with (
        loop.Hook(loop.accelerator, "run.lcc"),
        pytest.raises(errors.StepOrderError, match="up to step 0; choose another directory"),
    ):
        loop.accelerator.save_state("b")
    assert not list((tmp_path / "b").iterdir())
    with loop.Hook(loop.accelerator, "run.lcc", resume=True):
        loop.accelerator.save_state("b")
    assert codec.Chain("run.lcc").steps == (0, 1)

    with monkeypatch.context() as patch, loop.Hook(loop.accelerator, "other.lcc"):
        patch.setattr(type(loop.accelerator), "is_main_process", False)
        loop.accelerator.save_state("c")
        loop.accelerator.load_state("b")
    assert not (tmp_path / "other.lcc").exists()

    sharded = SimpleNamespace(distributed_type=SimpleNamespace(name="FSDP"))
    with pytest.raises(errors.ShardedError, match=r"type is FSDP: use codec\.dcp"):
        loop.Hook(sharded, "new.lcc")
    with pytest.raises(TypeError, match="'bit'"):
        loop.Hook(loop.accelerator, "new.lcc", bit=2)


@pytest.mark.usefixtures("examples")
def test_example_and_snippets(
    loop: Loop, snippets: Callable[[str], list[str]], capsys: Capture
) -> None:
    import accelerated

    for epochs in (2, 3):
        accelerated.main(["--epochs", str(epochs)])
        said = capsys.readouterr().out
        assert f"{epochs} records of" in said
        assert f"left: checkpoint_{epochs - 2}, checkpoint_{epochs - 1}" in said
    pieces = [snippet for snippet in snippets("accelerate") if "ChainHook" in snippet]
    assert pieces
    for i, snippet in enumerate(pieces):
        path = f"{i}.lcc"
        names = {"accelerator": loop.accelerator, "train": lambda: loop.accelerator.save_state("a")}
        exec(snippet.replace("run.lcc", path), names)
        loop.model.load_state_dict(codec.restore(path)["model"])


def test_gradients_in_a_loop_of_ones_own(loop: Loop, snippets: Callable[[str], list[str]]) -> None:
    """The snippet, killed in the middle and run again: equal to the last bit, with accumulation."""
    (snippet,) = (s for s in snippets("accelerate") if "GradientCheckpointer" in s)
    first, done, fails = copy.deepcopy(loop.model.state_dict()), 0, 0

    def again() -> Any:
        loop.model.load_state_dict(first)
        loop.optimizer = torch.optim.Adam(loop.model.parameters(), lr=0.1)
        loop.optimizer = loop.accelerator.prepare(loop.optimizer)
        return loop.optimizer

    def train_step() -> None:
        nonlocal done
        done += 1
        if done == fails:
            raise ZeroDivisionError
        for batch in loop.x.split(8):
            with loop.accelerator.accumulate(loop.model):
                loop.accelerator.backward(loop.model(batch).square().mean())
                loop.optimizer.step()
                loop.optimizer.zero_grad()

    loop.accelerator.gradient_accumulation_steps = 2
    again()
    for _ in range(19):
        train_step()
    expected = loop.weights, copy.deepcopy(loop.optimizer.state_dict())
    names = {"accelerator": loop.accelerator, "model": loop.model, "train_step": train_step}
    done, fails = 0, 8
    with pytest.raises(ZeroDivisionError):
        exec(snippet, names | {"optimizer": again()})
    assert codec.Chain("exact.lcc").steps == tuple(range(1, 8))
    exec(snippet, names | {"optimizer": again()})
    assert [e.kind for e in codec.Chain("exact.lcc").entries] == ["base"] + 18 * ["delta"]
    assert torch.equal(loop.weights, expected[0])
    assert same(loop.optimizer.state_dict(), expected[1])
    state = restore("exact.lcc", again(), 19)
    assert torch.equal(state["model"]["weight"], expected[0])
