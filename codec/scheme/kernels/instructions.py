"""Instructions that numba lacks, and small helpers that several kernels share.

Vectors of LLVM's language are the same on every processor.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from codec.scheme.limits import BLOCK, WORD

from .machine import carray, cgutils, compiled, has_deposit, inlined, instruction, ir

# Numbers in hot loops are uint64: numba computes int64 with uint64 in float64, and an unsigned
# index needs no test for a negative one.
ONE = np.uint64(1)
LOW32 = np.uint64(0xFFFFFFFF)
WIDTHS = (2, 4, 1, 8)  # bytes of elements

# Neighbouring tensors as one long array: the addresses of the float32 that are saved and of those
# they are compared with (uint64), and the first position of each tensor and the end of the last one
# (int64). Callers keep the arrays alive.
Tensors = namedtuple("Tensors", "sources tracks starts")


@instruction("voidptr", "uint64")
def pointer(builder, address):
    """An address as a pointer."""
    return builder.inttoptr(address, ir.IntType(8).as_pointer())


@instruction("int64", "uint64")
def lowest_bit(builder, word):
    """The number of the lowest bit that is set in a uint64 other than 0."""
    # 1: the result for 0 is undefined, so no test for 0 is compiled.
    return builder.cttz(word, ir.IntType(1)(1))


@instruction("int64", "uint64")
def highest_bit(builder, word):
    """The number of the highest bit that is set in a uint64 other than 0."""
    return builder.sub(ir.IntType(64)(63), builder.ctlz(word, ir.IntType(1)(1)))


@instruction("uint64", "uint64")
def count_bits(builder, word):
    """How many bits of a uint64 are set."""
    return builder.ctpop(word)


@instruction("uint64", "uint64")
def reversed_bits(builder, word):
    """The bits of a uint64 from the lowest to the highest."""
    return builder.bitreverse(word)


@instruction("void", "uint64")
def prefetch(builder, address):
    """Prefetch the cache line at any address.

    It goes into the second cache: a batch is larger than the first one, which look-up tables need.
    This was a quarter faster than a prefetch for writing.
    """
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    # For reading (0), into the second cache (2), as data (1).
    builder.call(prefetch, [builder.inttoptr(address, byte), flag(0), flag(2), flag(1)])


@instruction("void", "uint64", "uint64", "int64")
def copy_bytes(builder, target, source, nbytes):
    """memcpy."""
    byte = ir.IntType(8).as_pointer()
    addresses = (builder.inttoptr(address, byte) for address in (target, source))
    cgutils.raw_memcpy(builder, *addresses, nbytes, 1)


def loaded(builder, address, kind):
    """A value at any address."""
    value = builder.load(builder.inttoptr(address, kind.as_pointer()))
    value.align = 1  # LLVM would assume that of the kind
    return value


def stored(builder, value, address):
    """Write a value to any address."""
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 1


def repeated(builder, value, lanes=WORD):
    """A vector of equal values."""
    first = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    first = builder.insert_element(first, value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    return builder.shuffle_vector(first, first, zeros)


def by_width(builder, width, write, widths=WIDTHS):
    """What ``write`` writes for elements of so many bits, a uint64; chosen when it runs."""
    if len(widths) == 1:
        return write(ir.IntType(8 * widths[0]))
    is_first = builder.icmp_unsigned("==", width, width.type(widths[0]))
    with builder.if_else(is_first) as (then, otherwise):
        with then:
            first, first_block = write(ir.IntType(8 * widths[0])), builder.block
        with otherwise:
            other, other_block = by_width(builder, width, write, widths[1:]), builder.block
    chosen = builder.phi(ir.IntType(64))
    chosen.add_incoming(first, first_block)
    chosen.add_incoming(other, other_block)
    return chosen


def resized(builder, value, kind):
    """A number as an integer of another kind."""
    if value.type.width < kind.width:
        return builder.zext(value, kind)
    return builder.trunc(value, kind) if value.type.width > kind.width else value


@instruction("uint64", "uint64", "int64")
def load(builder, address, width):
    """The number of ``width`` bytes at an address."""
    word = ir.IntType(64)
    return by_width(builder, width, lambda k: resized(builder, loaded(builder, address, k), word))


@instruction("void", "uint64", "int64", "uint64")
def store(builder, address, width, value):
    """Write the lowest ``width`` bytes of a number to an address."""

    def write(kind):
        stored(builder, resized(builder, value, kind), address)
        return ir.IntType(64)(0)

    by_width(builder, width, write)


@instruction("uint64", "uint64", "uint64", "int64")
def differing(builder, old, new, width):
    """Bit i: the i-th of WORD elements of ``width`` bytes at two addresses differ."""

    def write(kind):
        values = [loaded(builder, at, ir.VectorType(kind, WORD)) for at in (old, new)]
        return builder.bitcast(builder.icmp_unsigned("!=", *values), ir.IntType(WORD))

    return by_width(builder, width, write)


@instruction("uint64", "uint64", "int64", "uint64", "uint64")
def reaching(builder, address, width, mask, bound):
    """Bit i: the i-th of WORD elements of ``width`` bytes & mask is at least the bound."""

    def write(kind):
        masks, bounds = (repeated(builder, resized(builder, v, kind)) for v in (mask, bound))
        values = builder.and_(loaded(builder, address, ir.VectorType(kind, WORD)), masks)
        return builder.bitcast(builder.icmp_unsigned(">=", values, bounds), ir.IntType(WORD))

    return by_width(builder, width, write)


@instruction("uint64", "uint64", "uint64", "uint64", "uint32")
def difference_of(builder, u, track, out, limit):
    """Subtract WORD float32 and mark the large differences.

    Writes u - track to out, all three given as addresses, and 0 where both have the same bits: the
    same infinity or NaN counts as unchanged. Bit i of the result is set if the i-th u and its track
    differ, and the magnitude of their difference, as an integer, is at least the limit. With
    AVX-512 this takes 4 subtractions and 8 comparisons.
    """
    floats, words = (ir.VectorType(k, WORD) for k in (ir.FloatType(), ir.IntType(32)))
    values = [loaded(builder, address, floats) for address in (u, track)]
    # Equal bits must give 0: infinity - infinity would be NaN.
    differs = builder.icmp_unsigned("!=", *(builder.bitcast(v, words) for v in values))
    zeros = ir.Constant(floats, [0.0] * WORD)
    difference = builder.select(differs, builder.fsub(*values), zeros)
    stored(builder, difference, out)
    bits = builder.bitcast(difference, words)
    # Magnitudes compare as integers, so NaN and infinity are large.
    magnitudes = builder.and_(bits, ir.Constant(words, [2**31 - 1] * WORD))
    large = builder.icmp_unsigned(">=", magnitudes, repeated(builder, limit))
    return builder.bitcast(builder.and_(large, differs), ir.IntType(WORD))


@instruction("float64", "uint64")
def energy_of(builder, address):
    """The sum of squares of BLOCK float32 at an address, in float64.

    The order of the additions is fixed: every processor gets the same sum.
    """
    lanes = 16
    floats, doubles = (ir.VectorType(k, lanes) for k in (ir.FloatType(), ir.DoubleType()))
    total = ir.Constant(doubles, [0.0] * lanes)
    for skip in range(0, 4 * BLOCK, 4 * lanes):
        values = loaded(builder, builder.add(address, address.type(skip)), floats)
        # In float64, squares of float32 neither overflow nor vanish.
        wide = builder.fpext(values, doubles)
        total = builder.fadd(total, builder.fmul(wide, wide))
    while lanes > 1:  # add the upper half of the lanes to the lower one
        lanes //= 2
        kind = ir.VectorType(ir.IntType(32), lanes)
        ranges = (ir.Constant(kind, list(range(i, i + lanes))) for i in (0, lanes))
        total = builder.fadd(*(builder.shuffle_vector(total, total, own) for own in ranges))
    return builder.extract_element(total, ir.IntType(32)(0))


@instruction("uint64", "uint64", "uint64")
def deposit(builder, bits, mask):
    """`spread_bits` by one instruction, pdep of x86."""
    word = ir.IntType(64)
    kind, name = ir.FunctionType(word, [word, word]), "llvm.x86.bmi.pdep.64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [bits, mask])


def spread_bits_slowly(bits, mask):
    """`spread_bits` bit by bit, for processors without that instruction."""
    found = np.uint64(0)
    while bits != 0 and mask != 0:
        place = mask & (~mask + ONE)  # the lowest bit that is set
        found |= place * (bits & ONE)
        mask ^= place
        bits >>= ONE
    return found


@inlined
def spread_bits(bits, mask):
    """Move bit i of ``bits`` to the place of the mask's i-th set bit."""
    return deposit(bits, mask) if has_deposit else spread_bits_slowly(bits, mask)


@inlined
def floats_at(address, n):
    """The n float32 at an address."""
    return carray(pointer(address), (n,), np.float32)


@inlined
def segment_of(starts, position):
    """The tensor that holds a position: the last one that starts there or before.

    numba's own search takes a second to compile.
    """
    low, high = 0, starts.size
    while low < high:
        middle = (low + high) >> 1
        # <=: of several that start here, all but the last are empty.
        if starts[middle] <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inlined
def class_of(run):
    """The class of a run, and the number of its extra bits: see runlength."""
    power = np.uint64(highest_bit(run | ONE))
    extra_bits = max(power, np.uint64(2)) - np.uint64(2)
    # 4 * power plus the two bits below the highest one; the bits below these are extra.
    kind = np.uint64(4) * power + (run >> extra_bits & np.uint64(3))
    is_short = run < np.uint64(16)
    return run if is_short else kind, np.uint64(0) if is_short else extra_bits


@inlined
def extra_of(kind):
    """The number of extra bits of a class of runs."""
    return (kind >> np.uint64(2)) - np.uint64(2) if kind >= np.uint64(16) else np.uint64(0)


@inlined
def run_of(kind, low):
    """The run of a class with these extra bits."""
    lead = np.uint64(4) + (kind & np.uint64(3))
    return lead << extra_of(kind) | low if kind >= np.uint64(16) else kind


@inlined
def log2_of(x):
    """The base-2 logarithm of a positive number, by atanh's series.

    Every processor gets the same bits. The last bits of np.log2 depend on the instruction set, so
    the choice between codes could too.
    """
    fraction, exponent = math.frexp(x)
    if fraction < math.sqrt(0.5):
        fraction, exponent = 2 * fraction, exponent - 1
    ratio = (fraction - 1) / (fraction + 1)
    total = 0.0
    for k in range(21, 0, -2):  # the next term is below 2**-60
        total = total * ratio * ratio + 1 / k
    return exponent + 2 / math.log(2) * ratio * total


@compiled
def address(array):
    """The address of a vector's data, seven times as fast as from numpy."""
    return array.ctypes.data


@compiled
def log2(values, out):
    """out[i] = the base-2 logarithm of values[i]. Both float64."""
    for i in range(values.size):
        out[i] = log2_of(values[i])
