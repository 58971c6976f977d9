"""Loads the kernels, and compiles them first where that has not been done: see `twins`.

Nobody has to wait for it: until the kernels are there, their twins in numpy do the work.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import logging
import os
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np

from codec import child
from codec.state.family import OCTAVES
from codec.state.tensors import TensorSpec

from . import huffman, measures, twins
from .coders import CODERS, CONTEXT
from .kernels import machine
from .limits import LOOK, UNIT
from .quantize import quantize
from .residual import residual_of
from .stream import decode, encode
from .survivors import PROBED, Segments
from .tracker import Tracker
from .uniform import NARROW

SPARING = 256  # of so many values, one
NS_A_VALUE = 600  # of a save without kernels, its check included
NS_A_BYTE = 1000  # of a delta that is decoded without kernels
PLAIN_SECONDS = 1.0  # a save that would take longer in numpy is a base until the kernels are there
LOADING_SECONDS, COMPILING_SECONDS = 2.0, 90.0  # rough times until kernels are there
_COMPILE = "import os; os.nice(19); from codec.scheme.warmup import warm_up; warm_up()"

_log = logging.getLogger(__name__)


class _EndsError(Exception):
    """The process ends before the kernels are loaded."""


class _Loading:
    """What this process knows of loading. can_begin: False in a fork that was made meanwhile."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.can_begin = True

    def after_fork(self) -> None:
        """numba may hold a lock that nobody in the fork will release: it goes on in numpy."""
        self.can_begin, self.lock = not self.lock.locked(), threading.Lock()


class _Beside:
    """The thread that loads kernels, once a process. process: compiles them, if need be."""

    def __init__(self) -> None:
        self.pid = 0
        self.thread: threading.Thread | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.ends = False

    def end(self) -> None:
        """Let nothing run while the interpreter goes."""
        if self.pid == os.getpid() and self.thread is not None:
            self.ends = True
            if self.process is not None:
                self.process.terminate()  # the thread waits for it
            self.thread.join()

    def check(self) -> None:
        """Raise _EndsError in the thread that loads, if the process ends."""
        if self.ends and threading.current_thread() is self.thread:
            raise _EndsError


_beside = _Beside()
_loading = _Loading()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_loading.after_fork)


def can_load() -> bool:
    """Whether numba is installed, and this is no fork of a process that was loading.

    Without kernels everything works, and large states take longer.
    """
    return _loading.can_begin and importlib.util.find_spec("numba") is not None


def warm_up() -> None:
    """Load the kernels from numba's cache, or compile them, which takes about a minute.

    Then all threads use them. Without this call a `Checkpointer` lets them be loaded, or compiled,
    while the training goes on. Returns at once if they are loaded, and where numba is not
    installed, or a fork was made while they were loaded. Several threads may call this.
    """
    if not can_load():
        return
    thread = _beside.thread if _beside.pid == os.getpid() else None
    if thread and thread.is_alive() and thread is not threading.current_thread():
        thread.join()  # two compilers would take longer
    with _loading.lock:
        if twins.takes_compiled():
            return
        machine.load()
        with twins.taking(compiled=True):
            _call_all()
        with suppress(OSError):  # then they will be compiled again
            _marker().touch()
        twins.use_compiled()


def load_beside() -> None:
    """Begin to load the kernels in a thread. What is missing in numba's cache is compiled first,
    by another process.

    Compiling uses one processor, at the lowest priority. Both end with this process.
    """
    global _beside
    if twins.takes_compiled() or _beside.pid == os.getpid() or not can_load():
        return
    _beside = _Beside()
    _beside.pid = os.getpid()
    _beside.thread = threading.Thread(target=_load_beside, name="kernels", daemon=True)
    try:
        _beside.thread.start()
    except RuntimeError:  # no more threads
        _beside.thread = None
        return
    atexit.register(_beside.end)


def _load_beside() -> None:
    try:
        if not is_compiled() and machine.cache_folder():
            _beside.process = subprocess.Popen(
                child.command(_COMPILE), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            _beside.check()  # it may have ended before there was a process to terminate
            _beside.process.wait()
        _beside.check()
        warm_up()
    except _EndsError:
        if _beside.process is not None:
            _beside.process.terminate()
    except OSError as exc:  # no more processes
        _log.info("the kernels are not compiled beside: %s", exc)


def wait_for(nbytes: int) -> None:
    """Load the kernels before deltas of so many bytes are decoded, if that is faster in all."""
    seconds = NS_A_BYTE * 1e-9 * nbytes
    if seconds < LOADING_SECONDS or twins.takes_compiled() or not can_load():
        return
    if seconds > (LOADING_SECONDS if is_compiled() else COMPILING_SECONDS):
        warm_up()


def is_loading() -> bool:
    """Whether kernels can be loaded, or compiled, and are not yet: numpy does their work."""
    return not twins.takes_compiled() and can_load()


def is_too_slow(values: int) -> bool:
    """Whether a delta of so many lossy values should wait until the kernels are loaded."""
    return NS_A_VALUE * 1e-9 * values > PLAIN_SECONDS and is_loading()


def is_compiled() -> bool:
    """Whether numba's cache has the kernels of this version, for this processor."""
    machine.load()
    return _marker().exists()


def _marker() -> Path:
    """A file that says that the cache has all kernels; in a folder that never exists if there is
    no cache."""
    from numba import __version__
    from numba.core.registry import cpu_target

    target = cpu_target.target_context.codegen().magic_tuple()
    name = hashlib.blake2b(repr((machine.stamp(), target, __version__)).encode(), digest_size=8)
    return Path(machine.cache_folder() or os.devnull, f"kernels-{name.hexdigest()}.compiled")


def _call_all() -> None:
    """Call every kernel with the types that a save and a restore have, the most common first.

    Only those for deltas with more than 128 exponents are left out.
    """
    values = np.linspace(-1, 1, PROBED * UNIT, dtype=np.float32)
    lengths = encode(quantize(values, 2)).code_lengths
    huffman.unpack_lengths(
        np.frombuffer(huffman.pack_lengths(lengths).tobytes(), np.uint8), lengths.size
    )
    start = {"w": np.zeros_like(values)}
    # Buckets, steps whose codes take 1 byte and 2, and a budget.
    targets: tuple[dict[str, float], ...]
    targets = {}, {"tolerance": 0.1}, {"tolerance": 0.001}, {"budget": 0.3}
    for target in targets:
        for coder in CODERS:
            _beside.check()
            # Threads keep the memory in which they have coded contexts.
            stride = SPARING if coder == CONTEXT.name else 1
            state = {"w": values[::stride].copy()}
            tracker = Tracker({"w": start["w"][::stride]}, coder=coder, **target)
            step = tracker.prepare(state)
            tracker.commit(step)
            tracker.step(state)
            decode(step.groups[0].encoded)
    few = {"w": values[:UNIT]}
    tracker = Tracker({"w": start["w"][:UNIT]}, distance=0.5)
    tracker.commit(tracker.prepare(few))
    scale = measures.Scale(OCTAVES, np.float32(0.25))
    codes, ones = np.empty(values.size, np.uint16), np.ones_like(values)
    counts, _ = measures.measure(Segments([ones], [ones]), scale, NARROW, codes)
    measures.move(Segments([ones]), scale, codes, np.zeros(counts.size, np.float32), LOOK)
    _beside.check()
    old = np.arange(4096, dtype=np.int32)
    for changed in (old + 1, old + (old % 16 == 0)):  # without runs, and with them
        residual = residual_of(old, changed, TensorSpec("n", "I32", old.shape, False))
        assert residual is not None, "elements change by 1"
        residual.applied(old)
