"""Flipped bits and wrong lengths of the golden chains' records: a sample, or every one."""

from __future__ import annotations

import contextlib
import random

import pytest

import codec
from codec.errors import TruncatedRecordError
from codec.record import record as records
from tests.codec.chains import GOLDEN

RECORDS = {f"{p.parent.name}/{p.stem}": p for p in sorted(GOLDEN.glob("*.lcc/*.safetensors"))}
MOST = [30, pytest.param(10**9, marks=pytest.mark.exhaustive)]  # of one record


def places(n: int, most: int) -> list[int]:
    """So many places of n, which are the same every time."""
    return random.Random(n).sample(range(n), min(n, most))


@pytest.mark.parametrize("most", MOST, ids=["few", "all"])
@pytest.mark.parametrize("name", RECORDS)
def test_a_flipped_bit_is_refused(name: str, most: int) -> None:
    data, unnoticed = bytearray(RECORDS[name].read_bytes()), []
    for position in places(8 * len(data), most):
        data[position // 8] ^= 1 << position % 8
        with contextlib.suppress(codec.RecordError):
            records.load(bytes(data), "r")
            unnoticed.append(position)
        data[position // 8] ^= 1 << position % 8
    assert unnoticed == []
    assert records.load(bytes(data), "r").kind == name.rpartition(".")[2]


@pytest.mark.parametrize("most", MOST, ids=["few", "all"])
@pytest.mark.parametrize("name", RECORDS)
def test_a_truncation_is_refused(name: str, most: int) -> None:
    data = RECORDS[name].read_bytes()
    for length in places(len(data), most):
        with pytest.raises(TruncatedRecordError, match=f"found {length}$"):
            records.load(data[:length], "r")
    with pytest.raises(TruncatedRecordError, match=f"{len(data)} bytes, found {len(data) + 1}"):
        records.load(data + b"\0", "r")
