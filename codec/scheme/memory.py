"""Memory in small pages, for what is filled in part only, or not for long.

Large pages are faster to get, but where a few bytes of one are written all of it is taken. Linux
alone can be told; elsewhere it is memory like any other.

Not done here: keeping memory to be used again (survivors, workers).
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np

LARGE = 2**22  # bytes: from so many on numpy asks for large pages


class Pages:
    """So many bytes, which take no memory before they are written.

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
        with suppress(OSError):  # a kernel that knows no others
            self._map.madvise(mmap.MADV_NOHUGEPAGE)
        self.content = np.frombuffer(self._map, np.uint8)

    def give_back(self, begin: int, end: int) -> None:
        """The bytes begin..end are not needed any more; on Linux they read as 0 from now on.

        begin: at the begin of a page.
        """
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED, begin, end - begin)
