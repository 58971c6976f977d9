"""Steps of exact tensors in contexts whose plain code has a word for every element.

`residuals` has the contexts with runs. Loops over arrays alone become loops of vectors.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from codec.scheme.limits import MAX_CONTEXTS, UNIT

from . import decode
from .codes import Bits
from .decode import CODE, ESCAPE, FAST, window_at
from .instructions import LOW32, ONE, class_of, extra_of, pointer, run_of, store
from .machine import carray, compiled, inlined

CHUNK = 2**10  # elements whose steps stay in the first cache
IN_WINDOW = np.uint64(57)  # bits
NONE = ~np.uint64(0)
EXTRA, SYMBOL = np.uint64(10), np.uint64(2**10 - 1)

# Of each element of a chunk: its context, uint8; its step, uint16, the symbol and the number of its
# extra bits << EXTRA; and these bits, uint64, in `read` with others above them. below: uint64, the
# largest magnitude below each bound, NONE where there are fewer.
Steps = namedtuple("Steps", "own items lows below")


@inlined
def steps_in(bounds):
    """`Steps` of any content. bounds: see `residuals.Contexts`."""
    below = np.full(MAX_CONTEXTS - 1, NONE)
    below[: bounds.size] = bounds - ONE
    own, items = np.empty(CHUNK, np.uint8), np.empty(CHUNK, np.uint16)
    return Steps(own, items, np.empty(CHUNK, np.uint64), below)


@inlined
def put(bits, value, length):
    """`codes.put` of at most 56 bits, of which fewer than 8 stay in the buffer."""
    buffer, filled = bits.buffer | value << bits.filled, bits.filled + length
    store(bits.at, 8, buffer)
    full = filled >> np.uint64(3)
    return Bits(buffer >> (full << np.uint64(3)), filled & np.uint64(7), bits.at + full)


@inlined
def put_step(bits, word, length, low, extra):
    """Append a code word and the extra bits of a symbol behind it."""
    some = min(extra, np.uint64(32))  # they may be too many for one `put`
    bits = put(bits, word | (low & LOW32) << length, length + some)
    return put(bits, low >> some, extra - some) if extra > some else bits


@inlined
def by_width(work, pair, begin, n, steps):
    """Call a function for n elements from ``begin`` on, with the arrays of the pair."""
    skip = np.uint64(begin * pair.width)
    old, new = pointer(pair.old + skip), pointer(pair.new + skip)
    if pair.width == 2:
        work(carray(old, (n,), np.uint16), carray(new, (n,), np.uint16), pair, steps)
    elif pair.width == 4:
        work(carray(old, (n,), np.uint32), carray(new, (n,), np.uint32), pair, steps)
    elif pair.width == 1:
        work(carray(old, (n,), np.uint8), carray(new, (n,), np.uint8), pair, steps)
    else:
        work(carray(old, (n,), np.uint64), carray(new, (n,), np.uint64), pair, steps)


@inlined
def note_contexts(old, _new, pair, steps):
    """Note the context of each element."""
    first, second, third = steps.below[0], steps.below[1], steps.below[2]
    for i in range(old.size):
        magnitude = np.uint64(old[i]) & pair.magnitude
        later = np.uint8(magnitude > second) + np.uint8(magnitude > third)
        steps.own[i] = np.uint8(magnitude > first) + later


@inlined
def note_steps(old, new, pair, steps):
    """Note the step of each element, see `residuals.step_of`."""
    half = np.uint64(8 * (8 * pair.width - 1))
    unused = np.int64(64 - 8 * pair.width if pair.sign == 0 else 0)
    for i in range(old.size):
        before, after = np.uint64(old[i]), np.uint64(new[i])
        change = np.int64((after & pair.magnitude) - (before & pair.magnitude)) << unused >> unused
        flipped = np.uint64((before ^ after) & pair.sign != 0)
        amount = np.uint64(-change if change < 0 else change) - (ONE - flipped)
        kind, extra = class_of(amount)
        symbol = ONE + np.uint64(change < 0) + np.uint64(2) * kind + flipped * half
        if before == after:
            symbol = extra = np.uint64(0)
        steps.items[i] = symbol | extra << EXTRA
        steps.lows[i] = amount & ((ONE << extra) - ONE)


@inlined
def take_steps(old, new, pair, steps):
    """Move each element by its step, see `residuals.read_move`; without one it stays."""
    half = np.uint64(8 * (8 * pair.width - 1))
    for i in range(old.size):
        before, symbol = np.uint64(old[i]), np.uint64(steps.items[i]) - ONE
        flipped = np.uint64(symbol >= half)
        symbol -= half * flipped
        low = steps.lows[i] & ((ONE << extra_of(symbol >> ONE)) - ONE)
        amount = run_of(symbol >> ONE, low) + ONE - flipped
        amount = ~amount + ONE if symbol & ONE else amount
        magnitude = ((before & pair.magnitude) + amount) & pair.magnitude
        after = magnitude | (before ^ pair.sign * flipped) & pair.sign
        new[i] = after if steps.items[i] != 0 else np.uint64(new[i])


@compiled
def write(pair, contexts, stream, units, codes, begins, out, sizes):
    """Code one stream of each context with a plain code. The arguments are `residuals.write`'s."""
    steps, n_contexts = steps_in(contexts.bounds), begins.size
    unstored = np.zeros((3, MAX_CONTEXTS), np.uint64)  # `Bits` of each context
    buffers, fills, ats = unstored[0], unstored[1], unstored[2]
    out_at = np.uint64(out.ctypes.data)
    for c in range(n_contexts):
        ats[c] = out_at + np.uint64(4 * begins[c])
    end = min((stream + 1) * units * UNIT, pair.n)
    for begin in range(stream * units * UNIT, end, CHUNK):
        n = min(CHUNK, end - begin)
        by_width(note_contexts, pair, begin, n, steps)
        by_width(note_steps, pair, begin, n, steps)
        for i in range(n):
            c = np.int64(steps.own[i])
            if codes.escapes[c] != 0:
                continue
            item = np.uint64(steps.items[i])
            word = np.uint64(codes.words[np.uint64(codes.starts[c]) + (item & SYMBOL)])
            word, length = word & np.uint64(0xFFFF), word >> np.uint64(16)
            bits = Bits(buffers[c], fills[c], ats[c])
            bits = put_step(bits, word, length, steps.lows[i], item >> EXTRA)
            buffers[c], fills[c], ats[c] = bits
    for c in range(n_contexts):
        if codes.escapes[c] == 0:
            store(ats[c], 8, buffers[c])
            sizes[c] = np.int64(np.uint64(8) * (ats[c] - out_at) + fills[c]) - 32 * begins[c]


@compiled
def read(pair, contexts, stream, units, begins, sizes, tables):
    """Decode one stream of each context with a plain code. The arguments are `residuals.read`'s.

    All elements of the new array are there: those of other contexts stay as they are.
    """
    steps, n_contexts, few = steps_in(contexts.bounds), begins.size, np.uint64(2**FAST - 1)
    ats, ends = np.zeros((2, MAX_CONTEXTS), np.uint64)
    for c in range(n_contexts):
        ats[c], ends[c] = begins[c], begins[c] + sizes[c]
    end = min((stream + 1) * units * UNIT, pair.n)
    for begin in range(stream * units * UNIT, end, CHUNK):
        n = min(CHUNK, end - begin)
        by_width(note_contexts, pair, begin, n, steps)
        for i in range(n):
            c = np.int64(steps.own[i])
            if tables.symbol_bits[c] >= 0:
                steps.items[i] = 0
                continue
            at = ats[c]
            if at > ends[c]:
                return decode.STREAM_ENDS_EARLY
            window = window_at(at)
            entry = tables.fast[c, window & few]
            if entry >= ESCAPE:
                many = np.uint64(tables.masks[c])
                entry = tables.one[np.uint64(tables.starts[c]) + (window & many)]
            used, length = entry & np.uint64(255), entry >> np.uint64(8) & np.uint64(255)
            low = window >> length
            if used > IN_WINDOW:
                low = window_at(at + length) & LOW32
                low |= window_at(at + length + np.uint64(32)) << np.uint64(32)
            steps.items[i], steps.lows[i] = entry >> CODE, low
            ats[c] = at + used
        by_width(take_steps, pair, begin, n, steps)
    for c in range(n_contexts):
        if tables.symbol_bits[c] < 0 and ats[c] != ends[c]:
            is_early = ats[c] > ends[c]
            return decode.STREAM_ENDS_EARLY if is_early else decode.STREAM_GOES_ON
    return decode.STREAM_OK
