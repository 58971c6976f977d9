"""One record as bytes: golden ones to the last byte, damaged and hostile ones by their error."""

from __future__ import annotations

import json
import re
import runpy
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec import caps as untrusted
from codec import version
from codec.errors import (
    CodeTableError,
    DigestError,
    ForeignRecordError,
    MalformedRecordError,
    PayloadError,
    StreamError,
    TrackDigestError,
    TruncatedRecordError,
    VersionError,
)
from codec.record import container
from codec.record import record as records
from codec.record.record import Place
from codec.record.track import Track
from codec.scheme import huffman
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.twins import takes_compiled
from tests.codec.chains import GOLDEN, save_all
from tests.codec.forging import forge, header_of, parts_of, recoded, reheaded

Arrays = dict[str, np.ndarray]

BASE, DELTA = (path.read_bytes() for path in sorted((GOLDEN / "run.lcc").iterdir()))


@pytest.fixture
def track() -> Track:
    """That of the base, fresh."""
    return records.base_of(records.load(BASE, "base"))


def changed(arrays: Arrays, **entries: Any) -> bytes:
    """The delta with other arrays, pieces of its alphabet or metadata; its digest is right."""
    metadata, good = parts_of(DELTA)
    return forge(metadata | entries, recoded(good, arrays))


def read(data: bytes) -> records.Record:
    """Everything a reader does with a record, given the base."""
    record = records.load(data, "r")
    if record.kind == "base":
        records.base_of(record)
    else:
        track = records.base_of(records.load(BASE, "base"))
        step = records.delta_of(record, track)
        records.preview_checked(record, step, track)
        records.apply_checked(record, step, track)
    return record


def codes_of(step: codec.Delta) -> list[int]:
    """The codes of a step's only alphabet."""
    return codec.decode(step.groups[0].encoded).codes.tolist()


def delta_in(data: bytes, track: Track) -> codec.Delta:
    """What the bytes of a record say."""
    return records.delta_of(records.load(data, "r"), track)


@pytest.mark.parametrize(
    "name", ["run", "tokens", "edits", "steps", "exact", "moments", "layouts", "contexts"]
)
def test_golden_chains_are_written_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of their bytes, from the states in make_golden.py."""
    if name == "contexts" and not takes_compiled():
        pytest.skip("numpy alone writes run lengths")
    monkeypatch.setattr(version, "WRITER", "lcviz 0.3.0")
    make = runpy.run_path(str(GOLDEN / "make_golden.py"))
    make[f"write_{name}"](tmp_path / "again")
    stored = {p.name: p.read_bytes() for p in (GOLDEN / f"{name}.lcc").iterdir()} | {".lock": b""}
    assert {p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()} == stored


def test_state_of_a_base_is_fresh() -> None:
    record = records.load(BASE, "b")
    records.base_of(record).arrays["w"][...] += 1
    assert not records.base_of(record).arrays["w"].any()


FOREIGN, TRUNCATED = ForeignRecordError, TruncatedRecordError
MALFORMED, TRACK = MalformedRecordError, TrackDigestError

DECODE, LAST = r"streams that decode", "the code table sent last for '{}', but none of its kind"
EARLIER = r"it was written before lcviz 0\.3, .* anew"
SETTINGS, LETTERS = r"settings within their range", r"d, scope and coder in one letter each"
# File -> its class, what its message says was expected, and found (regular expressions).
BAD = {
    "foreign": (FOREIGN, r"an LC-Checkpoint digest in the header", r"none"),
    "foreign-random": (FOREIGN, r"a header of at most 16777216 bytes", r"578437695752307201"),
    "truncated": (TRUNCATED, r"265 bytes", r"264"),
    "truncated-header": (TRUNCATED, r"229 bytes for the header", r"100"),
    "longer": (TRUNCATED, r"265 bytes", r"266"),
    "digest": (DigestError, r"content of BLAKE3 ac42P5g5[\w-]{14}", r"[\w-]{22}"),
    "version-4": (VersionError, r"format 3", r"format 4: update this package"),
    "version-2": (VersionError, r"format 3", f"format 2: {EARLIER}"),
    "version-0": (VersionError, r"format 3", f"format 0: {EARLIER}"),
    "words": (MALFORMED, r"7 words, format letters .* keep digest", r"10"),
    "letters-kind": (MALFORMED, LETTERS, r"'xmh'"),
    "letters-base": (MALFORMED, LETTERS, r"'bmh'"),
    "letters-scope": (MALFORMED, LETTERS, r"'dxh'"),
    "letters-coder": (MALFORMED, LETTERS, r"'dmx'"),
    "letters-more": (MALFORMED, LETTERS, r"'dmh1'"),
    "step": (MALFORMED, r"a step from 0 to 9223372036854775807", r"'-1'"),
    "parent-letters": (MALFORMED, r"parent as 128 bits in base64", r"'/{22}'"),
    "parent-bits": (MALFORMED, r"parent as 128 bits in base64", r"'B{22}'"),
    "keep": (MALFORMED, r"bits, all, a budget, a tolerance or a distance .*", r"'v0\.01'"),
    "bits": (MALFORMED, SETTINGS, r"bits must be .*; got 9"),
    "budget": (MALFORMED, SETTINGS, r"budget is a share .*; got 1\.5"),
    "budget-steps": (MALFORMED, SETTINGS, r"budget is a share .*; got 1\.5"),
    "tolerance": (MALFORMED, SETTINGS, r"tolerance is the largest error .*; got 1e-40"),
    "context-levels": (MALFORMED, DECODE, r"a context code, but no level other than zero"),
    "context-symbol": (MALFORMED, DECODE, r"a symbol beyond the last of 3 levels"),
    "context-same": (MALFORMED, DECODE, r"two levels of the same exponent and sign"),
    "context-size": (MALFORMED, DECODE, r"levels are not multiples of a step size above 0"),
    "context-zero": (MALFORMED, DECODE, r"a stream of a context code that ends with a byte of .*"),
    "context-late": (MALFORMED, DECODE, r"bytes that go on after 10 elements"),
    "context-beyond": (MALFORMED, DECODE, r"100 more bytes of 'c', only 4 left"),
    "context-list": (MALFORMED, DECODE, r"1 unread bytes of a list of sizes at the end"),
    "context-units": (MALFORMED, DECODE, r"decisions for 3 elements"),
    "context-other": (TRACK, r"a track of digest 27c37dedef7d51c67317e09f336629e7", r"\w{32}"),
    "edit-number": (MALFORMED, DECODE, r"value 0: an edit with '0 00 1 1' instead .*"),
    "edit-early": (MALFORMED, DECODE, r"value 0: an edit .* ends within splice 1"),
    "edit-base": (MALFORMED, r"a structure and its values", r".* an edit is among them"),
    "steps-levels": (MALFORMED, DECODE, r"0 levels, at most 32767 are allowed"),
    "steps-none": (MALFORMED, DECODE, r"levels are not multiples of a step size above 0"),
    "steps-negative": (MALFORMED, DECODE, r"levels are not multiples of a step size above 0"),
    "steps-nan": (MALFORMED, DECODE, r"levels that are not zero, then finite numbers"),
    "steps-beyond": (MALFORMED, DECODE, r"levels that are not zero, then finite numbers"),
    "steps-table": (MALFORMED, DECODE, r"1 classes of runs with 4096 symbols"),
    "steps-symbol": (MALFORMED, DECODE, r"a symbol beyond the last of 4 levels"),
    "steps-sent": (MALFORMED, r"tables \[alphabet, symbols.*", r"2 classes of runs with 2048 .*"),
    "residual-lossy": (MALFORMED, "arrays of exact tensors", "'d/w'"),
    "residual-whole": (MALFORMED, DECODE, r"a residual of 'n', which is also stored whole"),
    "residual-contexts": (MALFORMED, DECODE, r"5 contexts, at most 4 are allowed"),
    "residual-no-contexts": (MALFORMED, DECODE, r"0 contexts, at most 4 are allowed"),
    "residual-bounds": (MALFORMED, DECODE, r"bounds of contexts are not rising exponents"),
    "residual-bound-0": (MALFORMED, DECODE, r"bounds of contexts are not rising exponents"),
    "residual-dtype": (MALFORMED, DECODE, r"d/n are int64 of 1 dimensions"),
    "residual-levels": (MALFORMED, DECODE, r"506 levels, of 2 to 505"),
    "residual-no-table": (MALFORMED, DECODE, LAST.format("d/n")),
    "residual-table": (MALFORMED, DECODE, r"code lengths \[1, 2\] are not a complete prefix code"),
    "residual-no-classes": (MALFORMED, DECODE, r"a code table for an alphabet that needs none"),
    "residual-classes": (MALFORMED, DECODE, r"a payload of 85 classes"),
    "residual-units": (MALFORMED, DECODE, r"streams of 33 units"),
    "residual-no-units": (MALFORMED, DECODE, r"streams of 0 units"),
    "residual-unused-bits": (MALFORMED, DECODE, r"the unused bits after a stream are not zero"),
    "residual-left": (MALFORMED, DECODE, r"4 unread bytes of 'd/n' at the end"),
    "residual-early": (MALFORMED, DECODE, r"bits that end before 1 elements are decoded"),
    "residual-late": (MALFORMED, DECODE, r"bits that go on after 1 elements"),
    "residual-symbol": (MALFORMED, DECODE, r"a symbol beyond the last of 4 levels"),
    "residual-class": (MALFORMED, DECODE, r"bits that go on after 1 elements"),
    "residual-run": (MALFORMED, DECODE, r"bits that go on after 1 elements"),
    "residual-track": (TrackDigestError, r"a track of digest .*", r".*"),
    "layout": (MALFORMED, r"one array for each of 1 tensors: 't/w'", r"'t/n', 't/w'"),
    "arrays": (MALFORMED, "arrays of exact tensors", "'t/x'"),
    "more-twice": (MALFORMED, r"'more' in JSON", r"a key is there twice"),
    "more-empty": (MALFORMED, r"something in ASCII in 'more'", r"nothing"),
    "coded-empty": (MALFORMED, DECODE, r"an empty array 'c'"),
    "coded-words": (MALFORMED, DECODE, r"c are uint32 of 1 dimensions"),
    "coded-left": (MALFORMED, DECODE, r"4 unread bytes of 'c' at the end"),
    "table": (MALFORMED, DECODE, r"code lengths \[1, 2, 3, 4\] are not a complete prefix code"),
    "table-classes": (MALFORMED, DECODE, r"a payload of 85 classes"),
    "table-none-sent": (MALFORMED, DECODE, LAST.format("")),
    "stream-early": (MALFORMED, DECODE, r"bits that end before 10 elements are decoded"),
    "stream-late": (MALFORMED, DECODE, r"bits that go on after 10 elements"),
    "stream-sizes": (MALFORMED, DECODE, r"8 more bytes of 'c', only 4 left"),
    "stream-units": (MALFORMED, DECODE, r"streams of 0 units"),
    "stream-unused-bits": (MALFORMED, DECODE, r"the unused bits after a stream are not zero"),
    "token-late": (MALFORMED, DECODE, r"bits that go on after 10 elements"),
    "token-class": (MALFORMED, DECODE, r"bits that go on after 10 elements"),
    "token-symbol": (MALFORMED, DECODE, r"a symbol beyond the last of 4 levels"),
    "track": (TRACK, r"a track of digest 0{32}", r"27c37dedef7d51c67317e09f336629e7"),
    "track-base": (TRACK, r"a track of digest 0{32}", r"149113daf7503a5d293c0ac054eca0e5"),
}

# What stands behind a stream that does not decode, unless it is a StreamError.
CAUSES = dict.fromkeys(("residual-table", "table", "steps-table"), CodeTableError)
PAYLOAD = "residual-whole residual-contexts residual-no-contexts residual-dtype residual-classes "
PAYLOAD += "residual-no-table residual-no-classes residual-no-units residual-units residual-left "
PAYLOAD += "table-classes table-none-sent stream-sizes stream-units coded-empty coded-words "
PAYLOAD += (
    "coded-left steps-levels edit-number edit-early context-beyond context-list context-units"
)
CAUSES |= dict.fromkeys(PAYLOAD.split(), PayloadError)


def worded(problem: str) -> str:
    """What a stream's error says; numpy alone finds the same, in other words."""
    return problem if takes_compiled() else ".*"


@pytest.mark.parametrize("name", BAD)
def test_stored_bad_records(name: str) -> None:
    error, expected, actual = BAD[name]
    if expected == DECODE:
        actual = worded(actual)
    data = (GOLDEN / "bad" / f"{name}.safetensors").read_bytes()
    with pytest.raises(error, match=rf"^r: expected {expected}, found {actual}$") as caught:
        read(data)
    assert type(caught.value) is error
    if expected == DECODE:
        assert type(caught.value.__cause__) is CAUSES.get(name, StreamError)


def test_every_stored_bad_record_has_its_test() -> None:
    stored = {p.name.removesuffix(".safetensors") for p in (GOLDEN / "bad").glob("*.safetensors")}
    assert stored == {*BAD}


U8, U32, U64, F32 = np.uint8, np.uint32, np.uint64, np.float32

HUGE = "9" * 4300  # the longest integer that Python parses
DEEP = "[" * 100_000 + "]" * 100_000


OFFSETS = ["1", "[0]", "[0,1.5]", "[0,NaN]", "[0,true]", '{"1":0}', '"01"']
HEADERS = b'[] 1 null {"a":1} {"a":null} {"a":[]} {"a":{}} {"a":1,"a":1} {"\\ud800":{}}'.split()
HEADERS += b'{"__metadata__":{"lcc":1}} {"__metadata__":[],"__metadata__":[]} \xff\xfe'.split()
HEADERS += [b'{"__metadata__":{"lcc":"1 b"}}', b'{"a":1,"__metadata__":{"lcc":"1 base"}}', b""]
HEADERS += [f'{{"a":{{"data_offsets":{offsets}}}}}'.encode() for offsets in OFFSETS]
HEADERS += [DEEP.encode(), b'{"a": ' + HUGE.encode() + b"0}", "{}".encode("utf-16")]
HEADERS += ['{"a": {"data_offsets": [0, 0]}}'.encode("utf-32")]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: repr(header[:40]))
def test_hostile_headers(header: bytes) -> None:
    with pytest.raises(ForeignRecordError, match=r"^r: expected .{,500}$"):
        records.load(len(header).to_bytes(8, "little") + header, "r")


def test_lengths_that_lie() -> None:
    for end in (HUGE, "-1", "10000000000", str(2**64)):
        header = f'{{"a": {{"data_offsets": [0, {end}]}}}}'.encode()
        with pytest.raises(TruncatedRecordError, match=r"^r: expected .{,100} bytes, found"):
            records.load(len(header).to_bytes(8, "little") + header, "r")
    for length in (2**64 - 1, 16 * 2**20 + 1):
        with pytest.raises(ForeignRecordError, match=f"found {length}"):
            records.load(length.to_bytes(8, "little") + b"{}", "r")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"c":', b'"c":{"dtype":"U8","shape":[0],"data_offsets":[36,36]},"c":'),
        (b'{"__metadata__":', b'{"__metadata__":{},"__metadata__":'),
        (b'"dtype":"I64"', b'"dtype":"U8","dtype":"I64"'),
        (b'"lcc":', b'"lcc":"1 base","lcc":'),
        (b'"lcc":', b'"lcc":"1 base","\\u006ccc":'),
    ],
)
def test_keys_that_stand_twice(old: bytes, new: bytes) -> None:
    """safetensors itself would take the last one, and JSON parsers do not agree on it."""
    with pytest.raises(ForeignRecordError, match="a key is there twice"):
        records.load(reheaded(DELTA, header_of(DELTA).replace(old, new, 1)), "r")


def test_too_many_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MAX_TENSORS", 3)
    with pytest.raises(ForeignRecordError, match="at most 3 tensors, found 4"):
        records.load(BASE, "r")


def entry(*given: Any) -> list[Any]:
    """One of a layout: name, dtype, shape, lossy, and if need be library and family."""
    return [*given, *["numpy", ""][len(given) - 4 :]]


I64 = entry("n", "I64", [], False)

W = entry("w", "F32", [10], True)
WORD = "A" * 22
NO_NUMBERS = ["05", "00.5", "0.50", ".5", "1.", "1e-1", "1e-5", "1E-05", "+0.5", "0_0.5", "e"]
NO_NUMBERS += ["-0.0", "0.5.5", "0." + "1" * 30, "nan", "inf", "-inf", "0x5", "1e400", "2e"]
NO_NUMBERS += ["Infinity", "", "2" * 400 + ".0"]
NO_KEEPS = ["0", "9", "02", "+2", "-2", "9" * 500, "All", "-", "0.0", "-0.5", "1.01", "1.5"]
NO_KEEPS += ["u", "t", "d", "u2", "uall", "t1", "ut0.5", "tu0.5", "x0.5", "0.5u", "tt0.5"]
NO_KEEPS += ["t0.0", "t-1.0", "t1e-40", "t1.1e-38", "t8.6e37", "t1e+300", "d0.0", "d1.0", "d1.5"]
NO_KEEPS += ["u0.0", "u1.01", *(f"{x}{n}" for x in ("", "u", "t", "d") for n in NO_NUMBERS)]
DELTA_FIELDS: dict[str, list[Any]] = {
    "step": [None, True, 1.0, 2**63, 10**20, "01", "+1", "", "1\n"],
    "kind": ["delta", "D", "-", "b", "x", ""],
    "track": [5, "x" * 22, None, "A" * 21, "A" * 23, "/" * 22, "-"],
    "parent": ["x", None, WORD * 2, WORD[1:], "A" * 21 + "B", "-"],
    "keep": NO_KEEPS,
    "rest": ["x", "1", "1,", "1,2,3", "01,2", "1,-2", "10000,1", "0.5,1", ""],
    "scope": ["l", {}, None, "model"],
    "coder": ["z", None, "r\t", "huffman"],
    "non_finite": [None, "w", ["w"], "", {}, ["n"], ["x"], [["w"]], {"w": 1}],
}
BASE_FIELDS: dict[str, list[Any]] = {
    "step": DELTA_FIELDS["step"],
    "run": ["", 1, None, "ab" * 16, "AB" * 8],
    "parent": ["x" * 32, "A" * 21],
    "track": DELTA_FIELDS["track"],
    "replaces": [WORD * 2, 1, "-", "0" * 32],
    "kind": ["base", "d"],
    "layout": [None, 1, [[]], {"abcd": 1}, ["abcdef"], [W, W]]
    + [[entry("w", "F32", shape, True), I64] for shape in ([10.0], [-2, -5], [2**70], [2, 5])]
    + [[entry("w", dtype, [10], lossy), I64] for dtype, lossy in (("F32", 1), ("BF16", True))]
    + [[entry("w", "F99", [10], False), I64], [I64, entry("w", "F32", [10], False, "numpy", "m")]]
    + [[entry("w", "F32", [10], True, *last), I64] for last in (("jax", ""), ("numpy", 0))]
    + [[W, entry(*n)] for n in (("n", "U64", [], False), ("n", "I64", [], True))]
    + [[W, entry("\ud800", "I64", [], False)]],
}
METADATA = [
    (kind, {name: value})
    for kind, fields in (("delta", DELTA_FIELDS), ("base", BASE_FIELDS))
    for name, values in fields.items()
    for value in values
]


@pytest.mark.parametrize(("kind", "entries"), METADATA, ids=lambda x: str(x)[:50])
def test_hostile_metadata(kind: str, entries: dict[str, Any]) -> None:
    metadata, arrays = parts_of(BASE if kind == "base" else DELTA)
    with pytest.raises(MalformedRecordError, match=r"^r: expected .{,700}$"):
        read(forge(metadata | entries, arrays))


def test_missing_metadata() -> None:
    metadata, arrays = parts_of(BASE)
    assert read(forge(metadata, arrays)).kind == "base"
    for less in ({"layout"}, {"layout", "replaces"}):
        stated = {k: v for k, v in metadata.items() if k not in less}
        with pytest.raises(MalformedRecordError, match=r"found no 'layout'$"):
            read(forge(stated | {"others": 1}, arrays))
        with pytest.raises(MalformedRecordError, match=r"found no 'layout'$"):
            read(forge(stated, arrays))


LINE = f"3 dmh 1 {'B' * 21}A {'C' * 21}A 2 {WORD}"
BASE_LINE = f"3 b 0 - - {'C' * 21}A {WORD}"
FOREIGN_LINE = "an LC-Checkpoint digest in the header, found none"
NO_FORMAT = "metadata that begins with a format, found"
NO_LINES = ["", WORD, "x", LINE + " ", LINE + " x", LINE[:-1], LINE + "A", LINE[:-1] + "/"]
NO_LINES += [LINE.replace("dmh", x) for x in ('m"l', "m\\l", "m\nl", "mödel", "m" * 1000)]
NO_LINES += [json.dumps({"format": 1, "digest": "0" * 64})]
NO_FORMATS = ["", "x", "01", "1.0", "-1", "+1", "1_0", "True", "[]", "9" * 21, "delta"]
LATER = (4, 10, 99999999999999999999)
LINES = [
    *((line, FOREIGN, FOREIGN_LINE) for line in NO_LINES),
    *((f"{first} {LINE[2:]}", FOREIGN, NO_FORMAT) for first in NO_FORMATS),
    *((f"{n} {LINE[2:]}", VersionError, f"format 3, found format {n}: update") for n in LATER),
    *(
        (f"{n} {WORD}", VersionError, f"format 3, found format {n}: .*before lcviz 0.3")
        for n in "012"
    ),
    (f"6 {WORD}", VersionError, "format 3, found format 6:"),
    (f"3 {WORD}", MALFORMED, "7 words, format letters step parent track keep .*, found 2$"),
    (LINE.replace(" 2 ", " "), MALFORMED, "7 words, .*, found 6$"),
    (LINE.replace(" 2 ", " 2 x y "), MALFORMED, "7 words, .*, found 9$"),
    (LINE.replace(" 2 ", " 2 x "), MALFORMED, "two numbers of thousandths, .*"),
    (LINE.replace("dmh", "b"), MALFORMED, "track as 128 bits in base64, found '2'"),
    (BASE_LINE.replace(" b ", " B "), MALFORMED, "track as 128 bits|parent as 128 bits"),
]


@pytest.mark.parametrize(("line", "error", "message"), LINES, ids=lambda x: str(x)[:60])
def test_lines(line: str, error: type[Exception], message: str) -> None:
    assert records.load(forge(LINE, {}), "r").kind == "delta"
    assert records.load(forge(BASE_LINE, {}), "r").kind == "base"
    with pytest.raises(error, match=rf"^r: expected {message}") as caught:
        records.load(forge(line, {}), "r")
    assert type(caught.value) is error


KEEPS = "all 1 8 1.0 0.05 1e-05 2.5e-300 0.30000000000000004 2.2250738585072014e-308 u1.0 u0.05 "
KEEPS += "t0.0001 t1e-05 t2.0 t1.1754943508222875e-38 t8.507058665729121e+37"


@pytest.mark.parametrize("word", KEEPS.split())
def test_how_much_is_kept_is_one_word(word: str) -> None:
    coding = records.load(forge(LINE.replace(" 2 ", f" {word} "), {}), "r").coding
    assert coding is not None
    number = None if word in ("all", "1", "8") else float(word.lstrip("ut"))
    bits = int(word) if word in ("1", "8") else None
    budget, tolerance = (None, number) if word[0] == "t" else (number, None)
    quantizer = "uniform" if word[0] in "ut" else "exponent"
    assert coding == Coding(bits, "model", "huffman", budget, tolerance, quantizer)
    assert type(coding.bits) is type(bits)
    by_tensor = replace(coding, scope="tensor")
    place = Place(1, None, "b" * 32)
    data = records.dump_delta(place, "c" * 32, Delta((), {}, (), by_tensor))
    assert re.search(rf"3 dth 1 \S+ \S+ {re.escape(word)} ".encode(), data)
    assert records.load(data, "r").coding == by_tensor


def test_digest_in_the_wrong_place() -> None:
    """Words that could be digests are none: the last one is."""
    words = DELTA[8:].partition(b'"}')[0].partition(b'"lcc":"')[2].split()
    its, track = words[-1], words[4]
    swapped = DELTA.replace(track, b"\n").replace(its, track).replace(b"\n", its)
    assert len(swapped) == len(DELTA)
    with pytest.raises(DigestError, match=f"content of BLAKE3 {track.decode()}, found"):
        records.load(swapped, "r")


def test_metadata_comes_first() -> None:
    """Where other entries stand before it, or beside the line, there is no digest."""
    for old, new in (
        (b'{"__metadata__"', b'{ "__metadata__"'),
        (b'"lcc":', b'"a":"b","lcc":'),
        (b'"},"', b'","a":"b"},"'),
        (b'{"__metadata__"', b'{"a":{"data_offsets":[0,0]},"__metadata__"'),
    ):
        with pytest.raises(ForeignRecordError, match=FOREIGN_LINE):
            records.load(reheaded(DELTA, header_of(DELTA).replace(old, new, 1)), "r")
    inside = f'{{"a":{{"data_offsets":[0,0],"x":{{"__metadata__":{{"lcc":"{LINE}"}}}}}}}}'.encode()
    with pytest.raises(ForeignRecordError, match=FOREIGN_LINE):
        records.load(len(inside).to_bytes(8, "little") + inside, "r")
    with pytest.raises(ForeignRecordError, match=FOREIGN_LINE):
        records.load(forge("3 x", {f'{{"__metadata__":{{"lcc":"{LINE}"}}': np.zeros(1)}), "r")


MORE = [
    (b"", "'more' in JSON, found Expecting value"),
    (b"{}", "ASCII in 'more', found nothing"),
    (b"x", "'more' in JSON"),
    (b"[]", "'more' in JSON, found not an object"),
    (b"null", "found not an object"),
    (b'{"layout":[]', "'more' in JSON"),
    (b'{"layout":[]}x', "'more' in JSON"),
    (b'{"a":1,"a":1}', "found a key is there twice"),
    (b'{"a":{"b":1,"\\u0062":1}}', "is there twice"),
    (b'{"a":"\xc3\xa9"}', "something in ASCII in 'more', found other"),
    (b'{"a":"\xff"}', "'more' in JSON"),
    ('{"a":1}'.encode("utf-16-le"), "'more' in JSON"),
    (b'{"a":1}\0', "'more' in JSON"),
    (b'{"a":' + DEEP.encode() + b"}", "'more' in JSON"),
    (b'{"a":' + HUGE.encode() + b"0}", "'more' in JSON"),
]


@pytest.mark.parametrize(("text", "message"), MORE, ids=lambda x: str(x)[:40])
def test_more_that_is_none(text: bytes, message: str) -> None:
    metadata, arrays = parts_of(BASE)
    more = {"more": np.frombuffer(text, U8)}
    with pytest.raises(MalformedRecordError, match=rf"^r: expected .*{message}") as caught:
        read(forge(metadata, arrays | more))
    assert len(str(caught.value)) < 400


def test_a_base_says_who_wrote_it() -> None:
    assert records.load(BASE, "r").writer == version.WRITER == f"lcviz {codec.__version__}"
    metadata, arrays = parts_of(BASE)
    assert read(forge(metadata | {"writer": "other 1.0"}, arrays)).writer == "other 1.0"
    for writer in ("", "x" * 65, "a\nb", 2):
        with pytest.raises(MalformedRecordError, match="expected a program and its version"):
            read(forge(metadata | {"writer": writer}, arrays))


def test_more_of_another_kind() -> None:
    metadata, arrays = parts_of(BASE)
    text = json.dumps({"layout": metadata["layout"]}).encode().ljust(200)
    array = np.frombuffer(text, U8)
    assert read(forge(metadata, arrays | {"more": array}))
    for other in (array.view(np.int8), array.view(np.uint16), array.astype(bool), array[None]):
        with pytest.raises(MalformedRecordError, match="'more' as uint8 of 1 dimension"):
            read(forge(metadata, arrays | {"more": other}))


@pytest.mark.parametrize("mark", ["{", "[", ","])
def test_more_that_costs_a_parser_too_much(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a header, whatever it holds: strings have the same marks."""
    metadata, arrays = parts_of(DELTA)
    for n in (50, 51):
        monkeypatch.setitem(untrusted.MAX_MARKS, mark, 50)
        text = json.dumps({"x": mark * (n - (mark == "{"))}).encode().ljust(2000)
        data = forge(metadata, arrays | {"more": np.frombuffer(text, U8)})
        if n == 50:
            assert records.load(data, "r").more["x"]
        else:
            message = re.escape(f"at most 50 of '{mark}' in 'more', found 51")
            with pytest.raises(MalformedRecordError, match=message):
                records.load(data, "r")
    monkeypatch.setattr(untrusted, "MAX_JSON", len(text) - 1)
    monkeypatch.setitem(untrusted.MAX_MARKS, mark, 51)
    with pytest.raises(MalformedRecordError, match=f"'more' of at most {len(text) - 1} bytes"):
        records.load(data, "r")


def test_unknown_fields_are_ignored() -> None:
    for data in (BASE, DELTA):
        metadata, arrays = parts_of(data)
        assert read(forge(metadata | {"later": [1, {"a": None}]}, arrays))


def row(levels: int, classes: int, table: int, units: int = 1) -> dict[str, Any]:
    """The row of the only alphabet."""
    return {"row": (levels, classes, units, table)}


# One, two, three and four lengths of 0, for that many words.
NO_LENGTHS = np.array([0x0E, 0x16, 0x36, 0x26], U8)
NONE, NO_LEVELS = {"table": np.zeros(0, U8)}, {"levels": np.zeros(0, F32)}
NO_STREAMS = NONE | {"streams": np.zeros(0, U32), "payload": np.zeros(0, U32)}

WRONG_ROWS = [
    (row(5, 1, 2), "5 levels, at most 4 are allowed"),  # bits is 2
    (row(1, 1, 1) | {"table": NO_LENGTHS[:1]} | NO_LEVELS, "without code"),
    (row(2, 1, 1) | {"table": NO_LENGTHS[1:2], "levels": np.ones(1, F32)}, "without code"),
    (row(2, 2, 1) | {"table": NO_LENGTHS[2:3], "levels": np.ones(1, F32)}, "cannot all lack"),
    (row(1, 1, 2), "2 bytes are not a list of at most 1 code lengths"),
    (row(3, 1, 2), "2 bytes are not a list of at most 3 code lengths"),
    (row(3, 2, 2), "unused bits"),  # lengths of tokens, and a level where the payload should be
    (row(3, 0, 0) | NONE, "3 levels cannot all lack a code word"),
    (row(4, 0, 2), "a code table for an alphabet that needs none"),
    (row(4, 255, 2), "a payload of 255 classes"),
    (row(4, 254, 0) | NONE, "1 more bytes of a list of sizes, only 0 left"),
    (row(4, 1, 1) | {"table": np.array([0x10], U8)}, r"\[1, 0, 0, 0\] are not a complete prefix"),
    (row(4, 1, 23), "23 more bytes of 'c', only 22 left"),
]

PAPERS = np.frombuffer(
    struct.pack("<HBBHHI3fI", 4, 1, 1, 2, 0x5210, 18, 0.79, -0.48, 0.44, 0xF70D), U8
)

WRONG_PARTS = [
    ({"table": np.array([0x10, 0x52, 0], U8)}, "unused bits|unread bytes|more bytes"),
    (row(4, 1, 1) | {"table": NO_LENGTHS[3:]}, "4 levels cannot all lack a code word"),
    ({"levels": np.zeros(0, F32)}, "12 more bytes of 'c', only 4 left"),
    ({"levels": np.array([1, -np.inf, 1], F32)}, "zero, then finite"),
    ({"levels": np.array([1, 1, np.inf], F32)}, "zero, then finite"),
    ({"streams": np.zeros(0, U32)}, "only 0 left"),  # a level is taken for them
    ({"streams": np.array([2**32 - 1], U32)}, "536870912 more bytes of 'c', only 4 left"),
    ({"c": PAPERS[:1]}, "6 more bytes of 'c', only 1 left"),
    ({"c": PAPERS[:7]}, "2 more bytes of 'c', only 1 left"),
    ({"c": PAPERS[:8]}, "4 more bytes of 'c', only 0 left"),
    ({"c": np.tile(PAPERS, 2)}, "unused bits|28 unread bytes of 'c' at the end"),
    ({"t/n": np.array(8, np.int32)}, r"expected tensor 'n' as int64 \(\), found int32 \(\)"),
    ({"t/n": np.array([8])}, r"expected tensor 'n' as int64 \(\), found int64 \(1,\)"),
    ({"t/w": np.zeros(10, F32)}, "found .*'t/w'$"),
    ({"x" * 1000: np.zeros(1)}, "found .{,300}$"),
]


@pytest.mark.parametrize(("arrays", "message"), WRONG_ROWS + WRONG_PARTS)
def test_hostile_arrays(arrays: Arrays, message: str) -> None:
    assert read(changed({})).kind == "delta"
    with pytest.raises(MalformedRecordError, match=message) as caught:
        read(changed(arrays))
    assert str(caught.value).startswith("r: expected ")


SIZE = {"levels": np.array([0.25], F32)}  # the step size of as many levels as a row says
NO_SIZES = [(x, "of a step size above 0") for x in (-0.0,)]
NO_SIZES += [(x, "zero, then finite") for x in (np.inf, -np.inf)]
WRONG_STEPS = [
    *((SIZE | row(2**15 + 4, 1, 2) | {"levels": np.array([x], F32)}, m) for x, m in NO_SIZES),
    (SIZE | row(2**15 + 3, 1, 2), "2 bytes are not a list of at most 3 code lengths"),
    (SIZE | row(2**15 + 2**15 - 1, 1, 2), "1 classes of runs with 32766 symbols"),
    (row(2**15 + 4, 1, 2) | NO_LEVELS, "4 more bytes of 'c', only 0 left"),
    (row(2**15 + 4, 1, 2) | {"levels": np.array([0.25, 0.5], F32)}, "unused bits"),
    (SIZE | row(4, 1, 2), "more bytes of 'c', only"),  # not in steps, so there are 3 levels
]


@pytest.mark.parametrize(("arrays", "message"), WRONG_STEPS)
def test_hostile_steps(arrays: Arrays, message: str) -> None:
    good = SIZE | row(2**15 + 4, 1, 2)
    for keep in ("t0.5", "u0.5"):
        # the codes of the paper, in steps: 1 2 0 0 0 3 0 3 1 0
        with pytest.raises(TrackDigestError):
            read(changed(good, keep=keep))
        with pytest.raises(MalformedRecordError, match=message) as caught:
            read(changed(arrays, keep=keep))
        assert str(caught.value).startswith("r: expected ")


def test_the_bytes_of_the_paper() -> None:
    """What the hostile ones above are made of: level by level, but for their last bits."""
    _, arrays = parts_of(DELTA)
    assert (arrays["c"] != PAPERS).sum() <= 3
    assert arrays["c"][12:24].view(F32) == pytest.approx(PAPERS[12:24].view(F32))


def test_missing_arrays() -> None:
    metadata, arrays = parts_of(DELTA)
    for name, error, message in (
        ("c", MalformedRecordError, "6 more bytes of 'c', only 0 left"),
        ("t/n", TrackDigestError, "track"),  # what is missing has not changed
    ):
        with pytest.raises(error, match=message):
            read(forge(metadata, {k: a for k, a in arrays.items() if k != name}))


# A table for three symbols and two classes of runs, of which four tokens have words: the escape,
# symbol 1 after no zero, symbol 1 after one zero, symbol 2 after no zero.
LENGTHS = np.array([2, 1, 3, 3], U8)
WORDS = {"A": "0", "escape": "10", "0A": "110", "B": "111"}


def tokens(stream: str, table: Any = LENGTHS) -> dict[str, Any]:
    """The pieces of a delta with this stream: tokens and bits, a blank between them."""
    bits = "".join(WORDS.get(part, part) for part in stream.split(" "))
    words = [int(bits[i : i + 32][::-1], 2) for i in range(0, len(bits), 32)]
    packed = huffman.pack_lengths(np.array(table, U8))
    return row(4, 2, packed.size) | {
        "table": packed,
        "streams": np.array([len(bits)], U32),
        "payload": np.array(words, U32),
        "levels": np.array([4, 2, 1], F32),
    }


def class_of(kind: int) -> str:
    """Seven bits, lowest first."""
    return format(kind, "07b")[::-1]


@pytest.mark.parametrize(
    ("stream", "codes"),
    [
        ("", []),
        ("A", [1]),
        ("B 0A A", [2, 0, 1, 1]),
        ("A A A A A A A A A A", [1] * 10),
        (f"escape {class_of(0)} 00 escape {class_of(8)} 10", [1] + [0] * 8 + [2]),
        (f"escape {class_of(9)} 01", [0] * 9 + [3]),
    ],
)
def test_tokens(stream: str, codes: list[int], track: Track) -> None:
    """What the hostile ones below are made of."""
    assert codes_of(delta_in(changed(tokens(stream)), track)) == codes + [0] * (10 - len(codes))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (tokens(f"escape {class_of(83)} 00 {'1' * 18}"), "go on after 10 elements"),
        (tokens(" ".join([f"escape {class_of(127)} 00"] * 100)), "go on after 10 elements"),
        (tokens("A B 11"), "end before 10 elements"),  # within a word
        (tokens("A B escape"), "end before 10 elements"),  # before the class
        (tokens(f"A escape {class_of(3)}"), "end before 10 elements"),  # before the symbol
        (tokens(f"escape {class_of(20)} 00 00"), "end before 10 elements"),  # 3 extra bits
        (tokens("A", table=[1, 0, 0, 0]), "not a complete prefix code"),
        (tokens("A", table=[0, 1, 2, 2]), "the escape has no code word"),
        (tokens("A", table=[2, 1, 3, 0, 0, 0, 0, 3]), "are not a list of at most 7 code lengths"),
        (tokens("A") | row(4, 1, 3), "end before 10 elements"),  # the same words, plain
    ],
)
def test_hostile_tokens(arrays: Arrays, message: str) -> None:
    with pytest.raises(MalformedRecordError, match=rf"^r: expected streams .*{worded(message)}"):
        read(changed(arrays))


def test_one_symbol(track: Track) -> None:
    """No table and no stream: all elements have the code k - 1; nothing may be left over."""
    for k in (1, 2):
        its = NO_STREAMS | row(k, 0, 0) | {"levels": np.full(k - 1, 0.5, F32)}
        assert codes_of(delta_in(changed(its), track)) == [k - 1] * 10
        for name in ("streams", "payload", "levels"):
            left = its | {name: np.concatenate((its[name], np.zeros(1, its[name].dtype)))}
            with pytest.raises(MalformedRecordError, match=r"[48] unread bytes of 'c'"):
                read(changed(left))


def test_overflow_is_no_warning() -> None:
    """A forged level may lead beyond float32: the track is then infinite, nothing else."""
    huge = np.finfo(F32).max
    for arrays in (
        NO_STREAMS | row(2, 0, 0) | {"levels": np.array([huge], F32)},
        {"levels": np.array([huge, huge, huge], F32)},
    ):
        record = records.load(changed(arrays), "r")
        track = records.base_of(records.load(BASE, "b"))
        track.arrays["w"][...] = huge
        step = records.delta_of(record, track)
        with pytest.raises(TrackDigestError):
            records.preview_checked(record, step, track)
        with pytest.raises(TrackDigestError):
            records.apply_checked(record, step, track)


VIEWS = [[0, 2**63], [0, 2**62, 2**62], [0] + [1] * 64, [0, -1], [0, 1.5], "", [0, 2**64], [1]]


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [*((shape, "F32") for shape in VIEWS), *(([0], x) for x in ("F4", "f32", 1, "F8_E8M0"))],
)
def test_hostile_views(shape: Any, dtype: Any) -> None:
    """Headers that JSON accepts, and safetensors or numpy do not."""
    header = json.loads(header_of(DELTA))
    header["x"] = {"dtype": dtype, "shape": shape, "data_offsets": [36, 36]}
    data = reheaded(DELTA, json.dumps(header, separators=(",", ":")).encode())
    with pytest.raises(MalformedRecordError, match=r"valid safetensors|known dtype|shape that"):
        records.load(data, "r")


@given(st.binary(max_size=200))
def test_any_file(data: bytes) -> None:
    with pytest.raises(codec.RecordError, match=r"^r: expected"):
        records.load(data, "r")


NAMES = ["__metadata__", "", "\0", "../x", "/etc/passwd", "x" * 300, "é漢🙂", "t/w", "c"]
NAMES += ["more", '"\\', f"3 b 0 - - {WORD} {WORD}", f'{{"__metadata__":{{"lcc":"{LINE}"}}']
NAMES += ["a\nb", "\ufeff"]


def test_any_names(tmp_path: Path) -> None:
    state = {name: np.full(8, i, np.float32) for i, name in enumerate(NAMES)}
    state |= {f"{name}!": np.array(i) for i, name in enumerate(NAMES)}
    moved = {k: np.asarray(a * 2) for k, a in state.items()}
    moved["\0"] = np.full(8, np.nan, np.float32)
    save_all(tmp_path / "run.lcc", [state, moved], bits=None, scope="tensor")
    back = codec.restore(tmp_path / "run.lcc")
    assert list(back) == list(moved)
    for name, array in moved.items():
        assert back[name].tobytes() == array.tobytes(), name
    records_there = {"00000000.base.safetensors", "00000001.delta.safetensors"}
    assert {p.name for p in tmp_path.rglob("*")} == {"run.lcc", ".lock", *records_there}
