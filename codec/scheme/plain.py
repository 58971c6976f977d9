"""The whole scheme in numpy: what the compiled kernels do, to be read first.

    arrays      u, what is saved, and the track it is compared with
    buckets     collect, promote                     u - track becomes codes, and a level for each
    steps       magnitudes, steps, squares_left
    moments     measure, move                        steps of an optimizer's moments
    tokens      settle, settle_tokens                runs of zeros and the code after them
    code words  code_lengths, canonical, pack_lengths, unpack_lengths, token_bits
    bits        write, read
    contexts    ContextEncoder                       what `reader.ContextCode` reads
    track       advance, digest
    residuals   sample_steps, join_rows, count_steps, write_steps, read_steps

Each function is the twin of a compiled one, with the same arguments and, to the bit, the same
results: `twins.twin_of` takes the compiled one as soon as it is loaded. So everything works where
nothing was compiled, only more slowly, and a test can compare the two. Decoding stands in
`codec.reader`, which works without this package.

A float32 is sign (1) | exponent field (8) | mantissa (23). Its upper nine bits are its *bin*: the
exponent bucket and its sign. Without the sign, bits compare as magnitudes do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codec import reader
from codec.errors import StreamError
from codec.reader import ContextCode, ReadError, Tokens
from codec.state.family import OCTAVES

from . import runlength
from .limits import (
    BLOCK,
    CHANGE,
    FIELDS,
    FIRST_LENGTH,
    MAGNITUDE,
    MANTISSA,
    MAX_LENGTH,
    N_BINS,
    NON_FINITE_FIELD,
    OCTAVE,
    UNIT,
)

if TYPE_CHECKING:
    from .measures import Scale
    from .residual import Elements
    from .survivors import Segments, Survivors

# Moments with larger values are stored exactly: a rounded value could be infinite.
LARGE = np.float32(2.0**126)
LANES = 16  # sums of squares that are added up at last

Array = NDArray[Any]
Floats = NDArray[np.float32]
Words = NDArray[np.uint32]
Integers = NDArray[np.int64]


# Arrays


def difference(segments: Segments) -> Floats:
    """u - track of all tensors, float32 (n,). Equal bits give 0, also of infinity and NaN."""
    delta = np.empty(segments.n, np.float32)
    for begin, end, track, u in _tensors(segments):
        with np.errstate(all="ignore"):
            changes = u.view(np.uint32) != track.view(np.uint32)
            delta[begin:end] = np.where(changes, u - track, np.float32(0))
    return delta


def _tensors(segments: Segments) -> Iterator[tuple[int, int, Floats, Floats]]:
    """Begin, end, track and source of each tensor; without sources, the track twice."""
    tracks, sources = segments.arrays
    for i, track in enumerate(tracks):
        begin, end = segments.starts[i : i + 2].tolist()
        yield begin, end, track.reshape(-1), (sources or tracks)[i].reshape(-1)


def _squares(delta: Floats) -> NDArray[np.float64]:
    """The sum of squares of each unit, float64 (units,), in the order in which kernels add."""
    squares = _squares_of_blocks(delta)
    return _sums_in_order(squares, np.arange(0, squares.size, UNIT // BLOCK))


def _squares_of_blocks(delta: Floats) -> NDArray[np.float64]:
    """The sum of squares of each block, float64 (blocks,)."""
    n_blocks = -(-delta.size // BLOCK)
    padded = np.zeros(n_blocks * BLOCK)
    padded[: delta.size] = delta
    lanes = np.square(padded.reshape(n_blocks, -1, LANES)).sum(axis=1)
    while lanes.shape[1] > 1:
        lanes = lanes[:, : lanes.shape[1] // 2] + lanes[:, lanes.shape[1] // 2 :]
    return lanes[:, 0]


def squares_between(now: Floats, before: Floats) -> float:
    """The sum of squared differences, without those that are not finite.

    now, before: float32 (n,), where BLOCK divides n.
    """
    with np.errstate(all="ignore"):
        delta = np.where(now.view(np.uint32) == before.view(np.uint32), np.float32(0), now - before)
        squares = _squares_of_blocks(delta)
        for i in np.flatnonzero(~(squares < np.inf)):
            block = delta[i * BLOCK : (i + 1) * BLOCK].astype(np.float64)
            finite = np.square(block[np.abs(block) < np.inf])
            squares[i] = np.cumsum(finite)[-1] if finite.size else 0.0
    return float(squares.cumsum()[-1]) if squares.size else 0.0


def _sums_in_order(values: NDArray[np.float64], begins: Integers) -> NDArray[np.float64]:
    """The sum of each stretch of values, added from the first one to the last."""
    parts = np.split(values, begins[1:])
    return np.array([np.cumsum(part)[-1] if part.size else 0.0 for part in parts])


def note(s: Survivors, positions: Integers, codes: Array) -> None:
    """Let these positions survive, rising, with these codes."""
    bits = np.zeros(s.units * UNIT, np.bool_)
    bits[positions] = True
    s.marks[:] = np.packbits(bits, bitorder="little").view(np.uint64)
    s.numbers[:] = np.bincount(positions // UNIT, minlength=s.units)
    # A unit's codes begin where its positions do.
    rank = np.arange(positions.size) - np.repeat(np.cumsum(s.numbers) - s.numbers, s.numbers)
    s.codes[positions // UNIT * UNIT + rank] = codes


def pack(codes: Array, s: Survivors) -> None:
    """Let what has a code other than 0 survive. codes: uint8 or uint16 (n,)."""
    positions = np.flatnonzero(codes)
    note(s, positions, codes[positions])


def survivors_of(s: Survivors) -> tuple[Integers, Array]:
    """The positions that survive, int64 rising, and their codes."""
    bits = np.unpackbits(s.marks.view(np.uint8), bitorder="little")
    positions = np.flatnonzero(bits)
    ranks = np.arange(positions.size)
    begins = np.cumsum(s.numbers, dtype=np.int64) - s.numbers
    return positions, s.codes[positions // UNIT * UNIT + ranks - begins[positions // UNIT]]


# Buckets


class Bins(NamedTuple):
    """What is counted of the members of each bin.

    members: int64 (512,), how many there are. low, high: uint32 (512,), their extreme magnitudes as
    bits; 0xFFFFFFFF and 0 without members. mantissas: int64 (512,), the sum of their mantissas.
    """

    members: Integers
    low: Words
    high: Words
    mantissas: Integers

    @classmethod
    def empty(cls) -> Bins:
        """Bins without members."""
        members, mantissas = np.zeros((2, N_BINS), np.int64)
        return cls(
            members, np.full(N_BINS, 0xFFFFFFFF, np.uint32), np.zeros(N_BINS, np.uint32), mantissas
        )

    @classmethod
    def of(cls, bits: Words) -> Bins:
        """The bins of float32 values, seen as integers. Zeros are in none."""
        bits = bits[bits & MAGNITUDE > 0]
        bins, magnitudes = bits >> np.uint32(23), bits & MAGNITUDE
        empty = cls.empty()
        np.minimum.at(empty.low, bins, magnitudes)
        np.maximum.at(empty.high, bins, magnitudes)
        # float64 adds these integers exactly, as long as there are fewer than 2**30.
        mantissas = np.bincount(bins, bits & MANTISSA, N_BINS).astype(np.int64)
        return cls(np.bincount(bins, minlength=N_BINS), empty.low, empty.high, mantissas)

    @classmethod
    def joined(cls, parts: Sequence[Bins]) -> Bins:
        """The bins of all members of several parts."""
        if len(parts) == 1:
            return parts[0]
        members, low, high, mantissas = map(np.array, zip(*(parts or [cls.empty()])))
        return cls(members.sum(axis=0), low.min(axis=0), high.max(axis=0), mantissas.sum(axis=0))


def collect(
    segments: Segments, keep: int, least: int, code_of_bin: NDArray[np.uint16], s: Survivors
) -> tuple[Bins, int, float]:
    """Note the elements of the ``keep`` largest bins of u - track as survivors.

    Args:
        segments: u and the track.
        keep: Bins.
        least: Magnitude, as bits, of the smallest element that survives; from 1 on.
        code_of_bin: uint16 (512,), the code to note for each bin.
        s: Filled.

    Returns:
        The bins of the survivors; the magnitude from which on they are complete; and the sum of
        the squares of all elements.
    """
    delta = difference(segments)
    bits = delta.view(np.uint32)
    positions = np.flatnonzero(bits & MAGNITUDE >= least)
    note(s, positions, code_of_bin[bits[positions] >> np.uint32(23)])
    bins = Bins.of(bits[positions])
    return bins, _threshold(bins.members, keep, least), float(_squares(delta).sum())


def codes_of(bits: Words, code_of_bin: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """The code of each value's bin, and 0 for zeros. bits: uint32, float32 seen as integers."""
    return np.where(bits & MAGNITUDE > 0, code_of_bin[bits >> np.uint32(23)], np.uint16(0))


def _threshold(count: Integers, keep: int, least: int) -> int:
    """The lowest magnitude of the exponents that hold the ``keep`` largest bins."""
    reached = np.cumsum((count.reshape(2, -1) > 0).sum(axis=0)[:0:-1])
    fields = NON_FINITE_FIELD - np.flatnonzero(reached >= keep)
    return max(least, int(fields[0]) << 23) if fields.size else least


def promote(bins: Bins, keep: int) -> tuple[NDArray[np.uint16], Floats, float]:
    """Priority promotion: the ``keep`` largest bins get a code, and its level.

    A bin's level is the middle of its extreme members. Bins are ordered by falling exponent, then
    by falling magnitude of this middle; on a tie the positive one comes first.

    Args:
        bins: Of u - track.
        keep: How many bins.

    Returns:
        The code of each bin, uint16 (512,); levels, float32 (k,), 0 first; and by how much the sum
        of squares of u - track gets smaller when each member of a bin moves by its level.
    """
    used = np.flatnonzero(bins.members)
    near, far = bins.low[used].view(np.float32), bins.high[used].view(np.float32)
    middles = (near.astype(np.float64) + far) / 2
    order = np.lexsort((used, -middles, -(used & 255)))[:keep]
    promoted = used[order]
    code_of_bin = np.zeros(N_BINS, np.uint16)
    code_of_bin[promoted] = np.arange(1, promoted.size + 1)
    levels = np.zeros(promoted.size + 1, np.float32)
    levels[1:] = middles[order]
    levels[1:][promoted > 255] *= -1
    # A member v that moves by r leaves (v - r)^2 instead of v^2: 2 v r - r^2 less.
    rising = np.sort(promoted)
    fields, members = rising & 255, bins.members[rising].astype(np.float64)
    r = np.abs(levels[code_of_bin[rising]].astype(np.float64))
    leading = np.where(fields > 0, members * 2.0**23, 0.0)
    totals = np.ldexp(bins.mantissas[rising] + leading, np.maximum(fields, 1) - 150)
    gains = 2 * totals * r - members * r * r
    return code_of_bin, levels, float(_sums_in_order(gains, np.zeros(1, np.int64))[0])


# Uniform steps


def magnitudes(segments: Segments, stride: int) -> tuple[Integers, Words, int]:
    """How large the changes are, in every stride-th block.

    Returns:
        int64 (2**14,): how many changes other than 0 have these upper 15 bits of their magnitude;
        uint32 (tensors,): the largest magnitude of each tensor; and the positions looked at.
    """
    sampled = np.arange(segments.n) // BLOCK % stride == 0
    values = np.where(sampled, difference(segments).view(np.uint32) & MAGNITUDE, 0)
    values = values.astype(np.uint32)
    count = np.bincount(values >> 17, values > 0, 2**14).astype(np.int64)
    high = [values[begin:end].max(initial=0) for begin, end, _, _ in _tensors(segments)]
    return count, np.array(high, np.uint32), int(sampled.sum())


def squares_left(low: Array, high: Array, count: Integers, size: float, offset: float) -> float:
    """The estimated sum of squares that uniform steps leave, with members spread evenly in bins.

    low, high: float64 (bins,), the ends of each bin of magnitudes. count: int64 (bins,), members.
    size, offset: as for `steps`.
    """
    left = _area(high / size, offset) - _area(low / size, offset)
    parts = count * left / (high - low)
    return float(np.cumsum(parts)[-1] if parts.size else 0.0) * (size * size * size)


def _area(y: Array, offset: float) -> Array:
    """The integral from 0 to y of (x - floor(x + offset))^2, the squared errors in steps of 1."""
    q = np.floor(y + offset)
    above, below = (1 - offset) ** 3 / 3, offset**3 / 3
    rest = y - q
    within = above + (q - 1) * (above + below) + rest * rest * rest / 3 + below
    return np.where(q <= 0, y * y * y / 3, within)


def steps(
    segments: Segments,
    thresholds: tuple[np.uint32, ...],
    end: int,
    step: tuple[float, float],
    most: int,
    s: Survivors,
) -> tuple[Integers, Array, Array]:
    """Quantize u - track in uniform steps.

    A change of magnitude a has the number q = floor(a / size + offset) and the code 2q - 1, or
    2q if it is negative.

    Args:
        segments: u and the track.
        thresholds: The smallest magnitude, as bits, that survives in blocks that begin before the
            element ``end``, and in those behind.
        end: See thresholds.
        step: size and offset.
        most: The largest q.
        s: Filled.

    Returns:
        int64 (2 * most + 1,): how often each code occurs, in place of code 0 the changes that are
        NaN or beyond the last code, which get code 1; float64 (units,): the sums of squares of u -
        track before the step, and after it.
    """
    size, offset = step
    delta = difference(segments)
    track = np.concatenate([t.reshape(-1) for t in segments.arrays[0]] or [delta])
    least = np.where(np.arange(segments.n) // BLOCK * BLOCK < end, *thresholds)
    positions = np.flatnonzero(delta.view(np.uint32) & MAGNITUDE >= least)
    change, old = delta[positions].astype(np.float64), track[positions]
    with np.errstate(all="ignore"):
        number = np.abs(change) * (1 / size) + offset
        q = np.where(number < most + 1, np.floor(number), 0)
        negative = delta[positions].view(np.uint32) >> np.uint32(31)
        codes = np.where(q > 0, 2 * q.astype(np.int64) - 1 + negative, 0)
        note(s, positions, np.maximum(codes, 1))
        # What a decoder does: the level and the sum are each rounded once to float32.
        level = np.copysign(np.floor(number) * size, change).astype(np.float32)
        left = old.astype(np.float64) + change - (old + level).astype(np.float64)
        begins = np.searchsorted(positions, np.arange(0, max(segments.n, 1), UNIT))
        gain = _sums_in_order(change * change - left * left, begins)[: s.units]
    squares = _squares(delta)
    return np.bincount(codes, minlength=2 * most + 1), squares, squares - gain


# Tokens: a run of zeros and the code after it, see runlength


def classes_of(runs: Array) -> tuple[Array, Array]:
    """The class of each run and the number of its extra bits; integers from 0 to 2**63."""
    runs = runs.astype(np.uint64)
    upper = runs >> np.uint64(32)
    halves = np.where(upper > 0, upper, runs).astype(np.float64)  # exact: below 2**32
    power = np.maximum(np.frexp(halves)[1] - 1, 0) + np.where(upper > 0, 32, 0)
    extra = np.where(runs < 16, 0, np.maximum(power - 2, 0))
    lead = (runs >> extra.astype(np.uint64)).astype(np.int64) & 3
    return np.where(runs < 16, runs.astype(np.int64), 4 * power + lead), extra


def settle(s: Survivors, final: NDArray[np.uint16]) -> None:
    """Replace every code by its final one; survivors of code 0 are survivors no more."""
    positions, codes = survivors_of(s)
    codes = final[codes]
    note(s, positions[codes > 0], codes[codes > 0])


def settle_tokens(s: Survivors, final: NDArray[np.uint16], units: int, rows: int) -> Integers:
    """`settle`, and count tokens.

    units: of a stream. Returns int64 (rows, MAX_CLASSES): how often each symbol follows a run of
    each class; the last row also counts all symbols beyond it.
    """
    settle(s, final)
    positions, codes = survivors_of(s)
    classes, _ = classes_of(_runs(positions, np.arange(0, s.n, units * UNIT)))
    symbols = np.minimum(codes.astype(np.int64), rows) - 1
    cells = symbols * runlength.MAX_CLASSES + classes
    counts = np.bincount(cells, minlength=rows * runlength.MAX_CLASSES)
    return counts.reshape(rows, runlength.MAX_CLASSES)


def _runs(positions: Integers, begins: Integers) -> Integers:
    """How many positions lie before each of these, behind the one before it in its stream.

    positions: rising. begins: the first position of each stream.
    """
    before = np.concatenate((np.full(1, -1), positions[:-1]))[: positions.size]
    begin = begins[np.searchsorted(begins, positions, side="right") - 1] if begins.size else before
    return positions - np.maximum(before + 1, begin)


# Code words


def code_lengths(counts: Integers, limit: int) -> NDArray[np.uint8]:
    """Optimal code lengths of at most ``limit`` bits, 0 for a count of 0: uint8 (k,).

    counts: int64 (k,). With fewer than two positive counts, all lengths are 0. Method: Larmore and
    Hirschberg, J. ACM 37(3), 1990.
    """
    lengths = np.zeros(counts.size, np.uint8)
    symbols = np.flatnonzero(counts)
    n = symbols.size
    if n < 2:
        return lengths
    # Rarest first; on equal counts, the larger index first.
    order = symbols[np.lexsort((-symbols, counts[symbols]))]
    leaves, packages = counts[order], counts[:0]
    are_leaves = []
    for _ in range(limit):
        items = np.concatenate((leaves, packages))
        rising = np.argsort(items, kind="stable")  # on equal weights leaves come before packages
        are_leaves.append(rising < n)
        items = items[rising]
        packages = items[0 : items.size // 2 * 2 : 2] + items[1::2]
    # The cheapest 2n - 2 items of the last level are taken. A leaf among them is one bit of its
    # word; a package stands for two items of the level before.
    wanted = 2 * n - 2
    for is_leaf in reversed(are_leaves):
        n_leaves = int(is_leaf[:wanted].sum())
        lengths[order[:n_leaves]] += 1
        wanted = 2 * (wanted - n_leaves)
    return lengths


def canonical(lengths: NDArray[np.uint8]) -> Words:
    """uint32 (k,): each symbol's code word, first bit lowest, | its length << 16; 0 without one.

    lengths: uint8 (k,), of a complete prefix code, or all 0. See RFC 1951, 3.2.2.
    """
    symbols = np.flatnonzero(lengths)
    symbols = symbols[np.argsort(lengths[symbols], kind="stable")]
    # A word's share of all words of 16 bits: the words before it are its own, with zeros behind.
    shares = np.int64(1) << (16 - lengths[symbols].astype(np.int64))
    bits = np.unpackbits((np.cumsum(shares) - shares).astype(">u2").view(np.uint8))
    words = np.zeros(lengths.size, np.uint32)
    words[symbols] = np.packbits(bits, bitorder="little").view("<u2")  # first bit lowest
    return words | lengths.astype(np.uint32) << np.uint32(16)


def pack_lengths(lengths: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Code lengths as bytes: see `huffman.pack_lengths`."""
    symbols = np.flatnonzero(lengths)
    bits, at, last = list[str](), 0, FIRST_LENGTH
    for symbol, length in zip(symbols.tolist(), lengths[symbols].tolist()):
        if symbol > at:  # behind a run of zeros
            low = format(symbol - at, "b")[1:]
            bits.append(f"011{'0' * len(low)}1{low[::-1]}")
        bits.append(_STEPS.get(length - last) or "0000" + format(length, "04b")[::-1])
        at, last = symbol + 1, length
    text = "".join(bits)
    packed = int(text[::-1] or "0", 2).to_bytes(-(-len(text) // 8), "little")
    return np.frombuffer(packed, np.uint8)


# By how much a length differs from the last one, see `huffman.pack_lengths`.
_STEPS = {0: "1", 1: "010", -1: "001", 2: "00010", -2: "00011"}


def unpack_lengths(packed: NDArray[np.uint8], n: int) -> NDArray[np.uint8] | None:
    """The n lengths that `pack_lengths` packed: uint8 (n,); None if these bytes are no such."""
    bits = "".join(map(str, np.unpackbits(packed, bitorder="little").tolist()))
    steps = {word: step for step, word in _STEPS.items()}
    lengths, at, last = list[int](), 0, FIRST_LENGTH
    while len(bits) - at >= 8 or "1" in bits[at:]:
        if bits.startswith("011", at):
            one = bits.find("1", at + 3)
            power = one - at - 3
            if one < 0 or power > MAX_LENGTH or one + power >= len(bits):
                return None
            lengths += [0] * int("1" + bits[one + 1 : one + 1 + power][::-1], 2)
            at = one + 1 + power
            if len(lengths) > n:
                return None
            continue
        word = next((w for w in steps if bits.startswith(w, at)), "")
        last = last + steps[word] if word else int(bits[at + 4 : at + 8][::-1] or "0", 2)
        at += len(word) or 8
        if at > len(bits) or len(lengths) >= n or not 1 <= last <= MAX_LENGTH:
            return None
        lengths.append(last)
    return np.array(lengths + [0] * (n - len(lengths)), np.uint8)


def token_bits(
    tokens: Integers, lengths: NDArray[np.uint8], classes: int, escaped_bits: int
) -> int:
    """The bits of a message of tokens with a table.

    tokens: int64 (symbols, MAX_CLASSES), as in `tables.Counts`. lengths, classes: of the table.
    escaped_bits: of a token without a word, but for its extra bits.
    """
    bits = np.zeros(tokens.shape, np.int64)
    own = lengths[1:].reshape(-1, classes)[: tokens.shape[0]]
    bits[: own.shape[0], :classes] = own
    bits[bits == 0] = escaped_bits
    return int((tokens * (bits + runlength.EXTRA_BITS)).sum())


# Bits


def packed_bits(values: Array, lengths: Integers, streams: Integers, n: int) -> tuple[Words, Array]:
    """Items of at most 64 bits as n streams, each of which begins a new word.

    values: uint64, lengths: int64, streams: the number of each item's stream, rising. Returns the
    words, uint32, the first bit lowest, and the bits of each stream, int64 (n,).
    """
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    bounds = ends[np.searchsorted(streams, np.arange(n + 1))]
    sizes = np.diff(bounds)
    words = np.concatenate((np.zeros(1, np.int64), np.cumsum((sizes + 31) >> 5)))
    at = ends[:-1] - bounds[streams] + 32 * words[streams]
    out = np.zeros(int(words[-1]) // 2 + 2, np.uint64)
    word, shift = at >> 6, (at & 63).astype(np.uint64)
    firsts = np.flatnonzero(np.diff(word, prepend=-1))
    if firsts.size:
        out[word[firsts]] |= np.bitwise_or.reduceat(values << shift, firsts)
    over = np.flatnonzero((at & 63) + lengths > 64)  # at most one reaches into each next word
    out[word[over] + 1] |= values[over] >> (np.uint64(64) - shift[over])
    return out.view(np.uint32)[: int(words[-1])], sizes


def write(
    s: Survivors, units: int, words: Words, escape: int, symbol_bits: int
) -> tuple[Words, Integers]:
    """Code survivors with a prefix code.

    Args:
        s: With final codes.
        units: Of a stream.
        words: uint32 (k,) for a code of single values, or (k * MAX_CLASSES,) with a word for each
            symbol and class of runs: as `canonical` returns them; 0 for what needs the escape.
        escape: The word of the escape; 0 for a code of single values.
        symbol_bits: Of a symbol after an escape.

    Returns:
        The words, uint32, and the bits of each stream, int64.
    """
    elements = units * UNIT
    n_streams = -(-s.n // elements)
    positions, codes = survivors_of(s)
    if escape == 0:
        all_codes = np.zeros(s.n, np.int64)
        all_codes[positions] = codes
        own = words[all_codes]
        values, lengths = (own & 0xFFFF).astype(np.uint64), (own >> 16).astype(np.int64)
        return packed_bits(values, lengths, np.arange(s.n) // elements, n_streams)
    runs = _runs(positions, np.arange(0, s.n, elements))
    values, lengths = token_words(runs, codes, words, escape, symbol_bits)
    return packed_bits(values, lengths, positions // elements, n_streams)


def token_words(
    runs: Integers, symbols: Array, words: Words, escape: int, symbol_bits: int
) -> tuple[Array, Integers]:
    """The bits of each token, uint64, and how many there are; see `write`."""
    classes, extra = classes_of(runs)
    symbols = symbols.astype(np.int64)
    own = words[symbols * runlength.MAX_CLASSES + classes].astype(np.int64)
    escaped = (escape & 0xFFFF) | (classes | symbols - 1 << 7) << (escape >> 16)
    lengths = np.where(own > 0, own >> 16, (escape >> 16) + runlength.CLASS_BITS + symbol_bits)
    values = np.where(own > 0, own & 0xFFFF, escaped) | (runs & (1 << extra) - 1) << lengths
    return values.astype(np.uint64), lengths + extra


def read(
    words: Words, sizes: Words, elements: int, n: int, code: tuple[NDArray[np.uint8], int, int]
) -> tuple[Integers, Integers]:
    """Decode a prefix code.

    Args:
        words: uint32, the streams one after another; each begins a new word.
        sizes: uint32, the bits of each stream.
        elements: Of every stream but the last.
        n: Elements of all streams.
        code: The lengths of its words, classes, and k.

    Returns:
        Positions, rising, and the code other than 0 at each of them, int64.

    Raises:
        StreamError: The words are no such streams.
    """
    lengths, classes, k = code
    found, symbols = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    try:
        tokens, data, at = (
            Tokens(reader.Words(lengths.astype(np.int64), k, classes), k),
            words.view(np.uint8),
            0,
        )
        for begin, nbits in zip(range(0, n, elements), sizes.tolist()):
            end = at + 4 * -(-nbits // 32)
            own, runs, *_ = tokens.read(data[at:end], nbits)
            places, at, size = np.cumsum(runs + 1) - 1, end, min(elements, n - begin)
            if places.size and places[-1] >= size:
                raise StreamError(f"bits that go on after {n} elements")
            if classes == 1 and places.size < size:
                raise StreamError(f"bits that end before {n} elements are decoded")
            found.append(begin + places[own > 0])
            symbols.append(own[own > 0])
    except ReadError as exc:
        raise StreamError(f"an alphabet of {k} levels that {exc}") from exc
    return np.concatenate(found), np.concatenate(symbols)


# Context codes


class Decision(NamedTuple):
    """A decision of a context code: is it true, and for the elements begin..end?"""

    is_true: bool
    begin: int
    end: int


class ContextEncoder(ContextCode):
    """Writes what `reader.ContextCode` reads: it reads its own decisions while it writes them.

    Args:
        q: Of all elements of a stream, see FORMAT.md.
        matrices: Rows and columns of each matrix.
        units, weights, signs: See `reader.ContextCode`.

    Attributes:
        written: The stream.
        costs: The bits that each element takes.
    """

    def __init__(
        self,
        q: list[int],
        matrices: list[tuple[int, int]],
        units: int,
        weights: list[int],
        signs: Mapping[int, bool],
    ) -> None:
        super().__init__(b"", units, weights, signs)
        self._decisions = decisions(q, matrices, units, signs)
        self._low, self._out, self.costs = 0, bytearray(), [0.0] * len(q)
        self.read(matrices)
        for n in range(6):  # the shortest number of the interval; a reader adds zeros
            unit = 1 << (40 - 8 * n)
            number = -(-self._low // unit) * unit
            if number < self._low + self._span:
                self._out += self._carried(number).to_bytes(5, "big")[:n]
                break
        self.written = bytes(self._out).rstrip(b"\0")

    def decide(self, context: int) -> bool:
        """The next decision."""
        one, begin, end = next(self._decisions)
        before = self._span
        bound = (before >> 16) * self._chances[context]
        # 0 takes the lower part of the interval: a stream of zeros needs no bytes.
        self._low = self._carried(self._low + (before - bound if one else 0))
        self._span = bound if one else before - bound
        cost = math.log2(before / self._span) / (end - begin)
        for i in range(begin, end):
            self.costs[i] += cost
        while self._span < 2**32:
            self._out.append(self._low >> 32)
            self._low, self._span = (self._low & 0xFFFFFFFF) << 8, self._span << 8
        self._learn(context, one)
        return one

    def _carried(self, number: int) -> int:
        """The number without 2**40, which is added to the bytes that were written."""
        if number < 2**40:
            return number
        at = len(self._out) - 1
        while self._out[at] == 255:
            self._out[at] = 0
            at -= 1
        self._out[at] += 1
        return number - 2**40


def decisions(
    q: list[int], matrices: list[tuple[int, int]], units: int, signs: Mapping[int, bool]
) -> Iterator[Decision]:
    """The decisions of a stream, in order: see `ContextEncoder`."""
    row_end = 0
    for rows, w in matrices:
        octets = units > 1 and w > units
        for _ in range(rows):
            row, row_end = row_end, row_end + w
            if w >= 8:
                changes = any(q[row:row_end])
                yield Decision(changes, row, row_end)
                if not changes:
                    continue
            for begin in range(row, row_end, units if octets else w):
                end = min(begin + units, row_end) if octets else row_end
                if octets:
                    changes = any(q[begin:end])
                    yield Decision(changes, begin, end)
                    if not changes:
                        continue
                for i in range(begin, end):
                    # The last element of an octet must have changed if no other one has.
                    if not (octets and i == end - 1 and not any(q[begin:i])):
                        yield Decision(q[i] != 0, i, i + 1)
                    if q[i]:
                        yield from (Decision(one, i, i + 1) for one in _decisions_of(q[i], signs))


def _decisions_of(q: int, signs: Mapping[int, bool]) -> Iterator[bool]:
    """Those of a q other than 0, behind whether it is 0."""
    a = abs(q)
    for h in range(1, 9):
        yield a > h
        if a <= h:
            break
    else:
        size = (a - 8).bit_length() - 1
        for h in range(13):
            yield size > h
            if size <= h:
                break
        for place in range(size - 1, -1, -1):
            yield (a - 8) >> place & 1 == 1
    if a not in signs:
        yield q < 0


# The track


def advance(
    segments: Segments, positions: Integers, codes: Array, levels: Floats, mode: int
) -> NDArray[np.uint64]:
    """track += level, for each code at rising positions; others stay as they are, -0.0 too.

    Args:
        segments: The track.
        positions: int64.
        codes: The code at each of them.
        levels: float32 (k,).
        mode: CHANGE to move the track; else only digests are computed.

    Returns:
        By how much the digest of each tensor changes, uint64 (tensors,).
    """
    sums = np.zeros(len(segments.arrays[0]), np.uint64)
    for i, (begin, end, track, _) in enumerate(_tensors(segments)):
        own = slice(*np.searchsorted(positions, (begin, end)).tolist())
        at = positions[own] - begin
        old = track[at]
        with np.errstate(all="ignore"):  # the next delta repairs a track beyond float32's range
            new = old + levels[codes[own]]
        sums[i] = (digest_of(at, new) - digest_of(at, old)) % 2**64
        if mode == CHANGE:
            track[at] = new
    return sums


def digest(values: Floats, first: int) -> int:
    """The digest of values, float32 (n,), the first of which has the index ``first``."""
    return digest_of(np.arange(first, first + values.size), values)


def digest_of(index: Integers, values: Floats) -> int:
    """The sum, modulo 2**64, of SplitMix64's finalizer on index << 32 | bits: see FORMAT.md."""
    z = index.astype(np.uint64) << np.uint64(32) | values.view(np.uint32)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))).sum(dtype=np.uint64))


# Moments of an optimizer, see measures


def measure(
    segments: Segments, scale: Scale, most: int, codes: NDArray[np.uint16]
) -> tuple[Integers, NDArray[np.bool_]]:
    """Quantize u - track in steps of a measure, to the nearest one that is not below 0 in octaves.

    Args:
        segments: u and the track.
        scale: What a step is.
        most: The largest q.
        codes: (n,), filled: 2q - 1 for q steps up, 2q for q steps down, 0 for none.

    Returns:
        How often each code occurs, int64 (2 * most + 1,); and for each tensor whether steps cannot
        express its change.
    """
    lost = np.zeros(len(segments.arrays[0]), np.bool_)
    rise, most_bits = float(scale.step) * OCTAVE, float(LARGE.view(np.uint32))
    for i, (begin, end, track, u) in enumerate(_tensors(segments)):
        with np.errstate(all="ignore"):  # what is not finite is lost
            if scale.measure == OCTAVES:
                old, now = (a.view(np.int32).astype(np.float64) for a in (track, u))
                steps = np.abs(now - old) * (1 / rise) + 0.5
                rises, fits = now > old, (old >= 0) & (now >= 0) & (now < most_bits)
            else:
                unit, change = scale.unit(i), u - track
                steps = np.abs(change) / (scale.step * unit) + np.float32(0.5)
                rises, fits = change > 0, (np.maximum(np.abs(u), np.abs(track)) < LARGE)
                fits &= unit < LARGE
        fits &= steps < most + 0.5
        q = np.where(fits, steps, 0).astype(np.int64)
        if scale.measure == OCTAVES:
            q -= (q > 0) & (now < old) & (old < q * rise)  # it would end below 0
            fits &= old + q * rise * rises < most_bits
        lost[i] = not fits.all()
        codes[begin:end] = 2 * q - (rises & (q > 0))
    return np.bincount(codes, minlength=2 * most + 1), lost


def move(
    segments: Segments, scale: Scale, codes: NDArray[np.uint16], levels: Floats, mode: int
) -> NDArray[np.uint64]:
    """Move the track by codes in a measure; elements of code 0 stay as they are.

    codes: (n,). levels: float32 (k,), multiples of the step. mode, returns: as for `advance`.
    """
    sums = np.zeros(len(segments.arrays[0]), np.uint64)
    for i, (begin, end, track, _) in enumerate(_tensors(segments)):
        own = codes[begin:end]
        at = np.flatnonzero(own)
        with np.errstate(all="ignore"):
            new = scale.moved(track, levels[own], i)[at]
        sums[i] = (digest_of(at, new) - digest_of(at, track[at])) % 2**64
        if mode == CHANGE:
            track[at] = new
    return sums


# Residuals: exact tensors, see residual


def bits_of(array: Array, width: int) -> NDArray[np.uint64]:
    """The elements of ``width`` bytes as numbers, uint64 (n,)."""
    return array.reshape(-1).view(f"u{width}").astype(np.uint64)


def steps_of(old: Array, new: Array, kind: Elements) -> tuple[Array, Array, Array]:
    """The symbol of each step between elements, 0 for no change; its extra bits and how many.

    old, new: uint64 (n,), of `bits_of`.
    """
    magnitude, sign = np.uint64(kind.magnitude), np.uint64(kind.sign)
    change = ((new & magnitude) - (old & magnitude)).view(np.int64)
    if not kind.sign:  # integers wrap around
        change = change.astype(f"i{kind.width}").astype(np.int64)
    flipped = ((old ^ new) & sign) != 0
    amount = np.where(change < 0, -change, change).astype(np.uint64)
    amount -= np.where(flipped | (old == new), 0, 1).astype(np.uint64)  # 1 less: it is at least 1
    classes, extra = classes_of(amount)
    symbols = 1 + (change < 0) + 2 * classes + flipped * kind.of_one_sign
    low = amount & ((np.uint64(1) << extra.astype(np.uint64)) - np.uint64(1))
    return np.where(old == new, 0, symbols), low, np.where(old == new, 0, extra)


def moved_by(old: Array, symbols: Array, low: Array, kind: Elements) -> Array:
    """The elements after these steps, see `steps_of`; uint64 (n,)."""
    magnitude, one = np.uint64(kind.magnitude), np.uint64(1)
    number = symbols.astype(np.int64) - 1
    flipped = (number >= kind.of_one_sign) & (kind.sign > 0)
    number = np.where(flipped, number - kind.of_one_sign, number)
    classes = number >> 1
    extra = np.where(classes < 16, 0, (classes >> 2) - 2).astype(np.uint64)
    lead = np.where(classes < 16, classes, 4 + (classes & 3)).astype(np.uint64)
    amount = (lead << extra | low) + np.where(flipped, 0, 1).astype(np.uint64)
    amount = np.where(number & 1, ~amount + one, amount)
    after = (old & magnitude) + amount & magnitude
    signs = (old ^ np.where(flipped, np.uint64(kind.sign), np.uint64(0))) & np.uint64(kind.sign)
    return np.where(symbols > 0, after | signs, old)


def exponents(old: Array, kind: Elements) -> Array:
    """The exponent of each element, of integers the magnitude: uint64 (n,)."""
    return (old & np.uint64(kind.magnitude)) >> np.uint64(kind.mantissa)


def contexts_of(old: Array, kind: Elements, bounds: Sequence[int]) -> Integers:
    """The context of each element: how many bounds its old exponent reaches."""
    return np.searchsorted(np.array(bounds, np.uint64), exponents(old, kind), side="right")


def sample_steps(
    old: Array, new: Array, kind: Elements, starts: Integers, length: int
) -> tuple[Integers, int]:
    """Count the symbols of steps by the exponent of the old value, in some stretches.

    old, new: arrays of one tensor. starts: where each stretch begins. length: of each.

    Returns:
        int64 (FIELDS, kind.most): the counts, with lower exponents in row 0; and row 0's exponent.
    """
    at = (starts[:, None] + np.arange(length)).reshape(-1)
    old, new = (
        bits_of(array.reshape(-1).view(f"u{kind.width}")[at], kind.width) for array in (old, new)
    )
    fields = exponents(old, kind)
    # Rows cover the FIELDS highest exponents of finite values.
    finite = fields[fields < np.uint64(kind.magnitude >> kind.mantissa)] if kind.sign else fields
    highest = int(finite.max(initial=0))
    if not kind.sign:
        highest = min(highest, FIELDS - 1)
    lowest = max(highest - (FIELDS - 1), 0)
    rows = np.maximum(
        np.minimum(fields, np.uint64(lowest + FIELDS - 1)).astype(np.int64) - lowest, 0
    )
    symbols, _, _ = steps_of(old, new, kind)
    cells = rows * kind.most + symbols
    return np.bincount(cells, minlength=FIELDS * kind.most).reshape(FIELDS, -1), lowest


def join_rows(counts: Integers, most: int, cost: float) -> tuple[Integers, list[int]]:
    """Add up neighbouring rows until at most ``most`` are left, and each saves ``cost`` bits.

    The cheapest pair goes first. counts: int64 (rows, k). Returns the rows that are left, and the
    first old row of each.
    """
    firsts = np.flatnonzero(counts.any(axis=1)).tolist()
    rows = list(counts[firsts])
    bits = [entropy_of(row) for row in rows]

    def added(i: int) -> float:
        """How many more bits the rows i and i + 1 take when they are added up."""
        return entropy_of(rows[i] + rows[i + 1]) - bits[i] - bits[i + 1]

    more = [added(i) for i in range(len(rows) - 1)]
    while more:
        best = more.index(min(more))
        if len(rows) <= most and more[best] >= cost:
            break
        bits[best] += bits.pop(best + 1) + more.pop(best)
        rows[best] = rows[best] + rows.pop(best + 1)
        firsts.pop(best + 1)
        for i in range(max(best - 1, 0), min(best + 1, len(more))):
            more[i] = added(i)
    return np.array(rows), firsts


def entropy_of(counts: Integers) -> float:
    """Shannon's bound in bits for a message with these counts: n log n - sum of c log c."""
    members = counts[counts > 0].astype(np.float64)
    if not members.size:
        return 0.0
    total = np.cumsum(members)[-1:]
    return float((total * log2(total))[0] - np.cumsum(members * log2(members))[-1])


def log2(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The base-2 logarithms of positive numbers, by atanh's series.

    Every processor gets the same bits. The last bits of np.log2 depend on the instruction set, so
    the choice between codes could too.
    """
    fraction, exponent = np.frexp(values)
    small = fraction < np.sqrt(0.5)
    fraction, exponent = np.where(small, 2 * fraction, fraction), exponent - small
    ratio, total = (fraction - 1) / (fraction + 1), np.zeros(values.shape)
    for k in range(21, 0, -2):  # the next term is below 2**-60
        total = total * ratio * ratio + 1 / k
    return exponent + 2 / math.log(2) * ratio * total


def count_steps(
    old: Array, new: Array, kind: Elements, bounds: Sequence[int], units: int, stride: int
) -> tuple[list[Integers], Integers]:
    """Count the tokens of every stride-th stream, in every context.

    Args:
        old, new: Arrays of one tensor.
        kind: Its elements.
        bounds: The exponent at which each context but the first begins.
        units: Of a stream.
        stride: See above.

    Returns:
        Of each context, int64 (symbols, MAX_CLASSES), each symbol after a run of each class, up to
        the largest symbol; and int64 (contexts,), its elements in these streams.
    """
    counts, sizes = [], []
    for own in _of_contexts(old, new, kind, bounds, units):
        counted = own.streams % stride == 0
        symbols, classes = own.symbols[counted], classes_of(own.runs[counted])[0]
        top = int(symbols.max(initial=0))
        cells = np.bincount((symbols - 1) * runlength.MAX_CLASSES + classes, minlength=84 * top)
        counts.append(cells.reshape(top, runlength.MAX_CLASSES))
        sizes.append(int(own.sizes[::stride].sum()))
    return counts, np.array(sizes)


class _ContextSteps(NamedTuple):
    """The steps in one context.

    ranks: how many elements of the context come before each change. runs: as tokens have them.
    streams: of each change. symbols, low, extra: see `steps_of`. sizes: elements of each stream.
    """

    ranks: Integers
    runs: Integers
    streams: Integers
    symbols: Integers
    low: Array
    extra: Array
    sizes: Integers


def _of_contexts(
    old: Array, new: Array, kind: Elements, bounds: Sequence[int], units: int
) -> Iterator[_ContextSteps]:
    x, y = bits_of(old, kind.width), bits_of(new, kind.width)
    symbols, low, extra = steps_of(x, y, kind)
    contexts, streams = contexts_of(x, kind, bounds), np.arange(x.size) // (units * UNIT)
    for c in range(len(bounds) + 1):
        at = np.flatnonzero(contexts == c)
        sizes = np.bincount(streams[at], minlength=-(-x.size // (units * UNIT)))
        ranks = np.flatnonzero(symbols[at])
        own = at[ranks]
        runs = _runs(ranks, np.cumsum(sizes) - sizes)
        yield _ContextSteps(
            ranks, runs, streams[own], symbols[own], low[own], extra[own].astype(np.int64), sizes
        )


def write_steps(
    old: Array,
    new: Array,
    kind: Elements,
    bounds: Sequence[int],
    units: int,
    codes: Sequence[tuple[Words, int, int]],
) -> list[tuple[Words, Integers]]:
    """Code the steps of every context.

    Args:
        old, new: Arrays of one tensor.
        kind: Its elements.
        bounds: The exponent at which each context but the first begins.
        units: Of a stream.
        codes: Of each context words, escape and symbol_bits, see `write`; symbol_bits is -1 for a
            context in which nothing changes.

    Returns:
        Of each context the words, uint32, and the bits of each stream, int64.
    """
    coded = []
    for own, (words, escape, symbol_bits) in zip(
        _of_contexts(old, new, kind, bounds, units), codes
    ):
        n = own.sizes.size
        if symbol_bits < 0:
            coded.append((np.zeros(0, np.uint32), np.zeros(n, np.int64)))
            continue
        ranks, streams = own.ranks, own.streams
        if escape:
            values, lengths = token_words(own.runs, own.symbols, words, escape, symbol_bits)
        else:  # a word for each element of the context
            ranks = np.arange(int(own.sizes.sum()))
            streams = np.repeat(np.arange(n), own.sizes)
            symbols = np.zeros(ranks.size, np.int64)
            symbols[own.ranks] = own.symbols
            values, lengths = (words[symbols] & 0xFFFF).astype(np.uint64), words[symbols] >> 16
        # The extra bits of a symbol follow its word. Items have at most 64 bits.
        after = np.searchsorted(ranks, own.ranks) + 1
        values = np.insert(values, after, own.low)
        lengths = np.insert(lengths.astype(np.int64), after, own.extra)
        coded.append(packed_bits(values, lengths, np.insert(streams, after, own.streams), n))
    return coded


def read_steps(
    old: Array,
    kind: Elements,
    bounds: Sequence[int],
    elements: int,
    codes: Sequence[tuple[Words, Words, NDArray[np.uint8], int, int] | None],
) -> NDArray[np.unsignedinteger[Any]]:
    """Decode the steps of every context, and take them.

    Args:
        old: The array before.
        kind: Its elements.
        bounds: The exponent at which each context but the first begins.
        elements: Of a stream.
        codes: Of each context words and sizes, see `read`, lengths of the code's words, classes,
            and k; None for a context in which nothing changes.

    Returns:
        The bits of the elements after the steps, (n,).

    Raises:
        StreamError: The words are no such streams.
    """
    x = bits_of(old, kind.width)
    symbols, low = np.zeros(x.size, np.int64), np.zeros(x.size, np.uint64)
    contexts, streams = contexts_of(x, kind, bounds), np.arange(x.size) // elements
    for c, code in enumerate(codes):
        if code is None:
            continue
        words, sizes, lengths, classes, k = code
        extra = np.concatenate((np.zeros(1, np.int64), kind.extra_bits(k - 1)))
        own, at, data = np.flatnonzero(contexts == c), 0, words.view(np.uint8)
        try:
            tokens = Tokens(reader.Words(lengths.astype(np.int64), k, classes), k, extra)
            for i, nbits in enumerate(sizes.tolist()):
                end = at + 4 * -(-nbits // 32)
                steps, runs, begins, bits = tokens.read(data[at:end], nbits)
                here, at = own[streams[own] == i], end
                ranks = np.cumsum(runs + 1) - 1
                if ranks.size and ranks[-1] >= here.size:
                    raise StreamError(f"bits that go on after {x.size} elements")
                if classes == 1 and ranks.size < here.size:
                    raise StreamError(f"bits that end before {x.size} elements are decoded")
                symbols[here[ranks]] = steps
                low[here[ranks]] = bits.numbers(begins, extra[steps]).astype(np.uint64)
        except ReadError as exc:
            raise StreamError(f"a residual that {exc}") from exc
    return moved_by(x, symbols, low, kind).astype(f"u{kind.width}")
