"""What a run keeps of its steps: the newest in memory, the alphabets of older ones on disk."""

from __future__ import annotations

import errno
import os
import pickle
import tempfile
import threading
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from lcviz.lab.anatomy import Alphabet

RECENT = 8  # steps read back that stay in memory: a page looks at one of them many times
T = TypeVar("T")


class NewestSteps(Generic[T]):
    """Values by step; the oldest are dropped when they take too much. Not thread-safe.

    budget: bytes that all values may take together. The newest one stays, whatever it takes.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._nbytes = budget, 0
        self._kept: dict[int, tuple[T, int]] = {}

    def add(self, step: int, value: T, nbytes: int) -> None:
        """Keep one more; nbytes: what it takes."""
        self.drop(step)
        self._kept[step] = value, nbytes
        self._nbytes += nbytes
        while self._nbytes > self._budget and len(self._kept) > 1:
            self.drop(next(iter(self._kept)))

    def drop(self, step: int) -> None:
        """Drop a step, if it is there."""
        self._nbytes -= self._kept.pop(step, (None, 0))[1]

    def keep(self, n: int) -> None:
        """Drop all steps but the newest n."""
        for step in self.steps[: max(len(self._kept) - n, 0)]:
            self.drop(step)

    def get(self, step: int) -> T | None:
        """The value of a step, None if it was dropped."""
        return self._kept[step][0] if step in self._kept else None

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps that are kept, in the order in which they came."""
        return tuple(self._kept)


class AlphabetsOnDisk:
    """A file of alphabets; thread-safe. It has no name and goes with the last who reads it.

    folder: where the file is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0
        self._lock = threading.Lock()
        self._recent: dict[int, tuple[Alphabet, ...]] = {}

    def put(self, alphabets: Sequence[Alphabet]) -> Sequence[Alphabet]:
        """Write them; returns the same sequence, read back from the file on access.

        Raises OSError; then nothing was written.
        """
        data = zlib.compress(pickle.dumps(tuple(alphabets)), 1)
        with self._lock:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
                weakref.finalize(self, self._file.close)
            self._file.seek(self._end)
            if self._file.write(data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            offset, self._end = self._end, self._end + len(data)
        return _StoredAlphabets(self, offset, len(data), len(alphabets))

    def read(self, offset: int, nbytes: int) -> tuple[Alphabet, ...]:
        """What was written at this offset of the file."""
        with self._lock:
            if offset not in self._recent:
                assert self._file is not None, "there is a file once something was put"
                self._file.seek(offset)
                # The file is our own: nobody else can open it.
                self._recent[offset] = pickle.loads(zlib.decompress(self._file.read(nbytes)))
                while len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]
            return self._recent[offset]


class _StoredAlphabets(Sequence[Alphabet]):
    """n alphabets in the file, at an offset, in so many bytes."""

    __slots__ = ("_file", "_n", "_place")

    def __init__(self, file: AlphabetsOnDisk, offset: int, nbytes: int, n: int) -> None:
        self._file, self._place, self._n = file, (offset, nbytes), n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._file.read(*self._place)[i]
