"""The coded alphabets of a record in one array of bytes. See FORMAT.md.

    heads      of every alphabet: row | what its kind of payload needs | levels
    payloads   of every alphabet

The heads say where each payload is: a reader of one tensor fetches only the streams it needs.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codec.errors import PayloadError
from codec.scheme.coders import take_head
from codec.scheme.coding import Coding
from codec.scheme.delta import Group, alphabet_name, alphabets
from codec.scheme.measures import no_sizes
from codec.scheme.payload import Alphabet, Row
from codec.scheme.pieces import Bytes, Pieces, aligned, checked
from codec.scheme.stream import (
    MAX_LEVELS,
    MAX_UNIFORM,
    Encoded,
    check,
)
from codec.scheme.tables import CodeTable
from codec.scheme.uniform import levels_of
from codec.state.family import SIZES
from codec.state.tensors import Layout, TensorSpec

from .container import FileArrays, StoredArrays

ARRAY = "c"
BY_STEPS = 2**15  # added to the number of levels where they are multiples of one step size


def coded(groups: Sequence[Group]) -> dict[str, list[Bytes]]:
    """Name -> parts of the array of these groups, in record order; {} without groups."""
    heads = [np.frombuffer(_head(group.encoded), np.uint8) for group in groups]
    payloads = [group.encoded.payload.data for group in groups]
    return {ARRAY: heads + payloads} if groups else {}


def nbytes_of(groups: Iterable[Group]) -> int:
    """Bytes that these groups take in a record."""
    return sum(len(_head(g.encoded)) + g.encoded.payload.data_nbytes for g in groups)


def alphabet_bytes(arrays: FileArrays | StoredArrays) -> Pieces:
    """The array of a record's alphabets. Raises PayloadError if it is empty or not uint8 (n,)."""
    data = arrays.vector(ARRAY) if ARRAY in arrays else np.empty(0, np.uint8)
    if isinstance(data, np.ndarray):
        checked(data, np.uint8, ARRAY)
    if ARRAY in arrays and not data.size:
        raise PayloadError(f"an empty array {ARRAY!r}")
    return Pieces(data, f"bytes of {ARRAY!r}")


@dataclass(frozen=True)
class Head:
    """What a record says of an alphabet before its payload.

    Attributes:
        tensors: The tensors that share it, in the order of their elements.
        name: The alphabet's name, by which its code tables are reused.
        encoded: The encoding, without its payload's data.
    """

    tensors: tuple[TensorSpec, ...]
    name: str
    encoded: Encoded

    @property
    def payload_nbytes(self) -> int:
        """Bytes of the payload."""
        return self.encoded.payload.data_nbytes

    def group(self, payload: Bytes) -> Group:
        """The alphabet with its payload. Raises PayloadError if they do not fit together."""
        e = replace(self.encoded, payload=self.encoded.payload.with_data(payload))
        check(e, sum(t.size for t in self.tensors))
        return Group(self.tensors, e)

    def windows(self, names: Collection[str]) -> list[Window]:
        """The streams that hold these tensors, in order. Raises PayloadError."""
        payload = self.encoded.payload
        ends = list(itertools.accumulate((t.size for t in self.tensors), initial=0))
        if not any(t.name in names for t in self.tensors):
            return []
        elements, nbytes = payload.stream_begins(ends[-1])
        windows: list[tuple[int, int]] = []  # of streams
        for t, begin, end in zip(self.tensors, ends, ends[1:]):
            if t.name not in names or begin == end:
                continue
            first = bisect_right(elements, begin) - 1
            last = bisect_left(elements, end)
            if windows and first < windows[-1][1]:
                first = windows.pop()[0]
            windows.append((first, last))
        return [
            Window(
                self, first, last, (elements[first], elements[last]), (nbytes[first], nbytes[last])
            )
            for first, last in windows
        ]


@dataclass(frozen=True)
class Window:
    """Neighbouring streams of an alphabet.

    head: the alphabet's. first, last: the first stream, and the one after the last. elements,
    nbytes: where they begin and end in the alphabet and in its payload.
    """

    head: Head
    first: int
    last: int
    elements: tuple[int, int]
    nbytes: tuple[int, int]

    def group(self, data: Bytes) -> Group:
        """The streams as an alphabet of their own.

        Its tensors are those that have elements here; a tensor of which only a part is here has
        that part's size. data: of the streams. Raises PayloadError.
        """
        e, (begin, end) = self.head.encoded, self.elements
        ends = list(itertools.accumulate((t.size for t in self.head.tensors), initial=0))
        here = [
            (i, min(end, ends[i + 1]) - max(begin, ends[i]))
            for i, t in enumerate(self.head.tensors)
            if max(begin, ends[i]) < min(end, ends[i + 1])
        ]
        tensors = tuple(
            t if t.size == n else replace(t, shape=(n,))
            for t, n in ((self.head.tensors[i], n) for i, n in here)
        )
        payload = e.payload.of_streams(self.first, self.last, ends[-1]).with_data(data)
        sizes = e.sizes[[i for i, _ in here]] if e.sizes.size else e.sizes
        e = replace(e, payload=payload, sizes=sizes, shape=(end - begin,))
        check(e, end - begin)
        return Group(tensors, e)


def heads_of(
    data: Pieces,
    coding: Coding,
    layout: Layout,
    non_finite: Sequence[str],
    tables: Mapping[str, CodeTable],
) -> tuple[Head, ...]:
    """Take the heads of all alphabets of a delta.

    Args:
        data: The alphabets, from the first head on.
        coding: The record's.
        layout: The track's.
        non_finite: Lossy tensors that have no codes.
        tables: Alphabet -> the code table that it may reuse.

    Raises:
        PayloadError: The bytes do not fit together.
    """
    return tuple(
        _take_head(data, tensors, coding, tables)
        for tensors in alphabets(layout, coding.scope, non_finite)
    )


def tables_in(heads: Iterable[Head]) -> dict[str, CodeTable]:
    """Alphabet -> its code table, of those that have one."""
    return {head.name: head.encoded.table for head in heads if head.encoded.table}


def groups_of(
    heads: Sequence[Head], data: Pieces, names: Collection[str] | None = None
) -> tuple[Group, ...]:
    """Take the payload of each head.

    Args:
        heads: Of the alphabets.
        data: The alphabets, from the first payload on.
        names: The tensors to read: only the streams that hold them are taken. None for all.

    Raises:
        PayloadError: The bytes do not fit together.
    """
    if names is None:
        return tuple(head.group(data.take(head.payload_nbytes)) for head in heads)
    windows = [head.windows(names) for head in heads]
    begins = itertools.accumulate((head.payload_nbytes for head in heads), initial=0)
    data.fetch(
        (begin + w.nbytes[0], begin + w.nbytes[1])
        for begin, its_windows in zip(begins, windows)
        for w in its_windows
    )
    groups = []
    for head, its_windows in zip(heads, windows):
        at = 0
        for window in its_windows:
            begin, end = window.nbytes
            data.skip(begin - at)
            groups.append(window.group(data.take(end - begin)))
            at = end
        data.skip(head.payload_nbytes - at)
    return tuple(groups)


def _head(e: Encoded) -> bytes:
    """The head of an alphabet, which `_take_head` reads."""
    row = replace(e.payload.row, levels=e.k + (BY_STEPS if e.uniform else 0))
    return row.packed + e.payload.head + e.stored_levels.tobytes()


def _take_head(
    data: Pieces,
    tensors: tuple[TensorSpec, ...],
    coding: Coding,
    tables: Mapping[str, CodeTable],
) -> Head:
    """Take the head of the alphabet that these tensors share. See `heads_of`."""
    name = alphabet_name(coding.scope, tensors)
    bits = coding.bits if tensors[0].family.is_model else None
    row = Row.take(data)
    measure = tensors[0].measure
    uniform, k = row.levels >= BY_STEPS, row.levels % BY_STEPS
    most = MAX_UNIFORM if uniform else MAX_LEVELS if bits is None else 2**bits
    if uniform and bits is not None:
        raise PayloadError(f"uniform steps in a record of {bits} bits")
    if measure and not uniform:
        raise PayloadError(f"moments in {measure}, but not in uniform steps")
    if not 1 <= k <= most:
        raise PayloadError(f"{k} levels, at most {most} are allowed")
    n = sum(t.size for t in tensors)
    alphabet = Alphabet(name, tensors, n, k, uniform, tables.get(name))
    payload = take_head(row, data, alphabet)
    levels, sizes = np.zeros(k, np.float32), no_sizes()
    if not uniform:
        levels[1:] = aligned(data.take(levels[1:].nbytes), np.float32)
    elif k > 1:
        (step_size,) = aligned(data.take(4), np.float32)
        levels[:] = levels_of(step_size, k)
        if measure == SIZES:
            sizes = aligned(data.take(4 * len(tensors)), np.float32)
    shape = tensors[0].shape if len(tensors) == 1 else (n,)
    encoded = Encoded(payload, levels, shape, bits, coding.coder, uniform, measure, sizes)
    return Head(tensors, name, encoded)
