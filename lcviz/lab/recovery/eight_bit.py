"""8 bits a value, in blocks with a scale each: how 8-bit optimizers hold their state.

After Dettmers et al., "8-bit optimizers via block-wise quantization" (ICLR 2022): a block is
divided by its largest magnitude; every value becomes the nearest of 256 levels. Levels are evenly
spaced within a decade of magnitudes; each decade has twice as many as the next smaller one.
"""

from __future__ import annotations

import zlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

BLOCK = 256  # values
DECADES = 7


def rounded(array: NDArray[np.float32]) -> tuple[NDArray[np.float32], int]:
    """An array as it is restored, and the bytes that it takes: codes and scales, deflated."""
    flat = array.reshape(-1)
    blocks = np.pad(flat, (0, -flat.size % BLOCK)).reshape(-1, BLOCK)
    scale = np.abs(blocks).max(axis=1, keepdims=True)
    levels = _levels(signed=bool((flat < 0).any()))
    shares = blocks / np.where(scale > 0, scale, np.float32(1))
    codes = np.searchsorted((levels[1:] + levels[:-1]) / 2, shares).astype(np.uint8)
    nbytes = sum(len(zlib.compress(part.tobytes())) for part in (codes, scale))
    return (levels[codes] * scale).reshape(-1)[: flat.size].reshape(array.shape), nbytes


@cache
def _levels(signed: bool) -> NDArray[np.float32]:
    """float32 (256,), rising: the levels.

    They are 0, 1 and, for i from 0 to 6, the middles of 2^i (unsigned: 2^(i + 1)) even parts of
    [0.1, 1] times 10^(i - 6); if signed, also the negatives of these middles.
    """
    levels = [0.0, 1.0]
    for i in range(DECADES):
        ends = np.linspace(0.1, 1, 2 ** (i if signed else i + 1) + 1)
        middles = 10.0 ** (i - DECADES + 1) * (ends[1:] + ends[:-1]) / 2
        levels += [*middles, *(-middles if signed else ())]
    return np.sort(np.array(levels, np.float32))
