"""Payloads: what the codes of an alphabet are written as.

    Constant       nothing: every element has the same code
    PrefixCode     streams of code words, for single codes or for runs of zeros
    ContextCode    streams of adaptive arithmetic codes, without a table

Every kind is a class with one interface, listed in `coders.PAYLOADS`. Payloads know nothing of what
a code means: the levels are those of buckets or of uniform steps. In a record, a payload has two
parts: its *head*, which stands with the heads of all alphabets, and its data behind these. Its
*row* begins the head:

    number of levels | classes | units | size      2, 1, 1 and 2 bytes

`classes` tells the kind. Each kind uses the two other numbers as it needs.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from codec.errors import CodeTableError, PayloadError, StreamError
from codec.state.tensors import TensorSpec

from . import plain, workers
from .digest import digest
from .kernels import track as kernel
from .kernels.track import Track
from .limits import CHANGE, MAX_STREAM, UNIT
from .pieces import Bytes, Pieces
from .quantize import Codes, empty_codes
from .survivors import Segments, Survivors, packed
from .tables import CodeTable
from .twins import twin_of

MAX_UNITS = MAX_STREAM // UNIT

Levels = NDArray[np.float32]  # as in `stream.Encoded`
Sums = NDArray[np.uint64]
Matrices = tuple[tuple[int, int], ...]  # rows and columns of each tensor of an alphabet

_ROW = struct.Struct("<HBBH")
ROW_NBYTES = _ROW.size


@dataclass(frozen=True)
class Row:
    """The beginning of a head.

    levels: their number, and in a record what kind of levels they are. classes: the kind. units: a
    stream of code words has units · 65,536 elements; for a context code a mark, 8 with octets,
    else 1. size: of the code table or of the list of sizes, in bytes.
    """

    levels: int
    classes: int
    units: int
    size: int

    @classmethod
    def take(cls, data: Pieces) -> Self:
        """The next row. Raises PayloadError."""
        return cls(*_ROW.unpack(data.take(ROW_NBYTES).tobytes()))

    @property
    def packed(self) -> bytes:
        """The row in a record."""
        return _ROW.pack(self.levels, self.classes, self.units, self.size)

    def check_units(self) -> None:
        """Raise PayloadError unless these are the units of a stream."""
        if not 1 <= self.units <= MAX_UNITS:
            raise PayloadError(f"streams of {self.units} units")


@dataclass(frozen=True)
class Alphabet:
    """What a reader knows of an alphabet before its payload.

    Attributes:
        name: For messages.
        tensors: In the order of their elements.
        n: The number of elements.
        k: Number of levels.
        uniform: Whether these are uniform steps.
        last_table: The code table sent last for this name.
    """

    name: str
    tensors: Sequence[TensorSpec]
    n: int
    k: int
    uniform: bool
    last_table: CodeTable | None = None


class Payload(ABC):
    """The codes of an alphabet, written.

    Attributes:
        TITLE: The kind's name within a sentence.
        CLASSES: The numbers `classes` in a row that tell the kind.
        WORK: How much longer a value takes to decode than a value in code words.
        SHARED: Whether values share its bits, so that no value has a code word. `element_bits` then
            says how many bits each one takes.
        table: The code table; None for a kind without code words.
    """

    TITLE: ClassVar[str]
    CLASSES: ClassVar[Sequence[int]]
    WORK: ClassVar[int] = 1
    SHARED: ClassVar[bool] = False

    table: CodeTable | None = None

    @classmethod
    def a_title(cls) -> str:
        """The title with its article."""
        return f"{'an' if cls.TITLE[0] in 'aeiou' else 'a'} {cls.TITLE}"

    @property
    def bits(self) -> int:
        """Bits of all codes."""
        return 8 * self.data_nbytes

    @property
    @abstractmethod
    def data(self) -> Bytes:
        """The bytes behind all heads."""

    @property
    @abstractmethod
    def data_nbytes(self) -> int:
        """How many bytes `data` has; known from the head alone."""

    @property
    @abstractmethod
    def row(self) -> Row:
        """The row of the head, of 0 levels."""

    @property
    def head(self) -> bytes:
        """The bytes of the head behind the row, without levels."""
        return b""

    @property
    def table_nbytes(self) -> int:
        """Bytes of a new code table in the head."""
        return 0

    @property
    def nbytes(self) -> int:
        """Bytes in a record, without row and levels."""
        return len(self.head) + self.data_nbytes

    @classmethod
    @abstractmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        """Read what follows a row: a payload without data. Raises PayloadError."""

    @abstractmethod
    def with_data(self, data: Bytes) -> Self:
        """A payload whose head was read, with its data."""

    def stream_begins(self, n: int) -> tuple[Sequence[int], Sequence[int]]:
        """Where each stream begins, and the last one ends: in elements, and in bytes of `data`.

        n: elements. A payload that has to be read as a whole is one stream.
        """
        return [0, n], [0, self.data_nbytes]

    def of_streams(self, first: int, last: int, n: int) -> Self:
        """The payload of the streams from ``first`` to ``last`` - 1, without data.

        n: elements of all streams.
        """
        return self

    @abstractmethod
    def check(self, n: int, k: int) -> None:
        """Raise CodeTableError or StreamError unless n elements of k levels may have it."""

    @abstractmethod
    def codes(self, n: int, levels: Levels, uniform: bool) -> Codes:
        """The code of each element: (n,). Raises StreamError."""

    def element_bits(self, n: int, levels: Levels, uniform: bool) -> NDArray[np.float64]:
        """The bits of each element: (n,). Raises StreamError, also if values do not share bits."""
        raise StreamError(f"the bits of each element of {self.a_title()}")

    def advance(self, levels: Levels, uniform: bool, segments: Segments, mode: int) -> Sums:
        """Decode onto the track; see `stream.advance`. Raises StreamError."""
        with packed(self.codes(segments.n, levels, uniform)) as survivors:
            return advance_survivors(survivors, levels, segments, mode)


@dataclass(frozen=True)
class Constant(Payload):
    """Nothing: every element has the last code."""

    TITLE: ClassVar[str] = "no code"
    CLASSES: ClassVar[Sequence[int]] = (0,)
    WORK: ClassVar[int] = 0

    @property
    def data(self) -> Bytes:
        """No bytes."""
        return np.empty(0, np.uint8)

    @property
    def data_nbytes(self) -> int:
        """0."""
        return 0

    @property
    def row(self) -> Row:
        """Streams of one unit, of which there are none."""
        return Row(0, 0, 1, 0)

    @classmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        """Nothing follows the row. Raises PayloadError."""
        row.check_units()
        if row.size:
            raise PayloadError("a code table for an alphabet that needs none")
        return cls()

    def with_data(self, data: Bytes) -> Self:
        """The same payload."""
        return self

    def check(self, n: int, k: int) -> None:
        """Raise CodeTableError for more than two levels."""
        if k > 2:
            raise CodeTableError(f"{k} levels cannot all lack a code word")

    def codes(self, n: int, levels: Levels, uniform: bool) -> Codes:
        """The last code for all n elements. Raises StreamError if memory does not suffice."""
        codes = codes_for(n, len(levels))
        codes.fill(len(levels) - 1)
        return codes

    def advance(self, levels: Levels, uniform: bool, segments: Segments, mode: int) -> Sums:
        """Decode onto the track; see `stream.advance`."""
        sums = np.zeros(len(segments.arrays[0]), np.uint64)
        if len(levels) == 1:
            return sums
        for i, track in enumerate(segments.arrays[0]):
            with np.errstate(all="ignore"):  # the next delta repairs a track beyond float32's range
                moved = track + levels[1]
            sums[i] = (digest(moved) - digest(track)) % 2**64
            if mode == CHANGE:
                track[...] = moved
        return sums


def matrix_of(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a tensor: its first dimension, and all others."""
    rows = shape[0] if shape else 1
    return rows, math.prod(shape[1:])


def matrices_of(tensors: Sequence[TensorSpec]) -> Matrices:
    """Rows and columns of each tensor of an alphabet."""
    return tuple(matrix_of(t.shape) for t in tensors)


def codes_for(n: int, k: int) -> Codes:
    """Memory for n codes of k levels. Raises StreamError if there is not enough."""
    try:
        return empty_codes(n, k)
    except (MemoryError, ValueError) as exc:
        raise StreamError(f"no memory for {n} codes: {exc}") from exc


def advance_survivors(s: Survivors, levels: Levels, segments: Segments | None, mode: int) -> Sums:
    """Move the track by the levels of survivors; see `stream.advance`. levels: (k,)."""
    if segments is None or mode == 0:
        return np.zeros(0, np.uint64)
    return _advanced(s, levels, segments, mode)


def _advanced_plainly(s: Survivors, levels: Levels, segments: Segments, mode: int) -> Sums:
    return plain.advance(segments, *plain.survivors_of(s), levels, mode)


@twin_of(_advanced_plainly)
def _advanced(s: Survivors, levels: Levels, segments: Segments, mode: int) -> Sums:
    """See `plain.advance`."""
    pieces = workers.pieces(s.units)
    moving = Moving(segments, levels, mode, len(pieces))

    def work(i: int, scratch: workers.Scratch) -> None:
        track = moving.track(i, scratch)
        kernel.advance_survivors(pieces[i], s.marked, track, scratch.positions)

    workers.spread(work, len(pieces))
    return moving.sums


class Moving:
    """A track that kernels move in several pieces of work.

    Args:
        segments: The track; None where it is left alone.
        levels: (k,).
        mode: See `stream.advance`.
        pieces: How many.
    """

    def __init__(self, segments: Segments | None, levels: Levels, mode: int, pieces: int) -> None:
        tracks, starts = np.zeros(0, np.uint64), np.zeros(1, np.int64)
        if segments is not None:
            tracks, starts = segments.addresses.tracks, segments.starts
        self._track = (tracks, starts, np.ascontiguousarray(levels), mode)
        self._sums = np.zeros((pieces, tracks.size), np.uint64)

    def track(self, i: int, scratch: workers.Scratch) -> Track:
        """What a kernel takes for a piece."""
        return Track(*self._track, self._sums[i], scratch.moved)

    @property
    def sums(self) -> Sums:
        """By how much the digest of each tensor has changed, uint64 (tensors,)."""
        return self._sums.sum(axis=0, dtype=np.uint64)


def is_vector(array: Any, dtype: Any) -> bool:
    """Whether this is a vector of the dtype."""
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1
