"""An optimizer's moments in steps of a measure. The twins in `plain` say what these compute."""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from codec.scheme.limits import CHANGE, OCTAVE

from .instructions import floats_at, segment_of
from .machine import compiled, inlined
from .track import BATCH, mixed

OCTAVES, ROOTS = 0, 1  # numbers of measures
LEAST_UNIT = np.float32(2.0**-40)
# A tensor with larger values is stored exactly: a rounded value could be infinite.
MOST, MOST_BITS = np.float32(2.0**126), np.float64(0x7E800000)

# As `measures.Scale`. measure: its number. seconds: addresses, uint64 (tensors,). sizes: float32
# (tensors,).
Scale = namedtuple("Scale", "measure step seconds sizes")


@inlined
def unit_of(measure, root, size):
    """What a step of an element is a share of. root: the second moment beside it."""
    if measure != ROOTS:
        return size
    own = np.float32(math.sqrt(root))
    return LEAST_UNIT if own < LEAST_UNIT else own


@inlined
def moved(measure, old, level, unit):
    """The float32 ``old`` moved by a level."""
    if measure != OCTAVES:
        return np.float32(old + np.float32(level * unit))
    rise = np.int64(math.floor(np.float64(level) * OCTAVE + 0.5))
    return np.int32(np.int64(np.float32(old).view(np.int32)) + rise).view(np.float32)


@compiled
def measure(tensors, piece, scale, most, codes, counts, lost):
    """Quantize u - track in steps of a measure, in some positions.

    piece: the first position, and the end. codes: uint16 (n,), filled there. counts: int64
    (2 * most + 1,), added to. lost: bool (tensors,), set.
    """
    sources, tracks, starts = tensors
    kind, step = scale.measure, np.float32(scale.step)
    rise, per_step = scale.step * OCTAVE, 1 / (scale.step * OCTAVE)
    end, limit = np.float32(most) + np.float32(0.5), np.float64(most) + 0.5
    units = np.empty(BATCH, np.float32)
    segment, position = segment_of(starts, piece[0]), piece[0]
    while position < piece[1]:
        while starts[segment + 1] <= position:
            segment += 1
        n = min(piece[1], starts[segment + 1], position + BATCH) - position
        skip = np.uint64(4 * (position - starts[segment]))
        u, track = floats_at(sources[segment] + skip, n), floats_at(tracks[segment] + skip, n)
        seconds, size = track, scale.sizes[segment]
        own, n_lost = codes[position : position + n], 0
        # What these loops call is inlined, conditions become selections: so they become vectors.
        if kind == OCTAVES:
            for i in range(n):
                old = np.float64(np.float32(track[i]).view(np.int32))
                now = np.float64(np.float32(u[i]).view(np.int32))
                steps = abs(now - old) * per_step + 0.5
                fits = (old >= 0) & (now >= 0) & (now < MOST_BITS) & (steps < limit)
                q = np.int32(steps if fits else 0.0)
                # One less where it would end below 0.
                q -= np.int32((q > 0) & (now < old) & (old < np.float64(q) * rise))
                fits &= old + np.float64(q) * rise * (now > old) < MOST_BITS
                n_lost += not fits
                own[i] = 2 * q - np.int32((now > old) & (q > 0))
        else:
            if kind == ROOTS:
                seconds = floats_at(scale.seconds[segment] + skip, n)
                for i in range(n):
                    units[i] = unit_of(kind, seconds[i], size)
            else:
                units[:n] = size
            for i in range(n):
                unit, change = units[i], np.float32(u[i] - track[i])
                steps = np.float32(abs(change) / np.float32(step * unit)) + np.float32(0.5)
                fits = (abs(u[i]) < MOST) & (abs(track[i]) < MOST) & (unit < MOST) & (steps < end)
                q = np.int32(steps if fits else np.float32(0))
                n_lost += not fits
                own[i] = 2 * q - np.int32((change > 0) & (q > 0))
        for i in range(n):
            counts[own[i]] += 1
        if n_lost > 0:
            lost[segment] = True
        position += n


@compiled
def move(tensors, piece, scale, codes, levels, mode, sums):
    """Move the track by codes, in some positions.

    piece: the first position, and the end. sums: uint64 (tensors,), the change of each tensor's
    digest is added.
    """
    tracks, starts, kind = tensors.tracks, tensors.starts, scale.measure
    found, old, new = (
        np.empty(BATCH, np.uint32),
        np.empty(BATCH, np.uint32),
        np.empty(BATCH, np.uint32),
    )
    segment, position = segment_of(starts, piece[0]), piece[0]
    while position < piece[1]:
        while starts[segment + 1] <= position:
            segment += 1
        n, skip = min(piece[1], starts[segment + 1], position + BATCH) - position, position
        skip -= starts[segment]
        track = floats_at(tracks[segment] + np.uint64(4 * skip), n)
        seconds, size, change, m = track, scale.sizes[segment], np.uint64(0), 0
        if kind == ROOTS:
            seconds = floats_at(scale.seconds[segment] + np.uint64(4 * skip), n)
        for i in range(n):  # no branch: the next position overwrites one of code 0
            found[m] = i
            m += codes[position + i] != 0
        for j in range(m):
            i = np.int64(found[j])
            value, level = track[i], levels[codes[position + i]]
            old[j] = np.float32(value).view(np.uint32)
            moved_value = moved(kind, value, level, unit_of(kind, seconds[i], size))
            new[j] = np.float32(moved_value).view(np.uint32)
            if mode == CHANGE:
                track[i] = moved_value
        for j in range(m):
            at = np.uint64(skip) + np.uint64(found[j])
            change += mixed(at, new[j]) - mixed(at, old[j])
        sums[segment] += change
        position += n
