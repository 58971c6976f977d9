"""Fetches the next records, or their first parts, while one is decoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

THREADS = 8  # requests at a time; also the largest number of records in memory


T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Reads announced files before `read` asks for them. read: reads one file by name."""

    def __init__(self, read: Callable[[str], T]) -> None:
        self._read = read
        self._names: Iterator[str] = iter(())
        self._pending: dict[str, Future[T]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._owner = os.getpid()

    def expect(self, names: Iterable[str]) -> None:
        """Announce the files that will be read next, in this order, and forget earlier names."""
        for future in self._pending.values():
            future.cancel()
        if self._pool is None or self._owner != os.getpid():  # a fork has none of its threads
            self._pool, self._owner = ThreadPoolExecutor(THREADS), os.getpid()
        self._names, self._pending = iter(names), {}
        self._fill()

    def read(self, name: str) -> T:
        """What reading a file returns. Also requests the next files. Raises what reading raises."""
        if self._owner != os.getpid():
            return self._read(name)
        future = self._pending.pop(name, None)
        self._fill()
        return self._read(name) if future is None else future.result()

    def _fill(self) -> None:
        while self._pool is not None and len(self._pending) < THREADS:
            name = next(self._names, None)
            if name is None:
                return
            if name not in self._pending:
                self._pending[name] = self._pool.submit(self._read, name)
