"""Folders that go with their process, also with one that is killed."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lcviz.server import temp_folders
from lcviz.server.temp_folders import TempFolder, remove_abandoned
from tests.lcviz.common import Patch

ROOT = Path(__file__).resolve().parents[3]
HOLDS = """
import time
from pathlib import Path
from lcviz.server.temp_folders import TempFolder
held = TempFolder("test")
(held.path / "visitor.pt").write_bytes(b"mine")
print(held.path, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    """Elsewhere other servers of this machine have theirs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_it_goes_with_its_owner() -> None:
    held = TempFolder("x")
    path = held.path
    (path / "deep").mkdir()
    (path / "deep" / "file").write_bytes(b"x")
    del held
    gc.collect()
    assert not path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such locks")
def test_only_what_a_killed_server_left_is_removed(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(temp_folders, "FRESH_SECONDS", 0.0)
    command = [sys.executable, "-c", HOLDS]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    living, killed = (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) for _ in range(2)
    )
    try:
        assert living.stdout is not None
        assert killed.stdout is not None
        theirs, left = (Path(p.stdout.readline().strip()) for p in (living, killed))
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "visitor.pt").exists()
        mine = TempFolder("mine")
        assert not left.exists()
        assert (theirs / "visitor.pt").exists()
        remove_abandoned()
        assert mine.path.exists()
    finally:
        for process in (living, killed):
            process.kill()
            process.communicate()


def test_links_and_fresh_ones_are_left(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / f"{temp_folders.PREFIX}link").symlink_to(tmp_path / "mine")
    (tmp_path / f"{temp_folders.PREFIX}new").mkdir()
    os.utime(tmp_path / "mine", (0, 0))
    remove_abandoned()
    assert (tmp_path / "mine").exists()
    assert (tmp_path / f"{temp_folders.PREFIX}new").exists()
