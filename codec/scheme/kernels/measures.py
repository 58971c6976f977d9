"""An optimizer's moments in steps of a measure. The twins in `plain` say what these compute."""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from codec.scheme.limits import CHANGE, OCTAVE

from .instructions import floats_at, segment_of
from .machine import compiled, inlined
from .track import mixed

OCTAVES, ROOTS = 0, 1  # numbers of measures
LEAST_ROOT = np.float32(2.0**-40)

# As `measures.Scale`. measure: its number. roots: addresses, uint64 (tensors,). sizes: float32
# (tensors,).
Scale = namedtuple("Scale", "measure step roots sizes")


@inlined
def unit_of(measure, root, size):
    """What a step of an element is a share of. root: the second moment beside it."""
    if measure != ROOTS:
        return size
    own = np.float32(math.sqrt(root))
    return LEAST_ROOT if own < LEAST_ROOT else own


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
    (2 * most + 1,), raised. lost: bool (tensors,), set.
    """
    sources, tracks, starts = tensors
    kind, step, limit = scale.measure, scale.step, np.float64(most)
    segment, position = segment_of(starts, piece[0]), piece[0]
    while position < piece[1]:
        while starts[segment + 1] <= position:
            segment += 1
        n = min(piece[1], starts[segment + 1]) - position
        skip = np.uint64(4 * (position - starts[segment]))
        u, track = floats_at(sources[segment] + skip, n), floats_at(tracks[segment] + skip, n)
        roots, size = track, scale.sizes[segment]
        if kind == ROOTS:
            roots = floats_at(scale.roots[segment] + skip, n)
        for i in range(n):
            unit = unit_of(kind, roots[i], size)
            fits = True
            if kind == OCTAVES:
                old = np.float64(np.float32(track[i]).view(np.int32))
                now = np.float64(np.float32(u[i]).view(np.int32))
                steps = np.rint((now - old) / (step * OCTAVE))
                steps += old + math.floor(steps * step * OCTAVE + 0.5) < 0
                fits = old >= 0 and now >= 0
            else:
                change = np.float64(u[i]) - np.float64(track[i])
                steps = np.rint(change / (step * np.float64(unit)))
            fits = fits and abs(steps) <= limit
            if not fits:
                steps = 0.0
            new = moved(kind, track[i], np.float32(steps * step), unit)
            fits = fits and abs(new) < np.inf
            code = np.int64(2 * steps - 1 if steps > 0 else -2 * steps)
            codes[position + i] = code
            counts[code] += 1
            if not fits:
                lost[segment] = True
        position += n


@compiled
def move(tensors, piece, scale, codes, levels, mode, sums):
    """Move the track by codes, in some positions.

    piece: the first position, and the end. sums: uint64 (tensors,), the change of each tensor's
    digest is added.
    """
    tracks, starts, kind = tensors.tracks, tensors.starts, scale.measure
    segment, position = segment_of(starts, piece[0]), piece[0]
    while position < piece[1]:
        while starts[segment + 1] <= position:
            segment += 1
        n, skip = min(piece[1], starts[segment + 1]) - position, position - starts[segment]
        track = floats_at(tracks[segment] + np.uint64(4 * skip), n)
        roots, size, change = track, scale.sizes[segment], np.uint64(0)
        if kind == ROOTS:
            roots = floats_at(scale.roots[segment] + np.uint64(4 * skip), n)
        for i in range(n):
            code = codes[position + i]
            if code == 0:
                continue
            old = track[i]
            new = moved(kind, old, levels[code], unit_of(kind, roots[i], size))
            at = np.uint64(skip + i)
            change += mixed(at, np.float32(new).view(np.uint32))
            change -= mixed(at, np.float32(old).view(np.uint32))
            if mode == CHANGE:
                track[i] = new
        sums[segment] += change
        position += n
