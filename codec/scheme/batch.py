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

from . import kernels, workers
from .quantize import HUGE, Codes, empty_codes
from .stream import LosslessStage, Message
from .survivors import Segments, packed

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
    max_buckets = kernels.N_BINS if keep is None else keep
    tensors = segments.tracks.size
    codes = empty_codes(segments.n, max_buckets + 1)
    levels = np.zeros((tensors, max_buckets + 1), np.float32)
    n_buckets, highest_fields = np.empty(tensors, np.int64), np.empty(tensors, np.int64)
    pieces = _pieces(segments)
    counts = np.zeros((len(pieces), kernels.N_BINS + 1), np.int64)
    arrays = segments.sources, segments.tracks, segments.starts

    def work(i: int, _scratch: workers.Scratch) -> None:
        outputs = codes, levels, n_buckets, highest_fields, counts[i]
        kernels.quantize_batch(*arrays, *pieces[i], max_buckets, *outputs)

    workers.spread(work, len(pieces))
    k = int(n_buckets.max(initial=0)) + 1
    totals = counts.sum(axis=0)[:k]
    totals[0] = segments.n - totals.sum()
    return Batch(codes, levels[:, :k].T, totals, highest_fields >= HUGE)


def _pieces(segments: Segments) -> list[tuple[int, int]]:
    """Split the tensors into pieces of about equal size: each piece is (first, end)."""
    ends = [end for _, end in workers.pieces(segments.n, least=PIECE)]
    borders = np.unique(np.searchsorted(segments.starts, [0, *ends])).tolist()
    return list(pairwise(borders))
