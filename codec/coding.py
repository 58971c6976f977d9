"""Quantized values to bytes and back: the lossless stage, whichever coder is chosen.

What is on disk for one alphabet is the payload, one byte a level for the code lengths, and
four bytes for each level but the first, which is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import huffman
from .errors import SettingsError, StreamError
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
    """Code the codes of ``q`` without loss. Raises SettingsError for an unknown coder."""
    check_coder(coder)
    counts = q.counts
    lengths = huffman.code_lengths(counts)
    bits = huffman.n_bits(counts, lengths)
    payload = huffman.encode_codes(q.codes, lengths, bits)
    return Encoded(payload, bits, lengths, q.levels, q.shape, q.bits, coder)


def decode(e: Encoded) -> Quantized:
    """The same codes and levels that were encoded; buckets are None.

    Raises SettingsError for an unknown coder, CodeTableError or StreamError for a damaged
    encoding; never reads or writes out of bounds.
    """
    check_coder(e.coder)
    if e.levels.size != e.code_lengths.size:
        raise StreamError(f"{e.levels.size} levels, but {e.code_lengths.size} code lengths")
    codes = huffman.decode_codes(e.payload, e.payload_bits, e.code_lengths, math.prod(e.shape))
    return Quantized(codes, e.levels, e.shape, e.bits, None)
