"""A delta of which only the largest buckets are kept, and the bytes that these take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import codec
from codec.inspect import Codes

from .anatomy import Alphabet
from .sizes import coded_nbytes


@dataclass(frozen=True)
class Cut:
    """A delta of which only the largest buckets are kept.

    bucket_counts: how many are kept of each alphabet. encoded: each alphabet with these buckets
    and a new code table.
    """

    bucket_counts: tuple[int, ...]
    encoded: tuple[codec.Encoded, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of code words, tables and levels."""
        return sum(coded_nbytes(e.payload_bits, e.table_nbytes, e.k - 1) for e in self.encoded)


def cut(alphabets: Sequence[Alphabet], codes: Sequence[Codes], most: int, coder: str) -> Cut:
    """Keep the ``most`` largest buckets of each alphabet.

    Args:
        alphabets: In exponent buckets.
        codes: Of the exponent stage, one array for each alphabet.
        most: Number of buckets, 0 or more.
        coder: Name of the coder.
    """
    bucket_counts = tuple(min(most, len(a.buckets)) for a in alphabets)
    encoded = [
        _encoded(a, exponent_codes, k, coder)
        for a, exponent_codes, k in zip(alphabets, codes, bucket_counts)
    ]
    return Cut(bucket_counts, tuple(encoded))


def _encoded(alphabet: Alphabet, codes: Codes, n_kept: int, coder: str) -> codec.Encoded:
    buckets = alphabet.buckets.keeping(n_kept)
    kept_codes = np.where(codes < buckets.levels.size, codes, 0).astype(codes.dtype)
    return codec.encode(
        codec.Quantized(kept_codes, buckets.levels, codes.shape, None, buckets), coder
    )
