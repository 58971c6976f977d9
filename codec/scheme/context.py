"""Context coding: an adaptive arithmetic code whose chances depend on the values around.

An element is coded as an integer q: its number of uniform steps, or the rank of its bucket's
exponent, with the bucket's sign. Every q is a series of binary decisions: is it 0, how large is
|q|, which sign. Each decision has a context, and each context a probability that adapts while
elements are coded, as in Witten, Neal and Cleary, "Arithmetic Coding for Data Compression", CACM
30(6), 1987. So there is no code table, and a value may take less than a bit.

The weights of a neuron (a row or a column) change together. Most contexts therefore have the
expected magnitude: the mean of the row so far times the mean of the column so far, divided by the
mean of the matrix so far; and the neighbours to the left and above. One decision says whether a row
changes at all, and in large alphabets one more for each OCTET elements of a row, so most zeros take
no decision. FORMAT.md has every number.

An alphabet is cut into streams of whole rows, which threads write and read in parallel. Each learns
its chances anew, which costs bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from codec import reader
from codec.errors import PayloadError, StreamError

from . import plain, workers
from .kernels import contexts as kernel
from .kernels import track as track_kernel
from .kernels.contexts import (
    ACTIVITIES,
    HALF,
    MOST_ACTIVE,
    MOST_DOUBLED,
    MOST_USES,
    N_CONTEXTS,
    OCTET,
)
from .kernels.decode import STREAM_GOES_ON, STREAM_LEAVES
from .memory import Joined
from .payload import (
    Alphabet,
    Levels,
    Matrices,
    Moving,
    Payload,
    Row,
    Sums,
    codes_for,
    is_vector,
    matrices_of,
)
from .pieces import Bytes, Pieces, number_of, take_number
from .quantize import Codes
from .survivors import Segments, Survivors
from .twins import takes_compiled, twin_of

STREAM = 2**18  # elements, at least, of every stream but the last
MOST_COLUMNS = 2**15  # of a row: a thread notes 40 bytes for each
MOST_SINGLE = 2**14  # elements: in larger alphabets, the time that octets save matters more
MOST_PLAIN = 2**14  # elements that are coded without kernels: a third of a second
MOST_NBYTES = 4  # of an element: float32 takes no more
MOST_Q = 2**15  # of any code word that can be read
TOO_LONG = -1  # in place of a stream's size
MOST_DIGITS = 5  # of a stream's size, 7 bits each
MOST_LISTED = 2**16 - 1  # bytes of all sizes
FLOOR, CEILING = 200, 65_000  # of first chances
FIRST_IN_OCTET = 9_830  # at least, in an octet that is known to change
FIRST_USES = 2  # that these chances count for

StepCodes = NDArray[np.uint16]
# Takes the begin of a stream, the places of its changes from there on, and their codes.
_Take = Callable[[int, NDArray[np.uint32], StepCodes], None]

_NO_MARKS, _NO_CODES = np.empty(0, np.uint64), np.empty(0, np.uint16)
_NO_PLACES, _NO_BITS = np.empty(0, np.uint32), np.empty(0)


@dataclass(frozen=True, eq=False)
class ContextCode(Payload):
    """Streams of one arithmetic code each, without zero bytes at their ends.

    Attributes:
        code: uint8, the streams.
        matrices: Rows and columns of every tensor.
        sizes: int64, the bytes of each stream.
        shared: How many elements of a row share a decision: OCTET, or 1 for none.
    """

    TITLE: ClassVar[str] = "context code"
    CLASSES: ClassVar[Sequence[int]] = (254,)
    WORK: ClassVar[int] = 5
    SHARED: ClassVar[bool] = True

    code: Bytes
    matrices: Matrices
    sizes: NDArray[np.int64]
    shared: int

    @classmethod
    def of(cls, s: Survivors, matrices: Matrices, levels: Levels, uniform: bool) -> Self | None:
        """The context code of survivors with final codes.

        None if a stream is longer than in float32, the list of sizes is too long, two levels of
        buckets have one exponent and sign, or it would take long because no kernels are loaded.
        """
        steps = _StepCodes.of(levels, uniform)
        if steps is None or (s.n > MOST_PLAIN and not takes_compiled()):
            return None
        cut, shared = _cut(matrices), 1 if s.n <= MOST_SINGLE else OCTET
        written = _written(s, cut, shared, steps)
        if written is None:
            return None
        made = cls(written[0], matrices, written[1], shared)
        return made if len(made.head) <= MOST_LISTED else None

    @property
    def data(self) -> Bytes:
        """The streams."""
        return self.code

    @property
    def data_nbytes(self) -> int:
        """Bytes of the streams."""
        return self.code.size

    @property
    def row(self) -> Row:
        """The elements that share a decision, and the bytes of the list of sizes."""
        return Row(0, self.CLASSES[0], self.shared, len(self.head))

    @property
    def head(self) -> bytes:
        """The size of each stream."""
        return b"".join(number_of(size) for size in self.sizes.tolist())

    @classmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        """Read the size of each stream. Raises PayloadError."""
        if row.units not in (1, OCTET):
            raise PayloadError(f"decisions for {row.units} elements")
        listed = Pieces(head.take(row.size), "bytes of a list of sizes")
        matrices = matrices_of(alphabet.tensors)
        sizes = [take_number(listed, MOST_DIGITS) for _ in range(_cut(matrices).n)]
        listed.finish()
        n = sum(sizes)
        return cls(np.broadcast_to(np.uint8(0), n), matrices, np.array(sizes, np.int64), row.units)

    def with_data(self, data: Bytes) -> Self:
        """The same streams with their bytes."""
        return replace(self, code=data)

    def stream_begins(self, n: int) -> tuple[Sequence[int], Sequence[int]]:
        """Where each stream begins, and the last one ends."""
        return _cut(self.matrices).begins.tolist(), [0, *np.cumsum(self.sizes).tolist()]

    def of_streams(self, first: int, last: int, n: int) -> Self:
        """Some of the streams, without their bytes."""
        cut, sizes = _cut(self.matrices), self.sizes[first:last]
        own = slice(int(cut.firsts[first]), int(cut.firsts[last]))
        matrices = tuple(zip(cut.rows[own].tolist(), cut.columns[own].tolist()))
        nothing = np.broadcast_to(np.uint8(0), int(sizes.sum()))
        return replace(self, code=nothing, matrices=matrices, sizes=sizes)

    def check(self, n: int, k: int) -> None:
        """Raise StreamError if these cannot be the streams of n elements."""
        if not is_vector(self.code, np.uint8):
            raise StreamError(f"{self.a_title()} is a uint8 vector")
        if k < 2:
            raise StreamError(f"{self.a_title()}, but no level other than zero")
        if not _are_matrices(self.matrices) or sum(map(math.prod, self.matrices)) != n:
            raise StreamError(f"matrices that do not have {n} elements together")
        sizes = self.sizes
        # First, because cutting takes time for each stream.
        if not is_vector(sizes, np.int64) or sizes.size * (STREAM + MOST_COLUMNS) < n:
            raise StreamError(f"sizes of {np.size(sizes)} streams for {n} elements")
        if sizes.size != _cut(self.matrices).n or (sizes < 0).any():
            raise StreamError(f"sizes of {sizes.size} streams for {n} elements")
        if (sizes > self.code.size).any() or sizes.sum() != self.code.size:
            raise StreamError(f"streams of other sizes than {self.code.size} bytes together")
        if self.shared not in (1, OCTET):
            raise StreamError(f"decisions for {self.shared} elements")
        if not self.code[np.cumsum(sizes)[sizes > 0] - 1].all():
            raise StreamError(f"a stream of {self.a_title()} that ends with a byte of zeros")

    def codes(self, n: int, levels: Levels, uniform: bool) -> Codes:
        """The code of each element: (n,). Raises StreamError."""
        codes = codes_for(n, len(levels))
        codes.fill(0)
        _read_codes(self, _StepCodes.to_read(levels, uniform), codes)
        return codes

    def advance(self, levels: Levels, uniform: bool, segments: Segments, mode: int) -> Sums:
        """Decode onto the track; see `stream.advance`. Raises StreamError."""
        return _advanced(self, _StepCodes.to_read(levels, uniform), levels, segments, mode)

    def element_bits(self, n: int, levels: Levels, uniform: bool) -> NDArray[np.float64]:
        """The bits of each element: (n,). Raises StreamError."""
        return _read_bits(self, _StepCodes.to_read(levels, uniform), n)


class _StepCodes(NamedTuple):
    """Codes as uniform steps, and back. See `kernels.contexts.code`."""

    step_code_of: StepCodes
    code_of: StepCodes
    alone: NDArray[np.int8]
    doubling: bool

    @classmethod
    def of(cls, levels: NDArray[np.float32], uniform: bool) -> Self | None:
        """Of levels (k,); None if two levels of buckets have the same exponent and sign."""
        if uniform:
            same = np.arange(levels.size, dtype=np.uint16)
            return cls(same, same, np.zeros(1, np.int8), False)
        fields = levels[1:].view(np.uint32) >> 23 & 255
        negative = np.signbit(levels[1:])
        rungs, rung = np.unique(fields, return_inverse=True)
        step_code_of = np.zeros(levels.size, np.uint16)
        step_code_of[1:] = 2 * rung + 1 + negative
        code_of = np.zeros(2 * rungs.size + 1, np.uint16)
        code_of[step_code_of] = np.arange(levels.size)
        if np.count_nonzero(code_of) < levels.size - 1:
            return None
        # The last entry stands for all q beyond.
        has = (code_of[1:] > 0).reshape(-1, 2)
        alone = np.zeros(rungs.size + 2, np.int8)
        alone[1:-1] = np.where(has.all(axis=1), 0, np.where(has[:, 0], 1, -1))
        return cls(step_code_of, code_of, alone, True)

    @classmethod
    def to_read(cls, levels: NDArray[np.float32], uniform: bool) -> Self:
        """The same for a decoder. Raises StreamError."""
        steps = cls.of(levels, uniform)
        if steps is None:
            raise StreamError("two levels of the same exponent and sign")
        return steps

    def q_of(self, codes: Codes) -> NDArray[np.int64]:
        """The q of each code."""
        steps = self.step_code_of[codes].astype(np.int64)
        return np.where(steps & 1, (steps + 1) >> 1, -(steps >> 1))

    def codes_of(self, q: NDArray[np.int64]) -> StepCodes:
        """The code of each q. Raises StreamError if a q has no level."""
        steps = np.where(q > 0, 2 * q - 1, -2 * q)
        if steps.max(initial=0) >= self.code_of.size or (self.code_of[steps] == 0)[q != 0].any():
            raise StreamError(f"a symbol beyond the last of {self.step_code_of.size} levels")
        return self.code_of[steps]

    @property
    def plainly(self) -> tuple[list[int], dict[int, bool]]:
        """weights and signs of `reader.ContextCode`."""
        q = range(MOST_Q + 1)
        weights = [2 ** min(a - 1, MOST_DOUBLED) if a else 0 for a in q]
        if not self.doubling:
            weights = [min(a, MOST_ACTIVE) for a in q]
        signs = {a: sign < 0 for a, sign in enumerate(self.alone.tolist()) if sign}
        return weights, signs


@dataclass(frozen=True, eq=False)
class _Cut:
    """Where each stream begins. See `kernels.contexts.code`.

    begins: int64 (n + 1,), the first element of each stream. firsts: int64 (n + 1,), its first
    matrix. rows, columns: int64, of each matrix.
    """

    begins: NDArray[np.int64]
    firsts: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]

    @property
    def n(self) -> int:
        """Number of streams."""
        return self.begins.size - 1

    def elements(self, i: int) -> int:
        """How many elements a stream has."""
        return int(self.begins[i + 1] - self.begins[i])

    def matrices(self, i: int) -> list[tuple[int, int]]:
        """Rows and columns of each matrix of a stream."""
        own = slice(self.firsts[i], self.firsts[i + 1])
        return list(zip(self.rows[own].tolist(), self.columns[own].tolist()))


@lru_cache(maxsize=256)
def _cut(matrices: Matrices) -> _Cut:
    """Cut tensors into streams of whole rows.

    A single column is a row. Longer rows than MOST_COLUMNS are cut into matrices of one row.
    """
    begins, firsts, shapes, filled = [0], [0], list[tuple[int, int]](), 0
    for rows, columns in _with_short_rows(matrices):
        while rows:
            n = min(rows, -(-(STREAM - filled) // columns))
            shapes.append((n, columns))
            rows, filled = rows - n, filled + n * columns
            if filled >= STREAM:
                begins.append(begins[-1] + filled)
                firsts.append(len(shapes))
                filled = 0
    if filled:
        begins.append(begins[-1] + filled)
        firsts.append(len(shapes))
    rows_and_columns = map(np.ascontiguousarray, np.array(shapes, np.int64).reshape(-1, 2).T)
    return _Cut(np.array(begins), np.array(firsts), *rows_and_columns)


def _are_matrices(matrices: object) -> bool:
    """Whether these are pairs of integers, each at least 0."""
    return isinstance(matrices, tuple) and all(
        isinstance(matrix, tuple)
        and len(matrix) == 2
        and all(type(n) is int and 0 <= n < 2**62 for n in matrix)
        for matrix in matrices
    )


def _with_short_rows(matrices: Matrices) -> Iterator[tuple[int, int]]:
    """Rows and columns of matrices that have elements; no row has more than MOST_COLUMNS."""
    for rows, columns in matrices:
        if columns == 1:
            rows, columns = 1, rows
        if columns <= MOST_COLUMNS:
            yield (rows, columns) if columns else (0, 1)
            continue
        for _ in range(rows):
            for begin in range(0, columns, MOST_COLUMNS):
                yield 1, min(columns - begin, MOST_COLUMNS)


def _first_contexts() -> NDArray[np.uint32]:
    """The contexts before the first element: chance << 8 | uses, uint32 (N_CONTEXTS,)."""
    chances, uses = np.full(N_CONTEXTS, HALF, np.int64), np.zeros(N_CONTEXTS, np.int64)
    chances[kernel.MORE_CONTEXT : kernel.BIT_CONTEXT] = kernel.FIRST_MORE
    # Of a value above 0 from a geometric distribution with the mean in the middle of activity a,
    # 2**(a + 0.5) / 2**12: about 2**a / 2896.
    expected = 2 ** np.arange(ACTIVITIES)
    changes = np.clip(2 * HALF * expected // (expected + 2896), FLOOR, CEILING)
    in_octet = np.maximum(changes, FIRST_IN_OCTET)
    for at, first in (
        (kernel.OCTET_CONTEXT, changes),
        (kernel.ZERO_CONTEXT, np.concatenate((changes, in_octet, changes))),
    ):
        own = slice(at, at + 9 * first.size)
        chances[own], uses[own] = np.repeat(first, 9), FIRST_USES
    return (chances << 8 | uses).astype(np.uint32)


_FIRST = _first_contexts()
_RATES = np.array([131_072 // (2 * n + 3) for n in range(MOST_USES + 1)], np.uint32)


def _written_plainly(
    s: Survivors, cut: _Cut, shared: int, steps: _StepCodes
) -> tuple[Bytes, NDArray[np.int64]] | None:
    positions, codes = plain.survivors_of(s)
    q = np.zeros(s.n, np.int64)
    q[positions] = steps.q_of(codes)
    weights, signs = steps.plainly
    streams = []
    for i in range(cut.n):
        own = q[cut.begins[i] : cut.begins[i + 1]].tolist()
        encoder = plain.ContextEncoder(own, cut.matrices(i), shared, weights, signs)
        streams.append(encoder.written)
        if len(streams[-1]) > MOST_NBYTES * len(own) + kernel.ELEMENT_BYTES:
            return None
    sizes = np.array([len(stream) for stream in streams], np.int64)
    return np.frombuffer(b"".join(streams), np.uint8), sizes


@twin_of(_written_plainly)
def _written(
    s: Survivors, cut: _Cut, shared: int, steps: _StepCodes
) -> tuple[Bytes, NDArray[np.int64]] | None:
    """All streams and their sizes; None if one is longer than in float32."""
    streams = Joined(MOST_NBYTES * s.n + kernel.ELEMENT_BYTES * cut.n, False, np.uint8)
    sizes = np.zeros(cut.n, np.int64)

    def work(i: int, scratch: workers.Scratch) -> None:
        most = MOST_NBYTES * cut.elements(i) + kernel.ELEMENT_BYTES
        room, used = scratch.at_least(most // 2).view(np.uint8), np.zeros(2, np.int64)
        own, lists = (cut, i, shared), (_NO_PLACES, _NO_CODES, used)
        data = room, most
        status = _coded(True, own, (s.marks, s.codes), steps, data, lists, _NO_BITS, scratch)
        sizes[i] = TOO_LONG if status else used[0]
        streams.put(i, room[: 0 if status else used[0]])

    workers.spread(work, cut.n)
    return None if (sizes == TOO_LONG).any() else (streams.whole(), sizes)


def _q_read_plainly(p: ContextCode, steps: _StepCodes) -> list[list[int]]:
    """q of all elements of each stream. Raises StreamError."""
    cut, ends, streams = _cut(p.matrices), np.cumsum(p.sizes).tolist(), []
    for i, (end, size) in enumerate(zip(ends, p.sizes.tolist())):
        try:
            stream = reader.ContextCode(
                p.code[end - size : end].tobytes(), p.shared, *steps.plainly
            )
            streams.append(stream.read(cut.matrices(i)))
        except (reader.ReadError, IndexError) as exc:
            raise StreamError(f"an alphabet that {exc}") from exc
    return streams


def _all_codes_read_plainly(p: ContextCode, steps: _StepCodes) -> StepCodes:
    q = _q_read_plainly(p, steps)
    return steps.codes_of(np.concatenate([np.array(own, np.int64) for own in q]))


def _codes_read_plainly(p: ContextCode, steps: _StepCodes, codes: Codes) -> None:
    codes[:] = _all_codes_read_plainly(p, steps)


@twin_of(_codes_read_plainly)
def _read_codes(p: ContextCode, steps: _StepCodes, codes: Codes) -> None:
    """Write the code of each element that is not 0. Raises StreamError."""

    def take(begin: int, places: NDArray[np.uint32], codes_at: StepCodes) -> None:
        codes[begin + places.astype(np.int64)] = codes_at

    _read(p, steps, lambda i, scratch: take)


def _advanced_plainly(
    p: ContextCode, steps: _StepCodes, levels: Levels, segments: Segments, mode: int
) -> Sums:
    codes = _all_codes_read_plainly(p, steps)
    positions = np.flatnonzero(codes)
    return plain.advance(segments, positions, codes[positions], levels, mode)


@twin_of(_advanced_plainly)
def _advanced(
    p: ContextCode, steps: _StepCodes, levels: Levels, segments: Segments, mode: int
) -> Sums:
    """Decode onto the track; see `stream.advance`. Raises StreamError."""
    moving = Moving(segments, levels, mode, _cut(p.matrices).n)

    def taker(i: int, scratch: workers.Scratch) -> _Take:
        def take(begin: int, places: NDArray[np.uint32], codes_at: StepCodes) -> None:
            track_kernel.advance_listed(begin, places, codes_at, moving.track(i, scratch))

        return take

    _read(p, steps, taker)
    return moving.sums


def _bits_read_plainly(p: ContextCode, steps: _StepCodes, n: int) -> NDArray[np.float64]:
    cut, steps_plainly = _cut(p.matrices), steps.plainly
    streams = [
        plain.ContextEncoder(q, cut.matrices(i), p.shared, *steps_plainly)
        for i, q in enumerate(_q_read_plainly(p, steps))
    ]
    return np.concatenate([stream.costs for stream in streams])


@twin_of(_bits_read_plainly)
def _read_bits(p: ContextCode, steps: _StepCodes, n: int) -> NDArray[np.float64]:
    """The bits of each element: (n,). Raises StreamError."""
    bits = np.zeros(n)
    _read(p, steps, lambda i, scratch: lambda *_: None, bits)
    return bits


def _read(
    p: ContextCode,
    steps: _StepCodes,
    taker: Callable[[int, workers.Scratch], _Take],
    bits: NDArray[np.float64] = _NO_BITS,
) -> None:
    """Read each stream i, and hand its changes to taker(i, scratch)."""
    cut = _cut(p.matrices)
    ends = np.cumsum(p.sizes).tolist()
    survivors = _NO_MARKS, _NO_CODES

    def work(i: int, scratch: workers.Scratch) -> None:
        n, sizes = cut.elements(i), np.zeros(2, np.int64)
        stream = np.ascontiguousarray(p.code[ends[i] - p.sizes[i] : ends[i]])
        room = scratch.at_least(n + n // 2 + 1)
        places, codes_at = room[:n], room[n:].view(np.uint16)
        own, data = (cut, i, p.shared), (stream, stream.size)
        lists = places, codes_at, sizes
        status = _coded(False, own, survivors, steps, data, lists, bits, scratch)
        if status == STREAM_LEAVES:
            raise StreamError(f"a symbol beyond the last of {steps.step_code_of.size} levels")
        if status == STREAM_GOES_ON:
            raise StreamError(f"bytes that go on after {n} elements")
        begin, m = int(cut.begins[i]), int(sizes[1])
        taker(i, scratch)(begin, places[:m], codes_at[:m])

    workers.spread(work, cut.n)


def _coded(
    encoding: bool,
    streams: tuple[_Cut, int, int],
    survivors: tuple[NDArray[np.uint64], Codes],
    steps: _StepCodes,
    data: tuple[Bytes, int],
    lists: tuple[NDArray[np.uint32], StepCodes, NDArray[np.int64]],
    bits: NDArray[np.float64],
    scratch: workers.Scratch,
) -> int:
    """Write or read one stream; see `kernels.contexts.code`.

    streams: all of them, which one, and the elements that share a decision. Returns a STREAM_*
    status.
    """
    cut, i, shared = streams
    own = slice(cut.firsts[i], cut.firsts[i + 1])
    columns = cut.columns[own]
    stream = cut.begins[i], cut.rows[own], columns, shared
    learning, by_column = (_FIRST, _RATES, scratch.contexts), scratch.by_column(int(columns.max()))
    arguments = stream, survivors, tuple(steps), learning, by_column, *data, lists, bits
    return int(kernel.code(encoding, *arguments))
