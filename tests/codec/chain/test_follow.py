"""Following a chain: each step is the one that was saved, in every module or in none."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import codec
from codec import errors
from codec.chain import follow as following
from codec.rerun import GradientCheckpointer
from codec.storage.entry import Entry
from tests.codec.chains import flip, save_all, shorten
from tests.codec.forging import base64_word, refield


def net() -> torch.nn.Module:
    """A module with buffers, one of them 0-d, and tied weights."""
    module = torch.nn.Sequential(
        torch.nn.Linear(12, 12), torch.nn.BatchNorm1d(12), torch.nn.Linear(12, 12, bias=False)
    )
    module[2].weight = module[0].weight
    return module


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a search that failed, the next one may begin at once."""
    monkeypatch.setattr(following, "RESTING", 0)


@pytest.fixture
def trainer() -> Trainer:
    return Trainer()


class Trainer:
    """Trains a module, and keeps what was saved."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.module = net()
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=0.01)

    def state(self) -> dict[str, Any]:
        self.optimizer.zero_grad()
        self.module(torch.randn(8, 12)).square().sum().backward()
        self.optimizer.step()
        return {"model": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}

    def save(self, path: Path | str, *steps: int, **settings: Any) -> None:
        """Save a step of the training at each of these numbers, which follow each other."""
        save_all(path, (self.state() for _ in steps), steps[0], **settings)


def joined(state: dict[str, torch.Tensor]) -> bytes:
    return b"".join(t.numpy().tobytes() for t in state.values())


def weights(module: torch.nn.Module) -> bytes:
    return joined(module.state_dict())


def saved(path: Path | str, step: int | None = None, name: str = "model") -> bytes:
    return joined(codec.restore(path, step)[name])


def updated(follower: codec.Follower) -> codec.Update:
    """An update that there must be."""
    update = follower.update()
    assert update is not None
    assert update.step == follower.step
    return update


def reached(follower: codec.Follower) -> int:
    """Its step."""
    return updated(follower).step


def at_step_1(tmp_path: Path, trainer: Trainer) -> tuple[Path, torch.nn.Module, codec.Follower]:
    """A chain of two steps, and a module that has followed them."""
    path, module = tmp_path / "run.lcc", net()
    trainer.save(path, 0, 1)
    follower = codec.Follower(path, module)
    assert reached(follower) == 1
    return path, module, follower


def test_each_step_as_it_is_saved(tmp_path: Path, trainer: Trainer) -> None:
    path, module = tmp_path / "run.lcc", net()
    follower = codec.Follower(path, module)
    with pytest.raises(errors.ChainNotFoundError):
        follower.update()
    addresses = [t.data_ptr() for t in module.state_dict().values()]
    with codec.Checkpointer(path) as checkpoints:
        for step in range(4):
            record = checkpoints.save(step, trainer.state())
            update = updated(follower)
            assert (update.step, update.before) == (step, step - 1 if step else None)
            assert (update.records, update.nbytes) == (1, record.nbytes)
            assert weights(module) == saved(path)
            assert update.state["optimizer"]["param_groups"][0]["lr"] == 0.01
            assert (update.position.delta is None) == (step == 0)
            with mock.patch.object(codec.Chain, "read", None):  # nothing is read in vain
                assert follower.update() is None
    assert [t.data_ptr() for t in module.state_dict().values()] == addresses
    assert module[0].weight is module[2].weight


def test_compacted_chains(tmp_path: Path, trainer: Trainer) -> None:
    """Before and after the newest step; nothing is told twice."""
    path, module = tmp_path / "run.lcc", net()
    trainer.save(path, 0, 1, 2, 3)
    late, follower = codec.Follower(path, net()), codec.Follower(path, module)
    assert (reached(follower), reached(late)) == (3, 3)
    codec.compact(path)
    assert follower.update() is None
    trainer.save(path, 4, 5, resume=True)
    assert reached(follower) == 5
    assert weights(module) == saved(path)
    codec.compact(path)
    trainer.save(path, 6, resume=True)
    assert (reached(late), reached(follower)) == (6, 6)
    assert weights(module) == saved(path)


def test_a_new_base_on_the_way(tmp_path: Path, trainer: Trainer) -> None:
    """Only records from the base on are read."""
    path, module = tmp_path / "run.lcc", net()
    trainer.save(path, 0, 1, base_every=3)
    follower = codec.Follower(path, module)
    assert reached(follower) == 1
    trainer.save(path, 2, 3, 4, 5, 6, resume=True, base_every=3)
    update = updated(follower)
    entries = codec.Chain(path).entries
    base = max(e.step for e in entries if e.kind == "base")
    assert 1 < base < 6
    assert (update.step, update.records) == (6, sum(e.step >= base for e in entries))
    assert weights(module) == saved(path)


def test_a_chain_that_is_taken_back(tmp_path: Path, trainer: Trainer) -> None:
    path, module = tmp_path / "run.lcc", net()
    trainer.save(path, 0, 1, 2, 3)
    follower, other = codec.Follower(path, module), codec.Follower(path, net())
    assert (reached(follower), reached(other)) == (3, 3)
    with pytest.warns(codec.errors.RewoundWarning):
        codec.rewind(path, 1)
    assert reached(follower) == 1
    assert weights(module) == saved(path)
    trainer.save(path, 2, 3, 4, resume=True)  # the steps of before, with other weights
    assert (reached(follower), reached(other)) == (4, 4)
    assert weights(module) == saved(path)
    with pytest.warns(codec.errors.RewoundWarning):
        codec.rewind(path, None)
    with pytest.raises(errors.ChainNotFoundError):
        follower.update()
    assert follower.step == 4
    trainer.save(path, 0, resume=True)  # another run
    update = updated(follower)
    assert (update.step, update.before) == (0, 4)
    assert weights(module) == saved(path)


def test_another_base_in_place_of_the_newest(tmp_path: Path, trainer: Trainer) -> None:
    """Of the same name and size, as after a save that failed and was tried again."""
    path, module = tmp_path / "run.lcc", net()
    trainer.save(path, 0, 1, 2, base_every=1)
    follower = codec.Follower(path, module)
    assert (reached(follower), follower.update()) == (2, None)
    newest = path / "00000002.base.safetensors"
    nbytes = newest.stat().st_size
    newest.unlink()
    trainer.save(path, 2, base_every=1, resume=True)
    assert newest.stat().st_size == nbytes
    assert reached(follower) == 2
    assert weights(module) == saved(path)
    assert follower.update() is None


def test_a_damaged_record_leaves_the_old_weights(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, module = tmp_path / "run.lcc", net()
    trainer.save(path, 0, 1)
    follower = codec.Follower(path, module)
    first = updated(follower)
    assert first.step == 1
    before = weights(module)
    trainer.save(path, 2, 3, resume=True)
    file = path / "00000002.delta.safetensors"
    flip(file)
    monkeypatch.setattr(following, "RESTING", 10**6)
    for _ in range(2):
        with pytest.raises(errors.DigestError, match="00000002"):
            follower.update()
        assert (follower.step, weights(module)) == (1, before)
        assert first.state["model"].keys() == module.state_dict().keys()
        monkeypatch.setattr(codec.Chain, "newest", None)  # nothing is read a second time
    monkeypatch.undo()
    flip(file)
    trainer.save(path, 4, resume=True)
    assert reached(follower) == 4
    assert weights(module) == saved(path)


def test_a_damaged_newest_record_stops_at_the_one_before(
    tmp_path: Path, trainer: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    path, module, follower = at_step_1(tmp_path, trainer)
    trainer.save(path, 2, 3, resume=True)
    (path / "00000003.delta.safetensors").write_bytes(b"")
    assert reached(follower) == 2
    assert weights(module) == saved(path, 2)
    with pytest.raises(codec.RecordError, match="00000003"):
        follower.update()
    assert follower.step == 2
    assert reached(codec.Follower(path)) == 2
    assert "step 2, not the newest: 00000003" in caplog.text


def test_a_record_of_another_state(tmp_path: Path, trainer: Trainer) -> None:
    """Intact bytes that decode to another track: the half applied record does no harm."""
    path, module, follower = at_step_1(tmp_path, trainer)
    before = weights(module)
    trainer.save(path, 2, resume=True)
    refield(path / "00000002.delta.safetensors", track=base64_word("0" * 32))
    first = follower.newest
    assert first is not None
    for _ in range(2):
        with pytest.raises(errors.TrackDigestError):
            follower.update()
        assert (follower.step, weights(module)) == (1, before)
        with pytest.raises(errors.StateMismatchError, match="has read records after step 1"):
            _ = first.state
    (path / "00000002.delta.safetensors").unlink()
    assert follower.update() is None
    trainer.save(path, 3, resume=True)
    assert reached(follower) == 3
    assert weights(module) == saved(path)


def test_two_records_of_which_the_second_goes_wrong(tmp_path: Path, trainer: Trainer) -> None:
    """The first one is loaded, without what the second one has changed."""
    path, module, follower = at_step_1(tmp_path, trainer)
    trainer.save(path, 2, 3, resume=True)
    refield(path / "00000003.delta.safetensors", track=base64_word("0" * 32))
    assert reached(follower) == 2
    assert weights(module) == saved(path, 2)


class Copying(torch.nn.Sequential):
    """A module whose state_dict has copies of its tensors."""

    def __init__(self) -> None:
        super().__init__(*net())

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return {k: t.clone() for k, t in super().state_dict(*args, **kwargs).items()}


MISFITS: list[tuple[Any, str]] = [
    (torch.nn.Linear(12, 12), "comes nearest: "),
    ({"module": net()}, "no dict of tensors 'module'; it has 'model'"),
    ({"optimizer/state/0": net()}, "'optimizer/state/0' and the module differ: it lacks '0.bias'"),
    (torch.nn.ModuleDict({"module": net()}), "begin with 'module.': pass .*, module.module"),
    (torch.nn.ModuleDict({"_orig_mod": net()}), "pass the module inside, module._orig_mod"),
    (net().to("meta"), "on the meta device"),
    (Copying(), "it may be a copy"),
    (torch.nn.Sequential(torch.nn.LazyLinear(12, bias=False)), "comes nearest"),
    (torch.nn.Sequential(torch.nn.Linear(12, 13), torch.nn.BatchNorm1d(13)), "comes nearest"),
]


@pytest.mark.parametrize(("into", "message"), MISFITS)
def test_what_does_not_fit(into: Any, message: str, tmp_path: Path, trainer: Trainer) -> None:
    trainer.save(tmp_path / "run.lcc", 0)
    follower = codec.Follower(tmp_path / "run.lcc", into)
    with pytest.raises(errors.StateMismatchError, match=message):
        follower.update()
    with (
        mock.patch.object(codec.Chain, "read", None),  # nothing is read a second time
        pytest.raises(errors.StateMismatchError, match=message),
    ):
        follower.update()
    assert follower.step is None


def test_all_modules_or_none(tmp_path: Path, trainer: Trainer) -> None:
    """The last tensor of the last module has another shape."""
    state = trainer.state()["model"]
    save_all(tmp_path / "run.lcc", [{"a": state, "b": {"c": state}}])
    good, bad = net(), net()
    bad[2].weight = torch.nn.Parameter(torch.zeros(12, 13))
    modules = {"a": good, "b/c": bad}
    before = weights(good), weights(bad)
    with pytest.raises(
        errors.StateMismatchError, match=r"is \[12, 12\] in the state and \[12, 13\]"
    ):
        codec.Follower(tmp_path / "run.lcc", modules).update()
    assert (weights(good), weights(bad)) == before
    modules["b/c"] = net()
    assert reached(codec.Follower(tmp_path / "run.lcc", modules)) == 0
    assert weights(good) == weights(modules["b/c"]) != before[0]


def test_a_tensor_that_cannot_be_changed(tmp_path: Path, trainer: Trainer) -> None:
    """What was copied before it is undone."""
    state = trainer.state()["model"]
    save_all(tmp_path / "run.lcc", [{"a": state, "b": state}])
    fixed = net()
    fixed[1].running_mean = torch.zeros(1).expand(12)  # all elements in one place
    for modules in ({"a": net(), "b": fixed}, {"a": fixed, "b": net()}):
        before = [weights(module) for module in modules.values()]
        with pytest.raises(errors.StateMismatchError, match="cannot be changed"):
            codec.Follower(tmp_path / "run.lcc", modules).update()
        assert [weights(module) for module in modules.values()] == before


def test_an_interrupt_undoes_what_was_copied(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer.save(tmp_path / "run.lcc", 0)
    module = net()
    before = weights(module)
    copy, n_calls = torch.Tensor.copy_, 0

    def interrupted(own: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        nonlocal n_calls
        n_calls += 1
        copy(own, new)
        if n_calls == 3:
            raise KeyboardInterrupt
        return own

    monkeypatch.setattr(torch.Tensor, "copy_", interrupted)
    with pytest.raises(KeyboardInterrupt):
        codec.Follower(tmp_path / "run.lcc", module).update()
    assert n_calls > 3
    assert weights(module) == before


def test_a_module_that_is_not_initialized(tmp_path: Path) -> None:
    save_all(tmp_path / "run.lcc", [torch.nn.Linear(3, 3).state_dict()])
    with pytest.raises(errors.StateMismatchError, match="not initialized yet"):
        codec.Follower(tmp_path / "run.lcc", torch.nn.LazyLinear(3)).update()


def test_another_kind_of_numbers(tmp_path: Path) -> None:
    """Floats would lose their fractions in a module of integers."""
    save_all(tmp_path / "run.lcc", [{"x": torch.ones(9) / 3}])
    module = torch.nn.Module()
    module.register_buffer("x", torch.zeros(9, dtype=torch.int64))
    said = r"torch\.float32 .* and torch\.int64 in the module"
    with pytest.raises(errors.StateMismatchError, match=said):
        codec.Follower(tmp_path / "run.lcc", module).update()


def test_extra_state_is_not_followed(tmp_path: Path) -> None:
    class Extra(torch.nn.Linear):
        def get_extra_state(self) -> torch.Tensor:
            return torch.ones(3)

        def set_extra_state(self, state: torch.Tensor) -> None:
            raise AssertionError

    save_all(tmp_path / "run.lcc", [Extra(3, 3).state_dict()])
    assert reached(codec.Follower(tmp_path / "run.lcc", Extra(3, 3))) == 0


def test_names_with_slashes(tmp_path: Path) -> None:
    """Named as in the chain: a slash in a key is ~1."""
    states = [torch.nn.Linear(3, 3).state_dict() for _ in range(2)]
    save_all(tmp_path / "run.lcc", [{"a": {"b": states[0]}, "a/b": states[1]}])
    with pytest.raises(errors.StateMismatchError, match="'a/b', 'a~1b' of the state fit"):
        codec.Follower(tmp_path / "run.lcc", torch.nn.Linear(3, 3)).update()
    modules = {"a/b": torch.nn.Linear(3, 3), "a~1b": torch.nn.Linear(3, 3)}
    assert reached(codec.Follower(tmp_path / "run.lcc", modules)) == 0
    for module, state in zip(modules.values(), states):
        assert torch.equal(module.weight, state["weight"])


def test_a_disk_that_fails_for_a_while(tmp_path: Path, trainer: Trainer) -> None:
    """The last record is a base, and nothing comes after it."""
    path, module, follower = at_step_1(tmp_path, trainer)
    save_all(path, [trainer.state()], 2, resume=True, base_every=1)
    assert codec.Chain(path).entries[-1].kind == "base"

    real = codec.Chain._bytes

    def failing(chain: codec.Chain, entry: Entry) -> bytes:
        if entry.name == "00000002.base.safetensors":
            raise OSError(5, "I/O error")
        return real(chain, entry)

    with mock.patch.object(codec.Chain, "_bytes", failing):
        for _ in range(2):
            with pytest.raises((codec.ChainError, OSError)):
                follower.update()
    assert reached(follower) == 2
    assert weights(module) == saved(path)


def test_two_mappings_that_fit(tmp_path: Path, trainer: Trainer) -> None:
    state = trainer.state()["model"]
    other = {key: tensor.clone() for key, tensor in state.items()}
    save_all(tmp_path / "run.lcc", [{"model": state, "ema": other}])
    with pytest.raises(errors.StateMismatchError, match=r"say which: into=\{'model': module\}"):
        codec.Follower(tmp_path / "run.lcc", net()).update()
    assert reached(codec.Follower(tmp_path / "run.lcc", {"ema": net()})) == 0


def test_another_layout(tmp_path: Path, trainer: Trainer) -> None:
    """The mapping with the module's tensors has another name."""
    module = net()
    follower = codec.Follower(tmp_path / "run.lcc", module)
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        for step, name in enumerate(("model", "model", "weights")):
            checkpoints.save(step, {name: trainer.state()["model"]})
            assert reached(follower) == step
            assert weights(module) == saved(tmp_path / "run.lcc", name=name)


def test_half_precision_stays_finite(tmp_path: Path) -> None:
    """A track beyond its range is limited, as `restore` does it."""
    module = torch.nn.Linear(8, 1, bias=False).half()
    first = torch.tensor([[49248, 57280, 0, 0, 0, 0, 0, 0]], dtype=torch.float16)
    second = torch.tensor([[65504, 65504, 0, 0, 0, 0, 0, 0]], dtype=torch.float16)
    save_all(tmp_path / "run.lcc", [{"weight": first}, {"weight": second}], bits=2)
    assert codec.Chain(tmp_path / "run.lcc").at().track.arrays["weight"].max() > 65504
    assert reached(codec.Follower(tmp_path / "run.lcc", module)) == 1
    assert module.weight.max() == 65504


def test_numpy_arrays_into_a_module(tmp_path: Path) -> None:
    module = torch.nn.Linear(5, 5)
    state = {"weight": np.eye(5, dtype=np.float32), "bias": np.arange(5, dtype=np.float32)}
    save_all(tmp_path / "run.lcc", [state])
    assert reached(codec.Follower(tmp_path / "run.lcc", module)) == 0
    assert module.bias.tolist() == [0, 1, 2, 3, 4]


def test_gradients_are_no_state(tmp_path: Path) -> None:
    module = torch.nn.Linear(20, 20)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with GradientCheckpointer(tmp_path / "run.lcc", optimizer) as checkpoints:
        checkpoints.save(0, {"model": module.state_dict()})
        follower = codec.Follower(tmp_path / "run.lcc", module)
        assert reached(follower) == 0
        for step in (1, 2):
            module(torch.ones(1, 20)).sum().backward()
            optimizer.step()
            checkpoints.save(step, {"model": module.state_dict()})
    with pytest.raises(errors.RerunNeededError):
        follower.update()
    with pytest.raises(errors.RerunNeededError):
        list(codec.follow(tmp_path / "run.lcc", every=0.01, timeout=1))


def test_follow_waits_and_goes_on(
    tmp_path: Path, trainer: Trainer, caplog: pytest.LogCaptureFixture
) -> None:
    """From before the first record to a timeout, past a record that is damaged for a while."""
    path, module = tmp_path / "run.lcc", net()
    seen: list[int] = []

    def write() -> None:
        with codec.Checkpointer(path) as checkpoints:
            for step in range(4):
                checkpoints.save(step, trainer.state())
                while step not in seen:
                    time.sleep(0.001)
                if step == 2:
                    (path / "00000003.delta.safetensors").write_bytes(b"nothing yet")
                    while "step 2 stays" not in caplog.text:
                        time.sleep(0.001)
                    time.sleep(0.03)  # several looks at the chain
                    (path / "00000003.delta.safetensors").unlink()

    thread = threading.Thread(target=write)
    thread.start()
    with caplog.at_level(logging.WARNING, "codec"):
        for update in codec.follow(path, module, every=0.005, timeout=30):
            seen.append(update.step)
            assert weights(module) == saved(path, update.step)
            if update.step == 3:
                break
    thread.join()
    assert seen == [0, 1, 2, 3]
    assert caplog.text.count("step 2 stays") == 1
    assert [u.step for u in codec.follow(path, every=0.001, timeout=0.01)] == [3]


@pytest.mark.parametrize("settings", [{"every": -1}, {"every": "1"}, {"timeout": float("nan")}])
def test_settings_out_of_range(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(errors.SettingsError, match="a number of seconds"):
        codec.follow(tmp_path, **settings)


def test_what_is_no_module(tmp_path: Path) -> None:
    with pytest.raises(errors.SettingsError, match="got a list"):
        codec.Follower(tmp_path, [1])  # type: ignore[arg-type]


def test_a_damaged_record_that_vanishes_while_it_is_read(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step before it is not reached a second time."""
    path, module, follower = at_step_1(tmp_path, trainer)
    trainer.save(path, 2, resume=True)
    file = path / "00000002.delta.safetensors"
    shorten(file)
    read = Path.read_bytes

    def vanishes(at: Path) -> bytes:
        if at.name == file.name:
            at.unlink(missing_ok=True)
        return read(at)

    monkeypatch.setattr(Path, "read_bytes", vanishes)
    assert follower.update() is None
    assert follower.step == 1
    assert not file.exists()
    assert weights(module) == saved(path, 1)
