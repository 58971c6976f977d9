"""Small tensors that share an alphabet, each with buckets and levels of its own.

Adam keeps two moments for each parameter, and their magnitudes differ from layer to layer. In a
*batch*, code c stands for the c-th bucket, in promotion order, of the tensor that the element
belongs to. So each tensor keeps what it would keep alone, and a thousand tensors need one code
table and one pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from . import plain, workers
from .kernels import collect as kernel
from .limits import N_BINS
from .quantize import HUGE, Codes, empty_codes
from .stream import LosslessStage, Message
from .survivors import Segments, packed
from .twins import twin_of

PIECE = 2**15  # elements, about: fewer are not worth starting a thread for


@dataclass(frozen=True)
class Batch:
    """The quantized changes of several tensors.

    codes: uint8 or uint16 (n,). levels: float32 (k, tensors), as in `Encoded`. counts: int64
    (k,), how often each code occurs. is_huge: bool (tensors,), whether a change of the tensor is
    NaN, infinite, or may make its track overflow (see `Histogram.n_huge`).
    """

    codes: Codes
    levels: NDArray[np.float32]
    counts: NDArray[np.int64]
    is_huge: NDArray[np.bool_]

    @contextmanager
    def message(self, stage: LosslessStage) -> Iterator[Message]:
        """The alphabet, ready to be coded."""
        with packed(self.codes) as survivors:
            yield stage.message(survivors, self.counts, self.levels)


def quantized(segments: Segments, keep: int | None) -> Batch:
    """Quantize sources - tracks, each tensor by itself.

    A tensor without negative values gets cautious levels, see `Histogram.promote`.

    Args:
        segments: The tensors.
        keep: The largest number of buckets that a tensor keeps; None for all.
    """
    max_buckets = N_BINS if keep is None else keep
    codes = empty_codes(segments.n, max_buckets + 1)
    levels = np.zeros((len(segments.starts) - 1, max_buckets + 1), np.float32)
    n_codes, highest_fields, counts = _quantized(segments, max_buckets, codes, levels)
    k = int(n_codes.max(initial=0)) + 1
    totals = counts[:k]
    totals[0] = segments.n - totals.sum()
    return Batch(codes, levels[:, :k].T, totals, highest_fields >= HUGE)


@twin_of(plain.quantize_batch)
def _quantized(
    segments: Segments, keep: int, codes: Codes, levels: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """See `plain.quantize_batch`."""
    n_codes, highest_fields = np.empty((2, len(levels)), np.int64)
    pieces = _pieces(segments)
    counts = np.zeros((len(pieces), N_BINS + 1), np.int64)

    def work(i: int, _scratch: workers.Scratch) -> None:
        found = codes, levels, n_codes, highest_fields, counts[i]
        kernel.batch(segments.addresses, pieces[i], keep, *found)

    workers.spread(work, len(pieces))
    return n_codes, highest_fields, counts.sum(axis=0)


def _pieces(segments: Segments) -> list[tuple[int, int]]:
    """Split the tensors into pieces of about equal size: each piece is (first, end)."""
    ends = [end for _, end in workers.pieces(segments.n, least=PIECE)]
    borders = np.unique(np.searchsorted(segments.starts, [0, *ends])).tolist()
    return list(pairwise(borders))
