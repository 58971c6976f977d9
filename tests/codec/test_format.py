"""FORMAT.md: its example byte by byte, and a decoder written from it alone."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import codec
from codec import errors
from codec import record as records
from codec.state import CARRIER

Arrays = dict[str, np.ndarray]
TEXT = (Path(codec.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")

DTYPES = "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 C64 BOOL I64 I32 I16 I8 U64 U32 U16 U8"


def example() -> bytes:
    """The bytes of the hex block; each line's offset must be where it stands."""
    (block,) = re.findall(r"```hex\n(.*?)```", TEXT, re.DOTALL)
    data = b""
    for line in block.splitlines():
        offset, hexadecimal, _note = re.split(r"  +", line, maxsplit=2)
        assert int(offset, 16) == len(data)
        data += bytes.fromhex(hexadecimal)
    return data


# The decoder: plain Python, one function a section of FORMAT.md, errors left to happen.


def container(data: bytes) -> tuple[dict[str, Any], dict[str, tuple[str, list[int], bytes]]]:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length].decode())
    metadata = json.loads(header.pop("__metadata__")["lcc"])
    arrays, end = {}, 0
    for name, view in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, stop = view["data_offsets"]
        assert begin == end, "no gaps"
        arrays[name] = (view["dtype"], view["shape"], data[8 + length + begin : 8 + length + stop])
        end = stop
    assert 8 + length + end == len(data)
    return metadata, arrays


def file_digest(data: bytes) -> str:
    at = data.index(b'\\"digest\\":\\"') + len(b'\\"digest\\":\\"')
    return hashlib.sha256(data[:at] + b"0" * 64 + data[at + 64 :]).hexdigest()


def track_digest(layout: list[Any], track: dict[str, bytearray]) -> str:
    text = b"".join(
        json.dumps([name, dtype, shape]).encode() + track[name] for name, dtype, shape, _ in layout
    )
    return xxhash.xxh3_128_hexdigest(text)


def numbers(kind: str, array: tuple[str, list[int], bytes]) -> list[Any]:
    size = struct.calcsize("<" + kind)
    return [struct.unpack_from("<" + kind, array[2], i)[0] for i in range(0, len(array[2]), size)]


def code_words(lengths: list[int]) -> dict[str, int]:
    words, value, before = {}, -1, 0
    for length, symbol in sorted((n, i) for i, n in enumerate(lengths) if n):
        value = (value + 1) << (length - before) if before else 0
        words[format(value, f"0{length}b")] = symbol
        before = length
    assert not words or sum(2.0 ** -len(w) for w in words) == 1
    return words


def codes_of(payload: bytes, bits: int, lengths: list[int], n: int) -> list[int]:
    if not any(lengths):
        assert len(lengths) in (1, 2)
        assert bits == 0
        return [len(lengths) - 1] * n
    stream = "".join(str(byte >> i & 1) for byte in payload for i in range(8))
    assert "1" not in stream[bits:]
    words, found, word = code_words(lengths), [], ""
    for bit in stream[:bits]:
        word += bit
        if word in words:
            found.append(words[word])
            word = ""
    assert word == ""
    assert len(found) == n
    return found


def base_of(data: bytes) -> tuple[dict[str, Any], dict[str, bytearray]]:
    metadata, arrays = container(data)
    assert metadata["digest"] == file_digest(data)
    track = {name: bytearray(arrays["t/" + name][2]) for name, *_ in metadata["layout"]}
    assert metadata["track"] == track_digest(metadata["layout"], track)
    return metadata, track


def advance(data: bytes, parent: str, layout: list[Any], track: dict[str, bytearray]) -> str:
    metadata, arrays = container(data)
    assert metadata["digest"] == file_digest(data)
    assert metadata["parent"] == parent
    mine = [(n, s) for n, _, s, lossy in layout if lossy and n not in metadata["non_finite"]]
    groups = [mine] if metadata["scope"] == "model" else [[t] for t in mine]
    sizes = numbers("Q", arrays["sizes"])
    lengths = numbers("B", arrays["lengths"])
    levels = numbers("f", arrays["levels"])
    payload = arrays["payload"][2]
    for group, k, bits in zip([g for g in groups if g], sizes[::2], sizes[1::2], strict=True):
        own = [0.0, *levels[: k - 1]]
        shapes = [int(np.prod(shape)) for _, shape in group]
        codes = codes_of(payload[: (bits + 7) // 8], bits, lengths[:k], sum(shapes))
        for (name, _), size in zip(group, shapes):
            for i in range(size):
                code = codes.pop(0)
                if code:  # doubles hold the exact sum; packing rounds it once
                    (value,) = struct.unpack_from("<f", track[name], 4 * i)
                    struct.pack_into("<f", track[name], 4 * i, value + own[code])
        lengths, levels, payload = lengths[k:], levels[k - 1 :], payload[(bits + 7) // 8 :]
    assert (lengths, levels, payload) == ([], [], b"")
    for name, array in arrays.items():
        if name.startswith("t/"):
            track[name[2:]][:] = array[2]
    assert metadata["track"] == track_digest(layout, track)
    return str(metadata["digest"])


def test_example_is_the_golden_record(golden: Path) -> None:
    assert example() == (golden / "run.lcc" / "00000001.delta.safetensors").read_bytes()


def test_example_says_what_stands_there() -> None:
    metadata, arrays = container(example())
    assert (metadata["format"], metadata["bits"], metadata["kind"]) == (1, 2, "delta")
    assert numbers("Q", arrays["sizes"]) == [4, 18]
    assert numbers("q", arrays["t/n"]) == [8]
    assert [round(v, 2) for v in numbers("f", arrays["levels"])] == [0.79, -0.48, 0.44]
    lengths = numbers("B", arrays["lengths"])
    assert code_words(lengths) == {"0": 0, "10": 1, "110": 2, "111": 3}
    assert codes_of(arrays["payload"][2], 18, lengths, 10) == [1, 2, 0, 0, 0, 3, 0, 3, 1, 0]
    notes = re.findall(r"^0[0-9a-f]{3}  (?:[0-9a-f]{2} ?)+ +(\S.*)$", TEXT, re.MULTILINE)
    assert notes[0] == "length of the header: 648"
    assert notes[-1] == "payload: 1 0 1 1 0 0 0 0 | 1 1 1 0 1 1 1 1 | 0 0"


def test_independent_decoder_on_the_example(golden: Path) -> None:
    metadata, track = base_of((golden / "run.lcc" / "00000000.base.safetensors").read_bytes())
    advance(example(), metadata["digest"], metadata["layout"], track)
    expected = codec.restore(golden / "run.lcc")
    assert {k: bytes(v) for k, v in track.items()} == {k: a.tobytes() for k, a in expected.items()}


@settings(max_examples=25)
@given(
    st.sampled_from([None, 1, 2, 3, 8]), st.sampled_from(["model", "tensor"]),
    st.integers(0, 10**6), st.sampled_from([None, "w", "b"]),
)  # fmt: skip
def test_independent_decoder_agrees(
    random_states: Callable[..., list[Arrays]], bits: int | None, scope: str, seed: int,
    broken: str | None,
) -> None:  # fmt: skip
    """On whole chains of every numpy dtype, with NaN in one step, bit by bit."""
    first, *others = random_states(4, seed)
    if broken:
        others[1][broken] = np.full_like(others[1][broken], np.nan)
    tracker = codec.Tracker(first, bits, scope)
    metadata, track = base_of(records.dump_base(0, tracker.layout, tracker.state))
    parent = metadata["digest"]
    for i, state in enumerate(others, 1):
        step = tracker.step(state)
        digest = records.track_digest(tracker.layout, tracker.state)
        data = records.dump_delta(i, parent, digest, step)
        parent = advance(data, parent, metadata["layout"], track)
        for name, array in tracker.state.items():
            assert bytes(track[name]) == array.tobytes()


def test_every_field_is_described(golden: Path) -> None:
    for path in (golden / "run.lcc").iterdir():
        metadata, arrays = container(path.read_bytes())
        kind = metadata["kind"]
        for field in metadata:
            assert re.search(rf"^\| `{field}` \| (both|{kind}) \|", TEXT, re.MULTILINE), field
        for name in arrays:
            assert f"| `{name}` |" in TEXT or name.startswith("t/")
    for dtype in DTYPES.split():
        assert re.search(rf"\b{dtype}\b", TEXT)
    assert set(DTYPES.split()) == set(CARRIER)


def test_errors_and_caps_are_described() -> None:
    for name in ("ForeignRecordError", "TruncatedRecordError", "VersionError", "DigestError",
                 "MalformedRecordError", "TrackDigestError", "ParentError", "ArchiveError",
                 "CodeTableError", "StreamError"):  # fmt: skip
        assert name in TEXT
        assert hasattr(errors, name)
    assert f"version {records.FORMAT}\n" in TEXT
    assert f"{records.MAX_HEADER // 2**20} MiB" in TEXT
    assert f"{records.MAX_TENSORS:,} header entries" in TEXT
    assert f"{records.MAX_LEVELS} levels" in TEXT
    assert f"code words of {codec.huffman.MAX_LENGTH} bits" in TEXT
    assert records.MAX_STEP == 2**63 - 1


def test_the_decoder_notices_damage(golden: Path) -> None:
    """So that its agreement above means something."""
    data = example()
    with pytest.raises(AssertionError):
        advance(data[:-1] + b"\x01", "", [], {})
