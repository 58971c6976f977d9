"""Compiles the kernels before they are needed."""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codec import child
from codec.state.tensors import TensorSpec

from . import batch, huffman, kernels
from .coders import CODERS, CONTEXT
from .kernels import UNIT
from .payload import LOOK
from .prefix import PrefixCode, check_words
from .quantize import quantize
from .residual import residual_of
from .stream import Encoded, advance, decode, encode
from .survivors import PROBED, Segments
from .tables import CodeTable
from .tracker import Tracker
from .workers import threads

SPARING = 256  # of so many values, one
_CODERS = tuple(CODERS)
_COMPILE = "from codec.scheme.warmup import compile_all; compile_all()"
_LOADED = threading.Event()  # set as soon as this process has the kernels


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache.

    Without this call the first save of a process takes seconds longer. Only the kernels for deltas
    with more than 128 exponents are left out. The most common kernels come first. Several threads
    may call this; once it is done, another call returns at once.
    """
    if _LOADED.is_set():
        return
    values = np.linspace(-1, 1, PROBED * UNIT, dtype=np.float32)
    quantized = quantize(values, 2)
    assert quantized.buckets is not None, "quantize knows its buckets"
    quantized.buckets.energies(values)
    lengths = encode(quantized).code_lengths
    huffman.unpack_lengths(_read_only(huffman.pack_lengths(lengths)), lengths.size)
    start = {"w": np.zeros_like(values)}
    # Groups of buckets, steps whose codes take 1 byte and 2, and runs with codes of 1 byte.
    targets: tuple[dict[str, float], ...]
    targets = {}, {"tolerance": 0.1}, {"tolerance": 0.001}, {"budget": 0.3}
    for target in targets:
        for coder in _CODERS:
            # Threads keep the memory in which they have coded contexts.
            stride = SPARING if coder == CONTEXT.name else 1
            state = {"w": values[::stride].copy()}
            tracker = Tracker({"w": start["w"][::stride]}, coder=coder, **target)
            step = tracker.prepare(state)
            tracker.commit(step)
            tracker.step(state)
            decode(step.groups[0].encoded)
    check_words(_read_only(np.ones(1, np.uint32)), np.ones(1, np.uint32))
    few = {"w": values[:UNIT]}  # one arithmetic code
    tracker = Tracker({"w": start["w"][:UNIT]}, distance=0.5)
    tracker.commit(tracker.prepare(few))
    segments = Segments([start["w"]], [_read_only(values)])
    batch.quantized(segments, keep=7)
    old = np.arange(4096, dtype=np.int32)
    residual = residual_of(old, old + 1, TensorSpec("n", "I32", old.shape, False))
    assert residual is not None, "all elements change by 1"
    residual.applied(old)
    _LOADED.set()


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only copy, as arrays from a record are."""
    return np.frombuffer(array.tobytes(), array.dtype)


def warm_up_beside() -> subprocess.Popen[bytes] | None:
    """Start a process that compiles the kernels into numba's cache, decoders first.

    Compiling uses one processor. Meanwhile this process trains, or compiles what it needs first: a
    save needs encoders before decoders.

    Returns:
        The process, which ends by itself or with this one; None if there is nothing to compile,
        numba has no folder for a cache, the codec has only one thread, or the system refuses to
        read the cache or to start a process.
    """
    try:
        if threads() == 1 or is_compiled():
            return None
        process = subprocess.Popen(
            child.command(_COMPILE), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    except OSError:
        return None
    atexit.register(_end, process, os.getpid())
    with suppress(RuntimeError):  # no more threads; the process then stays, as a zombie
        threading.Thread(target=process.wait, daemon=True).start()
    return process


def _end(process: subprocess.Popen[bytes], parent: int) -> None:
    if os.getpid() != parent:  # a fork of it: the process is not its own
        return
    process.terminate()
    process.wait()


def is_compiled() -> bool:
    """Whether numba's cache has the kernels of this version, or numba has no folder for a cache.

    Those that are compiled first and last stand for all: the process may have ended in between. A
    cache entry older than the kernels' source belongs to another version.
    """
    kernels.load()
    folder = kernels.read.stats.cache_path
    if folder is None:
        return True
    source = Path(kernels.__file__)
    changed = source.stat().st_mtime

    def is_cached(kernel: Any) -> bool:
        entries = Path(folder).glob(f"{source.stem}.{kernel.__name__}-*.nbi")
        return any(entry.stat().st_mtime >= changed for entry in entries)

    return is_cached(kernels.read) and is_cached(kernels.read_steps)


def compile_all() -> None:
    """Compile what decoders need, then everything else."""
    track = np.zeros(300, np.float32)
    table = huffman.unpack_lengths(_read_only(huffman.pack_lengths(_LENGTHS)), _LENGTHS.size)
    advance(made_by_hand(CodeTable(table, classes=1)), Segments([track]), LOOK)
    warm_up()


# The code of 300 values: 0.5 at 3 and 120, -0.25 at 50, 1 at 121, 0.5 at 290, and 0 elsewhere.
_LENGTHS = np.array([1, 3, 2, 3], np.uint8)
_PAYLOAD = np.array([8, 3_670_016, 0, 1_744_830_464, 0, 0, 0, 0, 0, 256], np.uint32)
_PAYLOAD_BITS = 307


def made_by_hand(table: CodeTable) -> Encoded:
    """An encoding made without any encoder, which would have to be compiled."""
    levels = np.array([0, 1, 0.5, -0.25], np.float32)
    bits = np.array([_PAYLOAD_BITS], np.uint32)
    payload = PrefixCode(_PAYLOAD, bits, UNIT, table)
    return Encoded(payload, levels, (300,), bits=2, coder="huffman")
