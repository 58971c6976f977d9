"""Code words to codes and onto the track: four streams in turn, by look-up tables.

`reader.Tokens` says what this computes. A decoder never raises and never reads or writes out of
bounds, whatever the bits are: it returns a status.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from codec.scheme.limits import MAX_CLASSES, MAX_STREAM, WORD

from .instructions import LOW32, ONE, extra_of, load, prefetch, run_of, segment_of, store
from .machine import compiled, inlined
from .track import BATCH, advance

LANES = 4  # streams decoded in turn
# Encoders look after each word of marks whether a list is full: it may hold 63 more.
ROW = BATCH + WORD  # room in the list of each
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
MOST_COVERED = np.uint64(2**12 - 1)  # elements by a token of `lookup_two`

# Streams of `elements` elements each, but the last one; n: elements of all. begins: int64, 8 x the
# address of each stream; 16 bytes behind its end can be read too. sizes: int64, their bits.
Streams = namedtuple("Streams", "begins sizes elements n")
# How to read them. k: levels. plain: whether zeros are coded too. one, many: see `lookup`. two: see
# `lookup_two`, or empty. symbol_bits: of a symbol after an escape.
Tables = namedtuple("Tables", "k plain one many two symbol_bits")
# What four streams are at. at: the next bit. end: of the stream. covered: elements. listed: entries
# in the list. stream: its number; -1: the lane is free. ahead: the address of the float32 just
# before the stream's first element in the track.
FIELDS = ("at", "end", "covered", "listed", "stream", "ahead")
LANE = np.dtype([(name, np.int64) for name in FIELDS])
# The same in registers, with the address of the next place in the list.
Lane = namedtuple("Lane", "at covered place ahead")
Token = namedtuple("Token", "at elements symbol")


@compiled
def lookup(words, classes, width, half, one, many):
    """Look-up tables for the next bits of a stream.

    words: uint32, as `canonical` fills it, for every token. classes: 1 for a plain code, else how
    many classes of runs have tokens. one: uint64 (2**width,), where width is at least that of the
    longest word; many: uint64 (2**FAST,), small enough for a processor's first cache; both filled.
    half: `Elements.of_one_sign` for a residual's plain code, whose symbols have extra bits, else 0.
    The next bits of a stream are the index. An entry of one is a single token: bits in all, the
    extra ones included (0-7) | bits of the code word (8-15) | elements it covers, without the extra
    bits (16-47) | symbol (48-62) | is an escape (63). An entry of many is the same, or
    covers, for a plain code, all zeros up to the first other symbol or the last bit. A word longer
    than FAST is marked like an escape.
    """
    for token in range(words.size):
        length = np.int64(words[token] >> np.uint32(16))
        if length == 0:
            continue
        used, elements, symbol = length, np.int64(1), np.int64(token)
        if classes > 1 and token > 0:
            kind = np.uint64((token - 1) % classes)
            used += np.int64(extra_of(kind))
            elements += np.int64(run_of(kind, np.uint64(0)))
            symbol = 1 + (token - 1) // classes
        elif half > 0 and token > 0:
            used += np.int64(extra_of(np.uint64((token - 1) % half >> 1)))
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


@inlined
def window_at(at):
    """The bits from bit ``at`` on, at least 57. at: 8 x the address of a byte + the bit in it."""
    return load(at >> np.uint64(3), 8) >> (at & np.uint64(7))


@inlined
def split_entry(entry, window):
    """Of an entry of `lookup`, for the window it was looked up by: all bits, elements covered."""
    used = entry & np.uint64(255)
    low = (window & ((ONE << used) - ONE)) >> (entry >> np.uint64(8) & np.uint64(255))
    return used, (entry >> np.uint64(16) & LOW32) + low


@compiled
def lookup_two(one, two):
    """Make a look-up table for the one or two tokens that the next FAST bits hold.

    one: see `lookup`, of tokens. two: uint64 (2**FAST,), filled: bits in all (0-7) | elements that
    the first covers (8-19), the second (20-31, 0 without one) | is there a second (32) | its symbol
    (33-47) | the first's (48-62) | is too long for that, or an escape (63). Returns how many hold
    two, 0 if too many hold none.
    """
    pairs = none = 0
    for i in range(two.size):
        window = np.uint64(i)
        used, elements = split_entry(one[i], window)
        two[i] = ESCAPE
        is_token = one[i] != 0 and one[i] < ESCAPE
        if not is_token or used > np.uint64(FAST) or elements > MOST_COVERED:
            none += 1
            continue
        entry = elements << np.uint64(8) | one[i] & CODES
        following = one[window >> used]
        more, others = split_entry(following, window >> used)
        fits = used + more <= np.uint64(FAST) and others <= MOST_COVERED
        if following != 0 and following < ESCAPE and fits:
            used += more
            entry |= others << np.uint64(20) | ONE << np.uint64(32)
            entry |= (following & CODES) >> np.uint64(15)
            pairs += 1
        two[i] = entry | used
    # Each entry without a token costs a second look-up.
    return pairs if none * 32 <= two.size else 0


@inlined
def token_at(at, entry, symbol_bits):
    """The token at a bit, also an escaped one; its ``at`` is the bit behind it.

    entry: of the table ``one``. A class that does not exist covers more elements than any stream
    has, so callers see a stream that goes on too long.
    """
    used, elements = split_entry(entry, window_at(at))
    at += used
    if entry < ESCAPE:
        return Token(at, elements, entry >> CODE)
    window = window_at(at)
    kind = window & np.uint64(127)
    window >>= np.uint64(7)
    symbol = ONE + (window & ((ONE << symbol_bits) - ONE))
    extra = extra_of(kind) if kind < np.uint64(MAX_CLASSES) else np.uint64(0)
    elements = run_of(kind, window >> symbol_bits & ((ONE << extra) - ONE)) + ONE
    if kind >= np.uint64(MAX_CLASSES):
        elements = np.uint64(2 * MAX_STREAM)
    return Token(at + np.uint64(7) + symbol_bits + extra, elements, symbol)


@inlined
def lane_of(lanes, k, listed):
    """A lane in registers."""
    own = lanes[k]
    place = np.uint64(listed.ctypes.data) + np.uint64(8 * (k * ROW + own.listed))
    return Lane(np.uint64(own.at), np.uint64(own.covered), place, np.uint64(own.ahead))


@inlined
def keep(lanes, k, lane, listed):
    """Note what a lane is at."""
    own = lanes[k]
    own.at, own.covered = lane.at, lane.covered
    own.listed = np.int64(lane.place - np.uint64(listed.ctypes.data)) // 8 - k * ROW


@inlined
def next_listed(lane, entry, symbol_bits):
    """The lane behind a token of any kind, which is listed. entry: see `token_at`."""
    token = token_at(lane.at, entry, np.uint64(symbol_bits))
    covered = lane.covered + token.elements
    store(lane.place, 8, covered | token.symbol << CODE)
    return Lane(token.at, covered, lane.place + np.uint64(8), lane.ahead)


@inlined
def taken(lane, entry, window, reach):
    """The lane behind the token of an entry, which is listed."""
    used, elements = split_entry(entry, window)
    covered = lane.covered + elements
    prefetch(lane.ahead + ((covered & reach) << np.uint64(2)))
    store(lane.place, 8, covered | entry & CODES)
    return Lane(lane.at + used, covered, lane.place + np.uint64(8), lane.ahead)


@inlined
def taken_two(lane, entry, _window, reach):
    """The lane behind the one or two tokens of an entry of `lookup_two`, which are listed."""
    covered = lane.covered + (entry >> np.uint64(8) & MOST_COVERED)
    store(lane.place, 8, covered | entry & CODES)
    covered += entry >> np.uint64(20) & MOST_COVERED
    # Always written, counted only if there is a second token: no branch.
    store(lane.place + np.uint64(8), 8, covered | (entry << np.uint64(15)) & CODES)
    prefetch(lane.ahead + ((covered & reach) << np.uint64(2)))
    place = lane.place + (np.uint64(8) << (entry >> np.uint64(32) & ONE))
    return Lane(lane.at + (entry & np.uint64(255)), covered, place, lane.ahead)


@inlined
def fill_four(lanes, reach, tables, listed, entries, take, most):
    """Read all lanes in turn until a list is full, or a stream is near its end.

    A token must wait for the one before it in its stream, but not for other streams. entries: a
    look-up table. take: `taken` or `taken_two`, as the table needs. most: tokens of an entry.
    """
    one, few, more = tables.one, np.uint64(tables.one.size - 1), np.uint64(entries.size - 1)
    rounds = np.int64(1)
    while rounds > 0:
        rounds = np.int64(BATCH)
        for k in range(LANES):
            # As many tokens as certainly fit into the list and the bits left: none needs a test.
            left = (lanes[k].end - lanes[k].at) // LONGEST
            rounds = min(rounds, left, (BATCH - lanes[k].listed) // most)
        # A variable for each lane, and no loop over lanes: so they stay in registers.
        a, b = lane_of(lanes, 0, listed), lane_of(lanes, 1, listed)
        c, d = lane_of(lanes, 2, listed), lane_of(lanes, 3, listed)
        escape = np.uint64(0)
        for _ in range(rounds):
            u, v, w, x = window_at(a.at), window_at(b.at), window_at(c.at), window_at(d.at)
            e, f, g, h = entries[u & more], entries[v & more], entries[w & more], entries[x & more]
            escape = (e | f | g | h) & ESCAPE
            if escape != 0 and most == 1:  # a word that is only too long for `entries`
                e, f, g, h = one[u & few], one[v & few], one[w & few], one[x & few]
                escape = (e | f | g | h) & ESCAPE
            if escape != 0:
                break
            a, b = take(a, e, u, reach), take(b, f, v, reach)
            c, d = take(c, g, w, reach), take(d, h, x, reach)
        for k, lane in ((0, a), (1, b), (2, c), (3, d)):
            if escape != 0:  # each takes one token of any kind
                entry = one[window_at(lane.at) & few]
                lane = next_listed(lane, entry, tables.symbol_bits)
            keep(lanes, k, lane, listed)


@compiled
def fill(lanes, reach, tables, listed):
    """Read every lane until its list is full, its stream ends, or another lane is free.

    lanes: `LANE` (LANES,). reach: uint64, mask of an element's number: LOW32 to prefetch its
    float32, 0 without a track.
    """
    one, many = tables.one, tables.many
    few, more = np.uint64(one.size - 1), np.uint64(many.size - 1)
    busy = True
    for k in range(LANES):
        busy = busy and lanes[k].stream >= 0
    if busy and tables.two.size > 0:
        fill_four(lanes, reach, tables, listed, tables.two, taken_two, 2)
    elif busy:
        fill_four(lanes, reach, tables, listed, tables.many, taken, 1)
    for k in range(LANES):
        if lanes[k].stream < 0:
            continue
        # The end of a stream token by token; all of it while another lane is free.
        lane, full = lane_of(lanes, k, listed), lane_of(lanes, k, listed).place
        full += np.uint64(8 * (BATCH - lanes[k].listed))
        end = np.uint64(lanes[k].end)
        while lane.place < full and lane.at < end:
            is_far = lane.at + np.uint64(LONGEST) <= end
            if is_far and busy:
                # Another lane's list is full or its stream ends: empty the lists, then go on with
                # four.
                break
            window = window_at(lane.at)
            entry = many[window & more] if is_far else ESCAPE
            if entry >= ESCAPE:
                entry = one[window & few]  # never a word of another stream
            lane = next_listed(lane, entry, tables.symbol_bits)
        keep(lanes, k, lane, listed)


@inlined
def begin(lane, stream, streams, track):
    """Let a free lane read a stream."""
    lane.at = streams.begins[stream]
    lane.end = lane.at + streams.sizes[stream]
    lane.covered, lane.stream = 0, stream
    lane.ahead = lane.at >> 3  # any address will do
    if track.mode != 0:  # right for most: a stream seldom holds more than one tensor
        before = stream * streams.elements - 1
        segment = segment_of(track.starts, before + 1)
        lane.ahead = np.int64(track.tracks[segment]) + 4 * (before - track.starts[segment])


@compiled
def read(piece, streams, tables, lists, codes, track):
    """Decode some streams, and advance the track by them or write their codes.

    piece: the first stream, and the end. lists: scratch: listed, uint64 (LANES * ROW,), elements
    covered up to and with a symbol | symbol << 48; positions, uint32; and found, uint16, both
    (ROW,). codes: uint8 or uint16 (n,), zeros, filled if the track's
    mode is 0. Returns a STREAM_* status; never reads or writes out of bounds.

    A lane at the end of its stream takes the next one: streams differ in length, and an idle lane
    would leave the others waiting for memory.
    """
    listed, positions, found = lists
    following, free = piece[0], LANES
    # 0: without a track, prefetch the same address each time.
    reach = np.uint64(0) if track.mode == 0 else LOW32
    lanes = np.empty(LANES, LANE)
    for k in range(LANES):
        lanes[k].stream = -1
    while following < piece[1] or free < LANES:
        for k in range(LANES):
            if lanes[k].stream < 0 and following < piece[1]:
                begin(lanes[k], following, streams, track)
                following += 1
                free -= 1
            lanes[k].listed = 0
        fill(lanes, reach, tables, listed)
        for k in range(LANES):
            lane = lanes[k]
            if lane.stream < 0:
                continue
            before = lane.stream * streams.elements - 1  # position 0 is covered first
            limit = min(streams.elements, streams.n - before - 1)
            # These tests come after a whole batch. Until then only lists are written, and the spare
            # bytes behind a stream cover what was read.
            if lane.at > lane.end:
                return STREAM_ENDS_EARLY
            if lane.covered > limit:
                return STREAM_GOES_ON
            own, m = listed[k * ROW : k * ROW + lane.listed], lane.listed
            if tables.plain:
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
            if largest >= tables.k:
                return STREAM_LEAVES
            if track.mode == 0:
                for i in range(m):
                    codes[before + positions[i]] = found[i]
            elif m > 0:
                segment = segment_of(track.starts, before + positions[0])
                advance(track, segment, before, positions, found, m)
            if lane.at == lane.end:
                # Tokens may end early, because the last zeros are not written; a plain code may
                # not.
                if tables.plain and lane.covered != limit:
                    return STREAM_ENDS_EARLY
                lane.stream = -1
                free += 1
    return STREAM_OK
