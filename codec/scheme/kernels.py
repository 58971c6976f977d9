"""Every compiled loop of the codec, in one file.

The stages, in the order of the file, with the modules of codec.scheme that call them:

    machine      _difference, _energy, _copy, _stream, _fence, _prefetch, _lowest, _highest:
                 instructions that numba lacks. copy_all (saving.channel), address (survivors),
                 log2 (huffman)
    quantize     from arrays: bucket_statistics, assign_codes, bucket_energies (quantize)
                 from u and track: probe, collect (survivors); magnitudes, squares_left,
                 collect_uniform, largest (uniform); sample_blocks, moved_since (origin)
                 codes to survivors: pack_codes (survivors); to final codes: settle (coders)
                 priority promotion: promote_bins, promote (quantize)
                 many small tensors: quantize_batch (batch)
    tokens       settle_tokens, sum_tokens (coders); near_words, write (prefix): code, and
                 advance the track in the same pass
    digests      _mixed, _mixed_all, digest (digest); _advance moves the track and its digest: for
                 write, read, advance_survivors and advance_listed
    prefix codes package_merge, canonical, pack_lengths, unpack_lengths, is_complete (huffman);
                 token_bits (tables); check_words, stream_begins, lookup_two (prefix); lookup
                 (prefix, residual)
    decode       _view ... _become, then read (prefix), the loop around them
    residuals    sample_steps, join_rows, count_steps, write_steps, read_steps (residual)
    contexts     _decide, code_contexts, advance_listed (context); advance_survivors (payload)

numba caches a compiled function by its file and does not notice an edited callee elsewhere, so
callers and callees stay together. The kernels release the GIL, allocate almost nothing, and never
raise: a decoder returns a status, which the calling module turns into a named error.

Values are handled as their IEEE 754 bits. A float32 is sign (1) | exponent field (8) |
mantissa (23), so ``bits >> 23`` is at once the exponent bucket and its sign (below: its
*bin*), and magnitudes compare as integers.

A delta spans several tensors: elements are numbered through all of them (their *position*).
``starts`` (int64, s + 1) holds the first position of each tensor and the end of the last one.
``sources`` and ``tracks`` (uint64, s) are the addresses of their float32 data: u, what is saved,
and the track it is compared with. Callers keep the arrays alive.

Work is cut into units of UNIT positions. A unit's *survivors*, the elements that may have a
code other than 0, are marked in ``marks`` (uint64, one bit a position, lowest first), and
their codes stand one after another in the unit's part of ``codes`` (uint8 or uint16, with
room for one a position); ``numbers`` (int32) says how many.
"""

from __future__ import annotations

import math
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

N_BINS = 512  # sign (2) x exponent field (256)
NON_FINITE_FIELD = 255
LEADING = 2.0**23  # the leading one of a mantissa
LAST_BIT = 127 + 23  # the field of an exponent, less it, is the exponent of a mantissa's last bit
MAGNITUDE = np.uint32(0x7FFFFFFF)
MANTISSA = np.uint32(0x7FFFFF)
INFINITE = np.uint32(0x7F800000)
FINE_SHIFT = np.uint32(17)  # of a magnitude: 64 fine bins an octave
N_FINE = (NON_FINITE_FIELD + 1) << 6

WORD = 64  # positions in one element of marks
# A block's delta, 1 KiB, stays in the first cache.
BLOCK = 2**8  # positions whose delta is computed at once
PROBES = 4  # blocks of a tensor, at least, that are probed first
UNIT = 2**16

MAX_LENGTH = 15  # bits of a code word
SYMBOL_BITS, LAST_SYMBOL = 16, 2**16 - 1  # of the symbols of a code
FIRST_LENGTH = 8  # the first length is stored as a difference from this one
# The longest run is below MAX_STREAM = 2**21: its class is 4 * 20 + 3.
MAX_CLASSES = 84  # of runs: all below MAX_STREAM
MAX_STREAM = 2**21  # elements
BATCH = 2**11  # symbols decoded before they are applied: their lists stay in the cache
STREAMED = 256  # bytes
SPARSE = 64  # elements for each changed one: from here on a copy bypasses the caches
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

# Not plain numbers: numba would compile a helper once more for each of them.
BIT, WIDEST = np.int64(1), np.int64(8)  # bits of a code length in a table: 1 to 8
# Numbers in hot loops are uint64: numba computes int64 with uint64 in float64, and an unsigned
# index needs no test for a negative one.
ONE, FIVE = np.uint64(1), np.uint64(5)
NEAR = np.uint64(128)  # shorter runs are counted and written without asking for their class
NEAR_LENGTH, NEAR_BITS = np.uint64(27), np.uint64(2**27 - 1)
LOW32 = np.uint64(0xFFFFFFFF)
# Entries of look-up tables and of lists have the symbol in bits 48-62; bit 63 marks an escape, so
# `entry >= ESCAPE` tests it, also for several entries joined by |.
CODE = np.uint64(48)  # where the symbol stands in an entry
ESCAPE = np.uint64(1 << 63)
CODES = np.uint64(0x7FFF << 48)

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
ROW1, ROW2, ROW3 = np.uint64(ROW), np.uint64(2 * ROW), np.uint64(3 * ROW)


class _Pending:
    """Stands for a function until numba is imported.

    The first call of any of them runs `load`, which replaces all.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, bool] | None) -> None:
        self.function = function
        self.options = options  # of njit; None for an intrinsic

    def __call__(self, *arguments: Any) -> Any:
        load()
        return globals()[self.function.__name__](*arguments)

    def made(self) -> Any:
        """The function compiled by numba; without a cache where no folder can hold one."""
        from numba import config, njit
        from numba.extending import intrinsic

        if self.options is None:
            return intrinsic(self.function)
        try:
            return njit(**self.options)(self.function)
        except RuntimeError:  # numba: "cannot cache function ...: no locator available"
            folder = _temporary_cache()
        if folder is None:
            return njit(**self.options | {"cache": False})(self.function)
        before, config.CACHE_DIR = config.CACHE_DIR, folder
        try:
            return njit(**self.options)(self.function)
        finally:
            config.CACHE_DIR = before


def _temporary_cache() -> str | None:
    """A folder for compiled code where neither the package's folder nor the user's can have it.

    Code is loaded from it, so it must be this user's alone. None if there is no such folder.
    """
    user = getattr(os, "getuid", lambda: 0)()
    try:
        place = tempfile.gettempdir()
        if place == os.getcwd():  # Python found no other; a copied folder may bring code along
            return None
        folder = Path(place, f"lcviz-kernels-{user}")
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if status.st_uid != user or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o022:
            return None
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return str(folder)


def _compiled(function: Callable[..., Any]) -> Any:
    """A loop for other modules. It releases the GIL, and is cached where that is possible."""
    return _Pending(function, {"cache": True, "nogil": True})


def _inlined(function: Callable[..., Any]) -> _Pending:
    """For small helpers. Those in a hot loop take no arrays: numba counts references to arrays
    by atomic additions, which slow down threads that share an array."""
    return _Pending(function, {"nogil": True, "forceinline": True})


def _intrinsic(function: Callable[..., Any]) -> _Pending:
    """An instruction of the machine, written in LLVM's language."""
    return _Pending(function, None)


def load() -> None:
    """Import numba, and replace each pending function of this module by what numba makes of it.

    Importing numba takes longer than importing the rest of the codec, much of which works without
    it. Nothing is compiled here: numba compiles each function at its first call.
    """
    global carray, cgutils, ir, types
    from llvmlite import ir
    from numba import carray, types
    from numba.core import cgutils

    names = globals()
    made = {name: f.made() for name, f in list(names.items()) if isinstance(f, _Pending)}
    # Two threads may come here at once. Both take the functions of the first one.
    names.update(names.setdefault("_MADE", made))


@_intrinsic
def _pointer(_context, _address):
    """The address of float32 data as a pointer."""

    def generate(_context, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], ir.FloatType().as_pointer())

    return types.CPointer(types.float32)(types.uint64), generate


@_intrinsic
def _difference(_context, _u, _track, _out, _limit):
    """Subtract 64 float32 and mark the large differences.

    Writes u - track to out, all three given as addresses, and 0 where both have the same bits: the
    same infinity or NaN counts as unchanged. Bit i of the result is set if the i-th u and its track
    differ, and the magnitude of their difference, as an integer, is at least the limit. LLVM's
    vectors are the same on every processor; with AVX-512 this takes 4 subtractions and 8
    comparisons.
    """
    element, index = ir.IntType(32), ir.IntType(32)
    floats, words = ir.VectorType(ir.FloatType(), WORD), ir.VectorType(element, WORD)

    def generate(_context, builder, _signature, arguments):
        u, track, out, limit = arguments
        values = []
        for address in (u, track):
            value = builder.load(builder.inttoptr(address, floats.as_pointer()))
            # LLVM would assume the alignment of the whole vector.
            value.align = 4
            values.append(value)
        # Equal bits must give 0: infinity - infinity would be NaN.
        differs = builder.icmp_unsigned("!=", *(builder.bitcast(v, words) for v in values))
        zeros = ir.Constant(floats, [0.0] * WORD)
        difference = builder.select(differs, builder.fsub(*values), zeros)
        builder.store(difference, builder.inttoptr(out, floats.as_pointer())).align = 4
        bits = builder.bitcast(difference, words)
        magnitudes = builder.and_(bits, ir.Constant(words, [2**31 - 1] * WORD))
        # The limit in all lanes. Magnitudes compare as integers, so NaN and infinity are large.
        nothing = ir.Constant(words, ir.Undefined)
        limits = builder.insert_element(nothing, limit, index(0))
        every = ir.Constant(ir.VectorType(index, WORD), [0] * WORD)
        limits = builder.shuffle_vector(limits, nothing, every)
        large = builder.icmp_unsigned(">=", magnitudes, limits)
        return builder.bitcast(builder.and_(large, differs), ir.IntType(WORD))

    return types.uint64(types.uint64, types.uint64, types.uint64, types.uint32), generate


@_intrinsic
def _energy(_context, _address):
    """The sum of squares of BLOCK float32 at an address, in float64.

    The order of the additions is fixed: every processor gets the same sum.
    """
    lanes = 16
    floats = ir.VectorType(ir.FloatType(), lanes)
    doubles = ir.VectorType(ir.DoubleType(), lanes)

    def generate(_context, builder, _signature, arguments):
        (address,) = arguments
        total = ir.Constant(doubles, [0.0] * lanes)
        for skip in range(0, 4 * BLOCK, 4 * lanes):
            at = builder.add(address, ir.Constant(ir.IntType(64), skip))
            values = builder.load(builder.inttoptr(at, floats.as_pointer()))
            values.align = 4
            # In float64, squares of float32 neither overflow nor vanish.
            wide = builder.fpext(values, doubles)
            total = builder.fadd(total, builder.fmul(wide, wide))
        # Add the upper half of the lanes to the lower one, until one lane is left.
        while lanes_left := total.type.count // 2:
            halves = [
                builder.shuffle_vector(
                    total,
                    total,
                    ir.Constant(
                        ir.VectorType(ir.IntType(32), lanes_left),
                        list(range(first, first + lanes_left)),
                    ),
                )
                for first in (0, lanes_left)
            ]
            total = builder.fadd(*halves)
        return builder.extract_element(total, ir.Constant(ir.IntType(32), 0))

    return types.float64(types.uint64), generate


@_intrinsic
def _copy(_context, _target, _source, _nbytes):
    """memcpy."""

    def generate(context, builder, _signature, arguments):
        byte = ir.IntType(8).as_pointer()
        target, source = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, target, source, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.int64), generate


@_compiled
def copy_all(targets, sources, sizes):
    """Copy sizes[i] bytes from sources[i] to targets[i]: addresses, all int64 (n,)."""
    for i in range(sizes.size):
        _copy(np.uint64(targets[i]), np.uint64(sources[i]), sizes[i])


@_compiled
def address(array):
    """The address of a vector's data, seven times as fast as from numpy."""
    return array.ctypes.data


@_inlined
def _log2(x):
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


@_compiled
def log2(values, out):
    """out[i] = the base-2 logarithm of values[i]. Both float64."""
    for i in range(values.size):
        out[i] = _log2(values[i])


@_intrinsic
def _stream(_context, _target, _source):
    """Copy STREAMED bytes past the caches, to an address that 64 divides; see `_fence`."""

    def generate(context, builder, _signature, arguments):
        line, step = ir.VectorType(ir.IntType(64), 8).as_pointer(), ir.IntType(64)
        lines = []
        for address in arguments:
            skipped = (builder.add(address, step(i)) for i in range(0, STREAMED, 64))
            lines.append([builder.inttoptr(skip, line) for skip in skipped])
        for target, source in zip(*lines):
            value = builder.load(source)
            value.align = 4
            # A store past the caches needs an aligned address.
            store = builder.store(value, target)
            store.align = 64
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@_intrinsic
def _fence(_context):
    """Make all streamed bytes visible to every thread before going on."""

    def generate(context, builder, _signature, _arguments):
        # Streamed bytes may become visible after later stores of the same thread.
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@_intrinsic
def _prefetch(_context, _address):
    """Prefetch the cache line at any address.

    It goes into the second cache: a batch is larger than the first one, which look-up tables need.
    This was a quarter faster than a prefetch for writing.
    """

    def generate(context, builder, _signature, arguments):
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        prefetch = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        where = builder.inttoptr(arguments[0], byte)
        # For reading (0), into the second cache (2), as data (1).
        builder.call(prefetch, [where, flag(0), flag(2), flag(1)])
        return context.get_dummy_value()

    return types.void(types.uint64), generate


@_intrinsic
def _lowest(_context, _word):
    """The number of the lowest bit that is set in a uint64 other than 0."""

    def generate(_context, builder, _signature, arguments):
        # 1: the result for 0 is undefined, so no test for 0 is compiled.
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@_intrinsic
def _highest(_context, _word):
    """The number of the highest bit that is set in a uint64 other than 0."""

    def generate(_context, builder, _signature, arguments):
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.uint64), generate


# From the delta to codes.


@_inlined
def _segment_of(starts, position):
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


@_compiled
def bucket_statistics(bits, count, low, high):
    """Count the members of every bin and their extreme magnitudes; zeros are in no bin.

    bits: uint32 (n,), float32 values seen as integers. count: int64 (512,), low and high:
    uint32 (512,), all updated in place; low and high are magnitudes (sign bit cleared), low
    must come in as 0xFFFFFFFF and high as 0.
    """
    for i in range(bits.size):
        word = bits[i]
        magnitude = word & MAGNITUDE
        if magnitude != 0:
            b = word >> np.uint32(23)
            count[b] += 1
            low[b] = min(low[b], magnitude)
            high[b] = max(high[b], magnitude)


@_compiled
def assign_codes(bits, code_of_bin, codes):
    """codes[i] = code_of_bin[bin of value i], and 0 for zeros.

    bits: uint32 (n,). code_of_bin: uint16 (512,). codes: uint8 or uint16 (n,), filled.
    """
    for i in range(bits.size):
        word = bits[i]
        codes[i] = 0 if word & MAGNITUDE == 0 else code_of_bin[word >> np.uint32(23)]


@_compiled
def bucket_energies(values, code_of_bin, levels, codes, energy, residual):
    """Codes, and per code the sums of value^2 and (value - level)^2, in one pass.

    values: float32 (n,), finite. code_of_bin: uint16 (512,). levels: float32 (k,). codes:
    uint8 or uint16 (n,), energy and residual: float64 (k,), zero on entry; all filled.
    """
    bits = values.view(np.uint32)
    for i in range(values.size):
        word = bits[i]
        code = 0
        if word & MAGNITUDE != 0:
            code = code_of_bin[word >> np.uint32(23)]
        value = np.float64(values[i])
        off = value - np.float64(levels[code])
        codes[i] = code
        energy[code] += value * value
        residual[code] += off * off


@_inlined
def _threshold_for(count, keep, least):
    """The lowest magnitude of the exponents that hold the ``keep`` largest bins met so far.

    No bin below it can be among the ``keep`` largest of all, whatever follows.
    """
    found = 0
    for field in range(NON_FINITE_FIELD, 0, -1):
        # Both signs of a field count: which comes first depends on extremes known later.
        found += np.int64(count[field] > 0) + np.int64(count[256 + field] > 0)
        if found >= keep:
            return max(least, np.uint32(field) << np.uint32(23))
    return least


@_compiled
def probe(sources, tracks, starts, keep, delta, count):
    """A threshold for `collect` from a few blocks of every tensor; arguments as there.

    The largest values are often in the last tensor; without a probe many survivors would be noted
    for nothing. count: int64 (512,), zeros, changed.
    """
    words = delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    threshold = np.uint32(1)
    for segment in range(starts.size - 1):
        size = starts[segment + 1] - starts[segment]
        # A block in the middle of each stretch of `stride` elements, within one tensor; smaller
        # tensors have none.
        stride = min(max(size // PROBES, BLOCK), UNIT)
        for begin in range((stride - BLOCK) // 2, size - BLOCK + 1, stride):
            u = sources[segment] + np.uint64(4 * begin)
            track = tracks[segment] + np.uint64(4 * begin)
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = _difference(u + skip, track + skip, here + skip, threshold)
                while mark != 0:
                    count[words[WORD * group + _lowest(mark)] >> np.uint32(23)] += 1
                    mark &= mark - ONE
            threshold = _threshold_for(count, keep, threshold)
    return threshold


@_compiled
def collect(
    sources,
    tracks,
    starts,
    first,
    last,
    keep,
    threshold,
    code_of_bin,
    delta,
    marks,
    codes,
    numbers,
    count,
    low,
    high,
    mantissas,
    energy,
):
    """Find the elements of the ``keep`` largest bins of u - track in the units first..last.

    threshold: uint32, at least 1: smaller magnitudes cannot be among them. It rises during
    the pass, so smaller bins are incomplete. code_of_bin: uint16 (512,), the code to
    note down. delta: float32 (3, BLOCK), scratch. marks, codes, numbers: filled for these
    units. count, low, high: as for `bucket_statistics`, of the elements met; right for every
    bin that can be among the ``keep`` largest. mantissas: int64 (512,), raised by the mantissas of
    these elements, without the leading one. energy: float64 (units,), filled for these units: the
    sum of all squares of u - track. Returns the last threshold.
    """
    # delta[0] holds the block's u - track. delta[1] is zeros: a gathered block is its own
    # difference.
    words = delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    nothing = here + np.uint64(4 * BLOCK)
    delta[1] = 0
    n = starts[-1]
    segment = _segment_of(starts, first * UNIT)
    # The threshold rises quickly at first: look after 1, 2, 4 ... blocks, then once a unit.
    blocks, look_again = 0, 1
    for unit in range(first, last):
        # A unit's codes begin where its positions do: units are independent of each other.
        at = np.uint64(unit * UNIT)
        squares = 0.0
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            while starts[segment + 1] <= block:
                segment += 1
            u, subtract = here, nothing
            if block + BLOCK <= starts[segment + 1]:
                skip = np.uint64(4 * (block - starts[segment]))
                u, subtract = sources[segment] + skip, tracks[segment] + skip
            else:
                segment = _gather(sources, tracks, starts, segment, block, delta[0])
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = _difference(u + skip, subtract + skip, here + skip, threshold)
                marks[block // WORD + group] = mark
                while mark != 0:
                    word = words[WORD * group + _lowest(mark)]
                    mark &= mark - ONE
                    magnitude = word & MAGNITUDE
                    b = word >> np.uint32(23)
                    # A bin below the final threshold is noted, too; `settle` drops it.
                    codes[at] = code_of_bin[b]
                    at += ONE
                    count[b] += 1
                    mantissas[b] += np.int64(word & MANTISSA)
                    if magnitude < low[b]:  # rare, so cheaper than min and max
                        low[b] = magnitude
                    if magnitude > high[b]:
                        high[b] = magnitude
            # Of all elements, also of those below the threshold.
            squares += _energy(here)
            blocks += 1
            if blocks == look_again:
                look_again += min(look_again, UNIT // BLOCK)
                threshold = _threshold_for(count, keep, threshold)
        # The last unit has marks beyond the last element.
        met = (min((unit + 1) * UNIT, n) + BLOCK - 1) // BLOCK * BLOCK
        for group in range(met // WORD, (unit + 1) * (UNIT // WORD)):
            marks[group] = 0
        numbers[unit] = np.int64(at) - unit * UNIT
        energy[unit] = squares
    return threshold


@_compiled
def magnitudes(sources, tracks, starts, first, last, stride, delta, count, high):
    """Count how often each fine bin of magnitudes occurs in u - track, in the units first..last.

    stride: 1 to look at every block, 2 at every other one, and so on. delta: float32 (3, BLOCK),
    scratch. count: int64 (N_FINE,), by magnitude >> FINE_SHIFT; changes of 0 are not counted. high:
    uint32 (tensors,), raised to the largest magnitude of each tensor. Returns the positions that
    were looked at.
    """
    words = delta[0].view(np.uint32)
    here = np.uint64(delta.ctypes.data)
    nothing = here + np.uint64(4 * BLOCK)
    delta[1] = 0
    segment = _segment_of(starts, first * UNIT)
    end, met = min(last * UNIT, starts[-1]), 0
    for block in range(first * UNIT, end, stride * BLOCK):
        met += min(BLOCK, end - block)
        while starts[segment + 1] <= block:
            segment += 1
        u, subtract, own = here, nothing, segment
        if block + BLOCK <= starts[segment + 1]:
            skip = np.uint64(4 * (block - starts[segment]))
            u, subtract = sources[segment] + skip, tracks[segment] + skip
        else:
            own = -1  # shared by several tensors
            segment = _gather(sources, tracks, starts, segment, block, delta[0])
        largest = np.uint32(0)
        for group in range(BLOCK // WORD):
            skip = np.uint64(4 * WORD * group)
            mark = _difference(u + skip, subtract + skip, here + skip, np.uint32(1))
            while mark != 0:
                i = WORD * group + _lowest(mark)
                mark &= mark - ONE
                magnitude = words[i] & MAGNITUDE
                count[magnitude >> FINE_SHIFT] += 1
                largest = max(largest, magnitude)
                if own < 0:
                    at = _segment_of(starts, block + i)
                    high[at] = max(high[at], magnitude)
        if own >= 0:
            high[own] = max(high[own], largest)
    return met


@_compiled
def sample_blocks(tensors, starts, stride, sample):
    """Copy every stride-th block of several tensors.

    tensors: uint64 (s,), addresses. sample: float32 (blocks, BLOCK), filled; the last block only
    as far as the tensors reach.
    """
    segment = 0
    for i in range(sample.shape[0]):
        begin = i * stride * BLOCK
        while starts[segment + 1] <= begin:
            segment += 1
        _gather_tracks(tensors, starts, segment, begin, sample[i])


@_compiled
def moved_since(tensors, starts, stride, sample, delta):
    """The sum of squared differences between tensors and the blocks from `sample_blocks`.

    Differences that are not finite are left out. delta: float32 (2, BLOCK), scratch.
    """
    segment, total = 0, 0.0
    here, own = np.uint64(delta.ctypes.data), np.uint64(delta[1].ctypes.data)
    base = np.uint64(sample.ctypes.data)
    for i in range(sample.shape[0]):
        begin = i * stride * BLOCK
        while starts[segment + 1] <= begin:
            segment += 1
        u = own
        if begin + BLOCK <= starts[segment + 1]:
            u = tensors[segment] + np.uint64(4 * (begin - starts[segment]))
        else:
            delta[1] = 0
            _gather_tracks(tensors, starts, segment, begin, delta[1])
        for skip in range(0, 4 * BLOCK, 4 * WORD):
            there = base + np.uint64(4 * BLOCK * i + skip)
            _difference(u + np.uint64(skip), there, here + np.uint64(skip), np.uint32(1))
        squares = _energy(here)
        # False for NaN, too.
        if squares < np.inf:
            total += squares
            continue
        for j in range(BLOCK):
            difference = np.float64(delta[0, j])
            if abs(difference) < np.inf:
                total += difference * difference
    return total


@_compiled
def largest(bits):
    """The largest magnitude of the finite float32 values, given as uint32 (n,)."""
    most = np.uint32(0)
    for i in range(bits.size):
        magnitude = bits[i] & MAGNITUDE
        most = max(most, magnitude if magnitude < INFINITE else np.uint32(0))
    return most


@_inlined
def _area(y, offset):
    """The integral from 0 to y of (x - floor(x + offset))^2, the squared errors in steps of 1."""
    q = np.floor(y + offset)
    if q <= 0:
        return y**3 / 3
    above, below = (1 - offset) ** 3 / 3, offset**3 / 3
    return above + (q - 1) * (above + below) + (y - q) ** 3 / 3 + below


@_compiled
def squares_left(low, high, count, size, offset):
    """The estimated sum of squares that uniform steps leave, with members spread evenly in bins.

    low, high: float64 (bins,), the ends of each bin of magnitudes. count: int64 (bins,), members.
    size, offset: float64, as for `collect_uniform`.
    """
    total = 0.0
    for i in range(count.size):
        left = _area(high[i] / size, offset) - _area(low[i] / size, offset)
        total += count[i] * left / (high[i] - low[i])
    return total * size**3


@_compiled
def collect_uniform(
    sources,
    tracks,
    starts,
    first,
    last,
    threshold,
    end,
    beyond_end,
    size,
    offset,
    delta,
    marks,
    codes,
    numbers,
    count,
    energy,
    rest,
):
    """Quantize u - track in uniform steps, in the units first..last.

    A change of magnitude a has the number q = floor(a / size + offset) and the code 2q - 1, or
    2q if it is negative. threshold: uint32, the smallest magnitude with q = 1. beyond_end: uint32,
    the smallest that counts in blocks from the element ``end`` on. size, offset: float64. delta: as
    in `magnitudes`. marks, codes, numbers: filled for these units. count: int64 (k,): how often
    each code occurs; count[0]: how many changes lie beyond the last code, or are NaN. These get the
    code 1. energy, rest: float64 (units,), filled for these units: the sums of squares of u - track
    before and after the step.
    """
    words = delta[0].view(np.uint32)
    values = delta[0]
    here = np.uint64(delta.ctypes.data)
    nothing = here + np.uint64(4 * BLOCK)
    # delta[2] holds the track of a gathered block.
    gathered = here + np.uint64(8 * BLOCK)
    delta[1] = 0
    n = starts[-1]
    # uniform._first_step multiplies by the same number, so `threshold` is exact.
    per_step = 1 / size
    # The first number of steps without a code: count has 2 * (most - 1) + 1 entries.
    most = np.float64((count.size + 1) // 2)
    segment = _segment_of(starts, first * UNIT)
    for unit in range(first, last):
        at = np.uint64(unit * UNIT)
        squares = gain = 0.0
        for block in range(unit * UNIT, min((unit + 1) * UNIT, n), BLOCK):
            while starts[segment + 1] <= block:
                segment += 1
            u, subtract, track = here, nothing, gathered
            if block + BLOCK <= starts[segment + 1]:
                skip = np.uint64(4 * (block - starts[segment]))
                u, subtract = sources[segment] + skip, tracks[segment] + skip
                track = subtract
            else:
                _gather_tracks(tracks, starts, segment, block, delta[2])
                segment = _gather(sources, tracks, starts, segment, block, delta[0])
            old = carray(_pointer(track), (BLOCK,))
            least = threshold if block < end else beyond_end
            for group in range(BLOCK // WORD):
                skip = np.uint64(4 * WORD * group)
                mark = _difference(u + skip, subtract + skip, here + skip, least)
                marks[block // WORD + group] = mark
                while mark != 0:
                    i = WORD * group + _lowest(mark)
                    mark &= mark - ONE
                    change = np.float64(values[i])
                    steps = abs(change) * per_step + offset
                    # Stays 0 for NaN and what is too large. Callers see count[0] and discard all
                    # codes.
                    code = 0
                    if steps < most:
                        code = 2 * np.int64(steps) - 1 + np.int64(words[i] >> np.uint32(31))
                    codes[at] = max(code, 1)
                    at += ONE
                    count[code] += 1
                    # What the decoder will do: the level and the sum are each rounded once to
                    # float32.
                    level = np.float32(np.copysign(np.float64(np.int64(steps)) * size, change))
                    moved = np.float32(old[i] + level)
                    left = np.float64(old[i]) + change - np.float64(moved)
                    gain += change * change - left * left
            squares += _energy(here)
        met = (min((unit + 1) * UNIT, n) + BLOCK - 1) // BLOCK * BLOCK
        for group in range(met // WORD, (unit + 1) * (UNIT // WORD)):
            marks[group] = 0
        numbers[unit] = np.int64(at) - unit * UNIT
        energy[unit], rest[unit] = squares, squares - gain


@_compiled
def _gather(sources, tracks, starts, segment, begin, delta):
    """Write u - track of a block that several tensors share, or in which the last tensor ends.

    Equal bits give 0; positions behind the last tensor get 0. segment: the tensor of the position
    ``begin``. delta: float32 (BLOCK,), filled. Returns the last tensor of the block.
    """
    end = min(begin + BLOCK, starts[-1])
    for i in range(BLOCK):
        position = begin + i
        if position >= end:
            delta[i] = 0
            continue
        while starts[segment + 1] <= position:
            segment += 1
        size = starts[segment + 1] - starts[segment]
        u = carray(_pointer(sources[segment]), (size,))[position - starts[segment]]
        track = carray(_pointer(tracks[segment]), (size,))[position - starts[segment]]
        same = np.float32(u).view(np.uint32) == np.float32(track).view(np.uint32)
        delta[i] = 0 if same else u - track
    return segment


@_compiled
def _gather_tracks(tracks, starts, segment, begin, out):
    """Copy the track of a block that spans several tensors, or in which the last tensor ends."""
    for position in range(begin, min(begin + BLOCK, starts[-1])):
        while starts[segment + 1] <= position:
            segment += 1
        size = starts[segment + 1] - starts[segment]
        out[position - begin] = carray(_pointer(tracks[segment]), (size,))[
            position - starts[segment]
        ]


@_compiled
def pack_codes(given, first, last, marks, codes, numbers):
    """Write codes, one a position, as survivors of the units first..last.

    given: uint8 or uint16 (n,). marks, codes, numbers: filled for these units.
    """
    for unit in range(first, last):
        at = unit * UNIT
        for group in range(UNIT // WORD):
            begin = unit * UNIT + WORD * group
            mark = np.uint64(0)
            for i in range(begin, min(begin + WORD, given.size)):
                # No branch: the next code overwrites a 0.
                codes[at] = given[i]
                at += given[i] != 0
                mark |= np.uint64(given[i] != 0) << np.uint64(i - begin)
            marks[begin // WORD] = mark
        numbers[unit] = at - unit * UNIT


@_compiled
def settle(first, last, final, marks, codes, numbers):
    """Replace every code of the units first..last by its final one; those of code 0 are removed.

    final: uint16, by the code that `collect` wrote.
    """
    for unit in range(first, last):
        read = write = unit * UNIT
        for group in range(unit * (UNIT // WORD), (unit + 1) * (UNIT // WORD)):
            mark = marks[group]
            left = np.uint64(0)
            while mark != 0:
                # The lowest bit that is set. Writing in place is safe, because write <= read.
                bit = mark & (~mark + ONE)
                mark ^= bit
                code = final[codes[read]]
                read += 1
                codes[write] = code
                write += code != 0
                left |= bit if code != 0 else np.uint64(0)
            marks[group] = left
        numbers[unit] = write - unit * UNIT


# Batches: several tensors in one alphabet, each with buckets and levels of its own, see batch.


@_inlined
def _change(u, track):
    """u - track as bits; 0 where both have the same bits, infinity and NaN included."""
    same = np.float32(u).view(np.uint32) == np.float32(track).view(np.uint32)
    return np.uint32(0) if same else np.float32(u - track).view(np.uint32)


@_compiled
def promote_bins(count, near, far, lowest, highest, keep, cautious, code_of_bin, levels):
    """Priority promotion of one tensor: the ``keep`` largest bins get a code, and its level.

    count: int64 (512,), members of each bin. near, far: float32 (512,), their extreme magnitudes.
    lowest, highest: the first and last exponent field of bins that may have members; other fields
    are skipped. cautious: whether a negative bin's level is its member closest to zero, see
    `Histogram.promote`. code_of_bin: uint16 (512,), filled. levels: float32 (> keep or 513,),
    filled up to the last code. Returns this code.
    """
    k = 0
    for field in range(highest, lowest - 1, -1):
        first, second = field, 256 + field
        if count[first] > 0 and count[second] > 0:
            middle = np.float64(near[first]) + np.float64(far[first])
            # The sign with the larger middle comes first; on a tie, the positive one.
            first += 256 * (np.float64(near[second]) + np.float64(far[second]) > middle)
            # The other of `field` and `256 + field`.
            second = 256 + 2 * field - first
        for b in (first, second):
            code_of_bin[b] = 0
            if count[b] > 0 and k < keep:
                k += 1
                code_of_bin[b] = k
                levels[k] = np.float32((np.float64(near[b]) + np.float64(far[b])) / 2)
                if b >= 256:
                    levels[k] = -(near[b] if cautious else levels[k])
    return k


@_compiled
def promote(count, low, high, mantissas, code_of_bin, keep, cautious, n, levels, counts, final):
    """Priority promotion of an alphabet, and what its levels change.

    count, low, high, mantissas, code_of_bin: of the histogram, see `quantize.Histogram`. keep,
    cautious, levels: as for `promote_bins`. n: elements. counts: int64 (> keep or 513,), filled:
    how many elements have each code. final: uint16 (512,), zeros, filled: the code in place of each
    code in code_of_bin. Returns the last code, and by how much the sum of squares of the changes
    gets smaller when each member of a bucket moves by its level.
    """
    near, far = low.view(np.float32), high.view(np.float32)
    new_code = np.zeros(N_BINS, np.uint16)
    k = promote_bins(count, near, far, 0, NON_FINITE_FIELD, keep, cautious, new_code, levels)
    counts[0], gain = n, 0.0
    for b in range(N_BINS):
        code = new_code[b]
        if code == 0:
            continue
        final[code_of_bin[b]] = code
        counts[code] = count[b]
        counts[0] -= count[b]
        # A member v that moves by r leaves (v - r)^2 instead of v^2: 2 v r - r^2 less.
        field, r = b & 255, abs(np.float64(levels[code]))
        members = np.float64(count[b])
        leading = members * LEADING if field > 0 else 0.0
        total = math.ldexp(np.float64(mantissas[b]) + leading, max(field, 1) - LAST_BIT)
        gain += 2 * total * r - members * r * r
    return k, gain


@_compiled
def quantize_batch(
    sources, tracks, starts, first, last, keep, codes, levels, kept, highest, counts
):
    """Quantize u - track of the tensors first..last in exponent buckets, each tensor by itself.

    codes: uint8 or uint16 (n,). levels: float32 (tensors, > keep or 513). kept: int64 (tensors,),
    how many codes but 0 each tensor has. highest: int64 (tensors,), the exponent field of its
    largest change. All are filled for these tensors. counts: int64 (513,), raised by the number of
    times that each code but 0 occurs.
    """
    count, code_of_bin = np.zeros(N_BINS, np.int64), np.zeros(N_BINS, np.uint16)
    low, high = np.empty(N_BINS, np.uint32), np.empty(N_BINS, np.uint32)
    near, far = low.view(np.float32), high.view(np.float32)
    longest = 0
    for t in range(first, last):
        longest = max(longest, starts[t + 1] - starts[t])
    words = np.empty(longest, np.uint32)
    for t in range(first, last):
        size, at = starts[t + 1] - starts[t], starts[t]
        u = carray(_pointer(sources[t]), (size,))
        track = carray(_pointer(tracks[t]), (size,))
        cautious = True
        least, most = MAGNITUDE, np.uint32(0)
        for i in range(size):
            cautious &= u[i] >= 0
            words[i] = _change(u[i], track[i])
            least, most = min(least, words[i] & MAGNITUDE), max(most, words[i] & MAGNITUDE)
        # Only bins between these are reset and read: no change of this tensor lies elsewhere.
        bottom, top = np.int64(least >> np.uint32(23)), np.int64(most >> np.uint32(23))
        for field in range(bottom, top + 1):
            for b in (field, 256 + field):
                count[b], low[b], high[b] = 0, LOW32, 0
        for i in range(size):
            magnitude = words[i] & MAGNITUDE
            b = words[i] >> np.uint32(23)
            count[b] += magnitude != 0
            if magnitude < low[b] and magnitude != 0:  # rare, so cheaper than min and max
                low[b] = magnitude
            if magnitude > high[b]:
                high[b] = magnitude
        k = promote_bins(count, near, far, bottom, top, keep, cautious, code_of_bin, levels[t])
        for field in range(bottom, top + 1):
            for b in (field, 256 + field):
                if code_of_bin[b] > 0:
                    counts[code_of_bin[b]] += count[b]
        for i in range(size):
            # Zeros share a bin with subnormals, but have code 0.
            codes[at + i] = code_of_bin[words[i] >> np.uint32(23)] * (words[i] & MAGNITUDE != 0)
        kept[t], highest[t] = k, top


# Tokens: a run of zeros and the symbol that ends it.


@_inlined
def _class_of(run):
    """The class of a run, and the number of its extra bits: see runlength."""
    power = np.uint64(_highest(run | ONE))
    extra_bits = max(power, np.uint64(2)) - np.uint64(2)
    # 4 * power plus the two bits below the highest one; the bits below these are extra.
    kind = np.uint64(4) * power + (run >> extra_bits & np.uint64(3))
    is_short = run < np.uint64(16)
    return run if is_short else kind, np.uint64(0) if is_short else extra_bits


@_compiled
def settle_tokens(first, last, units, final, marks, codes, numbers, counts):
    """`settle` the streams first..last, and count their tokens.

    units: of a stream. counts: int32 (rows, NEAR + MAX_CLASSES); counts[symbol, run before it]
    goes up, or for long runs counts[symbol, NEAR + class]; counts[0] is unused, and the last row
    also counts all symbols beyond it.
    """
    beyond = counts.shape[0] - 1
    for stream in range(first, last):
        # Runs begin anew in each stream.
        next_position = np.uint64(stream * units * UNIT)
        for unit in range(stream * units, min((stream + 1) * units, numbers.size)):
            read = write = np.uint64(unit * UNIT)
            for group in range(
                np.uint64(unit * (UNIT // WORD)), np.uint64((unit + 1) * (UNIT // WORD))
            ):
                mark = marks[group]
                if mark == 0:
                    continue
                left = np.uint64(0)
                while mark != 0:
                    position = group * np.uint64(WORD) + np.uint64(_lowest(mark))
                    bit = mark & (~mark + ONE)
                    mark ^= bit
                    code = final[codes[read]]
                    read += ONE
                    run = position - next_position
                    if run >= NEAR:
                        run, _ = _class_of(run)
                        # Columns 0-127 are short runs, the columns behind them classes of long
                        # runs.
                        run += NEAR
                    # No branch: what is dropped is counted in row 0, which nobody reads.
                    counts[min(np.int64(code), beyond), run] += 1
                    codes[write] = code  # no branch: if it is 0, the next one overwrites it
                    kept = np.uint64(code != 0)
                    write += kept
                    left |= bit * kept
                    next_position = position + ONE if code != 0 else next_position
                marks[group] = left
            numbers[unit] = np.int64(write) - unit * UNIT


@_compiled
def sum_tokens(counts, tokens):
    """Add up what `settle_tokens` counted in several pieces, short runs by their class.

    counts: int32 (pieces, rows, NEAR + MAX_CLASSES). tokens: int64 (rows - 1, MAX_CLASSES), zeros,
    filled.
    """
    for piece in range(counts.shape[0]):
        for code in range(1, counts.shape[1]):
            for run in range(NEAR):
                kind, _ = _class_of(run)
                tokens[code - 1, kind] += counts[piece, code, run]
            for kind in range(MAX_CLASSES):
                tokens[code - 1, kind] += counts[piece, code, NEAR + np.uint64(kind)]


@_compiled
def near_words(words, near):
    """Code words with the extra bits of the run, for runs below NEAR.

    words: uint32 (k * MAX_CLASSES,), see `write`. near: uint32 (k * NEAR,), filled: at code *
    NEAR + run the bits | how many << 27, or 0 where the escape is needed.
    """
    for code in range(near.size // NEAR):
        for run in range(NEAR):
            kind, extra = _class_of(run)
            word = words[code * MAX_CLASSES + kind]
            length = np.uint64(word >> np.uint32(16))
            low = run & ((ONE << extra) - ONE)
            bits = np.uint64(word & np.uint32(0xFFFF)) | low << length
            # At most 15 bits of a word and 4 extra bits: they fit into 27 bits, their number into
            # 5.
            full = bits | (length + extra) << NEAR_LENGTH
            near[code * NEAR + run] = np.uint32(full) if word != 0 else np.uint32(0)


@_compiled
def write(
    first,
    last,
    units,
    n,
    marks,
    codes,
    words,
    near,
    escape,
    symbol_bits,
    out,
    sizes,
    tracks,
    starts,
    levels,
    stride,
    mode,
    sums,
    positions,
    scratch,
):
    """Code the streams first..last, and advance the track by them.

    units: of a stream. n: elements. words: uint32 (k,) for a plain code of the codes, or
    (k * MAX_CLASSES,) with a word for every symbol and class of runs: the bit-reversed code
    word | its length << 16, 0 for what needs the escape, which is ``escape`` (uint32, 0: a
    plain code). near: see `near_words`, not used for a plain code. symbol_bits: of a symbol
    after an escape. out: uint32, large enough, filled; each stream begins with a word. sizes:
    int64, bits of each stream, filled. tracks ... scratch: see `_advance`. positions: uint32
    (BATCH + WORD,). Returns the words of out in use.
    """
    at = np.uint64(0)
    plain = escape == 0
    segment = 0 if mode == 0 else _segment_of(starts, first * units * UNIT)
    for stream in range(first, last):
        begun = at
        # Bits gather in `buffer`, the first one lowest. Between tokens it holds fewer than 32.
        buffer, filled = np.uint64(0), np.uint64(0)
        base = stream * units * UNIT
        after = np.uint64(0)
        for unit in range(stream * units, min((stream + 1) * units, marks.size * WORD // UNIT)):
            read = advanced = np.uint64(unit * UNIT)
            track = np.uint64(0)
            if mode != 0:  # right for most: a unit seldom holds more than one tensor
                while starts[segment + 1] <= unit * UNIT:
                    segment += 1
                track = tracks[segment] + np.uint64(4 * (base - starts[segment]))
            for group in range(unit * (UNIT // WORD), (unit + 1) * (UNIT // WORD)):
                mark = marks[group]
                if mark == 0:
                    continue
                here = np.uint64(group * WORD - base)
                while mark != 0:
                    position = here + np.uint64(_lowest(mark))
                    mark &= mark - ONE
                    code = np.uint64(codes[read])
                    positions[read - advanced] = position
                    if mode != 0:
                        # `_advance` needs this element at the end of the batch.
                        _prefetch(track + (position << np.uint64(2)))
                    read += ONE
                    run = position - after
                    after = position + ONE
                    value = length = np.uint64(0)
                    if plain:
                        if run != 0:
                            buffer, filled, at = _zeros(run, words, out, buffer, filled, at)
                        word = words[code]
                        value = np.uint64(word & np.uint32(0xFFFF))
                        length = np.uint64(word >> np.uint32(16))
                    elif run < NEAR:
                        word = np.uint64(near[code * NEAR + run])
                        value, length = word & NEAR_BITS, word >> NEAR_LENGTH
                    # A long run, or a token without a word. (A plain word is never empty.)
                    if length == 0:
                        kind, extra = _class_of(run)
                        word = words[code * np.uint64(MAX_CLASSES) + kind]
                        if word == 0:
                            # The escape: its word, 7 bits of class, symbol - 1; the run's extra
                            # bits follow below. In two parts: all of it and a nearly full buffer
                            # can be 68 bits.
                            length = np.uint64(escape >> np.uint32(16))
                            value = np.uint64(escape & np.uint32(0xFFFF)) | kind << length
                            buffer |= value << filled
                            filled += length + np.uint64(7)
                            if filled >= np.uint64(32):
                                out[at] = np.uint32(buffer & LOW32)
                                at += ONE
                                buffer >>= np.uint64(32)
                                filled -= np.uint64(32)
                            buffer |= (code - ONE) << filled
                            filled += np.uint64(symbol_bits)
                            if filled >= np.uint64(32):
                                out[at] = np.uint32(buffer & LOW32)
                                at += ONE
                                buffer >>= np.uint64(32)
                                filled -= np.uint64(32)
                        length = np.uint64(word >> np.uint32(16))
                        low = run & ((ONE << extra) - ONE)
                        value = np.uint64(word & np.uint32(0xFFFF)) | low << length
                        length += extra
                    buffer |= value << filled
                    filled += length
                    out[at] = np.uint32(buffer & LOW32)
                    full = filled >> FIVE  # no branch: 0 or 1, and very rarely 2
                    if full == 2:
                        at += ONE
                        buffer >>= np.uint64(32)
                        out[at] = np.uint32(buffer & LOW32)
                        full = ONE
                    at += full
                    buffer >>= full << FIVE
                    filled &= np.uint64(31)
                # Batch by batch: positions and codes are then still in the cache.
                if read - advanced >= np.uint64(BATCH):
                    if mode != 0:
                        segment = _advance(
                            tracks,
                            starts,
                            segment,
                            base,
                            positions,
                            codes[advanced:read],
                            np.int64(read - advanced),
                            levels,
                            stride,
                            mode,
                            sums,
                            scratch,
                        )
                    advanced = read
            # The codes of the next unit are stored elsewhere, so the unit's last batch ends here.
            if mode != 0:
                segment = _advance(
                    tracks,
                    starts,
                    segment,
                    base,
                    positions,
                    codes[advanced:read],
                    np.int64(read - advanced),
                    levels,
                    stride,
                    mode,
                    sums,
                    scratch,
                )
        if plain:
            # A plain code has a word for every element; tokens leave out the last zeros.
            run = np.uint64(min(units * UNIT, n - base)) - after
            if run != 0:
                buffer, filled, at = _zeros(run, words, out, buffer, filled, at)
        sizes[stream] = np.int64(np.uint64(32) * (at - begun) + filled)
        if filled > np.uint64(0):
            out[at] = np.uint32(buffer)
            at += ONE
    return np.int64(at)


@_inlined
def _zeros(run, words, out, buffer, filled, at):
    """Append the word of code 0 ``run`` times; see `write` for buffer, filled and at."""
    length = np.uint64(words[0] >> np.uint32(16))
    word = np.uint64(words[0] & np.uint32(0xFFFF))
    if word == 0:  # only bits to skip
        filled += run * length
        while filled >= np.uint64(32):
            out[at] = np.uint32(buffer & LOW32)
            at += ONE
            buffer >>= np.uint64(32)
            filled -= np.uint64(32)
    else:
        for _ in range(np.int64(run)):
            buffer |= word << filled
            filled += length
            if filled >= np.uint64(32):
                out[at] = np.uint32(buffer & LOW32)
                at += ONE
                buffer >>= np.uint64(32)
                filled -= np.uint64(32)
    return buffer, filled, at


# The track, and its digest.


@_inlined
def _mixed(index, word):
    """A 64-bit digest of one element: the finalizer of SplitMix64 on index << 32 | bits."""
    z = np.uint64(index) << np.uint64(32) | np.uint64(word)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_intrinsic
def _mixed_all(_context, _address, _index):
    """The sum of `_mixed` over WORD float32 at an address, from this index on.

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


@_compiled
def digest(address, n, first):
    """The sum of `_mixed` over n float32 at an address, the first of which has index ``first``."""
    total, whole = np.uint64(0), n // WORD * WORD
    for i in range(0, whole, WORD):
        total += _mixed_all(np.uint64(address) + np.uint64(4 * i), np.uint64(first) + np.uint64(i))
    words = carray(_pointer(address), n).view(np.uint32)
    for i in range(whole, n):
        total += _mixed(first + i, words[i])
    return total


@_inlined
def _advance(
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
        track = carray(_pointer(tracks[segment]), (size,))
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
            change += _mixed(at, new[i]) - _mixed(at, old[i])
        sums[segment] += change
        j = end
    return segment


# Code tables.


@_compiled
def package_merge(counts, limit, lengths):
    """Optimal code lengths of at most ``limit`` bits.

    counts: int64 (k,), at most 2**16 of them, each below 2**47. lengths: uint8 (k,), zeros; filled
    where the count is positive, if two or more are. Method: Larmore and Hirschberg, J. ACM 37(3),
    1990.
    """
    # Rarest first; on equal counts, the larger index first.
    order = np.empty(np.count_nonzero(counts), np.int64)
    n = 0
    for i in range(counts.size):
        if counts[i] > 0:
            order[n] = counts[i] << SYMBOL_BITS | LAST_SYMBOL - i
            n += 1
    if n < 2:
        return
    order.sort()
    leaves = order >> SYMBOL_BITS
    row, packages = np.empty(2 * n, np.int64), np.empty(n, np.int64)
    is_leaf = np.empty((limit, 2 * n), np.uint8)
    n_packages = 0
    for level in range(limit):
        leaf = package = 0
        # Merge two rising lists: the leaves, and pairs of the items of the level before.
        for i in range(n + n_packages):  # on equal weights leaves come before packages
            takes_leaf = package == n_packages or (leaf < n and leaves[leaf] <= packages[package])
            is_leaf[level, i] = takes_leaf
            if takes_leaf:
                row[i] = leaves[leaf]
                leaf += 1
            else:
                row[i] = packages[package]
                package += 1
        n_packages = (n + n_packages) // 2
        for i in range(n_packages):
            packages[i] = row[2 * i] + row[2 * i + 1]
    # The cheapest 2n - 2 items of the last level are taken. A leaf among them is one bit of its
    # word; a package stands for two items of the level before.
    wanted = 2 * n - 2
    for level in range(limit - 1, -1, -1):
        n_leaves = 0
        for i in range(wanted):
            n_leaves += is_leaf[level, i]
        for i in range(n_leaves):
            lengths[LAST_SYMBOL - (order[i] & LAST_SYMBOL)] += 1
        wanted = 2 * (wanted - n_leaves)


@_compiled
def token_bits(tokens, lengths, classes, escaped_bits, extra_bits):
    """The bits of a message of tokens with a table.

    tokens: int64 (symbols, MAX_CLASSES), as in `tables.Counts`. lengths, classes: of the table.
    escaped_bits: of a token without a word, but for its extra bits. extra_bits: uint8
    (MAX_CLASSES,), of each class.
    """
    total = 0
    with_words = (lengths.size - 1) // classes
    for symbol in range(tokens.shape[0]):
        for run_class in range(tokens.shape[1]):
            bits = 0
            if symbol < with_words and run_class < classes:
                bits = np.int64(lengths[1 + symbol * classes + run_class])
            if bits == 0:
                bits = escaped_bits
            total += tokens[symbol, run_class] * (bits + extra_bits[run_class])
    return total


@_compiled
def is_complete(lengths):
    """Whether these are the lengths of a complete prefix code: 2**-length adds up to 1.

    lengths: uint8 (k,), each at most MAX_LENGTH.
    """
    total = 0
    for length in lengths:
        total += (1 << (MAX_LENGTH - length)) if length > 0 else 0
    return total == 1 << MAX_LENGTH


@_compiled
def check_words(words, sizes):
    """How many words streams take, and whether the unused bits behind them are 0.

    words: uint32. sizes: int64 (streams,), bits of each; a stream begins a new word. Streams that
    end after the words are not looked at.
    """
    end, are_clean = 0, True
    for i in range(sizes.size):
        end += (sizes[i] + 31) >> 5
        if sizes[i] & 31 > 0 and end <= words.size:
            are_clean &= words[end - 1] >> np.uint32(sizes[i] & 31) == 0
    return end, are_clean


@_compiled
def stream_begins(sizes, end, begins):
    """The first bit of each stream; a stream begins a new word.

    sizes: int64 (streams,), bits. end: a word. begins: int64 (streams,), filled. Returns how many
    streams end before this word or at it, and the word at which the next stream begins.
    """
    at, before, tail = 0, 0, 0
    for i in range(sizes.size):
        begins[i] = 32 * at
        at += (sizes[i] + 31) >> 5
        if at <= end:
            before, tail = i + 1, at
    return before, tail


@_compiled
def canonical(lengths, words):
    """words[s] = code word of symbol s, first bit lowest | its length << 16; 0 without one.

    lengths: uint8 (k,), a complete prefix code or all 0. words: uint32 (k,), filled.
    """
    # First the number of words of each length, one place further; then the first word of each
    # length, as in RFC 1951, 3.2.2.
    following = np.zeros(MAX_LENGTH + 2, np.int64)
    for length in lengths:
        following[length + 1] += length != 0
    for length in range(2, MAX_LENGTH + 1):
        following[length] = (following[length] + following[length - 1]) << 1
    for symbol in range(lengths.size):
        length = np.int64(lengths[symbol])
        word = following[length]
        following[length] += 1
        reverse = np.int64(0)
        # A stream is filled from its lowest bit, so the word's first bit becomes the lowest.
        for _ in range(length):
            reverse = reverse << 1 | (word & 1)
            word >>= 1
        words[symbol] = reverse | length << 16


@_inlined
def _put(out, at, value, n):
    """Write the n lowest bits of value, lowest first; returns the next bit."""
    for i in range(n):
        out[(at + i) >> 3] |= np.uint8((value >> i & 1) << ((at + i) & 7))
    return at + n


@_inlined
def _get(packed, at, n):
    """The n bits from bit ``at`` on, as `_put` wrote them; zeros behind the end."""
    value = 0
    for i in range(n):
        if (at + i) >> 3 < packed.size:
            value |= (np.int64(packed[(at + i) >> 3]) >> ((at + i) & 7) & 1) << i
    return value


@_compiled
def pack_lengths(lengths, out):
    """Code lengths as bits: see `huffman.pack_lengths`. out: uint8 (k + 1,), zeros, filled.

    Returns the bytes in use.
    """
    end = lengths.size
    while end > 0 and lengths[end - 1] == 0:
        end -= 1
    at, i = np.int64(0), 0
    last = FIRST_LENGTH
    while i < end:
        length = np.int64(lengths[i])
        i += 1
        if length == 0:
            run = 1
            # It ends: the last length is not 0.
            while lengths[i] == 0:
                run += 1
                i += 1
            # 0, 1, 1; `power` zeros, 1, and the `power` bits below the highest one. Lowest bit
            # first, as all literals below.
            power = np.int64(_highest(np.uint64(run)))
            value, n = 0b110 | 1 << (power + 3) | (run - (1 << power)) << (power + 4), 2 * power + 4
        else:
            step = length - last
            last = length
            if step == 0:
                value, n = 0b1, 1
            elif step == 1:
                value, n = 0b010, 3
            elif step == -1:
                value, n = 0b100, 3
            elif step == 2:
                value, n = 0b01000, 5
            elif step == -2:
                value, n = 0b11000, 5
            else:
                value, n = length << 4, 8
        at = _put(out, at, value, n)
    return (at + 7) >> 3


@_compiled
def unpack_lengths(packed, lengths):
    """Read what `pack_lengths` wrote. packed: uint8. lengths: uint8 (k,), zeros, filled.

    Lengths behind the last item stay 0. Returns False unless packed is a list of at most k lengths.
    """
    i, at, end = 0, np.int64(0), 8 * packed.size
    last = FIRST_LENGTH
    # Fewer than 8 bits, all 0, only fill the last byte.
    while at < end and (end - at >= 8 or _get(packed, at, end - at) != 0):
        head = _get(packed, at, WIDEST)
        if head & 7 == 0b110:
            at += 3
            power = 0
            # The limit ends a damaged run: no table has 2**15 lengths.
            while power < MAX_LENGTH and _get(packed, at + power, BIT) == 0:
                power += 1
            i += (1 << power) + _get(packed, at + power + 1, power)
            at += 2 * power + 1
            if at > end or i > lengths.size:
                return False
            continue
        if head & 1 == 1:
            used, length = 1, last
        elif head & 7 == 0b010:
            used, length = 3, last + 1
        elif head & 7 == 0b100:
            used, length = 3, last - 1
        elif head & 15 == 0b1000:
            used, length = 5, last + 2 - 4 * (head >> 4 & 1)
        else:
            used, length = 8, head >> 4
        at += used
        if at > end or i >= lengths.size or not 1 <= length <= MAX_LENGTH:
            return False
        lengths[i] = length
        last = length
        i += 1
    return True


@_compiled
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


@_compiled
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
        used, elements = _split(one[i], window)
        two[i] = ESCAPE
        if one[i] == 0 or one[i] >= ESCAPE or used > np.uint64(FAST) or elements > most:
            none += 1
            continue
        entry = elements << np.uint64(8) | one[i] & CODES
        following = one[window >> used]
        more, others = _split(following, window >> used)
        fits = used + more <= np.uint64(FAST) and others <= most
        if following != 0 and following < ESCAPE and fits:
            used += more
            entry |= others << np.uint64(20) | ONE << np.uint64(32)
            entry |= (following & CODES) >> np.uint64(15)
            pairs += 1
        two[i] = entry | used
    # Each entry without a token costs a second look-up.
    return pairs if none * 32 <= two.size else 0


# Reading tokens again.


@_inlined
def _view(at):
    """The bits from bit ``at`` on, at least 57. at: 8 x the address of a byte + the bit in it."""
    return _load64(at >> np.uint64(3)) >> (at & np.uint64(7))


@_inlined
def _split(entry, window):
    """Of an entry of `lookup`, for the window it was looked up by: all bits, elements covered."""
    used = entry & np.uint64(255)
    low = (window & ((ONE << used) - ONE)) >> (entry >> np.uint64(8) & np.uint64(255))
    return used, (entry >> np.uint64(16) & LOW32) + low


@_inlined
def _escaped(window, symbol_bits, first_run, extra_bits):
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


@_inlined
def _next(lane, states, entry, symbol_bits, first_run, extra_bits, listed):
    """Read one token of a lane, also an escaped one. states, listed: see `_fill`.

    entry: of the table ``one``, for the lane's next bits.
    """
    at = np.uint64(states[lane, 0])
    used, elements = _split(entry, _view(at))
    symbol = entry >> CODE
    at += used
    if entry >= ESCAPE:
        used, elements, symbol = _escaped(_view(at), symbol_bits, first_run, extra_bits)
        at += used
    told = np.uint64(states[lane, 2]) + elements
    listed[lane * ROW + states[lane, 3]] = told | symbol << CODE
    states[lane, 0], states[lane, 2] = at, told
    states[lane, 3] += 1


@_inlined
def _fill_one(lane, states, one, many, listed):
    """Read one lane until an escape, a full list, or the last LONGEST bits of its stream."""
    few, more = np.uint64(one.size - 1), np.uint64(many.size - 1)
    at, told = np.uint64(states[lane, 0]), np.uint64(states[lane, 2])
    m = np.uint64(lane * ROW + states[lane, 3])
    # As many tokens as certainly fit into the list and the bits left: none needs a test.
    rounds = min(BATCH - states[lane, 3], (states[lane, 1] - states[lane, 0]) // LONGEST)
    end = m + np.uint64(max(rounds, 0))
    while m < end:
        window = _view(at)
        entry = many[window & more]
        if entry >= ESCAPE:
            # Too long for `many`, or a real escape.
            entry = one[window & few]
            if entry >= ESCAPE:
                break
        used, elements = _split(entry, window)
        at += used
        told += elements
        listed[m] = told | entry & CODES
        m += ONE
    states[lane, 0], states[lane, 2] = at, told
    states[lane, 3] = np.int64(m) - lane * ROW


@_inlined
def _told(entry):
    """Of an entry of `lookup_two`: elements that the first token covers, and the second."""
    first = entry >> np.uint64(8) & np.uint64(2**12 - 1)
    return first, entry >> np.uint64(20) & np.uint64(2**12 - 1)


@_compiled
def _fill_by_two(states, reach, one, two, symbol_bits, first_run, extra_bits, listed):
    """`_fill` with a table of `lookup_two`, until a list is full or a stream nears its end."""
    few, more, second = np.uint64(one.size - 1), np.uint64(two.size - 1), np.uint64(32)
    while True:
        rounds = BATCH
        for k in range(LANES):
            left = (states[k, 1] - states[k, 0]) // LONGEST
            # Two entries a round at most; see `_fill_one`.
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
            e0, e1 = two[_view(a0) & more], two[_view(a1) & more]
            e2, e3 = two[_view(a2) & more], two[_view(a3) & more]
            if (e0 | e1 | e2 | e3) >= ESCAPE:
                escape = True
                break
            a0 += e0 & np.uint64(255)
            told, others = _told(e0)
            n0 += told
            listed[m0] = n0 | e0 & CODES
            n0 += others
            # Always written, counted only if there is a second token: no branch.
            listed[m0 + ONE] = n0 | (e0 << np.uint64(15)) & CODES
            m0 += ONE + (e0 >> second & ONE)
            _prefetch(p0 + ((n0 & reach) << np.uint64(2)))
            a1 += e1 & np.uint64(255)
            told, others = _told(e1)
            n1 += told
            listed[m1] = n1 | e1 & CODES
            n1 += others
            listed[m1 + ONE] = n1 | (e1 << np.uint64(15)) & CODES
            m1 += ONE + (e1 >> second & ONE)
            _prefetch(p1 + ((n1 & reach) << np.uint64(2)))
            a2 += e2 & np.uint64(255)
            told, others = _told(e2)
            n2 += told
            listed[m2] = n2 | e2 & CODES
            n2 += others
            listed[m2 + ONE] = n2 | (e2 << np.uint64(15)) & CODES
            m2 += ONE + (e2 >> second & ONE)
            _prefetch(p2 + ((n2 & reach) << np.uint64(2)))
            a3 += e3 & np.uint64(255)
            told, others = _told(e3)
            n3 += told
            listed[m3] = n3 | e3 & CODES
            n3 += others
            listed[m3 + ONE] = n3 | (e3 << np.uint64(15)) & CODES
            m3 += ONE + (e3 >> second & ONE)
            _prefetch(p3 + ((n3 & reach) << np.uint64(2)))
        states[0, 0], states[1, 0], states[2, 0], states[3, 0] = a0, a1, a2, a3
        states[0, 2], states[1, 2], states[2, 2], states[3, 2] = n0, n1, n2, n3
        states[0, 3], states[1, 3] = m0, m1 - ROW1
        states[2, 3], states[3, 3] = m2 - ROW2, m3 - ROW3
        if escape:
            for k in range(LANES):
                entry = one[_view(np.uint64(states[k, 0])) & few]
                _next(k, states, entry, symbol_bits, first_run, extra_bits, listed)


@_compiled
def _fill(states, reach, one, many, two, symbol_bits, first_run, extra_bits, listed):
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
        _fill_by_two(states, reach, one, two, symbol_bits, first_run, extra_bits, listed)
    # As in `_fill_by_two`, with one entry for each look-up and so one place m for all lists.
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
            w0, w1, w2, w3 = _view(a0), _view(a1), _view(a2), _view(a3)
            e0, e1, e2, e3 = many[w0 & more], many[w1 & more], many[w2 & more], many[w3 & more]
            if (e0 | e1 | e2 | e3) >= ESCAPE:
                e0, e1, e2, e3 = one[w0 & few], one[w1 & few], one[w2 & few], one[w3 & few]
                escape = (e0 | e1 | e2 | e3) & ESCAPE
                # One lane has an escape: each takes one token of any kind.
                if escape != 0:
                    break
            used, elements = _split(e0, w0)
            a0 += used
            n0 += elements
            _prefetch(p0 + ((n0 & reach) << np.uint64(2)))
            listed[m] = n0 | e0 & CODES
            used, elements = _split(e1, w1)
            a1 += used
            n1 += elements
            _prefetch(p1 + ((n1 & reach) << np.uint64(2)))
            listed[m + ROW1] = n1 | e1 & CODES
            used, elements = _split(e2, w2)
            a2 += used
            n2 += elements
            _prefetch(p2 + ((n2 & reach) << np.uint64(2)))
            listed[m + ROW2] = n2 | e2 & CODES
            used, elements = _split(e3, w3)
            a3 += used
            n3 += elements
            _prefetch(p3 + ((n3 & reach) << np.uint64(2)))
            listed[m + ROW3] = n3 | e3 & CODES
            m += ONE
        states[0, 0], states[1, 0], states[2, 0], states[3, 0] = a0, a1, a2, a3
        states[0, 2], states[1, 2], states[2, 2], states[3, 2] = n0, n1, n2, n3
        for k in range(LANES):
            states[k, 3] = m
            if escape != 0:
                entry = one[_view(np.uint64(states[k, 0])) & few]
                _next(k, states, entry, symbol_bits, first_run, extra_bits, listed)
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
                _fill_one(k, states, one, many, listed)
                if states[k, 3] >= BATCH or states[k, 0] >= states[k, 1]:
                    break
            entry = one[_view(np.uint64(states[k, 0])) & few]  # never a word of another stream
            _next(k, states, entry, symbol_bits, first_run, extra_bits, listed)


@_inlined
def _stream_all(target, source, nbytes):
    """Copy past the caches, which saves reading the lines that are overwritten."""
    # Up to the next address that 64 divides.
    head = min(nbytes, np.int64(-target & np.uint64(63)))
    _copy(target, source, head)
    target, source, nbytes = target + np.uint64(head), source + np.uint64(head), nbytes - head
    for _ in range(nbytes // STREAMED):
        _stream(target, source)
        target, source = target + np.uint64(STREAMED), source + np.uint64(STREAMED)
    _copy(target, source, nbytes % STREAMED)
    _fence()


@_inlined
def _become(sources, tracks, starts, begin, end, changes):
    """tracks = sources at the positions begin..end, of which ``changes`` will change at once."""
    segment = _segment_of(starts, begin)
    sparse = changes * SPARSE < end - begin
    while begin < end:
        part = min(end, starts[segment + 1])
        skip = np.uint64(4 * (begin - starts[segment]))
        target, source = tracks[segment] + skip, sources[segment] + skip
        # Few of the copied elements are needed again, so they should not fill the caches.
        if sparse:
            _stream_all(target, source, 4 * (part - begin))
        else:
            _copy(target, source, 4 * (part - begin))
        begin = part
        segment += 1


@_compiled
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
    too. one, many: see `lookup`. two: see `lookup_two`, or empty. states, listed: see `_fill`;
    positions: uint32 and found: uint16, both (ROW,); all scratch. codes: uint8 or uint16 (n,),
    zeros, filled if mode is 0. sources: addresses of tensors that the track first becomes a copy
    of, or empty. tracks ... scratch: see `_advance`. Returns a STREAM_* status; never reads or
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
                    segment = _segment_of(starts, before + 1)
                    states[k, 5] = np.int64(ahead[segment]) + 4 * (before - starts[segment])
                following += 1
                free -= 1
            states[k, 3] = 0
        _fill(states, reach, one, many, two, np.uint64(symbol_bits), first_run, extra_bits, listed)
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
                _become(sources, tracks, starts, states[k, 6], end, m)
                states[k, 6] = end
            if mode == 0:
                for i in range(m):
                    codes[before + positions[i]] = found[i]
            elif m > 0:
                segment = _segment_of(starts, before + positions[0])
                _advance(
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


# Steps of exact tensors: see residual. An element has ``width`` bytes; old and new are addresses.

MAX_CONTEXTS = 4
FIELDS = 64  # exponents that are counted apart
CHUNK = 2**13  # elements whose contexts are noted at once
LITERAL = 32  # smaller symbols have no extra bits
FAR = np.int64(1 << 40)  # elements: no stream has so many
BITS = np.uint64(8)


def _vectors(nbits: int) -> tuple[Any, Any, Any, Any]:
    """Intrinsics for elements of ``nbits`` bits: compare 64 of them, load one, store one."""

    def element():
        return ir.IntType(nbits)

    def many():
        return ir.VectorType(element(), WORD)

    def loaded(builder, address, kind):
        value = builder.load(builder.inttoptr(address, kind.as_pointer()))
        value.align = 1
        return value

    def narrow(builder, value):
        return value if nbits == 64 else builder.trunc(value, element())

    def repeated(builder, value):
        nothing = ir.Constant(many(), ir.Undefined)
        first = builder.insert_element(nothing, narrow(builder, value), ir.IntType(32)(0))
        every = ir.Constant(ir.VectorType(ir.IntType(32), WORD), [0] * WORD)
        return builder.shuffle_vector(first, nothing, every)

    @_intrinsic
    def differ(_context, _old, _new):
        """Bit i: the i-th elements at two addresses differ."""

        def generate(_context, builder, _signature, arguments):
            unequal = builder.icmp_unsigned("!=", *(loaded(builder, a, many()) for a in arguments))
            return builder.bitcast(unequal, ir.IntType(WORD))

        return types.uint64(types.uint64, types.uint64), generate

    @_intrinsic
    def reach(_context, _address, _mask, _bound):
        """Bit i: the i-th element & mask is at least the bound."""

        def generate(_context, builder, _signature, arguments):
            mask, bound = (repeated(builder, a) for a in arguments[1:])
            masked = builder.and_(loaded(builder, arguments[0], many()), mask)
            return builder.bitcast(builder.icmp_unsigned(">=", masked, bound), ir.IntType(WORD))

        return types.uint64(types.uint64, types.uint64, types.uint64), generate

    @_intrinsic
    def load(_context, _address):
        def generate(_context, builder, _signature, arguments):
            value = loaded(builder, arguments[0], element())
            return value if nbits == 64 else builder.zext(value, ir.IntType(64))

        return types.uint64(types.uint64), generate

    @_intrinsic
    def store(_context, _address, _value):
        def generate(context, builder, _signature, arguments):
            pointer = builder.inttoptr(arguments[0], element().as_pointer())
            builder.store(narrow(builder, arguments[1]), pointer).align = 1
            return context.get_dummy_value()

        return types.void(types.uint64, types.uint64), generate

    return differ, reach, load, store


_differ8, _reach8, _load8, _store8 = _vectors(8)
_differ16, _reach16, _load16, _store16 = _vectors(16)
_differ32, _reach32, _load32, _store32 = _vectors(32)
_differ64, _reach64, _load64, _store64 = _vectors(64)


@_intrinsic
def _ones(_context, _word):
    """How many bits of a uint64 are set."""

    def generate(_context, builder, _signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_intrinsic
def _spread(_context, _bits, _mask):
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
        return context.compile_internal(builder, _spread_slowly, signature, arguments)

    return types.uint64(types.uint64, types.uint64), generate


@_inlined
def _differ(old, new, width):
    """Bit i: the i-th of 64 elements at two addresses differ. width: bytes of an element."""
    if width == 2:
        return _differ16(old, new)
    if width == 4:
        return _differ32(old, new)
    return _differ8(old, new) if width == 1 else _differ64(old, new)


@_inlined
def _reach(address, width, mask, bound):
    """Bit i: the i-th of 64 elements & mask is at least the bound."""
    if width == 2:
        return _reach16(address, mask, bound)
    if width == 4:
        return _reach32(address, mask, bound)
    return _reach8(address, mask, bound) if width == 1 else _reach64(address, mask, bound)


@_inlined
def _element(address, width):
    """The element at an address, as uint64."""
    if width == 2:
        return _load16(address)
    if width == 4:
        return _load32(address)
    return _load8(address) if width == 1 else _load64(address)


@_inlined
def _set_element(address, width, value):
    """Store the low bits of a uint64 as an element."""
    if width == 2:
        _store16(address, value)
    elif width == 4:
        _store32(address, value)
    elif width == 1:
        _store8(address, value)
    else:
        _store64(address, value)


def _select_table() -> Any:
    """uint8 (256 * 8,): at byte * 8 + rank the place of the set bit with that rank."""
    table = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        bits = [i for i in range(8) if byte >> i & 1]
        table[byte, : len(bits)] = bits
    return table.reshape(-1)


_SELECT = _select_table()
_BYTES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ODD, _PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)


@_inlined
def _select(word, rank):
    """The place of the set bit below which ``rank`` bits are set (Vigna, WEA 2008)."""
    sums = word - (word >> ONE & _ODD)
    sums = (sums & _PAIRS) + (sums >> np.uint64(2) & _PAIRS)
    sums = ((sums + (sums >> np.uint64(4))) & _NIBBLES) * _BYTES  # of each byte and those below
    # The top bit of each byte stays set while the sum up to it is at most `rank`: these bytes lie
    # before the one looked for.
    before = ((rank * _BYTES | _TOPS) - sums) & _TOPS
    place = _ones(before) << np.uint64(3)
    rank -= (sums << BITS) >> place & np.uint64(255)
    byte = word >> place & np.uint64(255)
    return place + np.uint64(_SELECT[byte << np.uint64(3) | rank])


def _spread_slowly(bits, mask):
    """`_spread` bit by bit, for processors without that instruction."""
    found = np.uint64(0)
    # As many bits as the mask has; a shift by 64 is undefined.
    bits &= np.uint64(2**64 - 1) >> (np.uint64(64) - _ones(mask)) if mask != 0 else np.uint64(0)
    while bits != 0:
        found |= ONE << _select(mask, np.uint64(_lowest(bits)))
        bits &= bits - ONE
    return found


@_inlined
def _step(old, new, width, magnitude, sign):
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
    kind, extra = _class_of(amount)
    # The 8 * (8 * width - 1) symbols that keep the sign come first, see FORMAT.md.
    symbol = ONE + down + np.uint64(2) * kind + flipped * np.uint64(8 * (8 * width - 1))
    return symbol, amount & ((ONE << extra) - ONE), extra


@_inlined
def _move(symbol, low, extra, width, magnitude, sign):
    """A step as a number: what to add to the magnitude, and which sign to change. See `_step`."""
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


@_inlined
def _extra_of(symbol, width):
    """The number of extra bits of a symbol."""
    symbol -= ONE
    half = np.uint64(8 * (8 * width - 1))
    symbol -= half * np.uint64(symbol >= half)
    kind = symbol >> ONE
    return (kind >> np.uint64(2)) - np.uint64(2) if kind >= np.uint64(16) else np.uint64(0)


@_compiled
def sample_steps(old, new, width, starts, length, magnitude, sign, mantissa, counts):
    """Count the symbols of steps by the exponent of the old value, in some stretches.

    starts: int64, where each stretch begins. length: of each. mantissa: bits of a magnitude below
    the exponent. counts: int64 (FIELDS, k), zeros, filled; row 0 also counts lower exponents.
    Returns the exponent of row 0.
    """
    top = magnitude >> mantissa if sign != 0 else ~np.uint64(0)  # infinity and NaN
    highest = np.uint64(0)
    for start in starts:
        for i in range(start, start + length):
            field = (_element(old + np.uint64(i * width), width) & magnitude) >> mantissa
            # Rows cover the FIELDS highest exponents of finite values.
            highest = max(highest, field if field < top else np.uint64(0))
    if sign == 0:
        highest = min(highest, np.uint64(FIELDS - 1))
    lowest = np.int64(highest) - (FIELDS - 1) if highest >= np.uint64(FIELDS) else 0
    for start in starts:
        for i in range(start, start + length):
            before = _element(old + np.uint64(i * width), width)
            after = _element(new + np.uint64(i * width), width)
            field = min((before & magnitude) >> mantissa, np.uint64(lowest + FIELDS - 1))
            row = max(np.int64(field) - lowest, 0)
            symbol = np.uint64(0)
            if before != after:
                symbol, _, _ = _step(before, after, width, magnitude, sign)
            counts[row, symbol] += 1
    return lowest


@_inlined
def _bits_of(counts, row):
    """Shannon's bound in bits for a row of counts: n log n - sum of c log c."""
    total, own = 0.0, 0.0
    for i in range(counts.shape[1]):
        c = np.float64(counts[row, i])
        if c > 0:
            total += c
            own += c * _log2(c)
    return total * _log2(total) - own if total > 0 else 0.0


@_inlined
def _add_row(counts, row, other, sign):
    """counts[row] += sign * counts[other]. numba compiles whole rows for seconds."""
    for i in range(counts.shape[1]):
        counts[row, i] += sign * counts[other, i]


@_inlined
def _added_bits(counts, bits, row):
    """How many more bits the rows ``row`` and ``row + 1`` take when they are added up."""
    _add_row(counts, row, row + 1, 1)
    together = _bits_of(counts, row)
    _add_row(counts, row, row + 1, -1)
    return together - bits[row] - bits[row + 1]


@_compiled
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
            bits[n] = _bits_of(counts, n)
            n += 1
    more = np.zeros(FIELDS)
    for row in range(n - 1):
        more[row] = _added_bits(counts, bits, row)
    while n > 1:
        best = 0
        for row in range(1, n - 1):
            if more[row] < more[best]:
                best = row
        if n <= most and more[best] >= cost:
            break
        _add_row(counts, best, best + 1, 1)
        bits[best] += bits[best + 1] + more[best]
        for row in range(best + 1, n - 1):
            for i in range(counts.shape[1]):
                counts[row, i] = counts[row + 1, i]
            firsts[row], bits[row] = firsts[row + 1], bits[row + 1]
            more[row - 1] = more[row]
        n -= 1
        for row in range(max(best - 1, 0), min(best + 1, n - 1)):
            # The pairs to the left and right of the new row have changed.
            more[row] = _added_bits(counts, bits, row)
    return n


@_inlined
def _prefetch_chunk(address, width):
    """Prefetch 64 elements of the next chunk: two arrays are read in turn, each from memory."""
    ahead = address + np.uint64(CHUNK * width)
    for line in range(width):
        _prefetch(ahead + np.uint64(64 * line))


@_inlined
def _contexts(old, first, last, width, magnitude, bounds, owns, counts, edge):
    """Find the context of each element of the positions first..last.

    bounds: see `count_steps`. owns: uint64 (MAX_CONTEXTS, CHUNK // WORD), filled, a bit an element.
    counts: uint64, the same shape, filled: elements of the context from ``first`` to the word's
    end. edge: uint64 (2, WORD), scratch.
    """
    contexts = bounds.size + 1
    sums = np.zeros(MAX_CONTEXTS, np.uint64)
    for word in range((last - first + WORD - 1) // WORD):
        position = first + word * WORD
        at, above = old + np.uint64(position * width), ~np.uint64(0)
        _prefetch_chunk(at, width)
        # 64 elements are compared at once; the last ones are copied, not to read beyond the array.
        if position + WORD > last:
            at = np.uint64(edge.ctypes.data)
            _copy(at, old + np.uint64(position * width), (last - position) * width)
            above = (ONE << np.uint64(last - position)) - ONE
        for c in range(contexts - 1):
            # Elements from bound c on belong to later contexts.
            following = _reach(at, width, magnitude, bounds[c]) & above
            own = above ^ following
            above = following
            owns[c, word] = own
            sums[c] += _ones(own)
            counts[c, word] = sums[c]
        owns[contexts - 1, word] = above
        sums[contexts - 1] += _ones(above)
        counts[contexts - 1, word] = sums[contexts - 1]


@_inlined
def _positions(mark, position, m, listed):
    """Append the positions of set bits to a list of m positions; returns its new length.

    The first four are written without a test: most words have fewer, and the processor would
    mispredict the end of a loop. What is written in excess is overwritten or never read.
    """
    two, three, four = np.uint64(2), np.uint64(3), np.uint64(4)
    end = m + _ones(mark)
    listed[m] = position + np.uint64(_lowest(mark))
    mark &= mark - ONE
    listed[m + ONE] = position + np.uint64(_lowest(mark))
    mark &= mark - ONE
    listed[m + two] = position + np.uint64(_lowest(mark))
    mark &= mark - ONE
    listed[m + three] = position + np.uint64(_lowest(mark))
    mark &= mark - ONE
    while mark != 0:
        listed[m + four] = position + np.uint64(_lowest(mark))
        mark &= mark - ONE
        m += ONE
    return end


@_inlined
def _changes(old, new, first, last, width, listed, edge):
    """List the positions of first..last where elements differ; returns how many there are.

    listed, edge: see `count_steps`.
    """
    m = np.uint64(0)
    for position in range(first, last, WORD):
        skip = np.uint64(position * width)
        _prefetch_chunk(new + skip, width)
        if position + WORD <= last:
            mark = _differ(old + skip, new + skip, width)
        else:
            here = np.uint64(edge.ctypes.data)
            there = here + np.uint64(8 * WORD)
            _copy(here, old + skip, (last - position) * width)
            _copy(there, new + skip, (last - position) * width)
            mark = _differ(here, there, width) & ((ONE << np.uint64(last - position)) - ONE)
        m = _positions(mark, np.uint64(position), m, listed)
    return m


@_compiled
def count_steps(
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
    (contexts,), goes up: elements. owns, counts: see `_contexts`. listed: uint64 (CHUNK + WORD,)
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
            _contexts(old, begin, stop, width, magnitude, bounds, owns, counts, edge)
            m = _changes(old, new, begin, stop, width, listed, edge)
            for i in range(m):
                position = listed[i]
                here = position * np.uint64(width)
                x, y = _element(old + here, width), _element(new + here, width)
                c = np.int64(context_of[min((x & magnitude) >> mantissa, most)])
                word = (position - np.uint64(begin)) >> np.uint64(6)
                # Rank: elements of the context in this chunk before this one.
                others = ~np.uint64(0) << (position & np.uint64(63))
                rank = np.int64(counts[c, word] - _ones(owns[c, word] & others))
                kind, _ = _class_of(np.uint64(rank - after[c]))
                after[c] = rank + 1
                symbol, _, _ = _step(x, y, width, magnitude, sign)
                tokens[c, symbol - ONE, kind] += 1
                tops[c] = max(tops[c], np.int64(symbol))
            for c in range(contexts):
                met = np.int64(counts[c, (stop - begin - 1) // WORD])
                after[c] -= met
                sizes[c] += met


@_inlined
def _flushed(buffer, filled, out, at):
    """Write the lowest 32 bits of a buffer if it holds at least 32; returns what remains.

    It holds fewer than 64. out[at] is written in any case, which saves a branch.
    """
    out[at] = np.uint32(buffer & LOW32)
    full = filled >> FIVE
    return buffer >> (full << FIVE), filled & np.uint64(31), at + full


@_compiled
def write_steps(
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

    old ... context_of, owns ... edge: see `count_steps`. words: uint32, see `write`: those of
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
        _contexts(old, begin, stop, width, magnitude, bounds, owns, counts, edge)
        m = _changes(old, new, begin, stop, width, listed, edge)
        for i in range(m):
            position = listed[i]
            here = position * np.uint64(width)
            x, y = _element(old + here, width), _element(new + here, width)
            c = np.int64(context_of[min((x & magnitude) >> mantissa, most)])
            word = (position - np.uint64(begin)) >> np.uint64(6)
            others = ~np.uint64(0) << (position & np.uint64(63))
            rank = np.int64(counts[c, word] - _ones(owns[c, word] & others))
            run = np.uint64(rank - after[c])
            after[c] = rank + 1
            symbol, low, free = _step(x, y, width, magnitude, sign)
            buffer, filled, at = buffers[c], fills[c], places[c]
            start, escape = np.uint64(starts[c]), escapes[c]
            kind = more = np.uint64(0)
            if escape == 0:
                zero = words[start]
                for _ in range(run):
                    buffer |= np.uint64(zero & np.uint32(0xFFFF)) << filled
                    filled += np.uint64(zero >> np.uint32(16))
                    buffer, filled, at = _flushed(buffer, filled, out, at)
                word_of = words[start + symbol]
            else:
                kind, more = _class_of(run)
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
            buffer, filled, at = _flushed(buffer, filled, out, at)
            # The extra bits of the run, then those of the symbol. Parts of at most 32 bits: the
            # buffer holds up to 31 already.
            if more != 0:
                buffer |= (run & ((ONE << more) - ONE)) << filled
                filled += more
                buffer, filled, at = _flushed(buffer, filled, out, at)
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
                buffer, filled, at = _flushed(buffer, filled, out, at)
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
                buffer, filled, at = _flushed(buffer, filled, out, at)
        sizes[c] = np.int64(np.uint64(32) * (at - np.uint64(begins[c])) + filled)
        if filled > np.uint64(0):
            out[at] = np.uint32(buffer & LOW32)


@_compiled
def read_steps(
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
    `count_steps`. kinds: int64 (contexts,), 0 without code words, 1 for a plain code, 2 for tokens.
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
        _copy(new + skip, old + skip, (stop - begin) * width)
        _contexts(old, begin, stop, width, magnitude, bounds, owns, counts, edge)
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
                    window = _view(at)
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
                            window = _view(at)
                            entry = fast[c, window & few]
                            if entry >= ESCAPE:
                                entry = one[start + (window & mask)]
                            used, elements = _split(entry, window)
                            symbol = entry >> CODE & np.uint64(0x7FFF)
                            at += used
                            if entry >= ESCAPE:
                                used, elements, symbol = _escaped(
                                    _view(at), np.uint64(symbol_bits[c]), first_run, extra_bits
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
                    free = _extra_of(symbol, width)
                    # At most 57 bits can be seen at once, but up to 61 follow a symbol of 64-bit
                    # elements.
                    some = min(free, np.uint64(32))
                    low = _view(at) & ((ONE << some) - ONE)
                    at += some
                    if free > some:
                        low |= (_view(at) & ((ONE << (free - some)) - ONE)) << some
                        at += free - some
                moves[c, m] = _move(symbol, low, free, width, magnitude, sign)
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
                before = counts[c, word] - _ones(own)
                place, low = before >> np.uint64(6), before & np.uint64(63)
                # In two shifts: a single one by 64 - low would be undefined for low = 0.
                above = marks[c, place + ONE] << ONE << (np.uint64(63) - low)
                mark |= _spread(marks[c, place] >> low | above, own)
            m = _positions(mark, np.uint64(begin) + word * np.uint64(WORD), m, listed)
        for i in range(m):
            here = listed[i] * np.uint64(width)
            x = _element(old + here, width)
            c = np.int64(context_of[min((x & magnitude) >> mantissa, most)])
            move = moves[c, taken[c]]
            taken[c] += ONE
            x = ((x & magnitude) + (move & magnitude)) & magnitude | (x ^ move) & sign
            _set_element(new + here, width, x)
        for c in range(contexts):
            marks[c, : n_words + ONE] = 0
    for c in range(contexts):
        # A token that was read, whose change lies beyond the end; none where the context is empty.
        beyond = kinds[c] == 2 and symbols[c] != 0 and lefts[c] < FAR // 2
        if kinds[c] != 0 and (ats[c] != ends[c] or beyond):
            return STREAM_GOES_ON
    return STREAM_OK


# Context coding, see `context` and FORMAT.md.


@_inlined
def _octaves(x):
    """About 16 log2(x) of an int64 from 1 on: 16 p plus the 4 bits below bit p, the highest."""
    p = _highest(np.uint64(x))
    return np.int64(p) << 4 | np.int64((np.uint64(x) << np.uint64(4)) >> np.uint64(p)) & 15


@_inlined
def _side(q):
    """0 of q = 0, 1 of a positive q, 2 of a negative one."""
    return 0 if q == 0 else 1 if q > 0 else 2


@_compiled
def _carry(at):
    """Add 1 to the number that ends before an address, its highest byte first."""
    # There always is a byte below 255: the number written so far is below 1.
    at -= ONE
    while _load8(at) == np.uint64(255):
        _store8(at, np.uint64(0))
        at -= ONE
    _store8(at, _load8(at) + ONE)


@_inlined
def _decide(encoding, bit, context, rates, low, span, window, at, end):
    """Write a decision, or read it; either way its context learns from it.

    context, rates: addresses, see `code_contexts`. low, span: of the interval; window: the bytes
    read, less the interval's begin. at: address of the next byte; reading, bytes from ``end`` on
    are 0. Returns bit, low, span, window and at.
    """
    state = np.int64(_load32(context))
    chance = state >> 8
    bound = (span >> np.uint64(16)) * np.uint64(chance)
    if encoding:
        # 0 takes the lower part of the interval: a stream of zeros needs no bytes.
        if bit:
            low += span - bound
            span = bound
            if low >= WHOLE:
                low -= WHOLE
                _carry(at)
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
            _store8(at, low >> np.uint64(32))
            low = (low & LOW32) << np.uint64(8)
        else:
            window = window << np.uint64(8) | (_load8(at) if at < end else np.uint64(0))
        at += ONE
        span <<= np.uint64(8)
    # The more often a context was used, the more slowly its chance changes.
    uses = state & 255
    aim = np.int64(2 * HALF) if bit else np.int64(0)
    chance += ((aim - chance) * np.int64(_load32(rates + np.uint64(4 * uses)))) >> 16
    chance = min(max(chance, np.int64(LEAST)), np.int64(2 * HALF - LEAST))
    _store32(context, np.uint64(chance << 8 | min(uses + 1, MOST_USES)))
    return bit, low, span, window, at


@_compiled
def code_contexts(
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
            read += np.int64(_ones(marks[word]))
        if begin & 63 > 0:
            before = marks[begin // WORD] << np.uint64(64 - (begin & 63))
            read += np.int64(_ones(before))
    else:
        for _ in range(5):
            window = window << np.uint64(8) | (_load8(at) if at < end else np.uint64(0))
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
            logs[j] = _octaves(j + PRIOR)
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
                    terms[j] = _octaves(own) - logs[j]
                for g in range(n_octets):
                    size = min(width, n_columns - g * width)
                    own = (np.int64(octet_sums[g]) << MEAN_SHIFT) + PRIOR * mean * size
                    octet_terms[g] = _octaves(own) - _octaves(g * width + PRIOR)
            common = _octaves(mean) + _octaves(i + PRIOR)
            row_term = _octaves(PRIOR * mean) - common
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
                share_log = _octaves((rows_changed << MEAN_SHIFT) // (i + 1) + 1) >> 3
                context = ROW_CONTEXT + 3 * share_log + before_changed
                some, low, span, window, at = _decide(
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
                    some, low, span, window, at = _decide(
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
                        is_changed, low, span, window, at = _decide(
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
                            more, low, span, window, at = _decide(
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
                            size, own_size = 0, np.int64(_highest(np.uint64(rest)))
                            while more and size < MOST_BITS:
                                context = SIZE_CONTEXT + MOST_BITS * activity + size
                                more, low, span, window, at = _decide(
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
                                bit, low, span, window, at = _decide(
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
                            context = SIGN_CONTEXT + 9 * _side(agrees)
                            context += 3 * _side(beside) + _side(above)
                            negative, low, span, window, at = _decide(
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
                        row_term = _octaves((row_sum << MEAN_SHIFT) + PRIOR * mean) - common
                        own = (np.int64(sums[column]) << MEAN_SHIFT) + PRIOR * mean
                        terms[column] = _octaves(own) - np.int64(logs[column])
                        if in_octets:
                            octet_sums[g] += weight
                            own = np.int64(octet_sums[g]) << MEAN_SHIFT
                            own += PRIOR * mean * (end_j - first_j)
                            octet_terms[g] = _octaves(own) - _octaves(first_j + PRIOR)
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
                    _carry(at)
                for i in range(n):
                    _store8(at, number >> np.uint64(32 - 8 * i) & np.uint64(255))
                    at += ONE
                break
        while at > begin_of_data and _load8(at - ONE) == 0:
            at -= ONE
    # A reader looks five bytes ahead, and adds zeros behind the end.
    elif at < end:
        return STREAM_GOES_ON
    sizes[0], sizes[1] = at - begin_of_data, m
    return STREAM_OK


# Codes without code words onto the track.


@_compiled
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

    n: elements. positions: uint32 (ROW,), scratch. sources: see `_become`. The others: see
    `_advance`.
    """
    for unit in range(first, last):
        base = unit * UNIT
        read = advanced = np.uint64(base)
        if sources.size > 0:
            # `_become` copies in another way where few elements change.
            changes = np.int64(0)
            for group in range(base // WORD, (base + UNIT) // WORD):
                changes += np.int64(_ones(marks[group]))
            _become(sources, tracks, starts, base, min(base + UNIT, n), changes)
        segment = _segment_of(starts, base)
        for group in range(base // WORD, (base + UNIT) // WORD):
            mark = marks[group]
            here = np.uint64(group * WORD - base)
            while mark != 0:
                positions[read - advanced] = here + np.uint64(_lowest(mark))
                mark &= mark - ONE
                read += ONE
            if read - advanced >= np.uint64(BATCH) or group == (base + UNIT) // WORD - 1:
                segment = _advance(
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


@_compiled
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

    sources: see `_become`, at the positions begin..end. The others: see `_advance`.
    """
    if sources.size > 0:
        _become(sources, tracks, starts, begin, end, m)
    segment = _segment_of(starts, begin)
    for i in range(0, m, BATCH):
        segment = _advance(
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
