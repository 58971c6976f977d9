"""Where the steps of a training lie: in directories that all ranks see, or in an object store.

    run/step-10/__0_a81b….delta.safetensors       a run, a step, and a file in it

A file is written once, under its final name; only marks and notes are ever replaced. An object
store is asked for single files: it lists a step only to remove it, and renames nothing.

Not done here: what the files are (files), requests to object stores (storage.remote).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemBase

from codec.errors import ChainError, SettingsError, StepOrderError, WriteError
from codec.storage.directory import TEMPORARY, fsync_directory, publish, why_unusable
from codec.storage.location import Location, path_text
from codec.storage.read_ahead import THREADS
from codec.storage.remote import READ_ONLY, Remote, UnsupportedError
from codec.storage.source import Span, spanned

METADATA = ".metadata"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:+/")  # one slash, as a Path leaves it; C:/ is a drive


class Run(ABC):
    """The directory of a training's steps. Methods take names of steps and of files in them.

    Reading, listing and removing raise OSError; FileNotFoundError where there is no such file.
    """

    @abstractmethod
    def place_of(self, step: str) -> Path | str:
        """The path or URL of a step."""

    @abstractmethod
    def make(self, step: str) -> None:
        """Make a step's directory, durably. Raises WriteError."""

    @abstractmethod
    def read(self, step: str, file: str) -> bytes:
        """A file's bytes."""

    @abstractmethod
    def read_spans(self, step: str, file: str, spans: Sequence[Span]) -> list[bytes]:
        """Parts of a file, from one byte to another; fewer bytes if it ends before."""

    @abstractmethod
    def write(self, step: str, file: str, data: bytes) -> None:
        """Write a file, whole or not at all, durably; replaces one of that name.

        Raises WriteError.
        """

    @abstractmethod
    def remove(self, step: str, file: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def files(self, step: str) -> list[str]:
        """The names of a step's files; none if there is no such step."""

    @abstractmethod
    def steps(self) -> list[str]:
        """The names of all directories of steps."""

    @abstractmethod
    def exist(self, files: Iterable[tuple[str, str]]) -> bool:
        """Whether all of these exist, by step and file. Raises ChainError if nobody answers."""

    @abstractmethod
    def removed_among(self, steps: Iterable[str]) -> list[str]:
        """Those of these steps whose directories are gone, by name.

        On a disk all of them. In a store none: it has no directories, and missing files tell more.
        """

    @abstractmethod
    def files_there(self, step: str, likely: Iterable[str]) -> list[str]:
        """Files of a step, found without listing a store.

        On a disk all of them. In a store those of ``likely`` that exist.
        """

    @abstractmethod
    def nbytes(self, step: str, file: str) -> int:
        """A file's size. Raises ChainError."""

    @abstractmethod
    def version_of(self, step: str, file: str) -> object:
        """What tells a file from another one that takes its place."""

    def sync_steps(self) -> None:
        """Make the names of the steps durable. Raises OSError."""
        return

    def sync(self, step: str) -> None:
        """Make the names of a step's files durable. Raises OSError."""
        return

    def remove_if_empty(self, step: str) -> None:
        """Remove a step's directory if it is empty."""
        return


@dataclass(frozen=True)
class Step:
    """A step's directory. str() is its place for messages, without a URL's secrets."""

    run: Run
    name: str

    def __str__(self) -> str:
        return f"{self.run}/{self.name}"

    @property
    def place(self) -> Path | str:
        """Its path or URL."""
        return self.run.place_of(self.name)

    def beside(self, name: str) -> Step:
        """Another step of the run."""
        return Step(self.run, name)

    def files(self) -> list[str]:
        """The names of its files. Raises OSError."""
        return self.run.files(self.name)

    def has(self, file: str) -> bool:
        """Whether there is such a file. Raises ChainError."""
        return self.run.exist([(self.name, file)])


@dataclass(frozen=True)
class LocalRun(Run):
    """A run in a directory, which all ranks see."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def place_of(self, step: str) -> Path:
        """See `Run`."""
        return self.path / step

    def make(self, step: str) -> None:
        """Make the directory and its parents; the parents' names are durable."""
        path = self.path / step
        try:
            new = [parent for parent in path.parents if not parent.exists()]
            path.mkdir(parents=True, exist_ok=True)
            for parent in new:
                fsync_directory(parent.parent)
        except OSError as exc:
            raise WriteError(f"{path}: {why_unusable(exc)}: {exc}") from exc

    def read(self, step: str, file: str) -> bytes:
        """See `Run`."""
        return (self.path / step / file).read_bytes()

    def read_spans(self, step: str, file: str, spans: Sequence[Span]) -> list[bytes]:
        """See `Run`."""
        with open(self.path / step / file, "rb") as stream:
            return [spanned(stream, span) for span in spans]

    def write(self, step: str, file: str, data: bytes) -> None:
        """See `Run`."""
        publish(self.path / step / file, lambda stream: stream.write(data), overwrite=True)

    def remove(self, step: str, file: str) -> None:
        """See `Run`."""
        (self.path / step / file).unlink(missing_ok=True)

    def files(self, step: str) -> list[str]:
        """See `Run`."""
        path = self.path / step
        return [inside.name for inside in path.iterdir()] if path.is_dir() else []

    def steps(self) -> list[str]:
        """See `Run`."""
        return [path.name for path in self.path.iterdir() if path.is_dir()]

    def exist(self, files: Iterable[tuple[str, str]]) -> bool:
        """See `Run`."""
        return all((self.path / step / file).is_file() for step, file in files)

    def removed_among(self, steps: Iterable[str]) -> list[str]:
        """See `Run`."""
        return sorted({step for step in steps if not (self.path / step).is_dir()})

    def files_there(self, step: str, likely: Iterable[str]) -> list[str]:
        """All of them, see `Run`."""
        return self.files(step)

    def nbytes(self, step: str, file: str) -> int:
        """See `Run`."""
        try:
            return (self.path / step / file).stat().st_size
        except OSError as exc:
            raise ChainError(f"{self}/{step}/{file}: cannot be read: {exc}") from exc

    def version_of(self, step: str, file: str) -> object:
        """Its inode and the time of its last change."""
        stat = (self.path / step / file).stat()
        return stat.st_ino, stat.st_mtime_ns

    def sync_steps(self) -> None:
        """See `Run`."""
        fsync_directory(self.path)

    def sync(self, step: str) -> None:
        """See `Run`."""
        fsync_directory(self.path / step)

    def remove_if_empty(self, step: str) -> None:
        """See `Run`."""
        path = self.path / step
        if path.is_dir() and not any(path.iterdir()):
            os.rmdir(path)


@dataclass(frozen=True)
class RemoteRun(Run):
    """A run behind a URL."""

    url: str
    remote: Remote = field(compare=False)

    def __str__(self) -> str:
        return self.remote.where

    def place_of(self, step: str) -> str:
        """See `Run`."""
        before, mark, query = self.url.partition("?")
        return f"{before}/{step}{mark}{query}"

    def make(self, step: str) -> None:
        """Make the directory, in a store that has directories."""
        with self._writing(step):
            if self.remote.protocol in READ_ONLY:
                raise OSError("it can only be read")
            self.remote.make(step)

    def read(self, step: str, file: str) -> bytes:
        """See `Run`."""
        return self.remote.read_whole(f"{step}/{file}")

    def read_spans(self, step: str, file: str, spans: Sequence[Span]) -> list[bytes]:
        """See `Run`."""
        return self.remote.read_spans(f"{step}/{file}", spans)

    def write(self, step: str, file: str, data: bytes) -> None:
        """See `Run`."""
        with self._writing(f"{step}/{file}"):
            self.remote.put(f"{step}/{file}", data)

    def write_new(self, step: str, file: str, data: bytes) -> None:
        """Write a file; a store that takes conditions keeps one that has come before.

        So a request that was given up and arrives late replaces nothing.

        Raises:
            StepOrderError: There is another file of that name.
            WriteError: The store refuses, or nobody answers.
        """
        name = f"{step}/{file}"
        with self._writing(name):
            try:
                self.remote.create(name, data, conditional=True)
            except UnsupportedError:
                self.remote.put(name, data)
            except FileExistsError as exc:
                if self.remote.read_whole(name) != data:  # else only the first answer was lost
                    raise StepOrderError(
                        f"{self}/{name}: has come late from an earlier save of this step, which is "
                        "whole by now"
                    ) from exc

    def remove(self, step: str, file: str) -> None:
        """See `Run`."""
        with contextlib.suppress(FileNotFoundError):
            self.remote.remove(f"{step}/{file}")

    def files(self, step: str) -> list[str]:
        """See `Run`."""
        return list(self.remote.names(step))

    def steps(self) -> list[str]:
        """See `Run`."""
        return [name for name, is_file in self.remote.names().items() if not is_file]

    def exist(self, files: Iterable[tuple[str, str]]) -> bool:
        """See `Run`."""
        names = [f"{step}/{file}" for step, file in files]
        if len(names) < 2:
            return all(map(self._exists, names))
        with ThreadPoolExecutor(THREADS) as pool:
            return all(pool.map(self._exists, names))

    def removed_among(self, steps: Iterable[str]) -> list[str]:
        """None, see `Run`."""
        return []

    def files_there(self, step: str, likely: Iterable[str]) -> list[str]:
        """Those of ``likely`` that exist, see `Run`."""
        return [name for name in likely if self.exist([(step, name)])]

    def nbytes(self, step: str, file: str) -> int:
        """See `Run`."""
        try:
            return self.remote.nbytes(f"{step}/{file}") or 0
        except OSError as exc:
            raise ChainError(f"{self}/{step}/{file}: cannot be read: {exc}") from exc

    def version_of(self, step: str, file: str) -> object:
        """Its size."""
        return self.remote.nbytes(f"{step}/{file}")

    def _exists(self, name: str) -> bool:
        try:
            self.remote.nbytes(name)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise ChainError(f"{self}/{name}: cannot be reached: {exc}") from exc
        return True

    @contextlib.contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise WriteError(f"{self}/{name}: cannot be written: {exc}") from exc


def step_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Step:
    """The step in a directory or behind a URL.

    Links are resolved: run/latest may point elsewhere later. Raises SettingsError for anything else
    than a path or URL.
    """
    text = path_text(path)
    if not _URL.match(text):
        real = Path(os.path.realpath(text))
        return Step(LocalRun(real.parent), real.name)
    location = Location(path, storage_options)
    if location.remote is None:
        return step_at(location.path)
    place, mark, query = text.partition("?")
    run, slash, name = place.rstrip("/").rpartition("/")
    if not slash or run.endswith("/"):
        raise SettingsError(f"{location}: is no directory of a step, as s3://bucket/run/step-10")
    url = f"{run}{mark}{query}"
    remote = Location(url, storage_options).remote
    assert remote is not None, "as the step"
    return Step(RemoteRun(url, remote), name)


def run_at(path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Run:
    """The run in a directory or behind a URL. Raises SettingsError."""
    text = path_text(path)
    if not _URL.match(text):
        return LocalRun(Path(os.path.realpath(text)))
    location = Location(path, storage_options)
    if location.remote is None:
        return run_at(location.path)
    place, mark, query = text.partition("?")
    return RemoteRun(f"{place.rstrip('/')}{mark}{query}", location.remote)


def files_of(step: Step) -> tuple[Any, Path | str]:
    """What PyTorch's reader and writer take for a step: a file system, and a path in it."""
    if isinstance(step.run, LocalRun):
        return FileSystem(), step.run.path / step.name
    return _StepFiles(step), str(step)


class _StepFiles(FileSystemBase):
    """The files of a step behind a URL, as PyTorch's writer and reader of `.metadata` use them.

    What is written gets its name when it is renamed, with one request.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        self._unnamed: dict[str, bytes] = {}

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        """A file in memory. Raises OSError."""
        if mode == "rb":
            yield io.BytesIO(self._step.run.read(self._step.name, _name_of(path)))
            return
        stream = io.BytesIO()
        yield stream
        self._unnamed[_name_of(path)] = stream.getvalue()

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        """The path of a file."""
        return f"{path}/{suffix}"

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Write a new file. Raises StepOrderError, WriteError."""
        run, name = self._step.run, _name_of(new_path)
        assert isinstance(run, RemoteRun), "see files_of"
        run.write_new(self._step.name, name, self._unnamed.pop(_name_of(path)))

    def init_path(self, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """The same path."""
        return path

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Nothing."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it may be a step."""
        return True

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """False: a mark is never replaced."""
        return False

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Nothing."""


def _name_of(path: str | os.PathLike[str]) -> str:
    return os.fspath(path).rpartition("/")[2]


def is_temporary(name: str) -> bool:
    """Whether a killed writer left this file."""
    return name.startswith(TEMPORARY)
