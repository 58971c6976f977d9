"""What is taken for a path, wherever this package takes one."""

from __future__ import annotations

import io
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

import codec
from codec.chain.rewind import rewind
from codec.cli.main import main
from codec.dcp import ChainReader, ChainWriter, needed
from codec.trainers import pointer
from codec.trainers.run import ChainRun

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

STATE = {"w": torch.ones(9)}


class Own:
    """An os.PathLike of somebody's own; like py.path.local it can also read."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def __fspath__(self) -> Any:
        return self.path

    def read(self) -> bytes:
        raise AssertionError("it is a path, not an open file")


NONE: list[Any] = [None, 3, True, b"run.lcc", ["run.lcc"], "", Own(b"run.lcc"), Own(""), Own(3)]
NONE += ["a\0b", Path("a\0b"), "memory://a\0b", "a\ud800b", Path("a\ud800b"), str]

ENTRIES: dict[str, Callable[[Any, Path], Any]] = {
    "Checkpointer": lambda path, _: codec.Checkpointer(path),
    "asynchronous": lambda path, _: codec.Checkpointer(path, asynchronous=True),
    "Chain": lambda path, _: codec.Chain(path),
    "restore": lambda path, _: codec.restore(path),
    "verify": lambda path, _: codec.verify(path),
    "compact": lambda path, _: codec.compact(path),
    "pack": lambda path, run: codec.Chain(run).pack(path),
    "unpack from": lambda path, run: codec.chain.upkeep.unpack(path, run / "new"),
    "unpack to": lambda path, run: codec.chain.upkeep.unpack(run, path),
    "rewind": lambda path, _: rewind(path, 1),
    "ChainReader": lambda path, _: ChainReader(path),
    "needed": lambda path, _: needed(path),
    "a training's chain": lambda path, _: ChainRun(path, False, {}),
    "a pointer": lambda path, _: pointer.write(path, pointer.Pointer("run.lcc", 1, "ab")),
    "a pointer's place": lambda path, _: pointer.check_place(path),
    "a pointer that is read": lambda path, _: pointer.read(path),
}
OR_NONE: dict[str, Callable[[Any, Path], Any]] = {  # None stands for something else
    "ChainWriter": lambda path, _: ChainWriter(path),
    "resume": lambda path, _: ChainWriter(resume=path),
    "save": lambda path, _: dcp.save(STATE, storage_writer=ChainWriter(), checkpoint_id=path),
    "load": lambda path, _: dcp.load(STATE, storage_reader=ChainReader("."), checkpoint_id=path),
}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("entry", ENTRIES | OR_NONE)
def test_what_is_no_path(entry: str, run: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """Nothing is made of it, in the current directory for one."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for path in NONE if entry in ENTRIES else NONE[1:]:
        with pytest.raises(codec.SettingsError, match="a path is"):
            (ENTRIES | OR_NONE)[entry](path, run)
        assert sorted(tmp_path.rglob("*")) == before


COMMANDS = "info @|verify @|restore @ -o x.pt|restore run -o @"
COMMANDS += "|restore run --all pt -o @|compact @|pack @ -o x|pack run -o @|unpack @ -o x"
COMMANDS += "|unpack run -o @|compress x.safetensors -o @"


def test_on_the_command_line(
    run: Path, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    """Also where the current directory is a chain, which an empty path would be taken for."""
    shutil.copytree(run, tmp_path / "here", dirs_exist_ok=True)
    data = codec.state.tensor_files.to_safetensors(STATE)
    (tmp_path / "here" / "x.safetensors").write_bytes(data)
    monkeypatch.chdir(tmp_path / "here")
    before = sorted(tmp_path.rglob("*"))
    for command, text in itertools.product(COMMANDS.split("|"), ["", "a\0b", "a\ud800b"]):
        call = [{"@": text, "run": str(run)}.get(word, word) for word in command.split()]
        try:
            code = main(call)
        except SystemExit as exc:  # argparse
            code = exc.code
        assert code == 2, command
        assert "a path is" in capsys.readouterr().err
        assert sorted(tmp_path.rglob("*")) == before


def test_what_is_a_path(tmp_path: Path, run: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a b", "ü", Own("own"), np.str_("text"), Path("path"), "None", "file:///", "~"]
    for name in names:
        path = f"file://{tmp_path}/url" if name == "file:///" else name
        with codec.Checkpointer(path) as checkpoints:
            checkpoints.save(1, {"w": np.ones(9, np.float32)})
        assert codec.restore(path)["w"].sum() == codec.Chain(path).restore()["w"].sum() == 9
    made = {entry.name for entry in tmp_path.iterdir()} - {run.name}
    assert made == {"a b", "ü", "own", "text", "path", "None", "url", "~"}
    with codec.Checkpointer(os.curdir) as checkpoints:
        checkpoints.save(1, {"w": np.ones(9, np.float32)})
    codec.Chain(run).pack(Own("packed.zip"))
    codec.Chain(run).pack(f"file://{tmp_path}/again.zip")
    packed = Path("packed.zip").read_bytes()
    assert Path("again.zip").read_bytes() == packed
    assert codec.Chain(io.BytesIO(packed)).steps == codec.Chain(run).steps
    with pytest.raises(codec.SettingsError, match="is a URL"):
        codec.Chain(run).pack("memory://x.zip")


def test_a_name_that_is_not_utf_8_stays_readable(tmp_path: Path, forks: None) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.lcc"))
    with codec.Checkpointer(path, asynchronous=True) as checkpoints:
        checkpoints.save(0, STATE)
    assert torch.equal(codec.restore(path)["w"], STATE["w"])
    assert codec.verify(str(path)).ok
