"""Exact chunks become residuals to their last value; tests/distributed has several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

from codec.dcp import ChainReader, ChainWriter, needed
from codec.dcp.files import step_at
from codec.dcp.rank_writer import read_item
from codec.record import record as records
from tests.bits import same
from tests.codec.dcp.steps import kinds, loaded, size

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is (disabled|unavailable)")
SPECIAL = (0x7FC00001, 0xFFC12345, 0x7F800001, 0x80000000, 0x00000001, 0xFF800000)  # float32
Tensors = dict[str, torch.Tensor]


def state_of(step: int) -> Tensors:
    """Exact tensors under names as DCP has them; "noise" and "jump" of step 1 have only new bits,
    "still" never changes, and "tiny" is too small for a residual."""
    rng = np.random.default_rng(0)
    floats = rng.normal(size=(40, 30)).astype(np.float32)
    halves = rng.normal(size=3000).astype(np.float32)
    numbers = rng.integers(-1000, 1000, (50, 7))
    jump = rng.integers(0, 2**32, 500)
    for i in range(step):
        rng = np.random.default_rng(i + 1)
        floats *= np.where(rng.random(floats.shape) < 0.1, np.float32(1.001), np.float32(1))
        halves *= np.where(rng.random(halves.shape) < 0.02, np.float32(1.02), np.float32(1))
        numbers += rng.random(numbers.shape) < 0.2
        jump = jump + (rng.random(500) < 0.1) if i else rng.integers(0, 2**32, 500)
    bits = floats.view(np.uint32)
    bits[0, : len(SPECIAL)] = np.roll(SPECIAL, step)  # each of them turns into another one
    half = torch.from_numpy(halves).bfloat16()
    half.view(torch.int16)[:4] = torch.tensor([0x7FC1 + step, -0x8000, 1, -0x3F]).short()
    return {
        "floats": torch.from_numpy(floats),
        "half": half,
        "numbers": torch.from_numpy(numbers),
        "noise": torch.from_numpy(np.random.default_rng(99 + step).integers(0, 256, 4000)).byte(),
        "jump": torch.from_numpy(jump.astype(np.uint32).view(np.int32)),
        "still": torch.arange(1000.0),
        "tiny": torch.tensor(step),
    }


def nested(tensors: Tensors) -> dict[str, Any]:
    """As a training loop has them: neither a model's nor an optimizer's moments."""
    return {"ema": tensors}


def save(writer: ChainWriter, path: Path, step: int) -> None:
    dcp.save(nested(state_of(step)), storage_writer=writer, checkpoint_id=path)


def check(path: Path, step: int) -> None:
    """That a directory has the bits of a step."""
    expected = nested(state_of(step))
    assert same(loaded(path, expected), expected)


def needs(path: Path) -> dict[str, list[str]]:
    """Name -> the directories that a tensor is rebuilt from, oldest first."""
    data = ChainReader(path).read_metadata().storage_data
    return {
        index.fqn.rpartition(".")[2]: [at.step for at in read_item(item, step_at(path))[0]]
        for index, item in data.items()
    }


def no_residual(*_: Any) -> None:
    """As releases wrote that had no residuals in distributed checkpoints."""


SETTINGS: list[dict[str, Any]] = [{}, {"budget": 0.05}, {"tolerance": 1e-3, "scope": "model"}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_residuals(settings: dict[str, Any], tmp_path: Path) -> None:
    """Every bit comes back; what is not smaller is whole and needs no other directory."""
    writer = ChainWriter(base_every=3, **settings)
    for step in range(7):
        save(writer, path := tmp_path / f"{step}", step)
        check(path, step)
        first = step - step % 4
        seen, chain = needs(path), [str(i) for i in range(first, step + 1)]
        assert seen["floats"] == seen["half"] == seen["numbers"] == seen["still"] == chain
        assert seen["noise"] == seen["tiny"] == [str(step)]
        assert needed(path) == [tmp_path / name for name in chain]
        if step == first:
            assert kinds(path) == ["base"]
            continue
        # Without its base, "jump" is whole where all of its bits are new.
        assert seen["jump"] == (chain if first else [str(i) for i in range(1, step + 1)])
        for file in path.glob("*.delta.safetensors"):
            record = records.load(file.read_bytes(), file.name)
            assert all(name.startswith("d/") for name in record.arrays)
        assert size(path, "delta") * 4 < 4 * 1200 + 2 * 3000 + 8 * 350
    dcp.save(nested(state_of(6)), storage_writer=writer, checkpoint_id=tmp_path / "again")
    check(tmp_path / "again", 6)
    assert kinds(tmp_path / "again") == [], "nothing has changed"
    assert needs(tmp_path / "again") == needs(tmp_path / "6")


def test_a_chunk_of_another_shape_begins_anew(tmp_path: Path) -> None:
    """And what DCP pickles, with another length each time."""
    writer = ChainWriter(bits=2)
    for step in range(4):
        state = nested({"w": torch.arange(600.0 + step % 2) + step}) | {"text": "x" * 3000 * step}
        dcp.save(state, storage_writer=writer, checkpoint_id=tmp_path / f"{step}")
        assert same(loaded(tmp_path / f"{step}", state), state)
        assert needs(tmp_path / f"{step}")["text"] == [str(step)]


@pytest.mark.parametrize("old", [False, True])
def test_resumes(old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Residuals go on from the values on disk, also where all of them are whole, as they were; of
    a tensor that a record held once, and another one holds since, from the newer value."""
    writer = ChainWriter(bits=2)
    with monkeypatch.context() as patch:
        if old:
            patch.setattr("codec.scheme.tracker.residual_of", no_residual)
        for step in (0, 1):
            save(writer, tmp_path / f"{step}", step)
    assert (kinds(tmp_path / "1") == ["base"]) is old
    writer = ChainWriter(bits=2, resume=tmp_path / "1")
    for step in (2, 3):
        save(writer, tmp_path / f"{step}", step)
        check(tmp_path / f"{step}", step)
    seen = needs(tmp_path / "3")
    assert seen["floats"] == (["1", "2", "3"] if old else ["0", "1", "2", "3"])
    assert seen["jump"] == ["1", "2", "3"]
    assert seen["still"] == (["0"] if old else ["0", "1", "2", "3"])
    assert seen["noise"] == ["3"]
    check(tmp_path / "1", 1)
