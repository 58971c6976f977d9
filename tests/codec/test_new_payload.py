"""A new kind of payload needs its class, an entry in PAYLOADS, and a coder that makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import codec
from codec.cli.main import main
from codec.dcp import ChainReader, ChainWriter
from codec.inspect import layout_of
from codec.saving.dry_run import DryRun
from codec.scheme import coders
from codec.scheme.coders import CODERS
from tests.bits import same
from tests.codec.chains import save_all
from tests.compaction import add_base
from tests.toy_coder import TOY, Array, Zipped

TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("tensor", {"bits": 2}),
    ("model", {"budget": 0.05}),
    ("tensor", {"budget": 0.05, "quantizer": "exponent"}),
    ("model", {"tolerance": 0.001}),
    ("tensor", {"distance": 0.3}),
]


@pytest.fixture(autouse=True)
def toy_coder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed while a test runs."""
    monkeypatch.setitem(CODERS, "toy", TOY)
    monkeypatch.setattr(coders, "PAYLOADS", (*coders.PAYLOADS, Zipped))


def states(n: int) -> list[dict[str, Array]]:
    """A matrix whose rows change alike, which zlib writes in fewer bytes than code words."""
    u = {"w": np.zeros((400, 60), np.float32), "b": np.zeros(60, np.float32)}
    changes = np.random.default_rng(0).normal(size=60) ** 3 / 100
    out = [u]
    for step in range(n - 1):
        moved = np.roll(changes, step).astype(np.float32)
        u = {name: array + moved for name, array in u.items()}
        out.append(u)
    return out


@pytest.mark.parametrize(("scope", "target"), TARGETS, ids=str)
def test_through_every_door(tmp_path: Path, target: dict[str, Any], scope: str) -> None:
    """Saved, counted in a dry run, followed, restored, compacted, verified and archived."""
    run, expected = tmp_path / "run.lcc", []
    settings = {"coder": "toy", "scope": scope, **target}
    first = states(1)[0]
    tracker = codec.Tracker(first, **settings)
    dry_run = DryRun(codec.Coding(**settings), layout_of(first), first)
    with codec.Checkpointer(run, **settings) as checkpoints:
        for step, state in enumerate(states(4)):
            saved = checkpoints.save(step, state)
            if step:
                counted = dry_run.prepare(step, state)
                dry_run.commit(counted)
                assert saved.delta is not None
                assert counted.nbytes == saved.delta.nbytes
                groups = tracker.step(state).groups
                assert Zipped in {type(group.encoded.payload) for group in groups}
                assert all(codec.decode(group.encoded).codes.size for group in groups)
            expected.append({name: array.copy() for name, array in tracker.state.items()})
    if "budget" not in target:  # its header pays too, so the tracker alone keeps other values
        assert same([codec.restore(run, step) for step in range(4)], expected)
    before = [codec.restore(run, step) for step in range(4)]
    (update,) = codec.follow(run, timeout=0)
    assert same(update.state, before[-1])
    add_base(run)
    codec.verify(run)
    codec.pack(run, tmp_path / "run.lcc.zip")
    assert same([codec.restore(tmp_path / "run.lcc.zip", step) for step in range(4)], before)


def test_command_line(tmp_path: Path) -> None:
    files = [str(tmp_path / f"step-{step}.safetensors") for step in range(3)]
    for file, state in zip(files, states(3), strict=True):
        save_file(state, file)
    run, restored = str(tmp_path / "run.lcc"), str(tmp_path / "restored.safetensors")
    assert main(["compress", *files, "-o", run, "--bits", "2", "--coder", "toy"]) == 0
    delta = codec.Chain(run).at(2).delta
    assert delta is not None
    assert [type(group.encoded.payload) for group in delta.groups] == [Zipped]
    assert main(["verify", run]) == 0
    assert main(["info", run]) == 0
    assert main(["restore", run, "-o", restored]) == 0
    assert {name: array.tobytes() for name, array in load_file(restored).items()} == {
        name: tensor.numpy().tobytes() for name, tensor in codec.restore(run).items()
    }


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_distributed_checkpoints(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    run, writer = tmp_path / "run", ChainWriter(coder="toy", tolerance=0.001)
    for step, arrays in enumerate(states(3)):
        state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        dcp.save(state, storage_writer=writer, checkpoint_id=run / f"step-{step}")
    restored = {name: torch.zeros_like(array) for name, array in state.items()}
    dcp.load(restored, storage_reader=ChainReader(run / "step-2"))
    for name, array in state.items():
        assert (restored[name] - array).abs().max() <= 0.001


def test_a_reader_without_the_kind_refuses_it(tmp_path: Path) -> None:
    run = tmp_path / "run.lcc"
    save_all(run, states(2), bits=2, coder="toy")
    with (
        mock.patch.object(coders, "PAYLOADS", coders.PAYLOADS[:-1]),
        pytest.raises(codec.errors.MalformedRecordError, match="a payload of 250 classes"),
    ):
        codec.restore(run, 1)
