"""`guard --newest`: the newest intact checkpoint in a folder, of files that others write."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

import codec
from codec.cli.main import main
from codec.dcp import ChainWriter
from tests.codec.chains import flip, save_all, shorten

Capture = pytest.CaptureFixture[str]
Damage = Callable[[Path], object]


def state(step: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(step)
    return {f"layer.{i}": torch.randn(20, 30, generator=generator) for i in range(3)}


def trainer_folder(path: Path, step: int) -> None:
    """As Hugging Face's Trainer makes it, with a file as Accelerate does."""
    path.mkdir()
    names = list(state(step))
    for i, name in enumerate(names[:2], 1):
        save_file({name: state(step)[name]}, path / f"model-{i:05}-of-00002.safetensors")
    files = {name: f"model-{i:05}-of-00002.safetensors" for i, name in enumerate(names[:2], 1)}
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in ("optimizer.pt", "random_states_0.pkl", "training_args.bin"):
        torch.save(state(step), path / name)
    (path / "trainer_state.json").write_text(json.dumps({"global_step": step}))


def chain(path: Path, step: int) -> None:
    save_all(path, map(state, range(step, step + 3)))


def chain_step(path: Path, step: int) -> None:
    dcp.save({"model": state(step)}, checkpoint_id=path, storage_writer=ChainWriter(path))


# The name of a checkpoint, what writes it, and a file in it that holds tensors.
KINDS: dict[str, tuple[str, Callable[[Path, int], object], str]] = {
    "torch": ("model-{}.pt", lambda path, step: torch.save(state(step), path), ""),
    "lightning": ("epoch=0-step={}.ckpt", lambda path, step: torch.save(state(step), path), ""),
    "safetensors": ("model_{}.safetensors", lambda path, step: save_file(state(step), path), ""),
    "trainer": ("checkpoint-{}", trainer_folder, "model-00002-of-00002.safetensors"),
    "distributed": (
        "step-{}",
        lambda path, step: dcp.save({"model": state(step)}, checkpoint_id=path),
        "__0_0.distcp",
    ),
    "chain": ("run{}.lcc", chain, "00000002.delta.safetensors"),
    "chain of a distributed checkpoint": ("step_{}", chain_step, "__0_*.base.safetensors"),
}


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def flipped(path: Path) -> None:
    """A bit of a tensor, in the middle of a large file."""
    flip(path, path.stat().st_size // 2)


def flipped_header(path: Path) -> None:
    flip(path, 8)


def cases() -> Iterator[Any]:
    """A kind, a file in it, and what happens to it."""
    for kind, (_, _, inner) in KINDS.items():
        damages: list[Damage] = [shorten, halved, emptied, flipped]
        if kind == "trainer" or kind == "safetensors":  # no checksum
            damages[-1] = flipped_header
        # Without its newest record, a chain is one that ends before.
        for damage in [*damages, *([Path.unlink] if inner and kind != "chain" else [])]:
            yield pytest.param(kind, inner, damage, id=f"{kind}-{damage.__name__}")
    for kind, inner, damage in (
        ("trainer", "optimizer.pt", shorten),
        ("trainer", "optimizer.pt", flipped),
        ("trainer", "random_states_0.pkl", flipped),
        ("trainer", "random_states_0.pkl", emptied),
        ("trainer", "trainer_state.json", halved),
        ("trainer", "trainer_state.json", Path.unlink),
        ("trainer", "model.safetensors.index.json", emptied),
        ("trainer", ".", shutil.rmtree),
        ("distributed", ".metadata", Path.unlink),
        ("distributed", ".metadata", emptied),
        ("distributed", ".metadata", halved),
        ("chain of a distributed checkpoint", ".metadata", emptied),
    ):
        yield pytest.param(kind, inner, damage, id=f"{kind}-{inner}-{damage.__name__}")


def newest(folder: Path, capsys: Capture) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["guard", str(folder), "--newest"])
    return code, *capsys.readouterr()


@pytest.mark.filterwarnings("ignore:.*assuming the intent is to save in a single process")
@pytest.mark.parametrize(("kind", "inner", "damage"), [*cases()])
def test_an_older_one_takes_the_place_of_a_damaged_one(
    kind: str, inner: str, damage: Damage, tmp_path: Path, capsys: Capture
) -> None:
    """The path alone on standard output; the reason on standard error; the exit code says so."""
    name, write, _ = KINDS[kind]
    paths = [tmp_path / name.format(step) for step in (8, 9, 10)]
    for step, path in enumerate(paths, 8):
        write(path, step)
    assert newest(tmp_path, capsys) == (0, f"{paths[2]}\n", "")
    for path, code, out in zip(paths[::-1], (3, 3, 1), (f"{paths[1]}\n", f"{paths[0]}\n", "")):
        (file,) = path.glob(inner) if inner not in ("", ".") else [path]
        damage(file)
        if damage is shutil.rmtree:
            path.mkdir()  # as a process that was killed then leaves it
        got = newest(tmp_path, capsys)
        assert got[:2] == (code, out), got[2]
        assert got[2].startswith(f"passed over: {paths[2]}: ") or code == 1


def test_a_folder_lacks_what_the_others_have(tmp_path: Path, capsys: Capture) -> None:
    paths = [tmp_path / f"checkpoint-{step}" for step in range(3)]
    for step, path in enumerate(paths):
        trainer_folder(path, step)
    (paths[2] / "optimizer.pt").unlink()
    code, out, err = newest(tmp_path, capsys)
    assert (code, out) == (3, f"{paths[1]}\n")
    assert err == f"passed over: {paths[2]}: optimizer.pt is missing: the save did not end\n"
    for file in (paths[0] / "trainer_state.json", paths[0] / "training_args.bin"):
        shutil.copy(file, tmp_path)  # the end of a training
    (tmp_path / "latest").symlink_to("nowhere")
    assert newest(tmp_path, capsys)[:2] == (code, out)
    (paths[1] / "optimizer.pt").unlink()  # it need not be there
    assert newest(tmp_path, capsys)[0] == 0


def test_the_newest_by_time(tmp_path: Path, capsys: Capture) -> None:
    """Where a name has no number; a file beside them is none, and a guarded one is compared."""
    for age, name in enumerate(("last.pt", "model-7.pt", "model-8.pt")):
        torch.save(state(0), tmp_path / name)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "logs").mkdir()
    assert newest(tmp_path, capsys) == (0, f"{tmp_path / 'last.pt'}\n", "")
    path = tmp_path / "later.safetensors"
    save_file(state(0), path)
    assert main(["guard", str(path)]) == 0
    assert newest(tmp_path, capsys)[:2] == (0, f"{path}\n")
    flipped(path)
    code, out, err = newest(tmp_path, capsys)
    assert (code, out) == (3, f"{tmp_path / 'last.pt'}\n")
    assert "expected BLAKE3" in err
    main(["guard", str(tmp_path), "--newest", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["path"] == str(tmp_path / "last.pt")
    assert [row["path"] for row in answer["passed_over"]] == [str(path)]


class Harmful:
    def __reduce__(self) -> Any:
        return os.mkdir, ("harm",)


class Metadata:
    """As DCP's, of a ChainWriter. described: its records."""

    def __init__(self, described: Any) -> None:
        self.storage_data = {0: {"of": described}}


def test_nothing_in_a_checkpoint_runs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    harmful = pickle.dumps(Harmful())
    (folder / "step-2.pt").write_bytes(harmful)
    torch.save(Harmful(), folder / "step-3.pt")  # whole, whatever it would do
    torch.save(state(0), folder / "step-0.pt", _use_new_zipfile_serialization=False)
    code, out, err = newest(folder, capsys)
    assert (code, out, err) == (0, f"{folder / 'step-3.pt'}\n", "")
    (folder / "step-3.pt").unlink()
    code, out, err = newest(folder, capsys)
    assert (code, out) == (1, "")
    assert "step-2.pt: not a torch.save file: it is a plain pickle" in err
    assert "step-0.pt: is a torch.save file from before torch 1.6, without checksums" in err
    (folder / "step-4").mkdir()
    for metadata in (harmful, pickle.dumps(Metadata({"rank": 0}))):
        (folder / "step-4/.metadata").write_bytes(metadata)
        code, out, err = newest(folder, capsys)
        assert (code, out) == (1, "")
        assert "step-4: .metadata: the file is truncated or damaged" in err
    assert not (tmp_path / "harm").exists()


def test_a_folder_of_none(tmp_path: Path, capsys: Capture) -> None:
    assert newest(tmp_path, capsys) == (1, "", f"{tmp_path}: no checkpoint there is intact\n")
    code, out, err = newest(tmp_path / "nothing", capsys)
    assert (code, out) == (2, "")
    assert "is not a folder" in err
    trainer_folder(tmp_path / "checkpoint-1", 1)
    chain(tmp_path / "run.lcc", 1)
    for one in (tmp_path / "checkpoint-1", tmp_path / "run.lcc"):
        code, out, err = newest(one, capsys)
        assert (code, out) == (2, "")
        assert "is a checkpoint; give the folder that holds several" in err
    archive = tmp_path / "runs"
    archive.mkdir()
    codec.pack(tmp_path / "run.lcc", archive / "run.lcc.zip")
    assert newest(archive, capsys)[0] == 0
    shorten(archive / "run.lcc.zip")
    assert newest(archive, capsys)[0] == 1
