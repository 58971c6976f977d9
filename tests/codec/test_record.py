"""One record as bytes: golden ones to the last byte, damaged and hostile ones by their error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec import record as records
from codec.state import layout_of, to_arrays
from codec.track import Tracker

Arrays = dict[str, np.ndarray]
Forge = Callable[[Any, Arrays], bytes]
Parts = Callable[[bytes], tuple[dict[str, Any], Arrays]]


@pytest.fixture(scope="session")
def base(golden: Path) -> bytes:
    return (golden / "run.lcc" / "00000000.base.safetensors").read_bytes()


@pytest.fixture(scope="session")
def delta(golden: Path) -> bytes:
    return (golden / "run.lcc" / "00000001.delta.safetensors").read_bytes()


def read(data: bytes, base: bytes) -> records.Record:
    """Everything a reader does with a record, given the golden base."""
    record = records.load(data, "r")
    if record.kind == "base":
        records.base_of(record)
    else:
        layout, state = records.base_of(records.load(base, "base"))
        codec.apply(records.delta_of(record, layout), state)
        records.check_track(record, layout, state)
    return record


def test_exact_bytes(base: bytes, delta: bytes, paper: np.ndarray) -> None:
    tracker = Tracker({"w": np.zeros(10, np.float32), "n": np.array(7)}, bits=2)
    assert records.dump_base(0, tracker.layout, tracker.state) == base
    step = tracker.step({"w": paper, "n": np.array(8)})
    track = records.track_digest(tracker.layout, tracker.state)
    assert records.dump_delta(1, records.load(base, "b").digest, track, step) == delta


def test_load(base: bytes, delta: bytes) -> None:
    first, second = records.load(base, "b"), records.load(delta, "d")
    assert (first.where, first.step, first.kind, first.parent) == ("b", 0, "base", None)
    assert (second.where, second.step, second.kind) == ("d", 1, "delta")
    assert second.parent == first.digest
    assert (first.nbytes, second.nbytes) == (len(base), len(delta))
    layout, state = records.base_of(first)
    assert [(t.name, t.dtype, t.shape, t.lossy) for t in layout.tensors] == [
        ("w", "F32", (10,), True),
        ("n", "I64", (), False),
    ]
    step = records.delta_of(second, layout)
    assert (step.bits, step.scope, step.coder, step.non_finite) == (2, "model", "huffman", ())
    assert step.groups[0].quantized.codes.tolist() == [1, 2, 0, 0, 0, 3, 0, 3, 1, 0]
    codec.apply(step, state)
    records.check_track(second, layout, state)
    assert state["n"] == 8


def test_state_of_a_base_is_fresh(base: bytes) -> None:
    record = records.load(base, "b")
    _, state = records.base_of(record)
    state["w"] += 1
    assert not records.base_of(record)[1]["w"].any()


@pytest.mark.parametrize("kind", ["base", "delta"])
def test_every_flipped_bit_is_refused(kind: str, base: bytes, delta: bytes) -> None:
    data = bytearray(base if kind == "base" else delta)
    unnoticed = []
    for position in range(8 * len(data)):
        data[position // 8] ^= 1 << position % 8
        with contextlib.suppress(codec.RecordError):
            records.load(bytes(data), "r")
            unnoticed.append(position)
        data[position // 8] ^= 1 << position % 8
    assert unnoticed == []
    assert read(bytes(data), base).kind == kind


@pytest.mark.parametrize("kind", ["base", "delta"])
def test_every_truncation_is_refused(kind: str, base: bytes, delta: bytes) -> None:
    data = base if kind == "base" else delta
    for length in range(len(data)):
        with pytest.raises(codec.TruncatedRecordError, match=f"found {length}$"):
            records.load(data[:length], "r")
    with pytest.raises(
        codec.TruncatedRecordError, match=f"{len(data)} bytes, found {len(data) + 1}"
    ):
        records.load(data + b"\0", "r")


FOREIGN, TRUNCATED = codec.ForeignRecordError, codec.TruncatedRecordError
MALFORMED, TRACK = codec.MalformedRecordError, codec.TrackDigestError

# File -> its class, what its message says was expected, and found (regular expressions).
BAD = {
    "foreign": (FOREIGN, r"an LC-Checkpoint digest in the header", r"none"),
    "foreign-random": (FOREIGN, r"a header of at most 16777216 bytes", r"578437695752307201"),
    "truncated": (TRUNCATED, r"699 bytes", r"698"),
    "truncated-header": (TRUNCATED, r"656 bytes for the header", r"100"),
    "longer": (TRUNCATED, r"699 bytes", r"700"),
    "version": (codec.VersionError, r"format 1", r"format 2; update this package"),
    "digest": (codec.DigestError, r"content of SHA-256 1d67b7638c93\w{52}", r"\w{64}"),
    "malformed-kind": (MALFORMED, r"kind base or delta", r"'diff'"),
    "malformed-step": (MALFORMED, r"a step from 0 to 9223372036854775807", r"-1"),
    "malformed-bits": (MALFORMED, r"settings within their range", r"bits must be .*; got 9"),
    "malformed-layout": (MALFORMED, r"one array for each of 1 tensors: 't/w'", r"'t/n', 't/w'"),
    "malformed-arrays": (MALFORMED, r"arrays .*'sizes', 't/n'", r".*'sizes', 't/n', 't/x'"),
    "code-table": (
        MALFORMED,
        r"streams that decode",
        r"code lengths \[1, 2, 3, 4\] are not a complete prefix code",
    ),
    "stream-early": (MALFORMED, r"streams that decode", r"17 bits end before 10 code words"),
    "stream-sizes": (
        MALFORMED,
        r"streams that decode",
        r"4 levels and 18446744073709551615 bits do not fit into the streams",
    ),
    "stream-unused-bits": (
        MALFORMED,
        r"streams that decode",
        r"the unused bits after the last code word are not zero",
    ),
    "track": (TRACK, r"a track of digest 0{32}", r"928c9625e4d1aa4528fb804250653c49"),
    "track-base": (TRACK, r"a track of digest 0{32}", r"62c2a86b661bd08670c28e74754f03fa"),
}


@pytest.mark.parametrize("name", BAD)
def test_stored_bad_records(name: str, golden: Path, base: bytes) -> None:
    error, expected, found = BAD[name]
    data = (golden / "bad" / f"{name}.safetensors").read_bytes()
    with pytest.raises(error, match=rf"^r: expected {expected}, found {found}$") as caught:
        read(data, base)
    assert type(caught.value) is error
    if name in ("code-table", "stream-early", "stream-sizes", "stream-unused-bits"):
        kind = {"code-table": codec.CodeTableError, "stream-sizes": codec.PayloadError}
        assert type(caught.value.__cause__) is kind.get(name, codec.StreamError)


def test_every_stored_bad_record_has_its_test(golden: Path) -> None:
    stored = {p.name.removesuffix(".safetensors") for p in (golden / "bad").glob("*.safetensors")}
    assert stored == set(BAD)


HUGE = "9" * 4300  # the longest integer that Python parses
DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "header",
    [
        b"", b"[]", b"1", b"null", b'{"a": 1}', b'{"a": null}', b'{"a": []}', b'{"a": {}}',
        b'{"a": {"data_offsets": 1}}', b'{"a": {"data_offsets": [0]}}',
        b'{"a": {"data_offsets": [0, 1.5]}}', b'{"a": {"data_offsets": [0, NaN]}}',
        b'{"a": {"data_offsets": [0, true]}}', b'{"a": {"data_offsets": {"1": 0}}}',
        b'{"a": {"data_offsets": "01"}}', b'{"a": 1, "a": 1}', b'{"__metadata__": {"lcc": 1}}',
        b'{"__metadata__": [], "__metadata__": []}', b"\xff\xfe", b'{"\\ud800": {}}',
        DEEP.encode(), b'{"a": ' + HUGE.encode() + b"0}", "{}".encode("utf-16"),
        '{"a": {"data_offsets": [0, 0]}}'.encode("utf-32"),
    ],
    ids=lambda header: repr(header[:40]),
)  # fmt: skip
def test_hostile_headers(header: bytes) -> None:
    with pytest.raises(codec.ForeignRecordError, match=r"^r: expected .{,500}$"):
        records.load(len(header).to_bytes(8, "little") + header, "r")


@pytest.mark.parametrize("end", [HUGE, "-1", "10000000000", str(2**64)])
def test_offsets_that_lie(end: str) -> None:
    header = f'{{"a": {{"data_offsets": [0, {end}]}}}}'.encode()
    with pytest.raises(codec.TruncatedRecordError, match=r"^r: expected .{,100} bytes, found"):
        records.load(len(header).to_bytes(8, "little") + header, "r")


@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 16 * 2**20 + 1])
def test_header_length_that_lies(length: int) -> None:
    with pytest.raises(codec.ForeignRecordError, match=f"found {length}"):
        records.load(length.to_bytes(8, "little") + b"{}", "r")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"sizes":', b'"sizes":{"dtype":"U8","shape":[0],"data_offsets":[43,43]},"sizes":'),
        (b'{"__metadata__":', b'{"__metadata__":{},"__metadata__":'),
        (b'"dtype":"I64"', b'"dtype":"U8","dtype":"I64"'),
        (rb"\"kind\":", rb"\"kind\":\"base\",\"kind\":"),
        (rb"\"step\":", rb"\"step\":0,\"st\u0065p\":"),
    ],
)
def test_keys_that_stand_twice(
    old: bytes, new: bytes, delta: bytes, resign: Callable[[bytes], bytes]
) -> None:
    """safetensors itself would take the last one, and JSON parsers do not agree on it."""
    length = int.from_bytes(delta[:8], "little")
    header = delta[8 : 8 + length].replace(old, new, 1)
    data = resign(len(header).to_bytes(8, "little") + header + delta[8 + length :])
    with pytest.raises(codec.ForeignRecordError, match="a key stands twice"):
        records.load(data, "r")


def test_too_many_tensors(monkeypatch: pytest.MonkeyPatch, base: bytes) -> None:
    monkeypatch.setattr(records, "MAX_TENSORS", 2)
    with pytest.raises(codec.ForeignRecordError, match="at most 2 tensors, found 3"):
        records.load(base, "r")


METADATA = [
    ("delta", {"step": None}), ("delta", {"step": True}), ("delta", {"step": 1.0}),
    ("delta", {"step": 2**63}), ("delta", {"step": float("nan")}), ("delta", {"step": "1"}),
    ("delta", {"kind": ["delta"]}), ("delta", {"track": 5}), ("delta", {"track": "é" * 32}),
    ("delta", {"track": "A" * 32}), ("delta", {"parent": "x"}), ("delta", {"parent": None}),
    ("delta", {"bits": 2.0}), ("delta", {"bits": True}), ("delta", {"bits": "2"}),
    ("delta", {"bits": 1}), ("delta", {"bits": []}), ("delta", {"scope": "layer"}),
    ("delta", {"scope": {}}), ("delta", {"coder": "zip"}), ("delta", {"coder": None}),
    ("delta", {"non_finite": None}), ("delta", {"non_finite": "w"}),
    ("delta", {"non_finite": ["w"]}), ("delta", {"non_finite": ""}), ("delta", {"non_finite": {}}),
    ("delta", {"non_finite": ["n"]}), ("delta", {"non_finite": ["x"]}),
    ("delta", {"non_finite": [["w"]]}), ("delta", {"non_finite": {"w": 1}}),
    ("base", {"layout": None}), ("base", {"layout": 1}), ("base", {"layout": [[]]}),
    ("base", {"layout": {"abcd": 1}}), ("base", {"layout": ["abcd"]}), ("base", {"framework": []}),
    ("base", {"framework": "jax"}), ("base", {"framework": "x" * 100_000}),
    ("base", {"layout": [["w", "F32", [10], True], ["w", "F32", [10], True]]}),
    ("base", {"layout": [["w", "F32", [10], 1], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F32", [10.0], True], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F32", [-2, -5], True], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F32", [2**70], True], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F32", [2, 5], True], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F32", [10], True], ["n", "U64", [], False]]}),
    ("base", {"layout": [["w", "F32", [10], True], ["n", "I64", [], True]]}),
    ("base", {"layout": [["w", "BF16", [10], True], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F99", [10], False], ["n", "I64", [], False]]}),
    ("base", {"layout": [["w", "F32", [10], True], ["\ud800", "I64", [], False]]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "entries"), METADATA, ids=lambda x: str(x)[:50])
def test_hostile_metadata(
    kind: str, entries: dict[str, Any], base: bytes, delta: bytes, forge: Forge, parts_of: Parts
) -> None:
    metadata, arrays = parts_of(base if kind == "base" else delta)
    with pytest.raises(codec.MalformedRecordError, match=r"^r: expected .{,700}$"):
        read(forge(metadata | entries, arrays), base)


@pytest.mark.parametrize("kind", ["base", "delta"])
def test_missing_metadata(
    kind: str, base: bytes, delta: bytes, forge: Forge, parts_of: Parts
) -> None:
    metadata, arrays = parts_of(base if kind == "base" else delta)
    assert read(forge(metadata, arrays), base).kind == kind
    for key in metadata.keys() - {"digest"}:
        less = {k: v for k, v in metadata.items() if k != key}
        error = codec.ForeignRecordError if key == "format" else codec.MalformedRecordError
        with pytest.raises(error, match=rf"found no '{key}'$"):
            read(forge(less, arrays), base)


@pytest.mark.parametrize("version", [0, 2, True, 1.0, "1", None, [], 10**100])
def test_versions(version: Any, delta: bytes, forge: Forge, parts_of: Parts) -> None:
    metadata, arrays = parts_of(delta)
    with pytest.raises(codec.VersionError, match=r"^r: expected format 1, found format .{,60};"):
        records.load(forge(metadata | {"format": version}, arrays), "r")


@pytest.mark.parametrize(
    "text", ["[]", "1", "{", "null", '"format"', DEEP, HUGE + "0", '{"a":1,"a":2}']
)
def test_metadata_that_is_none(text: str, forge: Forge, resign: Callable[[bytes], bytes]) -> None:
    """A digest is there (as a tensor's name, which any file can have), but no metadata."""
    name = f'\\"digest\\":\\"{"0" * 64}\\"'.replace("\\", "")
    with pytest.raises(
        codec.ForeignRecordError, match=r"^r: expected metadata 'lcc' with a format"
    ):
        records.load(forge(text, {name: np.zeros(1)}), "r")


def test_digest_must_be_the_metadata_s(delta: bytes, forge: Forge, parts_of: Parts) -> None:
    metadata, arrays = parts_of(delta)
    text = json.dumps({k: v for k, v in metadata.items() if k != "digest"})
    name = f'"digest":"{"0" * 64}"'
    with pytest.raises(codec.MalformedRecordError, match="expected the digest in the metadata"):
        records.load(forge(text, arrays | {name: np.zeros(1)}), "r")


U8, U64, F32 = np.uint8, np.uint64, np.float32


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"sizes": np.array([[4, 18]], np.int64)}, "sizes are int64 of 2 dimensions"),
        ({"sizes": np.array([4, 18], U64)}, "sizes are uint64 of 1 dimensions"),
        ({"sizes": np.zeros((0, 2), U64)}, r"sizes of shape \(0, 2\) for 1 alphabets"),
        ({"sizes": np.array([[4, 18, 0]], U64)}, r"sizes of shape \(1, 3\)"),
        ({"sizes": np.array([[0, 18]], U64)}, "0 levels and 18 bits do not fit"),
        ({"sizes": np.array([[5, 18]], U64)}, "5 levels and 18 bits do not fit"),  # bits is 2
        ({"sizes": np.array([[3, 18]], U64)}, "not a complete prefix code"),
        ({"sizes": np.array([[2**64 - 1, 18]], U64)}, "18446744073709551615 levels"),
        ({"sizes": np.array([[4, 2**64 - 8]], U64)}, "18446744073709551608 bits do not fit"),
        ({"sizes": np.array([[4, 16]], U64)}, "end before"),
        ({"lengths": np.array([1, 2, 3, 3], np.int8)}, "lengths are int8"),
        ({"lengths": np.array([1, 2, 3, 3, 0], U8)}, "are not the sums of their sizes"),
        ({"lengths": np.array([1, 2, 3], U8)}, "one for each of 3"),
        ({"lengths": np.zeros(4, U8)}, "cannot all lack a code word"),
        ({"levels": np.zeros(3)}, "levels are float64"),
        ({"levels": np.zeros(4, F32)}, "are not the sums of their sizes"),
        ({"levels": np.zeros(2, F32)}, "one for each of 4"),
        ({"levels": np.array([np.nan, 1, 1], F32)}, "zero, then finite"),
        ({"levels": np.array([np.inf, 1, 1], F32)}, "zero, then finite"),
        ({"payload": np.zeros(4, U8)}, "are not the sums of their sizes|go on after"),
        ({"payload": np.zeros(2, U8)}, "4 levels and 18 bits do not fit"),
        ({"payload": np.zeros(3, U8)}, "18 bits go on after 10 code words"),
        ({"t/n": np.array(8, np.int32)}, r"expected tensor 'n' as int64 \(\), found int32 \(\)"),
        ({"t/n": np.array([8])}, r"expected tensor 'n' as int64 \(\), found int64 \(1,\)"),
        ({"t/w": np.zeros(10, F32)}, "found .*'t/w'"),
        ({"x" * 1000: np.zeros(1)}, "found .{,300}$"),
    ],
)
def test_hostile_arrays(
    arrays: Arrays, message: str, base: bytes, delta: bytes, forge: Forge, parts_of: Parts
) -> None:
    metadata, good = parts_of(delta)
    with pytest.raises(codec.MalformedRecordError, match=message):
        read(forge(metadata, good | arrays), base)


def test_two_symbols_more_levels_than_words(
    base: bytes, delta: bytes, forge: Forge, parts_of: Parts
) -> None:
    """A level that does not occur has length 0; such a record is read."""
    metadata, arrays = parts_of(delta)
    arrays |= {"lengths": np.array([1, 0, 0, 1], U8), "sizes": np.array([[4, 10]], U64)}
    arrays["payload"] = np.array([0b11, 0], U8)
    record = records.load(forge(metadata, arrays), "r")
    layout, _ = records.base_of(records.load(base, "b"))
    step = records.delta_of(record, layout)
    assert step.groups[0].quantized.codes.tolist() == [3, 3, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ([0, 2**63], "F32"), ([0, 2**62, 2**62], "F32"), ([0] + [1] * 64, "F32"),
        ([0, -1], "F32"), ([0, 1.5], "F32"), ([0], "F4"), ([0], "f32"), ([0], 1), ("", "F32"),
        ([0, 2**64], "F32"), ([1], "F32"), ([0], "F8_E8M0"),
    ],
)  # fmt: skip
def test_hostile_views(
    shape: Any, dtype: Any, delta: bytes, resign: Callable[[bytes], bytes]
) -> None:
    """Headers that JSON accepts, and safetensors or numpy do not."""
    length = int.from_bytes(delta[:8], "little")
    header = json.loads(delta[8 : 8 + length])
    header["x"] = {"dtype": dtype, "shape": shape, "data_offsets": [43, 43]}
    text = json.dumps(header, separators=(",", ":")).encode()
    data = resign(len(text).to_bytes(8, "little") + text + delta[8 + length :])
    with pytest.raises(
        codec.MalformedRecordError, match=r"valid safetensors|known dtype|shape that"
    ):
        records.load(data, "r")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["w", "n", "F32", "base", "delta", 2**64, -1, 1, 10]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=200)
@given(kind=st.sampled_from(["base", "delta"]), index=st.integers(0, 8), value=json_values)
def test_any_metadata(
    kind: str, index: int, value: Any, base: bytes, delta: bytes, forge: Forge, parts_of: Parts
) -> None:
    """Whatever JSON stands in a field: read, or refused by a RecordError."""
    metadata, arrays = parts_of(base if kind == "base" else delta)
    key = list(metadata)[index % len(metadata)]
    message = ""
    try:
        read(forge(metadata | {key: value}, arrays), base)
    except codec.RecordError as exc:
        message = str(exc)
    assert len(message) < 1000


@settings(max_examples=400)
@given(
    kind=st.sampled_from(["base", "delta"]),
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3),
    cut=st.integers(-3, 3),
)
def test_any_bytes(
    kind: str, edits: list[tuple[int, int]], cut: int, base: bytes, delta: bytes,
    resign: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    """A forger's edits, digest made right again: read, or refused by a RecordError."""
    data = bytearray(base if kind == "base" else delta)
    for position, byte in edits:
        data[position % len(data)] = byte
    data = data[:cut] if cut < 0 else data + b"\0" * cut
    with contextlib.suppress(codec.RecordError):
        read(resign(bytes(data)), base)


@given(st.binary(max_size=200))
def test_any_file(data: bytes) -> None:
    with pytest.raises(codec.RecordError, match=r"^r: expected"):
        records.load(data, "r")


NAMES = ["__metadata__", "", "\0", "../x", "/etc/passwd", "x" * 300, "é漢🙂", "t/w", "sizes", '"\\']
NAMES += [
    f'"digest":"{"0" * 64}"',
    f'\\"digest\\":\\"{"a" * 64}\\"',
    "a\nb",
    "\ufeff",
]


def test_any_names(tmp_path: Path) -> None:
    state = {name: np.full(8, i, np.float32) for i, name in enumerate(NAMES)}
    state |= {f"{name}!": np.array(i) for i, name in enumerate(NAMES)}
    with codec.Checkpointer(tmp_path / "run.lcc", bits=None, scope="tensor") as checkpoints:
        checkpoints.save(0, state)
        moved = {k: a * 2 for k, a in state.items()}
        moved["\0"] = np.full(8, np.nan, np.float32)
        checkpoints.save(1, moved)
    back = codec.restore(tmp_path / "run.lcc")
    assert list(back) == list(moved)
    for name, array in moved.items():
        assert back[name].tobytes() == array.tobytes(), name
    assert sorted(p.name for p in tmp_path.rglob("*")) == [
        "00000000.base.safetensors", "00000001.delta.safetensors", "run.lcc",
    ]  # fmt: skip


def test_track_digest_by_hand() -> None:
    state = {"é": torch.ones((2, 5), dtype=torch.bfloat16), "n": torch.tensor(True)}
    layout = layout_of(state)
    text = b'["\\u00e9", "BF16", [2, 5]]' + np.ones(10, "<f4").tobytes() + b'["n", "BOOL", []]\x01'
    digest = records.track_digest(layout, to_arrays(state, layout))
    assert digest == xxhash.xxh3_128_hexdigest(text)


def test_more_bits_than_one_alphabet(random_states: Callable[..., list[Arrays]]) -> None:
    """Scope tensor, with a tensor stored whole: the joined streams come apart again."""
    first, second = random_states(2)
    second["h"] = np.full_like(second["h"], np.nan)
    for bits in (None, 1, 8):
        tracker = Tracker(first, bits, "tensor")
        step = tracker.prepare(second)
        data = records.dump_delta(5, "0" * 64, "0" * 32, step)
        again = records.delta_of(records.load(data, "r"), tracker.layout)
        assert [[t.name for t in g.tensors] for g in again.groups] == [["w"], ["b"]]
        for a, b in zip(again.groups, step.groups):
            assert a.quantized.codes.tobytes() == b.quantized.codes.tobytes()
            assert a.quantized.levels.tobytes() == b.quantized.levels.tobytes()
        assert again.non_finite == ("h",)
        assert again.exact.keys() == step.exact.keys()
