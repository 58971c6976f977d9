"""Systems and disks that lack what Linux has: each test removes the calls that one lacks."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.errors import WriteError
from codec.storage import directory

Patch = pytest.MonkeyPatch


def windows(monkeypatch: Patch) -> None:
    """No files without names, no modes, no opened directories, no list of processors, no advice on
    pages."""
    opened = os.open

    def without_directories(path: Any, flags: int, *more: Any, **how: Any) -> int:
        if "dir_fd" in how or os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *more, **how)

    monkeypatch.setattr(os, "open", without_directories)
    for name in ("O_TMPFILE", "O_DIRECTORY", "fchmod", "sched_getaffinity"):
        monkeypatch.delattr(os, name)
    monkeypatch.delattr(mmap, "MADV_NOHUGEPAGE")
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)


def macos(monkeypatch: Patch) -> None:
    """No files without names, no list of this process's processors, no choice of pages."""
    for name in ("O_TMPFILE", "sched_getaffinity", "memfd_create", "posix_fallocate"):
        monkeypatch.delattr(os, name)
    monkeypatch.delattr(mmap, "MADV_NOHUGEPAGE")
    monkeypatch.setattr(tempfile, "_O_TMPFILE_WORKS", False)


@pytest.mark.parametrize("system", [windows, macos])
def test_a_chain_elsewhere(
    system: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    system(monkeypatch)
    path = tmp_path / "run.lcc"
    weights = np.linspace(-1, 1, 2000, dtype=np.float32)
    for begin in (0, 3):
        with codec.Checkpointer(path, resume=True) as checkpoints:
            for step in range(begin, begin + 3):
                checkpoints.save(step, {"w": weights + np.float32(step / 8), "step": step})
    assert codec.verify(path).ok
    assert codec.restore(path)["step"] == 5
    codec.compact(path)
    codec.pack(path, tmp_path / "run.lcc.zip")
    assert codec.restore(tmp_path / "run.lcc.zip")["step"] == 5
    assert not list(path.glob(f"{directory.TEMPORARY}*"))


def test_a_disk_without_locks(tmp_path: Path, monkeypatch: Patch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "run.lcc"
    with pytest.raises(WriteError, match="files cannot be locked on this disk"):
        codec.Checkpointer(path).save(0, {"w": np.zeros(3, np.float32)})
    monkeypatch.undo()
    with codec.Checkpointer(path) as checkpoints:  # nothing is left that says it is locked
        checkpoints.save(0, {"w": np.zeros(3, np.float32)})
    assert codec.verify(path).ok
