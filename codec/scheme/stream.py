"""Quantized values to bytes and back: the lossless stage, for every coder.

On disk, an alphabet takes its payload, see `payload`, and

    4 bytes for each level but the first, which is 0; or 4 bytes for the step size of uniform levels
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from codec.errors import StreamError
from codec.state.family import ROOTS, SIZES

from . import prefix, tables
from .coders import coder_of
from .measures import Scale, move, no_sizes
from .payload import Constant, Levels, Matrices, Payload, Sums, advance_survivors, matrix_of
from .prefix import PrefixCode
from .quantize import Quantized, empty_codes
from .survivors import Segments, Survivors, packed
from .tables import Choice, CodeTable, Counts
from .uniform import MAX_STEPS, levels_of

MAX_LEVELS = 511  # zero, and one level for each exponent field and sign
MAX_UNIFORM = 2 * MAX_STEPS + 1


@dataclass(frozen=True)
class Encoded:
    """A quantized delta as bytes.

    Attributes:
        payload: The codes, written.
        levels: float32 (k,), levels[0] == 0.0.
        shape: The delta's.
        bits: x of priority promotion, or None.
        coder: The coder's name.
        uniform: Whether the levels are multiples of one step size, see `uniform`.
        measure: One of `family.MEASURES` that steps are in; None for plain differences.
        sizes: float32, that of each tensor; empty unless steps are in sizes and something changes.
        known: The codes in steps of a measure, uint16 (n,), if they were encoded here; else None.
    """

    payload: Payload
    levels: Levels
    shape: tuple[int, ...]
    bits: int | None
    coder: str
    uniform: bool = False
    measure: str | None = None
    sizes: NDArray[np.float32] = field(default_factory=no_sizes)
    known: NDArray[np.uint16] | None = field(default=None, repr=False, compare=False)

    @property
    def k(self) -> int:
        """How many codes there are."""
        return len(self.levels)

    @property
    def n_levels(self) -> int:
        """How many levels other than 0 there are."""
        return self.k - 1

    @property
    def payload_bits(self) -> int:
        """Bits of all codes."""
        return self.payload.bits

    @property
    def table(self) -> CodeTable | None:
        """The code table; None if the payload has no code words."""
        return self.payload.table

    @property
    def code_lengths(self) -> NDArray[np.uint8]:
        """uint8, the code length of each code or token; all 0 without a table."""
        return self.table.lengths if self.table else np.zeros(self.k, np.uint8)

    @property
    def cached(self) -> bool:
        """Whether the code table is the last one, reused."""
        return isinstance(self.payload, PrefixCode) and self.payload.cached

    @property
    def saved_bits(self) -> int:
        """How many more bits a new table would have cost."""
        return self.payload.saved_bits if isinstance(self.payload, PrefixCode) else 0

    @property
    def table_nbytes(self) -> int:
        """Bytes of the table on disk: 0 if the last one is reused."""
        return self.payload.table_nbytes

    @property
    def stored_levels(self) -> NDArray[np.float32]:
        """float32: the levels as a record stores them.

        All levels but the zero; or the step size alone, and the sizes.
        """
        levels = self.levels[1 : 2 if self.uniform else None]
        return np.concatenate((levels, self.sizes)) if self.sizes.size else levels

    @property
    def nbytes(self) -> int:
        """Bytes on disk: the payload with its head, and levels; without the row."""
        return self.payload.nbytes + self.stored_levels.nbytes


def encode(
    q: Quantized, coder: str = "huffman", shapes: Sequence[tuple[int, ...]] | None = None
) -> Encoded:
    """Encode the codes of ``q`` without loss.

    Args:
        q: A quantized delta.
        coder: "huffman", the paper's code of single values; "runlength", which also codes runs of
            zeros and is never larger; or "context", smaller still.
        shapes: Of the tensors, if several share the alphabet. A context code expects the values of
            a row or column to be alike.

    Raises:
        SettingsError: There is no such coder.
        StreamError: Codes, levels and buckets of ``q`` contradict each other.
    """
    coder_of(coder)
    counts, k = q.counts, q.levels.size
    if counts.size != k or k > (MAX_UNIFORM if q.uniform else MAX_LEVELS):
        raise StreamError(f"{counts.size} different codes for {k} levels")
    code_counts = np.bincount(q.codes, minlength=k)
    if code_counts.size != k or (code_counts != counts).any():
        raise StreamError("the codes do not have the counts of their buckets")
    if np.count_nonzero(counts) == 1 and not needs_no_bits(counts) and not q.uniform:
        raise StreamError(f"only one of {k} levels occurs, which a prefix code cannot express")
    with packed(q.codes) as survivors:
        matrices = tuple(matrix_of(shape) for shape in shapes or (q.shape,))
        stage = LosslessStage(coder, q.shape, matrices, bits=q.bits)
        return code(stage.message(survivors, counts, q.levels, uniform=q.uniform))[0]


def decode(e: Encoded) -> Quantized:
    """The codes that were encoded, and their levels as in `Encoded`; buckets are None.

    Never reads or writes out of bounds, whatever the fields hold.

    Raises:
        SettingsError: There is no such coder.
        CodeTableError, StreamError: The encoding is damaged.
    """
    coder_of(e.coder)
    try:
        n = np.broadcast_to(np.uint8(0), e.shape).size  # numpy's rules for shapes, no memory
    except (TypeError, ValueError, OverflowError) as exc:
        raise StreamError(f"no array can have that shape: {exc}") from exc
    check(e, n)
    codes = e.payload.codes(n, e.levels, e.uniform)
    codes = codes.astype(empty_codes(0, e.k).dtype, copy=False)
    return Quantized(codes, e.levels, e.shape, e.bits, None, e.uniform)


@dataclass(frozen=True)
class LosslessStage:
    """How the codes of one alphabet are written.

    Attributes:
        coder: The coder's name.
        shape: The delta's.
        matrices: Rows and columns of the tensors; () where only code words can serve.
        previous: The code table sent last.
        bits: x of priority promotion, or None.
    """

    coder: str
    shape: tuple[int, ...]
    matrices: Matrices = ()
    previous: CodeTable | None = None
    bits: int | None = None

    def message(
        self,
        survivors: Survivors,
        code_counts: NDArray[np.int64],
        levels: Levels,
        *,
        final: NDArray[np.uint16] | None = None,
        uniform: bool = False,
    ) -> Message:
        """Give survivors their final codes, and count tokens.

        Args:
            survivors: Of the alphabet.
            code_counts: int64 (k,), how often each code occurs.
            levels: As in `Encoded`.
            final: The final code of each code, uint16 (512,); None if codes are final.
            uniform: Whether the levels are uniform steps.
        """
        coder, n = coder_of(self.coder), survivors.n
        units = prefix.stream_units(n, n - int(code_counts[0])) if coder.counts_runs else 1
        counted = prefix.settle_tokens(survivors, final, code_counts, units)
        tokens = counted if coder.counts_runs else None
        m = Message(self, survivors, units, Counts(code_counts, tokens, uniform), levels, uniform)
        if needs_no_bits(code_counts):
            return m
        choice = tables.choose(m.counts, self.previous, m.n_streams)
        if coder.direct and self.matrices and survivors.n:
            direct = coder.direct(survivors, self.matrices, levels, uniform)
            if direct and direct.nbytes < choice.nbytes(m.n_streams):
                return replace(m, direct=direct)
        return replace(m, choice=choice)


@dataclass(frozen=True)
class Message:
    """An alphabet ready to be written: its survivors have their final codes.

    units: those of a stream. counts: of codes and tokens. levels, uniform: as in `Encoded`.
    choice: the cheapest code table; None if there are no code words. direct: the payload of the
    coder if it is shorter than code words.
    """

    stage: LosslessStage
    survivors: Survivors
    units: int
    counts: Counts
    levels: Levels
    uniform: bool
    choice: Choice | None = None
    direct: Payload | None = None

    @property
    def n_streams(self) -> int:
        """Streams of a prefix code."""
        return -(-self.survivors.units // self.units)

    @property
    def most_nbytes(self) -> int:
        """An upper bound of `Encoded.nbytes`."""
        n_levels = len(self.levels) - 1
        nbytes = 4 * (min(n_levels, 1) if self.uniform else n_levels)
        if self.direct:
            nbytes += self.direct.nbytes
        elif self.choice:
            nbytes += self.choice.nbytes(self.n_streams)
        return nbytes


def needs_no_bits(counts: NDArray[np.int64]) -> bool:
    """True if all elements have the last code."""
    return counts.size == 1 or (counts.size == 2 and counts[0] == 0)


def code(m: Message, segments: Segments | None = None, mode: int = 0) -> tuple[Encoded, Sums]:
    """Encode a message, and preview or change the track it came from.

    Args:
        m: The message. Its survivors lose their codes.
        segments: The track, and the arrays to save; None to leave the track alone.
        mode: CHANGE to change the track, LOOK to compute digests only, 0 for neither.

    Returns:
        The encoding, and by how much the digest of each tensor changes (uint64).
    """
    stage = m.stage
    e = Encoded(m.direct or Constant(), m.levels, stage.shape, stage.bits, stage.coder, m.uniform)
    if m.direct:
        return e, advance_survivors(m.survivors, m.levels, segments, mode)
    if m.choice is None:
        return e, advance(e, segments, mode)
    payload, sums = prefix.write(m.survivors, m.units, m.choice, m.levels, segments, mode)
    return replace(e, payload=payload), sums


def advance(e: Encoded, segments: Segments | None, mode: int) -> Sums:
    """Decode onto the track.

    Args:
        e: The encoding.
        segments: The track.
        mode: CHANGE to change the track, LOOK to compute digests only.

    Returns:
        By how much the digest of each tensor changes, uint64.

    Raises:
        CodeTableError, StreamError: The encoding is damaged. The track may have changed in part.
    """
    if segments is None or mode == 0:
        return np.zeros(0, np.uint64)
    check(e, segments.n)
    if e.measure is not None:
        n_tensors = len(segments.arrays[0])
        if e.k > 1 and e.measure == SIZES and e.sizes.size != n_tensors:
            raise StreamError(f"sizes of {e.sizes.size} tensors, not of {n_tensors}")
        if e.k == 1:
            return np.zeros(n_tensors, np.uint64)
        tensors = zip(segments.arrays[0], segments.seconds)
        if e.measure == ROOTS and any(t.shape != r.shape or t.dtype != r.dtype for t, r in tensors):
            raise StreamError("a second moment of another shape or dtype")
        codes = _codes_of(e, segments.n) if e.known is None else e.known
        scale = Scale(e.measure, e.levels[1], segments.seconds, e.sizes)
        return move(segments, scale, codes, e.levels, mode)
    return e.payload.advance(e.levels, e.uniform, segments, mode)


def is_repeated(e: Encoded, encoded: Encoded, n: int) -> bool:
    """Whether the payload of n values holds the codes that were encoded in steps of a measure.

    Raises CodeTableError or StreamError for a damaged payload.
    """
    check(e, n)
    return (
        (e.measure, e.coder) == (encoded.measure, encoded.coder)
        and np.array_equal(e.levels, encoded.levels)
        and np.array_equal(e.sizes, encoded.sizes)
        and np.array_equal(_codes_of(e, n), encoded.known)  # type: ignore[arg-type]
    )


def _codes_of(e: Encoded, n: int) -> NDArray[np.uint16]:
    return e.payload.codes(n, e.levels, e.uniform).astype(np.uint16, copy=False)


def element_bits(e: Encoded) -> NDArray[np.float64]:
    """The bits of each element of a payload whose bits values share, float64 (n,).

    Raises:
        CodeTableError, StreamError: The encoding is damaged, or its payload has a word for each
            value or run.
    """
    n = math.prod(e.shape)
    check(e, n)
    return e.payload.element_bits(n, e.levels, e.uniform)


def check(e: Encoded, n: int) -> None:
    """Raise CodeTableError or StreamError if this cannot be an encoding of n elements."""
    most = MAX_UNIFORM if e.uniform else MAX_LEVELS
    if not _are_levels(e.levels, most):
        raise StreamError(f"levels that are not 1 to {most} float32 numbers")
    if e.levels[:1].any() or not np.isfinite(e.levels).all():
        raise StreamError("levels that are not zero, then finite numbers")
    if e.uniform and not _are_steps(e.levels):
        raise StreamError("levels are not multiples of a step size above 0")
    if not isinstance(e.payload, Payload):
        raise StreamError("a payload of no kind")
    if not (np.isfinite(e.sizes) & (e.sizes > 0)).all():
        raise StreamError("sizes that are not above 0")
    e.payload.check(n, e.k)


def _are_levels(levels: object, most: int) -> bool:
    return (
        isinstance(levels, np.ndarray)
        and levels.dtype == np.float32
        and levels.ndim == 1
        and 1 <= len(levels) <= most
    )


def _are_steps(levels: NDArray[np.float32]) -> bool:
    """Whether these are uniform levels. levels: float32 (k,)."""
    if levels.size == 1:
        return True
    return bool(levels[1] > 0 and np.array_equal(levels, levels_of(levels[1], levels.size)))
