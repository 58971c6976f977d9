"""Distributed checkpoints behind URLs: the same as on a disk, by requests for single files."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from fsspec.implementations.memory import MemoryFileSystem
from torch.distributed.checkpoint.api import CheckpointException

import codec
from codec.cli.main import main
from codec.dcp import ChainWriter, needed, newest_step
from codec.dcp.files import step_at
from codec.storage.remote import Remote
from tests.bits import same
from tests.codec.dcp.steps import loaded

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is (disabled|unavailable)")
RUN = "memory://bucket/run"


@pytest.fixture
def store() -> Iterator[dict[str, Any]]:
    """What is stored: path -> file."""
    memory: dict[str, Any] = MemoryFileSystem.store
    memory.clear()
    yield memory
    memory.clear()


def test_metadata_that_comes_late(store: dict[str, Any], monkeypatch: Patch) -> None:
    """A request that was given up replaces nothing; the step is of the save that came first."""
    writer = ChainWriter(bits=2)
    save(writer, RUN, 0)
    create, late = Remote.create, list[Callable[[], None]]()

    def held(self: Remote, name: str, data: bytes, **how: Any) -> None:
        late.append(lambda: create(self, name, data, **how))
        raise TimeoutError("no answer")

    monkeypatch.setattr(Remote, "create", held)
    with pytest.raises(CheckpointException, match="no answer"):
        save(writer, RUN, 1)
    monkeypatch.setattr(Remote, "create", create)
    save(writer, RUN, 1)
    mark = store["/bucket/run/step-1/.metadata"].getvalue()
    with pytest.raises(FileExistsError):
        late[0]()
    assert store["/bucket/run/step-1/.metadata"].getvalue() == mark
    assert load(f"{RUN}/step-1")["epoch"] == 1

    def overtaken(self: Remote, name: str, data: bytes, **how: Any) -> None:
        late[1]()
        create(self, name, data, **how)

    monkeypatch.setattr(Remote, "create", held)
    with pytest.raises(CheckpointException, match="no answer"):
        save(writer, RUN, 2)
    monkeypatch.setattr(Remote, "create", overtaken)
    with pytest.raises(CheckpointException, match=r"StepOrderError: .*has come late"):
        save(ChainWriter(bits=3), RUN, 2)
    monkeypatch.setattr(Remote, "create", create)
    load(f"{RUN}/step-2")
    save(writer, RUN, 3)
    load(f"{RUN}/step-3")


@pytest.fixture
def requests(monkeypatch: Patch) -> Counter[str]:
    """How often each method of the file system was called."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> Callable[..., Any]:
        real = getattr(MemoryFileSystem, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return real(*args, **kwargs)

        return call

    for name in ("ls", "mv", "cat_file", "pipe_file", "info", "rm_file", "cp_file"):
        monkeypatch.setattr(MemoryFileSystem, name, counting(name))
    return counted


def state_of(step: int) -> dict[str, Any]:
    """A model, a tensor that is exact, and a number."""
    rng = torch.Generator().manual_seed(step)
    w = torch.linspace(-1, 1, 3000) + 0.01 * torch.randn(3000, generator=rng)
    return {"model": {"w": w, "b": w[:40] * 2}, "n": torch.arange(50) + step, "epoch": step}


def save(writer: ChainWriter, run: Any, *steps: int) -> None:
    for step in steps:
        dcp.save(state_of(step), storage_writer=writer, checkpoint_id=f"{run}/step-{step}")


def load(step: Any, **options: Any) -> Any:
    return loaded(step, state_of(0), **options)


def steps_in(store: dict[str, Any]) -> set[str]:
    return {path.split("/")[-2] for path in store}


def test_the_same_as_on_a_disk(store: dict[str, Any], tmp_path: Path) -> None:
    """Every byte but DCP's metadata, every step, and what is said of them."""
    for run in (tmp_path / "run", RUN):
        save(ChainWriter(bits=2), run, 0, 1, 2)
    stored = {path.removeprefix("/bucket/run/"): file.getvalue() for path, file in store.items()}
    on_disk = {
        str(path.relative_to(tmp_path / "run")): path.read_bytes()
        for path in (tmp_path / "run").glob("*/*")
    }
    assert stored.keys() == on_disk.keys()
    records = [name for name in stored if name.endswith(".safetensors")]
    assert len(records) >= 6
    assert all(stored[name] == on_disk[name] for name in records)
    for step in range(3):
        assert same(load(f"{RUN}/step-{step}"), load(tmp_path / "run" / f"step-{step}"))
    assert newest_step(RUN) == f"{RUN}/step-2"
    assert newest_step(f"{RUN}/none") is None
    assert needed(f"{RUN}/step-2") == [f"{RUN}/step-{step}" for step in range(3)]


def test_few_requests(store: dict[str, Any], requests: Counter[str], monkeypatch: Patch) -> None:
    """Nothing is listed, renamed, copied or removed; each record and the metadata is put once."""
    monkeypatch.delattr(os, "sync")
    writer = ChainWriter(bits=2)
    save(writer, RUN, 0, 1)
    requests.clear()
    save(writer, RUN, 2)
    n_records = sum("step-2/__" in path for path in store)
    assert requests["pipe_file"] == n_records + 1
    assert requests.keys() <= {"pipe_file", "info"}
    requests.clear()
    load(f"{RUN}/step-2")
    assert requests.keys() == {"cat_file", "info"}  # s3fs would ask for the sizes by itself
    assert requests["info"] == requests["cat_file"]


def test_on_the_command_line(
    store: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(ChainWriter(bits=2, base_every=1), RUN, *range(5))
    out = tmp_path / "out.pt"
    assert main(["info", RUN]) == main(["verify", RUN]) == 0
    assert f"{RUN}/step-4" in capsys.readouterr().out
    assert main(["info", "--tensors", RUN]) == 2
    capsys.readouterr()
    assert main(["restore", f"{RUN}/step-3", "-o", str(out)]) == 0
    assert same(torch.load(out, weights_only=False), load(f"{RUN}/step-3"))
    assert main(["compact", f"{RUN}/step-3"]) == main(["compact", f"{RUN}/step-3/"]) == 2
    assert main(["compact", f"{RUN}/", "--keep-steps", "1"]) == 0
    assert "step-4" in steps_in(store)
    assert len(steps_in(store)) <= 2
    assert main(["verify", "memory://bucket/none"]) == 1
    step_at(f"{RUN}/step-4").run.remove("step-4/.metadata")
    capsys.readouterr()
    assert main(["info", f"{RUN}/step-4"]) == main(["info", RUN]) == 1
    assert capsys.readouterr().err.count("step-4: has records, but no .metadata") == 2


def test_goes_on_in_a_new_process(store: dict[str, Any]) -> None:
    save(ChainWriter(bits=2), RUN, 0, 1)
    newest = newest_step(RUN)
    assert newest is not None
    writer = ChainWriter(bits=2, resume=newest)
    save(writer, RUN, 2)
    assert [path for path in store if "step-2/" in path and ".delta." in path]
    assert load(f"{RUN}/step-2")["epoch"] == 2
    with pytest.raises(CheckpointException, match="StepOrderError"):
        save(writer, RUN, 1)


@pytest.mark.parametrize("keep", [1, 2])
def test_old_steps_are_removed(keep: int, store: dict[str, Any]) -> None:
    writer = ChainWriter(bits=2, keep_steps=keep, base_every=1)
    save(writer, RUN, *range(7))
    left = sorted(steps_in(store))
    assert left == [f"step-{step}" for step in range(7 - keep - (keep % 2 == 0), 7)]
    for step in left[-keep:]:
        load(f"{RUN}/{step}")


class Line:
    """A line to the store that is cut at one request. left: requests until then."""

    def __init__(self, left: int, after: bool) -> None:
        self.left, self.after = left, after

    def around(self, name: str) -> Callable[..., Any]:
        """A method of the file system, over this line."""
        real = getattr(MemoryFileSystem, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise OSError("the line is cut")
            answer = real(*args, **kwargs)
            if self.left == 0:
                raise OSError("the line is cut")
            return answer

        return call


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_any_request_may_fail(
    after: bool, store: dict[str, Any], requests: Counter[str], monkeypatch: Patch
) -> None:
    """Or its answer may not arrive: the step is whole or not, and it or the next one is saved.

    Records of a failed save stay: a removal could arrive after the same state was saved again, to
    files of the same names.
    """
    n_failed = 0
    for nth in range(1, 30):
        store.clear()
        writer, line = ChainWriter(bits=2), Line(nth, after)
        save(writer, RUN, 0, 1)
        with monkeypatch.context() as patch:
            for name in ("pipe_file", "info"):
                patch.setattr(MemoryFileSystem, name, line.around(name))
            with contextlib.suppress(CheckpointException):
                save(writer, RUN, 2)
                n_failed -= 1
            n_failed += 1
        if line.left > 0:
            break
        if "/bucket/run/step-2/.metadata" not in store and nth % 2:
            save(writer, RUN, 2)
        save(writer, RUN, 3)
        whole = {0, 1, 3} | ({2} if "/bucket/run/step-2/.metadata" in store else set())
        for step in whole:
            assert load(f"{RUN}/step-{step}")["epoch"] == step
    else:
        pytest.fail("no save without a failure")
    assert n_failed >= 3
    assert not requests["rm_file"]


def test_secrets_are_not_kept(store: dict[str, Any]) -> None:
    """Neither in messages nor in DCP's metadata."""
    run = "memory://anna:geheim@bucket/run"
    save(ChainWriter(bits=2), run, 0)
    assert all(b"geheim" not in file.getvalue() for file in store.values())
    (metadata,) = (file.getvalue() for path, file in store.items() if path.endswith(".metadata"))
    assert pickle.loads(metadata).storage_meta.checkpoint_id == "memory://bucket/run/step-0"
    with pytest.raises(CheckpointException) as failed:
        load(f"{run}/step-1")
    assert "geheim" not in str(failed.value)
    assert needed(f"{run}/step-0") == [f"{run}/step-0"]


def test_over_http(tmp_path: Path, web_server: Any) -> None:
    """To be read only."""
    save(ChainWriter(bits=2), tmp_path / "run", 0, 1)
    run = f"{web_server.url}/run"
    assert same(load(f"{run}/step-1"), load(tmp_path / "run" / "step-1"))
    assert newest_step(run) == f"{run}/step-1"
    with pytest.raises(CheckpointException, match="can only be read"):
        save(ChainWriter(bits=2), run, 2)


def test_a_filesystem_that_is_not_installed() -> None:
    with pytest.raises((codec.SettingsError, codec.ChainError), match=r"pip install|cannot be"):
        needed("no-such-thing://bucket/run/step-1")
