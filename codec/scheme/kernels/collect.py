"""From u and the track to survivors: buckets, batches and uniform steps.

The twins in `plain` say what these compute. How: the delta is computed block by block and never
written as a whole; 64 elements at a time, a vector comparison says which ones may survive.

A delta spans several tensors: elements are numbered through all of them (their *position*).
``starts`` (int64, s + 1) holds the first position of each tensor and the end of the last one.
``sources`` and ``tracks`` (uint64, s) are the addresses of their float32 data: u, what is saved,
and the track it is compared with. Callers keep the arrays alive.

Work is cut into units of UNIT positions. A unit's *survivors*, the elements that may have a
code other than 0, are marked in ``marks`` (uint64, one bit a position, lowest first), and
their codes stand one after another in the unit's part of ``codes`` (uint8 or uint16, with
room for one a position); ``numbers`` (int32) says how many.
"""

from __future__ import annotations

import math

import numpy as np

from codec.scheme.limits import (
    BLOCK,
    FINE_SHIFT,
    MAGNITUDE,
    MANTISSA,
    N_BINS,
    NON_FINITE_FIELD,
    UNIT,
    WORD,
)

from .machine import (
    LOW32,
    ONE,
    carray,
    compiled,
    inlined,
    intrinsic,
    ir,
    lowest_bit,
    pointer,
    segment_of,
    types,
)

LEADING = 2.0**23  # the leading one of a mantissa
LAST_BIT = 127 + 23  # the field of an exponent, less it, is the exponent of a mantissa's last bit
PROBES = 4  # blocks of a tensor, at least, that are probed first


@intrinsic
def difference_of(_context, _u, _track, _out, _limit):
    """Subtract 64 float32 and mark the large differences.

    Writes u - track to out, all three given as addresses, and 0 where both have the same bits: the
    same infinity or NaN counts as unchanged. Bit i of the result is set if the i-th u and its track
    differ, and the magnitude of their difference, as an integer, is at least the limit. LLVM's
    vectors are the same on every processor; with AVX-512 this takes 4 subtractions and 8
    comparisons.
    """
    element, index = ir.IntType(32), ir.IntType(32)
    floats, words = ir.VectorType(ir.FloatType(), WORD), ir.VectorType(element, WORD)

    def generate(_context, builder, _signature, arguments):
        u, track, out, limit = arguments
        values = []
        for address in (u, track):
            value = builder.load(builder.inttoptr(address, floats.as_pointer()))
            # LLVM would assume the alignment of the whole vector.
            value.align = 4
            values.append(value)
        # Equal bits must give 0: infinity - infinity would be NaN.
        differs = builder.icmp_unsigned("!=", *(builder.bitcast(v, words) for v in values))
        zeros = ir.Constant(floats, [0.0] * WORD)
        difference = builder.select(differs, builder.fsub(*values), zeros)
        builder.store(difference, builder.inttoptr(out, floats.as_pointer())).align = 4
        bits = builder.bitcast(difference, words)
        magnitudes = builder.and_(bits, ir.Constant(words, [2**31 - 1] * WORD))
        # The limit in all lanes. Magnitudes compare as integers, so NaN and infinity are large.
        nothing = ir.Constant(words, ir.Undefined)
        limits = builder.insert_element(nothing, limit, index(0))
        every = ir.Constant(ir.VectorType(index, WORD), [0] * WORD)
        limits = builder.shuffle_vector(limits, nothing, every)
        large = builder.icmp_unsigned(">=", magnitudes, limits)
        return builder.bitcast(builder.and_(large, differs), ir.IntType(WORD))

    return types.uint64(types.uint64, types.uint64, types.uint64, types.uint32), generate


@intrinsic
def energy_of(_context, _address):
    """The sum of squares of BLOCK float32 at an address, in float64.

    The order of the additions is fixed: every processor gets the same sum.
    """
    lanes = 16
    floats = ir.VectorType(ir.FloatType(), lanes)
    doubles = ir.VectorType(ir.DoubleType(), lanes)

    def generate(_context, builder, _signature, arguments):
        (address,) = arguments
        total = ir.Constant(doubles, [0.0] * lanes)
        for skip in range(0, 4 * BLOCK, 4 * lanes):
            at = builder.add(address, ir.Constant(ir.IntType(64), skip))
            values = builder.load(builder.inttoptr(at, floats.as_pointer()))
            values.align = 4
            # In float64, squares of float32 neither overflow nor vanish.
            wide = builder.fpext(values, doubles)
            total = builder.fadd(total, builder.fmul(wide, wide))
        # Add the upper half of the lanes to the lower one, until one lane is left.
        while lanes_left := total.type.count // 2:
            halves = [
                builder.shuffle_vector(
                    total,
                    total,
                    ir.Constant(
                        ir.VectorType(ir.IntType(32), lanes_left),
                        list(range(first, first + lanes_left)),
                    ),
                )
                for first in (0, lanes_left)
            ]
            total = builder.fadd(*halves)
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return types.float64(types.uint64), generate


@inlined
def threshold_for(count, keep, least):
    """The lowest magnitude of the exponents that hold the ``keep`` largest bins met so far.

    No bin below it can be among the ``keep`` largest of all, whatever follows.
    """
    found = 0
    for field in range(NON_FINITE_FIELD, 0, -1):
        # Both signs of a field count: which comes first depends on extremes known later.
        found += np.int64(count[field] > 0) + np.int64(count[256 + field] > 0)
        if found >= keep:
            return max(least, np.uint32(field) << np.uint32(23))
    return least


@compiled
def probe(sources, tracks, starts, keep, delta, count):
    """A threshold for `survivors` from a few blocks of every tensor; arguments as there.

    The largest values are often in the last tensor; without a probe many survivors would be noted
    for nothing. count: int64 (512,), zeros, changed.
    """
    words = delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    threshold = np.uint32(1)
    for segment in range(starts.size - 1):
        size = starts[segment + 1] - starts[segment]
        # A block in the middle of each stretch of `stride` elements, within one tensor; smaller
        # tensors have none.
        stride = min(max(size // PROBES, BLOCK), UNIT)
        for begin in range((stride - BLOCK) // 2, size - BLOCK + 1, stride):
            u = sources[segment] + np.uint64(4 * begin)
            track = tracks[segment] + np.uint64(4 * begin)
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = difference_of(u + skip, track + skip, here + skip, threshold)
                while mark != 0:
                    count[words[WORD * group + lowest_bit(mark)] >> np.uint32(23)] += 1
                    mark &= mark - ONE
            threshold = threshold_for(count, keep, threshold)
    return threshold


@compiled
def survivors(
    sources,
    tracks,
    starts,
    first,
    last,
    keep,
    threshold,
    code_of_bin,
    delta,
    marks,
    codes,
    numbers,
    count,
    low,
    high,
    mantissas,
    energy,
):
    """Find the elements of the ``keep`` largest bins of u - track in the units first..last.

    threshold: uint32, at least 1: smaller magnitudes cannot be among them. It rises during
    the pass, so smaller bins are incomplete. code_of_bin: uint16 (512,), the code to
    note down. delta: float32 (3, BLOCK), scratch. marks, codes, numbers: filled for these
    units. count, low, high: as in `plain.Bins`, of the elements met; right for every
    bin that can be among the ``keep`` largest. mantissas: int64 (512,), raised by the mantissas of
    these elements, without the leading one. energy: float64 (units,), filled for these units: the
    sum of all squares of u - track. Returns the last threshold.
    """
    # delta[0] holds the block's u - track. delta[1] is zeros: a gathered block is its own
    # difference.
    words = delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    nothing = here + np.uint64(4 * BLOCK)
    delta[1] = 0
    n = starts[-1]
    segment = segment_of(starts, first * UNIT)
    # The threshold rises quickly at first: look after 1, 2, 4 ... blocks, then once a unit.
    blocks, look_again = 0, 1
    for unit in range(first, last):
        # A unit's codes begin where its positions do: units are independent of each other.
        at = np.uint64(unit * UNIT)
        squares = 0.0
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            while starts[segment + 1] <= block:
                segment += 1
            u, subtract = here, nothing
            if block + BLOCK <= starts[segment + 1]:
                skip = np.uint64(4 * (block - starts[segment]))
                u, subtract = sources[segment] + skip, tracks[segment] + skip
            else:
                segment = gather(sources, tracks, starts, segment, block, delta[0])
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = difference_of(u + skip, subtract + skip, here + skip, threshold)
                marks[block // WORD + group] = mark
                while mark != 0:
                    word = words[WORD * group + lowest_bit(mark)]
                    mark &= mark - ONE
                    magnitude = word & MAGNITUDE
                    b = word >> np.uint32(23)
                    # A bin below the final threshold is noted, too; `settle` drops it.
                    codes[at] = code_of_bin[b]
                    at += ONE
                    count[b] += 1
                    mantissas[b] += np.int64(word & MANTISSA)
                    if magnitude < low[b]:  # rare, so cheaper than min and max
                        low[b] = magnitude
                    if magnitude > high[b]:
                        high[b] = magnitude
            # Of all elements, also of those below the threshold.
            squares += energy_of(here)
            blocks += 1
            if blocks == look_again:
                look_again += min(look_again, UNIT // BLOCK)
                threshold = threshold_for(count, keep, threshold)
        # The last unit has marks beyond the last element.
        met = (min((unit + 1) * UNIT, n) + BLOCK - 1) // BLOCK * BLOCK
        for group in range(met // WORD, (unit + 1) * (UNIT // WORD)):
            marks[group] = 0
        numbers[unit] = np.int64(at) - unit * UNIT
        energy[unit] = squares
    return threshold


@compiled
def magnitudes(sources, tracks, starts, first, last, stride, delta, count, high):
    """Count how often each fine bin of magnitudes occurs in u - track, in the units first..last.

    stride: 1 to look at every block, 2 at every other one, and so on. delta: float32 (3, BLOCK),
    scratch. count: int64 (N_FINE,), by magnitude >> FINE_SHIFT; changes of 0 are not counted. high:
    uint32 (tensors,), raised to the largest magnitude of each tensor. Returns the positions that
    were looked at.
    """
    words = delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    nothing = here + np.uint64(4 * BLOCK)
    delta[1] = 0
    segment = segment_of(starts, first * UNIT)
    end, met, step = min(last * UNIT, starts[-1]), 0, stride * BLOCK
    # The same blocks however the work is cut.
    for block in range((first * UNIT + step - 1) // step * step, end, step):
        met += min(BLOCK, end - block)
        while starts[segment + 1] <= block:
            segment += 1
        u, subtract, own = here, nothing, segment
        if block + BLOCK <= starts[segment + 1]:
            skip = np.uint64(4 * (block - starts[segment]))
            u, subtract = sources[segment] + skip, tracks[segment] + skip
        else:
            own = -1  # shared by several tensors
            segment = gather(sources, tracks, starts, segment, block, delta[0])
        largest = np.uint32(0)
        for group in range(BLOCK // WORD):
            skip = np.uint64(4 * WORD * group)
            mark = difference_of(u + skip, subtract + skip, here + skip, np.uint32(1))
            while mark != 0:
                i = WORD * group + lowest_bit(mark)
                mark &= mark - ONE
                magnitude = words[i] & MAGNITUDE
                count[magnitude >> FINE_SHIFT] += 1
                largest = max(largest, magnitude)
                if own < 0:
                    at = segment_of(starts, block + i)
                    high[at] = max(high[at], magnitude)
        if own >= 0:
            high[own] = max(high[own], largest)
    return met


@inlined
def area_below(y, offset):
    """The integral from 0 to y of (x - floor(x + offset))^2, the squared errors in steps of 1."""
    q = np.floor(y + offset)
    if q <= 0:
        return y**3 / 3
    above, below = (1 - offset) ** 3 / 3, offset**3 / 3
    return above + (q - 1) * (above + below) + (y - q) ** 3 / 3 + below


@compiled
def squares_left(low, high, count, size, offset):
    """The estimated sum of squares that uniform steps leave, with members spread evenly in bins.

    low, high: float64 (bins,), the ends of each bin of magnitudes. count: int64 (bins,), members.
    size, offset: float64, as for `steps`.
    """
    total = 0.0
    for i in range(count.size):
        left = area_below(high[i] / size, offset) - area_below(low[i] / size, offset)
        total += count[i] * left / (high[i] - low[i])
    return total * size**3


@compiled
def steps(
    sources,
    tracks,
    starts,
    first,
    last,
    threshold,
    end,
    beyond_end,
    size,
    offset,
    delta,
    marks,
    codes,
    numbers,
    count,
    energy,
    rest,
):
    """Quantize u - track in uniform steps, in the units first..last.

    A change of magnitude a has the number q = floor(a / size + offset) and the code 2q - 1, or
    2q if it is negative. threshold: uint32, the smallest magnitude with q = 1. beyond_end: uint32,
    the smallest that counts in blocks from the element ``end`` on. size, offset: float64. delta: as
    in `magnitudes`. marks, codes, numbers: filled for these units. count: int64 (k,): how often
    each code occurs; count[0]: how many changes lie beyond the last code, or are NaN. These get the
    code 1. energy, rest: float64 (units,), filled for these units: the sums of squares of u - track
    before and after the step.
    """
    words = delta[0].view(np.uint32)
    values = delta[0]
    here = np.uint64(delta.ctypes.data)
    nothing = here + np.uint64(4 * BLOCK)
    # delta[2] holds the track of a gathered block.
    gathered = here + np.uint64(8 * BLOCK)
    delta[1] = 0
    n = starts[-1]
    # uniform._first_step multiplies by the same number, so `threshold` is exact.
    per_step = 1 / size
    # The first number of steps without a code: count has 2 * (most - 1) + 1 entries.
    most = np.float64((count.size + 1) // 2)
    segment = segment_of(starts, first * UNIT)
    for unit in range(first, last):
        at = np.uint64(unit * UNIT)
        squares = gain = 0.0
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            while starts[segment + 1] <= block:
                segment += 1
            u, subtract, track = here, nothing, gathered
            if block + BLOCK <= starts[segment + 1]:
                skip = np.uint64(4 * (block - starts[segment]))
                u, subtract = sources[segment] + skip, tracks[segment] + skip
                track = subtract
            else:
                gather_tracks(tracks, starts, segment, block, delta[2])
                segment = gather(sources, tracks, starts, segment, block, delta[0])
            old = carray(pointer(track), (BLOCK,))
            least = threshold if block < end else beyond_end
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = difference_of(u + skip, subtract + skip, here + skip, least)
                marks[block // WORD + group] = mark
                while mark != 0:
                    i = WORD * group + lowest_bit(mark)
                    mark &= mark - ONE
                    change = np.float64(values[i])
                    steps = abs(change) * per_step + offset
                    # Stays 0 for NaN and what is too large. Callers see count[0] and discard all
                    # codes.
                    code = 0
                    if steps < most:
                        code = 2 * np.int64(steps) - 1 + np.int64(words[i] >> np.uint32(31))
                    codes[at] = max(code, 1)
                    at += ONE
                    count[code] += 1
                    # What the decoder will do: the level and the sum are each rounded once to
                    # float32.
                    level = np.float32(np.copysign(np.float64(np.int64(steps)) * size, change))
                    moved = np.float32(old[i] + level)
                    left = np.float64(old[i]) + change - np.float64(moved)
                    gain += change * change - left * left
            squares += energy_of(here)
        met = (min((unit + 1) * UNIT, n) + BLOCK - 1) // BLOCK * BLOCK
        for group in range(met // WORD, (unit + 1) * (UNIT // WORD)):
            marks[group] = 0
        numbers[unit] = np.int64(at) - unit * UNIT
        energy[unit], rest[unit] = squares, squares - gain


@compiled
def gather(sources, tracks, starts, segment, begin, delta):
    """Write u - track of a block that several tensors share, or in which the last tensor ends.

    Equal bits give 0; positions behind the last tensor get 0. segment: the tensor of the position
    ``begin``. delta: float32 (BLOCK,), filled. Returns the last tensor of the block.
    """
    end = min(begin + BLOCK, starts[-1])
    for i in range(BLOCK):
        position = begin + i
        if position >= end:
            delta[i] = 0
            continue
        while starts[segment + 1] <= position:
            segment += 1
        size = starts[segment + 1] - starts[segment]
        u = carray(pointer(sources[segment]), (size,))[position - starts[segment]]
        track = carray(pointer(tracks[segment]), (size,))[position - starts[segment]]
        same = np.float32(u).view(np.uint32) == np.float32(track).view(np.uint32)
        delta[i] = 0 if same else u - track
    return segment


@compiled
def gather_tracks(tracks, starts, segment, begin, out):
    """Copy the track of a block that spans several tensors, or in which the last tensor ends."""
    for position in range(begin, min(begin + BLOCK, starts[-1])):
        while starts[segment + 1] <= position:
            segment += 1
        size = starts[segment + 1] - starts[segment]
        out[position - begin] = carray(pointer(tracks[segment]), (size,))[
            position - starts[segment]
        ]


@compiled
def pack(given, first, last, marks, codes, numbers):
    """Write codes, one a position, as survivors of the units first..last.

    given: uint8 or uint16 (n,). marks, codes, numbers: filled for these units.
    """
    for unit in range(first, last):
        at = unit * UNIT
        for group in range(UNIT // WORD):
            begin = unit * UNIT + WORD * group
            mark = np.uint64(0)
            for i in range(begin, min(begin + WORD, given.size)):
                # No branch: the next code overwrites a 0.
                codes[at] = given[i]
                at += given[i] != 0
                mark |= np.uint64(given[i] != 0) << np.uint64(i - begin)
            marks[begin // WORD] = mark
        numbers[unit] = at - unit * UNIT


@inlined
def change_of(u, track):
    """u - track as bits; 0 where both have the same bits, infinity and NaN included."""
    same = np.float32(u).view(np.uint32) == np.float32(track).view(np.uint32)
    return np.uint32(0) if same else np.float32(u - track).view(np.uint32)


@compiled
def promote_bins(count, near, far, lowest, highest, keep, cautious, code_of_bin, levels):
    """Priority promotion of one tensor: the ``keep`` largest bins get a code, and its level.

    count: int64 (512,), members of each bin. near, far: float32 (512,), their extreme magnitudes.
    lowest, highest: the first and last exponent field of bins that may have members; other fields
    are skipped. cautious: whether a negative bin's level is its member closest to zero, see
    `Histogram.promote`. code_of_bin: uint16 (512,), filled. levels: float32 (> keep or 513,),
    filled up to the last code. Returns this code.
    """
    k = 0
    for field in range(highest, lowest - 1, -1):
        first, second = field, 256 + field
        if count[first] > 0 and count[second] > 0:
            middle = np.float64(near[first]) + np.float64(far[first])
            # The sign with the larger middle comes first; on a tie, the positive one.
            first += 256 * (np.float64(near[second]) + np.float64(far[second]) > middle)
            # The other of `field` and `256 + field`.
            second = 256 + 2 * field - first
        for b in (first, second):
            code_of_bin[b] = 0
            if count[b] > 0 and k < keep:
                k += 1
                code_of_bin[b] = k
                levels[k] = np.float32((np.float64(near[b]) + np.float64(far[b])) / 2)
                if b >= 256:
                    levels[k] = -(near[b] if cautious else levels[k])
    return k


@compiled
def promote(count, low, high, mantissas, keep, cautious, code_of_bin, levels):
    """Priority promotion of an alphabet, see `plain.promote`.

    code_of_bin: uint16 (512,), and levels: float32 (keep + 1,), filled. Returns the last code, and
    by how much the sum of squares of the changes gets smaller.
    """
    near, far = low.view(np.float32), high.view(np.float32)
    k = promote_bins(count, near, far, 0, NON_FINITE_FIELD, keep, cautious, code_of_bin, levels)
    gain = 0.0
    for b in range(N_BINS):
        code = code_of_bin[b]
        if code == 0:
            continue
        # A member v that moves by r leaves (v - r)^2 instead of v^2: 2 v r - r^2 less.
        field, r = b & 255, abs(np.float64(levels[code]))
        members = np.float64(count[b])
        leading = members * LEADING if field > 0 else 0.0
        total = math.ldexp(np.float64(mantissas[b]) + leading, max(field, 1) - LAST_BIT)
        gain += 2 * total * r - members * r * r
    return k, gain


@compiled
def batch(sources, tracks, starts, first, last, keep, codes, levels, kept, highest, counts):
    """Quantize u - track of the tensors first..last in exponent buckets, each tensor by itself.

    codes: uint8 or uint16 (n,). levels: float32 (tensors, > keep or 513). kept: int64 (tensors,),
    how many codes but 0 each tensor has. highest: int64 (tensors,), the exponent field of its
    largest change. All are filled for these tensors. counts: int64 (513,), raised by the number of
    times that each code but 0 occurs.
    """
    count, code_of_bin = np.zeros(N_BINS, np.int64), np.zeros(N_BINS, np.uint16)
    low, high = np.empty(N_BINS, np.uint32), np.empty(N_BINS, np.uint32)
    near, far = low.view(np.float32), high.view(np.float32)
    longest = 0
    for t in range(first, last):
        longest = max(longest, starts[t + 1] - starts[t])
    words = np.empty(longest, np.uint32)
    for t in range(first, last):
        size, at = starts[t + 1] - starts[t], starts[t]
        u = carray(pointer(sources[t]), (size,))
        track = carray(pointer(tracks[t]), (size,))
        cautious = True
        least, most = MAGNITUDE, np.uint32(0)
        for i in range(size):
            cautious &= u[i] >= 0
            words[i] = change_of(u[i], track[i])
            least, most = min(least, words[i] & MAGNITUDE), max(most, words[i] & MAGNITUDE)
        # Only bins between these are reset and read: no change of this tensor lies elsewhere.
        bottom, top = np.int64(least >> np.uint32(23)), np.int64(most >> np.uint32(23))
        for field in range(bottom, top + 1):
            for b in (field, 256 + field):
                count[b], low[b], high[b] = 0, LOW32, 0
        for i in range(size):
            magnitude = words[i] & MAGNITUDE
            b = words[i] >> np.uint32(23)
            count[b] += magnitude != 0
            if magnitude < low[b] and magnitude != 0:  # rare, so cheaper than min and max
                low[b] = magnitude
            if magnitude > high[b]:
                high[b] = magnitude
        k = promote_bins(count, near, far, bottom, top, keep, cautious, code_of_bin, levels[t])
        for field in range(bottom, top + 1):
            for b in (field, 256 + field):
                if code_of_bin[b] > 0:
                    counts[code_of_bin[b]] += count[b]
        for i in range(size):
            # Zeros share a bin with subnormals, but have code 0.
            codes[at + i] = code_of_bin[words[i] >> np.uint32(23)] * (words[i] & MAGNITUDE != 0)
        kept[t], highest[t] = k, top


@compiled
def squares_between(now, before, delta):
    """See `plain.squares_between`. delta: float32 (1 or more, BLOCK), scratch."""
    total, here = 0.0, np.uint64(delta.ctypes.data)
    one, other = np.uint64(now.ctypes.data), np.uint64(before.ctypes.data)
    for begin in range(0, now.size, BLOCK):
        for i in range(0, 4 * BLOCK, 4 * WORD):
            skip = np.uint64(4 * begin + i)
            difference_of(one + skip, other + skip, here + np.uint64(i), np.uint32(1))
        squares = energy_of(here)
        if not squares < np.inf:  # NaN, too
            squares = 0.0
            for i in range(BLOCK):
                difference = np.float64(delta[0, i])
                if abs(difference) < np.inf:
                    squares += difference * difference
        total += squares
    return total
