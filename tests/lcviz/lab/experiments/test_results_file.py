"""Results are kept as they come, and gone on with; nothing is lost."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from lcviz.lab.experiments import results_file
from lcviz.lab.experiments.results_file import ResultsFile, ResultsFileError

ASKED = {"seeds": 3, "models": ("a", "b")}


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kept.jsonl"
    kept = ResultsFile(path, ASKED, resume=True)  # nothing is there yet
    assert kept.rows(["a", 1]) is None
    kept.add(["a", 1], [{"x": 1.5}, {"x": float("inf")}])
    kept.add(["b", 1], [])
    again = ResultsFile(path, ASKED, resume=True)
    assert again.rows(["a", 1]) == kept.rows(["a", 1]) == [{"x": 1.5}, {"x": float("inf")}]
    assert again.rows(["b", 1]) == []
    assert again.rows(["a", 2]) is None
    again.add(["a", 2], [{"x": 2}])
    assert ResultsFile(path, ASKED, resume=True).rows(["a", 2]) == [{"x": 2}]
    head = json.loads(path.read_text().partition("\n")[0])
    assert {"numpy", "torch"} <= head["on"]["versions"].keys()
    assert head["on"]["date"]


@pytest.mark.parametrize("cut", [1, 20])
def test_a_line_that_was_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "kept.jsonl"
    kept = ResultsFile(path, ASKED)
    kept.add(["a", 1], [{"x": 1}])
    kept.add(["a", 2], [{"x": 2}])
    path.write_bytes(path.read_bytes()[:-cut])
    again = ResultsFile(path, ASKED, resume=True)
    assert again.rows(["a", 1]) == [{"x": 1}]
    assert again.rows(["a", 2]) is None
    again.add(["a", 2], [{"x": 3}])
    assert ResultsFile(path, ASKED, resume=True).rows(["a", 2]) == [{"x": 3}]


def test_without_resume_the_old_file_gets_another_name(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    for n in range(3):
        ResultsFile(path, ASKED).add(["a", 1], [{"x": n}])
    assert ResultsFile(path, ASKED, resume=True).rows(["a", 1]) == [{"x": 2}]
    for n, name in enumerate(("kept-1.jsonl", "kept-2.jsonl")):
        assert ResultsFile(tmp_path / name, ASKED, resume=True).rows(["a", 1]) == [{"x": n}]


def test_other_settings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    ResultsFile(path, ASKED).add(["a", 1], [])
    before = path.read_bytes()
    with pytest.raises(ResultsFileError, match="another seeds; ask for the same"):
        ResultsFile(path, ASKED | {"seeds": 4}, resume=True)
    with pytest.raises(ResultsFileError, match="another cap and seeds"):
        ResultsFile(path, {"models": ["a", "b"], "cap": 1}, resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    ["", "hello\n", "[]\n", "{}\n", '{"asked": {}}\n{"x": 1}\n', "\n", '{"asked": 3, "on": 4}\n'],
)
def test_files_of_others_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text(text)
    with pytest.raises(ResultsFileError, match="holds no results"):
        ResultsFile(path, ASKED, resume=True)
    assert path.read_text() == text


def test_nowhere_to_keep(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsFileError, match="cannot be kept here"):
        ResultsFile(tmp_path / "file" / "kept.jsonl", ASKED)


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_is_not_given_another_name(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ResultsFileError, match="checkpoints: is not a file"):
        ResultsFile(tmp_path / "checkpoints", ASKED, resume=resume)
    with pytest.raises(ResultsFileError, match="is not a file"):
        ResultsFile(Path(), ASKED, resume=resume)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoints"]


def test_what_finishes_no_trial_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    ResultsFile(path, ASKED).add(["a", 1], [{"x": 1}])
    before = path.read_bytes()
    ResultsFile(path, ASKED | {"seeds": 4})
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (before, [path])


def test_two_at_once_do_not_mix(tmp_path: Path) -> None:
    """The second takes the name over; the first goes on in its own file."""
    path = tmp_path / "kept.jsonl"
    one, other = ResultsFile(path, ASKED), ResultsFile(path, ASKED | {"seeds": 4})
    one.add(["a", 1], [{"x": 1}])
    other.add(["a", 1], [{"x": 10}])
    one.add(["a", 2], [{"x": 2}])
    first = ResultsFile(tmp_path / "kept-1.jsonl", ASKED, resume=True)
    assert [first.rows(["a", n]) for n in (1, 2)] == [[{"x": 1}], [{"x": 2}]]
    second = ResultsFile(path, ASKED | {"seeds": 4}, resume=True)
    assert [second.rows(["a", n]) for n in (1, 2)] == [[{"x": 10}], None]


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept.jsonl"
    kept = ResultsFile(path, ASKED)
    kept.add(["a", 1], [{"x": 1}])

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(ResultsFileError, match="cannot be kept here: No space left"):
            kept.add(["a", 2], [{"x": 2}])
    assert kept.rows(["a", 2]) is None


@pytest.mark.parametrize("changed", [{"cpu": "abacus"}, {"versions": {"numpy": "0.1"}}])
def test_trials_of_another_machine_are_not_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    path = tmp_path / "kept.jsonl"
    kept = ResultsFile(path, ASKED)
    kept.add(["a", 1], [{"x": 1}])
    kept.check_alike()
    here = {k: v for k, v in kept.on.items() if k != "date"}
    monkeypatch.setattr(results_file, "machine", lambda _: here | changed)
    again = ResultsFile(path, ASKED, resume=True)
    assert again.rows(["a", 1]) == [{"x": 1}]
    with pytest.raises(ResultsFileError, match=r"was begun on .*(abacus|0\.1)"):
        again.check_alike()
