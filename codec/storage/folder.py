"""A directory whose files many processes write, each of them once; nobody holds it alone.

    step-10/__0_a81b….delta.safetensors       a folder in it, and a file

On a disk a Disk, behind a URL a Remote. A file is written under its final name, whole or not at
all. A store has no folders, only names with slashes: it is asked for single files, and lists a
folder only where a caller asks for its names.

Not done here: one writer at a time (directory, lease), which files are records (source).
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

from codec.errors import ChainError, WriteError

from .directory import fsync_directory, publish, why_unusable
from .read_ahead import THREADS

T = TypeVar("T")
Span = tuple[int, int]  # of bytes: the first one, and the one after the last


class Folder(ABC):
    """A directory; methods take the names of files and folders in it. str() is fit for messages.

    Methods raise OSError; FileNotFoundError where there is no such file. Two objects of one place
    are equal.

    Attributes:
        where: Its path, or its URL without secrets.
        is_remote: Whether it is behind a URL. There a request that was given up may arrive late: do
            not remove what a later save may write again.
    """

    where: str
    is_remote: bool

    def __str__(self) -> str:
        return self.where

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Folder) and self.where == other.where

    def __hash__(self) -> int:
        return hash(self.where)

    @abstractmethod
    def place(self, name: str) -> Path | str:
        """The path or URL of a file or folder."""

    @abstractmethod
    def make(self, name: str = "") -> None:
        """Make a folder; its name is durable on return. Raises OSError, WriteError."""

    @abstractmethod
    def read_whole(self, name: str, nbytes: int | None = None) -> bytes:
        """A file's bytes. nbytes: their number, if it is known: it saves a store's request."""

    @abstractmethod
    def read_spans(self, name: str, spans: Sequence[Span]) -> list[bytes]:
        """Parts of a file, each from its first byte to its end; fewer bytes if it ends before."""

    @abstractmethod
    def put(self, name: str, data: bytes) -> None:
        """Write a file, durably; replaces one of that name. Raises OSError, WriteError."""

    @abstractmethod
    def put_new(self, name: str, data: bytes) -> None:
        """Write a new file, durably. An object store without conditional puts overwrites one
        of that name.

        Raises StepOrderError or FileExistsError for another file of that name; OSError, WriteError.
        """

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file. Not every store reports one that does not exist."""

    @abstractmethod
    def names(self, folder: str = "") -> dict[str, bool]:
        """The names in a folder, and whether each is a file; none if there is no such folder."""

    @abstractmethod
    def nbytes(self, name: str) -> int | None:
        """A file's size; None if nobody knows."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""

    def version(self, name: str) -> object:
        """What tells a file from another one that takes its place: here its size."""
        return self.nbytes(name)

    def remove_all(self, folder: str, names: Iterable[str]) -> None:
        """Remove files of a folder in this order, as far as they are there; durable on return."""
        for name in names:
            with suppress(FileNotFoundError):
                self.remove(f"{folder}/{name}")

    def remove_empty(self, folder: str) -> None:
        """Remove a folder if it is empty; a store has none."""
        return

    def all_exist(self, names: Iterable[str]) -> bool:
        """Whether there are files of all these names. Raises ChainError if nobody answers."""
        try:
            return all(self.each(self.exists, names))
        except OSError as exc:
            raise ChainError(f"{self}: cannot be reached: {exc}") from exc

    def each(self, ask: Callable[[str], T], names: Iterable[str]) -> list[T]:
        """What is answered about each file; several requests wait for a network at a time."""
        names = list(names)
        if not self.is_remote or len(names) < 2:
            return list(map(ask, names))
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(ask, names))


class Disk(Folder):
    """A directory of this machine, or one that several machines share."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, str(path)

    def place(self, name: str) -> Path:
        """See `Folder`."""
        return self.path / name

    def make(self, name: str = "") -> None:
        """See `Folder`. The names of directories that are made above it are durable too."""
        path = self.path / name
        try:
            new = [above for above in path.parents if not above.exists()]
            path.mkdir(parents=True, exist_ok=True)
            for made in reversed([path, *new]):
                fsync_directory(made.parent)
        except OSError as exc:
            raise WriteError(f"{path}: {why_unusable(exc)}: {exc}") from exc

    def read_whole(self, name: str, nbytes: int | None = None) -> bytes:
        """See `Folder`."""
        check_regular(self.path / name)
        return (self.path / name).read_bytes()

    def read_spans(self, name: str, spans: Sequence[Span]) -> list[bytes]:
        """See `Folder`."""
        check_regular(self.path / name)
        with open(self.path / name, "rb") as file:
            return [spanned(file, span) for span in spans]

    def put(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        publish(self.path / name, lambda file: file.write(data), overwrite=True)

    def put_new(self, name: str, data: bytes) -> None:
        """See `Folder`."""
        publish(self.path / name, lambda file: file.write(data))

    def remove(self, name: str) -> None:
        """See `Folder`."""
        os.unlink(self.path / name)

    def remove_all(self, folder: str, names: Iterable[str]) -> None:
        """See `Folder`."""
        if names := list(names):
            super().remove_all(folder, names)
            fsync_directory(self.path / folder)

    def remove_empty(self, folder: str) -> None:
        """See `Folder`."""
        with suppress(FileNotFoundError):
            if not self.names(folder):
                os.rmdir(self.path / folder)

    def names(self, folder: str = "") -> dict[str, bool]:
        """See `Folder`."""
        try:
            with os.scandir(self.path / folder) as entries:
                return {entry.name: not entry.is_dir() for entry in entries}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def nbytes(self, name: str) -> int:
        """See `Folder`."""
        return os.stat(self.path / name).st_size

    def exists(self, name: str) -> bool:
        """See `Folder`."""
        return (self.path / name).is_file()

    def version(self, name: str) -> object:
        """See `Folder`. Its inode and the time of its last change."""
        status = os.stat(self.path / name)
        return status.st_ino, status.st_mtime_ns


def check_regular(path: Path) -> None:
    """Raise OSError unless it is a regular file: reading a pipe would block."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")


def spanned(file: IO[bytes], span: Span) -> bytes:
    """Bytes of a file, fewer if it ends before."""
    begin, end = span
    file.seek(begin)
    return file.read(end - begin)
