"""The coded alphabets of a record in one array of bytes. See FORMAT.md.

    heads      of every alphabet: row | table | bits of its streams | levels; of an arithmetic
               code: row | levels
    payloads   of every alphabet

The heads say where each payload is: a reader of one tensor fetches only the streams it needs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import PayloadError
from codec.scheme.arithmetic import matrices_of
from codec.scheme.coding import Coding
from codec.scheme.delta import Group, alphabet_name, alphabets
from codec.scheme.kernels import MAX_STREAM, UNIT
from codec.scheme.stream import (
    MAX_BATCH_LEVELS,
    MAX_LEVELS,
    MAX_UNIFORM,
    Encoded,
    check,
    numbers_of_levels,
)
from codec.scheme.tables import CodeTable
from codec.scheme.uniform import levels_of
from codec.state.tensors import Arrays, Layout, TensorSpec

ARRAY = "c"
ROW = struct.Struct("<HBBH")  # levels, classes, units of a stream, bytes of the new table
BY_STEPS = 2**15  # added to the number of levels where they are multiples of one step size
OF_BATCH = 2**14  # added to the number of levels of a batch
ARITHMETIC = 255  # in place of classes: then units and size together are the bytes of the payload
MAX_UNITS = MAX_STREAM // UNIT

Bytes = NDArray[np.uint8]


def coded(groups: Sequence[Group]) -> dict[str, list[Bytes]]:
    """Name -> parts of the array of these groups, in record order; {} without groups."""
    heads = [np.frombuffer(_head(group.encoded), np.uint8) for group in groups]
    payloads = [group.encoded.payload.view(np.uint8) for group in groups]
    return {ARRAY: heads + payloads} if groups else {}


def nbytes_of(groups: Iterable[Group]) -> int:
    """Bytes that these groups take in a record."""
    return sum(len(_head(g.encoded)) + g.encoded.payload.nbytes for g in groups)


def alphabet_bytes(arrays: Arrays) -> Pieces:
    """The array of a record's alphabets. Raises PayloadError if it is empty or not uint8 (n,)."""
    data = checked(arrays.get(ARRAY, np.empty(0, np.uint8)), np.uint8, ARRAY)
    if ARRAY in arrays and not data.size:
        raise PayloadError(f"an empty array {ARRAY!r}")
    return Pieces(data, f"bytes of {ARRAY!r}")


@dataclass(frozen=True)
class Head:
    """What a record says of an alphabet before its payload.

    Attributes:
        tensors: The tensors that share it, in the order of their elements.
        name: The alphabet's name, by which its code tables are reused.
        encoded: The encoding, without its payload.
    """

    tensors: tuple[TensorSpec, ...]
    name: str
    encoded: Encoded

    @property
    def payload_nbytes(self) -> int:
        """Bytes of the payload."""
        e = self.encoded
        return e.payload_bits // 8 if e.arithmetic else streams_nbytes(e.streams)

    def group(self, payload: Bytes) -> Group:
        """The alphabet with its payload. Raises PayloadError if they do not fit together."""
        e = self.encoded
        e = replace(e, payload=payload if e.arithmetic else payload.view(np.uint32))
        check(e, sum(t.size for t in self.tensors))
        return Group(self.tensors, e, None)


def heads_of(
    data: Pieces,
    coding: Coding,
    layout: Layout,
    non_finite: Sequence[str],
    tables: Mapping[str, CodeTable],
    columns: int = 0,
) -> tuple[Head, ...]:
    """Take the heads of all alphabets of a delta or layer.

    Args:
        data: The alphabets, from the first head on.
        coding: The record's.
        layout: The track's.
        non_finite: Lossy tensors that have no codes.
        tables: Alphabet -> the code table that it may reuse.
        columns: Steps of a layer of merged deltas, see `Encoded`; 0 for a single delta.

    Raises:
        PayloadError: The bytes do not fit together.
    """
    return tuple(
        _take_head(data, tensors, coding, tables, columns)
        for tensors in alphabets(layout, coding.scope, non_finite)
    )


def groups_of(heads: Iterable[Head], data: Pieces) -> tuple[Group, ...]:
    """Take the payload of each head. data: the alphabets, from the first payload on.

    Raises PayloadError.
    """
    return tuple(head.group(data.take(head.payload_nbytes)) for head in heads)


class Pieces:
    """A vector that is read piece by piece. elements: what they are, for messages."""

    def __init__(self, array: NDArray[Any], elements: str) -> None:
        self._array, self._elements, self._at = array, elements, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements, a view. Raises PayloadError if there are fewer."""
        if n > self.n_unread:
            raise PayloadError(f"{n} more {self._elements}, only {self.n_unread} left")
        self._at += n
        return self._array[self._at - n : self._at]

    @property
    def n_unread(self) -> int:
        """Number of elements that have not been taken yet."""
        return self._array.size - self._at

    def finish(self) -> None:
        """Raise PayloadError if there are unread elements."""
        if self.n_unread:
            raise PayloadError(f"{self.n_unread} unread {self._elements} at the end")


def checked(array: NDArray[Any], dtype: Any, name: str) -> NDArray[Any]:
    """The same array. Raises PayloadError unless it is a vector of this dtype."""
    if array.dtype != dtype or array.ndim != 1:
        raise PayloadError(f"{name} are {array.dtype} of {array.ndim} dimensions")
    return array


def aligned(data: Bytes, dtype: Any) -> NDArray[Any]:
    """Bytes as numbers of a dtype: a view, or a copy if their address is not aligned for it."""
    array = data.view(dtype)
    return array if array.flags.aligned else array.copy()


def row_of(k: int, classes: int, units: int, table: bytes) -> bytes:
    """The bytes of a row and its new code table. `take_row` reads them."""
    return ROW.pack(k, classes, units, len(table)) + table


def take_row(data: Pieces) -> tuple[int, int, int, Bytes]:
    """Levels, classes, units and packed code table of the next row. Raises PayloadError."""
    k, classes, units, nbytes = ROW.unpack(data.take(ROW.size).tobytes())
    return k, classes, units, data.take(nbytes)


def streams_nbytes(streams: NDArray[np.uint32]) -> int:
    """Bytes of a payload of streams. streams: the bits of each."""
    return 4 * int(((streams.astype(np.int64) + 31) >> 5).sum())


def _head(e: Encoded) -> bytes:
    """The head of an alphabet, which `_take_head` reads."""
    k = e.k + (BY_STEPS if e.uniform else OF_BATCH if e.is_batch else 0)
    levels = e.stored_levels.tobytes()
    if e.is_batch:
        levels = numbers_of_levels(e.levels).tobytes() + levels
    if e.arithmetic:
        nbytes = e.payload.size
        return ROW.pack(k, ARITHMETIC, nbytes & 255, nbytes >> 8) + levels
    table = b"" if e.table is None or e.cached else e.table.packed.tobytes()
    units, remainder = divmod(e.stream_elements, UNIT)
    assert remainder == 0, "streams are made of whole units"
    row = row_of(k, e.table.classes if e.table else 0, units, table)
    return row + e.streams.tobytes() + levels


def _take_head(
    data: Pieces,
    tensors: tuple[TensorSpec, ...],
    coding: Coding,
    tables: Mapping[str, CodeTable],
    columns: int,
) -> Head:
    """Take the head of the alphabet that these tensors share. See `heads_of`."""
    name = alphabet_name(coding.scope, tensors)
    bits = coding.bits if tensors[0].family.is_model else None
    n = sum(t.size for t in tensors)
    row = _Row.take(data, len(tensors) > 1 and tensors[0].alone, bits, columns)
    table = row.take_table(data, tables.get(name), name)
    streams = row.take_streams(data, n)
    encoded = Encoded(
        payload=np.empty(0, np.uint32),
        streams=streams,
        stream_elements=row.units * UNIT,
        table=table,
        cached=table is not None and row.table_nbytes == 0,
        saved_bits=0,
        levels=row.take_levels(data, columns, len(tensors)),
        shape=tensors[0].shape if len(tensors) == 1 else (n,),
        bits=bits,
        coder=coding.coder,
        uniform=row.uniform,
        matrices=() if row.arithmetic_nbytes is None else matrices_of(tensors),
    )
    return Head(tensors, name, encoded)


@dataclass(frozen=True)
class _Row:
    """The beginning of a head, which says what follows it.

    Attributes:
        k: Number of levels.
        uniform: Whether the levels are multiples of one step size.
        is_batch: Whether each tensor has levels of its own.
        classes: Classes of the code table; 0 if the payload needs none.
        units: Units of a stream.
        table_nbytes: Bytes of the new code table; 0 if there is none.
        arithmetic_nbytes: Bytes of the arithmetic code; None for other payloads.
    """

    k: int
    uniform: bool
    is_batch: bool
    classes: int
    units: int
    table_nbytes: int
    arithmetic_nbytes: int | None = None

    @classmethod
    def take(cls, data: Pieces, may_be_batch: bool, bits: int | None, columns: int) -> _Row:
        """Take the next row. Raises PayloadError.

        bits: of priority promotion, or None. columns: see `heads_of`.
        """
        k, classes, units, nbytes = ROW.unpack(data.take(ROW.size).tobytes())
        uniform = k >= BY_STEPS and columns <= 1
        is_batch = may_be_batch and OF_BATCH <= k < BY_STEPS
        k -= BY_STEPS if uniform else OF_BATCH if is_batch else 0
        most = MAX_UNIFORM if uniform else MAX_LEVELS if bits is None or columns else 2**bits
        if uniform and bits is not None:
            raise PayloadError(f"uniform steps in a record of {bits} bits")
        if not 1 <= k <= most:
            raise PayloadError(f"{k} levels, at most {most} are allowed")
        if classes == ARITHMETIC:
            return cls(k, uniform, is_batch, 0, 1, 0, arithmetic_nbytes=units | nbytes << 8)
        if not 1 <= units <= MAX_UNITS:
            raise PayloadError(f"streams of {units} units")
        return cls(k, uniform, is_batch, classes, units, nbytes)

    def take_table(
        self, data: Pieces, sent_last: CodeTable | None, alphabet: str
    ) -> CodeTable | None:
        """The new code table, or the one sent last; None if none is needed. Raises PayloadError."""
        packed = data.take(self.table_nbytes)
        if not self.classes:
            if packed.size:
                raise PayloadError("a code table for an alphabet that needs none")
            return None
        if packed.size:
            return CodeTable.unpacked(packed, self.k - 1, self.classes, self.uniform)
        if sent_last is None or sent_last.classes != self.classes:
            raise PayloadError(f"the code table sent last for {alphabet!r}, but none was")
        return sent_last

    def take_streams(self, data: Pieces, n: int) -> NDArray[np.uint32]:
        """The bits of each stream of n elements. Raises PayloadError."""
        if self.arithmetic_nbytes is not None:
            return np.array([8 * self.arithmetic_nbytes], np.uint32)
        n_streams = -(-n // (self.units * UNIT)) if self.classes else 0
        return aligned(data.take(4 * n_streams), np.uint32)

    def take_levels(self, data: Pieces, columns: int, n_tensors: int) -> NDArray[np.float32]:
        """The levels as in `Encoded`. Raises PayloadError."""
        if self.is_batch:
            return _take_batch_levels(data, self.k, max(columns, 1), n_tensors)
        levels = np.zeros((self.k, columns) if columns else self.k, np.float32)
        if not self.uniform:
            stored = aligned(data.take(levels[1:].nbytes), np.float32)
            levels[1:] = stored.reshape(levels[1:].shape)
        elif self.k > 1:
            (step_size,) = aligned(data.take(4), np.float32)
            levels[:] = levels_of(step_size, self.k).reshape(levels.shape)
        return levels


def _take_batch_levels(data: Pieces, k: int, columns: int, n_tensors: int) -> NDArray[np.float32]:
    """The levels of a batch: float32 (k, columns, n_tensors). Raises PayloadError."""
    if k * columns * n_tensors > MAX_BATCH_LEVELS:
        raise PayloadError(f"{k * columns * n_tensors} levels of a batch, too many")
    dtype = np.dtype(np.uint8 if k <= 256 else np.uint16)
    numbers = aligned(data.take(n_tensors * dtype.itemsize), dtype).astype(np.int64)
    if numbers.max() != k - 1:
        raise PayloadError(f"{k} levels of a batch whose tensors have up to {numbers.max()}")
    levels = np.zeros((n_tensors, k, columns), np.float32)
    stored = aligned(data.take(4 * int(numbers.sum()) * columns), np.float32)
    levels[:, 1:][np.arange(1, k) <= numbers[:, None]] = stored.reshape(-1, columns)
    return levels.transpose(1, 2, 0)
