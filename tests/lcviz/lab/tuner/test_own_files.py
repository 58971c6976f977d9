"""What is found in a folder, before anything is tried out on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import codec
from codec.errors import SourceError
from lcviz.lab.tuner.own_files import OwnFiles, look_into


def write(folder: Path, steps: range, suffix: str = ".safetensors", grows_at: int = -1) -> Path:
    for step in steps:
        n = 400 + (step == grows_at)
        state = {"w": torch.full((n,), float(step)), "b": torch.ones(3)}
        path = folder / f"model-{step}{suffix}"
        save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    return folder


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_what_is_there(suffix: str, tmp_path: Path) -> None:
    found = look_into(write(tmp_path, range(5, 301, 5), suffix))
    nbytes = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert found == OwnFiles(False, tuple(range(5, 301, 5)), nbytes, ())
    assert found.every == 5
    assert found.describe().startswith("60 files, steps 5–300 every 5, ")


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_odd_shapes(suffix: str, tmp_path: Path) -> None:
    found = look_into(write(tmp_path, range(5), suffix, grows_at=2))
    assert found.odd == ("w",)
    assert found.describe().endswith(", 1 tensor of odd shape")


def test_a_missing_tensor_is_odd(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    save_file({"w": torch.ones(400)}, tmp_path / "model-3.safetensors")
    assert look_into(tmp_path).odd == ("b",)


def test_changing_distances(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    found = look_into(write(tmp_path, range(10, 12)))
    assert found.every is None
    assert "5 files, steps 0–11 unevenly spaced, " in found.describe()


def test_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path) as checkpoints:
        for step in range(0, 9, 3):
            checkpoints.save(step, {"w": torch.full((400,), float(step))})
    found = look_into(path)
    assert (found.chain, found.steps, found.every) == (True, (0, 3, 6), 3)
    assert found.nbytes == sum(file.stat().st_size for file in path.iterdir())
    assert found.describe().startswith("A chain of 3 steps, steps 0–6 every 3, ")


def test_what_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="not found"):
        look_into(tmp_path / "nowhere")
    with pytest.raises(codec.SettingsError, match="found none"):
        look_into(tmp_path)
    write(tmp_path, range(3))
    (tmp_path / "model-1.safetensors").write_bytes(b"no tensors")
    with pytest.raises(SourceError, match="cannot be read"):
        look_into(tmp_path)
