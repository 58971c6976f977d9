"""Results are kept as they come, and gone on with; nothing is lost."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.experiments import results_file
from benchmarks.experiments.results_file import ResultsFile, ResultsFileError

ASKED: dict[str, Any] = {"seeds": 3, "models": ("a", "b")}
X1, X2 = [{"x": 1}], [{"x": 2}]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.jsonl"


def resumed(path: Path, **changes: Any) -> ResultsFile:
    return ResultsFile(path, ASKED | changes, resume=True)


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kept.jsonl"
    kept = resumed(path)  # nothing is there yet
    assert kept.rows(["a", 1]) is None
    kept.add(["a", 1], [{"x": 1.5}, {"x": float("inf")}])
    kept.add(["b", 1], [])
    again = resumed(path)
    assert again.rows(["a", 1]) == kept.rows(["a", 1]) == [{"x": 1.5}, {"x": float("inf")}]
    assert (again.rows(["b", 1]), again.rows(["a", 2])) == ([], None)
    again.add(["a", 2], X2)
    assert resumed(path).rows(["a", 2]) == X2
    head = json.loads(path.read_text().partition("\n")[0])
    assert {"numpy", "torch"} <= head["on"]["versions"].keys()
    assert head["on"]["date"]


@pytest.mark.parametrize("cut", [1, 20])
def test_a_line_that_was_cut_off(path: Path, cut: int) -> None:
    kept = ResultsFile(path, ASKED)
    kept.add(["a", 1], X1)
    kept.add(["a", 2], X2)
    path.write_bytes(path.read_bytes()[:-cut])
    again = resumed(path)
    assert (again.rows(["a", 1]), again.rows(["a", 2])) == (X1, None)
    again.add(["a", 2], [{"x": 3}])
    assert resumed(path).rows(["a", 2]) == [{"x": 3}]


def test_without_resume_the_old_file_gets_another_name(path: Path) -> None:
    for n in range(3):
        ResultsFile(path, ASKED).add(["a", 1], [{"x": n}])
    for n, name in enumerate(("kept-1.jsonl", "kept-2.jsonl", "kept.jsonl")):
        assert resumed(path.with_name(name)).rows(["a", 1]) == [{"x": n}]


def test_other_settings_are_refused(path: Path) -> None:
    ResultsFile(path, ASKED).add(["a", 1], [])
    before = path.read_bytes()
    with pytest.raises(ResultsFileError, match="another seeds; ask for the same"):
        resumed(path, seeds=4)
    with pytest.raises(ResultsFileError, match="another cap and seeds"):
        ResultsFile(path, {"models": ["a", "b"], "cap": 1}, resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "[]\n", "{}\n", '{"asked": {}}\n{"x": 1}\n', "\n", '{"asked": 3, "on": 4}\n'],
)
def test_files_of_others_are_refused(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.raises(ResultsFileError, match="holds no results"):
        resumed(path)
    assert path.read_text() == text


@pytest.mark.parametrize("resume", [True, False])
def test_nowhere_to_keep(tmp_path: Path, resume: bool) -> None:
    """A folder is not given another name."""
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ResultsFileError, match="checkpoints: is not a file"):
        ResultsFile(tmp_path / "checkpoints", ASKED, resume=resume)
    with pytest.raises(ResultsFileError, match="is not a file"):
        ResultsFile(Path(), ASKED, resume=resume)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoints"]
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsFileError, match="cannot be kept here"):
        ResultsFile(tmp_path / "file" / "kept.jsonl", ASKED, resume=resume)


def test_two_at_once_do_not_mix(path: Path) -> None:
    """The second takes the name over; the first goes on in its own file."""
    one, other = ResultsFile(path, ASKED), ResultsFile(path, ASKED | {"seeds": 4})
    one.add(["a", 1], X1)
    before = path.read_bytes()
    ResultsFile(path, ASKED | {"seeds": 5})  # one that finishes no trial leaves it alone
    assert (path.read_bytes(), list(path.parent.iterdir())) == (before, [path])
    other.add(["a", 1], [{"x": 10}])
    one.add(["a", 2], X2)
    first, second = resumed(path.with_name("kept-1.jsonl")), resumed(path, seeds=4)
    assert [first.rows(["a", n]) for n in (1, 2)] == [X1, X2]
    assert [second.rows(["a", n]) for n in (1, 2)] == [[{"x": 10}], None]


def test_a_disk_that_is_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = ResultsFile(path, ASKED)
    kept.add(["a", 1], X1)

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsFileError, match="cannot be kept here: No space left"):
        kept.add(["a", 2], X2)
    assert kept.rows(["a", 2]) is None


@pytest.mark.parametrize("changed", [{"cpu": "abacus"}, {"versions": {"numpy": "0.1"}}])
def test_trials_of_another_machine_are_not_mixed(
    path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    kept = ResultsFile(path, ASKED)
    kept.add(["a", 1], X1)
    kept.check_alike()
    here = {k: v for k, v in kept.on.items() if k != "date"}
    monkeypatch.setattr(results_file, "machine", lambda _: here | changed)
    again = resumed(path)
    assert again.rows(["a", 1]) == X1
    with pytest.raises(ResultsFileError, match=r"was begun on .*(abacus|0\.1)"):
        again.check_alike()
