"""Steps of exact tensors, coded and decoded: see `codec.scheme.residual`.

The twins in `plain` say what these compute. An element has ``width`` bytes; old and new are
addresses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from codec.scheme.limits import FIELDS, MAX_CLASSES, MAX_CONTEXTS, UNIT, WORD

from .decode import (
    CODE,
    ESCAPE,
    FAST,
    STREAM_ENDS_EARLY,
    STREAM_GOES_ON,
    STREAM_LEAVES,
    STREAM_OK,
    escaped,
    split_entry,
    window_at,
)
from .machine import (
    LOW32,
    ONE,
    cgutils,
    class_of,
    compiled,
    copy_bytes,
    count_bits,
    differ8,
    differ16,
    differ32,
    differ64,
    inlined,
    intrinsic,
    ir,
    load8,
    load16,
    load32,
    load64,
    log2_of,
    lowest_bit,
    prefetch,
    reach8,
    reach16,
    reach32,
    reach64,
    store8,
    store16,
    store32,
    store64,
    types,
)

CHUNK = 2**13  # elements whose contexts are noted at once
LITERAL = 32  # smaller symbols have no extra bits
FAR = np.int64(1 << 40)  # elements: no stream has so many
BITS, FIVE = np.uint64(8), np.uint64(5)
BYTES, TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
ODD, PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)


@intrinsic
def spread_bits(_context, _bits, _mask):
    """Move bit i of ``bits`` to the place of the mask's i-th set bit (pdep of x86)."""

    def generate(context, builder, signature, arguments):
        # The features of the processor that numba compiles for.
        if "+bmi2" in context.codegen().magic_tuple()[2].split(","):
            word = ir.IntType(64)
            kind = ir.FunctionType(word, [word, word])
            name = "llvm.x86.bmi.pdep.64"
            return builder.call(
                cgutils.get_or_insert_function(builder.module, kind, name), arguments
            )
        return context.compile_internal(builder, spread_bits_slowly, signature, arguments)

    return types.uint64(types.uint64, types.uint64), generate


@inlined
def differing(old, new, width):
    """Bit i: the i-th of 64 elements at two addresses differ. width: bytes of an element."""
    if width == 2:
        return differ16(old, new)
    if width == 4:
        return differ32(old, new)
    return differ8(old, new) if width == 1 else differ64(old, new)


@inlined
def reaching(address, width, mask, bound):
    """Bit i: the i-th of 64 elements & mask is at least the bound."""
    if width == 2:
        return reach16(address, mask, bound)
    if width == 4:
        return reach32(address, mask, bound)
    return reach8(address, mask, bound) if width == 1 else reach64(address, mask, bound)


@inlined
def load_element(address, width):
    """The element at an address, as uint64."""
    if width == 2:
        return load16(address)
    if width == 4:
        return load32(address)
    return load8(address) if width == 1 else load64(address)


@inlined
def store_element(address, width, value):
    """Store the low bits of a uint64 as an element."""
    if width == 2:
        store16(address, value)
    elif width == 4:
        store32(address, value)
    elif width == 1:
        store8(address, value)
    else:
        store64(address, value)


def select_table() -> Any:
    """uint8 (256 * 8,): at byte * 8 + rank the place of the set bit with that rank."""
    table = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        bits = [i for i in range(8) if byte >> i & 1]
        table[byte, : len(bits)] = bits
    return table.reshape(-1)


SELECT = select_table()


@inlined
def select_bit(word, rank):
    """The place of the set bit below which ``rank`` bits are set (Vigna, WEA 2008)."""
    sums = word - (word >> ONE & ODD)
    sums = (sums & PAIRS) + (sums >> np.uint64(2) & PAIRS)
    sums = ((sums + (sums >> np.uint64(4))) & NIBBLES) * BYTES  # of each byte and those below
    # The top bit of each byte stays set while the sum up to it is at most `rank`: these bytes lie
    # before the one looked for.
    before = ((rank * BYTES | TOPS) - sums) & TOPS
    place = count_bits(before) << np.uint64(3)
    rank -= (sums << BITS) >> place & np.uint64(255)
    byte = word >> place & np.uint64(255)
    return place + np.uint64(SELECT[byte << np.uint64(3) | rank])


def spread_bits_slowly(bits, mask):
    """`spread_bits` bit by bit, for processors without that instruction."""
    found = np.uint64(0)
    # As many bits as the mask has; a shift by 64 is undefined.
    bits &= (
        np.uint64(2**64 - 1) >> (np.uint64(64) - count_bits(mask)) if mask != 0 else np.uint64(0)
    )
    while bits != 0:
        found |= ONE << select_bit(mask, np.uint64(lowest_bit(bits)))
        bits &= bits - ONE
    return found


@inlined
def step_of(old, new, width, magnitude, sign):
    """The symbol of the step between two elements that differ, its extra bits and how many."""
    change = np.int64((new & magnitude) - (old & magnitude))
    if sign == 0:
        unused = np.int64(64 - 8 * width)
        # Integers wrap around: extend the sign of a difference of 8 * width bits.
        change = change << unused >> unused
    flipped = np.uint64((old ^ new) & sign != 0)
    down = np.uint64(change < 0)
    # If the sign stays, the amount is at least 1, so 1 less is coded.
    amount = np.uint64(-change if change < 0 else change) - (ONE - flipped)
    kind, extra = class_of(amount)
    # The 8 * (8 * width - 1) symbols that keep the sign come first, see FORMAT.md.
    symbol = ONE + down + np.uint64(2) * kind + flipped * np.uint64(8 * (8 * width - 1))
    return symbol, amount & ((ONE << extra) - ONE), extra


@inlined
def move_of(symbol, low, extra, width, magnitude, sign):
    """A step as a number: what to add to the magnitude, and which sign to change. See `step_of`."""
    symbol -= ONE
    half = np.uint64(8 * (8 * width - 1))
    flipped = np.uint64(symbol >= half)
    symbol -= half * flipped
    amount = symbol >> ONE
    if amount >= np.uint64(16):
        amount = (np.uint64(4) + (amount & np.uint64(3))) << extra | low
    amount += ONE - flipped
    # Two's complement: the caller adds modulo magnitude + 1.
    if symbol & ONE:
        amount = ~amount + ONE
    return amount & magnitude | sign * flipped


@inlined
def extra_of(symbol, width):
    """The number of extra bits of a symbol."""
    symbol -= ONE
    half = np.uint64(8 * (8 * width - 1))
    symbol -= half * np.uint64(symbol >= half)
    kind = symbol >> ONE
    return (kind >> np.uint64(2)) - np.uint64(2) if kind >= np.uint64(16) else np.uint64(0)


@compiled
def sample(old, new, width, starts, length, magnitude, sign, mantissa, counts):
    """Count the symbols of steps by the exponent of the old value, in some stretches.

    starts: int64, where each stretch begins. length: of each. mantissa: bits of a magnitude below
    the exponent. counts: int64 (FIELDS, k), zeros, filled; row 0 also counts lower exponents.
    Returns the exponent of row 0.
    """
    top = magnitude >> mantissa if sign != 0 else ~np.uint64(0)  # infinity and NaN
    highest = np.uint64(0)
    for start in starts:
        for i in range(start, start + length):
            field = (load_element(old + np.uint64(i * width), width) & magnitude) >> mantissa
            # Rows cover the FIELDS highest exponents of finite values.
            highest = max(highest, field if field < top else np.uint64(0))
    if sign == 0:
        highest = min(highest, np.uint64(FIELDS - 1))
    lowest = np.int64(highest) - (FIELDS - 1) if highest >= np.uint64(FIELDS) else 0
    for start in starts:
        for i in range(start, start + length):
            before = load_element(old + np.uint64(i * width), width)
            after = load_element(new + np.uint64(i * width), width)
            field = min((before & magnitude) >> mantissa, np.uint64(lowest + FIELDS - 1))
            row = max(np.int64(field) - lowest, 0)
            symbol = np.uint64(0)
            if before != after:
                symbol, _, _ = step_of(before, after, width, magnitude, sign)
            counts[row, symbol] += 1
    return lowest


@inlined
def bits_of(counts, row):
    """Shannon's bound in bits for a row of counts: n log n - sum of c log c."""
    total, own = 0.0, 0.0
    for i in range(counts.shape[1]):
        c = np.float64(counts[row, i])
        if c > 0:
            total += c
            own += c * log2_of(c)
    return total * log2_of(total) - own if total > 0 else 0.0


@inlined
def add_row(counts, row, other, sign):
    """counts[row] += sign * counts[other]. numba compiles whole rows for seconds."""
    for i in range(counts.shape[1]):
        counts[row, i] += sign * counts[other, i]


@inlined
def added_bits(counts, bits, row):
    """How many more bits the rows ``row`` and ``row + 1`` take when they are added up."""
    add_row(counts, row, row + 1, 1)
    together = bits_of(counts, row)
    add_row(counts, row, row + 1, -1)
    return together - bits[row] - bits[row + 1]


@compiled
def join_rows(counts, most, cost, firsts):
    """Add up neighbouring rows until at most ``most`` are left, and each saves ``cost`` bits.

    The cheapest pair goes first. counts: int64 (FIELDS, k), changed: its first rows are the result.
    firsts: int64 (FIELDS,), filled: the first old row of each new one. Returns the number of rows.
    """
    n = 0
    bits = np.zeros(FIELDS + 1)
    for row in range(FIELDS):
        total = 0
        for i in range(counts.shape[1]):
            total += counts[row, i]
            counts[n, i] = counts[row, i]
        if total > 0:
            firsts[n] = row
            bits[n] = bits_of(counts, n)
            n += 1
    more = np.zeros(FIELDS)
    for row in range(n - 1):
        more[row] = added_bits(counts, bits, row)
    while n > 1:
        best = 0
        for row in range(1, n - 1):
            if more[row] < more[best]:
                best = row
        if n <= most and more[best] >= cost:
            break
        add_row(counts, best, best + 1, 1)
        bits[best] += bits[best + 1] + more[best]
        for row in range(best + 1, n - 1):
            for i in range(counts.shape[1]):
                counts[row, i] = counts[row + 1, i]
            firsts[row], bits[row] = firsts[row + 1], bits[row + 1]
            more[row - 1] = more[row]
        n -= 1
        for row in range(max(best - 1, 0), min(best + 1, n - 1)):
            # The pairs to the left and right of the new row have changed.
            more[row] = added_bits(counts, bits, row)
    return n


@inlined
def prefetch_chunk(address, width):
    """Prefetch 64 elements of the next chunk: two arrays are read in turn, each from memory."""
    ahead = address + np.uint64(CHUNK * width)
    for line in range(width):
        prefetch(ahead + np.uint64(64 * line))


@inlined
def contexts_in(old, first, last, width, magnitude, bounds, owns, counts, edge):
    """Find the context of each element of the positions first..last.

    bounds: see `count`. owns: uint64 (MAX_CONTEXTS, CHUNK // WORD), filled, a bit an element.
    counts: uint64, the same shape, filled: elements of the context from ``first`` to the word's
    end. edge: uint64 (2, WORD), scratch.
    """
    contexts = bounds.size + 1
    sums = np.zeros(MAX_CONTEXTS, np.uint64)
    for word in range((last - first + WORD - 1) // WORD):
        position = first + word * WORD
        at, above = old + np.uint64(position * width), ~np.uint64(0)
        prefetch_chunk(at, width)
        # 64 elements are compared at once; the last ones are copied, not to read beyond the array.
        if position + WORD > last:
            at = np.uint64(edge.ctypes.data)
            copy_bytes(at, old + np.uint64(position * width), (last - position) * width)
            above = (ONE << np.uint64(last - position)) - ONE
        for c in range(contexts - 1):
            # Elements from bound c on belong to later contexts.
            following = reaching(at, width, magnitude, bounds[c]) & above
            own = above ^ following
            above = following
            owns[c, word] = own
            sums[c] += count_bits(own)
            counts[c, word] = sums[c]
        owns[contexts - 1, word] = above
        sums[contexts - 1] += count_bits(above)
        counts[contexts - 1, word] = sums[contexts - 1]


@inlined
def positions_in(mark, position, m, listed):
    """Append the positions of set bits to a list of m positions; returns its new length.

    The first four are written without a test: most words have fewer, and the processor would
    mispredict the end of a loop. What is written in excess is overwritten or never read.
    """
    two, three, four = np.uint64(2), np.uint64(3), np.uint64(4)
    end = m + count_bits(mark)
    listed[m] = position + np.uint64(lowest_bit(mark))
    mark &= mark - ONE
    listed[m + ONE] = position + np.uint64(lowest_bit(mark))
    mark &= mark - ONE
    listed[m + two] = position + np.uint64(lowest_bit(mark))
    mark &= mark - ONE
    listed[m + three] = position + np.uint64(lowest_bit(mark))
    mark &= mark - ONE
    while mark != 0:
        listed[m + four] = position + np.uint64(lowest_bit(mark))
        mark &= mark - ONE
        m += ONE
    return end


@inlined
def changes_in(old, new, first, last, width, listed, edge):
    """List the positions of first..last where elements differ; returns how many there are.

    listed, edge: see `count`.
    """
    m = np.uint64(0)
    for position in range(first, last, WORD):
        skip = np.uint64(position * width)
        prefetch_chunk(new + skip, width)
        if position + WORD <= last:
            mark = differing(old + skip, new + skip, width)
        else:
            here = np.uint64(edge.ctypes.data)
            there = here + np.uint64(8 * WORD)
            copy_bytes(here, old + skip, (last - position) * width)
            copy_bytes(there, new + skip, (last - position) * width)
            mark = differing(here, there, width) & ((ONE << np.uint64(last - position)) - ONE)
        m = positions_in(mark, np.uint64(position), m, listed)
    return m


@compiled
def count(
    old,
    new,
    n,
    width,
    first,
    last,
    units,
    stride,
    magnitude,
    sign,
    bounds,
    mantissa,
    context_of,
    tokens,
    tops,
    sizes,
    owns,
    counts,
    listed,
    edge,
):
    """Count the tokens of every stride-th stream, numbers first..last of them, in every context.

    units: of a stream. bounds: uint64 (contexts - 1,), of magnitudes. context_of: uint8, by
    exponent; the last one stands for all beyond. tokens: int32 (contexts, symbols, MAX_CLASSES),
    goes up. tops: int64 (contexts,), raised to the largest symbol of each. sizes: int64
    (contexts,), goes up: elements. owns, counts: see `contexts_in`. listed: uint64 (CHUNK + WORD,)
    and edge: uint64 (2, WORD), scratch.
    """
    contexts = bounds.size + 1
    most = np.uint64(context_of.size - 1)
    # Rank of the element behind the last change, in each context; below 0 if that was in an earlier
    # chunk.
    after = np.zeros(MAX_CONTEXTS, np.int64)
    for stream in range(first * stride, last * stride, stride):
        after[:] = 0
        end = min((stream + 1) * units * UNIT, n)
        for begin in range(stream * units * UNIT, end, CHUNK):
            stop = min(begin + CHUNK, end)
            contexts_in(old, begin, stop, width, magnitude, bounds, owns, counts, edge)
            m = changes_in(old, new, begin, stop, width, listed, edge)
            for i in range(m):
                position = listed[i]
                here = position * np.uint64(width)
                x, y = load_element(old + here, width), load_element(new + here, width)
                c = np.int64(context_of[min((x & magnitude) >> mantissa, most)])
                word = (position - np.uint64(begin)) >> np.uint64(6)
                # Rank: elements of the context in this chunk before this one.
                others = ~np.uint64(0) << (position & np.uint64(63))
                rank = np.int64(counts[c, word] - count_bits(owns[c, word] & others))
                kind, _ = class_of(np.uint64(rank - after[c]))
                after[c] = rank + 1
                symbol, _, _ = step_of(x, y, width, magnitude, sign)
                tokens[c, symbol - ONE, kind] += 1
                tops[c] = max(tops[c], np.int64(symbol))
            for c in range(contexts):
                met = np.int64(counts[c, (stop - begin - 1) // WORD])
                after[c] -= met
                sizes[c] += met


@inlined
def flushed(buffer, filled, out, at):
    """Write the lowest 32 bits of a buffer if it holds at least 32; returns what remains.

    It holds fewer than 64. out[at] is written in any case, which saves a branch.
    """
    out[at] = np.uint32(buffer & LOW32)
    full = filled >> FIVE
    return buffer >> (full << FIVE), filled & np.uint64(31), at + full


@compiled
def write(
    old,
    new,
    n,
    width,
    stream,
    units,
    magnitude,
    sign,
    bounds,
    mantissa,
    context_of,
    words,
    starts,
    escapes,
    symbol_bits,
    begins,
    out,
    sizes,
    owns,
    counts,
    listed,
    edge,
):
    """Code one stream of every context.

    old ... context_of, owns ... edge: see `count`. words: uint32, see `write`: those of
    context c begin at starts[c] (int64). escapes: uint32 (contexts,), 0 for a plain code.
    symbol_bits: int64 (contexts,), of a symbol after an escape; -1 for a context without code
    words. begins: int64 (contexts,), where each begins in out (uint32), which is filled. sizes:
    int64 (contexts,), filled: bits.
    """
    contexts = bounds.size + 1
    most = np.uint64(context_of.size - 1)
    after = np.zeros(MAX_CONTEXTS, np.int64)
    buffers = np.zeros(MAX_CONTEXTS, np.uint64)
    fills = np.zeros(MAX_CONTEXTS, np.uint64)
    places = np.zeros(MAX_CONTEXTS, np.uint64)
    for c in range(contexts):
        places[c] = begins[c]
    end = min((stream + 1) * units * UNIT, n)
    for begin in range(stream * units * UNIT, end, CHUNK):
        stop = min(begin + CHUNK, end)
        contexts_in(old, begin, stop, width, magnitude, bounds, owns, counts, edge)
        m = changes_in(old, new, begin, stop, width, listed, edge)
        for i in range(m):
            position = listed[i]
            here = position * np.uint64(width)
            x, y = load_element(old + here, width), load_element(new + here, width)
            c = np.int64(context_of[min((x & magnitude) >> mantissa, most)])
            word = (position - np.uint64(begin)) >> np.uint64(6)
            others = ~np.uint64(0) << (position & np.uint64(63))
            rank = np.int64(counts[c, word] - count_bits(owns[c, word] & others))
            run = np.uint64(rank - after[c])
            after[c] = rank + 1
            symbol, low, free = step_of(x, y, width, magnitude, sign)
            buffer, filled, at = buffers[c], fills[c], places[c]
            start, escape = np.uint64(starts[c]), escapes[c]
            kind = more = np.uint64(0)
            if escape == 0:
                zero = words[start]
                for _ in range(run):
                    buffer |= np.uint64(zero & np.uint32(0xFFFF)) << filled
                    filled += np.uint64(zero >> np.uint32(16))
                    buffer, filled, at = flushed(buffer, filled, out, at)
                word_of = words[start + symbol]
            else:
                kind, more = class_of(run)
                word_of = words[start + symbol * np.uint64(MAX_CLASSES) + kind]
            value = np.uint64(word_of & np.uint32(0xFFFF))
            length = np.uint64(word_of >> np.uint32(16))
            if word_of == 0:
                length = np.uint64(escape >> np.uint32(16))
                value = kind | (symbol - ONE) << np.uint64(7)
                value = np.uint64(escape & np.uint32(0xFFFF)) | value << length
                length += np.uint64(7 + symbol_bits[c])
            buffer |= value << filled
            filled += length
            buffer, filled, at = flushed(buffer, filled, out, at)
            # The extra bits of the run, then those of the symbol. Parts of at most 32 bits: the
            # buffer holds up to 31 already.
            if more != 0:
                buffer |= (run & ((ONE << more) - ONE)) << filled
                filled += more
                buffer, filled, at = flushed(buffer, filled, out, at)
            if free != 0:
                if free > np.uint64(32):
                    buffer |= (low & LOW32) << filled
                    out[at] = np.uint32(buffer & LOW32)
                    at += ONE
                    buffer >>= np.uint64(32)
                    low >>= np.uint64(32)
                    free -= np.uint64(32)
                buffer |= low << filled
                filled += free
                buffer, filled, at = flushed(buffer, filled, out, at)
            buffers[c], fills[c], places[c] = buffer, filled, at
        for c in range(contexts):
            after[c] -= np.int64(counts[c, (stop - begin - 1) // WORD])
    for c in range(contexts):
        buffer, filled, at = buffers[c], fills[c], places[c]
        if escapes[c] == 0 and symbol_bits[c] >= 0:
            zero = words[starts[c]]
            # after is now minus the number of elements behind the last change.
            for _ in range(-after[c]):
                buffer |= np.uint64(zero & np.uint32(0xFFFF)) << filled
                filled += np.uint64(zero >> np.uint32(16))
                buffer, filled, at = flushed(buffer, filled, out, at)
        sizes[c] = np.int64(np.uint64(32) * (at - np.uint64(begins[c])) + filled)
        if filled > np.uint64(0):
            out[at] = np.uint32(buffer & LOW32)


@compiled
def read(
    old,
    new,
    n,
    width,
    stream,
    units,
    magnitude,
    sign,
    bounds,
    mantissa,
    context_of,
    kinds,
    begins,
    sizes,
    one,
    starts,
    masks,
    fast,
    symbol_bits,
    levels,
    first_run,
    extra_bits,
    moves,
    marks,
    owns,
    counts,
    listed,
    edge,
):
    """Decode one stream of every context.

    old: what was there before. new: another address, filled. n ... bounds, owns ... edge: see
    `count`. kinds: int64 (contexts,), 0 without code words, 1 for a plain code, 2 for tokens.
    begins: int64 (contexts,), 8 x the address of each stream; 16 bytes behind its end can be read
    too. sizes: int64 (contexts,), their bits. one: uint64, look-up tables, see `lookup`; that of
    context c begins at starts[c] and has masks[c] + 1 entries (int64). fast: uint64 (contexts,
    2**FAST), the same for so few bits, where a longer word is marked like an escape. levels: int64
    (contexts,), symbols and 1. moves: uint64 (MAX_CONTEXTS, CHUNK), marks: uint64 (MAX_CONTEXTS,
    CHUNK // WORD + 2), scratch. Returns a STREAM_* status; never reads or writes out of bounds.

    The tokens of a chunk are read context by context into lists of changes; marks say which
    elements of a context change. Then the chunk is changed, element by element.
    """
    contexts = bounds.size + 1
    few = np.uint64(2**FAST - 1)
    ats = np.zeros(MAX_CONTEXTS, np.uint64)
    ends = np.zeros(MAX_CONTEXTS, np.uint64)
    lefts = np.zeros(MAX_CONTEXTS, np.int64)  # elements of the context before the next change
    symbols = np.zeros(MAX_CONTEXTS, np.uint64)  # of that change; 0: not read yet
    taken = np.zeros(MAX_CONTEXTS, np.uint64)
    marks[:] = 0
    most = np.uint64(context_of.size - 1)
    for c in range(contexts):
        ats[c], ends[c] = begins[c], begins[c] + sizes[c]
    end = min((stream + 1) * units * UNIT, n)
    for begin in range(stream * units * UNIT, end, CHUNK):
        stop = min(begin + CHUNK, end)
        skip = np.uint64(begin * width)
        copy_bytes(new + skip, old + skip, (stop - begin) * width)
        contexts_in(old, begin, stop, width, magnitude, bounds, owns, counts, edge)
        n_words = np.uint64((stop - begin + WORD - 1) // WORD)
        changes = False
        for c in range(contexts):
            kind, count = kinds[c], np.int64(counts[c, n_words - ONE])
            if kind == 0 or count == 0:
                continue
            left, symbol, at, bound = lefts[c], symbols[c], ats[c], ends[c]
            # The next change lies beyond this chunk.
            if kind == 2 and symbol != 0 and left >= count:
                lefts[c] = left - count
                continue
            start, mask = np.uint64(starts[c]), np.uint64(masks[c])
            m = np.uint64(0)
            while True:
                # A plain code has a word for each element: 0 steps on.
                if kind == 1:
                    if left == count:
                        left = 0
                        break
                    if at >= bound:
                        return STREAM_ENDS_EARLY
                    window = window_at(at)
                    entry = fast[c, window & few]
                    if entry >= ESCAPE:
                        entry = one[start + (window & mask)]
                    at += entry & np.uint64(255)
                    symbol = entry >> CODE
                    if symbol == 0:
                        left += 1
                        continue
                else:
                    if symbol == 0:
                        if at == bound:
                            # No tokens are left: the other elements do not change.
                            left, symbol = FAR, ONE
                        else:
                            window = window_at(at)
                            entry = fast[c, window & few]
                            if entry >= ESCAPE:
                                entry = one[start + (window & mask)]
                            used, elements = split_entry(entry, window)
                            symbol = entry >> CODE & np.uint64(0x7FFF)
                            at += used
                            if entry >= ESCAPE:
                                used, elements, symbol = escaped(
                                    window_at(at), np.uint64(symbol_bits[c]), first_run, extra_bits
                                )
                                at += used
                            left += np.int64(elements) - 1
                    if left >= count:
                        left -= count
                        break
                if at > bound:
                    return STREAM_ENDS_EARLY
                if np.int64(symbol) >= levels[c]:
                    return STREAM_LEAVES
                free = low = np.uint64(0)
                if symbol > np.uint64(LITERAL):
                    free = extra_of(symbol, width)
                    # At most 57 bits can be seen at once, but up to 61 follow a symbol of 64-bit
                    # elements.
                    some = min(free, np.uint64(32))
                    low = window_at(at) & ((ONE << some) - ONE)
                    at += some
                    if free > some:
                        low |= (window_at(at) & ((ONE << (free - some)) - ONE)) << some
                        at += free - some
                moves[c, m] = move_of(symbol, low, free, width, magnitude, sign)
                m += ONE
                marks[c, left >> 6] |= ONE << np.uint64(left & 63)
                symbol = np.uint64(0)
                left += 1
            if at > bound:
                return STREAM_ENDS_EARLY
            lefts[c], symbols[c], ats[c] = left, symbol, at
            taken[c] = 0
            changes = changes or m > 0
        if not changes:
            continue
        m = np.uint64(0)
        for word in range(n_words):
            mark = np.uint64(0)
            for c in range(contexts):
                own = owns[c, word]
                # Marks count elements of the context; spread those of this word to its places.
                before = counts[c, word] - count_bits(own)
                place, low = before >> np.uint64(6), before & np.uint64(63)
                # In two shifts: a single one by 64 - low would be undefined for low = 0.
                above = marks[c, place + ONE] << ONE << (np.uint64(63) - low)
                mark |= spread_bits(marks[c, place] >> low | above, own)
            m = positions_in(mark, np.uint64(begin) + word * np.uint64(WORD), m, listed)
        for i in range(m):
            here = listed[i] * np.uint64(width)
            x = load_element(old + here, width)
            c = np.int64(context_of[min((x & magnitude) >> mantissa, most)])
            move = moves[c, taken[c]]
            taken[c] += ONE
            x = ((x & magnitude) + (move & magnitude)) & magnitude | (x ^ move) & sign
            store_element(new + here, width, x)
        for c in range(contexts):
            marks[c, : n_words + ONE] = 0
    for c in range(contexts):
        # A token that was read, whose change lies beyond the end; none where the context is empty.
        beyond = kinds[c] == 2 and symbols[c] != 0 and lefts[c] < FAR // 2
        if kinds[c] != 0 and (ats[c] != ends[c] or beyond):
            return STREAM_GOES_ON
    return STREAM_OK
