"""The digest of a whole tensor. By how much a delta changes it, `stream.advance` tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import plain, workers
from .kernels import track as kernel
from .limits import UNIT
from .twins import twin_of


def digest(array: NDArray[np.float32], first: int = 0) -> int:
    """The sum over all elements of a 64-bit digest of index and value: see FORMAT.md.

    If elements change, the digest changes by a sum over these elements alone, so an update costs no
    more than the delta.

    first: index of the array's first element, if the array is the end of a longer one.
    """
    return _digest(array.reshape(-1), first)


@twin_of(plain.digest)
def _digest(values: NDArray[np.float32], first: int) -> int:
    """See `plain.digest`."""
    pieces = workers.pieces(values.size, least=UNIT)
    sums = np.zeros(len(pieces), np.uint64)

    def work(i: int, _scratch: workers.Scratch) -> None:
        begin, end = pieces[i]
        address = np.uint64(values.ctypes.data + 4 * begin)
        sums[i] = kernel.digest(address, end - begin, first + begin)

    workers.spread(work, len(pieces))
    return int(sums.sum(dtype=np.uint64))
