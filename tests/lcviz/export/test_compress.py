"""A chain of a visitor's own: measured, verified, made again by its script, gone when stopped."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load, save_file

import codec
from lcviz.export import archive as export
from lcviz.export import compress as compressing
from lcviz.export import receipt
from lcviz.export import scripts as script
from lcviz.export.bundle import everything
from lcviz.export.compress import How, compress
from lcviz.export.opened import Opened
from lcviz.export.own_files import gathered, open_own
from lcviz.server.quota import FullError, Shelf, VisitorFolder

pytestmark = pytest.mark.usefixtures("server")

ROOT = Path(__file__).resolve().parents[3]


def nothing(*_: Any) -> None:
    """Nobody looks."""


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five checkpoints, nested in .pt, one of them a .safetensors of another dtype inside."""
    folder, generator = tmp_path_factory.mktemp("series"), torch.Generator().manual_seed(0)
    w, half = torch.randn(60, 50, generator=generator), torch.ones(90, dtype=torch.bfloat16)
    for i in range(5):
        w = w + 0.01 * torch.randn(60, 50, generator=generator) ** 3
        half = half + torch.randn(90, generator=generator).bfloat16() / 8
        state = {"w": w, "half": half, "n": torch.tensor(i)}
        if i == 2:
            save_file(state, folder / f"e{10 * i}.safetensors")
        else:
            torch.save({"model": state, "epoch": i}, folder / f"e{10 * i}.pt")
    return folder


@pytest.fixture
def shelf() -> Shelf:
    return Shelf(50 * 2**20)


@pytest.fixture
def place(shelf: Shelf) -> VisitorFolder:
    return shelf.place()


@pytest.fixture(scope="module")
def found(series: Path) -> Opened:
    return open_own(gathered(series), Shelf().place(), nothing)


def test_every_step_is_measured(found: Opened, place: VisitorFolder) -> None:
    told: list[tuple[int, int]] = []
    made = compress(found, How(bits=3, base_every=3), place, lambda *t: told.append(t))
    assert told == [(i, 10) for i in range(5)] + [(i, 10) for i in range(6, 11)]
    assert [c.kind for c in made.steps] == ["base", "delta", "delta", "delta", "base"]
    package = made.loaded()
    first = dict(found.states())[0]
    for c, (step, state) in zip(made.steps, found.states()):
        back = codec.restore(io.BytesIO(package.data), step)
        position = codec.Chain(io.BytesIO(package.data)).at(step)
        track = {n: position.state[n].astype(np.float64).ravel() for n in ("half", "w")}
        live = {n: state[n].double().numpy().ravel() for n in track}
        begin = {n: first[n].double().numpy().ravel() for n in track}
        off = {n: track[n] - live[n] for n in track}
        every = np.concatenate(list(off.values()))
        moved = np.concatenate([live[n] - begin[n] for n in track])
        expected = np.linalg.norm(every) / np.linalg.norm(moved) if step else 0.0
        assert c.distance == pytest.approx(expected, rel=1e-5)
        assert c.largest == pytest.approx(np.abs(every).max(initial=0), rel=1e-5)
        assert [t.name for t in c.tensors] == ["half", "w"]
        assert c.full_nbytes == 4 * 3090 + 8
        assert c.file_nbytes == (found.files[step // 10].source).stat().st_size
        assert back["half"].dtype == torch.bfloat16
        assert int(back["n"]) == step // 10
        assert c.kind == "delta" or c.distance == 0.0
    assert made.sha256 == hashlib.sha256(made.archive.read_bytes()).hexdigest()
    assert [p.name for p in place.path.iterdir()] == ["run.lcc.zip"]


def test_the_account_of_the_place_is_right(
    found: Opened, shelf: Shelf, place: VisitorFolder
) -> None:
    made = compress(found, How(), place, nothing)
    records = sum(e.nbytes for e in made.package.entries)
    assert shelf.nbytes == pytest.approx(records, abs=1000)
    place.close()
    assert shelf.nbytes == 0
    with pytest.raises(codec.SourceError, match="compress again"):
        made.loaded()


def test_who_stops_leaves_nothing(found: Opened, place: VisitorFolder, shelf: Shelf) -> None:
    class StoppedError(Exception):
        """No one watches."""

    for at in (0, 3, 7):

        def tell(done: int, total: int, at: int = at) -> None:
            if done >= at:
                raise StoppedError

        with pytest.raises(StoppedError):
            compress(found, How(), place, tell)
        assert list(place.path.iterdir()) == []


def test_a_chain_that_is_too_large(
    found: Opened, place: VisitorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressing, "MOST_ARCHIVE", 14_000)
    with pytest.raises(FullError, match=r"archives of 14\.0 kB at most"):
        compress(found, How(), place, nothing)
    assert list(place.path.iterdir()) == []


def test_a_shelf_without_room(found: Opened) -> None:
    place = Shelf(most_bytes=13_000).place()
    with pytest.raises(FullError, match="do not fit in"):
        compress(found, How(), place, nothing)
    assert list(place.path.iterdir()) == []


def test_what_is_verified_is_the_packed_chain(
    found: Opened, place: VisitorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that packs something else is found out."""
    pack = codec.Chain.pack

    def other(self: codec.Chain, path: Path) -> int:
        with codec.Checkpointer(place.path / "other.lcc") as chain:
            for step, state in found.states():
                chain.save(step, {n: t + 1 for n, t in state.items()})
        return pack(codec.Chain(place.path / "other.lcc"), path)

    monkeypatch.setattr(codec.Chain, "pack", other)
    with pytest.raises(codec.ChainError, match="Step 0 of the packed chain"):
        compress(found, How(), place, nothing)


def lay_down(folder: Path, made: compressing.Compressed) -> Path:
    (folder / script.RECEIPT).write_bytes(receipt.dumped(made.receipt))
    (folder / script.NAME).write_text(script.reproducing(made.receipt))
    return folder / script.NAME


def run_script(path: Path, *files: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, path, *files],
        text=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()[-1]


def test_the_script_makes_the_same_chain(
    found: Opened, place: VisitorFolder, series: Path, tmp_path: Path, run_here: Callable[..., Any]
) -> None:
    made = compress(found, How(None, 0.25, "tensor", "huffman", 3), place, nothing)
    path = lay_down(tmp_path, made)
    for file in sorted(series.iterdir()):  # names do not matter
        (tmp_path / f"copy-of-{file.name}").write_bytes(file.read_bytes())
    files = sorted(tmp_path.glob("copy-of-*"), reverse=True)
    assert run_script(path, *files) == (0, "the same: every byte is that of the receipt")
    code, said = run_here(path, *files[1:])
    assert code == 1
    assert said.startswith("NOT THE SAME: The file e40.pt of SHA-256 ")


def test_a_chain_is_compressed_again(
    tmp_path: Path, place: VisitorFolder, found: Opened, run_here: Callable[..., Any]
) -> None:
    """Also one of a nested state, with values that are no tensors."""
    with codec.Checkpointer(tmp_path / "run.lcc") as chain:
        for step, state in found.states():
            chain.save(step, {"model": state, "epoch": step, "optimizer": {"m": torch.ones(20)}})
    opened = open_own(gathered(tmp_path / "run.lcc"), Shelf().place(), nothing)
    made = compress(opened, How(bits=None), place, nothing)
    package = made.loaded()
    assert package.steps == (0, 10, 20, 30, 40)
    assert codec.restore(io.BytesIO(package.data), 20)["epoch"] == 20
    restored = export.plain(package, 20)
    assert set(load(restored.data)) == {"model/w", "model/half", "model/n", "optimizer/m"}
    assert restored.left_out == 1
    assert all(c.file_nbytes is None for c in made.steps)
    path = lay_down(tmp_path, made)
    assert opened.archive is not None
    assert run_here(path, opened.archive.source)[0] == 0
    assert run_here(path, tmp_path / "run.lcc")[0] == 0  # the folder that was opened


def test_a_chain_that_lost_a_step_is_not_offered(
    found: Opened, place: VisitorFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = codec.Chain.pack

    def shorter(self: codec.Chain, path: Path) -> int:
        (place.path / "run.lcc" / self.entries[-1].name).unlink()
        return pack(codec.Chain(place.path / "run.lcc"), path)

    monkeypatch.setattr(codec.Chain, "pack", shorter)
    with pytest.raises(codec.ChainError, match=r"has lost its records of steps \[40\]"):
        compress(found, How(), place, nothing)


def test_a_chain_of_no_values(tmp_path: Path, place: VisitorFolder) -> None:
    with codec.Checkpointer(tmp_path / "run.lcc") as chain:
        chain.save(0, {"w": torch.empty(0, 3)})
    opened = open_own(gathered(tmp_path / "run.lcc"), Shelf().place(), nothing)
    with pytest.raises(codec.SourceError, match="Step 0 holds no values"):
        compress(opened, How(), place, nothing)


def test_everything_in_one_zip(found: Opened, place: VisitorFolder, tmp_path: Path) -> None:
    made = compress(found, How(), place, nothing)
    package = made.loaded()
    data = everything(package, made.receipt)
    assert data == everything(package, made.receipt)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == [
            "own-5steps-bits2-model-runlength.lcc.zip",
            "receipt.json",
            "restore.py",
            "reproduce.py",
        ]
        archive.extractall(tmp_path)
    told = receipt.load((tmp_path / "receipt.json").read_bytes())
    assert told == json.loads(json.dumps(made.receipt))
    assert receipt.problems(told, (tmp_path / package.file).read_bytes()) == []
    assert [f["under"] for f in told["files"]] == [["model"], ["model"], [], ["model"], ["model"]]
