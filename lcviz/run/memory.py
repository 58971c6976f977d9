"""Storage for the steps of a run: the newest in memory, older ones on disk."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import tempfile
import threading
import weakref
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from lcviz.lab.anatomy import Alphabet

RECENT = 8  # steps that stay in memory after they are read: a page reads each many times
T = TypeVar("T")


class NewestSteps(Generic[T]):
    """Values by step; the oldest are dropped when all take too much. Not thread-safe.

    budget: most bytes of all values. in_memory: most bytes of those in memory; the others are on
    disk, one file each. The newest value always stays in memory, however large. A value that cannot
    be written is dropped. folder: the parent of the folder for the files, which is deleted with
    this object.
    """

    def __init__(self, budget: int, in_memory: int, folder: Path) -> None:
        self._budget, self._in_memory = budget, in_memory
        self._nbytes: dict[int, int] = {}  # of all stored steps, in order
        self._values: dict[int, T] = {}  # of those in memory
        self._parent, self._folder = folder, ""

    def add(self, step: int, value: T, nbytes: int) -> None:
        """Store the value of a step. nbytes: its size."""
        self.drop(step)
        self._nbytes[step], self._values[step] = nbytes, value
        while sum(self._nbytes.values()) > self._budget and len(self._nbytes) > 1:
            self.drop(next(iter(self._nbytes)))
        while sum(map(self._nbytes.__getitem__, self._values)) > self._in_memory:
            oldest = next(iter(self._values))
            if oldest == step:
                break
            self._move_to_disk(oldest)

    def _move_to_disk(self, step: int) -> None:
        try:
            if not self._folder:
                self._folder = tempfile.mkdtemp(prefix="steps-", dir=self._parent)
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            with self._file(step).open("wb") as file:
                pickle.dump(self._values[step], file, pickle.HIGHEST_PROTOCOL)
        except OSError:  # the disk is full
            self.drop(step)
        else:
            del self._values[step]

    def _file(self, step: int) -> Path:
        return Path(self._folder, str(step))

    def drop(self, step: int) -> None:
        """Drop a step, if it is stored."""
        if self._nbytes.pop(step, None) is not None:
            self._values.pop(step, None)
            if self._folder:
                self._file(step).unlink(missing_ok=True)

    def keep(self, n: int) -> None:
        """Drop all steps but the newest n."""
        for step in self.steps[: max(len(self._nbytes) - n, 0)]:
            self.drop(step)

    def get(self, step: int) -> T | None:
        """The value of a step, None if it was dropped."""
        if step in self._values or step not in self._nbytes:
            return self._values.get(step)
        try:
            with self._file(step).open("rb") as file:
                value: T = pickle.load(file)  # only this object writes this file
        except OSError:  # another program has deleted the file
            self.drop(step)
            return None
        return value

    @property
    def steps(self) -> tuple[int, ...]:
        """The stored steps, in the order in which they were added."""
        return tuple(self._nbytes)

    @property
    def steps_in_memory(self) -> tuple[int, ...]:
        """The stored steps that are not on disk."""
        return tuple(self._values)


class AlphabetsOnDisk:
    """A temporary file of alphabets, deleted with the last object that reads it. Thread-safe.

    folder: where the file is made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._end = 0
        self._lock = threading.Lock()
        self._recent: dict[int, tuple[Alphabet, ...]] = {}

    def put(self, alphabets: Sequence[Alphabet]) -> Sequence[Alphabet]:
        """Write alphabets; returns the same sequence, read back from the file on access.

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
        """The alphabets that were written at this offset."""
        with self._lock:
            if offset not in self._recent:
                assert self._file is not None, "the file exists after the first put"
                self._file.seek(offset)
                # The file has no name: only this object can open it.
                self._recent[offset] = pickle.loads(zlib.decompress(self._file.read(nbytes)))
                while len(self._recent) > RECENT:
                    del self._recent[next(iter(self._recent))]
            return self._recent[offset]


class _StoredAlphabets(Sequence[Alphabet]):
    """n alphabets in the file: nbytes bytes at an offset."""

    __slots__ = ("_file", "_n", "_place")

    def __init__(self, file: AlphabetsOnDisk, offset: int, nbytes: int, n: int) -> None:
        self._file, self._place, self._n = file, (offset, nbytes), n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._file.read(*self._place)[i]
