"""Durable files, and a directory of records that one process writes to.

A file is either whole and durable or not there. It is written under a temporary name in the same
directory, or under no name where the system can do that, and fsynced. A link then gives it its
final name; a link never replaces a file. Then the directory is fsynced. With `overwrite`, a rename
replaces the file instead.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from codec.errors import LockedError, StepOrderError, WriteError

if TYPE_CHECKING:
    from filelock import BaseFileLock

TEMPORARY = ".lcc-"  # how names of temporary files begin
LOCK = ".lock"
SET_ASIDE = ".unusable"
REOPEN = "close this writer and make a new one with resume=True"


class Store(ABC):
    """A place for records that only this object writes to.

    Readers see each record whole or not at all, and no record is ever overwritten. Failures are
    ChainErrors; after one, everything that was there before is still there. An exception never
    proves that nothing happened: after an exception in `publish`, call `withdraw` before the next
    record.
    """

    @property
    def may_gain_records(self) -> bool:
        """Whether records unknown to this writer may appear: the next record must be a base."""
        return False

    @property
    def has_rival(self) -> bool:
        """Whether records of another writer may still appear: remove nothing for good."""
        return False

    @abstractmethod
    def publish(self, name: str, data: bytes, check: Callable[[], object] = lambda: None) -> float:
        """Add a record, which is durable on return.

        check: Called before anybody can see the record, maybe while the disk writes. If it raises,
            nothing is added.

        Returns:
            When its bytes became durable, by `time.perf_counter`.

        Raises:
            StepOrderError: There is another record of that name.
            LockedError: Another writer has taken over.
            WriteError: Writing failed, or this store is closed. The message says whether the record
                may be there.
        """

    @abstractmethod
    def withdraw(self, name: str, data: bytes) -> None:
        """Remove what `publish`, called with the same arguments, may have left although it raised.

        Another record of that name stays. Raises LockedError, WriteError.
        """

    @abstractmethod
    def missing(self, names: Sequence[str]) -> list[str]:
        """The records among these that somebody has removed or renamed, by a cheap check.

        The check may miss a removal, see each store. Its cost depends on the number of records only
        if the directory has changed.
        """

    @abstractmethod
    def share(self, names: Iterable[str], other: str) -> Path | str:
        """Put records into a new directory inside as well; they stay there if removed here.

        Args:
            names: The records, in this order.
            other: The directory, without ".lcc"; if there is one, it gets a number.

        Returns:
            The place of the directory.

        Raises:
            LockedError, WriteError: Nothing has changed here.
        """

    @abstractmethod
    def set_aside(self, name: str) -> None:
        """Rename a record so that readers ignore it. Raises LockedError, WriteError."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Delete records one by one, in this order. Raises LockedError, WriteError."""

    @abstractmethod
    def close(self) -> None:
        """Let others write."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Directory(Store):
    """A directory of records. While this object is open, nothing else writes there, in any process.

    The operating system drops the lock when the process that holds it ends. Every change first
    checks that this object still holds the lock, in this process, on the file of that name. An
    object that is garbage-collected before `close` releases its lock.

    path: made if missing. Half-written files of a killed writer are removed. Raises LockedError
    if another writer holds the lock, WriteError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._nameless: int | None = None  # descriptor of the directory, see `publish`
        self._seal = Seal(path)
        self._owner = os.getpid()
        self._locked: tuple[int, int] | None = None  # the lock file; None once this is closed
        self._lock = _lock_of(path)
        try:
            self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path) -> None:
        """Make the directory and lock it. Raises LockedError, WriteError."""
        import filelock  # here, because it takes a while and readers do without

        problem = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            _acquire(self._lock)
            self._locked = _identity(path / LOCK)
            problem = "cannot be listed"
            for leftover in path.glob(f"{TEMPORARY}*"):
                with contextlib.suppress(OSError):
                    leftover.unlink()
            self._nameless = _directory_for_nameless(path)
        except filelock.Timeout as exc:
            raise LockedError(
                f"{path}: another writer is at work here; close it first (a Checkpointer in this "
                "process counts too)"
            ) from exc
        except NotImplementedError as exc:
            raise WriteError(f"{path}: files cannot be locked on this disk: {exc}") from exc
        except OSError as exc:
            raise WriteError(f"{path}: {problem or why_unusable(exc)}: {exc}") from exc
        self._seal = Seal(path if self._nameless is None else self._nameless)

    def publish(self, name: str, data: bytes, check: Callable[[], object] = lambda: None) -> float:
        """Add a file, see `Store.publish`."""
        self._check()

        def write(file: IO[bytes]) -> None:
            file.write(data)
            file.flush()
            if hasattr(os, "posix_fadvise"):
                with contextlib.suppress(OSError):  # advice, by which Linux begins to write to disk
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            check()

        return publish(
            self.path / name,
            write,
            nameless=self._nameless,
            changing=self._seal.opened,
        )

    def withdraw(self, name: str, data: bytes) -> None:
        """Unlink the file if it holds these bytes, see `Store.withdraw`."""
        self._check()
        with write_errors(self.path / name, "may be left of a failed save: not removed"):
            with contextlib.suppress(FileNotFoundError):
                if (self.path / name).read_bytes() == data:
                    with self._seal.opened():
                        os.unlink(self.path / name)
            fsync_directory(self.path)

    def missing(self, names: Sequence[str]) -> list[str]:
        """The records that are gone, see `Store.missing`. One stat while the seal is whole."""
        if self._seal.is_whole():
            return []
        try:
            self._seal.put_on()  # before the listing: later changes break the seal
            present = set(os.listdir(self.path))
        except OSError:  # unknown: the seal is off, so the next look tries again
            self._seal.take_off()
            return []
        return [name for name in names if name not in present]

    def set_aside(self, name: str) -> None:
        """Rename a record, see `Store.set_aside`."""
        self._check()
        with write_errors(self.path / name, "could not be renamed"):
            free = next(p for n in aside_names(name) if not (p := self.path / n).exists())
            os.replace(self.path / name, free)
            fsync_directory(self.path)

    def share(self, names: Iterable[str], other: str) -> Path:
        """Hard-link records into a new directory, see `Store.share`; that takes no disk space."""
        self._check()
        new = next(p for n in chain_names(other) if not (p := self.path / n).exists())
        with write_errors(new, "could not be made"):
            new.mkdir()
            for name in names:
                os.link(self.path / name, new / name)
            fsync_directory(new)
            fsync_directory(self.path)
        return new

    def remove(self, names: Iterable[str]) -> None:
        """Delete records, see `Store.remove`."""
        with write_errors(self.path, "records could not be removed"):
            for name in names:
                self._check()
                os.unlink(self.path / name)
            fsync_directory(self.path)

    def __del__(self) -> None:
        if getattr(self, "_owner", None) == os.getpid():  # a fork may have reused the descriptor
            self.close()

    def _check(self) -> None:
        """Raise LockedError if another writer may hold the lock, WriteError if this writer is
        closed or the directory is gone."""
        if os.getpid() != self._owner:
            raise LockedError(
                f"{self.path}: process {self._owner} holds the lock, and this one is a fork of it; "
                "write in that process"
            )
        if self._locked is None:
            raise WriteError(f"{self.path}: this writer is closed; open the directory again")
        with write_errors(self.path, "its lock cannot be checked, so nothing is written"):
            try:
                current = _identity(self.path / LOCK)
            except (FileNotFoundError, NotADirectoryError):
                current = None
        if current == self._locked:
            return
        if not os.path.isdir(self.path):
            raise WriteError(_gone(self.path))
        problem = "was deleted" if current is None else "is another file now"
        raise LockedError(
            f"{self.path}: its lock file {LOCK} {problem}, so another writer may be at work there, "
            f"and nothing is written; {REOPEN}"
        )

    def close(self) -> None:
        """Let others write."""
        self._locked = None
        descriptor, self._nameless = self._nameless, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        with contextlib.suppress(OSError):  # the operating system releases it in the end
            self._lock.release()


class Seal:
    """Notices when anybody else adds files to a directory or removes files from it.

    Such a change sets the directory's modification time. After each change of our own we set this
    time back by one nanosecond, or by the file system's unit if that is larger. A change by anybody
    else then leads to another time, even in the same tick of the clock. Only a change in the
    microseconds between our own change and the new seal stays unnoticed.

    Without permission to set the time, the seal is never whole.

    place: the directory's path, or an open descriptor of it.
    """

    def __init__(self, place: Path | int) -> None:
        self._place = place
        self._time: int | None = None  # modification time, ns; None: the seal is off

    def is_whole(self) -> bool:
        """Whether the seal is on and nobody else has changed the directory since."""
        try:
            return self._time is not None and os.stat(self._place).st_mtime_ns == self._time
        except OSError:
            return False

    def put_on(self) -> None:
        """Put the seal on, or renew it."""
        self.take_off()
        with contextlib.suppress(OSError):  # the directory belongs to somebody else
            before = os.stat(self._place)
            os.utime(self._place, ns=(before.st_atime_ns, before.st_mtime_ns - 1))
            sealed = os.stat(self._place).st_mtime_ns
            if sealed < before.st_mtime_ns:  # else somebody has changed it meanwhile
                self._time = sealed

    def take_off(self) -> None:
        """Take the seal off: it is not whole until it is put on again."""
        self._time = None

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """A context for our own change: a whole seal stays whole, a broken seal stays broken."""
        was_whole = self.is_whole()
        self.take_off()
        yield
        if was_whole:
            self.put_on()


def publish(
    path: Path,
    write: Callable[[IO[bytes]], object],
    *,
    overwrite: bool = False,
    nameless: int | None = None,
    changing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
) -> float:
    """Write a file so that it is either whole and durable or not there.

    Args:
        path: Its final name.
        write: Writes the contents.
        overwrite: Replace a file of that name.
        nameless: Descriptor of the directory; None if the disk cannot hold files without names.
            They take fewer calls, and a kill leaves nothing behind.
        changing: Returns a context for each change of the directory, see `Seal.opened`.

    Returns:
        When its bytes had been fsynced, by `time.perf_counter`. The file got its name after that.

    Raises:
        StepOrderError: Another file has the name.
        WriteError: The disk refused. The message says whether the file may have got its name. That
            is unknown after an error of the naming call or of a later call, and after any other
            exception, for example of a signal handler.
    """
    temporary, may_have_name = None, False
    try:
        if nameless is None:
            with changing():
                descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
        else:
            descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o644, dir_fd=nameless)
        with os.fdopen(descriptor, "wb") as file:
            write(file)
            file.flush()
            if temporary is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o644)  # mkstemp makes files only their owner can read
            os.fsync(file.fileno())
            synced = time.perf_counter()
            may_have_name = True
            with changing():
                _give_name(file.fileno(), path, temporary, nameless, overwrite)
        fsync_directory(path.parent if nameless is None else nameless)
        return synced
    except OSError as exc:
        problem = "could not be written, nothing was changed"
        if may_have_name:
            problem = "may or may not have been written: the disk failed while naming it, or after"
        if not _is_there(path.parent, nameless):
            gone = (
                f"there is no directory {path.parent}" if nameless is None else _gone(path.parent)
            )
            problem = f"{problem}; {gone}"
        raise WriteError(f"{path}: {problem}: {exc}") from exc
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError), changing():  # leftovers are ignored
                os.unlink(temporary)


def _give_name(
    descriptor: int, path: Path, temporary: str | None, nameless: int | None, overwrite: bool
) -> None:
    """Give an open file its name, see `publish`. Raises OSError; StepOrderError for a taken name.

    If the call fails but the name refers to this file, only the answer was lost: that is no error.
    """
    try:
        if temporary is None:
            assert nameless is not None, "a file has a temporary name or none"
            _name(descriptor, path.name, nameless)
        elif overwrite:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
    except OSError as exc:
        with contextlib.suppress(FileNotFoundError):
            place, at = (path, None) if nameless is None else (path.name, nameless)
            if _identity(descriptor) == _identity(place, at):
                return
            if isinstance(exc, FileExistsError) and not overwrite:
                text = f"{path}: exists already, and records are never overwritten"
                raise StepOrderError(text) from exc
        raise


@contextlib.contextmanager
def write_errors(where: object, problem: str) -> Iterator[None]:
    """Raise each OSError as a WriteError that says where and what went wrong."""
    try:
        yield
    except OSError as exc:
        raise WriteError(f"{where}: {problem}: {exc}") from exc


def why_unusable(exc: OSError) -> str:
    """Why a directory cannot be made, or nothing can be written there."""
    if exc.errno == errno.EROFS:
        return "is on a read-only file system, where a chain can only be read; choose another place"
    if isinstance(exc, PermissionError):
        return "this user may not write there; change the permissions, or choose another place"
    if isinstance(exc, FileExistsError | NotADirectoryError):
        return "is no directory and cannot become one"
    return "cannot be made, or nothing can be written there"


def chain_names(name: str) -> Iterator[str]:
    """Names for a directory with a chain, in the order of preference."""
    return (f"{name}{'' if i == 1 else f'-{i}'}.lcc" for i in itertools.count(1))


def aside_names(name: str) -> Iterator[str]:
    """Names for a record that is set aside, in the order of preference."""
    return (f"{name}{SET_ASIDE}{'' if i == 1 else f'-{i}'}" for i in itertools.count(1))


def _lock_of(path: Path) -> BaseFileLock:
    """The lock of a directory, for `_acquire`."""
    from filelock import FileLock

    # Without locks on this disk, no lock made of a file: it would outlive a killed process.
    return FileLock(path / LOCK, thread_local=False, fallback_to_soft=False)


def _acquire(lock: BaseFileLock) -> None:
    """Take a lock now.

    Raises:
        filelock.Timeout: Another writer has it.
        NotImplementedError: The disk has no locks.
    """
    try:
        lock.acquire(timeout=0)
    except OSError as exc:
        if exc.errno == errno.ENOSYS:
            raise NotImplementedError(str(exc)) from exc
        raise


def _directory_for_nameless(path: Path) -> int | None:
    """Descriptor of a directory where a file can be made without a name and named later.

    None if the disk or the system cannot do that.
    """
    directory, name = None, f"{TEMPORARY}{os.getpid()}"
    try:
        directory = os.open(path, os.O_RDONLY)
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600, dir_fd=directory)
        try:
            _name(descriptor, name, directory)
        finally:
            os.close(descriptor)
        os.unlink(name, dir_fd=directory)
    except (OSError, AttributeError):  # not on every disk; O_TMPFILE not on every system
        if directory is not None:
            with contextlib.suppress(OSError):
                os.close(directory)
        return None
    return directory


def _name(descriptor: int, name: str, directory: int) -> None:
    """Name a file that has no name. Raises OSError; FileExistsError if the name is taken."""
    os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=directory, follow_symlinks=True)


def _identity(place: Path | str | int, directory: int | None = None) -> tuple[int, int]:
    """Device and inode of a path or an open descriptor. Raises OSError.

    directory: descriptor of the directory that a relative path begins in.
    """
    status = os.stat(place, dir_fd=directory)
    return status.st_dev, status.st_ino


def _is_there(directory: Path, descriptor: int | None) -> bool:
    """Whether there is a directory at a path; with a descriptor, whether it is that directory."""
    try:
        return _identity(directory) == _identity(directory if descriptor is None else descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # unknown
        return True


def _gone(directory: Path) -> str:
    return (
        f"{directory}: this directory was removed or moved during the training, and what was saved "
        f"went with it; put it back, or {REOPEN}; its first save will be a base"
    )


def fsync_directory(place: Path | int) -> None:
    """Make the names in a directory durable. place: its path or an open descriptor.

    Where directories cannot be opened, as on Windows, that is left to the system. Raises OSError.
    """
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = place if isinstance(place, int) else os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        if not isinstance(place, int):
            os.close(descriptor)
