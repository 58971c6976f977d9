"""A new kind of payload needs its class, an entry in KINDS, and a coder that makes it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest
import torch

import codec
from codec.dcp import ChainReader, ChainWriter
from codec.errors import StreamError
from codec.scheme import coders
from codec.scheme.coders import CODERS, RUNLENGTH
from codec.scheme.payload import Alphabet, Matrices, Payload, Row
from codec.scheme.pieces import Pieces
from codec.scheme.survivors import Survivors

Array = np.ndarray[Any, Any]
TARGETS: list[tuple[str, dict[str, Any]]] = [
    ("tensor", {"bits": 2}),
    ("model", {"budget": 0.05}),
    ("tensor", {"budget": 0.05, "quantizer": "exponent"}),
    ("model", {"tolerance": 0.001}),
    ("tensor", {"distance": 0.3}),
]


@dataclass(frozen=True, eq=False)
class Zipped(Payload):
    """All codes, compressed by zlib. The row has the number of bytes."""

    TITLE: ClassVar[str] = "zip"
    CLASSES: ClassVar[Sequence[int]] = (250,)
    SHARED: ClassVar[bool] = True

    code: Array
    size: int

    @classmethod
    def of(cls, s: Survivors, matrices: Matrices, levels: Array, uniform: bool) -> Self:
        code = np.frombuffer(zlib.compress(s.all_codes.tobytes(), 9), np.uint8)
        return cls(code, code.size)

    @property
    def data(self) -> Array:
        return self.code

    @property
    def data_nbytes(self) -> int:
        return self.size

    @property
    def row(self) -> Row:
        return Row(0, 250, 1, self.size)

    @classmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        return cls(np.empty(0, np.uint8), row.size)

    def with_data(self, data: Array) -> Self:
        return replace(self, code=data)

    def check(self, n: int, k: int) -> None:
        if self.code.size != self.size or k < 2:
            raise StreamError(f"a zip of {self.code.size} bytes")

    def codes(self, n: int, levels: Array, uniform: bool) -> Array:
        return np.frombuffer(zlib.decompress(self.code.tobytes()), np.uint16)

    def element_bits(self, n: int, levels: Array, uniform: bool) -> Array:
        return np.full(n, self.bits / n)


@pytest.fixture(autouse=True)
def zip_coder(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coder "zip", listed while a test runs."""
    names = {"name": "zip", "letter": "z", "title": "Zip", "short": "zip"}
    monkeypatch.setitem(CODERS, "zip", replace(RUNLENGTH, **names, direct=Zipped.of))
    monkeypatch.setattr(coders, "KINDS", (*coders.KINDS, Zipped))


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
    """Saved, verified, restored and archived."""
    run, expected = tmp_path / "run.lcc", []
    settings = {"coder": "zip", "scope": scope, **target}
    tracker = codec.Tracker(states(1)[0], **settings)
    with codec.Checkpointer(run, **settings) as checkpoints:
        for step, state in enumerate(states(4)):
            checkpoints.save(step, state)
            if step:
                groups = tracker.step(state).groups
                assert Zipped in {type(group.encoded.payload) for group in groups}
                assert all(codec.decode(group.encoded).codes.size for group in groups)
            expected.append({name: array.copy() for name, array in tracker.state.items()})
    if "budget" not in target:  # its header pays too, so the tracker alone keeps other values
        check_restored(run, expected)
    before = [codec.restore(run, step) for step in range(4)]
    codec.verify(run)
    codec.pack(run, tmp_path / "run.lcc.zip")
    check_restored(tmp_path / "run.lcc.zip", before)


def check_restored(run: Path, expected: list[dict[str, Array]]) -> None:
    for step, state in enumerate(expected):
        for name, array in codec.restore(run, step).items():
            assert array.tobytes() == state[name].tobytes()


@pytest.mark.filterwarnings("ignore:torch.distributed is")
def test_distributed_checkpoints(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    run, writer = tmp_path / "run", ChainWriter(coder="zip", tolerance=0.001)
    for step, arrays in enumerate(states(3)):
        state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        dcp.save(state, storage_writer=writer, checkpoint_id=run / f"step-{step}")
    restored = {name: torch.zeros_like(array) for name, array in state.items()}
    dcp.load(restored, storage_reader=ChainReader(run / "step-2"))
    for name, array in state.items():
        assert (restored[name] - array).abs().max() <= 0.001


def test_a_reader_without_the_kind_refuses_it(tmp_path: Path) -> None:
    run = tmp_path / "run.lcc"
    with codec.Checkpointer(run, bits=2, coder="zip") as checkpoints:
        for step, state in enumerate(states(2)):
            checkpoints.save(step, state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coders, "KINDS", coders.KINDS[:-1])
        with pytest.raises(codec.errors.MalformedRecordError, match="a payload of 250 classes"):
            codec.restore(run, 1)
