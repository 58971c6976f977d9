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
import torch
from blake3 import blake3
from hypothesis import settings
from safetensors import TensorSpec, serialize

import codec

settings.register_profile("codec", derandomize=True, max_examples=60, deadline=None, database=None)
settings.load_profile("codec")

PAPER = [0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09]
LINE = re.compile(rb'\{"__metadata__":\{"lcc":"[^"\\]* ([0-9a-f]{32})"\}')
IN_LINE = (
    *("format", "kind", "step", "run", "parent", "track"),
    *("bits", "budget", "tolerance", "distance", "quantizer", "scope", "coder", "rest", "digest"),
)

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
        place = LINE.match(data, 8)
        if place is None:
            return data
        zeroed = data[: place.start(1)] + b"0" * 32 + data[place.end(1) :]
        digest = blake3(zeroed).hexdigest()[:32].encode()
        return zeroed[: place.start(1)] + digest + zeroed[place.end(1) :]

    return sign


@pytest.fixture(scope="session")
def parts_of() -> Callable[[bytes], tuple[dict[str, Any], Arrays]]:
    """The metadata and the arrays of a record."""

    def parts(data: bytes) -> tuple[dict[str, Any], Arrays]:
        from codec.record.record import load

        record = load(data, "parts")
        return record.metadata, record.arrays

    return parts


@pytest.fixture(scope="session")
def forge(resign: Callable[[bytes], bytes]) -> Callable[[Any, Arrays], bytes]:
    """A record of any metadata (a mapping, or its line) and arrays, digest right.

    What is no word in the line becomes JSON in the array "more", unless that is given.
    """

    def make(metadata: Any, arrays: Arrays) -> bytes:
        if not isinstance(metadata, str):
            more = {name: value for name, value in metadata.items() if name not in IN_LINE}
            if more and "more" not in arrays:
                text = json.dumps(more, separators=(",", ":")).encode()
                arrays = arrays | {"more": np.frombuffer(text, np.uint8)}
            metadata = line_of(metadata)
        arrays = {k: np.ascontiguousarray(a).reshape(np.shape(a)) for k, a in arrays.items()}
        short = metadata.startswith("5 ")
        if short and "coded" in arrays:
            arrays["c"] = arrays.pop("coded")
        tensors = {
            k: TensorSpec(
                dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
            )
            for k, a in arrays.items()
        }
        data = bytes(serialize(tensors, metadata={"lcc": metadata}))
        if short:
            end = 8 + int.from_bytes(data[:8], "little")
            header = data[8:end].rstrip()
            data = len(header).to_bytes(8, "little") + header + data[end:]
        return resign(data)

    return make


def line_of(metadata: dict[str, Any]) -> str:
    """Its words, whatever they are, and room for a digest."""
    if metadata["format"] == 5:
        digests = [_base64(metadata[name]) for name in ("parent", "track")]
        letters = "".join(f"{metadata[name]}"[:1] for name in ("kind", "scope", "coder"))
        keep = re.sub("(u|t|d)[a-z]+:", r"\1", str(_keep(metadata)))
        place = ("5", letters, str(metadata["step"]), *digests, keep)
        return " ".join((*place, *_rest(metadata), "0" * 32))
    words = [metadata[name] for name in ("format", "kind", "step", "run", "parent", "track")]
    if metadata["kind"] != "base":
        words += [_keep(metadata), metadata.get("scope"), metadata.get("coder"), *_rest(metadata)]
    said = ("-" if word is None else str(word) for word in words)
    return " ".join((*(re.sub(r'[^ -~]|["\\]', "?", word) for word in said), "0" * 32))


def _rest(metadata: dict[str, Any]) -> list[str]:
    """The word of what is left, in thousandths; none if that is unknown."""
    rest = metadata.get("rest")
    if not isinstance(rest, tuple):
        return [] if rest is None else [f"{rest}"]
    return [",".join(f"{round(1000 * share)}" for share in rest)]


def _base64(digest: Any) -> str:
    """32 hex digits in 22 characters; anything else as it is."""
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{32}", digest):
        return str(digest)
    return base64.urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def _keep(metadata: dict[str, Any]) -> Any:
    if metadata.get("tolerance") is not None:
        return f"tolerance:{metadata['tolerance']}"
    if metadata.get("distance") is not None:
        return f"distance:{metadata['distance']}"
    if metadata.get("budget") is not None:
        prefix = "uniform:" if metadata.get("quantizer") == "uniform" else ""
        return f"{prefix}{metadata['budget']}"
    return "all" if metadata.get("bits") is None else metadata["bits"]


@pytest.fixture(scope="session")
def apart() -> Callable[..., list[dict[str, Any]]]:
    """The alphabets in an array "coded" of one stream each, for together to put together; in
    uniform steps the only level is the step size.

    columns: steps of the layer of each alphabet, 1 where there are none. streams: how many an
    alphabet has.
    """

    def take(
        words: np.ndarray, columns: tuple[int, ...] = (), streams: int = 1
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while words.size:
            row = struct.unpack_from("<HBBH", words[:2].tobytes())
            if row[1] == 255:  # an arithmetic code
                size = row[2] + 256 * row[3]
                whole = -(-(10 + size) // 4)
                data = np.frombuffer(words[:whole].tobytes(), np.uint8)
                none = np.empty(0, np.uint32)
                found.append(
                    {
                        "row": row,
                        "table": none,
                        "padding": b"",
                        "streams": none,
                        "levels": data[6:10].copy().view(np.float32),
                        "payload": data[10 : 10 + size],
                        "end": data[10 + size :],
                    }
                )
                words = words[whole:]
                continue
            head = -(-(6 + row[3]) // 4)
            m = columns[len(found)] if columns else 1
            n_levels = min(row[0] - 2**15 - 1, 1) if row[0] >= 2**15 else (row[0] - 1) * m
            ends = np.cumsum([head, streams if row[1] else 0, n_levels])
            own, levels, payload = (words[b:e].copy() for b, e in zip(ends, [*ends[1:], None]))
            n = int(((own.astype(np.int64) + 31) // 32).sum())
            table = np.frombuffer(words[:head].tobytes()[6 : 6 + row[3]], np.uint8)
            found.append(
                {
                    "row": row,
                    "table": table,
                    "streams": own,
                    "levels": levels.view(np.float32),
                    "payload": payload[:n],
                }
            )
            words = payload[n:]
        return found

    return take


@pytest.fixture(scope="session")
def together() -> Callable[[list[dict[str, Any]]], np.ndarray]:
    """The words of alphabets, whether or not their rows tell the truth.

    padding: what follows the table, zeros up to the next word if it is not given. streams,
    levels, payload: of four bytes an element.
    """

    def put(alphabets: list[dict[str, Any]]) -> np.ndarray:
        data = b""
        for a in alphabets:
            data += struct.pack("<HBBH", *a["row"]) + a["table"].tobytes()
            data += a.get("padding", bytes(-len(data) % 4))
            data += b"".join(a[name].tobytes() for name in ("streams", "levels", "payload"))
            data += bytes(-len(data) % 4)  # of an arithmetic code
        return np.frombuffer(data, np.uint32)

    return put


@pytest.fixture(scope="session")
def recoded(
    apart: Callable[..., list[dict[str, Any]]],
    together: Callable[[list[dict[str, Any]]], np.ndarray],
) -> Callable[..., Arrays]:
    """Arrays of a record in which others have taken the place of some, or of pieces of the
    alphabet of this number."""

    def change(
        arrays: Arrays, others: dict[str, Any], at: int = 0, columns: tuple[int, ...] = ()
    ) -> Arrays:
        alphabets = apart(arrays["coded"], columns)
        pieces = {*alphabets[at], "padding"} - {"end"}
        alphabets[at] |= {name: others[name] for name in pieces & set(others)}
        whole = {name: array for name, array in others.items() if name not in pieces}
        return arrays | {"coded": together(alphabets)} | whole

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
def changing_states() -> list[dict[str, Any]]:
    """Sixteen states whose layout changes in every way."""
    return list(_changing_states())


def _changing_states() -> Iterator[dict[str, Any]]:
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
