"""Steps of exact tensors, coded and decoded: see `codec.scheme.residual`.

The twins in `plain` say what these compute.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from codec.scheme.limits import FIELDS, MAX_CONTEXTS, UNIT, WORD

from . import decode, dense
from .codes import Bits, Code, ended, put, put_token
from .decode import ESCAPE, FAST, token_at, window_at
from .instructions import (
    LOW32,
    ONE,
    class_of,
    copy_bytes,
    count_bits,
    differing,
    extra_of,
    load,
    log2_of,
    lowest_bit,
    prefetch,
    reaching,
    run_of,
    spread_bits,
    store,
)
from .machine import compiled, inlined

CHUNK = 2**13  # elements whose contexts are noted at once
LITERAL = 32  # smaller symbols have no extra bits
FAR = np.int64(1 << 40)  # elements: no stream has so many

# Two arrays of a tensor: their addresses, the number of elements and the bytes of one. magnitude,
# sign: masks of an element's bits. mantissa: bits of a magnitude below its exponent.
Pair = namedtuple("Pair", "old new n width magnitude sign mantissa")
# bounds: uint64 (contexts - 1,), the magnitude at which each context but the first begins. of:
# uint8, the context of each exponent; the last one stands for all beyond.
Contexts = namedtuple("Contexts", "bounds of")
# What is noted of a chunk. owns: uint64 (MAX_CONTEXTS, CHUNK // WORD), a bit for an element of the
# context. counts: the same shape, elements of the context up to each word's end. listed: uint64
# (CHUNK + WORD,), positions. edge: uint64 (2, WORD), scratch.
Notes = namedtuple("Notes", "owns counts listed edge")


@inlined
def step_of(old, new, pair):
    """The symbol of the step between two elements that differ, its extra bits and how many."""
    change = np.int64((new & pair.magnitude) - (old & pair.magnitude))
    if pair.sign == 0:
        unused = np.int64(64 - 8 * pair.width)
        # Integers wrap around: extend the sign of a difference of 8 * width bits.
        change = change << unused >> unused
    flipped = np.uint64((old ^ new) & pair.sign != 0)
    down = np.uint64(change < 0)
    # If the sign stays, the amount is at least 1, so 1 less is coded.
    amount = np.uint64(-change if change < 0 else change) - (ONE - flipped)
    kind, extra = class_of(amount)
    # The 8 * (8 * width - 1) symbols that keep the sign come first, see FORMAT.md.
    symbol = ONE + down + np.uint64(2) * kind + flipped * np.uint64(8 * (8 * pair.width - 1))
    return symbol, amount & ((ONE << extra) - ONE), extra


@inlined
def read_move(at, symbol, pair):
    """A step as a number: what to add to the magnitude, and which sign to change. See `step_of`.

    at: the bit behind the symbol. Returns also the bit behind its extra bits.
    """
    symbol -= ONE
    half = np.uint64(8 * (8 * pair.width - 1))
    flipped = np.uint64(symbol >= half)
    symbol -= half * flipped
    extra = extra_of(symbol >> ONE)
    # At most 57 bits can be seen at once, but up to 61 follow a symbol of 64-bit elements.
    some = min(extra, np.uint64(32))
    low = window_at(at) & ((ONE << some) - ONE)
    if extra > some:
        low |= (window_at(at + some) & ((ONE << (extra - some)) - ONE)) << some
    amount = run_of(symbol >> ONE, low) + ONE - flipped
    # Two's complement: the caller adds modulo magnitude + 1.
    if symbol & ONE:
        amount = ~amount + ONE
    return amount & pair.magnitude | pair.sign * flipped, at + extra


@compiled
def sample(pair, starts, length, counts):
    """Count the symbols of steps by the exponent of the old value, in some stretches.

    starts: int64, where each stretch begins. length: of each. counts: int64 (FIELDS, k), zeros,
    filled; row 0 also counts lower exponents. Returns the exponent of row 0.
    """
    # infinity and NaN
    top = pair.magnitude >> pair.mantissa if pair.sign != 0 else ~np.uint64(0)
    highest, steps = np.uint64(0), dense.steps_in(np.zeros(0, np.uint64))
    for start in starts:
        for i in range(start, start + length):
            old = load(pair.old + np.uint64(i * pair.width), pair.width)
            field = (old & pair.magnitude) >> pair.mantissa
            # Rows cover the FIELDS highest exponents of finite values.
            highest = max(highest, field if field < top else np.uint64(0))
    if pair.sign == 0:
        highest = min(highest, np.uint64(FIELDS - 1))
    lowest = np.int64(highest) - (FIELDS - 1) if highest >= np.uint64(FIELDS) else 0
    for start in starts:
        for begin in range(start, start + length, dense.CHUNK):
            n = min(dense.CHUNK, start + length - begin)
            dense.by_width(dense.note_steps, pair, begin, n, steps)
            for i in range(n):
                old = load(pair.old + np.uint64((begin + i) * pair.width), pair.width)
                field = (old & pair.magnitude) >> pair.mantissa
                field = min(field, np.uint64(lowest + FIELDS - 1))
                row = max(np.int64(field) - lowest, 0)
                counts[row, steps.items[i] & dense.SYMBOL] += 1
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
def words_at(address, position, last, width, edge):
    """The address of WORD elements from a position on, and a mask of those before ``last``.

    Elements beyond are not read: the others are copied to an edge, an address. Elements of the next
    chunk are prefetched, because several arrays are read in turn, each from memory.
    """
    here = address + np.uint64(position * width)
    for line in range(width):
        prefetch(here + np.uint64(CHUNK * width + 64 * line))
    if position + WORD <= last:
        return here, ~np.uint64(0)
    copy_bytes(edge, here, (last - position) * width)
    return edge, (ONE << np.uint64(last - position)) - ONE


@inlined
def note_contexts(pair, contexts, first, last, notes):
    """Note the context of each element of the positions first..last."""
    n_contexts = contexts.bounds.size + 1
    edge, sums = np.uint64(notes.edge.ctypes.data), np.zeros(MAX_CONTEXTS, np.uint64)
    for word in range((last - first + WORD - 1) // WORD):
        at, above = words_at(pair.old, first + word * WORD, last, pair.width, edge)
        for c in range(n_contexts):
            # Elements from the next bound on belong to later contexts.
            following = np.uint64(0)
            if c < n_contexts - 1:
                bound = contexts.bounds[c]
                following = reaching(at, pair.width, pair.magnitude, bound) & above
            own = above ^ following
            above = following
            sums[c] += count_bits(own)
            notes.owns[c, word], notes.counts[c, word] = own, sums[c]


@inlined
def list_positions(mark, position, m, listed):
    """Append the positions of set bits to a list of m positions; returns its new length.

    The first four are written without a test: most words have fewer, and the processor would
    mispredict the end of a loop. What is written in excess is overwritten or never read.
    """
    end = m + count_bits(mark)
    for _ in range(4):
        listed[m] = position + np.uint64(lowest_bit(mark))
        mark &= mark - ONE
        m += ONE
    while mark != 0:
        listed[m] = position + np.uint64(lowest_bit(mark))
        mark &= mark - ONE
        m += ONE
    return end


@inlined
def list_changes(pair, first, last, notes):
    """List the positions of first..last where elements differ; returns how many there are."""
    m, width, edge = np.uint64(0), pair.width, np.uint64(notes.edge.ctypes.data)
    for position in range(first, last, WORD):
        old, _ = words_at(pair.old, position, last, width, edge)
        new, own = words_at(pair.new, position, last, width, edge + np.uint64(8 * WORD))
        mark = differing(old, new, width) & own
        m = list_positions(mark, np.uint64(position), m, notes.listed)
    return m


@inlined
def context_at(old, pair, contexts):
    """The context of an element."""
    field = (old & pair.magnitude) >> pair.mantissa
    return np.int64(contexts.of[min(field, np.uint64(contexts.of.size - 1))])


@inlined
def change_at(position, first, pair, contexts, notes):
    """A change: old and new element, their context, and the rank of the element in it.

    Rank: elements of the context before this one, from the position ``first`` on.
    """
    skip = position * np.uint64(pair.width)
    old, new = load(pair.old + skip, pair.width), load(pair.new + skip, pair.width)
    c, word = context_at(old, pair, contexts), (position - np.uint64(first)) >> np.uint64(6)
    others = ~np.uint64(0) << (position & np.uint64(63))
    rank = np.int64(notes.counts[c, word] - count_bits(notes.owns[c, word] & others))
    return old, new, c, rank


@compiled
def count(pair, contexts, streams, units, stride, notes, tokens, tops, sizes):
    """Count the tokens of every stride-th stream, in every context.

    streams: the first one that is counted, and the end, in these. units: of a stream. tokens: int32
    (contexts, symbols, MAX_CLASSES), goes up. tops: int64 (contexts,), raised to the largest symbol
    of each. sizes: int64 (contexts,), goes up: elements.
    """
    # Rank of the element behind the last change, in each context; below 0 if that was in an earlier
    # chunk.
    after = np.zeros(MAX_CONTEXTS, np.int64)
    for stream in range(streams[0] * stride, streams[1] * stride, stride):
        after[:] = 0
        end = min((stream + 1) * units * UNIT, pair.n)
        for begin in range(stream * units * UNIT, end, CHUNK):
            stop = min(begin + CHUNK, end)
            note_contexts(pair, contexts, begin, stop, notes)
            m = list_changes(pair, begin, stop, notes)
            for i in range(m):
                old, new, c, rank = change_at(notes.listed[i], begin, pair, contexts, notes)
                kind, _ = class_of(np.uint64(rank - after[c]))
                after[c] = rank + 1
                symbol, _, _ = step_of(old, new, pair)
                tokens[c, symbol - ONE, kind] += 1
                tops[c] = max(tops[c], np.int64(symbol))
            for c in range(contexts.bounds.size + 1):
                met = np.int64(notes.counts[c, (stop - begin - 1) // WORD])
                after[c] -= met
                sizes[c] += met


# The codes of all contexts. words: uint32, see `codes.Code`; those of context c begin at starts[c]
# (int64). escapes: uint32 (contexts,), 0 for a plain code, as which one without words counts: its
# one word has no bits. symbol_bits: int64 (contexts,), of a symbol after an escape.
Codes = namedtuple("Codes", "words starts escapes symbol_bits")


@compiled
def write(pair, contexts, stream, units, codes, begins, out, sizes, notes):
    """Code one stream of every context with a code for runs.

    units: of a stream. codes: `Codes`. begins: int64 (contexts,), where each begins in out
    (uint32), which is filled. sizes: int64 (contexts,), filled: bits.
    """
    n_contexts = contexts.bounds.size + 1
    after = np.zeros(MAX_CONTEXTS, np.int64)
    unstored = np.zeros((3, MAX_CONTEXTS), np.uint64)  # `Bits` of each context
    buffers, fills, ats = unstored[0], unstored[1], unstored[2]
    out_at, words_at = np.uint64(out.ctypes.data), np.uint64(codes.words.ctypes.data)
    for c in range(n_contexts):
        ats[c] = out_at + np.uint64(4 * begins[c])
    end = min((stream + 1) * units * UNIT, pair.n)
    for begin in range(stream * units * UNIT, end, CHUNK):
        stop = min(begin + CHUNK, end)
        note_contexts(pair, contexts, begin, stop, notes)
        m = list_changes(pair, begin, stop, notes)
        for i in range(m):
            old, new, c, rank = change_at(notes.listed[i], begin, pair, contexts, notes)
            if codes.escapes[c] == 0:  # `dense` writes it
                continue
            run = np.uint64(rank - after[c])
            after[c] = rank + 1
            symbol, low, extra = step_of(old, new, pair)
            bits = Bits(buffers[c], fills[c], ats[c])
            start = np.uint64(codes.starts[c])
            code = Code(words_at + np.uint64(4) * start, codes.escapes[c], codes.symbol_bits[c])
            bits = put_token(bits, code, symbol, run)
            if extra != 0:  # in parts of at most 32 bits
                some = min(extra, np.uint64(32))
                bits = put(bits, low & LOW32, some)
                bits = put(bits, low >> some, extra - some)
            buffers[c], fills[c], ats[c] = bits
        for c in range(n_contexts):
            after[c] -= np.int64(notes.counts[c, (stop - begin - 1) // WORD])
    for c in range(n_contexts):
        if codes.escapes[c] != 0:
            bits = Bits(buffers[c], fills[c], ats[c])
            sizes[c], _ = ended(bits, out_at + np.uint64(4 * begins[c]))


# How to read all contexts. one: uint64, look-up tables, see `decode.lookup`; that of context c
# begins at starts[c] and has masks[c] + 1 entries (int64). In those of plain codes, the bits in all
# include a symbol's extra ones. fast: uint64 (contexts, 2**FAST), the same for so few bits, where a
# longer word is marked like an escape. symbol_bits: int64 (contexts,), of a symbol after an escape;
# -1 without tokens. levels: int64 (contexts,), symbols and 1.
Tables = namedtuple("Tables", "one starts masks fast symbol_bits levels")
# Scratch. moves: uint64 (MAX_CONTEXTS, CHUNK), steps as `read_move` returns them. marks: uint64
# (MAX_CONTEXTS, CHUNK // WORD + 2), which elements of a context change.
Moves = namedtuple("Moves", "moves marks")
# The stream of a context. at, end: the next bit, and the end. left: elements of the context before
# the next change. symbol: of that change; 0: not read yet.
Stream = namedtuple("Stream", "at end left symbol")


@inlined
def next_step(own, c, tables):
    """A context's stream behind its next code word."""
    window = window_at(own.at)
    entry = tables.fast[c, window & np.uint64(2**FAST - 1)]
    if entry >= ESCAPE:
        entry = tables.one[np.uint64(tables.starts[c]) + (window & np.uint64(tables.masks[c]))]
    token = token_at(own.at, entry, np.uint64(tables.symbol_bits[c]))
    return Stream(token.at, own.end, own.left + np.int64(token.elements) - 1, token.symbol)


@inlined
def read_moves(own, c, n, tables, moves, pair):
    """Read the changes of a context among its next n elements.

    own: its `Stream`. Returns the next one, the number of changes, and a STREAM_* status.
    """
    m = np.uint64(0)
    while True:
        if own.symbol == 0 and own.at == own.end:
            # No tokens are left: the other elements do not change.
            own = Stream(own.at, own.end, FAR, ONE)
        elif own.symbol == 0 and own.at < own.end:
            own = next_step(own, c, tables)
        if own.at > own.end:
            return own, m, decode.STREAM_ENDS_EARLY
        if own.left >= n:
            return Stream(own.at, own.end, own.left - n, own.symbol), m, decode.STREAM_OK
        if np.int64(own.symbol) >= tables.levels[c]:
            return own, m, decode.STREAM_LEAVES
        moves.moves[c, m], at = read_move(own.at, own.symbol, pair)
        moves.marks[c, own.left >> 6] |= ONE << np.uint64(own.left & 63)
        m += ONE
        own = Stream(at, own.end, own.left + 1, np.uint64(0))


@inlined
def marked_in(word, c, notes, moves):
    """The elements of a word that belong to a context and change."""
    own = notes.owns[c, word]
    # Marks count elements of the context; spread those of this word to its places.
    before = notes.counts[c, word] - count_bits(own)
    place, low = before >> np.uint64(6), before & np.uint64(63)
    # In two shifts: a single one by 64 - low would be undefined for low = 0.
    above = moves.marks[c, place + ONE] << ONE << (np.uint64(63) - low)
    return spread_bits(moves.marks[c, place] >> low | above, own)


@compiled
def read(pair, contexts, stream, units, begins, sizes, tables, notes, moves):
    """Decode one stream of every context with a code for runs; all other elements stay.

    pair: its new array is filled. begins: int64 (contexts,), 8 x the address of each stream; 16
    bytes behind its end can be read too. sizes: int64 (contexts,), their bits. Returns a STREAM_*
    status; never reads or writes out of bounds.

    The tokens of a chunk are read context by context into lists of changes; marks say which
    elements of a context change. Then the chunk is changed, element by element.
    """
    n_contexts, symbol_bits = contexts.bounds.size + 1, tables.symbol_bits
    ats, lefts = np.zeros(MAX_CONTEXTS, np.uint64), np.zeros(MAX_CONTEXTS, np.int64)
    symbols, taken = np.zeros(MAX_CONTEXTS, np.uint64), np.zeros(MAX_CONTEXTS, np.uint64)
    moves.marks[:] = 0
    for c in range(n_contexts):
        ats[c] = begins[c]
    end = min((stream + 1) * units * UNIT, pair.n)
    for begin in range(stream * units * UNIT, end, CHUNK):
        stop = min(begin + CHUNK, end)
        skip = np.uint64(begin * pair.width)
        copy_bytes(pair.new + skip, pair.old + skip, (stop - begin) * pair.width)
        note_contexts(pair, contexts, begin, stop, notes)
        n_words, changes = np.uint64((stop - begin + WORD - 1) // WORD), np.uint64(0)
        for c in range(n_contexts):
            n = np.int64(notes.counts[c, n_words - ONE])
            if symbol_bits[c] < 0 or n == 0:
                continue
            own = Stream(ats[c], np.uint64(begins[c] + sizes[c]), lefts[c], symbols[c])
            own, m, status = read_moves(own, c, n, tables, moves, pair)
            if status != decode.STREAM_OK:
                return status
            ats[c], _, lefts[c], symbols[c] = own
            taken[c] = 0
            changes += m
        if changes == 0:
            continue
        m = np.uint64(0)
        for word in range(n_words):
            mark = np.uint64(0)
            for c in range(n_contexts):
                mark |= marked_in(word, c, notes, moves)
            position = np.uint64(begin) + word * np.uint64(WORD)
            m = list_positions(mark, position, m, notes.listed)
        for i in range(m):
            skip = notes.listed[i] * np.uint64(pair.width)
            old = load(pair.old + skip, pair.width)
            c = context_at(old, pair, contexts)
            move = moves.moves[c, taken[c]]
            taken[c] += ONE
            magnitude = ((old & pair.magnitude) + (move & pair.magnitude)) & pair.magnitude
            store(pair.new + skip, pair.width, magnitude | (old ^ move) & pair.sign)
        for c in range(n_contexts):
            moves.marks[c, : n_words + ONE] = 0
    for c in range(n_contexts):
        # A token that was read, whose change lies beyond the end; none where the context is empty.
        beyond = symbols[c] != 0 and lefts[c] < FAR // 2
        if symbol_bits[c] >= 0 and (ats[c] != np.uint64(begins[c] + sizes[c]) or beyond):
            return decode.STREAM_GOES_ON
    return decode.STREAM_OK
