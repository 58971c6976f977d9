"""Files that are whole and durable or not there, and a directory that one process writes to.

A file is written under a temporary name in the same directory, fsynced, linked to its final
name (which never overwrites), and the directory is fsynced.

Not done here: what is written, and in which order (checkpointer, chain).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from .errors import LockedError, StepOrderError, WriteError

TEMPORARY = ".lcc-"  # what names of temporary files begin with
LOCK = ".lock"
SET_ASIDE = ".unusable"


class Directory:
    """A directory of records that this object alone writes to, in any process.

    path: made if it is missing. The operating system drops the lock with the process that holds
    it; what a killed one left half-written is removed. Raises LockedError, WriteError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left: list[Path] = []  # what a failed save could not take back
        self._lock = FileLock(path / LOCK, thread_local=False, fallback_to_soft=False)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout as exc:
            raise LockedError(
                f"{path}: another writer is at work here; close it first (a Checkpointer in this "
                "process counts too)"
            ) from exc
        except NotImplementedError as exc:
            raise WriteError(f"{path}: files cannot be locked on this disk: {exc}") from exc
        except OSError as exc:
            raise WriteError(f"{path}: is no directory and cannot become one: {exc}") from exc
        try:
            leftovers = list(path.glob(f"{TEMPORARY}*"))
        except OSError as exc:
            self.close()
            raise WriteError(f"{path}: cannot be listed: {exc}") from exc
        for leftover in leftovers:
            with contextlib.suppress(OSError):
                leftover.unlink()

    def publish(self, name: str, data: bytes) -> None:
        """Add a file. Raises StepOrderError if it exists, WriteError."""
        try:
            while self._left:
                self._left[-1].unlink(missing_ok=True)
                self._left.pop()
        except OSError as exc:
            raise WriteError(f"{self._left[-1]}: could not be removed: {exc}") from exc
        try:
            publish(self.path / name, lambda file: file.write(data))
        except WriteError as exc:
            if isinstance(exc.__cause__, _LeftError):
                self._left.append(self.path / name)
            raise

    def set_aside(self, name: str) -> None:
        """Give a record a name that no reader takes for one; its bytes stay. Raises WriteError."""
        free = (f"{name}{SET_ASIDE}{'' if i == 1 else f'-{i}'}" for i in itertools.count(1))
        try:
            os.replace(self.path / name, next(p for f in free if not (p := self.path / f).exists()))
            _fsync_directory(self.path)
        except OSError as exc:
            raise WriteError(f"{self.path / name}: could not be renamed: {exc}") from exc

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, one after the other in this order. Raises WriteError."""
        try:
            for name in names:
                os.unlink(self.path / name)
            _fsync_directory(self.path)
        except OSError as exc:
            raise WriteError(f"{self.path}: could not be tidied up: {exc}") from exc

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        with contextlib.suppress(OSError):  # the operating system does it in the end
            self._lock.release()


def publish(path: Path, write: Callable[[IO[bytes]], object], *, overwrite: bool = False) -> None:
    """Write a file so that it is either whole and durable or not there.

    Temporary file in the same directory, flush, fsync, then link (which fails if the name
    exists) or, with overwrite, replace; then fsync of the directory. Raises StepOrderError
    if the name exists, WriteError for whatever the disk refuses; both leave no trace, but
    for a file already replaced when the directory's fsync fails, or one that has its name then
    and cannot be unlinked either (the cause is a _LeftError).
    """
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fchmod(file.fileno(), 0o644)  # mkstemp makes files only their owner can read
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, path)
            temporary = None
            _fsync_directory(path.parent)
        else:
            _link(temporary, path)
    except FileExistsError as exc:
        raise StepOrderError(f"{path}: exists already, and records are never overwritten") from exc
    except OSError as exc:
        raise WriteError(f"{path}: could not be written, nothing was changed: {exc}") from exc
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):  # leftovers are ignored
                os.unlink(temporary)


class _LeftError(OSError):
    """A file has its name, is not durable, and could not be removed."""


def _link(temporary: str, path: Path) -> None:
    """Give the file its name for good, or, whatever happens (Ctrl-C too), not at all.

    A record that is there though its save failed would be the parent of nothing: the next
    save would name the record before it, and no reader could follow.
    """
    os.link(temporary, path)
    try:
        _fsync_directory(path.parent)
    except BaseException:
        try:
            os.unlink(path)
        except OSError as exc:
            raise _LeftError(*exc.args) from exc
        raise


def _fsync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
