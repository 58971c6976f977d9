"""Helpers of the codec's tests, as fixtures: with --import-mode=importlib tests import nothing
of each other."""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import settings
from safetensors import TensorSpec, serialize

import codec

settings.register_profile("codec", derandomize=True, max_examples=60, deadline=None, database=None)
settings.load_profile("codec")

PAPER = [0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09]
DIGEST = re.compile(rb'\\"digest\\":\\"([0-9a-f]{64})\\"')

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of stored files; a test that misses one fails."""
    return Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="session")
def paper() -> np.ndarray:
    """The delta of the paper's worked example, float32 (10,)."""
    return np.array(PAPER, np.float32)


@pytest.fixture(scope="session")
def huffman_total() -> Callable[[list[int]], int]:
    """Bits of an optimal prefix code for these counts: the sum of all merged weights."""

    def total(counts: list[int]) -> int:
        heap = [c for c in counts if c]
        heapq.heapify(heap)
        bits = 0
        while len(heap) > 1:
            merged = heapq.heappop(heap) + heapq.heappop(heap)
            bits += merged
            heapq.heappush(heap, merged)
        return bits

    return total


@pytest.fixture(scope="session")
def resign() -> Callable[[bytes], bytes]:
    """The same record with the digest that its bytes ask for, as a forger would do it."""

    def sign(data: bytes) -> bytes:
        place = DIGEST.search(data)
        if place is None:
            return data
        zeroed = data[: place.start(1)] + b"0" * 64 + data[place.end(1) :]
        digest = blake3(zeroed).hexdigest().encode()
        return zeroed[: place.start(1)] + digest + zeroed[place.end(1) :]

    return sign


@pytest.fixture(scope="session")
def parts_of() -> Callable[[bytes], tuple[dict[str, Any], Arrays]]:
    """The metadata and the arrays of a record."""

    def parts(data: bytes) -> tuple[dict[str, Any], Arrays]:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        from codec.record import load

        return json.loads(header["__metadata__"]["lcc"]), load(data, "parts").arrays

    return parts


@pytest.fixture(scope="session")
def forge(resign: Callable[[bytes], bytes]) -> Callable[[Any, Arrays], bytes]:
    """A record of any metadata (a JSON value, or its text) and arrays, digest right."""

    def make(metadata: Any, arrays: Arrays) -> bytes:
        if not isinstance(metadata, str):
            metadata = json.dumps(metadata | {"digest": "0" * 64}, separators=(",", ":"))
        arrays = {k: np.ascontiguousarray(a).reshape(np.shape(a)) for k, a in arrays.items()}
        tensors = {
            k: TensorSpec(
                dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
            )
            for k, a in arrays.items()
        }
        return resign(bytes(serialize(tensors, metadata={"lcc": metadata})))

    return make


@pytest.fixture(scope="session")
def random_states() -> Callable[..., list[Arrays]]:
    """A few steps of a small random walk over tensors of every kind numpy has."""

    def make(n: int = 4, seed: int = 0) -> list[Arrays]:
        rng = np.random.default_rng(seed)
        state: Arrays = {
            "w": rng.normal(size=(5, 7)).astype(np.float32),
            "h": rng.normal(size=(3, 4)).astype(np.float16),
            "b": np.zeros(9, np.float32),
            "d": rng.normal(size=11),
            "tiny": rng.normal(size=3).astype(np.float32),
            "empty": np.zeros((0, 3), np.float32),
            "step": np.array(0.0, np.float32),
            "mask": rng.random(4) > 0.5,
            "ids": np.arange(12).reshape(3, 4),
            "z": np.array([1 + 2j], np.complex64),
        }
        states = []
        for _ in range(n):
            state = {
                k: (a + rng.normal(size=a.shape) * 0.01).astype(a.dtype)
                if a.dtype.kind == "f"
                else a
                for k, a in state.items()
            }
            states.append(state)
        return states

    return make


@pytest.fixture(scope="session")
def sparse_states() -> Callable[..., list[Arrays]]:
    """A few steps of tensors of which few elements jump: what runs of zeros are for.

    Only every fourth can, unless another ``grid`` is asked for: steps are so alike that a code
    table is soon used again.
    """

    def make(
        n: int = 4, seed: int = 0, size: int = 3000, jumps: float = 0.02, grid: int = 4
    ) -> list[Arrays]:
        rng = np.random.default_rng(seed)
        state: Arrays = {
            "w": rng.normal(size=size).astype(np.float32),
            "v": rng.normal(size=(size // 40, 5)).astype(np.float32),
            "n": np.array(0),
        }
        states = [state]
        for _ in range(n - 1):
            moved = {}
            for name in ("w", "v"):
                shape = state[name].shape
                may = np.arange(state[name].size).reshape(shape) % grid == 0
                jump = (rng.random(shape) < jumps) & may
                delta = rng.normal(size=shape) * np.where(jump, 0.1, 1e-6)
                moved[name] = state[name] + delta.astype(np.float32)
            state = moved | {"n": state["n"] + 1}
            states.append(state)
        return states

    return make


@pytest.fixture(scope="session")
def jumping_states() -> Callable[..., list[Arrays]]:
    """A few steps in which the same few elements jump each time, and others never do: what deltas
    join a layer for."""

    def make(n: int = 9, seed: int = 0, size: int = 3000, jumps: float = 0.02) -> list[Arrays]:
        rng = np.random.default_rng(seed)
        shapes = {"w": (size,), "v": (size // 40, 5)}
        state: Arrays = {
            k: rng.normal(size=shape).astype(np.float32) for k, shape in shapes.items()
        }
        state |= {"zero": np.full(70, -0.0, np.float32), "n": np.array(0)}
        which = {k: rng.random(shape) < jumps for k, shape in shapes.items()}
        states = [state]
        for step in range(1, n):
            moved: Arrays = {}
            for name in shapes:
                far = np.where(rng.random(shapes[name]) < 0.2, -0.25, 0.5)
                near = rng.normal(size=shapes[name]) * 1e-6
                moved[name] = state[name] + np.where(which[name], far, near).astype(np.float32)
            state = moved | {"zero": state["zero"], "n": np.array(step)}
            states.append(state)
        return states

    return make


@pytest.fixture(scope="session")
def all_steps() -> Callable[[Path], dict[int, tuple[Any, ...]]]:
    """Every step of a chain: tensors bit by bit, digests and values."""

    def look(path: Path) -> dict[int, tuple[Any, ...]]:
        chain = codec.Chain(path)
        found: dict[int, tuple[Any, ...]] = {}
        for step in chain.steps:
            at = chain.at(step)
            assert at.step == step
            tensors = {name: array.tobytes() for name, array in at.state.items()}
            found[step] = (tensors, dict(at.sums), at.values, at.layout)
        return found

    return look


@pytest.fixture
def run(tmp_path: Path, random_states: Callable[..., list[Arrays]]) -> Path:
    """A chain of a base and three deltas, steps 0, 10, 20, 30."""
    path = tmp_path / "run.lcc"
    with codec.Checkpointer(path, bits=3) as checkpoints:
        for i, state in enumerate(random_states()):
            checkpoints.save(10 * i, state)
    return path
