"""Groups: one code word for several neighbours, in dense alphabets.

Where about half of all values change, run lengths need a word for almost every value, and the time
that each word takes. Here one word stands for 4 neighbouring codes, or for 2 with more than 8
levels: these codes are the digits of a symbol, and one Huffman code serves all symbols. It is
written and read without a branch.

A word has whole bits, but rounding costs little where several values share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from codec.errors import CodeTableError, PayloadError, StreamError

from . import huffman, kernels, workers
from .coders import least_streams
from .kernels import LANES, MAX_GROUP_LENGTH, UNIT
from .memory import LARGE, Joined
from .payload import Alphabet, Levels, Row, Sums, codes_for
from .pieces import Pieces, aligned
from .prefix import BITS_A_PIECE, WordStreams, begins_of, problem_of, track_of
from .quantize import Codes
from .survivors import Segments, Survivors

MOST_LEVELS = 64  # of groups: two codes of 6 bits
MOST_BITS_OF_FOUR = 3  # of a code, where a group has four of them
LEAST = 2**17  # elements, at least
LEAST_A_WORD = 256  # elements for each word of a table, at least: its lengths then hardly count
LEAST_CHANGED = 0.45  # of all elements: where fewer change, runs are decoded as fast
ENOUGH = 1.015  # of the entropy of single values; runs take up to 1.01 of it
SAMPLED = 16  # units: of so many, one is counted first


def shape_of(k: int) -> tuple[int, int]:
    """Bits of a code, and codes of a group, with k levels."""
    bits = max((k - 1).bit_length(), 1)
    return bits, 4 if bits <= MOST_BITS_OF_FOUR else 2


@dataclass(frozen=True, eq=False)
class GroupedCode(WordStreams):
    """Streams of UNIT elements, with a code word for each group.

    Attributes:
        lengths: uint8 (2**(bits of a code * codes of a group),), the length of each code word.
    """

    TITLE: ClassVar[str] = "code of groups"
    CLASSES: ClassVar[Sequence[int]] = (252,)
    VERSION: ClassVar[int] = 2
    SINGLE: ClassVar[bool] = True
    SHARED: ClassVar[bool] = True

    lengths: NDArray[np.uint8]

    @property
    def table_nbytes(self) -> int:
        """Bytes of the code lengths in a record."""
        return huffman.pack_lengths(self.lengths).size

    @property
    def row(self) -> Row:
        """Streams of one unit, and bytes of the table."""
        return Row(0, self.CLASSES[0], 1, self.table_nbytes)

    @property
    def head(self) -> bytes:
        """The table, and the bits of each stream."""
        return huffman.pack_lengths(self.lengths).tobytes() + self.streams.tobytes()

    @classmethod
    def take_head(cls, row: Row, head: Pieces, alphabet: Alphabet) -> Self:
        """Read table and bits of each stream. Raises PayloadError."""
        if row.units != 1:
            raise PayloadError(f"groups in streams of {row.units} units")
        if alphabet.k > MOST_LEVELS:
            raise PayloadError(f"groups of {alphabet.k} levels")
        bits, group = shape_of(alphabet.k)
        lengths = huffman.unpack_lengths(head.take(row.size), 1 << bits * group)
        streams = aligned(head.take(4 * -(-alphabet.n // UNIT)), np.uint32)
        return cls(np.empty(0, np.uint32), streams, lengths)

    def check(self, n: int, k: int) -> None:
        """Raise CodeTableError or StreamError if these cannot be groups of n elements."""
        if not 2 <= k <= MOST_LEVELS:
            raise StreamError(f"groups of {k} levels")
        bits, group = shape_of(k)
        if not huffman.checked_lengths(self.lengths).any():
            raise CodeTableError("a table without code words")
        if self.lengths.size != 1 << bits * group:
            raise CodeTableError(f"{self.lengths.size} code lengths for groups of {k} levels")
        if (longest := int(self.lengths.max())) > MAX_GROUP_LENGTH:
            raise CodeTableError(f"a group's code word of {longest} bits, not {MAX_GROUP_LENGTH}")
        symbols = np.flatnonzero(self.lengths)
        if any((symbols >> bits * i & (1 << bits) - 1).max() >= k for i in range(group)):
            raise CodeTableError(f"a code word of a group with a code beyond {k} levels")
        self.check_streams(n, UNIT)

    def stream_begins(self, n: int) -> tuple[Sequence[int], Sequence[int]]:
        """Where each stream begins, and the last one ends."""
        return self.begins_every(UNIT, n)

    def codes(self, n: int, levels: Levels, uniform: bool) -> Codes:
        """The code of each element: (n,). Raises StreamError."""
        codes = codes_for(n, len(levels))
        self._read(n, levels, 0, codes, None)
        return codes

    def element_bits(self, n: int, levels: Levels, uniform: bool) -> NDArray[np.float64]:
        """Those of a group's word, shared equally among its elements: (n,). Raises StreamError."""
        codes = self.codes(n, levels, uniform)
        bits, group = shape_of(len(levels))
        each = np.zeros(n)
        for begin in range(0, n, UNIT):  # a stream
            stream = codes[begin : begin + UNIT]
            padded = np.pad(stream.astype(np.int64), (0, -stream.size % group)).reshape(-1, group)
            words = self.lengths[(padded << bits * np.arange(group)).sum(axis=1)]
            sharing = np.full(words.size, group)
            sharing[-1] -= -stream.size % group
            each[begin : begin + UNIT] = np.repeat(words / sharing, sharing)
        return each

    def advance(self, levels: Levels, uniform: bool, segments: Segments, mode: int) -> Sums:
        """Decode onto the track; see `stream.advance`. Raises StreamError."""
        return self._read(segments.n, levels, mode, np.empty(0, np.uint8), segments)

    def _read(
        self, n: int, levels: Levels, mode: int, codes: Codes, segments: Segments | None
    ) -> Sums:
        bits, group = shape_of(len(levels))
        table = np.zeros(1 << MAX_GROUP_LENGTH, np.uint64)
        kernels.lookup_groups(huffman.packed_words(self.lengths), bits, group, table)
        sizes = self.streams.astype(np.int64)
        begins, _alive = begins_of(self.words.view(np.uint32), sizes)
        pieces = workers.pieces(sizes.size, least=LANES)
        tracks, starts, n_tensors = track_of(segments)
        sources = tracks[:0] if segments is None else segments.sources
        sums = np.zeros((len(pieces), n_tensors), np.uint64)
        status = np.zeros(len(pieces), np.int64)
        track = codes, sources, tracks, starts, _by_code(levels), mode

        def work(i: int, scratch: workers.Scratch) -> None:
            read = scratch.at_least(LANES * UNIT // 4 + 1).view(np.uint8)
            streams = begins, sizes, *pieces[i], n, table, group, read
            status[i] = kernels.read_groups(*streams, *track, sums[i], scratch.moved)

        workers.spread(work, len(pieces))
        if status.any():
            raise StreamError(problem_of(int(status[status > 0][0]), n, len(levels)))
        return sums.sum(axis=0, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Groups:
    """The code of groups, and what it costs.

    lengths: uint8, of each code word. bits: of all words. table_nbytes: of the lengths in a record.
    streams: their number.
    """

    lengths: NDArray[np.uint8]
    bits: int
    table_nbytes: int
    streams: int

    @property
    def nbytes(self) -> int:
        """Upper bound of those of the payload."""
        return self.table_nbytes + self.words_nbytes

    @property
    def words_nbytes(self) -> int:
        """Upper bound of those of the streams: each has a size, and fills its last word."""
        return self.bits // 8 + 8 * self.streams

    @classmethod
    def of(cls, counts: NDArray[np.int64], streams: int) -> Self:
        """The Huffman code of groups with these counts. streams: their number."""
        alone = np.count_nonzero(counts) < 2  # but a code needs two words
        least = np.maximum(counts, np.arange(counts.size) < 2) if alone else counts
        lengths = huffman.code_lengths(least, MAX_GROUP_LENGTH)
        table_nbytes = huffman.pack_lengths(lengths).size
        return cls(lengths, huffman.n_bits(counts, lengths), table_nbytes, streams)


def settle(
    s: Survivors, final: NDArray[np.uint16] | None, counts: NDArray[np.int64]
) -> tuple[Groups | None, bool]:
    """Count groups, and give survivors their final codes if groups serve.

    Args:
        s: Survivors. If groups serve, their list has a code for every element from now on, 0 for
            those that do not survive.
        final: uint16 (512,), the final code of each of their codes; None if codes are final.
        counts: int64 (k,), how often each final code occurs.

    Returns:
        The groups, None if they do not serve; and whether the list has final codes.
    """
    if not _may_serve(s, counts):
        return None, final is None
    k = counts.size
    final_codes = (np.arange(256) if final is None else final[:256]).astype(np.uint8)
    if s.units >= 2 * SAMPLED:
        few = [(i, i + 1) for i in range(0, s.units, SAMPLED)]
        sampled = Groups.of(_counted(s, final_codes, k, few, only_count=True), len(few))
        if not are_cheap(sampled, counts, len(few) / s.units):
            return None, final is None
    pieces = workers.pieces(s.units, least=least_streams(s, 1))
    groups = Groups.of(_counted(s, final_codes, k, pieces), s.units)
    if are_cheap(groups, counts):
        return groups, True

    def list_survivors(i: int, _scratch: workers.Scratch) -> None:
        kernels.pack_codes(s.codes[: s.n], *pieces[i], s.marks, s.codes, s.numbers)

    workers.spread(list_survivors, len(pieces))
    return None, True


def _may_serve(s: Survivors, counts: NDArray[np.int64]) -> bool:
    """Whether groups are worth counting."""
    k, n_changed = counts.size, s.n - int(counts[0])
    if not (2 < k <= MOST_LEVELS and n_changed >= LEAST_CHANGED * s.n and s.codes.itemsize == 1):
        return False
    bits, group = shape_of(k)
    return s.n >= max(LEAST, LEAST_A_WORD << bits * group)


def _counted(
    s: Survivors,
    final_codes: NDArray[np.uint8],
    k: int,
    pieces: Sequence[tuple[int, int]],
    *,
    only_count: bool = False,
) -> NDArray[np.int64]:
    """How often each group occurs in these units; their list becomes that of all elements.

    only_count: the list stays as it is.
    """
    bits, group = shape_of(k)
    by_piece = np.zeros((len(pieces), 4, 1 << bits * group), np.int32)

    def work(i: int, scratch: workers.Scratch) -> None:
        unpacked = scratch.at_least(UNIT // 2 + 2).view(np.uint8)
        shape, survivors = (bits, group, only_count), (s.marks, s.codes, s.numbers)
        own = unpacked, scratch.groups, by_piece[i]
        kernels.settle_groups(*pieces[i], s.n, final_codes, *shape, *survivors, *own)

    workers.spread(work, len(pieces))
    return by_piece.sum(axis=(0, 1), dtype=np.int64)


def are_cheap(groups: Groups, counts: NDArray[np.int64], share: float = 1.0) -> bool:
    """Whether groups cost hardly more than single values.

    They may take ENOUGH of the entropy of single values, but no more than a code word for each.
    counts: int64 (k,), of codes. share: of the elements that these groups have; the words of the
    other elements are estimated.
    """
    plain_bits = huffman.n_bits(counts, huffman.code_lengths(counts))
    nbytes = groups.table_nbytes + groups.words_nbytes / share
    return 8 * nbytes <= min(ENOUGH * huffman.entropy(counts), plain_bits)


def write(
    s: Survivors, groups: Groups, levels: Levels, segments: Segments | None, mode: int
) -> tuple[GroupedCode, Sums]:
    """Write a list that has a final code for every element; otherwise like `prefix.write`."""
    bits, group = shape_of(len(levels))
    words = huffman.packed_words(groups.lengths)
    most = max(BITS_A_PIECE * s.units // groups.bits, 1)
    pieces = workers.pieces(s.units, least=least_streams(s, 1), most=most)
    sizes = np.zeros(s.units, np.int64)
    joined = Joined(groups.bits // 32 + s.units + 1, groups.bits >= 8 * LARGE, np.uint32)
    tracks, starts, n_tensors = track_of(segments)
    sums = np.zeros((len(pieces), n_tensors), np.uint64)
    room = UNIT // group * MAX_GROUP_LENGTH // 32 + 2  # words of a stream
    track = tracks, starts, _by_code(levels), mode

    def work(i: int, scratch: workers.Scratch) -> None:
        first, last = pieces[i]
        out = scratch.at_least((last - first) * room + 2)
        message = s.n, s.codes, words, bits, group, scratch.groups, out, sizes
        used = kernels.write_groups(first, last, *message, *track, sums[i], scratch.moved)
        joined.put(i, out[:used])
        s.free_codes(first, last)

    workers.spread(work, len(pieces))
    payload = GroupedCode(joined.whole(), sizes.astype(np.uint32), groups.lengths)
    if payload.bits != groups.bits:
        raise StreamError(f"{s.n} codes made {payload.bits} bits, not {groups.bits}")
    return payload, sums.sum(axis=0, dtype=np.uint64)


def _by_code(levels: Levels) -> NDArray[np.float32]:
    """Levels by code, float32 (256,): padded with 0.0, so that every byte is a valid index."""
    padded = np.zeros(256, np.float32)
    padded[: len(levels)] = levels.reshape(-1)
    return padded
