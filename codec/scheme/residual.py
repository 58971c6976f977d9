"""Residuals: the change of an exact tensor from its last array to the next one, bit by bit.

    bf16   0.0123 → 0.0124     the sign stays, the magnitude grows by 1: symbol 1
    int64      41 → 44         grows by 3: symbol 5
    bool     True → False      down by 1: symbol 2

An element's step is the change of its magnitude, seen as an integer: for two floats of about the
same size, it counts the values between them. Each small step has its own symbol. Larger steps of
about the same length share a symbol, and their low bits follow the code word, as with the classes
of `runlength`. The smaller a weight, the more often an update changes it. So the exponents of the
old values are divided into a few ranges, the *contexts*. Each context has its own code for runs and
steps.

A residual is made only where it takes fewer bytes than the tensor. A sample decides first whether
to try: where all bits are new, as in a random generator's state, nothing is gained. Where nearly
all elements change, as in an optimizer's float32, there are no runs to count: the sample gives the
codes too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codec.errors import StreamError
from codec.state.tensors import TensorSpec

from . import huffman, plain, runlength, tables, workers
from .kernels import decode, dense
from .kernels import residuals as kernel
from .kernels.decode import ESCAPE, FAST
from .kernels.residuals import LITERAL
from .limits import FIELDS, MAX_CLASSES, MAX_CONTEXTS, MAX_LENGTH, MAX_STREAM, UNIT
from .payload import ROW_NBYTES
from .prefix import PrefixCode, begins_of, problem_of, stream_units
from .tables import CodeTable, Counts
from .twins import twin_of

LEAST = 1024  # bytes of a tensor: with fewer, tables cost about what they save
SAMPLED, STRETCH = 2**15, 512  # elements that are sampled first; neighbours in each stretch of them
WORTH = 0.97  # of a tensor's bytes: not tried if the sample predicts a larger residual
CONTEXTS = 3  # at most: one more saves 1 to 2 % of the bytes, for 10 % more time
COUNTED = 8  # units, at least, that are counted for the code tables of a large tensor
MOST = 8  # of so many elements at most one stays: then no runs are counted
ONCE = 64  # an element of a sample counts as so many; a symbol that has none of them counts as 1
CONTEXT_BITS = 600  # approximate cost of one more context: row, table and sizes of streams
# Bits of the mantissa by dtype, of a complex dtype those of its parts. Other dtypes are integers.
MANTISSA = {
    "F64": 52,
    "F32": 23,
    "F16": 10,
    "BF16": 7,
    "F8_E4M3": 3,
    "F8_E5M2": 2,
    "F8_E4M3FNUZ": 3,
    "F8_E5M2FNUZ": 2,
    "C128": 52,
    "C64": 23,
    "C32": 10,
}
ContextCode = tuple[NDArray[np.uint32], int, int]  # words, escape and symbol_bits
_PARTS = {"C64": 4, "C32": 2}  # bytes of the parts of an element of the track's array


@dataclass(frozen=True)
class Elements:
    """How the bits of a dtype's elements are divided.

    width: bytes of an element. magnitude, sign: masks of these bits; sign is 0 for integers.
    mantissa: bits of a magnitude below its exponent.
    """

    width: int
    magnitude: int
    sign: int
    mantissa: int

    @classmethod
    def of(cls, spec: TensorSpec) -> Elements:
        """The elements of an exact tensor's array in the track."""
        width = _PARTS.get(spec.dtype, spec.track_dtype.itemsize)
        bits = 8 * width
        if spec.dtype in MANTISSA:
            top = 1 << bits - 1
            return cls(width, top - 1, top, MANTISSA[spec.dtype])
        return cls(width, (1 << bits) - 1, 0, 0)

    @property
    def of_one_sign(self) -> int:
        """How many symbols keep an element's sign; for floats, as many change it."""
        return 8 * (8 * self.width - 1)

    @property
    def most(self) -> int:
        """Upper bound on symbols + 1."""
        return 1 + self.of_one_sign * (2 if self.sign else 1)

    def extra_bits(self, symbols: int) -> NDArray[np.int64]:
        """int64 (symbols,): how many bits follow the code word of each symbol from 1 on."""
        kinds: NDArray[np.int64] = np.arange(symbols) % self.of_one_sign >> 1
        return np.where(kinds < 16, 0, (kinds >> 2) - 2)

    def number(self, spec: TensorSpec) -> int:
        """How many elements a tensor has."""
        return spec.track_nbytes // self.width

    def pair(self, old: NDArray[Any], new: NDArray[Any]) -> kernel.Pair:
        """Two arrays as kernels take them."""
        addresses = np.uint64(old.ctypes.data), np.uint64(new.ctypes.data)
        masks = np.uint64(self.magnitude), np.uint64(self.sign), np.uint64(self.mantissa)
        return kernel.Pair(*addresses, old.nbytes // self.width, self.width, *masks)

    def contexts(self, bounds: Sequence[int]) -> kernel.Contexts:
        """Contexts as kernels take them. bounds: see `Residual`."""
        magnitudes = np.array([e << self.mantissa for e in bounds], np.uint64)
        exponents = np.arange(max(bounds, default=0) + 1)
        context_of = np.searchsorted(np.array(bounds, np.int64), exponents, side="right")
        return kernel.Contexts(magnitudes, context_of.astype(np.uint8))


@dataclass(frozen=True)
class Context:
    """The coded steps of the elements whose old values have exponents of one range.

    k: symbols + 1. code: None if nothing changes.
    """

    k: int
    code: PrefixCode | None = None

    @property
    def table(self) -> CodeTable | None:
        """The code table; None if nothing changes."""
        return self.code.table if self.code else None

    @property
    def has_runs(self) -> bool:
        """Whether only changes have code words, with the runs before them."""
        return self.code is not None and self.code.table.classes > 1


@dataclass(frozen=True)
class Residual:
    """The change from one array of an exact tensor to the next.

    bounds: the exponent at which each context but the first begins. units: of a stream.
    """

    spec: TensorSpec
    bounds: tuple[int, ...]
    units: int
    contexts: tuple[Context, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in a record, without its entry in the header."""
        codes = sum(c.code.nbytes for c in self.contexts if c.code)
        return 1 + 2 * len(self.bounds) + ROW_NBYTES * len(self.contexts) + codes

    def applied(self, old: NDArray[Any]) -> NDArray[Any]:
        """The next array, as a new array.

        old: the array before, of the tensor's track dtype and shape, C-contiguous.

        Raises:
            CodeTableError, StreamError: The residual is damaged.
        """
        kind = Elements.of(self.spec)
        check_residual(self, kind.number(self.spec))
        return _applied(self, kind, old)


def _applied_plainly(r: Residual, kind: Elements, old: NDArray[Any]) -> NDArray[Any]:
    codes = [
        (c.code.words, c.code.streams, c.code.table.lengths, c.code.table.classes, c.k)
        if c.code
        else None
        for c in r.contexts
    ]
    new = plain.read_steps(old, kind, r.bounds, r.units * UNIT, codes)
    return new.view(old.dtype).reshape(old.shape)


@twin_of(_applied_plainly)
def _applied(r: Residual, kind: Elements, old: NDArray[Any]) -> NDArray[Any]:
    """The next array. Raises StreamError."""
    n = kind.number(r.spec)
    any_runs = any(c.has_runs for c in r.contexts)
    new = np.empty_like(old) if any_runs else old.copy()
    n_streams = -(-n // (r.units * UNIT))
    lookups, fast = _lookups(kind, r.contexts)
    sizes = np.zeros((n_streams, len(r.contexts)), np.int64)
    begins = np.full(sizes.shape, 8 * fast.ctypes.data)  # any address, for no bits
    buffers = []  # kept alive: begins are addresses
    for i, c in enumerate(r.contexts):
        if c.code:
            sizes[:, i] = c.code.streams
            begins[:, i], payload_buffers = begins_of(c.code.words, sizes[:, i])
            buffers.append(payload_buffers)
    starts = np.cumsum([0, *(len(lookup) for lookup in lookups)], dtype=np.int64)[:-1]
    masks = np.array([max(len(lookup) - 1, 0) for lookup in lookups], np.int64)
    lookup = np.concatenate(lookups) if buffers else np.zeros(1, np.uint64)
    levels = np.array([c.k for c in r.contexts], np.int64)
    symbol_bits = np.array(
        [runlength.symbol_bits(c.k - 1) if c.has_runs else -1 for c in r.contexts]
    )
    what = kind.pair(old, new), kind.contexts(r.bounds)
    tables = kernel.Tables(lookup, starts, masks, fast, symbol_bits, levels)
    any_plain = any(c.code and not c.has_runs for c in r.contexts)
    status = np.zeros(n_streams, np.int64)

    def work(i: int, scratch: workers.Scratch) -> None:
        stream = i, r.units, begins[i], sizes[i], tables
        if any_runs:
            status[i] = kernel.read(*what, *stream, scratch.notes, scratch.moves)
        if any_plain and not status[i]:
            status[i] = dense.read(*what, *stream)

    workers.spread(work, n_streams)
    if status.any():
        raise StreamError(problem_of(int(status[status > 0][0]), n, int(levels.max())))
    return new


def residual_of(old: NDArray[Any], new: NDArray[Any], spec: TensorSpec) -> Residual | None:
    """The residual that leads from one array to another, or None if it would not be smaller.

    Args:
        old: The array of an exact tensor in the track, C-contiguous.
        new: The next one, of the same dtype and shape.
        spec: The tensor.
    """
    if spec.track_nbytes < LEAST:
        return None
    kind = Elements.of(spec)
    n = kind.number(spec)
    sampled = _sample(kind, n, old, new)
    if sampled is None:
        return None
    bounds, counts = sampled
    changes = int(counts[:, 1:].sum() * n / counts.sum())
    units = stream_units(n, changes // len(counts))
    arrays = old, new, kind, bounds
    if (MOST * counts[:, 0] < counts.sum(axis=1)).all():
        plans = [_Plan.of_most(kind, own, counts.sum() < n) for own in counts]
    else:
        plans = _plans(*arrays, units)
    contexts = []
    written = _written(*arrays, units, [plan.code for plan in plans])
    for (words, sizes), plan in zip(written, plans):
        if plan.table is None or not sizes.any():
            contexts.append(Context(1))
            continue
        code = PrefixCode(words, sizes.astype(np.uint32), units * UNIT, plan.table)
        contexts.append(Context(plan.k, code))
    residual = Residual(spec, bounds, units, tuple(contexts))
    return residual if residual.nbytes < spec.track_nbytes else None


def check_residual(r: Residual, n: int) -> None:
    """Raise CodeTableError or StreamError if this cannot be a residual of n elements."""
    kind = Elements.of(r.spec)
    rising = all(low < high for low, high in zip((0, *r.bounds), r.bounds))
    if not rising or (r.bounds and r.bounds[-1] > kind.magnitude >> kind.mantissa):
        raise StreamError("bounds of contexts are not rising exponents")
    if not 1 <= len(r.contexts) == len(r.bounds) + 1 <= MAX_CONTEXTS:
        raise StreamError(f"{len(r.contexts)} contexts for {len(r.bounds)} bounds")
    if not 1 <= r.units <= MAX_STREAM // UNIT:
        raise StreamError(f"streams of {r.units} units")
    for c in r.contexts:
        if c.code is None:
            if c.k != 1:
                raise StreamError("a context without changes has one level")
            continue
        if not 2 <= c.k <= kind.most:
            raise StreamError(f"{c.k} levels, of 2 to {kind.most}")
        if c.code.stream_elements != r.units * UNIT:
            raise StreamError(f"streams of other than {r.units} units")
        c.code.check(n, c.k)


class _Plan(NamedTuple):
    """How a context will be coded: symbols + 1, and the table; None if nothing changes."""

    k: int
    table: CodeTable | None

    @classmethod
    def of_most(cls, kind: Elements, counts: NDArray[np.int64], sampled: bool) -> _Plan:
        """The plan where most elements change, without a count of runs.

        counts: of symbols, int64 (symbols + 1,), of all elements or of a sample.
        """
        codes = np.trim_zeros(counts, "b")
        if sampled:  # any symbol may follow
            codes = np.ones(kind.most, np.int64)
            codes[: counts.size] = np.maximum(ONCE * counts, 1)
        return cls(codes.size, tables.choose(Counts(codes, None), None).table)

    @classmethod
    def of(cls, kind: Elements, tokens: NDArray[np.int64], n: int, sampled: bool) -> _Plan:
        """The plan for n elements. tokens: int64 (symbols, MAX_CLASSES), of all or of a sample."""
        if sampled and not len(tokens):  # any symbol may follow
            tokens = np.zeros((1, MAX_CLASSES), np.int64)
        symbols = tokens.shape[0]
        if not symbols:
            return cls(1, None)
        codes = np.zeros(kind.most if sampled else symbols + 1, np.int64)
        codes[1 : symbols + 1] = tokens.sum(axis=1)
        codes[0] = n - codes.sum()
        if sampled:  # a plain code has no escape, and any symbol may follow
            codes = np.maximum(codes, 1)
        return cls(codes.size, tables.choose(Counts(codes, tokens, uniform=True), None).table)

    @property
    def code(self) -> ContextCode:
        """Words, escape and bits of a symbol after an escape; -1 without a table."""
        if self.table is None:
            return np.zeros(1, np.uint32), 0, -1
        words, escape = self.table.full_words(self.k - 1)
        return words, int(escape), runlength.symbol_bits(self.k - 1)


def _plans(
    old: NDArray[Any], new: NDArray[Any], kind: Elements, bounds: Sequence[int], units: int
) -> list[_Plan]:
    """The plans of all contexts. units: of a stream."""
    # A large tensor's tables come from a sample of its units: rare tokens get an escape.
    stride = max(old.nbytes // (kind.width * COUNTED * UNIT), 1)
    units = 1 if stride > 1 else units
    counts, sizes = _counted(old, new, kind, bounds, units, stride)
    return [_Plan.of(kind, own, n, stride > 1) for own, n in zip(counts, sizes.tolist())]


@twin_of(plain.count_steps)
def _counted(
    old: NDArray[Any],
    new: NDArray[Any],
    kind: Elements,
    bounds: Sequence[int],
    units: int,
    stride: int,
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """See `plain.count_steps`."""
    n, n_contexts = old.nbytes // kind.width, len(bounds) + 1
    n_streams = -(-n // (units * UNIT * stride))
    pieces = workers.pieces(n_streams, least=-(-n_streams // workers.threads()))
    counts = np.zeros((len(pieces), n_contexts, kind.most - 1, MAX_CLASSES), np.int32)
    tops = np.zeros((len(pieces), n_contexts), np.int64)
    sizes = np.zeros((len(pieces), n_contexts), np.int64)
    what = kind.pair(old, new), kind.contexts(bounds)

    def work(i: int, scratch: workers.Scratch) -> None:
        streams, found = (pieces[i], units, stride), (counts[i], tops[i], sizes[i])
        kernel.count(*what, *streams, scratch.notes, *found)

    workers.spread(work, len(pieces))
    totals = [
        counts[:, i, :top].sum(axis=0, dtype=np.int64) for i, top in enumerate(tops.max(axis=0))
    ]
    return totals, sizes.sum(axis=0)


@twin_of(plain.write_steps)
def _written(
    old: NDArray[Any],
    new: NDArray[Any],
    kind: Elements,
    bounds: Sequence[int],
    units: int,
    codes: Sequence[ContextCode],
) -> list[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    """See `plain.write_steps`."""
    n = old.nbytes // kind.width
    n_streams = -(-n // (units * UNIT))
    starts = np.cumsum([0, *(words.size for words, _, _ in codes)], dtype=np.int64)[:-1]
    words = np.concatenate((*(words for words, _, _ in codes), np.zeros(1, np.uint32)))
    escapes = np.array([escape for _, escape, _ in codes], np.uint32)
    symbol_bits = np.array([bits for _, _, bits in codes], np.int64)
    longest = np.array([0, *(_longest(kind, code) for code in codes)], np.int64)
    sizes = np.zeros((n_streams, len(codes)), np.int64)
    parts: list[list[NDArray[np.uint32]]] = [[] for _ in range(n_streams)]
    own = kernel.Codes(words, starts, escapes, symbol_bits)
    what = kind.pair(old, new), kind.contexts(bounds)
    any_plain, any_runs = bool(((escapes == 0) & (symbol_bits >= 0)).any()), escapes.any()

    def work(i: int, scratch: workers.Scratch) -> None:
        elements = min(units * UNIT, n - i * units * UNIT)
        begins = np.cumsum((elements * longest >> 5) + 3)  # memory is taken as it is written
        out = scratch.at_least(int(begins[-1]))
        stream = i, units, own, begins[:-1], out, sizes[i]
        if any_runs:
            kernel.write(*what, *stream, scratch.notes)
        if any_plain:
            dense.write(*what, *stream)
        used = (sizes[i] + 31) >> 5
        parts[i] = [out[b : b + u].copy() for b, u in zip(begins.tolist(), used.tolist())]

    workers.spread(work, n_streams)
    return [(np.concatenate([own[i] for own in parts]), sizes[:, i]) for i in range(len(codes))]


def _longest(kind: Elements, code: ContextCode) -> int:
    """The most bits for one change."""
    words, escape, symbol_bits = code
    if symbol_bits < 0:
        return MAX_LENGTH
    symbols = words.size // (MAX_CLASSES if escape else 1) - 1
    extra = int(kind.extra_bits(symbols).max())
    if escape:
        extra += runlength.CLASS_BITS + symbol_bits + int(runlength.EXTRA_BITS[-1])
    return MAX_LENGTH + extra


def _sample(
    kind: Elements, n: int, old: NDArray[Any], new: NDArray[Any]
) -> tuple[tuple[int, ...], NDArray[np.int64]] | None:
    """The bounds of contexts, and the symbols that a sample has in each; None to make no residual.

    Counts are int64 (contexts, symbols + 1), 0 for no change. A small array is counted as a whole.
    """
    starts, length = np.zeros(1, np.int64), n
    if n > SAMPLED:
        length = STRETCH
        starts = np.linspace(0, n - length, SAMPLED // length).astype(np.int64)
    sampled = length * starts.size
    counts, lowest = _sampled(old, new, kind, starts, length)
    total = counts.sum(axis=0)
    top = int(np.flatnonzero(total).max())
    # Symbols of steps of one length are counted together; up to 3 bits then tell them apart.
    edges = np.concatenate((np.arange(min(top, LITERAL) + 1), np.arange(LITERAL + 1, top + 1, 8)))
    rows = np.add.reduceat(counts[:, : top + 1], edges, axis=1)
    rows, firsts = _joined(rows, CONTEXTS, CONTEXT_BITS * sampled / n)
    bits = sum(huffman.entropy(row) for row in rows)
    extra = kind.extra_bits(top)
    bits += float((total[1 : top + 1] * (extra + 3 * (extra > 0))).sum())
    if bits > WORTH * 8 * kind.width * sampled:
        return None
    bounds = tuple(int(lowest + first) for first in firsts[1:])
    return bounds, np.add.reduceat(counts[:, : top + 1], firsts, axis=0)


@twin_of(plain.sample_steps)
def _sampled(
    old: NDArray[Any], new: NDArray[Any], kind: Elements, starts: NDArray[np.int64], length: int
) -> tuple[NDArray[np.int64], int]:
    """See `plain.sample_steps`."""
    counts = np.zeros((FIELDS, kind.most), np.int64)
    return counts, int(kernel.sample(kind.pair(old, new), starts, length, counts))


@twin_of(plain.join_rows)
def _joined(
    counts: NDArray[np.int64], most: int, cost: float
) -> tuple[NDArray[np.int64], list[int]]:
    """See `plain.join_rows`."""
    rows, firsts = counts.copy(), np.zeros(FIELDS, np.int64)
    n = kernel.join_rows(rows, most, float(cost), firsts)
    return rows[:n], firsts[:n].tolist()


def _lookups(
    kind: Elements, contexts: Sequence[Context]
) -> tuple[list[NDArray[np.uint64]], NDArray[np.uint64]]:
    """Two look-up tables of each context: for all words, and for words of at most FAST bits."""
    lookups = []
    fast = np.zeros((len(contexts), 2**FAST), np.uint64)
    many = np.empty(2**FAST, np.uint64)
    for i, table in enumerate(c.table for c in contexts):
        if table is None:
            lookups.append(np.zeros(0, np.uint64))
            continue
        width = max(int(table.lengths.max()), FAST)
        lookup = np.zeros(2**width, np.uint64)
        half = kind.of_one_sign if table.classes == 1 else 0
        decode.lookup(table.words, table.classes, width, half, lookup, many)
        row = lookup[: fast.shape[1]]
        fast[i] = np.where(row >> np.uint64(8) & np.uint64(255) > FAST, ESCAPE, row)
        lookups.append(lookup)
    return lookups, fast
