"""The coded alphabets of a record: one array of words that holds one after another. See FORMAT.md.

    row: k, classes, units, bytes | table | zeros | bits of its streams | levels | payload

Not done here: which tensors share an alphabet (track), what else a record holds (record, merged).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import PayloadError
from codec.scheme.coding import Coding
from codec.scheme.delta import Group, alphabet_name, alphabets, family_bits
from codec.scheme.kernels import MAX_STREAM, UNIT
from codec.scheme.stream import MAX_LEVELS, Encoded, check
from codec.scheme.tables import CodeTable
from codec.state.tensors import Arrays, Layout

ARRAY = "coded"
WORD = 4  # bytes
ROW = struct.Struct("<HBBH")  # levels, classes, units of a stream, bytes of the new table
HEAD = ROW.size + WORD - 1  # bytes that an alphabet takes at most besides those of its encoding
MAX_UNITS = MAX_STREAM // UNIT


def join(groups: Sequence[Group]) -> Arrays:
    """Name -> array, of groups in record order; nothing where there are none."""
    parts = [part for group in groups for part in _parts(group.encoded)]
    return {ARRAY: np.concatenate(parts)} if parts else {}


class Coded:
    """Takes the alphabets of a record off its array, one after another.

    array: uint32 (words), None if there is none. coding: that of the record.
    Raises PayloadError for an array of another kind, or one that is empty.
    """

    def __init__(self, array: NDArray[Any] | None, coding: Coding) -> None:
        self._coding = coding
        words = np.empty(0, np.uint32) if array is None else taken(array, np.uint32, ARRAY)
        if array is not None and not words.size:
            raise PayloadError(f"an empty array {ARRAY!r}")
        self._words = Cut(words, f"words of {ARRAY!r}")

    def groups(
        self,
        layout: Layout,
        non_finite: Sequence[str],
        sent: Mapping[str, CodeTable],
        columns: int = 0,
    ) -> Iterator[Group]:
        """One group an alphabet. sent: tables that may be used again. columns: see `Encoded`.

        Raises PayloadError for what does not fit together.
        """
        for tensors in alphabets(layout, self._coding.scope, non_finite):
            name = alphabet_name(self._coding.scope, tensors)
            bits = family_bits(tensors, self._coding.bits)
            n = sum(t.size for t in tensors)
            encoded = self._encoded(n, bits, name, sent, columns)
            if len(tensors) == 1:
                encoded = replace(encoded, shape=tensors[0].shape)
            check(encoded, n)
            yield Group(tensors, encoded, None)

    def finish(self) -> None:
        """Everything must be used up."""
        self._words.finish()

    def _encoded(
        self, n: int, bits: int | None, name: str, sent: Mapping[str, CodeTable], columns: int
    ) -> Encoded:
        (k, classes, units, _), packed = self._head()
        most = MAX_LEVELS if bits is None or columns else 2**bits
        if not 1 <= k <= most:
            raise PayloadError(f"{k} levels, at most {most} are allowed")
        table, cached = None, classes > 0 and packed.size == 0
        if cached:
            table = sent.get(name)
            if table is None or table.classes != classes:
                raise PayloadError(f"the code table sent last for {name!r}, but none was")
        elif classes:
            table = CodeTable.unpacked(packed, k - 1, classes)
        elif packed.size:
            raise PayloadError("a code table for an alphabet that needs none")
        if not 1 <= units <= MAX_UNITS:
            raise PayloadError(f"streams of {units} units")
        streams = self._words.take(-(-n // (units * UNIT)) if table else 0)
        shape = (k - 1, columns) if columns else (k - 1,)
        levels = self._words.take((k - 1) * max(columns, 1)).view(np.float32).reshape(shape)
        return Encoded(
            payload=self._words.take(int(((streams.astype(np.int64) + 31) >> 5).sum())),
            streams=streams,
            stream_elements=units * UNIT,
            table=table,
            cached=cached,
            saved_bits=0,
            levels=np.concatenate((np.zeros_like(levels, shape=(1, *shape[1:])), levels)),
            shape=(n,),
            bits=bits,
            coder=self._coding.coder,
        )

    def _head(self) -> tuple[tuple[int, ...], NDArray[np.uint8]]:
        """The next row, and the bytes of its new table."""
        first = self._words.take(_words(ROW.size)).tobytes()
        row = ROW.unpack_from(first)
        nbytes = row[-1]
        rest = self._words.take(_words(ROW.size + nbytes) - _words(ROW.size)).tobytes()
        table = first[ROW.size :] + rest
        if any(table[nbytes:]):
            raise PayloadError("zeros after a code table, but others are there")
        return row, np.frombuffer(table[:nbytes], np.uint8)


class Cut:
    """Takes one piece after another off an array. what: its elements, for messages."""

    def __init__(self, array: NDArray[Any], what: str) -> None:
        self._array, self._what, self._at = array, what, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements, a view."""
        if n > self._array.size - self._at:
            left = self._array.size - self._at
            raise PayloadError(f"{n} more {self._what}, only {left} left")
        self._at += n
        return self._array[self._at - n : self._at]

    def finish(self) -> None:
        """Nothing may be left."""
        if left := self._array.size - self._at:
            raise PayloadError(f"the end, but {left} {self._what} left")


def taken(array: NDArray[Any], dtype: Any, name: str, ndim: int = 1) -> NDArray[Any]:
    """An array of a record; raises PayloadError unless it is of this kind."""
    if array.dtype != dtype or array.ndim != ndim:
        raise PayloadError(f"{name} are {array.dtype} of {array.ndim} dimensions")
    return array


def _parts(e: Encoded) -> list[NDArray[np.uint32]]:
    """The words of one alphabet, in pieces."""
    table = b"" if e.table is None or e.cached else e.table.packed.tobytes()
    units, rest = divmod(e.stream_elements, UNIT)
    assert rest == 0, "streams are made of whole units"
    head = ROW.pack(e.k, e.table.classes if e.table else 0, units, len(table)) + table
    head += bytes(-len(head) % WORD)
    levels = e.levels[1:].reshape(-1).view(np.uint32)
    return [np.frombuffer(head, np.uint32), e.streams, levels, e.payload]


def _words(nbytes: int) -> int:
    return -(-nbytes // WORD)
