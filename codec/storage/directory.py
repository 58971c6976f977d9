"""Files that are whole and durable or not there, and a directory that one process writes to.

A file is written under a temporary name in the same directory, or without one where the system
can do that, fsynced, linked to its final name (which never overwrites), and the directory is
fsynced. What others write to in its place is a Store, too.

Not done here: a Store that a URL leads to (fencing); what is written, and in which order
(recorder, upkeep).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, NoReturn, Protocol

from filelock import FileLock, Timeout

from codec.errors import LockedError, StepOrderError, WriteError

TEMPORARY = ".lcc-"  # what names of temporary files begin with
LOCK = ".lock"
SET_ASIDE = ".unusable"
REOPEN = "close this writer and make a new one with resume=True"


class Store(Protocol):
    """What records are written to, by this object alone.

    Readers see each record whole or not at all, and none is ever overwritten. ChainErrors say
    what went wrong; after one, all that was there before is still there.
    """

    @property
    def doubtful(self) -> bool:
        """Whether the record that was published last may turn up though it was said to have
        failed: it is to be removed."""

    @property
    def unsettled(self) -> bool:
        """Whether records may turn up that nobody knows of yet: what is published next must not
        lean on what is there."""

    @property
    def contested(self) -> bool:
        """Whether records of another writer may still turn up: no look at what is there is a
        reason to remove anything."""

    def publish(self, name: str, data: bytes) -> float:
        """Add a record; when this returns it is durable. Returns since when its bytes are, by
        `time.perf_counter`. Raises StepOrderError if there is one of that name, LockedError if
        the store is another writer's by now, WriteError, also once this one is closed."""

    def set_aside(self, name: str) -> None:
        """Give a record a name that no reader takes for one; its bytes stay. Raises LockedError,
        WriteError."""

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, one after the other in this order. Raises LockedError, WriteError."""

    def close(self) -> None:
        """Let others write."""

    def __enter__(self) -> Store: ...

    def __exit__(self, *_error: object) -> None: ...


class Directory:
    """A directory of records that this object alone writes to, in any process.

    path: made if it is missing. The operating system drops the lock with the process that holds
    it; what a killed one left half-written is removed. Every change checks first that the lock is
    still held: by this object, in this process, on the file that has the lock's name. An object
    that is collected before `close` lets go of it.

    Raises LockedError, WriteError.
    """

    # What could not be taken back is, before anything else is published.
    doubtful = unsettled = contested = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left: list[Path] = []  # what a failed save could not take back
        self._nameless: int | None = None  # descriptor of the directory, see `publish`
        self._owner = os.getpid()
        self._locked: tuple[int, int] | None = None  # the lock file; None once this is closed
        self._lock = FileLock(path / LOCK, thread_local=False, fallback_to_soft=False)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
            self._locked = _identity(path / LOCK)
        except Timeout as exc:
            raise LockedError(
                f"{path}: another writer is at work here; close it first (a Checkpointer in this "
                "process counts too)"
            ) from exc
        except NotImplementedError as exc:
            raise WriteError(f"{path}: files cannot be locked on this disk: {exc}") from exc
        except OSError as exc:
            self.close()
            raise WriteError(f"{path}: is no directory and cannot become one: {exc}") from exc
        try:
            leftovers = list(path.glob(f"{TEMPORARY}*"))
        except OSError as exc:
            self.close()
            raise WriteError(f"{path}: cannot be listed: {exc}") from exc
        for leftover in leftovers:
            with contextlib.suppress(OSError):
                leftover.unlink()
        self._nameless = _opened_for_nameless(path)

    def publish(self, name: str, data: bytes) -> float:
        """Add a file, as `publish` does. Raises StepOrderError if it exists, LockedError,
        WriteError."""
        self._check()
        try:
            while self._left:
                self._left[-1].unlink(missing_ok=True)
                self._left.pop()
        except OSError as exc:
            raise WriteError(f"{self._left[-1]}: could not be removed: {exc}") from exc
        try:
            return publish(self.path / name, lambda file: file.write(data), nameless=self._nameless)
        except WriteError as exc:
            if isinstance(exc.__cause__, _LeftError):
                self._left.append(self.path / name)
            raise

    def set_aside(self, name: str) -> None:
        """Give a record a name that no reader takes for one; its bytes stay. Raises LockedError,
        WriteError."""
        self._check()
        free = (f"{name}{SET_ASIDE}{'' if i == 1 else f'-{i}'}" for i in itertools.count(1))
        try:
            os.replace(self.path / name, next(p for f in free if not (p := self.path / f).exists()))
            _fsync_directory(self.path)
        except OSError as exc:
            raise WriteError(f"{self.path / name}: could not be renamed: {exc}") from exc

    def share(self, names: Iterable[str], other: Path) -> None:
        """Give records a second name each, in a directory made for it; that takes no room, and
        what is removed here stays there. Raises LockedError, WriteError."""
        self._check()
        try:
            other.mkdir()
            for name in names:
                os.link(self.path / name, other / name)
            _fsync_directory(other)
            _fsync_directory(other.parent)
        except OSError as exc:
            raise WriteError(f"{other}: could not be made: {exc}") from exc

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, one after the other in this order. Raises LockedError, WriteError."""
        try:
            for name in names:
                self._check()
                os.unlink(self.path / name)
            _fsync_directory(self.path)
        except OSError as exc:
            raise WriteError(f"{self.path}: could not be tidied up: {exc}") from exc

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_owner", None) == os.getpid():  # a fork may have closed and reused it
            self.close()

    def _check(self) -> None:
        """Raise unless the lock is still held. LockedError: it may be somebody else's. WriteError:
        this writer is closed, or the directory is gone."""
        if os.getpid() != self._owner:
            raise LockedError(
                f"{self.path}: process {self._owner} holds the lock, and this one is a fork of it; "
                "write in that process"
            )
        if self._locked is None:
            raise WriteError(f"{self.path}: this writer is closed; open the directory anew")
        try:
            found = _identity(self.path / LOCK)
        except (FileNotFoundError, NotADirectoryError):
            found = None
        except OSError as exc:
            raise WriteError(
                f"{self.path}: its lock cannot be checked, nothing was changed: {exc}"
            ) from exc
        if found == self._locked:
            return
        if not os.path.isdir(self.path):
            raise WriteError(_gone(self.path))
        what = "was deleted" if found is None else "is another file now"
        raise LockedError(
            f"{self.path}: its lock file {LOCK} {what}, so another writer may be at work there; "
            f"nothing was changed; {REOPEN}"
        )

    def close(self) -> None:
        """Let others write."""
        self._locked = None
        if self._nameless is not None:
            with contextlib.suppress(OSError):
                os.close(self._nameless)
            self._nameless = None
        with contextlib.suppress(OSError):  # the operating system does it in the end
            self._lock.release()


def remove_unused(directories: Sequence[Path]) -> None:
    """Remove a directory that was made for records and never got one.

    directories: that one, and those above it that were made with it, the innermost first. What
    holds anything, or is another writer's by now, stays.
    """
    try:
        if directories and directories[0].is_dir():
            _remove_lock(directories[0])
        for path in directories:
            if path.is_dir():
                path.rmdir()
    except (OSError, Timeout):  # not empty, above all
        return


def _remove_lock(path: Path) -> None:
    """Remove a directory's lock if it holds nothing else, and nobody has it. Raises Timeout."""
    with FileLock(path / LOCK, thread_local=False, fallback_to_soft=False).acquire(timeout=0):
        if os.listdir(path) == [LOCK]:
            (path / LOCK).unlink()


def publish(
    path: Path,
    write: Callable[[IO[bytes]], object],
    *,
    overwrite: bool = False,
    nameless: int | None = None,
) -> float:
    """Write a file so that it is either whole and durable or not there.

    Temporary file in the same directory, flush, fsync, then link (which fails if the name
    exists) or, with overwrite, replace; then fsync of the directory. nameless: descriptor of the
    directory, if files without a name can be made in it: fewer calls, and nothing that a kill
    could leave behind. Returns when its bytes had been fsynced, by `time.perf_counter`: what
    follows is only its name. Raises StepOrderError if the name exists, WriteError for whatever the
    disk refuses; both leave no trace, but for a file already replaced when the directory's fsync
    fails, or one that has its name then and cannot be unlinked either (the cause is a _LeftError).
    """
    temporary = None
    linked = False
    try:
        if nameless is None:
            descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        else:
            descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o644, dir_fd=nameless)
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            if temporary is not None:
                os.fchmod(file.fileno(), 0o644)  # mkstemp makes files only their owner can read
            os.fsync(file.fileno())
            synced = time.perf_counter()
            if nameless is not None:
                _name(file.fileno(), path.name, nameless)
                linked = True
        if overwrite and temporary is not None:
            os.replace(temporary, path)
            temporary = None
        elif temporary is not None:
            os.link(temporary, path)
            linked = True
        _fsync_directory(path.parent if nameless is None else nameless)
        return synced
    except BaseException as exc:
        # A record that is there though its save failed would be the parent of nothing: the next
        # save would name the record before it, and no reader could follow. So whatever happened
        # (Ctrl-C too), it goes.
        _refuse(path, exc, linked, nameless)
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):  # leftovers are ignored
                os.unlink(temporary)


def _refuse(path: Path, exc: BaseException, linked: bool, nameless: int | None) -> NoReturn:
    """Take back the name of a file, if it has it, and say what happened."""
    is_there = _is_there(path.parent, nameless)
    if linked and is_there:  # else that name is another directory's by now
        try:
            os.unlink(path)
        except OSError as left:
            text = f"{path}: was not saved, and could not be removed: {left}"
            raise WriteError(text) from _LeftError(*left.args)
    if isinstance(exc, FileExistsError):
        raise StepOrderError(f"{path}: exists already, and records are never overwritten") from exc
    if isinstance(exc, OSError) and not is_there and nameless is None:
        text = f"{path}: could not be written: there is no directory {path.parent}"
        raise WriteError(text) from exc
    if isinstance(exc, OSError) and not is_there:
        raise WriteError(_gone(path.parent)) from exc
    if isinstance(exc, OSError):
        raise WriteError(f"{path}: could not be written, nothing was changed: {exc}") from exc
    raise exc


class _LeftError(OSError):
    """A file has its name, is not durable, and could not be removed."""


def _opened_for_nameless(path: Path) -> int | None:
    """Descriptor of a directory, if a file without a name can be made in it and named."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        directory = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    name = f"{TEMPORARY}{os.getpid()}"
    try:
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600, dir_fd=directory)
        try:
            _name(descriptor, name, directory)
        finally:
            os.close(descriptor)
        os.unlink(name, dir_fd=directory)
    except OSError:  # not on every disk
        with contextlib.suppress(OSError):
            os.close(directory)
        return None
    return directory


def _name(descriptor: int, name: str, directory: int) -> None:
    """Give a file without a name one. Raises OSError; FileExistsError if others have it."""
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)


def _identity(place: Path | int) -> tuple[int, int]:
    """Device and inode of a path or an open descriptor. Raises OSError."""
    found = os.stat(place)
    return found.st_dev, found.st_ino


def _is_there(directory: Path, descriptor: int | None) -> bool:
    """Whether a directory still has its path: the one of this descriptor, or any if None."""
    try:
        return _identity(directory) == _identity(directory if descriptor is None else descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # nobody can tell
        return True


def _gone(directory: Path) -> str:
    return (
        f"{directory}: this directory was removed or moved during the training, and what was saved "
        f"went with it; put it back, or {REOPEN}, whose first save is a base"
    )


def _fsync_directory(place: Path | int) -> None:
    """By its path, or by a descriptor that is open."""
    if isinstance(place, int):
        os.fsync(place)
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
