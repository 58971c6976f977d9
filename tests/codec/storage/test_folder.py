"""A directory of files and folders, on a disk and behind a URL: what both of them do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from codec.errors import StepOrderError
from codec.storage import directory
from codec.storage.folder import Folder
from codec.storage.location import Location

Patch = pytest.MonkeyPatch


@pytest.fixture(params=["disk", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a folder is made."""
    MemoryFileSystem.store.clear()
    return str(tmp_path / "run") if request.param == "disk" else "memory://bucket/run"


@pytest.fixture
def run(place: str) -> Folder:
    return Location(place).folder()


def test_files_in_folders(run: Folder, place: str) -> None:
    assert run.names() == run.names("9") == {}
    for step in ("9", "10"):
        run.make(step)
        run.put(f"{step}/a", b"0123456789")
    run.put("9/a", b"new")
    run.put_new("9/b", b"")
    assert run.names("9") == {"a": True, "b": True}
    assert run.names() == {"9": False, "10": False}
    assert (run.read_whole("9/a"), run.read_whole("9/b")) == (b"new", b"")
    assert run.read_whole("10/a", 10) == b"0123456789"
    assert run.read_spans("10/a", [(0, 2), (5, 6)]) == [b"01", b"5"]
    assert run.nbytes("10/a") == 10
    assert run.version("10/a") == run.version("10/a") != run.version("9/a")
    assert run.all_exist(["9/a", "9/b", "10/a"])
    assert not run.all_exist(["9/a", "11/a"])
    run.remove_all("9", ["b", "none", "a"])
    run.remove_all("11", [])
    for step in ("9", "10", "11"):
        run.remove_empty(step)
    assert run.names() == {"10": False}
    assert str(run.place("10")) == f"{place}/10"
    assert run == Location(f"{place}/").folder() != Location(f"{place}/10").folder()


def test_what_is_not_there(run: Folder) -> None:
    for ask in (
        run.read_whole,
        run.nbytes,
        run.version,
        lambda name: run.read_spans(name, [(0, 1)]),
    ):
        with pytest.raises(FileNotFoundError):
            ask("9/a")


def test_a_new_file_replaces_none(run: Folder) -> None:
    run.make("9")
    run.put_new("9/a", b"first")
    with pytest.raises((StepOrderError, FileExistsError)):
        run.put_new("9/a", b"second")
    assert run.read_whole("9/a") == b"first"


def test_an_answer_that_is_lost(run: Folder, monkeypatch: Patch) -> None:
    """The file got its name, and the call says that it failed: that is no error."""
    run.make("9")

    def losing(call: Callable[..., Any]) -> Callable[..., Any]:
        def lose(*given: Any, **more: Any) -> Any:
            call(*given, **more)
            raise FileExistsError("asked twice")

        return lose

    monkeypatch.setattr(directory.os, "link", losing(directory.os.link))
    monkeypatch.setattr(MemoryFileSystem, "pipe_file", losing(MemoryFileSystem.pipe_file))
    run.put_new("9/a", b"data")
    assert run.read_whole("9/a") == b"data"
