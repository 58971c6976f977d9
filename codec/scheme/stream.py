"""Quantized values to bytes and back: the lossless stage, for every coder.

On disk, an alphabet takes its payload, see `payload`, and

    4 bytes for each level but the first, which is 0; or 4 bytes for the step size of uniform levels
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.errors import StreamError

from . import grouped, prefix, tables
from .coders import coder_of
from .grouped import Groups
from .payload import (
    Constant,
    DirectPayload,
    Levels,
    Matrices,
    Payload,
    Sums,
    advance_survivors,
    columns_of,
    matrix_of,
)
from .prefix import PrefixCode
from .quantize import Quantized, empty_codes
from .survivors import Segments, Survivors, packed
from .tables import Choice, CodeTable, Counts
from .uniform import MAX_STEPS, levels_of

MAX_LEVELS = 511  # zero, and one level for each exponent field and sign
MAX_UNIFORM = 2 * MAX_STEPS + 1
# Levels of a batch, over all codes, columns and tensors: MAX_LEVELS of 100,000 tensors, 256 MiB.
MAX_BATCH_LEVELS = 2**26


@dataclass(frozen=True)
class Encoded:
    """A quantized delta as bytes.

    Attributes:
        payload: The codes, written.
        levels: float32 (k,), levels[0] == 0.0; or (k, m) for m merged deltas, whose levels are
            added one after the other. In a batch (k, m, t): each of the t tensors has levels of its
            own, 0.0 for a code that it lacks; m is 1 for a plain delta.
        shape: The delta's.
        bits: x of priority promotion, or None.
        coder: The coder's name.
        uniform: Whether the levels are multiples of one step size, see `uniform`.
    """

    payload: Payload
    levels: Levels
    shape: tuple[int, ...]
    bits: int | None
    coder: str
    uniform: bool = False

    @property
    def k(self) -> int:
        """How many codes there are."""
        return len(self.levels)

    @property
    def columns(self) -> int:
        """How many merged deltas these are; 0 for a plain delta."""
        return columns_of(self.levels)

    @property
    def is_batch(self) -> bool:
        """Whether each of its tensors has levels of its own, see `batch`."""
        return self.levels.ndim == 3

    @property
    def n_levels(self) -> int:
        """How many levels other than 0 there are, summed over the tensors of a batch."""
        return self.stored_levels.size if self.is_batch else self.k - 1

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

        All levels but the zero, row by row; or the step size alone; or, in a batch, the levels of
        one tensor after the other.
        """
        if self.is_batch:
            return stored_levels(self.levels)
        return self.levels[1 : 2 if self.uniform else None].reshape(-1)

    @property
    def nbytes(self) -> int:
        """Bytes on disk: the payload with its head, and levels; without the row."""
        levels = self.stored_levels.nbytes
        if self.is_batch:
            levels += numbers_of_levels(self.levels).nbytes
        return self.payload.nbytes + levels


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
        matrices: Rows and columns of the tensors; () where only code words of single values or
            runs can serve, in a batch and in merged deltas.
        previous: The code table sent last.
        bits: x of priority promotion, or None.
        groups: Whether groups of values may be coded: not where survivors are coded several times,
            with other levels each time.
    """

    coder: str
    shape: tuple[int, ...]
    matrices: Matrices = ()
    previous: CodeTable | None = None
    bits: int | None = None
    groups: bool = True

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
        coder = coder_of(self.coder)
        if coder.groups and self.groups and self.matrices:
            groups, are_final = grouped.settle(survivors, final, code_counts)
            if groups:
                counts = Counts(code_counts, None, uniform)
                return Message(self, survivors, 1, counts, levels, uniform, groups=groups)
            final = None if are_final else final
        units, tokens = coder.settle(survivors, final, code_counts)
        counts = Counts(code_counts, tokens, uniform)
        if needs_no_bits(code_counts):
            return Message(self, survivors, units, counts, levels, uniform)
        choice = tables.choose(counts, self.previous, -(-survivors.units // units))
        direct = None
        if self.matrices:
            kinds = coder.direct_kinds_for(survivors.n, uniform)
            made = [kind.of(survivors, self.matrices, levels, uniform) for kind in kinds]
            payloads = [payload for payload in made if payload is not None]
            direct = min(payloads, key=lambda payload: payload.nbytes, default=None)
        return Message(self, survivors, units, counts, levels, uniform, choice, direct)


@dataclass(frozen=True)
class Message:
    """An alphabet ready to be written: its survivors have their final codes.

    units: those of a stream. counts: of codes and tokens. choice: the cheapest code table, None if
    no bits are needed. direct: the shortest direct payload, if the coder has one for this alphabet.
    groups: the code of groups, if that serves; the list then has a code for every element, and
    there is no choice. levels, uniform: as in `Encoded`.
    """

    stage: LosslessStage
    survivors: Survivors
    units: int
    counts: Counts
    levels: Levels
    uniform: bool
    choice: Choice | None = None
    direct: DirectPayload | None = None
    groups: Groups | None = None

    @property
    def n_streams(self) -> int:
        """Streams of a prefix code."""
        return -(-self.survivors.units // self.units)

    @property
    def most_nbytes(self) -> int:
        """An upper bound of `Encoded.nbytes`."""
        n_levels = len(self.levels) - 1
        levels_nbytes = 4 * (min(n_levels, 1) if self.uniform else n_levels)
        if self.groups:
            return self.groups.nbytes + levels_nbytes
        if self.choice is None:
            return levels_nbytes
        nbytes = self.choice.nbytes(self.n_streams)
        if self.direct:
            nbytes = min(nbytes, self.direct.nbytes)
        return nbytes + levels_nbytes


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
    moved = segments and segments.tracks_only()
    if m.groups:
        words, sums = grouped.write(m.survivors, m.groups, m.levels, moved, mode)
        return _encoded(m, words), sums
    if m.choice is None:
        e = _encoded(m, Constant())
        return e, advance(e, moved, mode)
    if m.direct and m.direct.nbytes < m.choice.nbytes(m.n_streams):
        return _encoded(m, m.direct), advance_survivors(m.survivors, m.levels, moved, mode)
    payload, sums = prefix.write(m.survivors, m.units, m.choice, m.levels, segments, mode)
    return _encoded(m, payload), sums


def _encoded(m: Message, payload: Payload) -> Encoded:
    return Encoded(payload, m.levels, m.stage.shape, m.stage.bits, m.stage.coder, m.uniform)


def advance(e: Encoded, segments: Segments | None, mode: int) -> Sums:
    """Decode onto the track.

    Args:
        e: The encoding.
        segments: The track. If they have sources, the track first becomes a copy of them.
        mode: CHANGE to change the track, LOOK to compute digests only.

    Returns:
        By how much the digest of each tensor changes, uint64.

    Raises:
        CodeTableError, StreamError: The encoding is damaged. The track may have changed in part.
    """
    if segments is None or mode == 0:
        return np.zeros(0, np.uint64)
    check(e, segments.n)
    if e.is_batch and e.levels.shape[2] != segments.tracks.size:
        raise StreamError(f"levels of {e.levels.shape[2]} tensors, not of {segments.tracks.size}")
    return e.payload.advance(e.levels, e.uniform, segments, mode)


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
    if e.uniform and (e.is_batch or not _are_steps(e.levels.reshape(-1))):
        raise StreamError("levels are not multiples of a step size above 0")
    if not isinstance(e.payload, Payload):
        raise StreamError("a payload of no kind")
    if e.payload.SINGLE and e.levels.size > e.k:
        raise StreamError(f"{e.payload.a_title()} of a batch or of several steps")
    e.payload.check(n, e.k)


def numbers_of_levels(levels: NDArray[np.float32]) -> NDArray[np.unsignedinteger[Any]]:
    """Number of levels that a batch stores for each tensor: (t,) uint8, or uint16 if k > 256.

    levels: (k, m, t). Code 0's level is not stored.
    """
    dtype: Any = np.uint8 if len(levels) <= 256 else np.uint16
    return _numbers_of_levels(levels).astype(dtype)


def stored_levels(levels: NDArray[np.float32]) -> NDArray[np.float32]:
    """The levels of a batch as a vector, in the order of a record. levels: (k, m, t)."""
    rows = np.arange(1, len(levels)) <= _numbers_of_levels(levels)[:, None]
    return levels[1:].transpose(2, 0, 1)[rows].reshape(-1)


def _numbers_of_levels(levels: NDArray[np.float32]) -> NDArray[np.int64]:
    """int64 (t,): each tensor's last code with a level other than 0."""
    codes = np.arange(len(levels))[:, None]
    return np.where((levels != 0).any(axis=1), codes, 0).max(axis=0)


def _are_levels(levels: object, most: int) -> bool:
    return (
        isinstance(levels, np.ndarray)
        and levels.dtype == np.float32
        and levels.ndim in (1, 2, 3)
        and 1 <= len(levels) <= most
        and 0 not in levels.shape
    )


def _are_steps(levels: NDArray[np.float32]) -> bool:
    """Whether these are uniform levels. levels: float32 (k,)."""
    if levels.size == 1:
        return True
    return bool(levels[1] > 0 and np.array_equal(levels, levels_of(levels[1], levels.size)))
