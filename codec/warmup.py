"""Compiling the kernels before they are needed."""

from __future__ import annotations

import numpy as np

from .coding import decode
from .track import Tracker


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache, for all dtypes in use.

    The first call in a process would otherwise carry that second or so in its own time.
    Harmless to call twice, and from several threads.
    """
    powers = np.ldexp(np.float32(1), np.arange(-140, 128)).astype(np.float32)
    values = np.concatenate((powers, -powers))  # more than 256 buckets, so codes are uint16 too
    for bits in (2, None):
        step = Tracker({"w": np.zeros_like(values)}, bits).step({"w": values})
        decode(step.groups[0].encoded)
