"""Tokens, code tables, and the bits of code words.

The twins in `plain` say what these compute. See `collect` for marks and codes.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from codec.scheme.limits import FIRST_LENGTH, MAX_CLASSES, MAX_LENGTH, UNIT, WORD

from .instructions import (
    ONE,
    class_of,
    extra_of,
    highest_bit,
    load,
    lowest_bit,
    prefetch,
    reversed_bits,
    segment_of,
    store,
)
from .machine import compiled, inlined
from .track import BATCH, advance

SYMBOL_BITS, LAST_SYMBOL = 16, 2**16 - 1  # of the symbols of a code
# By how much a length differs from the last one, -2 to 2, and the bits: see `huffman.pack_lengths`.
STEPS, STEP_BITS = (0b11000, 0b100, 0b1, 0b010, 0b01000), (5, 3, 1, 3, 5)
NEAR = np.uint64(128)  # shorter runs are counted and written without asking for their class
NEAR_LENGTH, NEAR_BITS = np.uint64(27), np.uint64(2**27 - 1)

# A code. words: uint32 (k,) for a plain code, with a word for each code; or (k * MAX_CLASSES,) with
# one for every symbol and class of runs: the bit-reversed code word | its length << 16, 0 for what
# needs the escape. `put_token` takes their address. escape: the word of the escape, uint32, 0 for a
# plain code. symbol_bits: of a symbol after an escape.
Code = namedtuple("Code", "words escape symbol_bits")
# A stream that is written: bits that have not been stored, the first one lowest; how many there
# are, below 32; and the address of the next uint32. numba keeps a tuple in registers.
Bits = namedtuple("Bits", "buffer filled at")


@compiled
def settle_tokens(streams, units, final, marked, counts):
    """Give the codes of some streams their final values, and count tokens.

    Survivors of code 0 are survivors no more. streams: the first one, and the end. units: of a
    stream. final: uint16, by the code that `collect.survivors` wrote. counts: int32 (rows, NEAR +
    MAX_CLASSES); counts[symbol, run before it] goes up, or for long runs counts[symbol, NEAR +
    class]; counts[0] is unused, and the last row also counts all symbols beyond it.
    """
    marks, codes, numbers = marked
    beyond = counts.shape[0] - 1
    for stream in range(streams[0], streams[1]):
        # Runs begin anew in each stream.
        next_position = np.uint64(stream * units * UNIT)
        for unit in range(stream * units, min((stream + 1) * units, numbers.size)):
            read = write = np.uint64(unit * UNIT)
            groups = np.uint64(unit * (UNIT // WORD))
            for group in range(groups, groups + np.uint64(UNIT // WORD)):
                mark = marks[group]
                if mark == 0:
                    continue
                left = np.uint64(0)
                while mark != 0:
                    position = group * np.uint64(WORD) + np.uint64(lowest_bit(mark))
                    bit = mark & (~mark + ONE)
                    mark ^= bit
                    code = final[codes[read]]
                    read += ONE
                    run = position - next_position
                    if run >= NEAR:
                        run, _ = class_of(run)
                        # Columns 0-127 are short runs, the columns behind them classes of long
                        # runs.
                        run += NEAR
                    # No branch: what is dropped is counted in row 0, which nobody reads.
                    counts[min(np.int64(code), beyond), run] += 1
                    codes[write] = code  # no branch: if it is 0, the next one overwrites it
                    kept = np.uint64(code != 0)
                    write += kept
                    left |= bit * kept
                    next_position = position + ONE if code != 0 else next_position
                marks[group] = left
            numbers[unit] = np.int64(write) - unit * UNIT


@compiled
def sum_tokens(counts, tokens):
    """Add up what `settle_tokens` counted in several pieces, short runs by their class.

    counts: int32 (pieces, rows, NEAR + MAX_CLASSES). tokens: int64 (rows - 1, MAX_CLASSES), zeros,
    filled.
    """
    for piece in range(counts.shape[0]):
        for code in range(1, counts.shape[1]):
            for run in range(NEAR):
                kind, _ = class_of(run)
                tokens[code - 1, kind] += counts[piece, code, run]
            for kind in range(MAX_CLASSES):
                tokens[code - 1, kind] += counts[piece, code, NEAR + np.uint64(kind)]


@compiled
def near_words(words, near):
    """Code words with the extra bits of the run, for runs below NEAR.

    words: uint32 (k * MAX_CLASSES,), see `write`. near: uint32 (k * NEAR,), filled: at code *
    NEAR + run the bits | how many << 27, or 0 where the escape is needed.
    """
    for code in range(near.size // NEAR):
        for run in range(NEAR):
            kind, extra = class_of(run)
            word = words[code * MAX_CLASSES + kind]
            length = np.uint64(word >> np.uint32(16))
            low = run & ((ONE << extra) - ONE)
            bits = np.uint64(word & np.uint32(0xFFFF)) | low << length
            # At most 15 bits of a word and 4 extra bits: they fit into 27 bits, their number into
            # 5.
            full = bits | (length + extra) << NEAR_LENGTH
            near[code * NEAR + run] = np.uint32(full) if word != 0 else np.uint32(0)


@inlined
def put(bits, value, length):
    """Append at most 32 bits, the lowest first. bits: `Bits`; returns the next ones."""
    buffer, filled = bits.buffer | value << bits.filled, bits.filled + length
    store(bits.at, 4, buffer)  # in any case, which saves a branch
    full = filled >> np.uint64(5)
    rest = filled & np.uint64(31)
    return Bits(buffer >> (full << np.uint64(5)), rest, bits.at + (full << np.uint64(2)))


@inlined
def put_zeros(bits, word, run):
    """Append a word ``run`` times."""
    value, length = np.uint64(word & np.uint32(0xFFFF)), np.uint64(word >> np.uint32(16))
    if value == 0:  # only bits to skip
        left = np.int64(run * length)
        while left > 0:
            bits = put(bits, value, np.uint64(min(left, 32)))
            left -= 32
    else:
        for _ in range(run):
            bits = put(bits, value, length)
    return bits


@inlined
def put_token(bits, code, symbol, run):
    """Append the token of a symbol after a run of zeros. code: `Code` with the words' address."""
    kind, extra = class_of(run)
    word = load(code.words + np.uint64(4) * (symbol * np.uint64(MAX_CLASSES) + kind), 4)
    if word == 0:
        # The escape: its word, 7 bits of class, symbol - 1.
        length = np.uint64(code.escape >> np.uint32(16))
        value = np.uint64(code.escape & np.uint32(0xFFFF)) | kind << length
        bits = put(bits, value, length + np.uint64(7))
        bits = put(bits, symbol - ONE, np.uint64(code.symbol_bits))
    else:
        bits = put(bits, word & np.uint64(0xFFFF), word >> np.uint64(16))
    return put(bits, run & ((ONE << extra) - ONE), extra)


@inlined
def ended(bits, begin):
    """Store the rest of a stream; returns its bits, and the address behind its last word.

    begin: the address of its first word.
    """
    store(bits.at, 4, bits.buffer)
    nbits = np.int64(np.uint64(8) * (bits.at - begin) + bits.filled)
    return nbits, bits.at + (np.uint64(4) if bits.filled > 0 else np.uint64(0))


@compiled
def write(streams, units, n, marked, code, near, out, sizes, track, positions):
    """Code some streams, and advance the track by them.

    streams: the first one, and the end. units: of a stream. n: elements. code: as in `Code`. near:
    see `near_words`, not used for a plain code. out: uint32, large enough, filled; each stream
    begins with a word. sizes: int64, bits of each stream, filled. track: `Track`. positions: uint32
    (BATCH + WORD,), scratch. Returns the words of out in use.
    """
    marks, codes, _ = marked
    moves, starts, segment = track.mode != 0, track.starts, 0
    if moves:
        segment = segment_of(starts, streams[0] * units * UNIT)
    words, escape, symbol_bits = code
    code, plain = Code(np.uint64(words.ctypes.data), escape, symbol_bits), escape == 0
    at = np.uint64(out.ctypes.data)
    for stream in range(streams[0], streams[1]):
        bits = Bits(np.uint64(0), np.uint64(0), at)
        base = stream * units * UNIT
        after = np.uint64(0)
        for unit in range(stream * units, min((stream + 1) * units, marks.size * WORD // UNIT)):
            read = advanced = np.uint64(unit * UNIT)
            values, last = np.uint64(0), (unit + 1) * (UNIT // WORD) - 1
            if moves:  # right for most: a unit seldom holds more than one tensor
                while starts[segment + 1] <= unit * UNIT:
                    segment += 1
                values = track.tracks[segment] + np.uint64(4 * (base - starts[segment]))
            for group in range(unit * (UNIT // WORD), last + 1):
                mark = marks[group]
                here = np.uint64(group * WORD - base)
                while mark != 0:
                    position = here + np.uint64(lowest_bit(mark))
                    mark &= mark - ONE
                    symbol = np.uint64(codes[read])
                    positions[read - advanced] = position
                    if moves:
                        # `advance` needs this element at the end of the batch.
                        prefetch(values + (position << np.uint64(2)))
                    read += ONE
                    run = position - after
                    after = position + ONE
                    value = length = np.uint64(0)
                    if plain:
                        bits = put_zeros(bits, words[0], run)
                        word = words[symbol]
                        value = np.uint64(word & np.uint32(0xFFFF))
                        length = np.uint64(word >> np.uint32(16))
                    elif run < NEAR:
                        word = np.uint64(near[symbol * NEAR + run])
                        value, length = word & NEAR_BITS, word >> NEAR_LENGTH
                    # A long run, or a token without a word. (A plain word is never empty.)
                    if length == 0:
                        bits = put_token(bits, code, symbol, run)
                    else:
                        bits = put(bits, value, length)
                # Batch by batch: positions and codes are then still in the cache.
                m = np.int64(read - advanced)
                if m >= BATCH or group == last:
                    if moves:
                        found = codes[advanced:read]
                        segment = advance(track, segment, base, positions, found, m)
                    advanced = read
        if plain:
            # A plain code has a word for every element; tokens leave out the last zeros.
            run = np.uint64(min(units * UNIT, n - base)) - after
            bits = put_zeros(bits, words[0], run)
        sizes[stream], at = ended(bits, at)
    return np.int64(at - np.uint64(out.ctypes.data)) >> 2


@compiled
def package_merge(counts, limit, lengths):
    """Optimal code lengths of at most ``limit`` bits.

    counts: int64 (k,), at most 2**16 of them, each below 2**47. lengths: uint8 (k,), zeros; filled
    where the count is positive, if two or more are. Method: Larmore and Hirschberg, J. ACM 37(3),
    1990.
    """
    # Rarest first; on equal counts, the larger index first.
    order = np.empty(np.count_nonzero(counts), np.int64)
    n = 0
    for i in range(counts.size):
        if counts[i] > 0:
            order[n] = counts[i] << SYMBOL_BITS | LAST_SYMBOL - i
            n += 1
    if n < 2:
        return
    order.sort()
    leaves = order >> SYMBOL_BITS
    row, packages = np.empty(2 * n, np.int64), np.empty(n, np.int64)
    is_leaf = np.empty((limit, 2 * n), np.uint8)
    n_packages = 0
    for level in range(limit):
        leaf = package = 0
        # Merge two rising lists: the leaves, and pairs of the items of the level before.
        for i in range(n + n_packages):  # on equal weights leaves come before packages
            takes_leaf = package == n_packages or (leaf < n and leaves[leaf] <= packages[package])
            is_leaf[level, i] = takes_leaf
            row[i] = leaves[leaf] if takes_leaf else packages[package]
            leaf += takes_leaf
            package += not takes_leaf
        n_packages = (n + n_packages) // 2
        for i in range(n_packages):
            packages[i] = row[2 * i] + row[2 * i + 1]
    # The cheapest 2n - 2 items of the last level are taken. A leaf among them is one bit of its
    # word; a package stands for two items of the level before.
    wanted = 2 * n - 2
    for level in range(limit - 1, -1, -1):
        n_leaves = 0
        for i in range(wanted):
            n_leaves += is_leaf[level, i]
        for i in range(n_leaves):
            lengths[LAST_SYMBOL - (order[i] & LAST_SYMBOL)] += 1
        wanted = 2 * (wanted - n_leaves)


@compiled
def token_bits(tokens, lengths, classes, escaped_bits):
    """The bits of a message of tokens with a table.

    tokens: int64 (symbols, MAX_CLASSES), as in `tables.Counts`. lengths, classes: of the table.
    escaped_bits: of a token without a word, but for its extra bits.
    """
    total = 0
    with_words = (lengths.size - 1) // classes
    for symbol in range(tokens.shape[0]):
        for run_class in range(tokens.shape[1]):
            bits = 0
            if symbol < with_words and run_class < classes:
                bits = np.int64(lengths[1 + symbol * classes + run_class])
            if bits == 0:
                bits = escaped_bits
            total += tokens[symbol, run_class] * (bits + np.int64(extra_of(np.uint64(run_class))))
    return total


@compiled
def canonical(lengths, words):
    """words[s] = code word of symbol s, first bit lowest | its length << 16; 0 without one.

    lengths: uint8 (k,), a complete prefix code or all 0. words: uint32 (k,), zeros, filled.
    """
    word = np.uint64(0)  # with zeros behind it, 16 bits in all
    for length in range(1, MAX_LENGTH + 1):
        for symbol in range(lengths.size):
            if lengths[symbol] == length:
                words[symbol] = reversed_bits(word) >> np.uint64(48) | np.uint64(length << 16)
                word += ONE << np.uint64(16 - length)


@compiled
def pack_lengths(lengths, out):
    """Code lengths as bits: see `huffman.pack_lengths`.

    out: uint32 (k + 2,), filled. Returns the bytes in use.
    """
    begin, last, zeros = np.uint64(out.ctypes.data), FIRST_LENGTH, 0
    bits = Bits(np.uint64(0), np.uint64(0), begin)
    for length in lengths:
        if length == 0:
            zeros += 1
            continue
        if zeros > 0:
            # 0, 1, 1; `power` zeros, 1, and the `power` bits below the highest one.
            power = np.uint64(highest_bit(np.uint64(zeros)))
            bits = put(bits, np.uint64(0b110) | np.uint64(8) << power, power + np.uint64(4))
            bits = put(bits, np.uint64(zeros) - (ONE << power), power)
            zeros = 0
        step, last = np.int64(length) - last, np.int64(length)
        value, n = last << 4, 8
        if -2 <= step <= 2:
            value, n = STEPS[step + 2], STEP_BITS[step + 2]
        bits = put(bits, np.uint64(value), np.uint64(n))
    return (ended(bits, begin)[0] + 7) >> 3


@compiled
def unpack_lengths(packed, nbits, lengths):
    """Read what `plain.pack_lengths` wrote.

    packed: uint8, nbits bits and 8 bytes of zeros. lengths: uint8 (k,), zeros, filled; those behind
    the last item stay 0. Returns False unless packed is a list of at most k lengths.
    """
    first, i, at, last = np.uint64(packed.ctypes.data), 0, 0, FIRST_LENGTH
    while at < nbits:
        window = load(first + np.uint64(at >> 3), 8) >> np.uint64(at & 7)
        if nbits - at < 8 and window == 0:  # the last byte is filled with zeros
            break
        head = np.int64(window & np.uint64(255))
        if head & 7 == 0b110:
            # The limit ends a damaged run: no table has 2**15 lengths.
            power = np.uint64(lowest_bit(window >> np.uint64(3) | ONE << np.uint64(MAX_LENGTH)))
            low = window >> (power + np.uint64(4)) & ((ONE << power) - ONE)
            i += np.int64((ONE << power) + low)
            at += np.int64(power + power) + 4
            if at > nbits or i > lengths.size:
                return False
            continue
        used, length = 8, head >> 4
        for k in range(len(STEPS)):
            if head & ((1 << STEP_BITS[k]) - 1) == STEPS[k]:
                used, length = STEP_BITS[k], last + k - 2
        at += used
        if at > nbits or i >= lengths.size or not 1 <= length <= MAX_LENGTH:
            return False
        lengths[i] = last = length
        i += 1
    return True
