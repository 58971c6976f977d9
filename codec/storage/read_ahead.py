"""Reading ahead: while one record is decoded, the next ones are on their way.

Not done here: where they come from (remote).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

THREADS = 8  # requests at a time; so many records are held at most


class Ahead:
    """read: how one file is read, by its name."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._names: Iterator[str] = iter(())
        self._coming: dict[str, Future[bytes]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._owner = os.getpid()

    def expect(self, names: Iterable[str]) -> None:
        """Files that will be read soon, in this order; others than those told before."""
        for future in self._coming.values():
            future.cancel()
        if self._pool is None or self._owner != os.getpid():  # a fork has none of its threads
            self._pool, self._owner = ThreadPoolExecutor(THREADS), os.getpid()
        self._names, self._coming = iter(names), {}
        self._fill()

    def read(self, name: str) -> bytes:
        """A file's bytes, and the next ones set out. Raises what reading does."""
        if self._owner != os.getpid():
            return self._read(name)
        future = self._coming.pop(name, None)
        self._fill()
        return self._read(name) if future is None else future.result()

    def _fill(self) -> None:
        while self._pool is not None and len(self._coming) < THREADS:
            name = next(self._names, None)
            if name is None:
                return
            if name not in self._coming:
                self._coming[name] = self._pool.submit(self._read, name)
