"""Every compiled loop of the codec, in one file.

numba caches a compiled function by the file it stands in and does not notice an edited
callee elsewhere, so callers and callees stay together. The kernels release the GIL, allocate
nothing, and never raise: a decoder reports what it met as a status, which the calling module
turns into a named error.

Values are handled as their IEEE 754 bits. A float32 is sign (1) | exponent field (8) |
mantissa (23), so ``bits >> 23`` is at once the exponent bucket and its sign (below: its
*bin*), and magnitudes compare as integers.

A delta spans several tensors: elements are numbered through all of them (their *position*),
``starts`` (int64, s + 1) says at which position each tensor begins and where the last one
ends, and ``sources`` and ``tracks`` (uint64, s) are the addresses of their float32 data: u,
what is saved, and the track it is compared with. Callers keep the arrays alive.

Work is cut into units of UNIT positions. A unit's *survivors*, the elements that may have a
code other than 0, are marked in ``marks`` (uint64, one bit a position, lowest first), and
their codes stand one after another in the unit's part of ``codes`` (uint8 or uint16, with
room for one a position); ``numbers`` (int32) says how many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

N_BINS = 512  # sign (2) x exponent field (256)
NON_FINITE_FIELD = 255
MAGNITUDE = np.uint32(0x7FFFFFFF)

WORD = 64  # positions in one element of marks
BLOCK = 2**8  # positions whose delta is computed at a time
UNIT = 2**16

MAX_LENGTH = 15  # bits of a code word
MAX_CLASSES = 84  # of runs: all below MAX_STREAM
MAX_STREAM = 2**21  # elements
BATCH = 2**11  # symbols decoded before they are applied: their lists stay in the cache
LANES = 4  # streams decoded in turn
LONGEST = 64  # bits: no token is longer

STREAM_OK = 0
STREAM_ENDS_EARLY = 1
STREAM_GOES_ON = 2
STREAM_LEAVES = 3  # a symbol beyond the last level

ONE, FIVE = np.uint64(1), np.uint64(5)
LOW32 = np.uint64(0xFFFFFFFF)
ESCAPE = np.uint64(1 << 63)


def _compiled(function: Callable[..., Any]) -> Any:
    """njit that releases the GIL and caches, or does without a cache on a read-only install."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba: "cannot cache function ...: no locator available"
        return njit(nogil=True)(function)


def _inlined(function: Callable[..., Any]) -> Any:
    """For small helpers. Those in a hot loop take no arrays: numba counts references to them
    with atomic additions, over which threads that share an array would stumble."""
    return njit(nogil=True, forceinline=True)(function)


@intrinsic
def _pointer(_context, _address):
    """The address of float32 data as a pointer."""

    def generate(_context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], ir.FloatType().as_pointer())

    return types.CPointer(types.float32)(types.uint64), generate


def _vector_mask(bits: int, size: int) -> Any:
    """An intrinsic: which of 64 neighbouring integers are, without their sign bit, >= a limit.

    LLVM's vectors are the same on every processor; with AVX-512 this takes 4 comparisons.
    """
    element, index = ir.IntType(bits), ir.IntType(32)
    vector = ir.VectorType(element, WORD)

    def generate(_context, builder, _signature, arguments):
        address, limit = arguments
        values = builder.load(builder.inttoptr(address, vector.as_pointer()))
        values.align = size
        if bits == 32:
            values = builder.and_(values, ir.Constant(vector, [2**31 - 1] * WORD))
        nothing = ir.Constant(vector, ir.Undefined)
        limits = builder.insert_element(nothing, limit, index(0))
        limits = builder.shuffle_vector(
            limits, nothing, ir.Constant(ir.VectorType(index, WORD), [0] * WORD)
        )
        return builder.bitcast(builder.icmp_unsigned(">=", values, limits), ir.IntType(WORD))

    return generate


@intrinsic
def _reach(_context, _address, _limit):
    """Bit i: the magnitude of the i-th of 64 uint32 at this address is >= the limit."""
    return types.uint64(types.uint64, types.uint32), _vector_mask(32, 4)


@intrinsic
def _lowest(_context, _word):
    """The number of the lowest bit that is set in a uint64 other than 0."""

    def generate(_context, builder, _signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@intrinsic
def _highest(_context, _word):
    """The number of the highest bit that is set in a uint64 other than 0."""

    def generate(_context, builder, _signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), generate


# From the delta to codes.


@_inlined
def _segment_of(starts, position):
    """The tensor that holds a position."""
    return np.searchsorted(starts, position, side="right") - 1


@_compiled
def bucket_statistics(bits, count, low, high):
    """Count the members of every bin and their extreme magnitudes; zeros are in no bin.

    bits: uint32 (n,), float32 values seen as integers. count: int64 (512,), low and high:
    uint32 (512,), all updated in place; low and high are magnitudes (sign bit cleared), low
    must come in as 0xFFFFFFFF and high as 0.
    """
    for i in range(bits.size):
        word = bits[i]
        magnitude = word & MAGNITUDE
        if magnitude != 0:
            b = word >> np.uint32(23)
            count[b] += 1
            low[b] = min(low[b], magnitude)
            high[b] = max(high[b], magnitude)


@_compiled
def assign_codes(bits, code_of_bin, codes):
    """codes[i] = code_of_bin[bin of value i], and 0 for zeros.

    bits: uint32 (n,). code_of_bin: uint16 (512,). codes: uint8 or uint16 (n,), filled.
    """
    for i in range(bits.size):
        word = bits[i]
        codes[i] = 0 if word & MAGNITUDE == 0 else code_of_bin[word >> np.uint32(23)]


@_compiled
def bucket_energies(values, code_of_bin, levels, codes, energy, residual):
    """Codes, and per code the sums of value^2 and (value - level)^2, in one pass.

    values: float32 (n,), finite. code_of_bin: uint16 (512,). levels: float32 (k,). codes:
    uint8 or uint16 (n,), energy and residual: float64 (k,), zero on entry; all filled.
    """
    bits = values.view(np.uint32)
    for i in range(values.size):
        word = bits[i]
        code = 0
        if word & MAGNITUDE != 0:
            code = code_of_bin[word >> np.uint32(23)]
        value = np.float64(values[i])
        off = value - np.float64(levels[code])
        codes[i] = code
        energy[code] += value * value
        residual[code] += off * off


@_inlined
def _threshold_for(count, keep, least):
    """The lowest magnitude of the exponents that hold the ``keep`` largest bins met so far.

    No bin below it can be among the ``keep`` largest ones of all, whatever is still to come.
    """
    found = 0
    for field in range(NON_FINITE_FIELD, 0, -1):
        found += np.int64(count[field] > 0) + np.int64(count[256 + field] > 0)
        if found >= keep:
            return max(least, np.uint32(field) << np.uint32(23))
    return least


@_compiled
def collect(
    sources, tracks, starts, first, last, keep, threshold, code_of_bin,
    delta, marks, codes, numbers, count, low, high,
):  # fmt: skip
    """Find what the ``keep`` largest bins of u - track hold in the units first..last.

    threshold: uint32, at least 1: smaller magnitudes cannot be among them. It rises as more
    is seen, so smaller bins are met in part only. code_of_bin: uint16 (512,), the code to
    note down. delta: float32 (BLOCK,), scratch. marks, codes, numbers: filled for these
    units. count, low, high: as for `bucket_statistics`, of the elements met; right for every
    bin that can be among the ``keep`` largest. Returns the last threshold.
    """
    words = delta.view(np.uint32)
    address = np.uint64(delta.ctypes.data)
    n = starts[-1]
    segment = _segment_of(starts, first * UNIT)
    blocks, look_again = 0, 1
    for unit in range(first, last):
        at = unit * UNIT
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            end = min(block + BLOCK, n)
            begin = block
            while begin < end:
                while starts[segment + 1] <= begin:
                    segment += 1
                stop = min(end, starts[segment + 1])
                skip = 4 * np.uint64(begin - starts[segment])
                u = carray(_pointer(sources[segment] + skip), (stop - begin,))
                t = carray(_pointer(tracks[segment] + skip), (stop - begin,))
                done = begin - block
                for i in range(stop - begin):
                    delta[done + i] = u[i] - t[i]
                begin = stop
            for i in range(end - block, BLOCK):
                delta[i] = 0
            for group in range(BLOCK // WORD):
                mark = _reach(address + np.uint64(4 * WORD * group), threshold)
                marks[block // WORD + group] = mark
                while mark != 0:
                    word = words[WORD * group + _lowest(mark)]
                    mark &= mark - ONE
                    magnitude = word & MAGNITUDE
                    b = word >> np.uint32(23)
                    codes[at] = code_of_bin[b]
                    at += 1
                    count[b] += 1
                    if magnitude < low[b]:  # rare, and so cheaper than min and max
                        low[b] = magnitude
                    if magnitude > high[b]:
                        high[b] = magnitude
            blocks += 1
            if blocks == look_again:
                look_again += min(look_again, UNIT // BLOCK)
                threshold = _threshold_for(count, keep, threshold)
        for group in range((min((unit + 1) * UNIT, n) + BLOCK - 1) // BLOCK * (BLOCK // WORD),
                           (unit + 1) * (UNIT // WORD)):  # fmt: skip
            marks[group] = 0
        numbers[unit] = at - unit * UNIT
    return threshold


@_compiled
def pack_codes(given, first, last, marks, codes, numbers):
    """Write codes, one a position, as survivors of the units first..last.

    given: uint8 or uint16 (n,). marks, codes, numbers: filled for these units.
    """
    for unit in range(first, last):
        at = unit * UNIT
        for group in range(UNIT // WORD):
            begin = unit * UNIT + WORD * group
            mark = np.uint64(0)
            for i in range(begin, min(begin + WORD, given.size)):
                codes[at] = given[i]
                at += given[i] != 0
                mark |= np.uint64(given[i] != 0) << np.uint64(i - begin)
            marks[begin // WORD] = mark
        numbers[unit] = at - unit * UNIT


@_compiled
def settle(first, last, final, marks, codes, numbers):
    """Replace every code of the units first..last by its final one; of code 0 are none left.

    final: uint16, by noted code.
    """
    for unit in range(first, last):
        read = write = unit * UNIT
        for group in range(unit * (UNIT // WORD), (unit + 1) * (UNIT // WORD)):
            mark = marks[group]
            left = np.uint64(0)
            while mark != 0:
                bit = mark & (~mark + ONE)
                mark ^= bit
                code = final[codes[read]]
                read += 1
                codes[write] = code
                write += code != 0
                left |= bit if code != 0 else np.uint64(0)
            marks[group] = left
        numbers[unit] = write - unit * UNIT


# Tokens: a run of zeros and the symbol that ends it.


@_inlined
def _class_of(run):
    """The class of a run, and how many bits of the run it leaves open: see runlength."""
    if run < np.uint64(16):
        return run, np.uint64(0)
    power = np.uint64(_highest(run))
    open_bits = power - np.uint64(2)
    return np.uint64(4) * power + (run >> open_bits & np.uint64(3)), open_bits


@_compiled
def settle_tokens(first, last, units, final, marks, codes, numbers, counts):
    """`settle` the streams first..last, and count their tokens.

    units: of a stream. counts: int64 (k, MAX_CLASSES); counts[symbol, class of the run before
    it] goes up, and counts[0] holds nothing of use.
    """
    for stream in range(first, last):
        next_position = np.uint64(stream * units * UNIT)
        for unit in range(stream * units, min((stream + 1) * units, numbers.size)):
            read = write = np.uint64(unit * UNIT)
            for group in range(
                np.uint64(unit * (UNIT // WORD)), np.uint64((unit + 1) * (UNIT // WORD))
            ):
                mark = marks[group]
                left = np.uint64(0)
                while mark != 0:
                    position = group * np.uint64(WORD) + np.uint64(_lowest(mark))
                    bit = mark & (~mark + ONE)
                    mark ^= bit
                    code = final[codes[read]]
                    read += ONE
                    kind, _ = _class_of(position - next_position)
                    counts[code, kind] += 1
                    codes[write] = code  # no branch: the next one takes its place if it is 0
                    kept = np.uint64(code != 0)
                    write += kept
                    left |= bit * kept
                    next_position = position + ONE if code != 0 else next_position
                marks[group] = left
            numbers[unit] = np.int64(write) - unit * UNIT


@_compiled
def write(
    first, last, units, n, marks, codes, words, escape, symbol_bits, out, sizes,
    tracks, starts, levels, mode, sums, positions, scratch,
):  # fmt: skip
    """Code the streams first..last, and advance the track by what they say.

    units: of a stream. n: elements. words: uint32 (k,) for a plain code of the codes, or
    (k * MAX_CLASSES,) with a word for every symbol and class of runs: the bit-reversed code
    word | its length << 16, 0 for what needs the escape, which is ``escape`` (uint32, 0: a
    plain code). symbol_bits: of a symbol after an escape. out: uint32, large enough, filled;
    each stream begins with a word. sizes: int64, bits of each stream, filled. tracks ...
    scratch: see `_advance`. positions: uint32 (BATCH + WORD,). Returns the words of out in use.
    """
    at = np.uint64(0)
    plain = escape == 0
    segment = 0 if mode == 0 else _segment_of(starts, first * units * UNIT)
    for stream in range(first, last):
        begun = at
        buffer, filled = np.uint64(0), np.uint64(0)
        base = stream * units * UNIT
        after = np.uint64(0)
        for unit in range(stream * units, min((stream + 1) * units, marks.size * WORD // UNIT)):
            read = advanced = np.uint64(unit * UNIT)
            for group in range(unit * (UNIT // WORD), (unit + 1) * (UNIT // WORD)):
                mark = marks[group]
                here = np.uint64(group * WORD - base)
                while mark != 0:
                    position = here + np.uint64(_lowest(mark))
                    mark &= mark - ONE
                    code = np.uint64(codes[read])
                    positions[read - advanced] = position
                    read += ONE
                    run = position - after
                    after = position + ONE
                    extra = np.uint64(0)
                    if plain:
                        if run != 0:
                            buffer, filled, at = _zeros(run, words, out, buffer, filled, at)
                        word = words[code]
                    else:
                        kind, extra = _class_of(run)
                        word = words[code * np.uint64(MAX_CLASSES) + kind]
                        if word == 0:
                            value = kind | (code - ONE) << np.uint64(7)
                            length = np.uint64(escape >> np.uint32(16))
                            value = np.uint64(escape & np.uint32(0xFFFF)) | value << length
                            buffer |= value << filled
                            filled += length + np.uint64(7 + symbol_bits)
                            if filled >= np.uint64(32):
                                out[at] = np.uint32(buffer & LOW32)
                                at += ONE
                                buffer >>= np.uint64(32)
                                filled -= np.uint64(32)
                    value = np.uint64(word & np.uint32(0xFFFF))
                    length = np.uint64(word >> np.uint32(16))
                    low = run & ((ONE << extra) - ONE)
                    buffer |= (value | low << length) << filled
                    filled += length + extra
                    out[at] = np.uint32(buffer & LOW32)
                    full = filled >> FIVE  # no branch: 0 or 1, and very rarely 2
                    if full == 2:
                        at += ONE
                        buffer >>= np.uint64(32)
                        out[at] = np.uint32(buffer & LOW32)
                        full = ONE
                    at += full
                    buffer >>= full << FIVE
                    filled &= np.uint64(31)
                if read - advanced >= np.uint64(BATCH):
                    if mode != 0:
                        segment = _advance(
                            tracks, starts, segment, base, positions, codes[advanced:read],
                            np.int64(read - advanced), levels, mode, sums, scratch,
                        )  # fmt: skip
                    advanced = read
            if mode != 0:
                segment = _advance(
                    tracks, starts, segment, base, positions, codes[advanced:read],
                    np.int64(read - advanced), levels, mode, sums, scratch,
                )  # fmt: skip
        if plain:
            run = np.uint64(min(units * UNIT, n - base)) - after
            if run != 0:
                buffer, filled, at = _zeros(run, words, out, buffer, filled, at)
        sizes[stream] = np.int64(np.uint64(32) * (at - begun) + filled)
        if filled > np.uint64(0):
            out[at] = np.uint32(buffer)
            at += ONE
    return np.int64(at)


@_inlined
def _zeros(run, words, out, buffer, filled, at):
    """Append the word of code 0 ``run`` times."""
    length = np.uint64(words[0] >> np.uint32(16))
    word = np.uint64(words[0] & np.uint32(0xFFFF))
    if word == 0:  # nothing but bits to skip
        filled += run * length
        while filled >= np.uint64(32):
            out[at] = np.uint32(buffer & LOW32)
            at += ONE
            buffer >>= np.uint64(32)
            filled -= np.uint64(32)
    else:
        for _ in range(np.int64(run)):
            buffer |= word << filled
            filled += length
            if filled >= np.uint64(32):
                out[at] = np.uint32(buffer & LOW32)
                at += ONE
                buffer >>= np.uint64(32)
                filled -= np.uint64(32)
    return buffer, filled, at


# The track, and its digest.


@_inlined
def _mixed(index, word):
    """A 64-bit digest of one element: the finalizer of SplitMix64 on index << 32 | bits."""
    z = np.uint64(index) << np.uint64(32) | np.uint64(word)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_compiled
def digest(values, first):
    """The sum of `_mixed` over values (float32), the first of which has index ``first``."""
    words = values.view(np.uint32)
    total = np.uint64(0)
    for i in range(words.size):
        total += _mixed(first + i, words[i])
    return total


@_inlined
def _advance(tracks, starts, segment, base, positions, found, m, levels, mode, sums, scratch):
    """track[base + positions[j]] += levels[found[j]] in float32 for m rising positions.

    Elements that are not listed stay untouched: adding 0.0 would turn a -0.0 into +0.0.
    mode: 1 computes the new digests only, 2 changes the track too. sums: uint64 (tensors,),
    the change of each tensor's digest is added. scratch: uint32 (2, >= m). Returns the
    tensor of the last position.
    """
    j = 0
    while j < m:
        while starts[segment + 1] <= base + positions[j]:
            segment += 1
        end = m
        if base + positions[m - 1] >= starts[segment + 1]:
            end = j
            while base + positions[end] < starts[segment + 1]:
                end += 1
        size = starts[segment + 1] - starts[segment]
        track = carray(_pointer(tracks[segment]), (size,))
        offset = np.uint64(base - starts[segment])
        old, new = scratch[0], scratch[1]
        if mode == 2:
            for i in range(np.uint64(j), np.uint64(end)):
                at = offset + np.uint64(positions[i])
                value = track[at]
                moved = np.float32(value + levels[found[i]])
                track[at] = moved
                old[i] = np.float32(value).view(np.uint32)
                new[i] = moved.view(np.uint32)
        else:
            for i in range(np.uint64(j), np.uint64(end)):
                value = track[offset + np.uint64(positions[i])]
                old[i] = np.float32(value).view(np.uint32)
                new[i] = np.float32(value + levels[found[i]]).view(np.uint32)
        change = np.uint64(0)
        for i in range(np.uint64(j), np.uint64(end)):
            at = offset + np.uint64(positions[i])
            change += _mixed(at, new[i]) - _mixed(at, old[i])
        sums[segment] += change
        j = end
    return segment


# Code tables.


@_compiled
def package_merge(leaves, limit, lengths):
    """Optimal code lengths of at most ``limit`` bits. leaves: int64 (n,), rising counts, n >= 2.

    lengths: uint8 (n,), zeros, filled. Method: Larmore and Hirschberg, J. ACM 37(3), 1990.
    """
    n = leaves.size
    row, packages = np.empty(2 * n, np.int64), np.empty(n, np.int64)
    is_leaf = np.empty((limit, 2 * n), np.uint8)
    n_packages = 0
    for level in range(limit):
        leaf = package = 0
        for i in range(n + n_packages):  # on equal weights leaves come before packages
            takes_leaf = package == n_packages or (leaf < n and leaves[leaf] <= packages[package])
            is_leaf[level, i] = takes_leaf
            if takes_leaf:
                row[i] = leaves[leaf]
                leaf += 1
            else:
                row[i] = packages[package]
                package += 1
        n_packages = (n + n_packages) // 2
        for i in range(n_packages):
            packages[i] = row[2 * i] + row[2 * i + 1]
    wanted = 2 * n - 2
    for level in range(limit - 1, -1, -1):
        n_leaves = 0
        for i in range(wanted):
            n_leaves += is_leaf[level, i]
        for i in range(n_leaves):
            lengths[i] += 1
        wanted = 2 * (wanted - n_leaves)


@_compiled
def canonical(lengths, words):
    """words[s] = code word of symbol s, first bit lowest | its length << 16; 0 without one.

    lengths: uint8 (k,), a complete prefix code or all 0. words: uint32 (k,), filled.
    """
    following = np.zeros(MAX_LENGTH + 2, np.int64)
    for length in lengths:
        following[length + 1] += length != 0
    for length in range(2, MAX_LENGTH + 1):
        following[length] = (following[length] + following[length - 1]) << 1
    for symbol in range(lengths.size):
        length = np.int64(lengths[symbol])
        word = following[length]
        following[length] += 1
        reverse = np.int64(0)
        for _ in range(length):
            reverse = reverse << 1 | (word & 1)
            word >>= 1
        words[symbol] = reverse | length << 16


@_compiled
def pack_lengths(lengths, out):
    """Code lengths as half bytes: see `unpack_lengths`. out: uint8 (k + 1,), zeros, filled.

    Returns the bytes in use.
    """
    end = lengths.size
    while end > 0 and lengths[end - 1] == 0:
        end -= 1
    at = i = 0
    while i < end:
        out[at >> 1] |= lengths[i] << np.uint8(4 * (at & 1))
        at += 1
        if lengths[i] != 0:
            i += 1
            continue
        run = 1
        while run < 16 and lengths[i + run] == 0:
            run += 1
        out[at >> 1] |= np.uint8(run - 1) << np.uint8(4 * (at & 1))
        at += 1
        i += run
    return (at + 1) >> 1


@_compiled
def unpack_lengths(packed, lengths):
    """Read half bytes, lower half first: a length, or a 0 and by how many zeros it is followed.

    packed: uint8. lengths: uint8 (k,), zeros, filled; what is not mentioned stays 0. Returns
    False if there are more than k.
    """
    i, at = 0, 0
    while at < 2 * packed.size:
        half = packed[at >> 1] >> np.uint8(4 * (at & 1)) & np.uint8(15)
        at += 1
        if half != 0:
            if i >= lengths.size:
                return False
            lengths[i] = half
            i += 1
        elif at < 2 * packed.size:
            i += 1 + np.int64(packed[at >> 1] >> np.uint8(4 * (at & 1)) & np.uint8(15))
            at += 1
    return True


@_compiled
def lookup(words, classes, extra_of_class, start_of_class, width, one, many):
    """What the next ``width`` bits begin with.

    words: uint32, as `canonical` fills it, for every token. classes: 1 for a plain code, else
    how many classes of runs have tokens. one, many: uint64 (2**width,), filled. An entry of
    one is a single token: its length (bits 0-4) | extra bits of its run (5-9) | symbol (10-19)
    | zeros before the symbol (20-51) | is an escape (63). An entry of many covers, for a plain
    code, all zeros up to the first other symbol or the last bit.
    """
    for token in range(words.size):
        length = np.int64(words[token] >> np.uint32(16))
        if length == 0:
            continue
        entry = np.uint64(length)
        if classes == 1:
            entry |= np.uint64(token) << np.uint64(10)
            if token == 0:
                entry |= ONE << np.uint64(20)
        elif token == 0:
            entry |= ESCAPE
        else:
            kind = (token - 1) % classes
            entry |= np.uint64(extra_of_class[kind]) << FIVE
            entry |= np.uint64(1 + (token - 1) // classes) << np.uint64(10)
            entry |= np.uint64(start_of_class[kind]) << np.uint64(20)
        for i in range(np.int64(words[token] & np.uint32(0xFFFF)), 1 << width, 1 << length):
            one[i] = entry
    if classes != 1:
        many[:] = one
        return
    for i in range(1 << width):
        used, zeros, symbol = 0, np.uint64(0), np.uint64(0)
        while symbol == 0:
            entry = one[i >> used]
            length = np.int64(entry & np.uint64(31))
            if used + length > width:
                break
            used += length
            symbol = entry >> np.uint64(10) & np.uint64(1023)
            zeros += np.uint64(symbol == 0)
        many[i] = np.uint64(used) | symbol << np.uint64(10) | zeros << np.uint64(20)


# Reading tokens again.


@_inlined
def _in_view(low, high, at):
    """The bits from ``at`` on, at least 33, of two neighbouring words of a payload."""
    return (np.uint64(low) | np.uint64(high) << np.uint64(32)) >> np.uint64(at & 31)


@_inlined
def _split(entry, window):
    """An entry of `lookup`: its bits in all, zeros before the symbol, and the symbol."""
    length = entry & np.uint64(31)
    extra = entry >> np.uint64(5) & np.uint64(31)
    run = (entry >> np.uint64(20)) + (window >> length & ((np.uint64(1) << extra) - np.uint64(1)))
    return length + extra, run, entry >> np.uint64(10) & np.uint64(1023)


@_compiled
def _escaped(payload, at, symbol_bits, start_of_class, extra_of_class):
    """What follows an escape: bits, zeros before the symbol, symbol. A class that does not
    exist leads beyond every stream."""
    word = at >> 5
    window = _in_view(payload[word], payload[word + 1], at)
    kind = np.int64(window & np.uint64(127))
    symbol = np.uint64(1) + (
        window >> np.uint64(7) & ((np.uint64(1) << np.uint64(symbol_bits)) - np.uint64(1))
    )
    if kind >= MAX_CLASSES:
        return 7 + symbol_bits, MAX_STREAM, symbol
    word = (at + 7 + symbol_bits) >> 5
    window = _in_view(payload[word], payload[word + 1], at + 7 + symbol_bits)
    extra = np.uint64(extra_of_class[kind])
    low = window & ((np.uint64(1) << extra) - np.uint64(1))
    return 7 + symbol_bits + np.int64(extra), start_of_class[kind] + np.int64(low), symbol


@_inlined
def _next(payload, lane, states, table, mask, symbol_bits, start_of_class, extra_of_class,
          positions, found):  # fmt: skip
    """Read one entry of one lane, whatever it is. states: see `_fill`."""
    at = states[lane, 0]
    window = _in_view(payload[at >> 5], payload[(at >> 5) + 1], at)
    entry = table[window & mask]
    used, run, symbol = _split(entry, window)
    at += used
    if entry >= ESCAPE:
        used, run, symbol = _escaped(payload, at, symbol_bits, start_of_class, extra_of_class)
        at += used
    m = states[lane, 3]
    states[lane, 2] += run
    positions[lane, m] = states[lane, 2]
    found[lane, m] = symbol
    states[lane, 0] = at
    if symbol != 0:
        states[lane, 2] += 1
        states[lane, 3] = m + 1


@_compiled
def _fill(payload, states, lanes, one, many, symbol_bits, start_of_class, extra_of_class,
          positions, found):  # fmt: skip
    """Read every lane until its list is full or its stream ends.

    states: int64 (LANES, 4), of each lane: next bit, end, next position, symbols in its list.
    Four lanes are read in turn while all of them can, for a processor waits for a stream's
    next bit, but not for another stream.
    """
    few, more = np.uint64(one.size - 1), np.uint64(many.size - 1)
    while lanes == LANES:
        rounds = np.int64(BATCH)
        for k in range(LANES):
            rounds = min(rounds, (states[k, 1] - states[k, 0]) // LONGEST, BATCH - states[k, 3])
        if rounds <= 0:
            break
        a0, a1, a2, a3 = (
            np.uint64(states[0, 0]), np.uint64(states[1, 0]),
            np.uint64(states[2, 0]), np.uint64(states[3, 0]),
        )  # fmt: skip
        n0, n1, n2, n3 = (
            np.uint64(states[0, 2]), np.uint64(states[1, 2]),
            np.uint64(states[2, 2]), np.uint64(states[3, 2]),
        )  # fmt: skip
        m0, m1, m2, m3 = (
            np.uint64(states[0, 3]), np.uint64(states[1, 3]),
            np.uint64(states[2, 3]), np.uint64(states[3, 3]),
        )  # fmt: skip
        p0, p1, p2, p3 = positions[0], positions[1], positions[2], positions[3]
        f0, f1, f2, f3 = found[0], found[1], found[2], found[3]
        escape = False
        for _ in range(rounds):
            w0 = _in_view(payload[a0 >> FIVE], payload[(a0 >> FIVE) + ONE], a0)
            w1 = _in_view(payload[a1 >> FIVE], payload[(a1 >> FIVE) + ONE], a1)
            w2 = _in_view(payload[a2 >> FIVE], payload[(a2 >> FIVE) + ONE], a2)
            w3 = _in_view(payload[a3 >> FIVE], payload[(a3 >> FIVE) + ONE], a3)
            e0, e1, e2, e3 = many[w0 & more], many[w1 & more], many[w2 & more], many[w3 & more]
            if e0 | e1 | e2 | e3 >= ESCAPE:
                escape = True
                break
            u0, r0, s0 = _split(e0, w0)
            u1, r1, s1 = _split(e1, w1)
            u2, r2, s2 = _split(e2, w2)
            u3, r3, s3 = _split(e3, w3)
            a0 += u0
            a1 += u1
            a2 += u2
            a3 += u3
            n0 += r0
            n1 += r1
            n2 += r2
            n3 += r3
            p0[m0] = n0
            p1[m1] = n1
            p2[m2] = n2
            p3[m3] = n3
            f0[m0] = s0
            f1[m1] = s1
            f2[m2] = s2
            f3[m3] = s3
            i0, i1, i2, i3 = min(s0, ONE), min(s1, ONE), min(s2, ONE), min(s3, ONE)
            m0 += i0
            m1 += i1
            m2 += i2
            m3 += i3
            n0 += i0
            n1 += i1
            n2 += i2
            n3 += i3
        states[0, 0], states[1, 0], states[2, 0], states[3, 0] = a0, a1, a2, a3
        states[0, 2], states[1, 2], states[2, 2], states[3, 2] = n0, n1, n2, n3
        states[0, 3], states[1, 3], states[2, 3], states[3, 3] = m0, m1, m2, m3
        if escape:
            for k in range(LANES):
                _next(payload, k, states, many, more, symbol_bits, start_of_class, extra_of_class,
                      positions, found)  # fmt: skip
    for k in range(lanes):
        while states[k, 3] < BATCH and states[k, 0] + LONGEST <= states[k, 1]:
            _next(payload, k, states, many, more, symbol_bits, start_of_class, extra_of_class,
                  positions, found)  # fmt: skip
        while states[k, 3] < BATCH and states[k, 0] < states[k, 1] < states[k, 0] + LONGEST:
            _next(payload, k, states, one, few, symbol_bits, start_of_class, extra_of_class,
                  positions, found)  # fmt: skip


@_compiled
def read(
    payload, begins, sizes, first, last, elements, n, n_levels, plain, one, many, symbol_bits,
    start_of_class, extra_of_class, states, positions, found, codes, tracks, starts, levels, mode,
    sums, scratch,
):  # fmt: skip
    """Decode the streams first..last, and advance the track by them or write their codes.

    payload: uint32, two words longer than all streams. begins: int64, first word of each
    stream. sizes: int64, their bits. elements: of every stream but the last. n: of all. plain:
    zeros are coded too. one, many: see `lookup`. states: see `_fill`. positions: uint32 and
    found: uint16 (LANES, BATCH + 1), scratch. codes: uint8 or uint16 (n,), zeros, filled if mode
    is 0. tracks ... scratch: see `_advance`. Returns a STREAM_* status; never reads or writes
    out of bounds.
    """
    segment = np.int64(0)
    for leader in range(first, last, LANES):
        lanes = min(LANES, last - leader)
        for k in range(lanes):
            states[k, 0] = 32 * begins[leader + k]
            states[k, 1] = states[k, 0] + sizes[leader + k]
            states[k, 2] = 0
        going = True
        while going:
            going = False
            for k in range(lanes):
                states[k, 3] = 0
            _fill(payload, states, lanes, one, many, symbol_bits, start_of_class, extra_of_class,
                  positions, found)  # fmt: skip
            for k in range(lanes):
                base = (leader + k) * elements
                limit = min(elements, n - base)
                if states[k, 0] > states[k, 1]:
                    return STREAM_ENDS_EARLY
                if states[k, 2] > limit:
                    return STREAM_GOES_ON
                m = states[k, 3]
                largest = np.uint16(0)
                for i in range(m):
                    largest = max(largest, found[k, i])
                if largest >= n_levels:
                    return STREAM_LEAVES
                if mode == 0:
                    for i in range(m):
                        codes[base + positions[k, i]] = found[k, i]
                elif m > 0:
                    segment = _segment_of(starts, base + positions[k, 0])
                    _advance(
                        tracks, starts, segment, base, positions[k], found[k], m, levels, mode,
                        sums, scratch,
                    )  # fmt: skip
                if states[k, 0] < states[k, 1]:
                    going = True
                elif plain and states[k, 2] != limit:
                    return STREAM_ENDS_EARLY
    return STREAM_OK
