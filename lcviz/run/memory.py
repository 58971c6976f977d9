"""Storage for the steps of a run: on disk, where it outlasts the process; the newest in memory.

Files hold pickles: the caller passes a folder that only this user can write to.
"""

from __future__ import annotations

import os
import pickle
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from lcviz.lab.anatomy import Alphabet

from .snapshot import Checkpoint

RECENT = 8  # steps whose alphabets stay in memory: a page reads each many times
_LENGTH = 8  # bytes, of an entry's length before it
T = TypeVar("T")


class NewestSteps(Generic[T]):
    """Values by step; the oldest are dropped when all take too much. Not thread-safe.

    budget: most bytes of all values. in_memory: most bytes of those in memory. Each value is also
    in a file of its own, unless it cannot be written. The newest one always stays, in memory too,
    however large it is. folder: of the files; those that are there are stored steps already.
    """

    def __init__(self, budget: int, in_memory: int, folder: Path) -> None:
        self._budget, self._in_memory = budget, in_memory
        self._values: dict[int, T] = {}  # of those in memory
        self._folder = folder
        files = [path for path in folder.glob("*") if path.name.isdecimal()]
        files.sort(key=lambda path: int(path.name))
        self._nbytes = {int(path.name): path.stat().st_size for path in files}  # of all, in order
        if files and (newest := self.get(step := int(files[-1].name))) is not None:
            self._values[step] = newest

    def add(self, step: int, value: T, nbytes: int) -> None:
        """Store the value of a step. nbytes: its size."""
        self.drop(step)
        self._nbytes[step], self._values[step] = nbytes, value
        while sum(self._nbytes.values()) > self._budget and len(self._nbytes) > 1:
            self.drop(next(iter(self._nbytes)))
        self._write(step, value)
        while sum(map(self._nbytes.__getitem__, self._values)) > self._in_memory:
            oldest = next(iter(self._values))
            if oldest == step:
                break
            del self._values[oldest]
            if not self._file(oldest).exists():
                self.drop(oldest)

    def _write(self, step: int, value: T) -> None:
        file = self._file(step)
        unfinished = file.with_suffix(".part")
        with suppress(OSError):  # the disk is full: it is in memory
            self._folder.mkdir(exist_ok=True)
            unfinished.write_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
            unfinished.replace(file)

    def _file(self, step: int) -> Path:
        return self._folder / str(step)

    def drop(self, step: int) -> None:
        """Drop a step, if it is stored."""
        if self._nbytes.pop(step, None) is not None:
            self._values.pop(step, None)
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
            value: T = pickle.loads(self._file(step).read_bytes())  # the folder is private
        except (OSError, EOFError, pickle.UnpicklingError):  # it is gone, or a power loss cut it
            self.drop(step)
            return None
        return value

    @property
    def steps(self) -> tuple[int, ...]:
        """The stored steps, in the order in which they were added."""
        return tuple(self._nbytes)

    @property
    def steps_in_memory(self) -> tuple[int, ...]:
        """The stored steps that are also in memory."""
        return tuple(self._values)


class Journal:
    """A file of entries: checkpoints, and what else can be pickled. Thread-safe.

    path: of the file. An entry that is not whole ends the journal; the next one takes its place.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._end = path, 0
        self._file: IO[bytes] | None = None  # stays open: who shows a deleted run reads on
        self._waiting = b""  # what could not be written yet
        self._lock = threading.Lock()
        self._recent: dict[int, tuple[Alphabet, ...]] = {}  # by offset

    def entries(self) -> Iterator[Any]:
        """The entries that another process has left; of a checkpoint, alphabets are read on access.

        If the caller stops early, the next `add` overwrites from the last yielded entry on. Raises
        OSError, zlib.error, or whatever unpickling raises.
        """
        data = self._path.read_bytes()
        while (entry := _entry(data, self._end)) is not None:
            value = pickle.loads(zlib.decompress(entry))
            if isinstance(value, Checkpoint) and value.alphabets:
                stored = _StoredAlphabets(self, self._end, len(value.alphabets))
                value = replace(value, alphabets=stored)
            yield value
            self._end += _LENGTH + len(entry)

    def add(self, value: Any) -> Any:
        """Add an entry. Returns it, with alphabets that are read from the file on access.

        While the disk is full, the entry waits for the next one, and is returned as it is.
        """
        entry = zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)
        with self._lock:
            offset = self._end + len(self._waiting)
            self._waiting += len(entry).to_bytes(_LENGTH, "little") + entry
            try:
                file = self._opened()
                file.seek(self._end)
                file.truncate()
                if file.write(self._waiting) < len(self._waiting):
                    return value
            except OSError:
                return value
            self._end, self._waiting = self._end + len(self._waiting), b""
            if isinstance(value, Checkpoint) and value.alphabets:
                self._remember(offset, tuple(value.alphabets))
                stored = _StoredAlphabets(self, offset, len(value.alphabets))
                value = replace(value, alphabets=stored)
        return value

    def alphabets(self, offset: int) -> tuple[Alphabet, ...]:
        """The alphabets of the checkpoint at this byte offset. Raises OSError."""
        with self._lock:
            if offset not in self._recent:
                file = self._opened()
                file.seek(offset)
                entry = file.read(int.from_bytes(file.read(_LENGTH), "little"))
                self._remember(offset, pickle.loads(zlib.decompress(entry)).alphabets)
            return self._recent[offset]

    def _opened(self) -> IO[bytes]:
        if self._file is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            self._file = open(descriptor, "r+b", buffering=0)  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        return self._file

    def _remember(self, offset: int, alphabets: tuple[Alphabet, ...]) -> None:
        self._recent[offset] = alphabets
        while len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]


def _entry(data: bytes, offset: int) -> bytes | None:
    """The entry that begins there; None if it is not whole."""
    begin = offset + _LENGTH
    length = int.from_bytes(data[offset:begin], "little")
    return data[begin : begin + length] if 0 < length <= len(data) - begin else None


class _StoredAlphabets(Sequence[Alphabet]):
    """The n alphabets of a checkpoint in a journal."""

    __slots__ = ("_journal", "_n", "_offset")

    def __init__(self, journal: Journal, offset: int, n: int) -> None:
        self._journal, self._offset, self._n = journal, offset, n

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._journal.alphabets(self._offset)[i]
