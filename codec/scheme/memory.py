"""Memory in small pages, for arrays that are filled only in part, or needed only briefly.

Large pages are faster to get, but one written byte takes a whole page. Only Linux lets a program
choose the size of pages; elsewhere this is ordinary memory.
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.unsignedinteger[Any])

LARGE = 2**22  # bytes: from this size on numpy asks for large pages


class Pages:
    """Bytes that take no memory until they are written.

    content: uint8 (nbytes,), zeros at first. Raises MemoryError.
    """

    def __init__(self, nbytes: int) -> None:
        self._map: mmap.mmap | None = None
        if nbytes == 0 or not hasattr(mmap, "MADV_NOHUGEPAGE"):
            self.content = np.zeros(nbytes, np.uint8)
            return
        try:  # private, or a forked child would write into its parent's
            self._map = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as exc:
            raise MemoryError(f"no memory for {nbytes} bytes") from exc
        with suppress(OSError):  # a kernel without large pages
            self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.content = np.frombuffer(self._map, np.uint8)

    def give_back(self, begin: int, end: int) -> None:
        """Free the bytes begin..end; on Linux they read as 0 from now on.

        begin: the first byte of a page.
        """
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED, begin, end - begin)


class Joined(Generic[T]):
    """Parts that arrive in any order, joined in order without a second copy of all of them.

    most: upper bound of the elements of all parts. sparing: take memory gradually, while other
    memory is freed. dtype: of all parts.
    """

    def __init__(self, most: int, sparing: bool, dtype: type[T]) -> None:
        self._joined = np.empty(0 if sparing else most, dtype)
        if sparing:
            self._joined = Pages(self._joined.itemsize * most).content.view(dtype)
        self._used = self._next = 0
        self._waiting: dict[int, NDArray[T]] = {}
        self._lock = threading.Lock()

    def put(self, i: int, part: NDArray[T]) -> None:
        """Add part i, which is copied."""
        with self._lock:
            self._waiting[i] = part if i == self._next else part.copy()
            while (ready := self._waiting.pop(self._next, None)) is not None:
                self._joined[self._used : self._used + ready.size] = ready
                self._used += ready.size
                self._next += 1

    def whole(self) -> NDArray[T]:
        """All parts, joined."""
        return self._joined[: self._used]
