"""Quantized values to bytes and back: the lossless stage, whichever coder is chosen.

What is on disk for one alphabet is the payload, one byte a level for the code lengths, and
four bytes for each level but the first, which is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import huffman
from .errors import CodeTableError, SettingsError, StreamError
from .quantize import Quantized

CODERS = ("huffman",)


@dataclass(frozen=True)
class Encoded:
    """A quantized delta as bytes.

    payload: uint8, ceil(payload_bits / 8) bytes. payload_bits: bits in use.
    code_lengths: uint8 (k,). levels: float32 (k,), levels[0] == 0.0.
    shape: that of the delta. bits: x of priority promotion or None. coder: its name.
    """

    payload: NDArray[np.uint8]
    payload_bits: int
    code_lengths: NDArray[np.uint8]
    levels: NDArray[np.float32]
    shape: tuple[int, ...]
    bits: int | None
    coder: str

    @property
    def nbytes(self) -> int:
        """Bytes on disk: payload, table of code lengths, and levels but the zero."""
        return self.payload.nbytes + self.code_lengths.nbytes + self.levels[1:].nbytes


def check_coder(coder: str) -> None:
    """Raise SettingsError unless ``coder`` is a known one."""
    if coder not in CODERS:
        raise SettingsError(f"coder must be one of {', '.join(CODERS)}; got {coder!r}")


def encode(q: Quantized, coder: str = "huffman") -> Encoded:
    """Code the codes of ``q`` without loss.

    Raises SettingsError for an unknown coder; for a ``q`` put together by hand, StreamError
    if its codes, levels and buckets contradict each other, CodeTableError if all its
    elements have one code but there are other levels.
    """
    check_coder(coder)
    counts = q.counts
    if counts.size != q.levels.size:
        raise StreamError(f"{counts.size} different codes for {q.levels.size} levels")
    lengths = huffman.checked_lengths(huffman.code_lengths(counts))
    bits = huffman.n_bits(counts, lengths)
    payload = huffman.encode_codes(q.codes, lengths, bits)
    return Encoded(payload, bits, lengths, q.levels, q.shape, q.bits, coder)


def decode(e: Encoded) -> Quantized:
    """The same codes and levels that were encoded; buckets are None.

    Raises SettingsError for an unknown coder, CodeTableError or StreamError for a damaged
    encoding; never reads or writes out of bounds, whatever the fields hold.
    """
    check_coder(e.coder)
    if not _is_vector(e.code_lengths, np.uint8):
        raise CodeTableError("code_lengths are not uint8 (k,)")
    if not (_is_vector(e.payload, np.uint8) and type(e.payload_bits) is int):
        raise StreamError("a payload is uint8 (n,) and payload_bits an integer")
    if not _is_vector(e.levels, np.float32) or e.levels.size != e.code_lengths.size:
        raise StreamError(f"levels are not float32, one for each of {e.code_lengths.size} lengths")
    if e.levels[:1].any() or not np.isfinite(e.levels).all():
        raise StreamError("levels are not zero, then finite numbers")
    try:
        n = np.broadcast_to(np.uint8(0), e.shape).size  # numpy's rules for shapes, no memory
    except (TypeError, ValueError, OverflowError) as exc:
        raise StreamError(f"no array can have that shape: {exc}") from exc
    codes = huffman.decode_codes(e.payload, e.payload_bits, e.code_lengths, n)
    return Quantized(codes, e.levels, e.shape, e.bits, None)


def _is_vector(array: object, dtype: type[np.generic[Any]]) -> bool:
    return isinstance(array, np.ndarray) and array.dtype == dtype and array.ndim == 1
