"""Small exact tensors of a step, equal ones once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec.errors import MalformedRecordError, PayloadError
from codec.record import exact as exact_part
from codec.record import record as records
from codec.record.record import Place
from codec.record.small import MOST_NBYTES, SMALL, read_small, split_small
from codec.record.track import Track
from codec.scheme.delta import Delta
from codec.scheme.residual import residual_of
from codec.state.tensors import Arrays, Layout, TensorSpec

F32 = np.float32


def layout(specs: Sequence[tuple[str, tuple[int, ...], bool]]) -> Layout:
    """Tensors called 0, 1, 2 …: dtype, shape, lossy."""
    return Layout(tuple(TensorSpec(str(i), *spec) for i, spec in enumerate(specs)))


STEPS = layout([("F32", (), False), ("F32", (9,), True), ("I64", (), False)] * 40)


def packed(numbers: bytes, content: bytes = b"") -> np.ndarray:
    return np.frombuffer(numbers + content, np.uint8)


def test_equal_ones_take_a_dozen_bytes() -> None:
    exact = {t.name: np.array(7, F32) for t in STEPS.tensors if t.dtype == "F32" and not t.lossy}
    rest, arrays = split_small(exact, STEPS)
    assert rest == {}
    # Runs: the first at gap 1, then 39 at gap 3. The content.
    assert arrays[SMALL].tobytes() == bytes([2, 1, 1, 3, 39]) + F32(7).tobytes()
    got = read_small(arrays[SMALL], STEPS)
    assert list(got) == list(exact)
    assert all(a.tobytes() == exact[name].tobytes() for name, a in got.items())


def test_one_alone_stays_an_array() -> None:
    exact = {"0": np.array(7, F32), "big": np.zeros(9, np.int64)}
    whole = Layout((*STEPS.tensors, TensorSpec("big", "I64", (9,), False)))
    assert split_small(exact, whole) == (exact, {})


@given(st.data())
def test_all_come_back(data: st.DataObject) -> None:
    dtypes = st.sampled_from([("F32", F32), ("I64", np.int64), ("U8", np.uint8)])
    shapes = st.sampled_from([(), (1,), (3,), (2, 3), (0,), (80,)])
    specs, exact = [], {}
    for i, ((name, kind), shape) in enumerate(data.draw(st.lists(st.tuples(dtypes, shapes)))):
        specs.append(TensorSpec(str(i), name, shape, False))
        if data.draw(st.booleans()):
            exact[str(i)] = np.full(shape, data.draw(st.integers(0, 2)), kind)
    whole = Layout(tuple(specs))
    rest, arrays = split_small(exact, whole)
    small = read_small(arrays[SMALL], whole) if arrays else {}
    assert not rest.keys() & small.keys()
    assert all(a.nbytes <= MOST_NBYTES for a in small.values())
    both = rest | small
    assert both.keys() == exact.keys()
    for name, array in exact.items():
        assert (both[name].dtype, both[name].shape) == (array.dtype, array.shape)
        assert both[name].tobytes() == array.tobytes()


ONE = F32(1).tobytes()
BAD = {
    "nothing": (b"", "an empty array"),
    "no runs": (b"\0" + ONE, "of 0"),
    "a gap of 0": (bytes([1, 0, 1]) + ONE, "of 0"),
    "a length of 0": (bytes([1, 1, 0]) + ONE, "of 0"),
    "beyond the last": (bytes([1, 121, 1]) + ONE, "tensor 120 of 120"),
    "a run beyond the last": (bytes([1, 1, 120, 1]) + ONE, "tensor 119|one content|lossy"),
    "a huge run": (bytes([1, 255, 255, 255, 127, 255, 255, 255, 127]) + ONE, "of 120"),
    "a number too long": (bytes([128, 128, 128, 128, 1]) + ONE, "more than 4 bytes"),
    "lossy": (bytes([1, 2, 1]) + ONE, "lossy, large or twice"),
    "of two dtypes": (bytes([2, 1, 1, 2, 1]) + ONE, "one content of '0' and '2'"),
    "twice": (2 * (bytes([1, 1, 1]) + ONE), "lossy, large or twice"),
    "ends in a number": (bytes([1, 1]), "1 more"),
    "ends in the content": (bytes([1, 1, 1]) + ONE[:3], "4 more"),
    "goes on": (bytes([1, 1, 1]) + ONE + b"\1", "1 more"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_malformed(name: str) -> None:
    data, message = BAD[name]
    with pytest.raises(PayloadError, match=message):
        read_small(packed(data), STEPS)


def test_of_another_kind() -> None:
    with pytest.raises(PayloadError, match="uint16"):
        read_small(np.ones(9, np.uint16), STEPS)
    large = layout([("I64", (9,), False)])
    with pytest.raises(PayloadError, match="large"):
        read_small(packed(bytes([1, 1, 1]), bytes(72)), large)


@given(st.binary(max_size=40))
def test_any_bytes(data: bytes) -> None:
    """Arrays of the layout, or a PayloadError."""
    specs = {t.name: t for t in STEPS.tensors}
    try:
        got = read_small(packed(data), STEPS)
    except PayloadError:
        return
    assert all((a.shape, a.dtype) == ((), specs[name].track_dtype) for name, a in got.items())


def record_of(exact: Arrays, whole: Layout, delta: Delta | None = None) -> tuple[bytes, Track]:
    start = {t.name: np.zeros(t.track_shape, t.track_dtype) for t in whole.tensors}
    track = Track.of(whole, start)
    delta = delta or Delta((), exact, (), codec.Coding(), dict(track.sums))
    place = Place(1, "0" * 16, "0" * 32)
    return records.dump_delta(place, track.digest_after(delta), delta, whole), track


def test_a_record_that_has_a_tensor_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = layout([("F32", (), False)] * 3 + [("I64", (8,), False)])
    exact = {str(i): np.array(5, F32) for i in range(3)}
    data, track = record_of(exact, whole)
    read = records.delta_of(records.load(data, "r"), track)
    assert {name: a.tolist() for name, a in read.exact.items()} == dict.fromkeys(exact, 5.0)
    assert records.dump_delta(Place(1, "0" * 16, "0" * 32), track.digest_after(read), read, whole)
    monkeypatch.setattr(
        exact_part, "split_small", lambda e, *to: ({"1": e["1"]}, split_small(e, *to)[1])
    )
    data, track = record_of(exact, whole)
    with pytest.raises(MalformedRecordError, match="'1' in 'small' and in an array of its own"):
        records.delta_of(records.load(data, "r"), track)


def test_the_example_of_the_format() -> None:
    whole = layout([("F32", (), False)] * 10)
    data = bytes.fromhex("02 0101 0302 0000e040   01 0a01 00000041")
    got = read_small(packed(data), whole)
    assert {n: float(a) for n, a in got.items()} == {"0": 7, "3": 7, "6": 7, "9": 8}
    assert split_small(got, whole)[1][SMALL].tobytes() == data


def test_small_tensors_have_no_residuals() -> None:
    """So none can be in the array and have one, too."""
    spec = TensorSpec("n", "U8", (MOST_NBYTES,), False)
    assert residual_of(np.zeros(64, np.uint8), np.ones(64, np.uint8), spec) is None
