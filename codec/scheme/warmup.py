"""Compiles the kernels before they are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec.state.tensors import TensorSpec

from . import batch, huffman
from .coders import CODERS
from .kernels import UNIT
from .quantize import quantize
from .residual import residual_of
from .stream import decode, encode
from .survivors import PROBED, Segments
from .tracker import Tracker


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache.

    Otherwise the first save of a process takes those seconds. Only kernels for exponent buckets of
    more than 128 exponents in one delta are left out. The most common kernels come first. It may be
    called twice, and from several threads.
    """
    values = np.linspace(-1, 1, PROBED * UNIT, dtype=np.float32)
    quantized = quantize(values, 2)
    assert quantized.buckets is not None, "quantize knows its buckets"
    quantized.buckets.energies(values)
    lengths = encode(quantized).code_lengths
    huffman.unpack_lengths(_read_only(huffman.pack_lengths(lengths)), lengths.size)
    start = {"w": np.zeros_like(values)}
    targets: tuple[dict[str, float], ...] = ({}, {"tolerance": 0.1}, {"tolerance": 0.001})
    for target in targets:  # buckets, then steps whose codes take 1 byte and 2
        for coder in CODERS:
            tracker = Tracker(start, coder=coder, **target)  # type: ignore[arg-type]
            step = tracker.prepare({"w": values})
            tracker.commit(step)
            tracker.step({"w": values})
            decode(step.groups[0].encoded)
    few = {"w": values[:UNIT]}  # one arithmetic code
    tracker = Tracker({"w": start["w"][:UNIT]}, distance=0.5)
    tracker.commit(tracker.prepare(few))
    segments = Segments([start["w"]], [_read_only(values)])
    batch.quantized(segments, keep=7)
    old = np.arange(4096, dtype=np.int32)
    residual = residual_of(old, old + 1, TensorSpec("n", "I32", old.shape, False))
    assert residual is not None, "they all change alike"
    residual.applied(old)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only copy, as arrays from a record are."""
    return np.frombuffer(array.tobytes(), array.dtype)
