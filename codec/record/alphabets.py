"""The coded alphabets of a record, one after another in one array of words. See FORMAT.md.

row: k, classes, units, bytes | table | zeros | bits of its streams | levels | payload
or:  k, ARITHMETIC, bytes | step size | payload | zeros

The levels of a batch: how many each tensor has | zeros | the levels, tensor by tensor.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from codec.state.tensors import Arrays, Layout

from .header import COMPACT, FORMAT, UNIFORM

ARRAY = "coded"
WORD = 4  # bytes
ROW = struct.Struct("<HBBH")  # levels, classes, units of a stream, bytes of the new table
BY_STEPS = 2**15  # added to the number of levels where they are multiples of one step size
OF_BATCH = 2**14  # added to the number of levels of a batch
ARITHMETIC = 255  # instead of a number of classes
HEAD = ROW.size + WORD - 1  # bytes at most of an alphabet besides its encoding
MAX_UNITS = MAX_STREAM // UNIT


def coded(groups: Sequence[Group]) -> dict[str, list[NDArray[np.uint32]]]:
    """Name -> parts of the array of these groups, in record order; nothing where there are none."""
    parts = [part for group in groups for part in _parts(group.encoded)]
    return {ARRAY: parts} if parts else {}


def nbytes_of(groups: Iterable[Group]) -> int:
    """Bytes that these groups take in a record."""
    return sum(part.nbytes for group in groups for part in _parts(group.encoded))


def words_of(arrays: Arrays) -> Pieces:
    """The words of a record's alphabets. Raises PayloadError if the array is of another kind."""
    if ARRAY not in arrays:
        return Pieces(np.empty(0, np.uint32), f"words of {ARRAY!r}")
    words = checked(arrays[ARRAY], np.uint32, ARRAY)
    if not words.size:
        raise PayloadError(f"an empty array {ARRAY!r}")
    return Pieces(words, f"words of {ARRAY!r}")


def groups_of(
    words: Pieces,
    coding: Coding,
    layout: Layout,
    non_finite: Sequence[str],
    tables: Mapping[str, CodeTable],
    columns: int = 0,
    form: int = FORMAT,
) -> Iterator[Group]:
    """Take one group after another off the words.

    Args:
        words: From where the first alphabet begins.
        coding: That of the record.
        layout: That of the track.
        non_finite: Lossy tensors that have no codes.
        tables: Alphabet -> the code table it may use again.
        columns: Steps of a layer of merged deltas, see `Encoded`; 0 for a single delta.
        form: The record's format.

    Raises:
        PayloadError: The words do not fit together.
    """
    for tensors in alphabets(layout, coding.scope, non_finite):
        name = alphabet_name(coding.scope, tensors)
        bits = None if tensors[0].family else coding.bits
        n = sum(t.size for t in tensors)
        shape = tensors[0].shape if len(tensors) == 1 else (n,)
        (k, classes, units), packed, code = _head(words, form >= COMPACT)
        most = MAX_LEVELS if bits is None or columns else 2**bits
        is_batch = tensors[0].alone and len(tensors) > 1 and k & ~(OF_BATCH - 1) == OF_BATCH
        k -= OF_BATCH * is_batch
        by_steps = form >= UNIFORM and k >= BY_STEPS and columns <= 1
        if by_steps:
            k, most = k - BY_STEPS, MAX_UNIFORM
        if not 1 <= k <= most:
            raise PayloadError(f"{k} levels, at most {most} are allowed")
        if code is not None:
            if not by_steps:
                raise PayloadError("an arithmetic code of levels that are no uniform steps")
            size = code[:WORD].copy().view(np.float32)[0]
            levels = levels_of(size, k)
            encoded = Encoded(
                payload=code[WORD:],
                streams=np.array([8 * (code.size - WORD)], np.uint32),
                stream_elements=UNIT,
                table=None,
                cached=False,
                saved_bits=0,
                levels=levels.reshape(k, 1) if columns else levels,
                shape=shape,
                bits=bits,
                coder=coding.coder,
                uniform=True,
                matrices=matrices_of(tensors),
            )
            check(encoded, n)
            yield Group(tensors, encoded, None)
            continue
        cached = classes > 0 and packed.size == 0
        table = tables.get(name) if cached else None
        if cached and (table is None or table.classes != classes):
            raise PayloadError(f"the code table sent last for {name!r}, but none was")
        if classes and not cached:
            table = CodeTable.unpacked(packed, k - 1, classes, by_steps)
        if packed.size and not classes:
            raise PayloadError("a code table for an alphabet that needs none")
        if not 1 <= units <= MAX_UNITS:
            raise PayloadError(f"streams of {units} units")
        streams = words.take(-(-n // (units * UNIT)) if table else 0)
        if is_batch:
            levels = _batch_levels(words, k, max(columns, 1), len(tensors))
        else:
            levels = _levels(words, k, max(columns, 1), by_steps)
        encoded = Encoded(
            payload=words.take(int(((streams.astype(np.int64) + 31) >> 5).sum())),
            streams=streams,
            stream_elements=units * UNIT,
            table=table,
            cached=cached,
            saved_bits=0,
            levels=levels if columns or is_batch else levels.reshape(-1),
            shape=shape,
            bits=bits,
            coder=coding.coder,
            uniform=by_steps,
        )
        check(encoded, n)
        yield Group(tensors, encoded, None)


class Pieces:
    """An array that is taken piece after piece. what: its elements, for messages."""

    def __init__(self, array: NDArray[Any], what: str) -> None:
        self._array, self._what, self._at = array, what, 0

    def take(self, n: int) -> NDArray[Any]:
        """The next n elements, a view. Raises PayloadError if there are fewer."""
        if n > self.left:
            raise PayloadError(f"{n} more {self._what}, only {self.left} left")
        self._at += n
        return self._array[self._at - n : self._at]

    @property
    def left(self) -> int:
        """How many elements are left."""
        return self._array.size - self._at

    def finish(self) -> None:
        """Raise PayloadError if anything is left."""
        if left := self.left:
            raise PayloadError(f"the end, but {left} {self._what} left")


def checked(array: NDArray[Any], dtype: Any, name: str) -> NDArray[Any]:
    """The array. Raises PayloadError unless it is a vector of this dtype."""
    if array.dtype != dtype or array.ndim != 1:
        raise PayloadError(f"{name} are {array.dtype} of {array.ndim} dimensions")
    return array


def _parts(e: Encoded) -> list[NDArray[np.uint32]]:
    """The words of one alphabet, in pieces."""
    if e.arithmetic:
        size = e.payload.size
        head = ROW.pack(e.k + BY_STEPS, ARITHMETIC, size & 255, size >> 8)
        whole = head + e.stored_levels.tobytes() + e.payload.tobytes()
        return [np.frombuffer(whole + bytes(-len(whole) % WORD), np.uint32)]
    table = b"" if e.table is None or e.cached else e.table.packed.tobytes()
    units, rest = divmod(e.stream_elements, UNIT)
    assert rest == 0, "streams are made of whole units"
    k, classes = e.k + BY_STEPS * e.uniform, e.table.classes if e.table else 0
    levels = [e.stored_levels.view(np.uint32)]
    if e.is_batch:
        k += OF_BATCH
        levels = [numbers_of_levels(e.levels), *levels]
    return [row_of(k, classes, units, table), e.streams, *levels, e.payload.view(np.uint32)]


def row_of(k: int, classes: int, units: int, table: bytes) -> NDArray[np.uint32]:
    """A row and the bytes of its new table, as `head_of` reads them."""
    head = ROW.pack(k, classes, units, len(table)) + table
    return np.frombuffer(head + bytes(-len(head) % WORD), np.uint32)


def _levels(words: Pieces, k: int, columns: int, by_steps: bool) -> NDArray[np.float32]:
    """float32 (k, columns)."""
    if by_steps:
        size = words.take(min(k - 1, 1)).view(np.float32)
        return levels_of(size[0] if size.size else 0.0, k).reshape(k, 1)
    levels = words.take((k - 1) * columns).view(np.float32).reshape(k - 1, columns)
    return np.concatenate((np.zeros((1, columns), np.float32), levels))


def _batch_levels(words: Pieces, k: int, columns: int, tensors: int) -> NDArray[np.float32]:
    """Read the levels of a batch: float32 (k, columns, tensors). Raises PayloadError."""
    if k * columns * tensors > MAX_BATCH_LEVELS:
        raise PayloadError(f"{k * columns * tensors} levels of a batch, too many")
    kind = np.dtype(np.uint8 if k <= 256 else np.uint16)
    listed = words.take(_words(tensors * kind.itemsize)).view(kind)
    numbers = listed[:tensors].astype(np.int64)
    if listed[tensors:].any():
        raise PayloadError("zeros after the numbers of levels, but others are there")
    if numbers.max() != k - 1:
        raise PayloadError(f"{k} levels of a batch whose tensors have up to {numbers.max()}")
    levels = np.zeros((tensors, k, columns), np.float32)
    stored = words.take(int(numbers.sum()) * columns).view(np.float32)
    levels[:, 1:][np.arange(1, k) <= numbers[:, None]] = stored.reshape(-1, columns)
    return levels.transpose(1, 2, 0)


def head_of(words: Pieces) -> tuple[tuple[int, int, int], NDArray[np.uint8]]:
    """Levels, classes and units of the next row, and the bytes of its new table."""
    row, packed, _ = _head(words, arithmetic=False)
    return row, packed


def _head(
    words: Pieces, arithmetic: bool
) -> tuple[tuple[int, int, int], NDArray[np.uint8], NDArray[np.uint8] | None]:
    """As `head_of`; instead of a table, where arithmetic codes are allowed, the bytes of a step
    size and of such a code."""
    first = words.take(_words(ROW.size)).tobytes()
    k, classes, units, nbytes = ROW.unpack_from(first)
    if arithmetic and classes == ARITHMETIC:
        size = WORD + (units | nbytes << 8)
        whole = first + words.take(_words(ROW.size + size) - _words(ROW.size)).tobytes()
        if any(whole[ROW.size + size :]):
            raise PayloadError("zeros after an arithmetic code, but others are there")
        code = np.frombuffer(whole[ROW.size : ROW.size + size], np.uint8)
        return (k, 0, 1), np.empty(0, np.uint8), code
    rest = words.take(_words(ROW.size + nbytes) - _words(ROW.size)).tobytes()
    table = first[ROW.size :] + rest
    if any(table[nbytes:]):
        raise PayloadError("zeros after a code table, but others are there")
    return (k, classes, units), np.frombuffer(table[:nbytes], np.uint8), None


def _words(nbytes: int) -> int:
    return -(-nbytes // WORD)
