"""Every bit and every length of the golden chains' records."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

import codec
from codec.errors import TruncatedRecordError
from codec.record import record as records

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDS = {f"{p.parent.name}/{p.stem}": p for p in sorted(GOLDEN.glob("*.lcc/*.safetensors"))}


@pytest.mark.parametrize("name", RECORDS)
def test_every_flipped_bit_is_refused(name: str) -> None:
    data, unnoticed = bytearray(RECORDS[name].read_bytes()), []
    for position in range(8 * len(data)):
        data[position // 8] ^= 1 << position % 8
        with contextlib.suppress(codec.RecordError):
            records.load(bytes(data), "r")
            unnoticed.append(position)
        data[position // 8] ^= 1 << position % 8
    assert unnoticed == []
    assert records.load(bytes(data), "r").kind == name.rpartition(".")[2]


@pytest.mark.parametrize("name", RECORDS)
def test_every_truncation_is_refused(name: str) -> None:
    data = RECORDS[name].read_bytes()
    for length in range(len(data)):
        with pytest.raises(TruncatedRecordError, match=f"found {length}$"):
            records.load(data[:length], "r")
    with pytest.raises(TruncatedRecordError, match=f"{len(data)} bytes, found {len(data) + 1}"):
        records.load(data + b"\0", "r")
