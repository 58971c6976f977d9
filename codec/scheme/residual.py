"""Residuals: what leads an exact tensor from its last value to the next one, bit by bit.

    bf16   0.0123 → 0.0124     the sign stays, the magnitude grows by 1: symbol 1
    int64      41 → 44         grows by 3: symbol 5
    bool     True → False      down by 1: symbol 2

An element's step is the change of its magnitude, seen as an integer: for floats that are nearly
alike it counts the values between them. Small steps are symbols of their own, larger ones share one
with others as long, and their low bits follow the code word (see `runlength`, whose classes these
are). Elements are divided by the exponent of their old value: the smaller a weight, the more often
an update changes it, so runs between changes and steps are coded within each *context*.

A residual is made only where it takes fewer bytes than the tensor. A sample decides first whether
to try: where all bits are new, as in a random generator's state, nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import StreamError
from codec.state.tensors import TensorSpec

from . import huffman, kernels, runlength, tables, workers
from .coders import stream_units
from .kernels import FIELDS, LITERAL, MAX_CLASSES, MAX_CONTEXTS, MAX_STREAM, UNIT
from .stream import begins_of, check_words, problem_of
from .tables import CodeTable, Counts

LEAST = 1024  # bytes of a tensor: with fewer, tables cost about what they save
SAMPLED, STRETCH = 2**15, 512  # elements that are looked at first; neighbours among them
WORTH = 0.97  # of a tensor's bytes: a residual that the sample says is larger is not tried
CONTEXTS = 3  # at most: another one saves 1 or 2 % of the bytes, and takes a tenth of the time
COUNTED = 8  # units at least, from which a large tensor's code tables are made
CONTEXT_BITS = 600  # about what one more context costs: row, table and sizes of streams
# dtype -> bits of the mantissa; every other one is of integers. Complex numbers: of their parts.
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
_PARTS = {"C64": 4, "C32": 2}  # bytes of what an element of the track's array is made of


@dataclass(frozen=True)
class Elements:
    """How a dtype's elements are seen.

    width: bytes. magnitude, sign: masks of their bits; sign is 0 for integers. mantissa: bits of a
    magnitude below its exponent.
    """

    width: int
    magnitude: int
    sign: int
    mantissa: int

    @classmethod
    def of(cls, spec: TensorSpec) -> Elements:
        """Those of an exact tensor's array in the track."""
        width = _PARTS.get(spec.dtype, spec.track_dtype.itemsize)
        bits = 8 * width
        if spec.dtype in MANTISSA:
            top = 1 << bits - 1
            return cls(width, top - 1, top, MANTISSA[spec.dtype])
        return cls(width, (1 << bits) - 1, 0, 0)

    @property
    def most(self) -> int:
        """Symbols and 1, at most."""
        return 1 + 4 * (8 * self.width - 1) * (4 if self.sign else 2)

    def extra_bits(self, symbols: int) -> NDArray[np.int64]:
        """int64 (symbols,): of each symbol from 1 on, how many bits follow its code word."""
        of_one_sign = self.most // 2 if self.sign else self.most - 1
        kinds: NDArray[np.int64] = np.arange(symbols) % of_one_sign >> 1
        return np.where(kinds < 16, 0, (kinds >> 2) - 2)

    def number(self, spec: TensorSpec) -> int:
        """How many a tensor has."""
        return spec.track_nbytes // self.width

    @property
    def masks(self) -> tuple[np.uint64, np.uint64]:
        """As the kernels take them."""
        return np.uint64(self.magnitude), np.uint64(self.sign)

    def given(self, bounds: tuple[int, ...]) -> tuple[Any, ...]:
        """What the kernels want to know: masks, bounds, mantissa, and contexts by exponent."""
        magnitudes = np.array([e << self.mantissa for e in bounds], np.uint64)
        exponents = np.arange(max(bounds, default=0) + 1)
        context_of = np.searchsorted(np.array(bounds, np.int64), exponents, side="right")
        own = (magnitudes, np.uint64(self.mantissa), context_of.astype(np.uint8))
        return (*self.masks, *own)


@dataclass(frozen=True)
class Context:
    """The steps of the elements whose old values have some exponents.

    k: symbols and 1. table, streams, payload: as in `Encoded`; no table if nothing changes.
    """

    k: int
    table: CodeTable | None
    streams: NDArray[np.uint32]
    payload: NDArray[np.uint32]


@dataclass(frozen=True)
class Residual:
    """What leads from one array of an exact tensor to the next.

    bounds: the exponents at which contexts begin, but the first. units: of a stream.
    """

    spec: TensorSpec
    bounds: tuple[int, ...]
    units: int
    contexts: tuple[Context, ...]

    @property
    def nbytes(self) -> int:
        """Bytes in a record, without its entry in the header."""
        total = head_nbytes(len(self.contexts))
        for c in self.contexts:
            total += row_nbytes(c.table.packed.size if c.table else 0)
            total += c.streams.nbytes + c.payload.nbytes
        return total

    def applied(self, old: NDArray[Any]) -> NDArray[Any]:
        """The next array, a new one.

        old: the array before, of the tensor's track dtype and shape, C-contiguous.

        Raises:
            CodeTableError, StreamError: The residual is damaged.
        """
        kind = Elements.of(self.spec)
        n = kind.number(self.spec)
        check_residual(self, n)
        new = np.empty_like(old)
        n_streams = -(-n // (self.units * UNIT))
        coded = [c for c in self.contexts if c.table is not None]
        kinds = np.array([_kind_of(c.table) for c in self.contexts], np.int64)
        begins = np.zeros((n_streams, len(kinds)), np.int64)
        sizes = np.zeros((n_streams, len(kinds)), np.int64)
        kept = []
        for i, c in enumerate(self.contexts):
            if c.table is not None:
                sizes[:, i] = c.streams
                begins[:, i], own = begins_of(c.payload, sizes[:, i])
                kept.append(own)
        ones, fast = _lookups(self.contexts)
        starts = np.cumsum([0, *(len(one) for one in ones)], dtype=np.int64)[:-1]
        masks = np.array([max(len(one) - 1, 0) for one in ones], np.int64)
        one = np.concatenate(ones) if coded else np.zeros(1, np.uint64)
        levels = np.array([c.k for c in self.contexts], np.int64)
        symbol_bits = np.array([runlength.symbol_bits(max(k - 1, 1)) for k in levels.tolist()])
        given = (self.units, *kind.given(self.bounds), kinds)
        look_up = (one, starts, masks, fast, symbol_bits, levels)
        runs = (runlength.FIRST_RUN, runlength.EXTRA_BITS)
        where = (np.uint64(old.ctypes.data), np.uint64(new.ctypes.data), n, kind.width)
        status = np.zeros(n_streams, np.int64)

        def work(i: int, scratch: workers.Scratch) -> None:
            own = (scratch.moves, scratch.marks, *scratch.owns, scratch.places, scratch.edge)
            status[i] = kernels.read_steps(
                *where, i, *given, begins[i], sizes[i], *look_up, *runs, *own
            )

        workers.spread(work, n_streams)
        if status.any():
            raise StreamError(problem_of(int(status[status > 0][0]), n, int(levels.max())))
        return new


def residual_of(old: NDArray[Any], new: NDArray[Any], spec: TensorSpec) -> Residual | None:
    """The residual that leads from one array to another, or None where it would not be smaller.

    Args:
        old: The array of an exact tensor in the track, C-contiguous.
        new: The next one, of the same dtype and shape.
        spec: The tensor.
    """
    if spec.track_nbytes < LEAST:
        return None
    kind = Elements.of(spec)
    n = kind.number(spec)
    where = (np.uint64(old.ctypes.data), np.uint64(new.ctypes.data))
    found = _contexts(kind, n, where)
    if found is None:
        return None
    bounds, changes = found
    encoder = _Encoder(kind, n, where, bounds, changes)
    if encoder.nbytes >= spec.track_nbytes:
        return None
    residual = Residual(spec, bounds, encoder.units, encoder.contexts())
    return residual if residual.nbytes < spec.track_nbytes else None


def head_nbytes(contexts: int) -> int:
    """Bytes before the first context."""
    return -(-2 * contexts // 4) * 4


def row_nbytes(table: int) -> int:
    """Bytes of a context's row and its table of so many bytes."""
    return -(-(6 + table) // 4) * 4


def check_residual(r: Residual, n: int) -> None:
    """Raise CodeTableError or StreamError for what cannot be the residual of n elements."""
    kind = Elements.of(r.spec)
    rising = all(low < high for low, high in zip((0, *r.bounds), r.bounds))
    if not rising or (r.bounds and r.bounds[-1] > kind.magnitude >> kind.mantissa):
        raise StreamError("bounds of contexts are not rising exponents")
    if not 1 <= len(r.contexts) == len(r.bounds) + 1 <= MAX_CONTEXTS:
        raise StreamError(f"{len(r.contexts)} contexts for {len(r.bounds)} bounds")
    if not 1 <= r.units <= MAX_STREAM // UNIT:
        raise StreamError(f"streams of {r.units} units")
    for c in r.contexts:
        if c.table is None:
            if c.k != 1 or c.streams.size or c.payload.size:
                raise StreamError("a context without changes has one level and no streams")
            continue
        if not 2 <= c.k <= kind.most:
            raise StreamError(f"{c.k} levels, of 2 to {kind.most}")
        c.table.check()
        if c.table.classes == 1 and c.table.lengths.size != c.k:
            raise StreamError(f"{c.table.lengths.size} code lengths for {c.k} levels")
        if c.streams.size != -(-n // (r.units * UNIT)):
            raise StreamError(f"{c.streams.size} streams for {n} elements")
        check_words(c.payload, c.streams)


@dataclass(frozen=True)
class _Plan:
    """How a context will be coded.

    k: symbols and 1. table: None if nothing changes. bits: of all streams, about.
    extra: bits behind a code word, at most.
    """

    k: int
    table: CodeTable | None
    bits: int
    extra: int

    @classmethod
    def of(cls, kind: Elements, tokens: NDArray[np.int64], n: int, sampled: bool) -> _Plan:
        """From the tokens (symbols, MAX_CLASSES) among n elements, or in a sample of them."""
        symbols = tokens.shape[0]
        if not symbols and not sampled:
            return cls(1, None, 0, 0)
        codes = np.zeros(kind.most if sampled else symbols + 1, np.int64)
        codes[1 : symbols + 1] = tokens.sum(axis=1)
        codes[0] = n - codes.sum()
        extra = kind.extra_bits(codes.size - 1)
        bits = int((codes[1:] * extra).sum())
        if sampled:  # a plain code has no escape, and any symbol may follow
            codes = np.maximum(codes, 1)
        choice = tables.choose(Counts(codes, tokens, uniform=True), None)
        return cls(codes.size, choice.table, bits + choice.bits, int(extra.max()))

    @property
    def longest(self) -> int:
        """Bits for one change, at most."""
        if self.table is None or self.table.classes == 1:
            return huffman.MAX_LENGTH + self.extra
        escaped = runlength.CLASS_BITS + self.symbol_bits + int(runlength.EXTRA_BITS[-1])
        return huffman.MAX_LENGTH + escaped + self.extra

    @property
    def symbol_bits(self) -> int:
        """Of a symbol after an escape; -1 without code words."""
        return -1 if self.table is None else runlength.symbol_bits(self.k - 1)


class _Encoder:
    """Codes the steps between two arrays.

    Args:
        kind: Of the elements.
        n: How many.
        where: Addresses of the old array and the new one.
        bounds: As in `Residual`.
        changes: About how many elements change.

    Attributes:
        units: Of a stream.
        nbytes: Of the residual, about.
    """

    def __init__(
        self,
        kind: Elements,
        n: int,
        where: tuple[np.uint64, np.uint64],
        bounds: tuple[int, ...],
        changes: int,
    ) -> None:
        n_contexts = len(bounds) + 1
        self.units = stream_units(n, changes // n_contexts)
        self._n_streams = -(-n // (self.units * UNIT))
        self._kind, self._n = kind, n
        self._given = (*where, n, kind.width)
        self._contexts = kind.given(bounds)
        # The tables of a large tensor come from some of its units: what is rare gets an escape.
        self._stride = max(n // (COUNTED * UNIT), 1)
        self._plans = self._planned(n_contexts)
        words = sum(plan.bits for plan in self._plans) * self._stride >> 5
        self.nbytes = 4 * (words + 2 * self._n_streams * n_contexts)

    def contexts(self) -> tuple[Context, ...]:
        """All of them, coded."""
        plans, n_streams = self._plans, self._n_streams
        full = [p.table.full_words(p.k - 1) if p.table else (_NO_WORDS, 0) for p in plans]
        starts = np.cumsum([0, *(own.size for own, _ in full)], dtype=np.int64)[:-1]
        words = np.concatenate((*(own for own, _ in full), np.zeros(1, np.uint32)))
        escapes = np.array([escape for _, escape in full], np.uint32)
        symbol_bits = np.array([p.symbol_bits for p in plans], np.int64)
        given = (words, starts, escapes, symbol_bits)
        longest = np.array([0, *(p.longest for p in plans)], np.int64)
        sizes = np.zeros((n_streams, len(plans)), np.int64)
        parts: list[list[NDArray[np.uint32]]] = [[] for _ in range(n_streams)]

        def work(i: int, scratch: workers.Scratch) -> None:
            elements = min(self.units * UNIT, self._n - i * self.units * UNIT)
            begins = np.cumsum((elements * longest >> 5) + 2)  # memory is taken as it is written
            out = scratch.room(int(begins[-1]))
            lists = (*scratch.owns, scratch.places, scratch.edge)
            own = (*given, begins[:-1], out, sizes[i], *lists)
            kernels.write_steps(*self._given, i, self.units, *self._contexts, *own)
            used = (sizes[i] + 31) >> 5
            parts[i] = [out[b : b + u].copy() for b, u in zip(begins.tolist(), used.tolist())]

        workers.spread(work, n_streams)
        contexts = []
        for i, plan in enumerate(plans):
            if sizes[:, i].any():
                payload = np.concatenate([own[i] for own in parts])
                streams = sizes[:, i].astype(np.uint32)
                contexts.append(Context(plan.k, plan.table, streams, payload))
            else:
                contexts.append(Context(1, None, _NO_WORDS, _NO_WORDS))
        return tuple(contexts)

    def _planned(self, n_contexts: int) -> list[_Plan]:
        sampled = self._stride > 1
        units = 1 if sampled else self.units
        n_streams = -(-self._n // (units * UNIT * self._stride))
        pieces = workers.pieces(n_streams, least=-(-n_streams // workers.threads()))
        found = np.zeros((len(pieces), n_contexts, self._kind.most - 1, MAX_CLASSES), np.int32)
        tops = np.zeros((len(pieces), n_contexts), np.int64)
        sizes = np.zeros((len(pieces), n_contexts), np.int64)

        def work(i: int, scratch: workers.Scratch) -> None:
            lists = (*scratch.owns, scratch.places, scratch.edge)
            own = (*pieces[i], units, self._stride, *self._contexts)
            kernels.count_steps(*self._given, *own, found[i], tops[i], sizes[i], *lists)

        workers.spread(work, len(pieces))
        most = np.maximum(tops.max(axis=0), int(sampled))
        return [
            _Plan.of(self._kind, found[:, i, :top].sum(axis=0, dtype=np.int64), size, sampled)
            for i, (top, size) in enumerate(zip(most.tolist(), sizes.sum(axis=0).tolist()))
        ]


_NO_WORDS = np.zeros(0, np.uint32)


def _contexts(
    kind: Elements, n: int, where: tuple[np.uint64, np.uint64]
) -> tuple[tuple[int, ...], int] | None:
    """The bounds of contexts, and about how many elements change; None if that takes too much."""
    starts, length = np.zeros(1, np.int64), n
    if n > SAMPLED:
        length = STRETCH
        starts = np.linspace(0, n - length, SAMPLED // length).astype(np.int64)
    sampled = length * starts.size
    counts = np.zeros((FIELDS, kind.most), np.int64)
    own = (*where, kind.width, starts, length, *kind.masks, np.uint64(kind.mantissa), counts)
    lowest = kernels.sample_steps(*own)
    total = counts.sum(axis=0)
    top = int(np.flatnonzero(total).max())
    firsts = np.zeros(FIELDS, np.int64)
    # Symbols of steps that are as long count as one; which of them it is takes up to 3 bits.
    edges = np.concatenate((np.arange(min(top, LITERAL) + 1), np.arange(LITERAL + 1, top + 1, 8)))
    rows = np.add.reduceat(counts[:, : top + 1], edges, axis=1)
    left = kernels.join_rows(rows, CONTEXTS, CONTEXT_BITS * sampled / n, firsts)
    bits = sum(huffman.entropy(row) for row in rows[:left])
    extra = kind.extra_bits(top)
    bits += float((total[1 : top + 1] * (extra + 3 * (extra > 0))).sum())
    if bits > WORTH * 8 * kind.width * sampled:
        return None
    bounds = tuple(int(lowest + first) for first in firsts[1:left])
    return bounds, int((sampled - total[0]) * n / sampled)


def _kind_of(table: CodeTable | None) -> int:
    """As `kernels.read_steps` takes it."""
    return 0 if table is None else 1 if table.classes == 1 else 2


def _lookups(
    contexts: Sequence[Context],
) -> tuple[list[NDArray[np.uint64]], NDArray[np.uint64]]:
    """Look-up tables of every context: all its words, and those of at most FAST bits."""
    ones = []
    fast = np.zeros((len(contexts), 2**kernels.FAST), np.uint64)
    many = np.empty(2**kernels.FAST, np.uint64)
    runs = (runlength.EXTRA_BITS, runlength.FIRST_RUN)
    for i, table in enumerate(c.table for c in contexts):
        if table is None:
            ones.append(np.zeros(0, np.uint64))
            continue
        width = max(int(table.lengths.max()), kernels.FAST)
        one = np.zeros(2**width, np.uint64)
        kernels.lookup(table.words, table.classes, *runs, width, one, many)
        own = one[: fast.shape[1]]
        fast[i] = np.where(own >> np.uint64(8) & np.uint64(255) > kernels.FAST, kernels.ESCAPE, own)
        ones.append(one)
    return ones, fast
