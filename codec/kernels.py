"""Every compiled loop of the codec, in one file.

numba caches a compiled function by the file it stands in and does not notice an edited
callee elsewhere, so callers and callees stay together. The kernels take and return plain
arrays, allocate nothing they do not return, and never raise: a decoder reports what it met
as a status, which the calling module turns into a named error.

Values are handled as their IEEE 754 bits. A float32 is sign (1) | exponent field (8) |
mantissa (23), so ``bits >> 23`` is at once the exponent bucket and its sign, and magnitudes
compare as integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

N_BINS = 512  # sign (2) x exponent field (256)
NON_FINITE_FIELD = 255

STREAM_OK = 0
STREAM_ENDS_EARLY = 1
STREAM_HAS_NO_SUCH_WORD = 2
STREAM_GOES_ON = 3


def _compiled(function: Callable[..., Any]) -> Any:
    """njit that releases the GIL and caches, or does without a cache on a read-only install."""
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba: "cannot cache function ...: no locator available"
        return njit(nogil=True)(function)


@_compiled
def bucket_statistics(bits, count, low, high):  # type: ignore[no-untyped-def]
    """Count the members of every (sign, exponent) bin and their extreme magnitudes.

    bits: uint32 (n,), float32 values seen as integers. count: int64 (512,), low and high:
    uint32 (512,), all filled in place; low and high are magnitudes (sign bit cleared), low
    must come in as 0xFFFFFFFF and high as 0. Returns the number of zeros (+0.0 and -0.0),
    which are in no bin.
    """
    zeros = 0
    for i in range(bits.size):
        word = bits[i]
        magnitude = word & np.uint32(0x7FFFFFFF)
        if magnitude == 0:
            zeros += 1
            continue
        b = word >> np.uint32(23)
        count[b] += 1
        if magnitude < low[b]:
            low[b] = magnitude
        if magnitude > high[b]:
            high[b] = magnitude
    return zeros


@_compiled
def assign_codes(bits, code_of_bin, codes):  # type: ignore[no-untyped-def]
    """codes[i] = code_of_bin[bin of value i], and 0 for zeros.

    bits: uint32 (n,). code_of_bin: uint16 (512,). codes: uint8 or uint16 (n,), filled.
    """
    for i in range(bits.size):
        word = bits[i]
        if word & np.uint32(0x7FFFFFFF) == 0:
            codes[i] = 0
        else:
            codes[i] = code_of_bin[word >> np.uint32(23)]


@_compiled
def bucket_energies(values, code_of_bin, levels, codes, energy, residual):  # type: ignore[no-untyped-def]
    """Codes, and per code the sums of value^2 and (value - level)^2, in one pass.

    values: float32 (n,), finite. code_of_bin: uint16 (512,). levels: float32 (k,). codes:
    uint8 or uint16 (n,), energy and residual: float64 (k,), zero on entry; all filled.
    """
    bits = values.view(np.uint32)
    for i in range(values.size):
        word = bits[i]
        code = 0
        if word & np.uint32(0x7FFFFFFF) != 0:
            code = code_of_bin[word >> np.uint32(23)]
        value = np.float64(values[i])
        off = value - np.float64(levels[code])
        codes[i] = code
        energy[code] += value * value
        residual[code] += off * off


@_compiled
def add_levels(track, codes, levels):  # type: ignore[no-untyped-def]
    """track[i] += levels[codes[i]] in float32, leaving elements of code 0 untouched.

    Skipping code 0 is not only faster: adding 0.0 would turn a -0.0 of the track into +0.0.
    """
    for i in range(codes.size):
        code = codes[i]
        if code != 0:
            track[i] += levels[code]


@_compiled
def pack_words(codes, words, lengths, out):  # type: ignore[no-untyped-def]
    """Write the code word of every element, least significant bit first.

    codes: uint8 or uint16 (n,). words: uint64 (k,), bit-reversed so that the first bit of a
    code word is its least significant one. lengths: uint8 (k,), at most 15. out: uint8,
    zeros, filled. Returns the number of bits written, or -1 if out is too small or an
    element has no word, which means that codes and lengths do not belong together.
    """
    buffer = np.uint64(0)
    filled = np.uint64(0)
    position = 0
    total = 0
    for i in range(codes.size):
        code = codes[i]
        if code >= lengths.size or lengths[code] == 0:
            return -1
        buffer |= words[code] << filled
        length = lengths[code]
        filled += np.uint64(length)
        total += length
        while filled >= np.uint64(8):
            if position == out.size:
                return -1
            out[position] = np.uint8(buffer & np.uint64(0xFF))
            position += 1
            buffer >>= np.uint64(8)
            filled -= np.uint64(8)
    if filled > np.uint64(0):
        if position == out.size:
            return -1
        out[position] = np.uint8(buffer & np.uint64(0xFF))
    return total


@_compiled
def unpack_words(payload, n_bits, symbol_at, length_at, width, codes):  # type: ignore[no-untyped-def]
    """Read one code word for every element of codes; the inverse of `pack_words`.

    payload: uint8. n_bits: bits in use, at most 8 * payload.size (checked by the caller).
    symbol_at: uint16 and length_at: uint8, both (2**width,): what the next `width` bits
    begin with; length 0 marks a bit pattern that no code word begins. codes: filled.
    Returns a STREAM_* status; never reads past payload nor writes past codes.
    """
    mask = np.uint64((1 << width) - 1)
    buffer = np.uint64(0)
    filled = 0
    position = 0
    left = n_bits
    for i in range(codes.size):
        while filled < width and position < payload.size:
            buffer |= np.uint64(payload[position]) << np.uint64(filled)
            filled += 8
            position += 1
        window = buffer & mask
        length = length_at[window]
        if length == 0:
            return STREAM_HAS_NO_SUCH_WORD
        if length > left:
            return STREAM_ENDS_EARLY
        codes[i] = symbol_at[window]
        buffer >>= np.uint64(length)
        filled -= length
        left -= length
    if left != 0:
        return STREAM_GOES_ON
    return STREAM_OK
