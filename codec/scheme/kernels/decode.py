"""Code words to codes and onto the track: four streams in turn, by look-up tables.

`reader.Tokens` says what this computes. A decoder never raises and never reads or writes out of
bounds, whatever the bits are: it returns a status.
"""

from __future__ import annotations

import numpy as np

from codec.scheme.limits import MAX_CLASSES, MAX_STREAM, WORD

from .machine import LOW32, ONE, compiled, inlined, load64, prefetch, segment_of
from .track import BATCH, advance, become

LANES = 4  # streams decoded in turn
# Encoders look after each word of marks whether a list is full: it may hold 63 more.
ROW = BATCH + WORD  # room in the list of each
ROW1, ROW2, ROW3 = np.uint64(ROW), np.uint64(2 * ROW), np.uint64(3 * ROW)
# 2**11 entries of 8 bytes take half of a first cache of 32 KiB.
FAST = 11  # bits that are looked up at once
LONGEST = 64  # bits: no token is longer

STREAM_OK = 0
STREAM_ENDS_EARLY = 1
STREAM_GOES_ON = 2
STREAM_LEAVES = 3  # a symbol beyond the last level

# Entries of look-up tables and of lists have the symbol in bits 48-62; bit 63 marks an escape, so
# `entry >= ESCAPE` tests it, also for several entries joined by |.
CODE = np.uint64(48)  # where the symbol stands in an entry
ESCAPE = np.uint64(1 << 63)
CODES = np.uint64(0x7FFF << 48)


@compiled
def lookup(words, classes, extra_bits, first_run, width, one, many):
    """Look-up tables for the next bits of a stream.

    words: uint32, as `canonical` fills it, for every token. classes: 1 for a plain code, else how
    many classes of runs have tokens. one: uint64 (2**width,), where width is at least that of the
    longest word; many: uint64 (2**FAST,), small enough for a processor's first cache; both filled.
    The next bits of a stream are the index. An entry of one is a single token: bits in all, the
    run's extra ones included (0-7) | bits of the code word (8-15) | elements it covers, without the
    extra bits (16-47) | symbol (48-62) | is an escape (63). An entry of many is the same, or
    covers, for a plain code, all zeros up to the first other symbol or the last bit. A word longer
    than FAST is marked like an escape.
    """
    for token in range(words.size):
        length = np.int64(words[token] >> np.uint32(16))
        if length == 0:
            continue
        used, elements, symbol = length, np.int64(1), np.int64(token)
        if classes > 1 and token > 0:
            kind = (token - 1) % classes
            used += extra_bits[kind]
            elements += first_run[kind]
            symbol = 1 + (token - 1) // classes
        entry = np.uint64(used | length << 8 | elements << 16 | symbol << 48)
        if classes > 1 and token == 0:
            entry |= ESCAPE
        # Every window whose lowest bits are this word.
        for i in range(np.int64(words[token] & np.uint32(0xFFFF)), 1 << width, 1 << length):
            one[i] = entry
    for i in range(many.size):
        entry = one[i]
        if entry >> np.uint64(8) & np.uint64(255) > FAST:
            entry = ESCAPE
        used, elements, symbol = np.int64(0), np.int64(0), np.uint64(0)
        # Zeros of a plain code are common: take as many as the window holds at once.
        while classes == 1 and entry != ESCAPE and symbol == 0:
            following = one[i >> used]
            length = np.int64(following & np.uint64(255))
            if used + length > FAST:
                break
            used += length
            elements += 1
            symbol = following >> CODE
            entry = np.uint64(used | used << 8 | elements << 16) | symbol << CODE
        many[i] = entry


@compiled
def lookup_two(one, two):
    """Make a look-up table for the one or two tokens that the next FAST bits hold.

    one: see `lookup`, of tokens. two: uint64 (2**FAST,), filled: bits in all (0-7) | elements that
    the first covers (8-19), the second (20-31, 0 without one) | is there a second (32) | its symbol
    (33-47) | the first's (48-62) | is too long for that, or an escape (63). Returns how many hold
    two, 0 if too many hold none.
    """
    most = np.uint64(2**12 - 1)
    pairs = none = 0
    for i in range(two.size):
        window = np.uint64(i)
        used, elements = split_entry(one[i], window)
        two[i] = ESCAPE
        if one[i] == 0 or one[i] >= ESCAPE or used > np.uint64(FAST) or elements > most:
            none += 1
            continue
        entry = elements << np.uint64(8) | one[i] & CODES
        following = one[window >> used]
        more, others = split_entry(following, window >> used)
        fits = used + more <= np.uint64(FAST) and others <= most
        if following != 0 and following < ESCAPE and fits:
            used += more
            entry |= others << np.uint64(20) | ONE << np.uint64(32)
            entry |= (following & CODES) >> np.uint64(15)
            pairs += 1
        two[i] = entry | used
    # Each entry without a token costs a second look-up.
    return pairs if none * 32 <= two.size else 0


@inlined
def window_at(at):
    """The bits from bit ``at`` on, at least 57. at: 8 x the address of a byte + the bit in it."""
    return load64(at >> np.uint64(3)) >> (at & np.uint64(7))


@inlined
def split_entry(entry, window):
    """Of an entry of `lookup`, for the window it was looked up by: all bits, elements covered."""
    used = entry & np.uint64(255)
    low = (window & ((ONE << used) - ONE)) >> (entry >> np.uint64(8) & np.uint64(255))
    return used, (entry >> np.uint64(16) & LOW32) + low


@inlined
def escaped(window, symbol_bits, first_run, extra_bits):
    """The token after an escape: its bits, the elements it covers, its symbol.

    window: the bits behind the escape's word. A class that does not exist covers more elements than
    any stream has.
    """
    kind = window & np.uint64(127)
    window >>= np.uint64(7)
    symbol = ONE + (window & ((ONE << symbol_bits) - ONE))
    window >>= symbol_bits
    # So the caller sees a stream that goes on too long; nothing else needs a test.
    if kind >= np.uint64(MAX_CLASSES):
        return np.uint64(7) + symbol_bits, np.uint64(2 * MAX_STREAM), symbol
    free = np.uint64(extra_bits[kind])
    run = np.uint64(first_run[kind]) + (window & ((ONE << free) - ONE))
    return np.uint64(7) + symbol_bits + free, run + ONE, symbol


@inlined
def next_token(lane, states, entry, symbol_bits, first_run, extra_bits, listed):
    """Read one token of a lane, also an escaped one. states, listed: see `fill`.

    entry: of the table ``one``, for the lane's next bits.
    """
    at = np.uint64(states[lane, 0])
    used, elements = split_entry(entry, window_at(at))
    symbol = entry >> CODE
    at += used
    if entry >= ESCAPE:
        used, elements, symbol = escaped(window_at(at), symbol_bits, first_run, extra_bits)
        at += used
    told = np.uint64(states[lane, 2]) + elements
    listed[lane * ROW + states[lane, 3]] = told | symbol << CODE
    states[lane, 0], states[lane, 2] = at, told
    states[lane, 3] += 1


@inlined
def fill_one(lane, states, one, many, listed):
    """Read one lane until an escape, a full list, or the last LONGEST bits of its stream."""
    few, more = np.uint64(one.size - 1), np.uint64(many.size - 1)
    at, told = np.uint64(states[lane, 0]), np.uint64(states[lane, 2])
    m = np.uint64(lane * ROW + states[lane, 3])
    # As many tokens as certainly fit into the list and the bits left: none needs a test.
    rounds = min(BATCH - states[lane, 3], (states[lane, 1] - states[lane, 0]) // LONGEST)
    end = m + np.uint64(max(rounds, 0))
    while m < end:
        window = window_at(at)
        entry = many[window & more]
        if entry >= ESCAPE:
            # Too long for `many`, or a real escape.
            entry = one[window & few]
            if entry >= ESCAPE:
                break
        used, elements = split_entry(entry, window)
        at += used
        told += elements
        listed[m] = told | entry & CODES
        m += ONE
    states[lane, 0], states[lane, 2] = at, told
    states[lane, 3] = np.int64(m) - lane * ROW


@inlined
def covered_by(entry):
    """Of an entry of `lookup_two`: elements that the first token covers, and the second."""
    first = entry >> np.uint64(8) & np.uint64(2**12 - 1)
    return first, entry >> np.uint64(20) & np.uint64(2**12 - 1)


@compiled
def fill_by_two(states, reach, one, two, symbol_bits, first_run, extra_bits, listed):
    """`fill` with a table of `lookup_two`, until a list is full or a stream nears its end."""
    few, more, second = np.uint64(one.size - 1), np.uint64(two.size - 1), np.uint64(32)
    while True:
        rounds = BATCH
        for k in range(LANES):
            left = (states[k, 1] - states[k, 0]) // LONGEST
            # Two entries a round at most; see `fill_one`.
            rounds = min(rounds, left, (BATCH - states[k, 3]) // 2)
        if rounds <= 0:
            return
        # One variable for each lane, and no loop over lanes: so they stay in registers. a: next
        # bit, n: elements covered, p: address to prefetch from, m: place in the list.
        a0, a1 = np.uint64(states[0, 0]), np.uint64(states[1, 0])
        a2, a3 = np.uint64(states[2, 0]), np.uint64(states[3, 0])
        n0, n1 = np.uint64(states[0, 2]), np.uint64(states[1, 2])
        n2, n3 = np.uint64(states[2, 2]), np.uint64(states[3, 2])
        p0, p1 = np.uint64(states[0, 5]), np.uint64(states[1, 5])
        p2, p3 = np.uint64(states[2, 5]), np.uint64(states[3, 5])
        m0, m1 = np.uint64(states[0, 3]), np.uint64(states[1, 3]) + ROW1
        m2, m3 = np.uint64(states[2, 3]) + ROW2, np.uint64(states[3, 3]) + ROW3
        escape = False
        for _ in range(rounds):
            e0, e1 = two[window_at(a0) & more], two[window_at(a1) & more]
            e2, e3 = two[window_at(a2) & more], two[window_at(a3) & more]
            if (e0 | e1 | e2 | e3) >= ESCAPE:
                escape = True
                break
            a0 += e0 & np.uint64(255)
            told, others = covered_by(e0)
            n0 += told
            listed[m0] = n0 | e0 & CODES
            n0 += others
            # Always written, counted only if there is a second token: no branch.
            listed[m0 + ONE] = n0 | (e0 << np.uint64(15)) & CODES
            m0 += ONE + (e0 >> second & ONE)
            prefetch(p0 + ((n0 & reach) << np.uint64(2)))
            a1 += e1 & np.uint64(255)
            told, others = covered_by(e1)
            n1 += told
            listed[m1] = n1 | e1 & CODES
            n1 += others
            listed[m1 + ONE] = n1 | (e1 << np.uint64(15)) & CODES
            m1 += ONE + (e1 >> second & ONE)
            prefetch(p1 + ((n1 & reach) << np.uint64(2)))
            a2 += e2 & np.uint64(255)
            told, others = covered_by(e2)
            n2 += told
            listed[m2] = n2 | e2 & CODES
            n2 += others
            listed[m2 + ONE] = n2 | (e2 << np.uint64(15)) & CODES
            m2 += ONE + (e2 >> second & ONE)
            prefetch(p2 + ((n2 & reach) << np.uint64(2)))
            a3 += e3 & np.uint64(255)
            told, others = covered_by(e3)
            n3 += told
            listed[m3] = n3 | e3 & CODES
            n3 += others
            listed[m3 + ONE] = n3 | (e3 << np.uint64(15)) & CODES
            m3 += ONE + (e3 >> second & ONE)
            prefetch(p3 + ((n3 & reach) << np.uint64(2)))
        states[0, 0], states[1, 0], states[2, 0], states[3, 0] = a0, a1, a2, a3
        states[0, 2], states[1, 2], states[2, 2], states[3, 2] = n0, n1, n2, n3
        states[0, 3], states[1, 3] = m0, m1 - ROW1
        states[2, 3], states[3, 3] = m2 - ROW2, m3 - ROW3
        if escape:
            for k in range(LANES):
                entry = one[window_at(np.uint64(states[k, 0])) & few]
                next_token(k, states, entry, symbol_bits, first_run, extra_bits, listed)


@compiled
def fill(states, reach, one, many, two, symbol_bits, first_run, extra_bits, listed):
    """Read every lane until its list is full, its stream ends, or another lane is free.

    states: int64 (LANES, 7), of each lane: 0 next bit, 1 end of the stream, 2 elements covered, 3
    entries in its list, 4 stream (-1: the lane is free), 5 address of the float32 just before the
    stream's first element (in the sources, if the track is to become a copy of them, else in the
    track), 6 position up to which the track is that copy. reach: uint64, mask of an element's
    number: LOW32 to prefetch that float32, 0 without a track. two: of `lookup_two`, or empty.
    listed: uint64 (LANES * ROW,): elements covered up to and with a symbol | symbol << 48.

    Four lanes are read in turn while all of them have a stream: a token must wait for the one
    before it in its stream, but not for other streams.
    """
    few, more = np.uint64(one.size - 1), np.uint64(many.size - 1)
    busy = states[0, 4] >= 0
    for k in range(1, LANES):
        busy = busy and states[k, 4] >= 0
    if busy and two.size > 0:
        fill_by_two(states, reach, one, two, symbol_bits, first_run, extra_bits, listed)
    # As in `fill_by_two`, with one entry for each look-up and so one place m for all lists.
    while busy and two.size == 0:  # all lists are equally long in here
        rounds = BATCH - states[0, 3]
        for k in range(LANES):
            rounds = min(rounds, (states[k, 1] - states[k, 0]) // LONGEST)
        if rounds <= 0:
            break
        a0, a1 = np.uint64(states[0, 0]), np.uint64(states[1, 0])
        a2, a3 = np.uint64(states[2, 0]), np.uint64(states[3, 0])
        n0, n1 = np.uint64(states[0, 2]), np.uint64(states[1, 2])
        n2, n3 = np.uint64(states[2, 2]), np.uint64(states[3, 2])
        p0, p1 = np.uint64(states[0, 5]), np.uint64(states[1, 5])
        p2, p3 = np.uint64(states[2, 5]), np.uint64(states[3, 5])
        m = np.uint64(states[0, 3])
        end = m + np.uint64(rounds)
        escape = np.uint64(0)
        while m < end:
            w0, w1, w2, w3 = window_at(a0), window_at(a1), window_at(a2), window_at(a3)
            e0, e1, e2, e3 = many[w0 & more], many[w1 & more], many[w2 & more], many[w3 & more]
            if (e0 | e1 | e2 | e3) >= ESCAPE:
                e0, e1, e2, e3 = one[w0 & few], one[w1 & few], one[w2 & few], one[w3 & few]
                escape = (e0 | e1 | e2 | e3) & ESCAPE
                # One lane has an escape: each takes one token of any kind.
                if escape != 0:
                    break
            used, elements = split_entry(e0, w0)
            a0 += used
            n0 += elements
            prefetch(p0 + ((n0 & reach) << np.uint64(2)))
            listed[m] = n0 | e0 & CODES
            used, elements = split_entry(e1, w1)
            a1 += used
            n1 += elements
            prefetch(p1 + ((n1 & reach) << np.uint64(2)))
            listed[m + ROW1] = n1 | e1 & CODES
            used, elements = split_entry(e2, w2)
            a2 += used
            n2 += elements
            prefetch(p2 + ((n2 & reach) << np.uint64(2)))
            listed[m + ROW2] = n2 | e2 & CODES
            used, elements = split_entry(e3, w3)
            a3 += used
            n3 += elements
            prefetch(p3 + ((n3 & reach) << np.uint64(2)))
            listed[m + ROW3] = n3 | e3 & CODES
            m += ONE
        states[0, 0], states[1, 0], states[2, 0], states[3, 0] = a0, a1, a2, a3
        states[0, 2], states[1, 2], states[2, 2], states[3, 2] = n0, n1, n2, n3
        for k in range(LANES):
            states[k, 3] = m
            if escape != 0:
                entry = one[window_at(np.uint64(states[k, 0])) & few]
                next_token(k, states, entry, symbol_bits, first_run, extra_bits, listed)
    for k in range(LANES):
        if states[k, 4] < 0:
            continue
        # The end of a stream token by token; all of it while another lane is free.
        while states[k, 3] < BATCH and states[k, 0] < states[k, 1]:
            if states[k, 0] + LONGEST <= states[k, 1]:
                # Another lane's list is full or its stream ends: empty the lists, then go on with
                # four.
                if busy:
                    break
                fill_one(k, states, one, many, listed)
                if states[k, 3] >= BATCH or states[k, 0] >= states[k, 1]:
                    break
            entry = one[window_at(np.uint64(states[k, 0])) & few]  # never a word of another stream
            next_token(k, states, entry, symbol_bits, first_run, extra_bits, listed)


@compiled
def read(
    begins,
    sizes,
    first,
    last,
    elements,
    n,
    n_levels,
    plain,
    one,
    many,
    two,
    symbol_bits,
    first_run,
    extra_bits,
    states,
    listed,
    positions,
    found,
    codes,
    sources,
    tracks,
    starts,
    levels,
    stride,
    mode,
    sums,
    scratch,
):
    """Decode the streams first..last, and advance the track by them or write their codes.

    begins: int64, 8 x the address of each stream; 16 bytes behind its end can be read too. sizes:
    int64, their bits. elements: of every stream but the last. n: of all. plain: zeros are coded
    too. one, many: see `lookup`. two: see `lookup_two`, or empty. states, listed: see `fill`;
    positions: uint32 and found: uint16, both (ROW,); all scratch. codes: uint8 or uint16 (n,),
    zeros, filled if mode is 0. sources: addresses of tensors that the track first becomes a copy
    of, or empty. tracks ... scratch: see `advance`. Returns a STREAM_* status; never reads or
    writes out of bounds.

    A lane at the end of its stream takes the next one: streams differ in length, and an idle lane
    would leave the others waiting for memory.
    """
    following, free = first, LANES
    # 0: without a track, prefetch the same address each time.
    reach = np.uint64(0) if mode == 0 else LOW32
    ahead = sources if sources.size > 0 else tracks
    states[:, 4] = -1
    while following < last or free < LANES:
        for k in range(LANES):
            if states[k, 4] < 0 and following < last:
                states[k, 0] = begins[following]
                states[k, 1] = states[k, 0] + sizes[following]
                states[k, 2] = 0
                states[k, 4] = following
                states[k, 6] = following * elements
                states[k, 5] = begins[following] >> 3  # any address will do
                if mode != 0:  # right for most: a stream seldom holds more than one tensor
                    before = following * elements - 1
                    segment = segment_of(starts, before + 1)
                    states[k, 5] = np.int64(ahead[segment]) + 4 * (before - starts[segment])
                following += 1
                free -= 1
            states[k, 3] = 0
        fill(states, reach, one, many, two, np.uint64(symbol_bits), first_run, extra_bits, listed)
        for k in range(LANES):
            if states[k, 4] < 0:
                continue
            before = states[k, 4] * elements - 1  # position 0 is covered first
            limit = min(elements, n - before - 1)
            # These tests come after a whole batch. Until then only lists are written, and the spare
            # bytes behind a stream cover what was read.
            if states[k, 0] > states[k, 1]:
                return STREAM_ENDS_EARLY
            if states[k, 2] > limit:
                return STREAM_GOES_ON
            own = listed[k * ROW : k * ROW + states[k, 3]]
            m = own.size
            if plain:
                m = 0
                for i in range(own.size):  # drop entries of zeros only
                    own[m] = own[i]
                    m += own[i] >> CODE != 0
            largest = np.uint16(0)
            for i in range(m):
                symbol = np.uint16(own[i] >> CODE)
                # An entry's low half: elements covered, counted from `before`.
                positions[i] = np.uint32(own[i])
                found[i] = symbol
                largest = max(largest, symbol)
            if largest >= n_levels:
                return STREAM_LEAVES
            if sources.size > 0:
                # At the end of a stream also the zeros behind the last symbol.
                end = before + 1 + (limit if states[k, 0] == states[k, 1] else states[k, 2])
                become(sources, tracks, starts, states[k, 6], end, m)
                states[k, 6] = end
            if mode == 0:
                for i in range(m):
                    codes[before + positions[i]] = found[i]
            elif m > 0:
                segment = segment_of(starts, before + positions[0])
                advance(
                    tracks,
                    starts,
                    segment,
                    before,
                    positions,
                    found,
                    m,
                    levels,
                    stride,
                    mode,
                    sums,
                    scratch,
                )
            if states[k, 0] == states[k, 1]:
                # Tokens may end early, because the last zeros are not written; a plain code may
                # not.
                if plain and states[k, 2] != limit:
                    return STREAM_ENDS_EARLY
                states[k, 4] = -1
                free += 1
    return STREAM_OK
