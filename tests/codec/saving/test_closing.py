"""When a writer may no longer write: it is closed, collected, or has lost its lock or directory."""

from __future__ import annotations

import errno
import gc
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import codec
from codec.errors import LockedError
from codec.storage.location import Location
from tests.codec.chains import records_in

InFork = Callable[[Callable[[], Any]], tuple[int, str]]
BOTH = pytest.mark.parametrize("asynchronous", [False, True])
URL = "memory://closing/run.lcc"


def state_of(step: int) -> dict[str, Any]:
    """Always the same."""
    return {"w": np.random.default_rng(step).normal(size=200).astype(np.float32), "step": step}


@BOTH
def test_a_closed_checkpointer_writes_nothing(tmp_path: Path, asynchronous: bool) -> None:
    """Another one is at work there; with base_every and keep_steps a save would remove records."""
    path, settings = tmp_path / "run.lcc", {"base_every": 2, "keep_steps": 2}
    with codec.Checkpointer(path, **settings, asynchronous=asynchronous) as closed:
        saved = closed.save(0, state_of(0))
    closed.close()
    assert saved.kind == "base"
    with codec.Checkpointer(path, resume=True, restore_work=None) as living:
        for step in range(1, 6):
            living.save(step, state_of(step))
        before = records_in(path)
        for step in range(6, 9):
            with pytest.raises(codec.WriteError, match="closed"):
                closed.save(step, state_of(step))
        assert closed.restore()["step"] == 5  # of the disk, not what it had itself
        with pytest.raises(codec.WriteError, match="closed"), closed:
            pass
        assert records_in(path) == before
        living.save(6, state_of(6))
    assert codec.verify(path).steps == tuple(range(7))
    assert codec.restore(path)["step"] == 6


@pytest.mark.parametrize("where", ["directory", URL])
def test_a_closed_store_changes_nothing(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else uses it: rewinding, unpacking."""
    if where == URL:
        memory = pytest.importorskip("fsspec.implementations.memory").MemoryFileSystem
        monkeypatch.setattr(memory, "store", {})
        monkeypatch.setattr(memory, "pseudo_dirs", [""])
    location = Location(tmp_path / "run.lcc" if where == "directory" else where)
    with location.store(takes_over=True) as store:
        store.publish("00000000.base.safetensors", b"whatever")
    with location.store(takes_over=True):
        for change in changes(store):
            with pytest.raises(codec.WriteError, match="closed"):
                change()


def changes(store: Any) -> list[Callable[[], object]]:
    """Every kind that a store can make."""
    name = "00000000.base.safetensors"
    return [
        lambda: store.publish("00000001.base.safetensors", b"more"),
        lambda: store.set_aside(name),
        lambda: store.remove([name]),
    ]


def lose(path: Path, how: str) -> None:
    """What somebody may do to the directory of a writer at work."""
    if how == "deleted":
        (path / ".lock").unlink()
    elif how == "replaced":
        (path / "new").touch()
        (path / "new").replace(path / ".lock")
    else:
        path.rename(path.with_name("old"))
        shutil.copytree(path.with_name("old"), path)


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
def test_without_its_lock_nothing_is_changed(tmp_path: Path, how: str) -> None:
    """For another one may hold it by now."""
    path = tmp_path / "run.lcc"
    first = codec.Checkpointer(path, base_every=1, keep_steps=2)
    first.save(0, state_of(0))
    lose(path, how)
    with codec.Checkpointer(path, resume=True) as second:  # nobody keeps it out
        second.save(1, state_of(1))
        before = records_in(path)
        for step in range(2, 6):
            with pytest.raises(LockedError, match=r"\.lock.*resume=True"):
                first.save(step, state_of(step))
        first.close()
        assert records_in(path) == before
        second.save(2, state_of(2))
    assert codec.verify(path).steps == (0, 1, 2)

    with Location(path).store() as store:
        lose(path, "deleted")
        for change in changes(store):
            with pytest.raises(LockedError, match=r"\.lock"):
                change()
    assert codec.verify(path).steps == (0, 1, 2)


@pytest.mark.parametrize(
    "place",
    [
        "storage.directory._directory_for_nameless",
        "saving.recorder.Recorder._continue_chain",
        "saving.checkpointer.load_beside",
    ],
)
def test_an_interrupted_opening_holds_no_lock(place: str, tmp_path: Path) -> None:
    """Also while the exception is kept, as a notebook does."""
    with (
        mock.patch(f"codec.{place}", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt) as kept,
    ):
        codec.Checkpointer(tmp_path / "run.lcc")
    codec.Checkpointer(tmp_path / "run.lcc").close()
    assert kept.tb is not None


def test_closing_again_closes_nothing_else(tmp_path: Path) -> None:
    """After an interrupt of the first time, right after a descriptor was closed."""
    close = os.close
    checkpoints = codec.Checkpointer(tmp_path / "run.lcc")

    def closed_and_interrupted(descriptor: int) -> None:
        close(descriptor)
        raise KeyboardInterrupt

    with mock.patch.object(os, "close", closed_and_interrupted), pytest.raises(KeyboardInterrupt):
        checkpoints._recorder.close()
    with (tmp_path / "other").open("w") as other:  # takes the descriptor's number
        checkpoints.close()
        os.fstat(other.fileno())
    codec.Checkpointer(tmp_path / "run.lcc").close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_does_not_hold_the_lock(tmp_path: Path, in_fork: InFork) -> None:
    """Whoever writes through a store of its parent's would do it beside the parent."""

    def change_it() -> None:
        for change in changes(store):
            with pytest.raises(LockedError, match="fork"):
                change()

    with Location(tmp_path).store() as store:
        store.publish("00000000.base.safetensors", b"whatever")
        assert in_fork(change_it) == (0, "")
        store.publish("00000001.base.safetensors", b"more")


def test_what_is_collected_lets_go(tmp_path: Path) -> None:
    """Of the lock and of every descriptor, and writes nothing."""

    def opened() -> int:
        gc.collect()  # quick: what was there before is frozen
        return len(os.listdir("/proc/self/fd"))

    if not Path("/proc/self/fd").exists():
        pytest.skip("this system shows its descriptors elsewhere")
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path) as checkpoints:
        checkpoints.save(0, state_of(0))
    gc.collect()
    gc.freeze()
    try:
        before, there = opened(), records_in(path)
        for _ in range(3):
            checkpoints = codec.Checkpointer(path, resume=True)
            assert opened() > before
            del checkpoints
            assert opened() == before
    finally:
        gc.unfreeze()
    assert records_in(path) == there
    codec.Checkpointer(path, resume=True).close()


@pytest.mark.parametrize(("asynchronous", "anew"), [(False, True), (True, False)])
def test_a_directory_that_is_removed(tmp_path: Path, asynchronous: bool, anew: bool) -> None:
    """It is named, and so is the way out, which works."""
    path = tmp_path / "run.lcc"
    checkpoints = codec.Checkpointer(path, asynchronous=asynchronous)
    assert checkpoints.save(0, state_of(0)).nbytes
    shutil.rmtree(path)
    if anew:
        path.mkdir()
    error: Any = (LockedError, ".lock") if anew else (codec.WriteError, "removed or moved")
    with pytest.raises(error[0], match=error[1]) as raised:
        _ = checkpoints.save(1, state_of(1)).nbytes
    assert str(path) in str(raised.value)
    assert "resume=True" in str(raised.value)
    assert "Operation not permitted" not in str(raised.value)
    checkpoints.close()
    with codec.Checkpointer(path, resume=True) as again:
        assert again.save(2, state_of(2)).kind == "base"
    assert codec.verify(path).steps == (2,)


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="needs files without a name")
@pytest.mark.parametrize("fsyncs", [1, 2], ids=["before", "after"])
def test_a_directory_that_is_replaced_in_the_midst_of_a_save(tmp_path: Path, fsyncs: int) -> None:
    """Before or after the record gets its name: one of that name in the new directory is not this
    writer's to take back."""
    path, name = tmp_path / "run.lcc", "00000001.delta.safetensors"
    with codec.Checkpointer(path) as checkpoints:
        checkpoints.save(0, state_of(0))
        fsync, calls = os.fsync, iter(range(1, 9))

        def remove(descriptor: int) -> None:
            fsync(descriptor)
            if next(calls) == fsyncs:
                shutil.rmtree(path)
                path.mkdir()
                (path / name).write_bytes(b"somebody else's")
                raise OSError(errno.EIO, "no")

        with (
            mock.patch.object(os, "fsync", remove),
            pytest.raises(codec.WriteError, match="removed or moved") as raised,
        ):
            checkpoints.save(1, state_of(1))
        assert f"{path}:" in str(raised.value)
    assert (path / name).read_bytes() == b"somebody else's"
