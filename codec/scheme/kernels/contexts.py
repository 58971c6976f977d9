"""Context coding: a stream is written and read by one loop, so that these cannot differ.

`reader.ContextCode` says the same in Python; FORMAT.md has every number.
"""

from __future__ import annotations

import numpy as np

from codec.scheme.limits import UNIT, WORD

from .decode import STREAM_GOES_ON, STREAM_LEAVES, STREAM_OK
from .machine import (
    LOW32,
    ONE,
    compiled,
    count_bits,
    highest_bit,
    inlined,
    load8,
    load32,
    store8,
    store32,
)

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
def side_of(q):
    """0 of q = 0, 1 of a positive q, 2 of a negative one."""
    return 0 if q == 0 else 1 if q > 0 else 2


@compiled
def carry(at):
    """Add 1 to the number that ends before an address, its highest byte first."""
    # There always is a byte below 255: the number written so far is below 1.
    at -= ONE
    while load8(at) == np.uint64(255):
        store8(at, np.uint64(0))
        at -= ONE
    store8(at, load8(at) + ONE)


@inlined
def decide(encoding, bit, context, rates, low, span, window, at, end):
    """Write a decision, or read it; either way its context learns from it.

    context, rates: addresses, see `code`. low, span: of the interval; window: the bytes
    read, less the interval's begin. at: address of the next byte; reading, bytes from ``end`` on
    are 0. Returns bit, low, span, window and at.
    """
    state = np.int64(load32(context))
    chance = state >> 8
    bound = (span >> np.uint64(16)) * np.uint64(chance)
    if encoding:
        # 0 takes the lower part of the interval: a stream of zeros needs no bytes.
        if bit:
            low += span - bound
            span = bound
            if low >= WHOLE:
                low -= WHOLE
                carry(at)
        else:
            span -= bound
    else:
        bit = window >= span - bound
        if bit:
            window -= span - bound
            span = bound
        else:
            span -= bound
    while span < LEAST_SPAN:
        if encoding:
            store8(at, low >> np.uint64(32))
            low = (low & LOW32) << np.uint64(8)
        else:
            window = window << np.uint64(8) | (load8(at) if at < end else np.uint64(0))
        at += ONE
        span <<= np.uint64(8)
    # The more often a context was used, the more slowly its chance changes.
    uses = state & 255
    aim = np.int64(2 * HALF) if bit else np.int64(0)
    chance += ((aim - chance) * np.int64(load32(rates + np.uint64(4 * uses)))) >> 16
    chance = min(max(chance, np.int64(LEAST)), np.int64(2 * HALF - LEAST))
    store32(context, np.uint64(chance << 8 | min(uses + 1, MOST_USES)))
    return bit, low, span, window, at


@compiled
def code(
    encoding,
    begin,
    rows,
    columns,
    shared,
    marks,
    codes,
    step_code_of,
    code_of,
    alone,
    doubling,
    initial,
    rates,
    contexts,
    by_column,
    data,
    most,
    positions,
    found,
    sizes,
    bits,
):
    """Write a stream of a context code, or read it.

    Encoder and decoder are one loop, so that they cannot differ. FORMAT.md has every number.

    begin: the stream's first element. rows, columns: int64, of each of its matrices. shared:
    elements that share a decision; 1 for none. marks, codes: the survivors, if encoding.
    step_code_of: uint16, the code that each code would have in uniform steps; code_of: uint16, the
    other way round, 0 for a step that no level has. alone: int8, by |q|, the last entry for all
    beyond: 1 or -1 if all its levels have that sign. doubling: whether each q stands for twice as
    much as the one before, as in buckets. initial: uint32 (N_CONTEXTS,), the contexts at first:
    chance << 8 | uses. rates: uint32 (MOST_USES + 1,), how much a context learns from a decision,
    by its uses. contexts: uint32 (N_CONTEXTS,), and by_column: int32 (BY_COLUMN, widest), scratch.
    data: uint8, the stream, or ELEMENT_BYTES and twice as much room as ``most``. most: bytes that
    are allowed, or that there are to read. positions: uint32, and found: uint16, filled when
    reading: where codes other than 0 are, from ``begin`` on, and these. sizes: int64 (2,), filled:
    bytes that were written; how many codes were found. bits: float64 (n,), raised by what each
    element costs, or empty. Returns a STREAM_* status; STREAM_GOES_ON also if it takes more bytes
    than allowed.
    """
    state, rate = np.uint64(contexts.ctypes.data), np.uint64(rates.ctypes.data)
    begin_of_data = np.uint64(data.ctypes.data)
    terms, sums, signs = by_column[0], by_column[1], by_column[2]
    last_rows, last_steps, changed = by_column[3], by_column[4], by_column[5]
    octet_terms, octet_sums, octet_counts = by_column[6], by_column[7], by_column[8]
    logs = by_column[9]
    costly = bits.size > 0
    for i in range(N_CONTEXTS):
        contexts[i] = initial[i]
    at = begin_of_data
    end = at + np.uint64(most)
    low, span, window = np.uint64(0), WHOLE, np.uint64(0)
    read = unit_end = begin >> 16 << 16
    unit_end += UNIT
    if encoding:
        for word in range(read // WORD, begin // WORD):
            read += np.int64(count_bits(marks[word]))
        if begin & 63 > 0:
            before = marks[begin // WORD] << np.uint64(64 - (begin & 63))
            read += np.int64(count_bits(before))
    else:
        for _ in range(5):
            window = window << np.uint64(8) | (load8(at) if at < end else np.uint64(0))
            at += ONE
    base, mean, m = begin, FIRST_MEAN, 0
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
                    own = (np.int64(sums[j]) << MEAN_SHIFT) + PRIOR * mean
                    terms[j] = octaves(own) - logs[j]
                for g in range(n_octets):
                    size = min(width, n_columns - g * width)
                    own = (np.int64(octet_sums[g]) << MEAN_SHIFT) + PRIOR * mean * size
                    octet_terms[g] = octaves(own) - octaves(g * width + PRIOR)
            common = octaves(mean) + octaves(i + PRIOR)
            row_term = octaves(PRIOR * mean) - common
            row_sum = row_sign = n_changed = left = octet_left = 0
            left_at = -2
            cost = 8.0 * np.float64(at - begin_of_data) - np.log2(np.float64(span))
            if n_columns >= OCTET:
                some = False
                if encoding:
                    for j in range(0, n_columns, WORD):
                        place = base + j
                        mark = marks[place >> 6] >> np.uint64(place & 63)
                        if place & 63 > 0 and (place & 63) + n_columns - j > WORD:
                            mark |= marks[(place >> 6) + 1] << np.uint64(64 - (place & 63))
                        if n_columns - j < WORD:
                            mark &= (ONE << np.uint64(n_columns - j)) - ONE
                        if mark != 0:
                            some = True
                            break
                share_log = octaves((rows_changed << MEAN_SHIFT) // (i + 1) + 1) >> 3
                context = ROW_CONTEXT + 3 * share_log + before_changed
                some, low, span, window, at = decide(
                    encoding,
                    some,
                    state + np.uint64(4 * context),
                    rate,
                    low,
                    span,
                    window,
                    at,
                    end,
                )
                before_changed = np.int64(some)
                rows_changed += before_changed
                if costly:
                    now = 8.0 * np.float64(at - begin_of_data) - np.log2(np.float64(span))
                    for j in range(n_columns):
                        bits[base + j] = (now - cost) / n_columns
                    cost = now
                if not some:
                    base += n_columns
                    continue
            for g in range(n_octets):
                first_j = g * width
                end_j = min(first_j + width, n_columns)
                mark = np.uint64(0)
                known = 0  # g in FORMAT.md
                if in_octets:
                    if encoding:
                        place = base + first_j
                        mark = marks[place >> 6] >> np.uint64(place & 63)
                        if (place & 63) + end_j - first_j > WORD:
                            mark |= marks[(place >> 6) + 1] << np.uint64(64 - (place & 63))
                        mark &= (ONE << np.uint64(end_j - first_j)) - ONE
                    activity = min(max((row_term + octet_terms[g]) >> 4, 0), ACTIVITIES - 1)
                    context = OCTET_CONTEXT + 9 * activity + 3 * octet_left + octet_counts[g]
                    some, low, span, window, at = decide(
                        encoding,
                        mark != 0,
                        state + np.uint64(4 * context),
                        rate,
                        low,
                        span,
                        window,
                        at,
                        end,
                    )
                    if costly:
                        now = 8.0 * np.float64(at - begin_of_data) - np.log2(np.float64(span))
                        for j in range(first_j, end_j):
                            bits[base + j] += (now - cost) / (end_j - first_j)
                        cost = now
                    if not some:
                        octet_left = octet_counts[g] = 0
                        continue
                    known = 1
                count = 0
                for j in range(first_j, end_j):
                    place, column = base + j, np.uint64(j)
                    activity = min(max((row_term + terms[column]) >> 4, 0), ACTIVITIES - 1)
                    beside = left if left_at == j - 1 else 0
                    above = np.int64(last_steps[column]) if last_rows[column] == i - 1 else 0
                    is_changed = True
                    # The last element of an octet must have changed if no other one has.
                    if known != 1 or j < end_j - 1:
                        if encoding:
                            own = marks[np.uint64(place >> 6)] >> np.uint64(place & 63)
                            is_changed = own & ONE != 0
                        context = ZERO_CONTEXT + 9 * (known * ACTIVITIES + activity)
                        context += 3 * min(abs(beside), 2) + min(abs(above), 2)
                        is_changed, low, span, window, at = decide(
                            encoding,
                            is_changed,
                            state + np.uint64(4 * context),
                            rate,
                            low,
                            span,
                            window,
                            at,
                            end,
                        )
                    if is_changed:
                        if in_octets:
                            known = 2
                            count += 1
                        code, q, negative = 0, 1, False
                        if encoding:
                            if place >= unit_end:
                                read = place >> 16 << 16
                                unit_end = read + UNIT
                            code = np.int64(step_code_of[codes[np.uint64(read)]])
                            read += 1
                            q, negative = (code + 1) >> 1, code & 1 == 0
                            if at + np.uint64(ELEMENT_BYTES) > end:
                                return STREAM_GOES_ON
                        reached, more = 1, True
                        while more and reached <= UNARY:
                            near = np.int64(abs(beside) > reached)
                            near += np.int64(abs(above) > reached)
                            context = MORE_CONTEXT + UNARY * (3 * activity + near) + reached - 1
                            more, low, span, window, at = decide(
                                encoding,
                                q > reached,
                                state + np.uint64(4 * context),
                                rate,
                                low,
                                span,
                                window,
                                at,
                                end,
                            )
                            reached += np.int64(more)
                        if more:
                            rest = max(q - UNARY, 1)
                            size, own_size = 0, np.int64(highest_bit(np.uint64(rest)))
                            while more and size < MOST_BITS:
                                context = SIZE_CONTEXT + MOST_BITS * activity + size
                                more, low, span, window, at = decide(
                                    encoding,
                                    own_size > size,
                                    state + np.uint64(4 * context),
                                    rate,
                                    low,
                                    span,
                                    window,
                                    at,
                                    end,
                                )
                                size += np.int64(more)
                            reached = 1
                            for k in range(size):
                                context = BIT_CONTEXT + 3 * size + min(k, 2)
                                bit, low, span, window, at = decide(
                                    encoding,
                                    rest >> (size - 1 - k) & 1 == 1,
                                    state + np.uint64(4 * context),
                                    rate,
                                    low,
                                    span,
                                    window,
                                    at,
                                    end,
                                )
                                reached = 2 * reached + np.int64(bit)
                            reached += UNARY
                        q = reached
                        own_sign = np.int64(alone[min(q, alone.size - 1)])
                        column_sign = np.int64(signs[column])
                        if own_sign != 0:
                            negative = own_sign < 0
                        else:
                            # Do the row and the column so far point the same way?
                            agrees = row_sign * column_sign
                            context = SIGN_CONTEXT + 9 * side_of(agrees)
                            context += 3 * side_of(beside) + side_of(above)
                            negative, low, span, window, at = decide(
                                encoding,
                                negative,
                                state + np.uint64(4 * context),
                                rate,
                                low,
                                span,
                                window,
                                at,
                                end,
                            )
                        if not encoding:
                            code = 2 * q - 1 + np.int64(negative)
                            if code >= code_of.size or code_of[code] == 0:
                                return STREAM_LEAVES
                            positions[m] = np.uint32(place - begin)
                            found[m] = code_of[code]
                            m += 1
                        weight = min(q, MOST_ACTIVE)
                        if doubling:
                            weight = 1 << min(q - 1, MOST_DOUBLED)
                        row_sum += weight
                        sums[column] += weight
                        row_term = octaves((row_sum << MEAN_SHIFT) + PRIOR * mean) - common
                        own = (np.int64(sums[column]) << MEAN_SHIFT) + PRIOR * mean
                        terms[column] = octaves(own) - np.int64(logs[column])
                        if in_octets:
                            octet_sums[g] += weight
                            own = np.int64(octet_sums[g]) << MEAN_SHIFT
                            own += PRIOR * mean * (end_j - first_j)
                            octet_terms[g] = octaves(own) - octaves(first_j + PRIOR)
                        left, left_at = -q if negative else q, j
                        if column_sign != 0:
                            row_sign += 1 if negative == (column_sign < 0) else -1
                        last_steps[column], last_rows[column] = left, i
                        changed[n_changed] = j
                        n_changed += 1
                    if costly:
                        now = 8.0 * np.float64(at - begin_of_data) - np.log2(np.float64(span))
                        bits[place] += now - cost
                        cost = now
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
    if encoding:
        # The shortest number of the interval; a reader adds zeros.
        for n in range(6):
            unit = ONE << np.uint64(40 - 8 * n)
            number = (low + unit - ONE) & ~(unit - ONE)
            if number < low + span:
                if number >= WHOLE:
                    number -= WHOLE
                    carry(at)
                for i in range(n):
                    store8(at, number >> np.uint64(32 - 8 * i) & np.uint64(255))
                    at += ONE
                break
        while at > begin_of_data and load8(at - ONE) == 0:
            at -= ONE
    # A reader looks five bytes ahead, and adds zeros behind the end.
    elif at < end:
        return STREAM_GOES_ON
    sizes[0], sizes[1] = at - begin_of_data, m
    return STREAM_OK
