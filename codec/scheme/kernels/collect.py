"""From u and the track to survivors: buckets and uniform steps.

The twins in `plain` say what these compute. How: the delta is computed block by block and never
written as a whole; 64 elements at a time, a vector comparison says which ones may survive.

A delta spans several tensors, `Tensors`: elements are numbered through all of them (their
*position*).

Work is cut into units of UNIT positions. A unit's *survivors*, the elements that may have a
code other than 0, are ``marked``, a tuple: ``marks`` (uint64) has one bit a position, lowest first;
their codes stand one after another in the unit's part of ``codes`` (uint8 or uint16, with
room for one a position); ``numbers`` (int32) says how many.

``delta`` is scratch, float32 (3, BLOCK): the difference of a block, and its u and track where it
lies in several tensors.
"""

from __future__ import annotations

import math
from collections import namedtuple

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

from .instructions import (
    ONE,
    copy_bytes,
    difference_of,
    energy_of,
    floats_at,
    lowest_bit,
    segment_of,
)
from .machine import compiled, inlined

LEADING = 2.0**23  # the leading one of a mantissa
LAST_BIT = 127 + 23  # the field of an exponent, less it, is the exponent of a mantissa's last bit
PROBES = 4  # blocks of a tensor, at least, that are probed first


@compiled
def gather(tensors, segment, begin, delta):
    """Copy u and track of a block in several tensors to delta[1] and delta[2]; 0 behind the end.

    segment: the tensor in which it begins. Returns the addresses of u and track.
    """
    delta[1:] = 0
    starts, end, position = tensors.starts, min(begin + BLOCK, tensors.starts[-1]), begin
    u = np.uint64(delta.ctypes.data) + np.uint64(4 * BLOCK)
    track = u + np.uint64(4 * BLOCK)
    while position < end:
        while starts[segment + 1] <= position:
            segment += 1
        part = min(end, starts[segment + 1]) - position
        skip, to = np.uint64(4 * (position - starts[segment])), np.uint64(4 * (position - begin))
        copy_bytes(u + to, tensors.sources[segment] + skip, 4 * part)
        copy_bytes(track + to, tensors.tracks[segment] + skip, 4 * part)
        position += part
    return u, track


@inlined
def unmark(marks, unit, n):
    """Clear the unit's marks behind the last block of n elements."""
    met = (min((unit + 1) * UNIT, n) + BLOCK - 1) // BLOCK * BLOCK
    for group in range(met // WORD, (unit + 1) * (UNIT // WORD)):
        marks[group] = 0


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
def probe(tensors, keep, delta, count):
    """A threshold for `survivors` from a few blocks of every tensor; arguments as there.

    The largest values are often in the last tensor; without a probe many survivors would be noted
    for nothing. count: int64 (512,), zeros, changed.
    """
    words, here = delta[0].view(np.uint32), np.uint64(delta.ctypes.data)
    threshold = np.uint32(1)
    for segment in range(tensors.tracks.size):
        size = tensors.starts[segment + 1] - tensors.starts[segment]
        # A block in the middle of each stretch of `stride` elements, within one tensor; smaller
        # tensors have none.
        stride = min(max(size // PROBES, BLOCK), UNIT)
        for begin in range((stride - BLOCK) // 2, size - BLOCK + 1, stride):
            u = tensors.sources[segment] + np.uint64(4 * begin)
            track = tensors.tracks[segment] + np.uint64(4 * begin)
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = difference_of(u + skip, track + skip, here + skip, threshold)
                while mark != 0:
                    count[words[WORD * group + lowest_bit(mark)] >> np.uint32(23)] += 1
                    mark &= mark - ONE
            threshold = threshold_for(count, keep, threshold)
    return threshold


@compiled
def survivors(tensors, units, keep, threshold, code_of_bin, delta, marked, bins, energy):
    """Find the elements of the ``keep`` largest bins of u - track in some units.

    units: the first one, and the end. threshold: uint32, at least 1: smaller magnitudes cannot be
    among them. It rises during the pass, so smaller bins are incomplete. code_of_bin: uint16
    (512,), the code to note down. marked: filled for these units. bins: `plain.Bins`, raised by the
    elements met; right for every bin that can be among the ``keep`` largest. energy: float64
    (units,), filled for these units: the sum of all squares of u - track. Returns the last
    threshold.
    """
    words, here = delta[0].view(np.uint32), np.uint64(delta.ctypes.data)
    marks, codes, numbers = marked
    count, low, high, mantissas = bins
    sources, tracks, starts = tensors
    n = starts[-1]
    segment = segment_of(starts, units[0] * UNIT)
    # The threshold rises quickly at first: look after 1, 2, 4 ... blocks, then once a unit.
    blocks, look_again = 0, 1
    for unit in range(units[0], units[1]):
        # A unit's codes begin where its positions do: units are independent of each other.
        at = np.uint64(unit * UNIT)
        squares = 0.0
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            while starts[segment + 1] <= block:
                segment += 1
            skip = np.uint64(4 * (block - starts[segment]))
            u, track = sources[segment] + skip, tracks[segment] + skip
            if block + BLOCK > starts[segment + 1]:  # shared by several tensors
                u, track = gather(tensors, segment, block, delta)
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = difference_of(u + skip, track + skip, here + skip, threshold)
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
        unmark(marks, unit, n)
        numbers[unit] = np.int64(at) - unit * UNIT
        energy[unit] = squares
    return threshold


@compiled
def magnitudes(tensors, units, stride, delta, count, high):
    """Count how often each fine bin of magnitudes occurs in u - track, in some units.

    units: the first one, and the end. stride: 1 to look at every block, 2 at every other one, and
    so on. count: int64 (N_FINE,), by magnitude >> FINE_SHIFT; changes of 0 are not counted. high:
    uint32 (tensors,), raised to the largest magnitude of each tensor. Returns the positions that
    were looked at.
    """
    words, here = delta[0].view(np.uint32), np.uint64(delta.ctypes.data)
    sources, tracks, starts = tensors
    segment = segment_of(starts, units[0] * UNIT)
    end, met, step = min(units[1] * UNIT, starts[-1]), 0, stride * BLOCK
    # The same blocks however the work is cut.
    for block in range((units[0] * UNIT + step - 1) // step * step, end, step):
        met += min(BLOCK, end - block)
        while starts[segment + 1] <= block:
            segment += 1
        skip = np.uint64(4 * (block - starts[segment]))
        u, track = sources[segment] + skip, tracks[segment] + skip
        if block + BLOCK > starts[segment + 1]:  # shared by several tensors
            u, track = gather(tensors, segment, block, delta)
        is_shared = block + BLOCK > starts[segment + 1]
        for group in range(BLOCK // WORD):
            skip = np.uint64(4 * WORD * group)
            mark = difference_of(u + skip, track + skip, here + skip, np.uint32(1))
            while mark != 0:
                i = WORD * group + lowest_bit(mark)
                mark &= mark - ONE
                magnitude = words[i] & MAGNITUDE
                count[magnitude >> FINE_SHIFT] += 1
                own = segment_of(starts, block + i) if is_shared else segment
                high[own] = max(high[own], magnitude)
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


# The size of uniform steps and their offset; the smallest magnitude, as bits, that survives in
# blocks that begin before the element ``end``, and in those behind.
Step = namedtuple("Step", "size offset least least_behind end")


@compiled
def steps(tensors, units, step, delta, marked, count, squares):
    """Quantize u - track in uniform steps, in some units.

    A change of magnitude a has the number q = floor(a / size + offset) and the code 2q - 1, or
    2q if it is negative. units: the first one, and the end. marked: filled for these units. count:
    int64 (k,): how often each code occurs; count[0]: how many changes lie beyond the last code, or
    are NaN. These get the code 1. squares: float64 (2, units), filled for these units: the sums of
    squares of u - track before and after the step.
    """
    values, words = delta[0], delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    marks, codes, numbers = marked
    sources, tracks, starts = tensors
    n = starts[-1]
    # uniform._first_step multiplies by the same number, so `step.least` is exact.
    per_step = 1 / step.size
    # The first number of steps without a code: count has 2 * (most - 1) + 1 entries.
    most = np.float64((count.size + 1) // 2)
    segment = segment_of(starts, units[0] * UNIT)
    for unit in range(units[0], units[1]):
        at = np.uint64(unit * UNIT)
        before = gain = 0.0
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            while starts[segment + 1] <= block:
                segment += 1
            skip = np.uint64(4 * (block - starts[segment]))
            u, track = sources[segment] + skip, tracks[segment] + skip
            if block + BLOCK > starts[segment + 1]:  # shared by several tensors
                u, track = gather(tensors, segment, block, delta)
            old = floats_at(track, BLOCK)
            least = step.least if block < step.end else step.least_behind
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = difference_of(u + skip, track + skip, here + skip, least)
                marks[block // WORD + group] = mark
                while mark != 0:
                    i = WORD * group + lowest_bit(mark)
                    mark &= mark - ONE
                    change = np.float64(values[i])
                    number = abs(change) * per_step + step.offset
                    # Stays 0 for NaN and what is too large. Callers see count[0] and discard all
                    # codes.
                    code = 0
                    if number < most:
                        code = 2 * np.int64(number) - 1 + np.int64(words[i] >> np.uint32(31))
                    codes[at] = max(code, 1)
                    at += ONE
                    count[code] += 1
                    # What the decoder will do: the level and the sum are each rounded once to
                    # float32.
                    level = np.float32(
                        np.copysign(np.float64(np.int64(number)) * step.size, change)
                    )
                    moved = np.float32(old[i] + level)
                    left = np.float64(old[i]) + change - np.float64(moved)
                    gain += change * change - left * left
            before += energy_of(here)
        unmark(marks, unit, n)
        numbers[unit] = np.int64(at) - unit * UNIT
        squares[0, unit], squares[1, unit] = before, before - gain


@compiled
def pack(given, units, marked):
    """Write codes, one a position, as survivors of some units.

    given: uint8 or uint16 (n,). units: the first one, and the end. marked: filled for these units.
    """
    marks, codes, numbers = marked
    for unit in range(units[0], units[1]):
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


@compiled
def promote(bins, keep, code_of_bin, levels):
    """Priority promotion of an alphabet, see `plain.promote`.

    code_of_bin: uint16 (512,), and levels: float32 (keep + 1,), filled. Returns the last code, and
    by how much the sum of squares of the changes gets smaller.
    """
    count, near, far = bins.members, bins.low.view(np.float32), bins.high.view(np.float32)
    k, gain = 0, 0.0
    for field in range(NON_FINITE_FIELD, -1, -1):
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
                    levels[k] = -levels[k]
    for b in range(N_BINS):
        code = code_of_bin[b]
        if code == 0:
            continue
        # A member v that moves by r leaves (v - r)^2 instead of v^2: 2 v r - r^2 less.
        field, r = b & 255, abs(np.float64(levels[code]))
        members = np.float64(bins.members[b])
        leading = members * LEADING if field > 0 else 0.0
        total = math.ldexp(np.float64(bins.mantissas[b]) + leading, max(field, 1) - LAST_BIT)
        gain += 2 * total * r - members * r * r
    return k, gain


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
