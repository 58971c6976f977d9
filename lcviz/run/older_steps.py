"""What a run knows of its older steps, on disk: a long run would fill the memory with it."""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from lcviz.lab.anatomy import Alphabet

RECENT = 8  # steps read back that are kept, for a page looks at one of them many times


class Details:
    """Alphabets that were put on disk; safe for several threads.

    folder: where there is room. The file has no name: it is gone once nobody looks any more.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0
        self._lock = threading.Lock()
        self._recent: dict[int, tuple[Alphabet, ...]] = {}

    def put(self, alphabets: Sequence[Alphabet]) -> Sequence[Alphabet]:
        """The same, read back whenever somebody looks. Raises OSError, as if nothing were put."""
        data = zlib.compress(pickle.dumps(tuple(alphabets)), 1)
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            self._file.seek(self._end)
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            at, self._end = self._end, self._end + len(data)
        return _Away(self, at, len(data), len(alphabets))

    def read(self, at: int, nbytes: int) -> tuple[Alphabet, ...]:
        """What was put there."""
        with self._lock:
            if at not in self._recent:
                assert self._file is not None, "something was put there"
                self._file.seek(at)
                # From our own file, which nobody else can open.
                self._recent[at] = pickle.loads(zlib.decompress(self._file.read(nbytes)))
                while len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]
            return self._recent[at]


class _Away(Sequence[Alphabet]):
    """Alphabets on disk. at, nbytes: where; n: how many."""

    __slots__ = ("_at", "_details", "_n", "_nbytes")

    def __init__(self, details: Details, at: int, nbytes: int, n: int) -> None:
        self._details, self._at, self._nbytes, self._n = details, at, nbytes, n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._details.read(self._at, self._nbytes)[i]

    def __iter__(self) -> Iterator[Alphabet]:
        return iter(self._details.read(self._at, self._nbytes))
