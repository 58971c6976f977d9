"""Helpers of the codec's tests, as fixtures: with --import-mode=importlib tests import nothing
of each other."""

from __future__ import annotations

import base64
import heapq
import json
import re
import struct
from collections.abc import Callable, Iterator
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
LINE = re.compile(rb'\{"__metadata__":\{"lcc":"[^"\\]* ([A-Za-z0-9_-]{22})"\}')
NO_DIGEST = "A" * 22
# Fields that `forge` writes into the line; all others become JSON in the array "more".
IN_LINE = ("format", "kind", "scope", "coder", "step", "run", "parent", "track", "keep", "rest")

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
    """See `resigned`."""
    return resigned


@pytest.fixture(scope="session")
def parts_of() -> Callable[[bytes], tuple[dict[str, Any], Arrays]]:
    """See `parts`."""
    return parts


@pytest.fixture(scope="session")
def forge() -> Callable[[Any, Arrays], bytes]:
    """See `forged`."""
    return forged


def resigned(data: bytes) -> bytes:
    """The same record with the digest that its bytes ask for, as a forger would do it."""
    place = LINE.match(data, 8)
    if place is None:
        return data
    zeroed = data[: place.start(1)] + NO_DIGEST.encode() + data[place.end(1) :]
    digest = base64_of(blake3(zeroed).hexdigest()[:32]).encode()
    return zeroed[: place.start(1)] + digest + zeroed[place.end(1) :]


def parts(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """The fields of a record, those of its line as text, and its arrays."""
    from codec.record.record import load

    record = load(data, "parts")
    return fields_of(record.header.line) | record.more, record.arrays


def fields_of(line: str) -> dict[str, Any]:
    """The words of a line by their names, without the digest."""
    words = line.split()
    if words[1] == "b":
        return dict(zip(("format", "kind", "step", "run", "parent", "track"), words))
    named = dict(zip(("format", "letters", "step", "parent", "track", "keep", "rest"), words))
    letters = named.pop("letters")
    return named | dict(zip(("kind", "scope", "coder"), letters))


def forged(fields: Any, arrays: Arrays) -> bytes:
    """A record of any fields (a mapping, or its line) and arrays, digest right.

    What is no word in the line becomes JSON in the array "more", unless that is given.
    """
    line = fields
    if not isinstance(fields, str):
        more = {name: value for name, value in fields.items() if name not in IN_LINE}
        if more and "more" not in arrays:
            text = json.dumps(more, separators=(",", ":")).encode()
            arrays = arrays | {"more": np.frombuffer(text, np.uint8)}
        line = line_of(fields)
    arrays = {k: np.ascontiguousarray(a).reshape(np.shape(a)) for k, a in arrays.items()}
    tensors = {
        k: TensorSpec(
            dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for k, a in arrays.items()
    }
    data = bytes(serialize(tensors, metadata={"lcc": line}))
    if line[1:4] != " b ":  # only the header of a base is padded
        end = 8 + int.from_bytes(data[:8], "little")
        header = data[8:end].rstrip()
        data = len(header).to_bytes(8, "little") + header + data[end:]
    return resigned(data)


def line_of(fields: dict[str, Any]) -> str:
    """Its words, whatever they are, and room for a digest."""
    names = ["step", "run", "parent", "track"]
    letters = str(fields["kind"])
    if "keep" in fields:
        letters += f"{fields['scope']}{fields['coder']}"
        names = ["step", "parent", "track", "keep", *(["rest"] if "rest" in fields else [])]
    words = [f"{fields['format']}", letters, *(f"{fields[name]}" for name in names)]
    return " ".join((*(re.sub(r'[^ -~]|["\\]', "?", word) for word in words), NO_DIGEST))


@pytest.fixture(scope="session")
def base64_word() -> Callable[[str], str]:
    """32 hex digits as the 22 characters that a record has for them."""
    return base64_of


def base64_of(digest: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


@pytest.fixture(scope="session")
def apart() -> Callable[..., list[dict[str, Any]]]:
    """The only alphabet in an array "c", for together to put together; in uniform steps its only
    level is the step size.

    streams: how many it has.
    """

    def take(data: np.ndarray, streams: int = 1) -> list[dict[str, Any]]:
        left = data.tobytes()

        def piece(n: int, dtype: Any = np.uint8) -> np.ndarray:
            nonlocal left
            own, left = left[:n], left[n:]
            return np.frombuffer(own, dtype).copy()

        k, classes, _, nbytes = row = struct.unpack("<HBBH", piece(6).tobytes())
        n_levels = min(k - 2**15 - 1, 1) if k >= 2**15 else k - 1
        found: dict[str, Any] = {
            "row": row,
            "table": piece(nbytes),
            "streams": piece(4 * streams if classes else 0, np.uint32),
            "levels": piece(4 * n_levels, np.float32),
        }
        words = int(((found["streams"].astype(np.int64) + 31) // 32).sum())
        found["payload"] = piece(4 * words, np.uint32)
        assert not left
        return [found]

    return take


@pytest.fixture(scope="session")
def together() -> Callable[[list[dict[str, Any]]], np.ndarray]:
    """The bytes of alphabets, whether or not their rows tell the truth."""

    def put(alphabets: list[dict[str, Any]]) -> np.ndarray:
        data = b""
        for a in alphabets:
            data += struct.pack("<HBBH", *a["row"])
            data += b"".join(a[name].tobytes() for name in ("table", "streams", "levels"))
        data += b"".join(a["payload"].tobytes() for a in alphabets)
        return np.frombuffer(data, np.uint8)

    return put


@pytest.fixture(scope="session")
def recoded(
    apart: Callable[..., list[dict[str, Any]]],
    together: Callable[[list[dict[str, Any]]], np.ndarray],
) -> Callable[..., Arrays]:
    """Arrays of a record in which others have taken the place of some, or of pieces of the only
    alphabet."""

    def change(arrays: Arrays, others: dict[str, Any]) -> Arrays:
        (alphabet,) = apart(arrays["c"])
        pieces = set(alphabet)
        alphabet |= {name: others[name] for name in pieces & set(others)}
        whole = {name: array for name, array in others.items() if name not in pieces}
        return arrays | {"c": together([alphabet])} | whole

    return change


@pytest.fixture(scope="session")
def random_states() -> Callable[..., list[Arrays]]:
    """A few steps of a small random walk over tensors of every kind numpy has.

    rows: of the largest one. With 5 of them all deltas are smaller than a header, and no budget
    holds that.
    """

    def make(n: int = 4, seed: int = 0, rows: int = 5) -> list[Arrays]:
        rng = np.random.default_rng(seed)
        state: Arrays = {
            "w": rng.normal(size=(rows, 7)).astype(np.float32),
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
                k: np.asarray((a + rng.normal(size=a.shape) * 0.01).astype(a.dtype))
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
            state = moved | {"n": np.array(state["n"] + 1)}
            states.append(state)
        return states

    return make


@pytest.fixture(scope="session")
def jumping_states() -> Callable[..., list[Arrays]]:
    """A few steps in which the same few elements jump each time, and others never do."""

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
def changing_states() -> list[dict[str, Any]]:
    """Sixteen states whose layout changes in every way."""
    return list(_changing_states())


def _changing_states() -> Iterator[dict[str, Any]]:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    w, rows, z = rng.normal(size=(3, 40, 20))
    for i in range(14):
        w, rows, z = (a + 0.01 * rng.normal(size=a.shape) for a in (w, rows, z))
        if i % 3 == 0:
            rows = np.concatenate((rows, rng.normal(size=(2, 20))))
        state: dict[str, Any] = {"w": w.astype(np.float32), "rows": rows.astype(np.float32)}
        state["half"] = torch.from_numpy(rows[: 8 + i // 2]).bfloat16()
        state["shape"] = w[:6].reshape((2, 60) if i % 2 else (60, 2)).astype(np.float16)
        state["window"], state["count"] = np.arange(10 + i), np.array(i)
        state["moving"] = np.arange(i, 2 * i + 9)
        state["complex"] = np.arange(1 + i // 2) * 1j
        state["kind"] = z[0].astype((np.float64, np.float32, np.int64)[i % 3])
        state["list"] = [np.full(3, k, np.int16) for k in range((i * 5) % 7)]
        state["nothing"] = np.zeros((i % 2, 3))
        state["log"] = {'é\n"': [0.5] * (i + 1), "epoch": i // 2}
        if i % 4 > 1:
            state |= {"new \U0001f600\x7f": z[1].astype(np.float32), "seed": i}
        state["keys"] = {(1, "1")[i % 3 == 1]: i, "t": np.zeros(1, np.int8)}
        state["last"] = {"value": i, "tensor": np.ones(2)} if i % 5 else {"value": i}
        yield state if i % 3 < 2 else dict(reversed(state.items()))
    yield {"w": w.astype(np.float32), "z": np.ones(3)}
    yield {"w": w.astype(np.float32), "z": np.ones(3), "epoch": 3}


@pytest.fixture(scope="session")
def all_steps() -> Callable[[Path], dict[int, tuple[Any, ...]]]:
    """Every step of a chain: tensors bit by bit, digests and values."""

    def look(path: Path) -> dict[int, tuple[Any, ...]]:
        chain = codec.Chain(path)
        found: dict[int, tuple[Any, ...]] = {}
        for step in chain.steps:
            at = chain.at(step)
            assert at.step == step
            tensors = {name: array.tobytes() for name, array in at.track.arrays.items()}
            found[step] = (tensors, dict(at.track.sums), at.track.values, at.track.layout)
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
