"""Quantized values to bytes and back: the lossless stage, whichever coder is chosen.

The elements of an alphabet are cut into streams of equal size, each coded on its own with the
one code table, so that threads can write and read them side by side. On disk an alphabet takes
its payload, four bytes a stream, its table (nothing if the last one is used again), and four
bytes for each level but the first, which is 0.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import CodeTableError, StreamError

from . import huffman, kernels, runlength, tables, workers
from .coders import coder_of, least_streams
from .kernels import MAX_STREAM, UNIT
from .memory import LARGE, Pages
from .quantize import Codes, Quantized, empty_codes
from .survivors import Segments, Survivors, packed
from .tables import CodeTable, Counts

MAX_LEVELS = 511  # zero, and one level for each exponent field and sign
BITS_A_PIECE = 2**20  # about, at most: they are written elsewhere before they get their place

PAIRED = 2**12  # words of a payload, from which on tokens are looked up by two,
TWICE = 0.8  # if that finds two so often: each of them may lie elsewhere in memory
SPARE = 4  # words behind a stream that a decoder may look at

LOOK, CHANGE = 1, 2  # modes of the kernels: compute new digests only, or move the track too

Sums = NDArray[np.uint64]


@dataclass(frozen=True)
class Encoded:
    """A quantized delta as bytes.

    payload: uint32 words; every stream begins with one, its first bit lowest. streams: uint32,
    bits of each. stream_elements: elements of every stream but the last. table: its code, None
    if all elements have the code k - 1. cached: the table is the one sent last. saved_bits:
    what sending a new one would have cost more. levels: float32 (k,), levels[0] == 0.0; or (k, m)
    of m merged deltas, whose levels are added one after the other. shape: that of the delta.
    bits: x of priority promotion or None. coder: its name.
    """

    payload: NDArray[np.uint32]
    streams: NDArray[np.uint32]
    stream_elements: int
    table: CodeTable | None
    cached: bool
    saved_bits: int
    levels: NDArray[np.float32]
    shape: tuple[int, ...]
    bits: int | None
    coder: str

    @property
    def k(self) -> int:
        """How many codes there are."""
        return len(self.levels)

    @property
    def columns(self) -> int:
        """How many merged deltas it stands for; 0 if it is a plain one."""
        return 0 if self.levels.ndim == 1 else self.levels.shape[1]

    @property
    def payload_bits(self) -> int:
        """Bits of all streams."""
        return int(self.streams.sum(dtype=np.int64))

    @property
    def code_lengths(self) -> NDArray[np.uint8]:
        """uint8, of every code or token; all 0 if no bits are needed."""
        return self.table.lengths if self.table else np.zeros(self.k, np.uint8)

    @property
    def table_nbytes(self) -> int:
        """Bytes of the table on disk: 0 if it is the one sent last."""
        return self.table.packed.size if self.table and not self.cached else 0

    @property
    def nbytes(self) -> int:
        """Bytes on disk: payload, sizes of the streams, table, and levels but the zero."""
        return (
            self.payload.nbytes + self.streams.nbytes + self.table_nbytes + self.levels[1:].nbytes
        )


def encode(q: Quantized, coder: str = "huffman") -> Encoded:
    """Code the codes of ``q`` without loss.

    coder: "huffman", the paper's code of single values, or "runlength", which also codes runs
    of zeros and is never larger. Raises SettingsError for an unknown coder; for a ``q`` put
    together by hand, StreamError if its codes, levels and buckets contradict each other.
    """
    settle = coder_of(coder).settle
    counts, k = q.counts, q.levels.size
    if counts.size != k or k > MAX_LEVELS:
        raise StreamError(f"{counts.size} different codes for {k} levels")
    found = np.bincount(q.codes, minlength=k)
    if found.size != k or (found != counts).any():
        raise StreamError("the codes do not have the counts of their buckets")
    if np.count_nonzero(counts) == 1 and not needs_no_bits(counts):
        raise StreamError(f"one code alone, which cannot be told from the others of {k} levels")
    with packed(q.codes) as survivors:
        units, tokens = settle(survivors, None, counts)
        message = Message(survivors, units, Counts(counts, tokens), q.levels, q.shape, q.bits)
        return code(message, coder, None)[0]


def decode(e: Encoded) -> Quantized:
    """The same codes and levels that were encoded; buckets are None.

    Raises SettingsError for an unknown coder, CodeTableError or StreamError for a damaged
    encoding; never reads or writes out of bounds, whatever the fields hold.
    """
    coder_of(e.coder)
    try:
        n = np.broadcast_to(np.uint8(0), e.shape).size  # numpy's rules for shapes, no memory
    except (TypeError, ValueError, OverflowError) as exc:
        raise StreamError(f"no array can have that shape: {exc}") from exc
    check(e, n)
    try:
        codes = empty_codes(n, e.k)
    except (MemoryError, ValueError) as exc:
        raise StreamError(f"no memory for {n} codes: {exc}") from exc
    codes.fill(0 if e.table else e.k - 1)
    if e.table:
        _read(e, e.table, n, 0, codes, None)
    return Quantized(codes, e.levels, e.shape, e.bits, None)


@dataclass(frozen=True)
class Message:
    """An alphabet ready to be coded: survivors whose codes are the levels.

    units: of a stream. counts: of codes and tokens. The others as in `Encoded`.
    """

    survivors: Survivors
    units: int
    counts: Counts
    levels: NDArray[np.float32]
    shape: tuple[int, ...]
    bits: int | None


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
    """Code a message, and look at or move the track it came from.

    previous: the table sent last. Returns the encoding and by how much the digest of each
    tensor changes, uint64.
    """
    if needs_no_bits(m.counts.codes):
        nothing = np.empty(0, np.uint32)
        e = Encoded(nothing, nothing, UNIT, None, False, 0, m.levels, m.shape, m.bits, coder)
        return e, advance(e, segments and segments.tracks_only(), mode)
    choice = tables.choose(m.counts, previous, -(-m.survivors.units // m.units))
    payload, streams, sums = _write(m, choice, segments, mode)
    e = Encoded(
        payload,
        streams,
        m.units * UNIT,
        choice.table,
        choice.cached,
        choice.saved_bits,
        m.levels,
        m.shape,
        m.bits,
        coder,
    )
    if e.payload_bits != choice.bits:
        raise StreamError(f"{m.survivors.n} codes made {e.payload_bits} bits, not {choice.bits}")
    return e, sums


def advance(e: Encoded, segments: Segments | None, mode: int) -> Sums:
    """Decode onto the track: change it, or only look at what would change.

    With sources, the track first becomes a copy of them. Returns by how much the digest of
    each tensor changes, uint64. Raises CodeTableError or StreamError for a damaged encoding;
    the track may then have changed in part.
    """
    if segments is None or mode == 0:
        return np.zeros(0, np.uint64)
    check(e, segments.n)
    if e.table is not None:
        return _read(e, e.table, segments.n, mode, np.empty(0, np.uint8), segments)
    for begin, end in workers.pieces(segments.n):
        segments.copy(begin, end)
    sums = np.zeros(segments.tracks.size, np.uint64)
    if e.k == 2:  # every element has code 1
        for i, track in enumerate(segments.arrays[0]):
            moved = track
            with np.errstate(all="ignore"):  # a track beyond float32's range heals
                for level in e.levels[1:].ravel():
                    moved = moved + level if level or not e.columns else moved
            sums[i] = (digest(moved) - digest(track)) % 2**64
            if mode == CHANGE:
                track[...] = moved
    return sums


def digest(array: NDArray[np.float32]) -> int:
    """The sum over all elements of a 64-bit digest of index and value: see FORMAT.md.

    It changes by a difference where an element changes, so a delta's digest costs no more
    than its delta.
    """
    flat = array.reshape(-1)
    pieces = workers.pieces(flat.size, least=UNIT)
    sums = np.zeros(len(pieces), np.uint64)

    def work(i: int, _scratch: workers.Scratch) -> None:
        begin, end = pieces[i]
        sums[i] = kernels.digest(flat[begin:end], begin)

    workers.spread(work, len(pieces))
    return int(sums.sum(dtype=np.uint64))


def check(e: Encoded, n: int) -> None:
    """Raise CodeTableError or StreamError for what cannot be the encoding of n elements."""
    if not _is_vector(e.payload, np.uint32) or not _is_vector(e.streams, np.uint32):
        raise StreamError("payload and streams are uint32 vectors")
    if not _are_levels(e.levels):
        raise StreamError(f"levels are not 1 to {MAX_LEVELS} of float32")
    if e.levels[:1].any() or not np.isfinite(e.levels).all():
        raise StreamError("levels are not zero, then finite numbers")
    if e.table is None:
        if e.k > 2:
            raise CodeTableError(f"{e.k} levels cannot all lack a code word")
        if e.payload.size or e.streams.size:
            raise StreamError("an alphabet of one symbol has no streams")
        return
    if not isinstance(e.table, CodeTable):
        raise CodeTableError("a table is a CodeTable")
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
    words = (e.streams.astype(np.int64) + 31) >> 5
    if int(words.sum()) != e.payload.size:
        raise StreamError(f"streams of {int(words.sum())} words, found {e.payload.size}")
    partial = (e.streams & 31) > 0
    last = e.payload[np.cumsum(words)[partial] - 1]
    if (last >> (e.streams[partial] & 31)).any():
        raise StreamError("the unused bits after a stream are not zero")


def _write(
    m: Message, choice: tables.Choice, segments: Segments | None, mode: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], Sums]:
    s, units, table, levels = m.survivors, m.units, choice.table, m.levels
    n_streams = -(-s.units // units)
    most = max(BITS_A_PIECE * n_streams // max(choice.bits, 1), 1)
    pieces = workers.pieces(n_streams, least=least_streams(s, units), most=most)
    k = len(levels)
    words, escape = table.full_words(k - 1)
    near = np.empty(k * int(kernels.NEAR) if table.classes > 1 else 0, np.uint32)
    kernels.near_words(words, near)
    symbol_bits = runlength.symbol_bits(k - 1)
    sizes = np.zeros(n_streams, np.int64)
    payload = _InOrder(choice.bits // 32 + n_streams + 1, s.dense and choice.bits >= 8 * LARGE)
    tracks, starts, n_tensors = _track_of(segments)
    sums = np.zeros((len(pieces), n_tensors), np.uint64)
    all_levels = _padded(levels)
    longest = huffman.MAX_LENGTH
    if table.classes > 1:  # a word and the open bits, or an escape and all that follows it
        longest += runlength.CLASS_BITS + symbol_bits + int(runlength.OPEN_BITS[-1])

    def work(i: int, scratch: workers.Scratch) -> None:
        first, last = pieces[i]
        coded = s.numbers[first * units : last * units].sum(dtype=np.int64)
        if table.classes == 1:
            coded = (last - first) * units * UNIT
        out = scratch.room(int(coded) * longest // 32 + 2 * (last - first) + 2)
        used = kernels.write(
            first,
            last,
            units,
            s.n,
            s.marks,
            s.codes,
            words,
            near,
            escape,
            symbol_bits,
            out,
            sizes,
            tracks,
            starts,
            all_levels,
            mode,
            sums[i],
            scratch.positions,
            scratch.moved,
        )
        payload.put(i, out[:used])
        s.leave(first * units, last * units)

    workers.spread(work, len(pieces))
    return payload.whole(), sizes.astype(np.uint32), sums.sum(axis=0, dtype=np.uint64)


def _read(
    e: Encoded, table: CodeTable, n: int, mode: int, codes: Codes, segments: Segments | None
) -> Sums:
    k, plain = e.k, table.classes == 1
    width = max(int(table.lengths.max()), kernels.FAST)
    one, many = np.zeros(2**width, np.uint64), np.empty(2**kernels.FAST, np.uint64)
    kernels.lookup(
        table.words, table.classes, runlength.OPEN_BITS, runlength.FIRST_RUN, width, one, many
    )
    two = np.empty(2**kernels.FAST if not plain and e.payload.size >= PAIRED else 0, np.uint64)
    if two.size > 0 and kernels.lookup_two(one, two) < TWICE * two.size:
        two = two[:0]
    sizes = e.streams.astype(np.int64)
    begins, _kept = _begins(e.payload, sizes)
    pieces = workers.pieces(e.streams.size, least=kernels.LANES)
    tracks, starts, n_tensors = _track_of(segments)
    sources = tracks[:0] if segments is None else segments.sources
    sums = np.zeros((len(pieces), n_tensors), np.uint64)
    status = np.zeros(len(pieces), np.int64)
    levels, symbol_bits = _padded(e.levels), runlength.symbol_bits(k - 1)

    def work(i: int, scratch: workers.Scratch) -> None:
        status[i] = kernels.read(
            begins,
            sizes,
            *pieces[i],
            e.stream_elements,
            n,
            k,
            plain,
            one,
            many,
            two,
            symbol_bits,
            runlength.FIRST_RUN,
            runlength.OPEN_BITS,
            scratch.states,
            scratch.listed,
            scratch.positions,
            scratch.found,
            codes,
            sources,
            tracks,
            starts,
            levels,
            e.columns,
            mode,
            sums[i],
            scratch.moved,
        )

    workers.spread(work, len(pieces))
    if status.any():
        what = {
            kernels.STREAM_ENDS_EARLY: f"bits that end before {n} elements are told",
            kernels.STREAM_GOES_ON: f"bits that go on after {n} elements",
            kernels.STREAM_LEAVES: f"a symbol beyond the last of {k} levels",
        }[int(status[status > 0][0])]
        raise StreamError(what)
    return sums.sum(axis=0, dtype=np.uint64)


def _begins(
    payload: NDArray[np.uint32], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[NDArray[np.uint32], ...]]:
    """8 x the address of each stream, and what has to be kept alive meanwhile.

    Some bytes behind a stream are read too, though not used: the last ones are copied.
    """
    words = (sizes + 31) >> 5
    ends = np.cumsum(words)
    begins = ends - words
    first = int(np.searchsorted(ends, payload.size - SPARE, side="right"))
    at = int(begins[first]) if first < begins.size else payload.size
    payload = np.ascontiguousarray(payload)
    tail = np.concatenate((payload[at:], np.zeros(SPARE, np.uint32)))
    begins[:first] = 8 * payload.ctypes.data + 32 * begins[:first]
    begins[first:] = 8 * tail.ctypes.data + 32 * (begins[first:] - at)
    return begins, (payload, tail)


class _InOrder:
    """Parts that come in any order, joined in theirs without being kept twice.

    most: words of all. sparing: while they come, memory is given back elsewhere, bit by bit; so
    it is taken bit by bit.
    """

    def __init__(self, most: int, sparing: bool) -> None:
        self._joined = np.empty(0 if sparing else most, np.uint32)
        if sparing:
            self._joined = Pages(4 * most).content.view(np.uint32)
        self._used = self._next = 0
        self._waiting: dict[int, NDArray[np.uint32]] = {}
        self._lock = threading.Lock()

    def put(self, i: int, part: NDArray[np.uint32]) -> None:
        """Part i; it is copied."""
        with self._lock:
            if i != self._next:
                self._waiting[i] = part.copy()
                return
            self._place(part)
            while (waiting := self._waiting.pop(self._next, None)) is not None:
                self._place(waiting)

    def whole(self) -> NDArray[np.uint32]:
        """All parts, joined."""
        return self._joined[: self._used]

    def _place(self, part: NDArray[np.uint32]) -> None:
        self._joined[self._used : self._used + part.size] = part
        self._used += part.size
        self._next += 1


def _track_of(segments: Segments | None) -> tuple[NDArray[np.uint64], NDArray[np.int64], int]:
    if segments is None:
        return np.zeros(1, np.uint64), np.zeros(2, np.int64), 0
    return segments.tracks, segments.starts, segments.tracks.size


def _padded(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Levels for every symbol that a look-up entry can name."""
    padded = np.zeros(1024 * (levels.size // len(levels)), np.float32)
    padded[: levels.size] = levels.ravel()
    return padded


def _are_levels(levels: object) -> bool:
    return (
        isinstance(levels, np.ndarray)
        and levels.dtype == np.float32
        and levels.ndim in (1, 2)
        and 1 <= len(levels) <= MAX_LEVELS
        and levels.shape[1:] != (0,)
    )


def _is_vector(array: object, dtype: type[np.generic[Any]]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1
