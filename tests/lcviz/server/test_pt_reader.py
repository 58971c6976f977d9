"""The process that reads .pt files; tests/lcviz/export/test_own_files.py gives it hostile ones."""

from pathlib import Path

import pytest

from lcviz.server import pt_reader
from lcviz.server.pt_reader import Reader
from tests.lcviz.common import Patch


class LeftError(Exception):
    """The visitor has gone."""


def test_only_so_many_pickles_are_read_at_once(tmp_path: Path) -> None:
    """Who waits for a turn is asked again and again whether that is still wanted."""
    asked = []

    def look() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise LeftError

    for _ in range(pt_reader.AT_ONCE):
        pt_reader._TURNS.acquire()
    try:
        with pytest.raises(LeftError):
            Reader().convert(tmp_path / "1.pt", tmp_path / "1.safetensors", look)
    finally:
        pt_reader._TURNS.release(pt_reader.AT_ONCE)


def test_a_reader_that_cannot_start(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    (tmp_path / "1.pt").write_bytes(b"x")
    answer = Reader().convert(tmp_path / "1.pt", tmp_path / "1.safetensors", lambda: None)
    assert "does not start" in answer["error"]
