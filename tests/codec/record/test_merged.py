"""Merged records as bytes: what they hold, and malformed ones by their error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec.chain.replay import Replay
from codec.errors import MalformedRecordError, ParentError, TrackDigestError
from codec.record import merged
from codec.record import record as records
from codec.state.tensors import Layout

pytestmark = pytest.mark.quick

Arrays = dict[str, np.ndarray]
Parts = tuple[dict[str, Any], Arrays]
Try = Callable[[dict[str, Any], Arrays], None]

NO_DIGEST = "A" * 22
COLUMNS = (2, 1, 1, 1)  # of the layers below, each with one alphabet


@pytest.fixture(scope="module", params=[{"bits": 2}, {"tolerance": 0.001}], ids=["bits", "steps"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base and a merged record of five steps in four layers: [1, 2], [3] (NaN), [4] (NaN still),
    [5]; a value and a tensor that change. In exponent buckets, or but for the first layer in
    uniform steps."""
    path = tmp_path_factory.mktemp("merged") / "run.lcc"
    w = np.zeros(600, np.float32)
    v = np.zeros(40, np.float32)
    with codec.Checkpointer(path, **request.param) as checkpoints:
        for step in range(6):
            w = w + np.where(np.arange(600) % 9 == 0, 0.5, 0).astype(np.float32)
            v = np.full(40, np.nan if step == 3 else step, np.float32)
            state = {
                "model": {"w": w, "v": v},
                "n": np.array(step),
                "still": np.array(1),
                "lr": step // 2,
            }
            checkpoints.save(step, state)
    codec.merge(path, 5)
    return path


@pytest.fixture(scope="module")
def good(path: Path, parts_of: Callable[[bytes], Parts]) -> Parts:
    """Metadata and arrays of the merged record."""
    return parts_of((path / "00000001-00000005.merged.safetensors").read_bytes())


@pytest.fixture(scope="module")
def attempt(path: Path, forge: Callable[[Any, Arrays], bytes]) -> Try:
    """Read the chain with this in the place of its merged record: step by step, and at once."""
    chain = codec.Chain(path)
    base, entry = chain.entries
    first = chain.read(base)

    def read(metadata: dict[str, Any], arrays: Arrays) -> None:
        data = forge(metadata, arrays)
        for all_steps in (False, True):
            record = records.load(data, "r")
            replay = Replay()
            list(replay.advance(base, first))
            list(replay.advance(entry, record, all_steps=all_steps))
            assert replay.step == 5

    return read


def steps(*stated: tuple[int, ...], names: dict[int, list[str]] | None = None) -> dict[str, Any]:
    """Layers of these steps, tracks all alike."""
    return {
        "layers": [
            {"steps": [[s, NO_DIGEST] for s in layer]}
            | ({"non_finite": names[i]} if names and i in names else {})
            for i, layer in enumerate(stated)
        ],
        "track": NO_DIGEST,
    }


def test_what_it_holds(path: Path, good: Parts, attempt: Try, alphabets: Any) -> None:
    metadata, arrays = good
    attempt(metadata, arrays)
    layers = metadata["layers"]
    assert [[step for step, _ in layer["steps"]] for layer in layers] == [[1, 2], [3], [4], [5]]
    names = [layer.get("non_finite") for layer in layers]
    assert names == [None, ["model/v"], ["model/v"], None]
    assert layers[-1]["steps"][-1][1] == metadata["track"]
    assert (metadata["kind"], metadata["step"]) == ("m", "5")
    by_steps = [a["row"][0] >= 2**15 for a in alphabets]
    if metadata["keep"] == "t0.001":  # a layer of two steps has levels
        assert by_steps == [False, True, True, True]
    else:
        assert (metadata["keep"], any(by_steps)) == ("2", False)
    exact = {f"t/{i}/n" for i in range(5)} | {"t/2/model/v", "t/3/model/v"}
    values = {"values/1", "values/3"}
    assert set(arrays) == {"c", "sent", *exact, *values}
    if metadata["keep"] == "2":
        columns = [len(a["levels"]) // (a["row"][0] - 1) for a in alphabets]
        assert columns == [2, 1, 1, 1]
    chain = codec.Chain(path)
    record = chain.read(chain.entries[1])
    assert merged.steps_of(record) == (1, 2, 3, 4, 5)
    assert record.identity == record.replaces != record.digest
    assert record.parent == chain.read(chain.entries[0]).digest
    assert record.run is None
    assert chain.at(5).record.run == record.parent[:16]
    content = merged.merged_of(record, chain.at(0).track.layout)
    assert [g.encoded.columns for layer in content.layers for g in layer.groups] == [2, 1, 1, 1]
    assert list(content.tables) == [name for name, *_ in metadata["sent"]] == [""]


NO_LAYERS: list[Any] = [None, {}, [], 1, "x", [1], [[]], [{}], [None], ["ab"]]
NO_STEPS: list[Any] = [[], [[5]], [[5, 1]], [5], ["5x"], {"5x": 1}, [[5, "A" * 32]]]
NO_STEPS += [[[5, NO_DIGEST, 1]]]
TOLD: list[Any] = [((first, 5),) for first in (True, 1.0, "1", -1, 2**63, 10**400)]
TOLD += [((1, 1), (5,)), ((2, 1), (5,)), ((1, 2), (2,), (5,)), ((1, 2), (5,), (4,)), ((1, 5), (5,))]
TOLD += [((1, 2), (3,), (4,), (6,)), ((1, 2), (3,), (4,)), (), ((1, 2), (), (5,))]
LAYERS: list[Any] = [
    *({"layers": layers} for layers in NO_LAYERS),
    *({"layers": [{"steps": its}]} for its in NO_STEPS),
    *({"layers": [{"steps": [[5, NO_DIGEST]], "non_finite": x}]} for x in (None, "w", [1])),
    {"layers": [{"non_finite": []}]},
    *(steps(*its) for its in TOLD),
    steps((1, 2), (3,), (4,), (5,), names={0: ["model/v"]}),
]


@pytest.mark.parametrize("entries", LAYERS, ids=lambda e: json.dumps(e)[:60])
def test_layers_that_are_none(entries: dict[str, Any], good: Parts, forge: Any) -> None:
    metadata, arrays = good
    assert merged.steps_of(records.load(forge(metadata | steps((1, 2), (5,)), arrays), "r"))
    record = records.load(forge(metadata | {"track": NO_DIGEST} | entries, arrays), "r")
    for look in (merged.steps_of, lambda r: merged.merged_of(r, Layout(()))):
        with pytest.raises(
            MalformedRecordError,
            match=r"^r: expected layers of rising steps and their tracks",
        ):
            look(record)


ENTRIES = ["", 1, 2], [0, 1, 2, 3], ["", 1, 2, 3, 4]
FIELDS: dict[str, list[Any]] = {
    "layers": [None],
    "sent": [None, {}, 1, "ab", {"abcd": 1}, [], *([x] for x in ([], 1, "abcd", None, *ENTRIES))],
    "replaces": [1, "x", "A" * 21, "0" * 32, "-"],
    "parent": [None, "-"],
    "step": [4, 6],
    "kind": ["d"],
    "keep": ["9", "0", "2.0", "nan", "05", "t0.0", "t-1.0", "t1e+38", "t1e-38", "u2.0", "x"],
    "scope": [None, [], "t"],
    "coder": ["z", {}],
    "track": [NO_DIGEST],
}
METADATA = [
    *(steps((1, 5)), steps((1, 2, 3, 4, 5)), steps((1,), (2,), (3,), (4,), (5,))),
    *({name: value} for name, values in FIELDS.items() for value in values),
]


@pytest.mark.parametrize("entries", METADATA, ids=lambda e: json.dumps(e)[:60])
def test_hostile_metadata(entries: dict[str, Any], good: Parts, attempt: Try) -> None:
    metadata, arrays = good
    with pytest.raises(MalformedRecordError, match=r"^r: expected .{,900}$") as caught:
        attempt(metadata | entries, arrays)
    assert type(caught.value) is MalformedRecordError


@pytest.mark.parametrize("name", ["layers", "c", "t/2/model/v", "t/3/model/v"])
def test_what_is_missing(name: str, good: Parts, attempt: Try) -> None:
    with pytest.raises(MalformedRecordError):
        attempt(*({k: v for k, v in part.items() if k != name} for part in good))


def test_without_replaces_its_own_digest_is_its_identity(good: Parts, forge: Any) -> None:
    metadata, arrays = good
    del (metadata := dict(metadata))["replaces"]
    record = records.load(forge(metadata, arrays), "r")
    assert (record.replaces, record.identity) == (None, record.digest)


SENT = [["", n, 2, 3] for n in (0, 4096, -1, 1.0, True)]
SENT += [["", 1, classes, 3] for classes in (0, -2, 85, 2.0, 10**30)]
SENT += [["", 1, 2, nbytes] for nbytes in (-1, 0, 10**30, 1.5, None)]
SENT += [["", n, 2, 1] for n in (None, 10**400)]


@pytest.mark.parametrize("stated", SENT, ids=lambda t: json.dumps(t)[:30])
def test_tables_sent_last(stated: list[Any], good: Parts, attempt: Try) -> None:
    metadata, arrays = good
    with pytest.raises(MalformedRecordError, match=r"tables \[alphabet, symbols, classes, byt"):
        attempt(metadata | {"sent": [stated]}, arrays)


def test_tables_sent_last_twice_or_too_few(good: Parts, attempt: Try) -> None:
    metadata, arrays = good
    (one,) = metadata["sent"]
    assert arrays["sent"].size == one[3]
    twice = arrays | {"sent": np.tile(arrays["sent"], 2)}
    attempt(metadata | {"sent": [one, ["other", *one[1:]]]}, twice)
    for entries, its in (
        ({"sent": [one, one]}, twice),
        ({}, twice),
        ({}, arrays | {"sent": arrays["sent"][:-1]}),
        ({}, arrays | {"sent": arrays["sent"].astype(np.uint16)}),
        ({}, arrays | {"sent": arrays["sent"].reshape(1, -1)}),
        ({}, {k: a for k, a in arrays.items() if k != "sent"}),
    ):
        with pytest.raises(MalformedRecordError, match=r"tables \[alphabet, symbols, classes"):
            attempt(metadata | entries, its)


U8 = np.zeros(0, np.uint8)
NINES = "9" * 5000
NO_TENSORS = ["5/n", "9/n", "10000/n", "n", "/n", "-1/n", "x/n", "00/n", "01/n", "٣/n", "1/x", "1/"]
NO_TENSORS += ["1", f"{NINES}/n"]
NO_VALUES = ["", "/", "/5", "/01", "/-1", "/x", "/1/n", "/٣", f"/{NINES}", "/1 "]
ARRAYS: list[Any] = [
    *({f"t/{name}": np.array(1)} for name in NO_TENSORS),
    *({"t/1/n": other} for other in (np.array([1]), np.array(1, np.int32), np.array(1.0))),
    {"t/0/model/v": np.zeros(40, np.float32)},
    {"t/1/model/w": np.zeros(600, np.float32)},
    {"t/2/model/v": np.zeros(41, np.float32)},
    {"t/2/model/v": np.zeros(40, np.float16)},
    *({f"values{name}": U8} for name in NO_VALUES),
    *({"values/1": np.zeros(3, dtype)} for dtype in (np.uint8, np.uint16)),
    *({"values/1": np.frombuffer(text, np.uint8)} for text in (b"1 2\n0 1\n", b"0 x\n", b"9 1\n")),
    *({name: U8} for name in ("structure", "x", "")),
]


@pytest.mark.parametrize("more", ARRAYS, ids=lambda e: str(e)[:40])
def test_hostile_arrays(more: Arrays, good: Parts, attempt: Try) -> None:
    metadata, arrays = good
    with pytest.raises(MalformedRecordError, match=r"^r: expected .{,900}$") as caught:
        attempt(metadata, arrays | more)
    assert type(caught.value) is MalformedRecordError


def test_what_is_missing_has_not_changed(good: Parts, attempt: Try) -> None:
    """Nobody can tell by the arrays, but the digest of the track does."""
    metadata, arrays = good
    for name in ("t/1/n", "t/4/n", "values/3"):
        with pytest.raises(TrackDigestError):
            attempt(metadata, {k: a for k, a in arrays.items() if k != name})


def grown(array: np.ndarray) -> np.ndarray:
    return np.concatenate((array, array[-1:]))


@pytest.fixture(scope="module")
def alphabets(good: Parts, apart: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Those of the four layers, in pieces."""
    return apart(good[1]["c"], COLUMNS, heads=4)


@pytest.fixture(scope="module")
def put(good: Parts, attempt: Try, recoded: Callable[..., Arrays]) -> Callable[..., None]:
    """Read the chain with other pieces in the alphabet of this layer."""
    metadata, arrays = good
    return lambda at, **pieces: attempt(metadata, recoded(arrays, pieces, at, COLUMNS, heads=4))


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("name", ["table", "levels", "streams", "payload"])
def test_pieces_that_lie(name: str, at: int, alphabets: Any, put: Callable[..., None]) -> None:
    """A column more or less than the steps, a level more or less than the row says."""
    old = alphabets[at][name]
    if name == "table" and not old.size:
        old = np.ones(5, np.uint8)  # where the row has none, and there are zeros
    for new in (grown(grown(grown(old))), old[: -3 if name == "table" else -1]):
        with pytest.raises(MalformedRecordError, match=r"^r: expected layers that decode, found"):
            put(at, **{name: new})


def test_bytes_that_lie(good: Parts, attempt: Try) -> None:
    """An alphabet more or less than those of the layers, or another kind of array."""
    metadata, arrays = good
    c = arrays["c"]
    for other in (c[:-1], c[:0], np.tile(c, 2), grown(c), c[1:], c.astype(np.uint32), c[None]):
        with pytest.raises(MalformedRecordError, match=r"^r: expected layers that decode, found"):
            attempt(metadata, arrays | {"c": other})


@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("column", range(4))
@pytest.mark.parametrize("value", [0, 33, 85, 512, 32_770, 65_535])
def test_numbers_that_lie(
    column: int, value: int, at: int, alphabets: Any, put: Callable[..., None]
) -> None:
    row = list(alphabets[at]["row"])
    value += row[column] == value
    row[column] = min(value, 255) if column in (1, 2) else value
    # Nothing is longer than a unit here; other classes may decode, to something else.
    error = codec.RecordError if column == 1 else MalformedRecordError
    with pytest.raises(error) if column != 2 or not 1 <= value <= 32 else contextlib.nullcontext():
        put(at, row=tuple(row))


@pytest.mark.parametrize(("old", "new"), [((1, 2), (1, 3)), ((1, 2), (2,))])
def test_columns_that_lie(
    old: tuple[int, ...], new: tuple[int, ...], good: Parts, attempt: Try
) -> None:
    """As many steps as there are levels, yet in other layers; or one step less."""
    metadata, arrays = good
    layers = [dict(layer) for layer in metadata["layers"]]
    layers[0]["steps"] = layers[0]["steps"][: len(new)]
    if len(new) == len(old):
        layers[0]["steps"], layers[1]["steps"] = layers[0]["steps"][:1], layers[0]["steps"][1:]
    with pytest.raises(MalformedRecordError):
        attempt(metadata | {"layers": layers}, arrays)


def test_other_levels(alphabets: Any, put: Callable[..., None]) -> None:
    """They are finite. Each step's own digest tells, also where the next one makes up for it."""
    levels = alphabets[0]["levels"].copy()
    swapped = levels[[1, 0, *range(2, levels.size)]]
    swapped[:2] += (1, -1)
    with pytest.raises(TrackDigestError, match=r"^r: expected a track of digest"):
        put(0, levels=swapped)
    for levels[1] in (np.nan, -np.inf):
        with pytest.raises(MalformedRecordError, match="levels that are not zero, then finite"):
            put(0, levels=levels)


def test_few_bytes_do_not_stand_for_any_number_of_tables(
    good: Parts, attempt: Try, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata, arrays = good
    (one,) = metadata["sent"]
    most = 3 * (1 + one[1] * one[2])
    monkeypatch.setattr(records, "MAX_LENGTHS", most)
    for n in (3, 4):
        many = [[f"{i}", *one[1:]] for i in range(n)]
        stated = metadata | {"sent": many}, arrays | {"sent": np.tile(arrays["sent"], n)}
        if n == 3:
            attempt(*stated)
        else:
            with pytest.raises(MalformedRecordError, match=f"found more than {most} code lengths"):
                attempt(*stated)


def test_a_table_sent_before_the_record_is_none(alphabets: Any, put: Callable[..., None]) -> None:
    """Within a record the tables of its own layers are used again, no others."""
    k, classes, units, nbytes = alphabets[0]["row"]
    assert min(classes, nbytes) > 0
    with pytest.raises(MalformedRecordError, match="sent last for '', but none of its kind"):
        put(0, row=(k, classes, units, 0), table=np.zeros(0, np.uint8))


@pytest.mark.parametrize("n", [4096, 4097])
def test_as_many_steps_as_there_may_be(n: int, good: Parts, forge: Any) -> None:
    metadata, arrays = good
    stated = steps(tuple(range(1, n)), (n,)) | {"step": n}
    record = records.load(forge(metadata | stated, arrays), "r")
    if n == merged.MAX_STEPS:
        assert merged.steps_of(record) == tuple(range(1, n + 1))
    else:
        with pytest.raises(MalformedRecordError, match=r"layers of rising steps and their"):
            merged.steps_of(record)


def test_names_that_are_not_finite(good: Parts, attempt: Try) -> None:
    metadata, arrays = good
    v, w = "model/v", "model/w"
    for names in (["model/x"], ["n"], [v, v], [w], [], [w, v]):
        layers = [dict(layer) for layer in metadata["layers"]]
        layers[1]["non_finite"] = names
        with pytest.raises(MalformedRecordError):
            attempt(metadata | {"layers": layers}, arrays)


@settings(max_examples=60)
@given(st.data())
def test_any_changed_byte(good: Parts, attempt: Try, data: st.DataObject) -> None:
    """Whatever stands anywhere in an array: read to the same track, or refused."""
    metadata, arrays = good
    name = data.draw(st.sampled_from(sorted(arrays)))
    raw = bytearray(arrays[name].tobytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    changed = np.frombuffer(bytes(raw), arrays[name].dtype).reshape(arrays[name].shape)
    with contextlib.suppress(codec.RecordError, ParentError):
        attempt(metadata, arrays | {name: changed})
