"""The track, and its digest: moved by codes.

The twins in `plain` say what these compute. See `collect` for marks and codes.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from codec.scheme.limits import CHANGE, UNIT, WORD

from .instructions import ONE, floats_at, lowest_bit, prefetch, segment_of
from .machine import compiled, inlined

BATCH = 2**11  # symbols that are applied at once: their lists stay in the cache

# How a track is moved. tracks, starts: as in `Tensors`. levels: float32, one for each code. mode:
# CHANGE moves the track, LOOK computes the new digests only, 0 does neither. sums: uint64
# (tensors,), the change of each tensor's digest is added. scratch: uint32 (2, >= BATCH + WORD).
Track = namedtuple("Track", "tracks starts levels mode sums scratch")


@inlined
def mixed(index, word):
    """A 64-bit digest of one element: the finalizer of SplitMix64 on index << 32 | bits."""
    z = np.uint64(index) << np.uint64(32) | np.uint64(word)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def digest(address, n, first):
    """The sum of `mixed` over n float32 at an address, the first of which has index ``first``."""
    words, total = floats_at(address, n).view(np.uint32), np.uint64(0)
    for i in range(np.uint64(n)):
        total += mixed(np.uint64(first) + i, words[i])
    return total


@inlined
def advance(track, segment, base, positions, found, m):
    """track[base + positions[j]] += levels[found[j]] in float32 for m rising positions.

    Elements that are not listed stay untouched: adding 0.0 would turn a -0.0 into +0.0.
    track: `Track`. segment: a tensor that begins before the first position. Returns the tensor of
    the last one.
    """
    starts, levels = track.starts, track.levels
    tracks, sums, scratch = track.tracks, track.sums, track.scratch
    j = np.int64(0)
    while j < m:
        while starts[segment + 1] <= base + positions[j]:
            segment += 1
        end = m
        # Positions rise: usually all belong to one tensor, and one comparison shows it.
        if base + positions[m - 1] >= starts[segment + 1]:
            end = j
            while base + positions[end] < starts[segment + 1]:
                end += 1
        values = floats_at(tracks[segment], starts[segment + 1] - starts[segment])
        # It may wrap below 0; adding a position wraps it back.
        offset = np.uint64(base - starts[segment])
        old, new = scratch[0], scratch[1]
        if track.mode == CHANGE:
            for i in range(np.uint64(j), np.uint64(end)):
                at = offset + np.uint64(positions[i])
                value = values[at]
                moved = np.float32(value + levels[np.uint64(found[i])])
                values[at] = moved
                old[i] = np.float32(value).view(np.uint32)
                new[i] = moved.view(np.uint32)
        else:
            for i in range(np.uint64(j), np.uint64(end)):
                value = values[offset + np.uint64(positions[i])]
                old[i] = np.float32(value).view(np.uint32)
                new[i] = np.float32(value + levels[np.uint64(found[i])]).view(np.uint32)
        change = np.uint64(0)
        for i in range(np.uint64(j), np.uint64(end)):
            at = offset + np.uint64(positions[i])
            # Modulo 2**64, so threads may add their parts in any order.
            change += mixed(at, new[i]) - mixed(at, old[i])
        sums[segment] += change
        j = end
    return segment


@compiled
def advance_survivors(units, marked, track, positions):
    """Advance the track by the survivors of some units.

    units: the first one, and the end. positions: uint32 (BATCH + WORD,), scratch.
    """
    marks, codes, _ = marked
    starts, segment = track.starts, segment_of(track.starts, units[0] * UNIT)
    for unit in range(units[0], units[1]):
        base = unit * UNIT
        while starts[segment + 1] <= base:
            segment += 1
        # Right for most: a unit seldom holds more than one tensor.
        values = track.tracks[segment] + np.uint64(4 * (base - starts[segment]))
        read = advanced = np.uint64(base)
        last = (base + UNIT) // WORD - 1
        for group in range(base // WORD, last + 1):
            mark = marks[group]
            here = np.uint64(group * WORD - base)
            while mark != 0:
                position = here + np.uint64(lowest_bit(mark))
                positions[read - advanced] = position
                prefetch(values + (position << np.uint64(2)))  # for the end of the batch
                mark &= mark - ONE
                read += ONE
            m = np.int64(read - advanced)
            if m >= BATCH or group == last:
                segment = advance(track, segment, base, positions, codes[advanced:read], m)
                advanced = read


@compiled
def advance_listed(begin, positions, found, track):
    """Advance the track by codes, ``found``, at rising positions from ``begin`` on."""
    segment = segment_of(track.starts, begin)
    for i in range(0, positions.size, BATCH):
        m = min(positions.size - i, BATCH)
        segment = advance(track, segment, begin, positions[i:], found[i:], m)
