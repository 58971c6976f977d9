"""Threads over pieces of work, and the memory they reuse.

The kernels release the GIL, so plain threads use every core. Results do not depend on the threads:
pieces are independent of each other, and sums over pieces do not depend on their order.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue

import numpy as np
from numpy.typing import NDArray

from codec.errors import SettingsError

from .kernels import contexts, decode, residuals
from .limits import BLOCK, MAX_CONTEXTS, WORD
from .memory import Pages

SUBNORMAL, ONE = np.float32(2.0**-130), np.float32(1)
PIECES = 8  # of work for each thread: small, so that no thread waits long for a slow one


class Scratch:
    """Small arrays that one thread reuses, so that they stay in its cache."""

    def __init__(self) -> None:
        self.delta = np.empty((3, BLOCK), np.float32)
        self.positions = np.empty(decode.ROW, np.uint32)
        self.codes = np.empty(decode.ROW, np.uint16)
        self.listed = np.empty(decode.LANES * decode.ROW, np.uint64)
        self.moved = np.empty((2, decode.ROW), np.uint32)
        words = residuals.CHUNK // WORD
        owns, counts = np.empty((2, MAX_CONTEXTS, words), np.uint64)
        places, edge = np.empty(residuals.CHUNK + WORD, np.uint64), np.empty((2, WORD), np.uint64)
        self.notes = residuals.Notes(owns, counts, places, edge)
        moves = np.empty((MAX_CONTEXTS, residuals.CHUNK), np.uint64)
        self.moves = residuals.Moves(moves, np.empty((MAX_CONTEXTS, words + 2), np.uint64))
        self.contexts = np.empty(contexts.N_CONTEXTS, np.uint32)
        self.words = np.empty(0, np.uint32)
        self._by_column = np.empty((contexts.BY_COLUMN, 0), np.int32)

    def at_least(self, n: int) -> NDArray[np.uint32]:
        """An array of at least n uint32, with any content."""
        if self.words.size < n:
            self.words = Pages(4 * (n + n // 4)).content.view(np.uint32)
        return self.words

    def by_column(self, n: int) -> NDArray[np.int32]:
        """What `kernels.contexts.code` notes of at least n columns, with any content."""
        if self._by_column.shape[1] < n:
            self._by_column = np.empty((contexts.BY_COLUMN, n + n // 4), np.int32)
        return self._by_column


class _Crew:
    """The threads in use. A forked child starts without the threads of its parent."""

    def __init__(self) -> None:
        self.n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
        self.n = self.n or os.cpu_count() or 1
        self.reset()

    def reset(self) -> None:
        self.pool: ThreadPoolExecutor | None = None
        self.lock = threading.Lock()
        self.idle: list[Scratch] = []

    def resize(self, n: int) -> None:
        with self.lock:
            self.n, self.pool = n, None  # the old pool ends when its work is done

    def ask(self, n: int, help_out: Callable[[], None]) -> None:
        """Let up to n other threads call ``help_out`` soon."""
        with self.lock:
            if self.pool is None:
                self.pool = ThreadPoolExecutor(max(self.n - 1, 1), thread_name_prefix="codec")
            for _ in range(n):
                try:
                    self.pool.submit(help_out)
                except RuntimeError:  # no thread can start, or the interpreter ends
                    return


class _Job:
    """work(0) ... work(n - 1), taken in this order by all threads that take part.

    Without a lock: an interrupt (Ctrl-C) may hit the calling thread anywhere, and it must not leave
    while others still work on its arrays. Appending to a list is atomic.
    """

    def __init__(self, work: Callable[[int, Scratch], None], n: int) -> None:
        self._work, self._n = work, n
        self._numbers = itertools.count()
        self._begun: list[int] = []
        self._ended: list[int] = []
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._over = False
        self._failure: BaseException | None = None

    def run(self, helpers: int) -> None:
        """Run here, with up to ``helpers`` helper threads."""
        begun, failure = False, None
        while True:
            try:
                if not begun:
                    begun = True
                    if helpers > 0:
                        _crew.ask(helpers, self.help_out)
                    self._take()
                if failure:  # else a number not yet compared with n would be lost
                    self._n = 0
                self._over = True
                while len(self._ended) < len(self._begun):
                    with suppress(Empty):
                        self._bell.get(timeout=0.1)  # an interrupt may have swallowed a ring
                break
            except BaseException as exc:
                failure = failure or exc
        if failure or self._failure:
            raise failure or self._failure  # type: ignore[misc]

    def help_out(self) -> None:
        """Take part, unless the work is over. The calling thread does not wait for late helpers."""
        self._begun.append(1)
        try:
            if not self._over:
                self._take()
        except BaseException as exc:
            self._failure, self._n = exc, 0
        finally:
            self._ended.append(1)
            self._bell.put(None)

    def _take(self) -> None:
        check_arithmetic()
        with scratch() as memory:
            while (i := next(self._numbers)) < self._n:
                self._work(i, memory)


def check_arithmetic() -> None:
    """Raise SettingsError in a thread that rounds subnormals to 0, which readers do not."""
    if SUBNORMAL * ONE == 0:
        _crew.resize(_crew.n)  # new threads inherit the setting of the thread that starts them
        raise SettingsError(
            "this thread rounds subnormal numbers to 0, so a restore would differ from its saves; "
            "call torch.set_flush_denormal(False) first"
        )


_crew = _Crew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_crew.reset)


def set_threads(n: int) -> None:
    """Use n threads from now on. The default is one for each processor of this process.

    The bytes written do not depend on n. Raises SettingsError unless n is at least 1.
    """
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise SettingsError(f"the number of threads is an integer from 1 on; got {n!r}")
    _crew.resize(int(n))


def threads() -> int:
    """How many threads share the work."""
    return _crew.n


def pieces(
    n: int, *, least: int = 1, most: int | None = None, step: int | None = None
) -> list[tuple[int, int]]:
    """0..n cut into ranges for `spread`, a few for each thread.

    least, most: limits of a range's length (least wins). step: the exact length of all ranges but
    the last.
    """
    step = step or max(least, min(-(-n // (PIECES * _crew.n)), most or n), 1)
    return [(i, min(i + step, n)) for i in range(0, n, step)]


def spread(work: Callable[[int, Scratch], None], n: int) -> None:
    """Call work(i, scratch) for i = 0..n-1 in all threads, begun in this order, and wait.

    The calling thread takes part. The first exception is raised when all threads have stopped.
    """
    if n == 1:  # a job costs as much time as all of this
        check_arithmetic()
        with scratch() as memory:
            work(0, memory)
        return
    _Job(work, n).run(min(n, _crew.n) - 1)


@contextmanager
def scratch() -> Iterator[Scratch]:
    """Scratch memory that no other thread uses."""
    with _crew.lock:
        memory = _crew.idle.pop() if _crew.idle else Scratch()
    try:
        yield memory
    finally:
        with _crew.lock:
            _crew.idle.append(memory)
