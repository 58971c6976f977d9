"""What the trainers' modules share, without the trainers: a training's chain, the state of a model,
pointers, small tensors; and that each library is asked for only in its own module."""

from __future__ import annotations

import importlib
import os
import re
import signal
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement
from torch import nn

import codec
from codec import errors
from codec.state import objects
from codec.trainers import pointer
from codec.trainers.pointer import Pointer
from codec.trainers.run import ChainRun, check_every

Patch = pytest.MonkeyPatch


def state(step: int) -> dict[str, Any]:
    return {"model": {"w": torch.full((9,), float(step))}}


def save(run: ChainRun, *steps: int) -> None:
    for step in steps:
        run.save(step, state(step))


def value(run: Any, step: int | None = None) -> float:
    """What a step has; all its weights are the same."""
    (number,) = set(codec.restore(run, step)["model"]["w"].tolist())
    return float(number)


def begun(run: ChainRun, *steps: int, at: int | None = 0) -> None:
    """Begin at a step, save steps, and close."""
    run.begin(at)
    save(run, *steps)
    run.close()


def in_a_thread(what: Any, *arguments: Any) -> Any:
    """What is raised there."""
    caught: list[Exception] = []

    def call() -> None:
        try:
            what(*arguments)
        except Exception as exc:
            caught.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return next(iter(caught), None)


def test_a_training_after_another(tmp_path: Path) -> None:
    run, path = ChainRun(tmp_path / "run.lcc", False, {"bits": 3}), tmp_path / "run.lcc"
    assert not run.is_open
    run.begin(0)
    for step in (1, 2, 3):
        saved = run.save(step, state(step))
        assert saved is not None
        assert saved.step == run.step == step
    assert run.save(3, state(4)) is None  # is there already, and stays
    run.close()
    assert value(path) == 3
    with pytest.raises(errors.StepOrderError, match="up to step 3; choose another directory"):
        run.begin(0)  # a new training
    begun(run, 4, at=3)  # resumed where the chain ends: nothing to go back from
    with pytest.warns(errors.RewoundWarning):
        begun(run, 3, at=2)
    assert codec.Chain(path).steps == (1, 2, 3)
    assert codec.Chain(path / "until-4.lcc").steps == (1, 2, 3, 4)
    again = ChainRun(path, True, {})
    with pytest.warns(errors.RewoundWarning):
        begun(again, 1)
    assert codec.Chain(path).steps == (1,)
    again.begin(None)
    assert again.step == 1
    again.close()


def test_step_0_of_a_new_training_and_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    run = ChainRun(path, True, {})
    run.begin(0)
    run.save(0, state(7))
    with pytest.warns(errors.RewoundWarning, match="begins again and was at 0"):
        run.begin(0)
    assert run.save(0, state(8)) is not None
    save(run, 1)
    run.close()
    assert (value(path, 0), value(path / "until-0.lcc")) == (8, 7)
    with pytest.warns(errors.RewoundWarning, match="goes on from step 0 and was at 1"):
        ChainRun(path, False, {}).begin(0, resumed=True)  # from a checkpoint of step 0
    assert value(path) == 8
    far = ChainRun("memory://anna:geheim@trainers/zero.lcc", True, {})
    far.begin(0)
    save(far, 0)
    with pytest.warns(errors.RewoundWarning, match="begins again and was at 0") as caught:
        far.begin(0)
    assert "geheim" not in str(caught[0].message)
    save(far, 0)
    assert ChainRun("memory://anna:geheim@host", True, {}).name == "host"
    far.begin(0, resumed=True)
    assert far.step == 0
    far.close()


def test_a_training_behind_a_url() -> None:
    url = "memory://trainers/run.lcc"
    run = ChainRun(url, False, {"storage_options": {}})
    assert run.name == "run.lcc"
    begun(run, 1, 2)
    assert run.restore(1)["model"]["w"].tolist() == [1.0] * 9
    with pytest.warns(errors.RewoundWarning, match=r"goes on from step 1 and was at 2"):
        begun(run, 2, 3, at=1)
    assert codec.Chain(url).steps == (1, 2, 3)
    assert codec.Chain(f"{url}/until-2.lcc").steps == (1, 2)
    with codec.Checkpointer(url, resume=True) as killed:
        killed.save(4, state(4))
        with pytest.warns(errors.RewoundWarning):
            begun(run, 4, at=3)
        with pytest.raises(errors.LockedError):
            killed.save(5, state(5))
    assert codec.verify(url).steps == (1, 2, 3, 4)
    with pytest.raises(codec.SettingsError, match="give a URL as text"):
        ChainRun(Path(url), False, {})


def test_what_a_failed_training_left_open_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    (tmp_path / "link").symlink_to(tmp_path)
    first, second = ChainRun(path, False, {}), ChainRun(tmp_path / "link" / "run.lcc", False, {})
    first.begin(0)
    save(first, 1)
    second.begin(1)  # of the same thread
    with pytest.raises(errors.LockedError, match="another training of this process has begun"):
        save(first, 2)
    save(second, 2)
    assert isinstance(
        in_a_thread(first.begin, 2), errors.LockedError
    )  # this one may still be at work
    save(second, 3)
    second.close()
    assert in_a_thread(first.begin, 3) is None
    begun(second, 4, at=3)  # that one has ended
    assert codec.Chain(path).steps == (1, 2, 3, 4)
    assert codec.verify(path).ok
    third = ChainRun(tmp_path / "third.lcc", False, {})
    third.begin(0)
    save(third, 1)
    with pytest.warns(errors.RewoundWarning):
        third.begin(0)  # the trainer tries again: it was open itself
    third.close()


def test_the_last_step_is_not_skipped(tmp_path: Path, forks: None) -> None:
    run = ChainRun(tmp_path / "run.lcc", False, {"asynchronous": True, "when_busy": "skip"})
    run.begin(0)
    saved = run.save(1, state(1))
    assert saved is not None
    assert saved.kind == "base"
    process = run._checkpoints._recorder._process.pid  # type: ignore[union-attr]
    os.kill(process, signal.SIGSTOP)
    run.save(2, state(2))
    for _ in range(2):
        saved = run.save(3, state(3))
        assert saved is not None
        assert saved.kind == "skipped"
    threading.Timer(0.2, os.kill, (process, signal.SIGCONT)).start()
    run.save(3, state(3), last=True)
    assert run.save(3, state(4), last=True) is None
    run.close()
    assert codec.Chain(tmp_path / "run.lcc").steps == (1, 2, 3)


def test_when_a_record_is_due(tmp_path: Path) -> None:
    run = ChainRun(tmp_path / "run.lcc", False, {})
    run.begin(10)
    assert [s for s in (11, 12, 13, 14, 17, 18, 24, 25) if run.is_due(s, 4)] == [12, 17, 24]
    run.close()
    for interval in (0, -1, True, 2.5, "3"):
        with pytest.raises(codec.SettingsError, match="every is a number of steps"):
            check_every(interval)
    check_every(None)
    with pytest.raises(TypeError, match="'bit'"):
        ChainRun(tmp_path, False, {"bit": 3})


def test_a_chain_keeps_its_settings(tmp_path: Path) -> None:
    """A training that goes on with fewer settings has those of the chain, and skips what it does;
    a new one does not."""
    path, policy = tmp_path / "run.lcc", {"*/debug": "skip?", "*": "exact"}
    begun(ChainRun(path, False, {"policy": policy, "bits": 3}), 0, 1)
    run = ChainRun(path, False, {})
    run.begin(1)
    save(run, 2)
    more = {"model": state(1)["model"] | {"debug": object()}}
    assert run.digest_of(more) == run.digest_of(state(1))
    run.close()
    with pytest.raises(errors.LockedError):
        run.digest_of(state(1))
    assert not any(t.lossy for t in codec.Chain(path).at().track.layout.tensors)
    with pytest.warns(errors.RewoundWarning):
        begun(ChainRun(path, True, {}), 0, 1)
    assert any(t.lossy for t in codec.Chain(path).at().track.layout.tensors)
    with pytest.raises(errors.SettingsError, match="resume must be True or False; got 'required'"):
        ChainRun(path, "required", {})  # type: ignore[arg-type]


@pytest.fixture
def gloo(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone."""
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("gloo")
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is (deprecated|not supported)")
def test_the_model_itself_or_refused() -> None:
    """Wrappers add no prefix; a part of a model is no model."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    names = list(model.state_dict())
    compiled = torch.compile(DistributedDataParallel(model))
    text = f"torch.compile no longer calls its model {objects.COMPILED}, see codec.state.objects"
    assert [name for name, _ in compiled.named_children()] == [objects.COMPILED], text
    for outer in (model, nn.DataParallel(model), DistributedDataParallel(model), compiled):
        got = objects.state_of(outer)
        assert list(got) == names
        assert got["0.weight"].data_ptr() == model[0].weight.data_ptr()
    model[0].weight.ds_id = 1  # type: ignore[assignment]
    with pytest.raises(errors.ShardedError, match=r"DeepSpeed has '0.weight'.* codec.dcp"):
        objects.state_of(nn.DataParallel(model))
    del model[0].weight.ds_id
    fully_shard(model[0], mesh=torch.distributed.init_device_mesh("cpu", (1,)))
    with pytest.raises(errors.ShardedError, match=r"'0.weight' is a DTensor: use codec.dcp"):
        objects.state_of(model)


def test_pointers(tmp_path: Path) -> None:
    place = tmp_path / "a" / "x.ckpt"
    for step in (3, 4):  # the second takes the place of the first
        pointer.write(place, Pointer("run.lcc", step, "ab" * 16))
        assert pointer.read(place) == Pointer("run.lcc", step, "ab" * 16)
    good = place.read_text()
    changes = {"{": "[", '"step": 4': '"step": "4"', "checkpoint": "x", "token": "chain", "}": ""}
    for old, new in changes.items():
        place.write_text(good.replace(old, new, 1))
        assert pointer.read(place) is None, (old, new)
    place.write_bytes(b"\xff" * 9)
    assert pointer.read(place) is None
    place.write_text(good + " " * 1000)
    assert pointer.read(place) is None
    for version in ("2", '"x"'):
        place.write_text(good.replace(": 1", f": {version}", 1))
        with pytest.raises(errors.VersionError, match=r"x\.ckpt: expected format 1 of"):
            pointer.read(place)
    place.write_bytes(b"")
    with pytest.raises(errors.TruncatedRecordError, match=r"x\.ckpt: .* an empty file; load"):
        pointer.read(place)
    assert pointer.read(tmp_path) is pointer.read(tmp_path / "none") is None
    with pytest.raises(codec.WriteError, match="cannot be made"):
        pointer.write(place / "b", Pointer("run.lcc", 1, "ab"))


@pytest.mark.parametrize(
    ("module", "libraries"),
    [
        ("huggingface", ["transformers"]),
        ("lightning", ["lightning", "lightning.pytorch", "pytorch_lightning"]),
        ("accelerate", ["accelerate"]),
    ],
)
def test_a_missing_library_is_named(monkeypatch: Patch, module: str, libraries: list[str]) -> None:
    monkeypatch.delitem(sys.modules, f"codec.trainers.{module}", raising=False)
    for library in libraries:
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"^codec.trainers.{module} needs .*: pip install \w+"):
        importlib.import_module(f"codec.trainers.{module}")


def test_the_pins_are_what_the_package_allows() -> None:
    """The tests run with versions that somebody who installs the package may get."""
    root = Path(codec.__file__).parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    files = ("requirements.txt", "requirements-dev.txt")
    lines = " ".join((root / name).read_text() for name in files).split()
    pins = dict(re.sub(r"\[.*\]", "", line).split("==") for line in lines if "==" in line)
    extras = project["optional-dependencies"]
    names = ("dashboard", "trainers", "torch", "fast")
    asked = [*project["dependencies"], *(text for name in names for text in extras[name])]
    asked = [Requirement(text) for text in asked if not text.startswith(project["name"])]
    assert len(asked) > 15
    for requirement in asked:
        assert requirement.specifier.contains(pins[requirement.name]), requirement
