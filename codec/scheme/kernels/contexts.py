"""Context coding: a stream is written and read by one loop, so that these cannot differ.

`reader.ContextCode` says the same in Python; FORMAT.md has every number.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from codec.scheme.limits import UNIT, WORD

from .decode import STREAM_GOES_ON, STREAM_LEAVES, STREAM_OK
from .instructions import LOW32, ONE, count_bits, highest_bit, load, store
from .machine import compiled, inlined

# Of context coding. Probabilities are parts of 65,536.
HALF, LEAST = 32_768, 32
# The span stays between these: a chance of 16 bits always gets a part of it.
WHOLE, LEAST_SPAN = np.uint64(2**40), np.uint64(2**32)
FIRST_MORE = 20_000  # at the beginning
OCTET = 8  # elements of a row that share a decision
ACTIVITIES = 24  # octaves of the magnitude that is expected
UNARY = 8  # steps that are counted one by one
MOST_BITS = 13  # of the steps beyond these, behind the highest bit
MEAN_SHIFT = 12  # means are integers, in parts of 2**MEAN_SHIFT
PRIOR = 2  # elements of the mean magnitude that a row or column has before its first one
MOST_ACTIVE, MOST_DOUBLED = 31, 6  # what the magnitude of a value counts for, at most; its log2
FIRST_MEAN = 205  # 5 % of 2**MEAN_SHIFT
MOST_USES = 60  # of a context, until its rate of adaptation stays the same
# The contexts stand one after another: has the row changes?, has the octet?, is q > 0?, is it
# larger?, has it more bits?, the bits, the sign.
ROW_CONTEXT = 0
OCTET_CONTEXT = ROW_CONTEXT + 3 * 32
ZERO_CONTEXT = OCTET_CONTEXT + 9 * ACTIVITIES
MORE_CONTEXT = ZERO_CONTEXT + 3 * 9 * ACTIVITIES
SIZE_CONTEXT = MORE_CONTEXT + 3 * UNARY * ACTIVITIES
BIT_CONTEXT = SIZE_CONTEXT + MOST_BITS * ACTIVITIES
SIGN_CONTEXT = BIT_CONTEXT + 3 * (MOST_BITS + 1)
N_CONTEXTS = SIGN_CONTEXT + 27
BY_COLUMN = 10  # numbers that are noted for each column
ELEMENT_BYTES = 64  # at most: 36 decisions of at most 11 bits


@inlined
def octaves(x):
    """About 16 log2(x) of an int64 from 1 on: 16 p plus the 4 bits below bit p, the highest."""
    p = highest_bit(np.uint64(x))
    return np.int64(p) << 4 | np.int64((np.uint64(x) << np.uint64(4)) >> np.uint64(p)) & 15


@inlined
def term(magnitudes, mean):
    """The octaves of a sum of magnitudes, with PRIOR times the mean before it."""
    return octaves((np.int64(magnitudes) << MEAN_SHIFT) + PRIOR * mean)


@inlined
def side_of(q):
    """0 of q = 0, 1 of a positive q, 2 of a negative one."""
    return 0 if q == 0 else 1 if q > 0 else 2


@compiled
def carry(at):
    """Add 1 to the number that ends before an address, its highest byte first."""
    # There always is a byte below 255: the number written so far is below 1.
    at -= ONE
    while load(at, 1) == np.uint64(255):
        store(at, 1, np.uint64(0))
        at -= ONE
    store(at, 1, load(at, 1) + ONE)


# The interval: its begin `low` (encoding) or the bytes read less that begin, `window` (decoding);
# its length `span`; and `at`, the address of the next byte. numba keeps a tuple in registers.
Interval = namedtuple("Interval", "low span window at")
# Addresses: of the contexts, of the rates by uses, and of the end of the stream.
Memory = namedtuple("Memory", "contexts rates end")
# What the decisions of an element depend on.
Around = namedtuple("Around", "activity beside above")


@inlined
def decide(encoding, bit, context, c, m):
    """Write a decision, or read it; either way its context learns from it.

    context: its number. c: Interval. m: Memory; reading, bytes from its end on are 0. Returns the
    decision and the next interval.
    """
    low, span, window, at = c
    here = m.contexts + np.uint64(4 * context)
    state = np.int64(load(here, 4))
    chance = state >> 8
    bound = (span >> np.uint64(16)) * np.uint64(chance)
    if not encoding:
        bit = window >= span - bound
    # 0 takes the lower part of the interval: a stream of zeros needs no bytes.
    if bit:
        if encoding:
            low += span - bound
        else:
            window -= span - bound
        span = bound
        if low >= WHOLE:
            low -= WHOLE
            carry(at)
    else:
        span -= bound
    while span < LEAST_SPAN:
        if encoding:
            store(at, 1, low >> np.uint64(32))
            low = (low & LOW32) << np.uint64(8)
        else:
            window = window << np.uint64(8) | (load(at, 1) if at < m.end else np.uint64(0))
        at += ONE
        span <<= np.uint64(8)
    # The more often a context was used, the more slowly its chance changes.
    uses = state & 255
    aim = np.int64(2 * HALF) if bit else np.int64(0)
    chance += ((aim - chance) * np.int64(load(m.rates + np.uint64(4 * uses), 4))) >> 16
    chance = min(max(chance, np.int64(LEAST)), np.int64(2 * HALF - LEAST))
    store(here, 4, np.uint64(chance << 8 | min(uses + 1, MOST_USES)))
    return bit, Interval(low, span, window, at)


@inlined
def code_magnitude(encoding, q, around, c, m):
    """|q| of an element that changes; q: what to write. Returns it and the next interval."""
    reached, more = 1, True
    while more and reached <= UNARY:
        near = np.int64(abs(around.beside) > reached) + np.int64(abs(around.above) > reached)
        context = MORE_CONTEXT + UNARY * (3 * around.activity + near) + reached - 1
        more, c = decide(encoding, q > reached, context, c, m)
        reached += np.int64(more)
    if not more:
        return reached, c
    rest = max(q - UNARY, 1)
    size, own_size = 0, np.int64(highest_bit(np.uint64(rest)))
    while more and size < MOST_BITS:
        context = SIZE_CONTEXT + MOST_BITS * around.activity + size
        more, c = decide(encoding, own_size > size, context, c, m)
        size += np.int64(more)
    reached = 1
    for k in range(size):
        bit = rest >> (size - 1 - k) & 1 == 1
        bit, c = decide(encoding, bit, BIT_CONTEXT + 3 * size + min(k, 2), c, m)
        reached = 2 * reached + np.int64(bit)
    return reached + UNARY, c


@inlined
def marks_from(marks, place, n):
    """The marks of n positions, at most WORD, from one on."""
    skip = place & 63
    mark = marks[place >> 6] >> np.uint64(skip)
    if skip + n > WORD:
        mark |= marks[(place >> 6) + 1] << np.uint64(64 - skip)
    return mark if n == WORD else mark & ((ONE << np.uint64(n)) - ONE)


@inlined
def any_marks(marks, place, n):
    """Whether one of n positions from one on is marked."""
    for j in range(0, n, WORD):  # noqa: SIM110  numba has no any()
        if marks_from(marks, place + j, min(WORD, n - j)) != 0:
            return True
    return False


@inlined
def spent(c, begin):
    """Bits so far. begin: address of the stream."""
    return 8.0 * np.float64(c.at - begin) - np.log2(np.float64(c.span))


@compiled
def finish(low, span, at, begin):
    """Write the shortest number of an interval; a reader adds zeros. Returns the stream's end."""
    for n in range(6):
        unit = ONE << np.uint64(40 - 8 * n)
        number = (low + unit - ONE) & ~(unit - ONE)
        if number < low + span:
            if number >= WHOLE:
                number -= WHOLE
                carry(at)
            for i in range(n):
                store(at, 1, number >> np.uint64(32 - 8 * i) & np.uint64(255))
                at += ONE
            break
    while at > begin and load(at - ONE, 1) == 0:
        at -= ONE
    return at


@compiled
def code(encoding, stream, survivors, steps, learning, by_column, data, most, listed, bits):
    """Write a stream of a context code, or read it.

    Encoder and decoder are one loop, so that they cannot differ. FORMAT.md has every number.

    stream: its first element; rows and columns of each of its matrices, int64; and how many
    elements share a decision, 1 for none. survivors: marks and codes, if encoding. steps:
    step_code_of, uint16, the code that each code would have in uniform steps; code_of, uint16, the
    other way round, 0 for a step that no level has; alone, int8, by |q|, the last entry for all
    beyond: 1 or -1 if all its levels have that sign; and whether each q stands for twice as much as
    the one before, as in buckets. learning: uint32, the contexts at first, chance << 8 | uses; how
    much a context learns from a decision, by its uses; and scratch for the contexts. by_column:
    int32 (BY_COLUMN, widest), scratch. data: uint8, the stream, or ELEMENT_BYTES and twice as much
    room as ``most``. most: bytes that are allowed, or that there are to read. listed: uint32 and
    uint16, filled when reading: where codes other than 0 are, from the first element on, and these;
    and int64 (2,), filled: bytes that were written; how many codes were read. bits: float64 (n,),
    raised by what each element costs, or empty. Returns a STREAM_* status; STREAM_GOES_ON also if
    it takes more bytes than allowed.
    """
    begin, rows, columns, shared = stream
    marks, codes = survivors
    step_code_of, code_of, alone, doubling = steps
    initial, rates, contexts = learning
    positions, found, sizes = listed
    for i in range(N_CONTEXTS):
        contexts[i] = initial[i]
    first = np.uint64(data.ctypes.data)
    end = first + np.uint64(most)
    m = Memory(np.uint64(contexts.ctypes.data), np.uint64(rates.ctypes.data), end)
    c = Interval(np.uint64(0), WHOLE, np.uint64(0), first)
    read = begin >> 16 << 16
    unit_end = read + UNIT
    if encoding:
        for place in range(read, begin, WORD):
            read += np.int64(count_bits(marks_from(marks, place, min(WORD, begin - place))))
    else:
        window = np.uint64(0)
        for i in range(np.uint64(5)):
            at = first + i
            window = window << np.uint64(8) | (load(at, 1) if at < end else np.uint64(0))
        c = Interval(np.uint64(0), WHOLE, window, first + np.uint64(5))
    terms, sums, signs = by_column[0], by_column[1], by_column[2]
    last_rows, last_steps, changed = by_column[3], by_column[4], by_column[5]
    octet_terms, octet_sums, octet_counts = by_column[6], by_column[7], by_column[8]
    logs = by_column[9]
    costly = bits.size > 0
    base, mean, n_listed = begin, FIRST_MEAN, 0
    for piece in range(rows.size):
        n_rows, n_columns = rows[piece], columns[piece]
        width = np.int64(shared) if shared > 1 and n_columns > shared else n_columns
        in_octets = width < n_columns
        n_octets = (n_columns + width - 1) // width
        for j in range(n_columns):
            sums[j] = signs[j] = last_steps[j] = 0
            last_rows[j] = -2
            logs[j] = octaves(j + PRIOR)
        for g in range(n_octets):
            octet_sums[g] = octet_counts[g] = 0
        total = rows_changed = 0
        before_changed = 2
        for i in range(n_rows):
            if i > 0:
                mean = max((total << MEAN_SHIFT) // (i * n_columns), 1)
            # Each term keeps the mean that it was noted with, N in FORMAT.md: noting all terms
            # anew in every row would be slow.
            if i & (i - 1) == 0:
                for j in range(n_columns):
                    terms[j] = term(sums[j], mean) - logs[j]
                for g in range(n_octets):
                    prior = mean * min(width, n_columns - g * width)
                    octet_terms[g] = term(octet_sums[g], prior) - octaves(g * width + PRIOR)
            common = octaves(mean) + octaves(i + PRIOR)
            row_term = octaves(PRIOR * mean) - common
            row_sum = row_sign = n_changed = left = octet_left = 0
            left_at = -2
            cost = spent(c, first) if costly else 0.0
            if n_columns >= OCTET:
                some = encoding and any_marks(marks, base, n_columns)
                share_log = octaves((rows_changed << MEAN_SHIFT) // (i + 1) + 1) >> 3
                context = ROW_CONTEXT + 3 * share_log + before_changed
                some, c = decide(encoding, some, context, c, m)
                before_changed = np.int64(some)
                rows_changed += before_changed
                if costly:
                    for j in range(n_columns):
                        bits[base + j] = (spent(c, first) - cost) / n_columns
                    cost = spent(c, first)
                if not some:
                    base += n_columns
                    continue
            for g in range(n_octets):
                first_j = g * width
                end_j = min(first_j + width, n_columns)
                known = count = 0  # known: g in FORMAT.md
                if in_octets:
                    some = encoding and marks_from(marks, base + first_j, end_j - first_j) != 0
                    activity = min(max((row_term + octet_terms[g]) >> 4, 0), ACTIVITIES - 1)
                    context = OCTET_CONTEXT + 9 * activity + 3 * octet_left + octet_counts[g]
                    some, c = decide(encoding, some, context, c, m)
                    if costly:
                        for j in range(first_j, end_j):
                            bits[base + j] += (spent(c, first) - cost) / (end_j - first_j)
                        cost = spent(c, first)
                    if not some:
                        octet_left = octet_counts[g] = 0
                        continue
                    known = 1
                for j in range(first_j, end_j):
                    place, column = base + j, np.uint64(j)
                    activity = min(max((row_term + terms[column]) >> 4, 0), ACTIVITIES - 1)
                    beside = left if left_at == j - 1 else 0
                    above = np.int64(last_steps[column]) if last_rows[column] == i - 1 else 0
                    is_changed = True
                    # The last element of an octet must have changed if no other one has.
                    if known != 1 or j < end_j - 1:
                        if encoding:
                            own_mark = marks[np.uint64(place >> 6)] >> np.uint64(place & 63)
                            is_changed = own_mark & ONE != 0
                        context = ZERO_CONTEXT + 9 * (known * ACTIVITIES + activity)
                        context += 3 * min(abs(beside), 2) + min(abs(above), 2)
                        is_changed, c = decide(encoding, is_changed, context, c, m)
                    if is_changed:
                        if in_octets:
                            known = 2
                            count += 1
                        q, negative = 1, False
                        if encoding:
                            if place >= unit_end:
                                read = place >> 16 << 16
                                unit_end = read + UNIT
                            own_code = np.int64(step_code_of[codes[np.uint64(read)]])
                            read += 1
                            q, negative = (own_code + 1) >> 1, own_code & 1 == 0
                            if c.at + np.uint64(ELEMENT_BYTES) > end:
                                return STREAM_GOES_ON
                        q, c = code_magnitude(encoding, q, Around(activity, beside, above), c, m)
                        own_sign = np.int64(alone[min(q, alone.size - 1)])
                        column_sign = np.int64(signs[column])
                        if own_sign != 0:
                            negative = own_sign < 0
                        else:
                            # Do the row and the column so far point the same way?
                            context = SIGN_CONTEXT + 9 * side_of(row_sign * column_sign)
                            context += 3 * side_of(beside) + side_of(above)
                            negative, c = decide(encoding, negative, context, c, m)
                        if not encoding:
                            own_code = 2 * q - 1 + np.int64(negative)
                            if own_code >= code_of.size or code_of[own_code] == 0:
                                return STREAM_LEAVES
                            positions[n_listed] = np.uint32(place - begin)
                            found[n_listed] = code_of[own_code]
                            n_listed += 1
                        weight = min(q, MOST_ACTIVE)
                        if doubling:
                            weight = 1 << min(q - 1, MOST_DOUBLED)
                        row_sum += weight
                        sums[column] += weight
                        row_term = term(row_sum, mean) - common
                        terms[column] = term(sums[column], mean) - np.int64(logs[column])
                        if in_octets:
                            octet_sums[g] += weight
                            prior = mean * (end_j - first_j)
                            octet_terms[g] = term(octet_sums[g], prior) - octaves(first_j + PRIOR)
                        left, left_at = -q if negative else q, j
                        if column_sign != 0:
                            row_sign += 1 if negative == (column_sign < 0) else -1
                        last_steps[column], last_rows[column] = left, i
                        changed[n_changed] = j
                        n_changed += 1
                    if costly:
                        bits[place] += spent(c, first) - cost
                        cost = spent(c, first)
                if in_octets:
                    octet_left = octet_counts[g] = min(count, 2)
            for k in range(n_changed):
                # After the row, when its sign is complete; see FORMAT.md.
                j = changed[k]
                signs[j] += 1 if (last_steps[j] > 0) == (row_sign >= 0) else -1
            total += row_sum
            base += n_columns
        if n_rows > 0 and n_columns > 0:
            mean = max((total << MEAN_SHIFT) // (n_rows * n_columns), 1)
    at = c.at
    if encoding:
        at = finish(c.low, c.span, at, first)
    # A reader looks five bytes ahead, and adds zeros behind the end.
    elif at < end:
        return STREAM_GOES_ON
    sizes[0], sizes[1] = at - first, n_listed
    return STREAM_OK
