"""A delta with its largest buckets alone, however many: what is left, and what it takes."""

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

    kept: how many of each alphabet. encoded: each alphabet of these, with a new code table.
    """

    kept: tuple[int, ...]
    encoded: tuple[codec.Encoded, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of code words, tables and levels."""
        return sum(coded_nbytes(e.payload_bits, e.table_nbytes, e.k - 1) for e in self.encoded)


def cut(alphabets: Sequence[Alphabet], codes: Sequence[Codes], most: int, coder: str) -> Cut:
    """Keep the ``most`` largest buckets of each alphabet.

    Args:
        alphabets: In exponent buckets.
        codes: Of the exponent stage, one array for each.
        most: Buckets; 0 for none.
        coder: Its name.
    """
    kept = tuple(min(most, len(a.buckets)) for a in alphabets)
    encoded = [_encoded(a, own, k, coder) for a, own, k in zip(alphabets, codes, kept)]
    return Cut(kept, tuple(encoded))


def _encoded(alphabet: Alphabet, codes: Codes, kept: int, coder: str) -> codec.Encoded:
    buckets = alphabet.buckets.keeping(kept)
    own = np.where(codes < buckets.levels.size, codes, 0).astype(codes.dtype)
    return codec.encode(codec.Quantized(own, buckets.levels, codes.shape, None, buckets), coder)
