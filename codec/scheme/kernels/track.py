"""The track, and its digest: moved by codes, or made a copy of another state first.

The twins in `plain` say what these compute. See `collect` for sources, tracks, starts, marks and
codes.
"""

from __future__ import annotations

import numpy as np

from codec.scheme.limits import UNIT, WORD

from .machine import (
    ONE,
    STREAMED,
    carray,
    compiled,
    copy_bytes,
    count_bits,
    fence,
    inlined,
    intrinsic,
    ir,
    lowest_bit,
    pointer,
    segment_of,
    stream_line,
    types,
)

BATCH = 2**11  # symbols that are applied at once: their lists stay in the cache
SPARSE = 64  # elements for each changed one: from here on a copy bypasses the caches


@inlined
def mixed(index, word):
    """A 64-bit digest of one element: the finalizer of SplitMix64 on index << 32 | bits."""
    z = np.uint64(index) << np.uint64(32) | np.uint64(word)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@intrinsic
def mixed_all(_context, _address, _index):
    """The sum of `mixed` over WORD float32 at an address, from this index on.

    In vectors of 512 bits, a quarter faster than those that LLVM makes of a loop.
    """
    lanes = 8
    wide = ir.VectorType(ir.IntType(64), lanes)
    narrow = ir.VectorType(ir.IntType(32), lanes)

    def every(number):
        return ir.Constant(wide, [number] * lanes)

    def generate(_context, builder, _signature, arguments):
        address, first = arguments
        nothing, position = ir.Constant(wide, ir.Undefined), ir.IntType(32)
        index = builder.insert_element(nothing, first, position(0))
        index = builder.shuffle_vector(
            index, nothing, ir.Constant(ir.VectorType(position, lanes), [0] * lanes)
        )
        index = builder.add(index, ir.Constant(wide, list(range(lanes))))
        total = every(0)
        for skip in range(0, WORD, lanes):
            at = builder.add(address, ir.Constant(ir.IntType(64), 4 * skip))
            words = builder.load(builder.inttoptr(at, narrow.as_pointer()))
            words.align = 4
            here = builder.add(index, every(skip))
            z = builder.or_(builder.shl(here, every(32)), builder.zext(words, wide))
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z = builder.xor(z, builder.lshr(z, every(shift)))
                z = builder.mul(z, every(factor))
            total = builder.add(total, builder.xor(z, builder.lshr(z, every(31))))
        # Modulo 2**64, so the order of additions does not matter.
        parts = [builder.extract_element(total, position(i)) for i in range(lanes)]
        while len(parts) > 1:
            parts = [builder.add(*pair) for pair in zip(parts[::2], parts[1::2])]
        return parts[0]

    return types.uint64(types.uint64, types.uint64), generate


@compiled
def digest(address, n, first):
    """The sum of `mixed` over n float32 at an address, the first of which has index ``first``."""
    total, whole = np.uint64(0), n // WORD * WORD
    for i in range(0, whole, WORD):
        total += mixed_all(np.uint64(address) + np.uint64(4 * i), np.uint64(first) + np.uint64(i))
    words = carray(pointer(address), n).view(np.uint32)
    for i in range(whole, n):
        total += mixed(first + i, words[i])
    return total


@inlined
def advance(
    tracks, starts, segment, base, positions, found, m, levels, stride, mode, sums, scratch
):
    """track[base + positions[j]] += levels[found[j]] in float32 for m rising positions.

    Elements that are not listed stay untouched: adding 0.0 would turn a -0.0 into +0.0.
    levels: float32, one for each code. stride: from the levels of one tensor to those of the next;
    0 if all share them. mode: 1
    computes the new digests only, 2 changes the track too. sums: uint64 (tensors,), the change
    of each tensor's digest is added. scratch: uint32 (2, >= m). Returns the tensor of the last
    position.
    """
    j = np.int64(0)
    while j < m:
        while starts[segment + 1] <= base + positions[j]:
            segment += 1
        end = m
        # Positions rise: usually all belong to one tensor, and one comparison shows it.
        if base + positions[m - 1] >= starts[segment + 1]:
            end = j
            while base + positions[end] < starts[segment + 1]:
                end += 1
        size = starts[segment + 1] - starts[segment]
        track = carray(pointer(tracks[segment]), (size,))
        # It may wrap below 0; adding a position wraps it back.
        offset = np.uint64(base - starts[segment])
        old, new = scratch[0], scratch[1]
        origin = np.uint64(segment * stride)
        if mode == 2:
            for i in range(np.uint64(j), np.uint64(end)):
                at = offset + np.uint64(positions[i])
                value = track[at]
                moved = np.float32(value + levels[origin + np.uint64(found[i])])
                track[at] = moved
                old[i] = np.float32(value).view(np.uint32)
                new[i] = moved.view(np.uint32)
        else:
            for i in range(np.uint64(j), np.uint64(end)):
                value = track[offset + np.uint64(positions[i])]
                old[i] = np.float32(value).view(np.uint32)
                new[i] = np.float32(value + levels[origin + np.uint64(found[i])]).view(np.uint32)
        change = np.uint64(0)
        for i in range(np.uint64(j), np.uint64(end)):
            at = offset + np.uint64(positions[i])
            # Modulo 2**64, so threads may add their parts in any order.
            change += mixed(at, new[i]) - mixed(at, old[i])
        sums[segment] += change
        j = end
    return segment


@inlined
def copy_past_caches(target, source, nbytes):
    """Copy past the caches, which saves reading the lines that are overwritten."""
    # Up to the next address that 64 divides.
    head = min(nbytes, np.int64(-target & np.uint64(63)))
    copy_bytes(target, source, head)
    target, source, nbytes = target + np.uint64(head), source + np.uint64(head), nbytes - head
    for _ in range(nbytes // STREAMED):
        stream_line(target, source)
        target, source = target + np.uint64(STREAMED), source + np.uint64(STREAMED)
    copy_bytes(target, source, nbytes % STREAMED)
    fence()


@inlined
def become(sources, tracks, starts, begin, end, changes):
    """tracks = sources at the positions begin..end, of which ``changes`` will change at once."""
    segment = segment_of(starts, begin)
    sparse = changes * SPARSE < end - begin
    while begin < end:
        part = min(end, starts[segment + 1])
        skip = np.uint64(4 * (begin - starts[segment]))
        target, source = tracks[segment] + skip, sources[segment] + skip
        # Few of the copied elements are needed again, so they should not fill the caches.
        if sparse:
            copy_past_caches(target, source, 4 * (part - begin))
        else:
            copy_bytes(target, source, 4 * (part - begin))
        begin = part
        segment += 1


@compiled
def advance_survivors(
    first,
    last,
    n,
    marks,
    codes,
    sources,
    tracks,
    starts,
    levels,
    mode,
    sums,
    positions,
    scratch,
):
    """Advance the track by the survivors of the units first..last.

    n: elements. positions: uint32 (ROW,), scratch. sources: see `become`. The others: see
    `advance`.
    """
    for unit in range(first, last):
        base = unit * UNIT
        read = advanced = np.uint64(base)
        if sources.size > 0:
            # `become` copies in another way where few elements change.
            changes = np.int64(0)
            for group in range(base // WORD, (base + UNIT) // WORD):
                changes += np.int64(count_bits(marks[group]))
            become(sources, tracks, starts, base, min(base + UNIT, n), changes)
        segment = segment_of(starts, base)
        for group in range(base // WORD, (base + UNIT) // WORD):
            mark = marks[group]
            here = np.uint64(group * WORD - base)
            while mark != 0:
                positions[read - advanced] = here + np.uint64(lowest_bit(mark))
                mark &= mark - ONE
                read += ONE
            if read - advanced >= np.uint64(BATCH) or group == (base + UNIT) // WORD - 1:
                segment = advance(
                    tracks,
                    starts,
                    segment,
                    base,
                    positions,
                    codes[advanced:read],
                    np.int64(read - advanced),
                    levels,
                    np.int64(0),
                    mode,
                    sums,
                    scratch,
                )
                advanced = read


@compiled
def advance_listed(
    begin,
    end,
    positions,
    found,
    m,
    sources,
    tracks,
    starts,
    levels,
    mode,
    sums,
    scratch,
):
    """Advance the track by m codes, found, at rising positions from ``begin`` on.

    sources: see `become`, at the positions begin..end. The others: see `advance`.
    """
    if sources.size > 0:
        become(sources, tracks, starts, begin, end, m)
    segment = segment_of(starts, begin)
    for i in range(0, m, BATCH):
        segment = advance(
            tracks,
            starts,
            segment,
            begin,
            positions[i:],
            found[i:],
            min(m - i, BATCH),
            levels,
            np.int64(0),
            mode,
            sums,
            scratch,
        )
