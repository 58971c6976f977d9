"""The container: as the safetensors library writes it, read strictly, and in little memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import TensorSpec as FileTensor
from safetensors import deserialize, serialize

from codec import Coding, Tracker
from codec.errors import MalformedRecordError
from codec.record import container
from codec.record.encode import Draft, encode_delta
from codec.record.header import Header
from codec.record.record import Place
from codec.record.track import Track
from codec.state.tensors import CARRIER, Arrays, copy_arrays, layout_of
from tests.codec.forging import header_of, reheaded

NAMES = ["b", "a", 'quoted "a" \\', "tab\t\x01", "ä\u2028𝄞", "\x7f"]
DTYPES = [
    np.dtype(CARRIER[name])
    for name in ("F64", "F32", "F16", "C64", "BOOL", "I64", "I32", "I16", "I8")
] + [np.dtype(f"u{n}") for n in (8, 4, 2, 1)]


def some_arrays() -> Arrays:
    """Every dtype, names of every kind, and shapes from none to empty."""
    rng = np.random.default_rng(0)
    arrays: Arrays = {}
    for i, dtype in enumerate(DTYPES):
        for j, name in enumerate(NAMES):
            shape = [(), (3,), (2, 5), (0,), (4, 0), (1, 1, 7)][(i + j) % 6]
            values = rng.integers(0, 2, size=shape).astype(dtype)
            arrays[f"{name}{i % 3}{dtype.name}"] = np.asarray(values)
    return arrays


HEADER = Header(3, "0" * 16, "0" * 32, "0" * 32)


def test_as_the_library_writes_it() -> None:
    arrays = some_arrays()
    data = container.seal(HEADER, {}, arrays)
    line = json.loads(header_of(data))["__metadata__"][container.KEY]
    tensors = {
        name: FileTensor(
            dtype=a.dtype.name, shape=list(a.shape), data_ptr=a.ctypes.data, data_len=a.nbytes
        )
        for name, a in arrays.items()
    }
    assert data == serialize(tensors, metadata={container.KEY: line})
    got = container.unseal(data, "x").arrays
    assert got.keys() == arrays.keys() == {name for name, _ in deserialize(data)}
    for name, array in arrays.items():
        its = got[name]
        assert (its.dtype, its.shape, its.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert its.flags.aligned
        assert not its.flags.writeable


def test_parts_are_joined() -> None:
    words = np.arange(9, dtype=np.uint32)
    whole = container.seal(HEADER, {}, {"w": words})
    parts = [words[:4], words[4:4], words[4:]]
    assert container.seal(HEADER, {}, {"w": parts}) == whole


Edit = Callable[[dict[str, Any]], object]
EDITS: dict[str, Edit] = {
    "a gap": lambda h: h["b"].update(data_offsets=[13, 17]),
    "an overlap": lambda h: h["b"].update(data_offsets=[8, 16]),
    "backwards": lambda h: h["b"].update(data_offsets=[16, 12]),
    "another size": lambda h: h["b"].update(shape=[2]),
    "bytes of no element": lambda h: (
        h["a"].update(data_offsets=[0, 14]),
        h["b"].update(data_offsets=[14, 16], dtype="U16"),
    ),
    "a negative length": lambda h: h["a"].update(shape=[-1, -3]),
    "a length that is no integer": lambda h: h["a"].update(shape=[3.0]),
    "a shape that is no list": lambda h: h["a"].update(shape=3),
    "an offset that is no integer": lambda h: h["a"].update(data_offsets=[False, 12]),
    "three offsets": lambda h: h["a"].update(data_offsets=[0, 12, 16]),
    "no dtype": lambda h: h["a"].pop("dtype"),
    "a dtype that is no text": lambda h: h["a"].update(dtype=["F32"]),
    "a dtype nobody knows": lambda h: h["a"].update(dtype="F33"),
    "bytes of no array": lambda h: h.pop("a"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_arrays_that_do_not_fit_the_bytes(edit: Edit) -> None:
    arrays = {"a": np.ones(3, np.float32), "b": np.ones(1, np.float32)}
    data = container.seal(HEADER, {}, arrays)
    header = json.loads(header_of(data))
    edit(header)
    changed = reheaded(data, json.dumps(header, separators=(",", ":")).encode())
    with pytest.raises((MalformedRecordError, container.TruncatedRecordError)):
        container.unseal(changed, "x")


def peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """What a call returns, and the bytes it takes at most.

    The least of ten calls: threads that earlier tests left behind take memory too, for a while.
    """

    def once() -> tuple[Any, int]:
        tracemalloc.start()
        try:
            result = call()
            return result, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return min((once() for _ in range(10)), key=lambda taken: taken[1])


SHAPE = (4, 2**17)


@pytest.mark.usefixtures("kernels")  # numpy takes memory for each of its steps
def test_a_base_is_copied_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state = {f"w{i}": rng.standard_normal(SHAPE, np.float32) for i in range(4)}
    state |= {f"n{i}": rng.integers(0, 2**60, SHAPE) for i in range(4)}
    nbytes = sum(array.nbytes for array in state.values())
    tracker = Tracker.resume(Track.of(layout_of(state), copy_arrays(state)), Coding())
    draft, most = peak(lambda: Draft.of_base("base", Place(0), tracker.track))
    assert most < 1.1 * nbytes
    assert peak(lambda: draft.check(tracker.track))[1] < 0.1 * nbytes


@pytest.mark.usefixtures("kernels")  # numpy takes memory for each of its steps
def test_residuals_are_decoded_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state = {f"n{i}": rng.integers(0, 2**60, SHAPE) for i in range(8)}
    tracker = Tracker.resume(Track.of(layout_of(state), copy_arrays(state)), Coding())
    one, nbytes = state["n0"].nbytes, sum(array.nbytes for array in state.values())
    state = {name: array + rng.integers(0, 64, SHAPE) for name, array in state.items()}
    place = Place(1, "0" * 16, "0" * 32)
    delta = encode_delta(tracker, place, state)
    assert len(delta.residuals) == 8
    draft, most = peak(lambda: Draft.of_delta("delta", place, tracker.track, delta))
    assert most < 1.1 * len(draft.data) + 0.1 * nbytes
    assert peak(lambda: draft.check(tracker.track))[1] < 1.5 * one
