"""States on a GPU: the same records as from main memory. These tests need CUDA."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

import codec
from codec.dcp import ChainReader, ChainWriter
from codec.scheme.limits import UNIT
from tests.codec.chains import records_in, save_all

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")

SETTINGS: list[dict[str, Any]] = [
    {},
    {"bits": 4},
    {"coder": "context"},
    {"policy": {"*": "exact"}},
    {"asynchronous": True},
]


def training(device: str, dtype: torch.dtype) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 4 * UNIT // 64), torch.nn.ReLU())
    model = model.to(device, dtype)
    return model, torch.optim.AdamW(model.parameters(), 0.01, fused=device == "cuda")


def step(model: Any, optimizer: Any) -> None:
    device, dtype = model[0].weight.device, model[0].weight.dtype
    optimizer.zero_grad()
    model(torch.randn(8, 64, device=device, dtype=dtype)).square().mean().backward()
    optimizer.step()


def in_main_memory(state: dict[str, Any]) -> Any:
    """A copy with its tensors in main memory; all else is the same."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, map_location="cpu")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_same_records_as_from_main_memory(
    settings: dict[str, Any], dtype: torch.dtype, tmp_path: Path
) -> None:
    """Also while the training goes on: a save takes the values of its moment."""
    model, optimizer = training("cuda", dtype)
    here, there = tmp_path / "cpu.lcc", tmp_path / "cuda.lcc"
    kept = []
    with codec.Checkpointer(there, **settings) as checkpoints:
        for i in range(4):
            step(model, optimizer)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "i": i}
            kept.append(in_main_memory(state))
            checkpoints.save(i, state)
            with torch.no_grad():
                model[0].weight.add_(0.001)  # at once, on the same stream
    save_all(here, kept, **settings)
    assert records_in(there) == records_in(here)
    restored = codec.restore(there)
    model.load_state_dict(restored["model"])
    optimizer.load_state_dict(restored["optimizer"])
    assert model[0].weight.is_cuda
    assert torch.equal(model[0].weight.cpu(), restored["model"]["0.weight"])
    step(model, optimizer)


def test_views_and_odd_layouts(tmp_path: Path) -> None:
    """Transposed, sliced, conjugated, negative, expanded and empty tensors."""
    a = torch.randn(40, 30, device="cuda")
    c = torch.randn(9, dtype=torch.complex64, device="cuda")
    state = {
        "transposed": a.T,
        "sliced": a[::3, 1:],
        "conjugated": c.conj(),
        "imaginary": c.conj().imag,
        "expanded": a[:1].expand(5, 30),
        "none": a[:0],
        "half": a.half(),
        "eighth": a.to(torch.float8_e4m3fn),
    }
    with codec.Checkpointer(tmp_path / "run.lcc") as checkpoints:
        checkpoints.save(0, state)
    restored = codec.restore(tmp_path / "run.lcc")
    for name, tensor in state.items():
        assert restored[name].dtype == tensor.dtype
        wide = tensor.cpu().to(torch.complex128)
        assert torch.equal(restored[name].to(torch.complex128), wide), name


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_distributed_checkpoints(tmp_path: Path) -> None:
    """torch.distributed.checkpoint, from the GPU and back to it."""
    weight, writer = torch.randn(4 * UNIT, device="cuda"), ChainWriter()
    for i in range(3):
        weight += 0.01 * torch.randn_like(weight)
        dcp.save({"w": weight}, storage_writer=writer, checkpoint_id=tmp_path / f"{i}")
    loaded = {"w": torch.zeros_like(weight)}
    dcp.load(loaded, storage_reader=ChainReader(tmp_path / "2"))
    assert loaded["w"].is_cuda
    off = (loaded["w"] - weight).norm() / (0.01 * 4 * UNIT**0.5)
    assert 0 <= off.item() < 1


def test_a_large_dense_state() -> None:
    w = torch.randn(8 * UNIT, device="cuda")
    tracker = codec.Tracker({"w": w}, bits=4)
    after = w + 0.01 * torch.randn_like(w)
    tracker.step({"w": after})
    assert np.abs(tracker.state["w"] - after.cpu().numpy()).max() < 0.02
