"""Streams of code words: one for each code, or for each run of zeros and the code after it.

An *alphabet* is one or more lossy tensors that share a code, see FORMAT.md.

The elements of an alphabet are cut into streams of equal size. All streams share one code table,
and each is coded on its own: threads write and read them in parallel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from codec.errors import CodeTableError, PayloadError, StreamError

from . import plain, runlength, workers
from .kernels import codes as encoder
from .kernels import decode as decoder
from .limits import MAX_CLASSES, MAX_LENGTH, MAX_STREAM, N_BINS, UNIT
from .memory import LARGE, Joined
from .payload import (
    Alphabet,
    Levels,
    Moving,
    Payload,
    Row,
    Sums,
    codes_for,
    is_vector,
)
from .pieces import Bytes, Pieces, aligned
from .quantize import Codes
from .survivors import Segments, Survivors
from .tables import Choice, CodeTable
from .twins import twin_of

SYMBOLS_A_STREAM = 8192  # at least: the 6 bytes of each stream then hardly matter
STREAMS = 8  # at least, if there are enough units
NS_A_UNIT, NS_A_SURVIVOR = 500, 4  # rough times in one thread
NS_A_PIECE = 100_000  # several times the cost of calling another thread
BITS_A_PIECE = 2**20  # rough limit: a piece is written to scratch memory, then copied
LEAST_WORDS = 2**12  # of a payload whose tokens are looked up in pairs
LEAST_PAIRS = 0.8  # of look-ups; with fewer pairs, the second table costs more than it saves
SPARE = 4  # words behind a stream that a decoder may read but does not use

Words = NDArray[np.uint32]
Final = NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class PrefixCode(Payload):
    """A code word for each code, or for each run of zeros and the code after it.

    Attributes:
        words: uint32. Each stream begins a new word; the first bit is the lowest.
        streams: uint32, bits of each stream.
        stream_elements: Elements of every stream but the last.
        table: The code.
        cached: Whether the record reuses the last table.
        saved_bits: How many more bits a new table would have cost; 0 if read from a record.
    """

    TITLE: ClassVar[str] = "code words"
    CLASSES: ClassVar[range] = range(1, MAX_CLASSES + 1)

    words: Words
    streams: NDArray[np.uint32]
    stream_elements: int
    table: CodeTable = field()  # required: a payload has None by default
    cached: bool = False
    saved_bits: int = 0

    @property
    def bits(self) -> int:
        """Bits of all streams."""
        return int(self.streams.sum(dtype=np.int64))

    @property
    def data(self) -> Bytes:
        """The words as bytes."""
        return self.words.view(np.uint8)

    @property
    def data_nbytes(self) -> int:
        """Bytes of the words that the streams need."""
        return 4 * int(self._sizes.sum())

    @property
    def _sizes(self) -> NDArray[np.int64]:
        """Words of each stream."""
        return (self.streams.astype(np.int64) + 31) >> 5

    @property
    def new_table(self) -> bytes:
        """The table in the head; no bytes if it is reused."""
        return b"" if self.cached else self.table.packed.tobytes()

    @property
    def row(self) -> Row:
        """Classes, units of a stream, and bytes of a new table."""
        units, remainder = divmod(self.stream_elements, UNIT)
        assert remainder == 0, "streams are made of whole units"
        return Row(0, self.table.classes, units, len(self.new_table))

    @property
    def head(self) -> bytes:
        """The new table, and the bits of each stream."""
        return self.new_table + self.streams.tobytes()

    @property
    def table_nbytes(self) -> int:
        """Bytes of a new table; 0 if it is reused."""
        return len(self.new_table)

    @classmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        """Read table and bits of each stream. Raises PayloadError."""
        row.check_units()
        packed, table = head.take(row.size), alphabet.last_table
        if packed.size:
            table = CodeTable.unpacked(packed, alphabet.k - 1, row.classes, alphabet.uniform)
        elif table is None or table.classes != row.classes:
            raise PayloadError(
                f"the code table sent last for {alphabet.name!r}, but none of its kind"
            )
        elements = row.units * UNIT
        streams = aligned(head.take(4 * -(-alphabet.n // elements)), np.uint32)
        return cls(np.empty(0, np.uint32), streams, elements, table, cached=not packed.size)

    def with_data(self, data: Bytes) -> Self:
        """The same streams with their words."""
        return replace(self, words=data.view(np.uint32))

    def stream_begins(self, n: int) -> tuple[Sequence[int], Sequence[int]]:
        """Where each stream begins, and the last one ends."""
        elements = [*range(0, n, self.stream_elements), n]
        return elements, [0, *(4 * np.cumsum(self._sizes)).tolist()]

    def of_streams(self, first: int, last: int, n: int) -> Self:
        """Some of the streams, without their words."""
        return replace(self, streams=self.streams[first:last], words=self.words[:0])

    def check(self, n: int, k: int) -> None:
        """Raise CodeTableError or StreamError if these cannot be streams of n elements."""
        if not isinstance(self.table, CodeTable):
            raise CodeTableError("a table that is not a CodeTable")
        self.table.check()
        n_lengths = self.table.lengths.size
        if self.table.classes == 1 and n_lengths != k:
            raise CodeTableError(f"{n_lengths} code lengths for {k} levels")
        if k < 2:
            raise StreamError("a code table, but no level other than zero")
        elements = self.stream_elements
        if type(elements) is not int or not UNIT <= elements <= MAX_STREAM:
            raise StreamError(f"a stream has {UNIT} to {MAX_STREAM} elements")
        if not is_vector(self.words, np.uint32) or not is_vector(self.streams, np.uint32):
            raise StreamError("words and streams are uint32 vectors")
        if self.streams.size != -(-n // elements):
            raise StreamError(f"{self.streams.size} streams for {n} elements")
        check_words(self.words.view(np.uint32), self.streams)

    def codes(self, n: int, levels: Levels, uniform: bool) -> Codes:
        """The code of each element: (n,). Raises StreamError."""
        codes = codes_for(n, len(levels))
        codes.fill(0)
        _read(self, n, levels, 0, codes, None)
        return codes

    def advance(self, levels: Levels, uniform: bool, segments: Segments, mode: int) -> Sums:
        """Decode onto the track; see `stream.advance`. Raises StreamError."""
        return _read(self, segments.n, levels, mode, np.empty(0, np.uint8), segments)


def _read_plainly(
    p: PrefixCode, n: int, levels: Levels, mode: int, codes: Codes, segments: Segments | None
) -> Sums:
    code = (p.table.lengths, p.table.classes, len(levels))
    positions, symbols = plain.read(p.words, p.streams, p.stream_elements, n, code)
    if mode == 0 or segments is None:
        codes[positions] = symbols
        return np.zeros(0, np.uint64)
    return plain.advance(segments, positions, symbols, levels, mode)


@twin_of(_read_plainly)
def _read(
    p: PrefixCode, n: int, levels: Levels, mode: int, codes: Codes, segments: Segments | None
) -> Sums:
    """Decode onto the track, or into codes if the mode is 0. Raises StreamError."""
    table, k = p.table, len(levels)
    is_plain = table.classes == 1
    width = max(int(table.lengths.max()), decoder.FAST)
    one, many = np.zeros(2**width, np.uint64), np.empty(2**decoder.FAST, np.uint64)
    decoder.lookup(table.words, table.classes, width, 0, one, many)
    pairs = not is_plain and p.words.size >= LEAST_WORDS
    two = np.empty(2**decoder.FAST if pairs else 0, np.uint64)
    if two.size > 0 and decoder.lookup_two(one, two) < LEAST_PAIRS * two.size:
        two = two[:0]
    sizes = p.streams.astype(np.int64)
    begins, _alive = begins_of(p.words.view(np.uint32), sizes)
    pieces = workers.pieces(p.streams.size, least=decoder.LANES)
    moving = Moving(segments, levels, mode, len(pieces))
    status = np.zeros(len(pieces), np.int64)
    streams = decoder.Streams(begins, sizes, p.stream_elements, n)
    tables = decoder.Tables(k, is_plain, one, many, two, runlength.symbol_bits(k - 1))

    def work(i: int, scratch: workers.Scratch) -> None:
        lists = scratch.listed, scratch.positions, scratch.codes
        track = moving.track(i, scratch)
        status[i] = decoder.read(pieces[i], streams, tables, lists, codes, track)

    workers.spread(work, len(pieces))
    if status.any():
        raise StreamError(problem_of(int(status[status > 0][0]), n, k))
    return moving.sums


def stream_units(n: int, n_symbols: int) -> int:
    """Units of a stream: the power of two that makes enough streams of enough symbols."""
    units = 1
    while (
        2 * units * UNIT <= MAX_STREAM
        and units * UNIT * n_symbols < SYMBOLS_A_STREAM * n
        and n > (STREAMS - 1) * 2 * units * UNIT
    ):
        units *= 2
    return units


def _least_streams(s: Survivors, units: int) -> int:
    """How many streams make calling another thread worthwhile. units: those of a stream."""
    survivors_a_unit = int(s.numbers.sum(dtype=np.int64)) / max(s.units, 1)
    return math.ceil(NS_A_PIECE / (NS_A_UNIT + NS_A_SURVIVOR * survivors_a_unit) / units)


def settle_tokens(
    s: Survivors, final: Final | None, counts: NDArray[np.int64], units: int
) -> NDArray[np.int64]:
    """Give survivors their final codes, and count tokens; those of code 0 are survivors no more.

    Args:
        s: The survivors.
        final: uint16 (512,), the final code of each of their codes; None if codes are final.
        counts: int64 (k,), how often each final code occurs.
        units: Of a stream.

    Returns:
        The counts of tokens as in `Counts`.
    """
    if final is None:
        final = np.arange(max(counts.size, N_BINS), dtype=np.uint16)
    # One row for all symbols without words.
    return _tokens(s, final, units, min(counts.size, runlength.MAX_SYMBOLS + 2) - 1)


@twin_of(plain.settle_tokens)
def _tokens(s: Survivors, final: Final, units: int, rows: int) -> NDArray[np.int64]:
    """See `plain.settle_tokens`."""
    pieces = workers.pieces(-(-s.units // units), least=_least_streams(s, units))
    counts = np.zeros((len(pieces), rows + 1, int(encoder.NEAR) + MAX_CLASSES), np.int32)

    def work(i: int, _scratch: workers.Scratch) -> None:
        encoder.settle_tokens(pieces[i], units, final, s.marked, counts[i])

    workers.spread(work, len(pieces))
    tokens = np.zeros((rows, MAX_CLASSES), np.int64)
    encoder.sum_tokens(counts, tokens)
    return tokens


def write(
    s: Survivors, units: int, choice: Choice, levels: Levels, segments: Segments | None, mode: int
) -> tuple[PrefixCode, Sums]:
    """Write the codes of survivors, and preview or change the track that they come from.

    Args:
        s: The survivors, with final codes, whose memory is freed as they are written.
        units: Units of a stream.
        choice: The code table.
        levels: As in `stream.Encoded`.
        segments: The track, and the arrays to save; None to leave the track alone.
        mode: CHANGE to change the track, LOOK to compute digests only, 0 for neither.

    Returns:
        The payload, and by how much the digest of each tensor changes (uint64).

    Raises:
        StreamError: The codes do not take the bits of the choice.
    """
    table, k = choice.table, len(levels)
    words, escape = table.full_words(k - 1)
    code = (words, int(escape), runlength.symbol_bits(k - 1))
    written, sizes, sums = _written(s, units, code, choice.bits, levels, segments, mode)
    streams = sizes.astype(np.uint32)
    payload = PrefixCode(written, streams, units * UNIT, table, choice.cached, choice.saved_bits)
    if payload.bits != choice.bits:
        raise StreamError(f"{s.n} codes made {payload.bits} bits, not {choice.bits}")
    return payload, sums


def _written_plainly(
    s: Survivors,
    units: int,
    code: tuple[Words, int, int],
    bits: int,
    levels: Levels,
    segments: Segments | None,
    mode: int,
) -> tuple[Words, NDArray[np.int64], Sums]:
    words, sizes = plain.write(s, units, *code)
    if segments is None or mode == 0:
        return words, sizes, np.zeros(0, np.uint64)
    return words, sizes, plain.advance(segments, *plain.survivors_of(s), levels, mode)


@twin_of(_written_plainly)
def _written(
    s: Survivors,
    units: int,
    code: tuple[Words, int, int],
    bits: int,
    levels: Levels,
    segments: Segments | None,
    mode: int,
) -> tuple[Words, NDArray[np.int64], Sums]:
    """Words, the bits of each stream, and the changes of digests.

    code: words, escape and symbol_bits as in `plain.write`. bits: in all. The others: see `write`.
    """
    words, escape, symbol_bits = code
    n_streams = -(-s.units // units)
    most = max(BITS_A_PIECE * n_streams // max(bits, 1), 1)
    pieces = workers.pieces(n_streams, least=_least_streams(s, units), most=most)
    near = np.empty(len(levels) * int(encoder.NEAR) if escape else 0, np.uint32)
    encoder.near_words(words, near)
    sizes = np.zeros(n_streams, np.int64)
    joined = Joined(bits // 32 + n_streams + 1, s.dense and bits >= 8 * LARGE, np.uint32)
    moving = Moving(segments, levels, mode, len(pieces))
    longest = MAX_LENGTH
    if escape:  # a word and the extra bits, or an escape and all that follows it
        longest += runlength.CLASS_BITS + symbol_bits + int(runlength.EXTRA_BITS[-1])
    own = words, np.uint32(escape), symbol_bits

    def work(i: int, scratch: workers.Scratch) -> None:
        first, last = pieces[i]
        n_codes = s.numbers[first * units : last * units].sum(dtype=np.int64)
        if not escape:
            n_codes = (last - first) * units * UNIT
        out = scratch.at_least(int(n_codes) * longest // 32 + 2 * (last - first) + 2)
        message, track = (units, s.n, s.marked, own, near), moving.track(i, scratch)
        used = encoder.write(pieces[i], *message, out, sizes, track, scratch.positions)
        joined.put(i, out[:used])
        s.free_codes(first * units, last * units)

    workers.spread(work, len(pieces))
    return joined.whole(), sizes, moving.sums


def check_words(words: Words, streams: NDArray[np.uint32]) -> None:
    """Raise StreamError unless these streams fill the words, with zeros after their last bits."""
    end, are_clean = 0, True
    for bits in streams.tolist():
        end += (bits + 31) >> 5
        if bits & 31 and end <= words.size:
            are_clean &= int(words[end - 1]) >> (bits & 31) == 0
    if end != words.size:
        raise StreamError(f"streams of {end} words, found {words.size}")
    if not are_clean:
        raise StreamError("the unused bits after a stream are not zero")


def problem_of(status: int, n: int, k: int) -> str:
    """The meaning of a kernel's status other than STREAM_OK. n: elements. k: levels."""
    return {
        decoder.STREAM_ENDS_EARLY: f"bits that end before {n} elements are decoded",
        decoder.STREAM_GOES_ON: f"bits that go on after {n} elements",
        decoder.STREAM_LEAVES: f"a symbol beyond the last of {k} levels",
    }[status]


def begins_of(
    words: Words, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[Words, ...]]:
    """The address of each stream in bits, 8 x that of its first byte.

    Also the arrays to keep alive while it is used.

    A decoder may read SPARE words behind a stream. The last streams are copied, with SPARE zeros.
    """
    n_before = tail_begin = at = 0
    bits_before = []
    for i, bits in enumerate(sizes.tolist(), 1):
        bits_before.append(32 * at)
        at += (bits + 31) >> 5
        if at <= words.size - SPARE:
            n_before, tail_begin = i, at
    begins = np.array(bits_before, np.int64)
    if not (words.flags.c_contiguous and words.flags.aligned):
        words = words.copy()
    tail = np.concatenate((words[tail_begin:], np.zeros(SPARE, np.uint32)))
    begins[:n_before] += 8 * words.ctypes.data
    begins[n_before:] += 8 * tail.ctypes.data - 32 * tail_begin
    return begins, (words, tail)
