"""Quantized values to bytes and back: the lossless stage, for every coder.

The elements of an alphabet are cut into streams of equal size. All streams share one code table,
and each is coded on its own: threads write and read them in parallel. On disk, an alphabet takes

    its payload
    4 bytes for each stream
    its code table, or nothing if the last table is reused
    4 bytes for each level but the first, which is 0; or 4 bytes for the step size of uniform levels

A small alphabet has neither streams nor table where an arithmetic code is shorter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import CodeTableError, StreamError

from . import arithmetic, huffman, kernels, runlength, tables, workers
from .arithmetic import Matrices
from .coders import coder_of, least_streams
from .kernels import MAX_STREAM, UNIT
from .memory import LARGE, Joined
from .quantize import Codes, Quantized, empty_codes
from .survivors import Segments, Survivors, packed
from .tables import Choice, CodeTable, Counts
from .uniform import MAX_STEPS, levels_of

MAX_LEVELS = 511  # zero, and one level for each exponent field and sign
MAX_UNIFORM = 2 * MAX_STEPS + 1
# Levels of a batch, over all codes, columns and tensors: MAX_LEVELS of 100,000 tensors, 256 MiB.
MAX_BATCH_LEVELS = 2**26
BITS_A_PIECE = 2**20  # rough limit: a piece is written to scratch memory, then copied

PAIRED = 2**12  # words, at least, of a payload whose tokens are looked up in pairs
TWICE = 0.8  # share of look-ups, at least, that find a pair: the second table costs cache misses
SPARE = 4  # words behind a stream that a decoder may read but does not use

LOOK, CHANGE = 1, 2  # modes of the kernels: compute new digests only, or also change the track

Sums = NDArray[np.uint64]


@dataclass(frozen=True)
class Encoded:
    """A quantized delta as bytes.

    Attributes:
        payload: uint32 words. Each stream begins a new word; the first bit is the lowest. An
            arithmetic code is uint8.
        streams: uint32, bits of each stream; an arithmetic code is a single stream.
        stream_elements: Elements of every stream but the last.
        table: The code; None if all elements have the code k - 1, and for an arithmetic code.
        cached: Whether the table is the last one, reused.
        saved_bits: How many more bits a new table would have cost.
        levels: float32 (k,), levels[0] == 0.0; or (k, m) for m merged deltas, whose levels are
            added one after the other. In a batch (k, m, t): each of the t tensors has levels of its
            own, 0.0 for a code that it lacks; m is 1 for a plain delta.
        shape: The delta's.
        bits: x of priority promotion, or None.
        coder: The coder's name.
        uniform: Whether the levels are multiples of one step size, see `uniform`.
        matrices: Rows and columns of every tensor, if the payload is an arithmetic code; else ().
    """

    payload: NDArray[np.uint32] | NDArray[np.uint8]
    streams: NDArray[np.uint32]
    stream_elements: int
    table: CodeTable | None
    cached: bool
    saved_bits: int
    levels: NDArray[np.float32]
    shape: tuple[int, ...]
    bits: int | None
    coder: str
    uniform: bool = False
    matrices: Matrices = ()

    @property
    def arithmetic(self) -> bool:
        """Whether the payload is one arithmetic code, see `arithmetic`."""
        return bool(self.matrices)

    @property
    def k(self) -> int:
        """How many codes there are."""
        return len(self.levels)

    @property
    def columns(self) -> int:
        """How many merged deltas these are; 0 for a plain delta."""
        return 0 if self.levels.ndim == 1 else self.levels.shape[1]

    @property
    def is_batch(self) -> bool:
        """Whether each of its tensors has levels of its own, see `batch`."""
        return self.levels.ndim == 3

    @property
    def n_levels(self) -> int:
        """How many levels other than 0 there are, summed over the tensors of a batch."""
        return self.stored_levels.size if self.is_batch else self.k - 1

    @property
    def payload_bits(self) -> int:
        """Bits of all streams."""
        return int(self.streams.sum(dtype=np.int64))

    @property
    def code_lengths(self) -> NDArray[np.uint8]:
        """uint8, the code length of each code or token; all 0 without a table."""
        return self.table.lengths if self.table else np.zeros(self.k, np.uint8)

    @property
    def table_nbytes(self) -> int:
        """Bytes of the table on disk: 0 if the last one is reused."""
        return self.table.packed.size if self.table and not self.cached else 0

    @property
    def stored_levels(self) -> NDArray[np.float32]:
        """float32: the levels as a record stores them.

        All levels but the zero, row by row; or the step size alone; or, in a batch, the levels of
        one tensor after the other.
        """
        if self.is_batch:
            return stored_levels(self.levels)
        return self.levels[1 : 2 if self.uniform else None].reshape(-1)

    @property
    def nbytes(self) -> int:
        """Bytes on disk: payload, sizes of the streams, table, and levels."""
        levels = self.stored_levels.nbytes
        if self.is_batch:
            levels += numbers_of_levels(self.levels).nbytes
        if self.arithmetic:
            return self.payload.nbytes + levels
        return self.payload.nbytes + self.streams.nbytes + self.table_nbytes + levels


def encode(q: Quantized, coder: str = "huffman") -> Encoded:
    """Encode the codes of ``q`` without loss.

    Args:
        q: A quantized delta.
        coder: "huffman", the paper's code of single values, or "runlength", which also codes runs
            of zeros and is never larger.

    Raises:
        SettingsError: There is no such coder.
        StreamError: Codes, levels and buckets of ``q`` contradict each other.
    """
    settle = coder_of(coder).settle
    counts, k = q.counts, q.levels.size
    if counts.size != k or k > (MAX_UNIFORM if q.uniform else MAX_LEVELS):
        raise StreamError(f"{counts.size} different codes for {k} levels")
    code_counts = np.bincount(q.codes, minlength=k)
    if code_counts.size != k or (code_counts != counts).any():
        raise StreamError("the codes do not have the counts of their buckets")
    if np.count_nonzero(counts) == 1 and not needs_no_bits(counts) and not q.uniform:
        raise StreamError(f"only one of {k} levels occurs, which a prefix code cannot express")
    with packed(q.codes) as survivors:
        units, tokens = settle(survivors, None, counts)
        message_counts = Counts(counts, tokens, q.uniform)
        message = Message(survivors, units, message_counts, q.levels, q.shape, q.bits, q.uniform)
        if q.uniform:
            message = message.with_arithmetic((arithmetic.matrix_of(q.shape),), coder)
        return code(message, coder, None)[0]


def decode(e: Encoded) -> Quantized:
    """The codes that were encoded, and their levels as in `Encoded`; buckets are None.

    Never reads or writes out of bounds, whatever the fields hold.

    Raises:
        SettingsError: There is no such coder.
        CodeTableError, StreamError: The encoding is damaged.
    """
    coder_of(e.coder)
    try:
        n = np.broadcast_to(np.uint8(0), e.shape).size  # numpy's rules for shapes, no memory
    except (TypeError, ValueError, OverflowError) as exc:
        raise StreamError(f"no array can have that shape: {exc}") from exc
    check(e, n)
    if e.arithmetic:
        codes = _arithmetic_codes(e).astype(empty_codes(0, e.k).dtype)
        return Quantized(codes, e.levels, e.shape, e.bits, None, e.uniform)
    try:
        codes = empty_codes(n, e.k)
    except (MemoryError, ValueError) as exc:
        raise StreamError(f"no memory for {n} codes: {exc}") from exc
    codes.fill(0 if e.table else e.k - 1)
    if e.table:
        _read(e, e.table, n, 0, codes, None)
    return Quantized(codes, e.levels, e.shape, e.bits, None, e.uniform)


@dataclass(frozen=True)
class Message:
    """An alphabet ready to be coded: its survivors have their final codes.

    units: those of a stream. counts: of codes and tokens. arithmetic: its arithmetic code, if it
    has one. The other attributes are as in `Encoded`.
    """

    survivors: Survivors
    units: int
    counts: Counts
    levels: NDArray[np.float32]
    shape: tuple[int, ...]
    bits: int | None
    uniform: bool = False
    arithmetic: ArithmeticCode | None = None

    def with_arithmetic(self, matrices: Matrices, coder: str) -> Message:
        """The message with an arithmetic code, if the coder may use one for its elements.

        matrices: rows and columns of its tensors.
        """
        if not arithmetic_may_serve(coder, self.survivors.n) or needs_no_bits(self.counts.codes):
            return self
        levels = None if self.uniform else self.levels.reshape(-1)
        return replace(self, arithmetic=arithmetic_code(self.survivors, matrices, levels))


@dataclass(frozen=True)
class ArithmeticCode:
    """The arithmetic code of a message.

    payload: its bytes. codes: uint16 (n,), of all elements. matrices: as in `Encoded`.
    """

    payload: NDArray[np.uint8]
    codes: NDArray[np.uint16]
    matrices: Matrices


def arithmetic_may_serve(coder: str, n: int) -> bool:
    """Whether an arithmetic code is worth trying for n elements."""
    return coder_of(coder).counts_runs and 0 < n <= arithmetic.MOST


def arithmetic_code(
    survivors: Survivors, matrices: Matrices, levels: NDArray[np.float32] | None = None
) -> ArithmeticCode | None:
    """The arithmetic code of survivors; None if it is longer than the elements in float32.

    levels: float32 (k,) of buckets; None for uniform steps.
    """
    codes = arithmetic.dense(survivors)
    step_codes = codes if levels is None else arithmetic.step_codes(levels)[codes]
    payload = arithmetic.write(step_codes, matrices)
    return None if payload is None else ArithmeticCode(payload, codes, matrices)


def needs_no_bits(counts: NDArray[np.int64]) -> bool:
    """True if all elements have the last code."""
    return counts.size == 1 or (counts.size == 2 and counts[0] == 0)


def code(
    m: Message,
    coder: str,
    previous: CodeTable | None,
    segments: Segments | None = None,
    mode: int = 0,
) -> tuple[Encoded, Sums]:
    """Encode a message, and preview or change the track it came from.

    Args:
        m: The message.
        coder: The coder's name.
        previous: The last code table.
        segments: The track, and the arrays to save; None to leave the track alone.
        mode: CHANGE to change the track, LOOK to compute digests only, 0 for neither.

    Returns:
        The encoding, and by how much the digest of each tensor changes (uint64).
    """
    if needs_no_bits(m.counts.codes):
        e = _encoded(m, coder, np.empty(0, np.uint32), np.empty(0, np.uint32), None)
        return e, advance(e, segments and segments.tracks_only(), mode)
    n_streams = -(-m.survivors.units // m.units)
    choice = tables.choose(m.counts, previous, n_streams)
    if m.arithmetic and m.arithmetic.payload.size < choice.nbytes(n_streams):
        size = np.array([8 * m.arithmetic.payload.size], np.uint32)
        e = _encoded(m, coder, m.arithmetic.payload, size, None, m.arithmetic.matrices)
        return e, _advance_codes(e, m.arithmetic.codes, segments and segments.tracks_only(), mode)
    payload, streams, sums = _write(m, choice, segments, mode)
    e = _encoded(m, coder, payload, streams, choice)
    if e.payload_bits != choice.bits:
        raise StreamError(f"{m.survivors.n} codes made {e.payload_bits} bits, not {choice.bits}")
    return e, sums


def _encoded(
    m: Message,
    coder: str,
    payload: NDArray[np.uint32] | NDArray[np.uint8],
    streams: NDArray[np.uint32],
    choice: Choice | None,
    matrices: Matrices = (),
) -> Encoded:
    return Encoded(
        payload=payload,
        streams=streams,
        stream_elements=m.units * UNIT if choice else UNIT,
        table=choice.table if choice else None,
        cached=choice is not None and choice.cached,
        saved_bits=choice.saved_bits if choice else 0,
        levels=m.levels,
        shape=m.shape,
        bits=m.bits,
        coder=coder,
        uniform=m.uniform,
        matrices=matrices,
    )


def advance(e: Encoded, segments: Segments | None, mode: int) -> Sums:
    """Decode onto the track.

    Args:
        e: The encoding.
        segments: The track. If they have sources, the track first becomes a copy of them.
        mode: CHANGE to change the track, LOOK to compute digests only.

    Returns:
        By how much the digest of each tensor changes, uint64.

    Raises:
        CodeTableError, StreamError: The encoding is damaged. The track may have changed in part.
    """
    if segments is None or mode == 0:
        return np.zeros(0, np.uint64)
    check(e, segments.n)
    if e.is_batch and e.levels.shape[2] != segments.tracks.size:
        raise StreamError(f"levels of {e.levels.shape[2]} tensors, not of {segments.tracks.size}")
    if e.arithmetic:
        return _advance_codes(e, _arithmetic_codes(e), segments, mode)
    if e.table is not None:
        return _read(e, e.table, segments.n, mode, np.empty(0, np.uint8), segments)
    for begin, end in workers.pieces(segments.n):
        segments.copy(begin, end)
    sums = np.zeros(segments.tracks.size, np.uint64)
    if e.k == 2:  # every element has code 1
        for i, track in enumerate(segments.arrays[0]):
            moved = track
            with np.errstate(all="ignore"):  # the next delta repairs a track beyond float32's range
                for level in (e.levels[1:, :, i] if e.is_batch else e.levels[1:]).ravel():
                    moved = moved + level if level or not e.columns else moved
            sums[i] = (digest(moved) - digest(track)) % 2**64
            if mode == CHANGE:
                track[...] = moved
    return sums


def element_bits(e: Encoded) -> NDArray[np.float64]:
    """The bits of each element of an arithmetic code, float64 (n,).

    Raises:
        StreamError: The encoding is damaged.
    """
    k = e.k if e.uniform else int(arithmetic.step_codes(e.levels.reshape(-1)).max()) + 1
    return arithmetic.bits(_bytes_of(e), e.matrices, k)


def _advance_codes(
    e: Encoded, codes: NDArray[np.uint16], segments: Segments | None, mode: int
) -> Sums:
    if segments is None or mode == 0:
        return np.zeros(0, np.uint64)
    levels, _ = _flat_levels(e.levels)
    return arithmetic.advance(codes, segments, levels, e.columns, mode)


def _arithmetic_codes(e: Encoded) -> NDArray[np.uint16]:
    """The codes of an arithmetic code: uint16 (n,). Raises StreamError."""
    if e.uniform:
        return arithmetic.read(_bytes_of(e), e.matrices, e.k)
    return arithmetic.read_ranks(_bytes_of(e), e.matrices, e.levels.reshape(-1))


def _bytes_of(e: Encoded) -> NDArray[np.uint8]:
    return e.payload.view(np.uint8)


def digest(array: NDArray[np.float32], first: int = 0) -> int:
    """The sum over all elements of a 64-bit digest of index and value: see FORMAT.md.

    If elements change, the digest changes by a sum over these elements alone, so an update costs no
    more than the delta.

    first: index of the array's first element, if the array is the end of a longer one.
    """
    flat = array.reshape(-1)
    pieces = workers.pieces(flat.size, least=UNIT)
    sums = np.zeros(len(pieces), np.uint64)

    def work(i: int, _scratch: workers.Scratch) -> None:
        begin, end = pieces[i]
        sums[i] = kernels.digest(
            np.uint64(flat.ctypes.data + 4 * begin), end - begin, first + begin
        )

    workers.spread(work, len(pieces))
    return int(sums.sum(dtype=np.uint64))


def check(e: Encoded, n: int) -> None:
    """Raise CodeTableError or StreamError if this cannot be an encoding of n elements."""
    dtype = np.uint8 if e.arithmetic else np.uint32
    if not _is_vector(e.payload, dtype) or not _is_vector(e.streams, np.uint32):
        raise StreamError("payload and streams are uint32 vectors, an arithmetic code is uint8")
    most = MAX_UNIFORM if e.uniform else MAX_LEVELS
    if not _are_levels(e.levels, most):
        raise StreamError(f"levels that are not 1 to {most} float32 numbers")
    if e.levels[:1].any() or not np.isfinite(e.levels).all():
        raise StreamError("levels that are not zero, then finite numbers")
    if e.uniform and (e.is_batch or not _are_steps(e.levels.reshape(-1))):
        raise StreamError("levels are not multiples of a step size above 0")
    if e.arithmetic:
        _check_arithmetic(e, n)
        return
    if e.table is None:
        if e.k > 2:
            raise CodeTableError(f"{e.k} levels cannot all lack a code word")
        if e.payload.size or e.streams.size:
            raise StreamError("an alphabet of one symbol has no streams")
        return
    if not isinstance(e.table, CodeTable):
        raise CodeTableError("a table that is not a CodeTable")
    e.table.check()
    n_lengths = e.table.lengths.size
    if e.table.classes == 1 and n_lengths != e.k:
        raise CodeTableError(f"{n_lengths} code lengths for {e.k} levels")
    if e.k < 2:
        raise StreamError("a code table, but no level other than zero")
    if type(e.stream_elements) is not int or not UNIT <= e.stream_elements <= MAX_STREAM:
        raise StreamError(f"a stream has {UNIT} to {MAX_STREAM} elements")
    if e.streams.size != -(-n // e.stream_elements):
        raise StreamError(f"{e.streams.size} streams for {n} elements")
    check_words(e.payload.view(np.uint32), e.streams)


def check_words(payload: NDArray[np.uint32], streams: NDArray[np.uint32]) -> None:
    """Raise StreamError unless these streams fill the payload, with zeros after their last bits."""
    words = (streams.astype(np.int64) + 31) >> 5
    if int(words.sum()) != payload.size:
        raise StreamError(f"streams of {int(words.sum())} words, found {payload.size}")
    partial = (streams & 31) > 0
    last = payload[np.cumsum(words)[partial] - 1]
    if (last >> (streams[partial] & 31)).any():
        raise StreamError("the unused bits after a stream are not zero")


def problem_of(status: int, n: int, k: int) -> str:
    """The meaning of a kernel's status other than STREAM_OK. n: elements. k: levels."""
    return {
        kernels.STREAM_ENDS_EARLY: f"bits that end before {n} elements are decoded",
        kernels.STREAM_GOES_ON: f"bits that go on after {n} elements",
        kernels.STREAM_LEAVES: f"a symbol beyond the last of {k} levels",
    }[status]


def _check_arithmetic(e: Encoded, n: int) -> None:
    """The part of `check` for an arithmetic code."""
    if e.table is not None or e.streams.tolist() != [8 * e.payload.size]:
        raise StreamError("an arithmetic code has no table, and one stream of whole bytes")
    if e.k < 2 or e.columns > 1 or e.is_batch:
        raise StreamError("an arithmetic code of a batch, of several steps or of no levels")
    if not arithmetic.are_matrices(e.matrices) or arithmetic.n_elements(e.matrices) != n:
        raise StreamError(f"matrices that do not have {n} elements together")
    if e.payload.size and not e.payload[-1]:
        raise StreamError("an arithmetic code that ends with a byte of zeros")


def _write(
    m: Message, choice: Choice, segments: Segments | None, mode: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Sums]:
    s, units, table, k = m.survivors, m.units, choice.table, len(m.levels)
    n_streams = -(-s.units // units)
    most = max(BITS_A_PIECE * n_streams // max(choice.bits, 1), 1)
    pieces = workers.pieces(n_streams, least=least_streams(s, units), most=most)
    words, escape = table.full_words(k - 1)
    near = np.empty(k * int(kernels.NEAR) if table.classes > 1 else 0, np.uint32)
    kernels.near_words(words, near)
    symbol_bits = runlength.symbol_bits(k - 1)
    sizes = np.zeros(n_streams, np.int64)
    payload = Joined(choice.bits // 32 + n_streams + 1, s.dense and choice.bits >= 8 * LARGE)
    tracks, starts, n_tensors = _track_of(segments)
    sums = np.zeros((len(pieces), n_tensors), np.uint64)
    longest = huffman.MAX_LENGTH
    if table.classes > 1:  # a word and the extra bits, or an escape and all that follows it
        longest += runlength.CLASS_BITS + symbol_bits + int(runlength.EXTRA_BITS[-1])
    message = (units, s.n, s.marks, s.codes, words, near, escape, symbol_bits)
    track = (tracks, starts, *_flat_levels(m.levels), mode)

    def work(i: int, scratch: workers.Scratch) -> None:
        first, last = pieces[i]
        n_codes = s.numbers[first * units : last * units].sum(dtype=np.int64)
        if table.classes == 1:
            n_codes = (last - first) * units * UNIT
        out = scratch.at_least(int(n_codes) * longest // 32 + 2 * (last - first) + 2)
        buffers = (sums[i], scratch.positions, scratch.moved)
        used = kernels.write(first, last, *message, out, sizes, *track, *buffers)
        payload.put(i, out[:used])
        s.free_codes(first * units, last * units)

    workers.spread(work, len(pieces))
    return payload.whole(), sizes.astype(np.uint32), sums.sum(axis=0, dtype=np.uint64)


def _read(
    e: Encoded, table: CodeTable, n: int, mode: int, codes: Codes, segments: Segments | None
) -> Sums:
    k, plain = e.k, table.classes == 1
    width = max(int(table.lengths.max()), kernels.FAST)
    one, many = np.zeros(2**width, np.uint64), np.empty(2**kernels.FAST, np.uint64)
    runs = (runlength.EXTRA_BITS, runlength.FIRST_RUN)
    kernels.lookup(table.words, table.classes, *runs, width, one, many)
    two = np.empty(2**kernels.FAST if not plain and e.payload.size >= PAIRED else 0, np.uint64)
    if two.size > 0 and kernels.lookup_two(one, two) < TWICE * two.size:
        two = two[:0]
    sizes = e.streams.astype(np.int64)
    begins, _alive = begins_of(e.payload.view(np.uint32), sizes)
    pieces = workers.pieces(e.streams.size, least=kernels.LANES)
    tracks, starts, n_tensors = _track_of(segments)
    sources = tracks[:0] if segments is None else segments.sources
    sums = np.zeros((len(pieces), n_tensors), np.uint64)
    status = np.zeros(len(pieces), np.int64)
    decoder = (e.stream_elements, n, k, plain, one, many, two, runlength.symbol_bits(k - 1))
    track = (codes, sources, tracks, starts, *_flat_levels(e.levels), e.columns, mode)

    def work(i: int, scratch: workers.Scratch) -> None:
        lists = (scratch.states, scratch.listed, scratch.positions, scratch.codes)
        status[i] = kernels.read(
            begins, sizes, *pieces[i], *decoder, *runs[::-1], *lists, *track, sums[i], scratch.moved
        )

    workers.spread(work, len(pieces))
    if status.any():
        raise StreamError(problem_of(int(status[status > 0][0]), n, k))
    return sums.sum(axis=0, dtype=np.uint64)


def begins_of(
    payload: NDArray[np.uint32], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[NDArray[np.uint32], ...]]:
    """8 x the address of each stream, and the arrays to keep alive while it is used.

    A decoder may read SPARE words behind a stream. The last streams are copied, with SPARE zeros.
    """
    words = (sizes + 31) >> 5
    ends = np.cumsum(words)
    begins = ends - words
    first = int(np.searchsorted(ends, payload.size - SPARE, side="right"))
    at = int(begins[first]) if first < begins.size else payload.size
    payload = np.require(payload, requirements=("C", "ALIGNED"))  # copied only if it is neither
    tail = np.concatenate((payload[at:], np.zeros(SPARE, np.uint32)))
    begins[:first] = 8 * payload.ctypes.data + 32 * begins[:first]
    begins[first:] = 8 * tail.ctypes.data + 32 * (begins[first:] - at)
    return begins, (payload, tail)


def _track_of(segments: Segments | None) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    if segments is None:
        return np.zeros(1, np.uint64), np.zeros(2, np.int64), 0
    return segments.tracks, segments.starts, segments.tracks.size


def _flat_levels(levels: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
    """Levels in a row as `kernels._advance` takes them, and the stride between two tensors' levels.

    Levels that all tensors share are padded to every symbol that a look-up table can hold.
    """
    if levels.ndim == 3:
        rows = np.ascontiguousarray(levels.transpose(2, 0, 1))
        return rows.reshape(-1), rows[0].size
    most = 1024 if len(levels) <= 1024 else 2**15
    padded = np.zeros(most * (levels.size // len(levels)), np.float32)
    padded[: levels.size] = levels.ravel()
    return padded, 0


def numbers_of_levels(levels: NDArray[np.float32]) -> NDArray[np.unsignedinteger[Any]]:
    """Number of levels that a batch stores for each tensor: (t,) uint8, or uint16 if k > 256.

    levels: (k, m, t). Code 0's level is not stored.
    """
    dtype: Any = np.uint8 if len(levels) <= 256 else np.uint16
    return _numbers_of_levels(levels).astype(dtype)


def stored_levels(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """The levels of a batch as a vector, in the order of a record. levels: (k, m, t)."""
    rows = np.arange(1, len(levels)) <= _numbers_of_levels(levels)[:, None]
    return levels[1:].transpose(2, 0, 1)[rows].reshape(-1)


def _numbers_of_levels(levels: NDArray[np.float32]) -> NDArray[np.int64]:
    """int64 (t,): each tensor's last code with a level other than 0."""
    codes = np.arange(len(levels))[:, None]
    return np.where((levels != 0).any(axis=1), codes, 0).max(axis=0)


def _are_levels(levels: object, most: int) -> bool:
    return (
        isinstance(levels, np.ndarray)
        and levels.dtype == np.float32
        and levels.ndim in (1, 2, 3)
        and 1 <= len(levels) <= most
        and 0 not in levels.shape
    )


def _are_steps(levels: NDArray[np.float32]) -> bool:
    """Whether these are uniform levels. levels: float32 (k,)."""
    if levels.size == 1:
        return True
    return bool(levels[1] > 0 and np.array_equal(levels, levels_of(levels[1], levels.size)))


def _is_vector(array: object, dtype: type[np.generic[Any]]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1
