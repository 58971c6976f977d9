"""Disk space for visitors' files, with one limit for all of them together.

A visitor's folder counts its bytes. It is deleted with its object, at the latest when the server
ends.
"""

from __future__ import annotations

import itertools
import shutil
import threading
import weakref
from pathlib import Path

from lcviz.text import nbytes_text

from .temp_folders import TempFolder

MOST_BYTES = 2 * 2**30  # of all folders together
MOST_PLACES = 40  # folders


class FullError(OSError):
    """The disk space is used up; the message is a sentence for the person at the screen."""


class Shelf:
    """All visitors' folders of this server; thread-safe."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_places: int = MOST_PLACES) -> None:
        self.most_bytes, self.most_places = most_bytes, most_places
        self._folder = TempFolder("own")
        self._root = self._folder.path
        # A finalizer may run in the middle of anything, in the thread that holds the lock too.
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._nbytes: dict[int, int] = {}  # by a folder's number

    @property
    def nbytes(self) -> int:
        """Bytes in all folders."""
        with self._lock:
            return sum(self._nbytes.values())

    def place(self) -> VisitorFolder:
        """An empty folder. Raises FullError."""
        with self._lock:
            if len(self._nbytes) >= self.most_places:
                raise FullError(
                    f"This server already keeps {self.most_places} series and chains of visitors, "
                    "its limit. Close what you do not need, or come back when somebody has left."
                )
            number = next(self._numbers)
            self._nbytes[number] = 0
        path = self._root / str(number)
        path.mkdir()
        return VisitorFolder(self, number, path)

    def _change(self, number: int, nbytes: int) -> None:
        with self._lock:
            if nbytes > 0 and self.nbytes + nbytes > self.most_bytes:
                raise FullError(
                    f"This server keeps {nbytes_text(self.most_bytes)} of visitors' files at most, "
                    f"and {nbytes_text(nbytes)} more do not fit in. Close what you do not need, or "
                    "come back later."
                )
            if number in self._nbytes:
                self._nbytes[number] += nbytes

    def _forget(self, number: int, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        with self._lock:
            self._nbytes.pop(number, None)


class VisitorFolder:
    """A folder for one visitor's files, at ``path``."""

    def __init__(self, shelf: Shelf, number: int, path: Path) -> None:
        self.path, self._shelf, self._number = path, shelf, number
        self.close = weakref.finalize(self, shelf._forget, number, path)

    def take(self, nbytes: int) -> None:
        """Count bytes before they are written; a negative number counts bytes that were removed.

        Raises FullError; then nothing may be written.
        """
        self._shelf._change(self._number, nbytes)

    def remove(self, path: Path) -> None:
        """Delete a file or folder in here, and free its bytes."""
        if path.is_dir():
            nbytes = sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
            shutil.rmtree(path, ignore_errors=True)
        else:
            nbytes = path.stat().st_size if path.exists() else 0
            path.unlink(missing_ok=True)
        self.take(-nbytes)
