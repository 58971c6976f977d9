"""Digests beside files that others wrote: whatever happens to a file or to the list is found."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.numpy import save_file

import codec
from codec.cli.main import main
from codec.errors import SettingsError, SourceError
from codec.storage.guard import Guarded, check, guard, list_of

Capture = pytest.CaptureFixture[str]
KINDS = ("checkpoint.safetensors", "checkpoint.pt", "step_100")


@pytest.fixture(params=KINDS)
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint of each kind, guarded."""
    path = tmp_path / request.param
    if path.suffix == ".safetensors":
        save_file({"w": np.arange(9, dtype=np.float32)}, path)
    elif path.suffix == ".pt":
        torch.save({"w": torch.arange(9)}, path)
    else:
        with pytest.warns(UserWarning, match="single process"):
            dcp.save({"w": torch.arange(9)}, checkpoint_id=path)
    guard(path)
    return path


def files_of(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def name_of(file: Path, checkpoint: Path) -> str:
    return file.relative_to(checkpoint.parent).as_posix()


def damaged(whole: bytes, *bits: int) -> list[bytes]:
    """Each byte XOR each mask in `bits`, in turn; then every shorter file, the largest last."""
    places = [(i, bit) for i in range(len(whole)) for bit in bits]
    flipped = [whole[:i] + bytes([whole[i] ^ bit]) + whole[i + 1 :] for i, bit in places]
    return flipped + [whole[:n] for n in range(len(whole))]


def test_intact(checkpoint: Path) -> None:
    files = files_of(checkpoint)
    nbytes = sum(file.stat().st_size for file in files)
    expected = Guarded(list_of(checkpoint), len(files), nbytes)
    assert check(checkpoint) == check(list_of(checkpoint)) == expected
    if checkpoint.name == "step_100":
        assert {file.name for file in files} >= {".metadata", "__0_0.distcp"}


@pytest.mark.parametrize("share", [41, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_every_flipped_byte_and_every_length(checkpoint: Path, share: int) -> None:
    """The file is named."""
    for file in files_of(checkpoint):
        whole = file.read_bytes()
        for data in [*damaged(whole, 1), whole + b"\0"][::share]:
            file.write_bytes(data)
            (problem,) = check(checkpoint).problems
            assert problem.startswith(f"{name_of(file, checkpoint)}: expected BLAKE3 ")
        file.write_bytes(whole)
    assert not check(checkpoint).problems


@pytest.mark.parametrize("share", [19, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_every_flipped_byte_and_every_length_of_the_list(checkpoint: Path, share: int) -> None:
    file = list_of(checkpoint)
    whole = file.read_bytes()
    # The last line break may be missing.
    for data in damaged(whole, 1, 128)[:-1:share]:
        file.write_bytes(data)
        assert check(checkpoint).problems, data


def test_files_that_come_and_go(checkpoint: Path) -> None:
    (file, *_) = files_of(checkpoint)
    data = file.read_bytes()
    file.unlink()
    assert check(checkpoint).problems == (f"{name_of(file, checkpoint)}: is missing",)
    file.mkdir()
    assert check(checkpoint).problems
    file.rmdir()
    os.mkfifo(file)
    assert "is not a regular file" in check(checkpoint).problems[0]
    file.unlink()
    file.write_bytes(data)
    if checkpoint.is_dir():
        (checkpoint / "more").write_bytes(b"")
        assert check(checkpoint).problems == ("step_100/more: has no digest in step_100.b3",)
        shutil.rmtree(checkpoint)
        assert len(check(checkpoint).problems) == check(checkpoint).files


ZEROS, ELSEWHERE = "0" * 64, ["step/../../other", "/etc/passwd", "other/a", "step//a"]
LINES = [*(f"{ZEROS}  {name}" for name in ELSEWHERE), f"{ZEROS[1:]}  step/a", f"{ZEROS} step/a", ""]


@pytest.mark.parametrize("line", LINES)
def test_names_never_lead_elsewhere(line: str, tmp_path: Path) -> None:
    (tmp_path / "step").mkdir()
    (tmp_path / "step/a").write_bytes(b"a")
    (tmp_path / "other").write_bytes(b"b")
    (tmp_path / "step.b3").write_text(line + "\n")
    found = check(tmp_path / "step")
    assert found.problems[0].startswith("step.b3: line 1 is damaged: ")
    assert (found.files, found.nbytes) == (0, 0)


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    guard(tmp_path / "a")
    text = (tmp_path / "a.b3").read_text()
    (tmp_path / "a.b3").write_text(text + text)
    assert "line 2 is damaged" in check(tmp_path / "a").problems[0]


def test_odd_names(tmp_path: Path) -> None:
    """Escaped as b3sum does it, so that each has one line."""
    (tmp_path / "step").mkdir()
    names = ["a\\b", "a\nb", "\\n", "ü", " ", "a  b", "a\rb", os.fsdecode(b"\xff")]
    for name in names:
        (tmp_path / "step" / name).write_bytes(os.fsencode(name))
    guard(tmp_path / "step")
    assert check(tmp_path / "step").problems == ()
    lines = (tmp_path / "step.b3").read_bytes().splitlines(keepends=True)
    assert b"".join(lines).count(b"\n") == len(names)
    assert sum(line.startswith(b"\\") for line in lines) == 3


def test_a_known_digest(tmp_path: Path) -> None:
    """BLAKE3 of no bytes, from its specification."""
    (tmp_path / "a").write_bytes(b"")
    guard(tmp_path / "a")
    expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262  a\n"
    assert (tmp_path / "a.b3").read_text() == expected


def test_many_bytes_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(0).bytes(100_001)
    (tmp_path / "a").write_bytes(data)
    guard(tmp_path / "a")
    monkeypatch.setattr("codec.storage.guard.CHUNK", 1000)
    calls: list[tuple[int, int]] = []
    assert not check(tmp_path / "a", lambda *done: calls.append(done)).problems
    assert calls == [(100_001, 100_001)]


def test_what_cannot_be_guarded(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no file there"):
        guard(tmp_path / "nothing")
    with pytest.raises(SettingsError, match="there are no digests"):
        check(tmp_path / "nothing")
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, {"w": np.zeros(9, np.float32)})
    with pytest.raises(SettingsError, match="is a chain"):
        guard(tmp_path / "run.lcc")
    (tmp_path / "a").write_bytes(b"")
    guard(tmp_path / "a")
    with pytest.raises(SettingsError, match=r"a\.b3: is there already"):
        guard(tmp_path / "a")
    with pytest.raises(SettingsError, match="is a list of digests"):
        guard(tmp_path / "a.b3")


def test_links(tmp_path: Path) -> None:
    """A link to a file is read as the file; what a link to a directory leads to is not listed."""
    (tmp_path / "step").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a").write_bytes(b"a")
    (tmp_path / "step/a").symlink_to(tmp_path / "real/a")
    guard(tmp_path / "step")
    (tmp_path / "step/sub").symlink_to(tmp_path / "real")
    assert check(tmp_path / "step").problems == (
        "step/sub: is a link to a directory, which is not followed",
    )
    (tmp_path / "step.b3").unlink()
    with pytest.raises(SourceError, match="step/sub: is a link to a directory"):
        guard(tmp_path / "step")
    (tmp_path / "step/sub").unlink()
    guard(tmp_path / "step")
    (tmp_path / "real/a").unlink()
    assert check(tmp_path / "step").problems[0].startswith("step/a: cannot be read: ")


def test_a_chain_is_verified_as_a_chain(tmp_path: Path, capsys: Capture) -> None:
    """Whatever lies beside it, and whatever it is called."""
    for name in ("run.lcc", "run.b3"):
        with codec.Checkpointer(tmp_path / name) as checkpoints:
            checkpoints.save(0, {"w": np.zeros(9, np.float32)})
    codec.pack(tmp_path / "run.lcc", tmp_path / "run.lcc.zip")
    for name in ("run.lcc", "run.lcc.zip", "run.b3"):
        (tmp_path / f"{name}.b3").write_text("0" * 64 + f"  {name}\n")
        assert main(["verify", str(tmp_path / name)]) == 0
        assert "1 of 1 steps restore" in capsys.readouterr().out
        with pytest.raises(SettingsError, match="is a chain"):
            guard(tmp_path / name)


def test_places_that_can_have_no_list(tmp_path: Path, capsys: Capture) -> None:
    long = tmp_path / ("a" * 254)
    long.write_bytes(b"a")
    with pytest.raises(SettingsError, match="no file can be beside it"):
        guard(long)
    with pytest.raises(SettingsError, match="no file can be beside it"):
        guard(Path("/"))
    assert main(["verify", str(long)]) == main(["verify", "/"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_dots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "step/sub").mkdir(parents=True)
    (tmp_path / "step/sub/a").write_bytes(b"a")
    monkeypatch.chdir(tmp_path / "step/sub")
    assert guard(Path("..")).path == tmp_path / "step.b3"
    assert check(Path("..")).problems == ()
    assert guard(Path(".")).path == tmp_path / "step/sub.b3"


def test_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"w": torch.arange(9)}, path)
    assert main(["guard", str(path)]) == 0
    assert f"{path}.b3: digests of files: 1, bytes: " in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("ok: 1 files, ")
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["verify", str(path), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["files"]) == (False, 1)
    assert answer["problems"][0].startswith("checkpoint.pt: expected BLAKE3")
    assert main(["guard", str(path)]) == 2
