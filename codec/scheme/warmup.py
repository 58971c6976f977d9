"""Compiling the kernels before they are needed."""

from __future__ import annotations

import numpy as np

from .coders import CODERS
from .kernels import UNIT
from .quantize import quantize
from .stream import decode, encode
from .survivors import PROBED
from .tracker import Tracker


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache.

    The first call in a process would otherwise carry those seconds in its own time. Only what
    more than 256 levels or 128 exponents in one delta would need is left out. Harmless to call
    twice, and from several threads.
    """
    values = np.linspace(-1, 1, PROBED * UNIT, dtype=np.float32)
    start = {"w": np.zeros_like(values)}
    for coder in CODERS:
        tracker = Tracker(start, coder=coder)
        step = tracker.prepare({"w": values})
        tracker.commit(step)
        tracker.step({"w": values})
        decode(step.groups[0].encoded)
    encode(quantize(values, 2))
