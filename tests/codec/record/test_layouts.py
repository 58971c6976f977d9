"""The change of a layout in a record: what is written, and what is refused."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.caps import MAX_JSON, MAX_MARKS
from codec.errors import MalformedRecordError
from codec.record import record as records
from codec.record.container import FileArrays
from codec.record.layouts import entries_of, read_transition, transition_arrays
from codec.record.record import Record
from codec.record.track import Track
from codec.scheme.transition import Transition
from codec.state import edits
from codec.state.tensors import Layout, TensorSpec
from tests.codec.chains import records_in, save_all
from tests.codec.forging import forge, parts_of

Arrays = dict[str, np.ndarray]

W = np.linspace(1, 2, 12, dtype=np.float32).reshape(4, 3)
BEFORE: dict[str, Any] = {
    "model": {"w": W, "rows": W.copy()},
    "n": np.arange(9),
    "old": np.ones(2),
    "epoch": 1,
}
NOW: dict[str, Any] = {
    "model": {"w": W, "rows": np.concatenate((W, W[:1]))},
    "n": np.arange(8),
    "new": {"t": np.ones(2, np.float16), "seed": 3},
    "epoch": 1,
}


@pytest.fixture
def track_and_delta(tmp_path: Path) -> tuple[Track, bytes]:
    """A track, and a delta to another layout."""
    path = tmp_path / "run.lcc"
    save_all(path, [BEFORE, NOW])
    return codec.Chain(path).at(0).track, records_in(path)["00000001.delta.safetensors"]


def text(value: str | bytes) -> np.ndarray:
    return np.frombuffer(value.encode() if isinstance(value, str) else value, np.uint8)


def test_what_is_written(track_and_delta: tuple[Track, bytes]) -> None:
    """Two edits, the new row, and whole tensors that are new or have another shape; what stays, and
    what goes, takes no bytes."""
    track, data = track_and_delta
    _, arrays = parts_of(data)
    assert set(arrays) == {"c", "layout", "structure", "values"} | {
        f"n/{name}" for name in ("model/rows", "n", "new/t")
    }
    assert arrays["n/model/rows"].tobytes() == W[:1].tobytes()
    assert bytes(arrays["layout"]).startswith(b"=")
    assert bytes(arrays["structure"]).startswith(b"=")
    assert bytes(arrays["values"]) == b"0 3\n"
    before = json.dumps(entries_of(track.layout), separators=(",", ":"))
    layout = json.loads(edits.applied(before, bytes(arrays["layout"]).decode(), MAX_JSON))
    assert [entry[0] for entry in layout] == ["model/w", "model/rows", "n", "new/t"]
    got = records.load(data, "r")
    exact = sum(a.nbytes for name, a in arrays.items() if name != "c")
    assert exact < got.exact_nbytes < got.nbytes - arrays["c"].nbytes


def altered(layout: Layout, **changes: Any) -> list[list[Any]]:
    """The entries of a layout, some of them replaced."""
    return [changes.get(entry[0].replace("/", "_"), entry) for entry in entries_of(layout)]


def forged(data: bytes, track: Track, change: Callable[..., Any]) -> Record:
    """A record after a change of its metadata and arrays."""
    metadata, arrays = parts_of(data)
    delta = records.delta_of(records.load(data, "r"), track)
    assert delta.transition is not None
    change(arrays, delta.transition.layout)
    return records.load(forge(metadata, arrays), "r")


def without(name: str) -> Callable[..., Any]:
    return lambda arrays, _: arrays.pop(name)


def given(**new: Any) -> Callable[..., Any]:
    """Arrays replaced, by their names with _ for /."""
    return lambda arrays, _: arrays.update({n.replace("_", "/"): a for n, a in new.items()})


def with_layout(**changes: Any) -> Callable[..., Any]:
    """Another text of the new layout."""

    def change(arrays: Arrays, layout: Layout) -> None:
        arrays["layout"] = text(json.dumps(altered(layout, **changes), separators=(",", ":")))

    return change


STRUCTURES = [
    '{"l":[]}',
    '{"d":[["x",{"t":9}]]}',
    '{"d":[["x",{"v":0}],["y",{"v":0}]]}',
    '{"d":[["x",{"v":1}]]}',
    '{"d":[["x",{"v":0}],["y",{"v":2}]]}',
    '{"d":[["x",{"v":-1}]]}',
    '{"d":[["x",{"v":true}]]}',
    '{"d":[["x",{"q":0}]]}',
    '{"d":[["x"]]}',
    '{"d":[["x",{"v":0}],["x",{"v":1}]]}',
    '{"d":[["x",{"v":0,"t":0}]]}',
    "[]",
    "null",
    "{",
    70 * '{"l":[' + 70 * "]}",
]

HOSTILE: list[tuple[Callable[..., Any], str]] = [
    (without("n/n"), "found nothing"),
    (without("n/model/rows"), "found nothing"),
    (without("values"), "every new value, found no value 0"),
    (without("layout"), "nothing of tensor 'model/rows', which keeps its array, found float32"),
    (given(n_n=np.arange(9)), r"found int64 \(9,\)"),
    (given(n_n=np.arange(8, dtype=np.int32)), r"found int32 \(8,\)"),
    (given(n_model_rows=W), r"found float32 \(4, 3\)"),
    (given(n_model_rows=W[:0]), r"found float32 \(0, 3\)"),
    (given(n_model_rows=W[:1].reshape(3, 1)), r"found float32 \(3, 1\)"),
    (given(n_model_rows=W[:1].astype(np.float64)), "found float64"),
    (given(n_model_w=W), r"found float32 \(4, 3\)"),
    (given(n_old=np.ones(2)), "an array of 'old'"),
    (given(n_other=np.ones(2)), "an array of 'other'"),
    (given(t_old=np.ones(2)), "expected arrays"),
    (given(values=text("0 3\n2 1\n")), "a change of value 2"),
    (with_layout(n=["n", "I64", [9], False, "numpy", ""]), r"found int64 \(8,\)"),
    (with_layout(n=["n", "I64", [-8], False, "numpy", ""]), r"found int64 \(8,\)"),
    (with_layout(n=["n", "I64", [10**4000], False, "numpy", ""]), r"found int64 \(8,\)"),
    (with_layout(n=["n", "I64", [8.0], False, "numpy", ""]), "8.0 is no int"),
    (with_layout(n=["n", "I64", [8], 0, "numpy", ""]), "0 is no bool"),
    (with_layout(n=["n", "I64", [8], True, "numpy", ""]), "a tensor that a state can hold"),
    (with_layout(n=["n", "X", [8], False, "numpy", ""]), "a tensor that a state can hold"),
    (with_layout(n=["n", "I64", [8], False, "jax", ""]), "a tensor that a state can hold"),
    (with_layout(n=["n", "I64", [8], False, "numpy", "f"]), "a tensor that a state can hold"),
    (with_layout(n=["n", "BF16", [8], False, "numpy", ""]), "a tensor that a state can hold"),
    (with_layout(n=["n", "I64", [8], False, "numpy"]), "not enough values"),
    (with_layout(n=["new/t", "F16", [2], False, "numpy", ""]), "two tensors of one name"),
    (with_layout(n=3), "a change of the layout"),
    (with_layout(n=None), "a change of the layout"),
    (with_layout(model_w=["model/w", "F32", [3, 4], True, "numpy", ""]), "found nothing"),
    (with_layout(model_w=["model/w", "F16", [4, 3], True, "numpy", ""]), "found nothing"),
    (with_layout(model_rows=["model/rows", "F32", [4, 3], True, "numpy", ""]), r"found float32"),
    (with_layout(model_rows=["model/rows", "F32", [10**30, 3], True, "numpy", ""]), "found float"),
    (with_layout(model_rows=["model/rows", "F32", [3, 3], True, "numpy", ""]), "found float32"),
    (given(layout=text("=900 0 1 x")), "an edit up to character"),
    (given(layout=text("=x")), "instead of three numbers"),
    (given(layout=text("=" + 70_000 * "0 0 0 ")), "ends within splice"),
    (given(layout=text("")), "a layout in JSON"),
    (given(layout=text("{}")), "not an array"),
    (given(layout=text("[[]]")), "not enough values"),
    (given(layout=text("[" * 3000 + "]" * 3000)), "a layout|a change"),
    (given(layout=text("[" * (MAX_MARKS["["] + 1))), "at most"),
    (given(layout=text("é")), "of ASCII"),
    (given(layout=text(" " * (MAX_JSON + 1))), "characters"),
    (given(layout=np.ones(3, np.int8)), "texts are int8"),
    (given(layout=np.ones((3, 1), np.uint8)), "of 2 dimensions"),
    (given(structure=text("=9999 0 1 x")), "an edit up to character"),
    (given(structure=text("\n")), "no JSON"),
    *((given(structure=text(structure)), ".") for structure in STRUCTURES),
]


@pytest.mark.parametrize(("change", "got"), HOSTILE)
def test_what_is_refused(
    track_and_delta: tuple[Track, bytes], change: Callable[..., Any], got: str
) -> None:
    """Each with every digest to match; the track stays as it was."""
    track, data = track_and_delta
    before = track.digest
    record = forged(data, track, change)
    with pytest.raises(MalformedRecordError, match=got):
        records.apply_checked(record, records.delta_of(record, track), track)
    assert track.digest == before


def test_the_layout_from_before_is_no_change(track_and_delta: tuple[Track, bytes]) -> None:
    track, data = track_and_delta

    def same(arrays: Arrays, _: Layout) -> None:
        for name in ("n/n", "n/model/rows", "n/new/t", "structure", "values", "c"):
            del arrays[name]
        arrays["layout"] = text(json.dumps(entries_of(track.layout), separators=(",", ":")))

    with pytest.raises(MalformedRecordError, match="found the same layout"):
        records.delta_of(forged(data, track, same), track)


def test_no_part_of_it_elsewhere(track_and_delta: tuple[Track, bytes], tmp_path: Path) -> None:
    """Neither in a base, nor new arrays in a delta of the same layout."""
    _, arrays = parts_of(track_and_delta[1])
    path = tmp_path / "other.lcc"
    save_all(path, ({"model": {"w": W + step}, "n": np.arange(9)} for step in range(4)))
    base, *_, delta = map(parts_of, records_in(path).values())

    def with_more(to: tuple[dict[str, Any], Arrays], names: tuple[str, ...]) -> Record:
        return records.load(forge(to[0], to[1] | {name: arrays[name] for name in names}), "r")

    for names in (("n/n",), ("layout",), ("structure",), ("layout", "n/new/t")):
        with pytest.raises(MalformedRecordError):
            records.delta_of(with_more(delta, names), codec.Chain(path).at(2).track)
        if names != ("structure",):  # a base has one
            with pytest.raises(MalformedRecordError):
                records.base_of(with_more(base, names))


def test_long_keys_take_no_memory_for_each_value() -> None:
    """A structure in which many values stand below a long key: each place is compared once."""
    values = ",".join(f'["{i}",{{"v":{i}}}]' for i in range(2000))
    key = 2_000_000 * "k"
    ends = ("", ',["",{"t":0}]')
    before, now = (f'{{"d":[["{key}",{{"d":[{values}{end}]}}]]}}' for end in ends)
    old, new = Layout((), before), Layout((TensorSpec("t", "I64", (), False),), now)
    arrays = transition_arrays(Transition(old, new, {"t": np.array(1)}))
    tracemalloc.start()
    transition = read_transition(FileArrays(arrays), old, "r")
    assert transition is not None
    assert transition.origins == tuple(range(2000))
    assert tracemalloc.get_traced_memory()[1] < 40 * len(key)
    tracemalloc.stop()


def test_a_value_keeps_its_place_not_its_number() -> None:
    """By keys and indices; 1 and "1" are two keys, whatever their names are."""
    old = '{"d":[["a",{"v":0}],[1,{"v":1}],["l",{"l":[{"v":2},{"v":3},{"t":0}]}],["x",{"v":4}]]}'
    new = '{"o":[["1",{"v":4}],["l",{"p":[{"v":3},{"t":0},{"v":2}]}],["a",{"v":0}],[1,{"v":1}],'
    new += '["x",{"d":[["y",{"v":5}]]}]]}'
    spec = TensorSpec("t", "I64", (), False)
    transition = Transition(Layout((spec,), old), Layout((spec,), new), {})
    assert transition.origins == (0, 1, None, 2, None, None)
    assert transition.values_after(("a", "b", "c", "d", "e")) == ("a", "b", "", "c", "", "")
    assert Transition(Layout((spec,), old), Layout((spec,), ""), {}).origins == ()
    assert Transition(Layout((spec,), ""), Layout((spec,), old), {}).origins == 5 * (None,)
