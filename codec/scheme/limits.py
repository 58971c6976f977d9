"""Numbers that the format, the kernels and their twins share."""

from __future__ import annotations

import numpy as np

# A float32 is sign (1) | exponent field (8) | mantissa (23); its upper nine bits are its bin.
N_BINS = 512
NON_FINITE_FIELD = 255
MAGNITUDE, MANTISSA = np.uint32(0x7FFFFFFF), np.uint32(0x7FFFFF)
OCTAVE = 2.0**23  # by how much a number's bits, as an integer, grow when it doubles
FINE_SHIFT = np.uint32(17)  # of a magnitude: 64 fine bins an octave
N_FINE = (NON_FINITE_FIELD + 1) << 6

WORD = 64  # positions in one element of marks
BLOCK = 2**8  # positions whose squares are added up together: 1 KiB stays in the first cache
UNIT = 2**16  # positions whose survivors stand together; streams are made of whole units
MAX_STREAM = 2**21  # elements of a stream

FIRST_LENGTH = 8  # the first length of a table is stored as a difference from this one
MAX_LENGTH = 15  # bits of a code word
# The longest run is below MAX_STREAM: its class is 4 * 20 + 3.
MAX_CLASSES = 84  # of runs

FIELDS = 64  # exponents of exact tensors that are counted apart
MAX_CONTEXTS = 4  # of a residual

LOOK, CHANGE = 1, 2  # modes: compute new digests only, or also change the track
