"""Records behind a URL: listed, read, put and deleted through fsspec.

fsspec is imported when a URL is first used. Its errors, and those of the libraries below it, become
OSErrors without secrets in their texts; retries are left to these libraries. A request that nobody
answers fails after some time, where the file system is asynchronous (s3, gs, az, http are). Cached
listings are dropped before each use, since others write there too.
"""

from __future__ import annotations

import errno
import inspect
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from codec.errors import ChainError, ChainNotFoundError, SettingsError

from .entry import entry_of
from .folder import Folder, Span
from .read_ahead import THREADS, ReadAhead
from .source import RETRIES, Source, open_archive

READ_ONLY = ("http", "https")
PAGE = 1000  # names in one answer of S3; a longer listing takes several requests
SMALL = 32 * 2**20  # bytes: objects up to this size are read by one request
MOST_KEPT = 2 * THREADS  # files that a server sent whole: at least all that are read ahead
SECRET = re.compile("key|secret|token|pass|user|auth|cred|cert|sas|header|cookie|connection")
_USER = re.compile("[^/]*//([^/]*)@")
_QUERY = re.compile(r"\?[^\s?'\"=]+=[^\s'\"]*")
MAX_PLAIN = 3  # characters; such a short value is no secret and would be part of other words
MAX_TEXT = 300  # characters of a library's error
PATIENCE = 120.0  # seconds until a request without an answer fails; s3fs tries again after 60
SLOWEST = 100_000  # bytes a second: the slowest line on which long requests succeed
WITHOUT_DIRECTORIES = (
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl"),
    *("oss", "oci", "tos", "memory"),
)
PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "fsspec s3fs"),
    **dict.fromkeys(("gs", "gcs"), "fsspec gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "fsspec adlfs"),
    **dict.fromkeys(READ_ONLY, "fsspec aiohttp requests"),
}


class Remote(Folder):
    """A directory in an fsspec filesystem.

    Methods raise OSError for every failure (where known FileNotFoundError, FileExistsError or
    PermissionError), and SettingsError if a package that the URL needs is not installed.
    """

    is_remote = True

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.protocol = url.partition("://")[0]
        place, mark, query = url.partition("?") if self.protocol in READ_ONLY else (url, "", "")
        self._url, self._options, self._query = place, options, mark + query
        match = _USER.match(place)
        user = match[1] if match else ""
        self.where = place.replace(f"{user}@", "", 1).rstrip("/")
        secrets = {user, user.partition(":")[2], query, *_values(query)}
        self._hidden = (secrets | set(map(unquote, secrets)) | set(_secrets(options))) - {""}
        self._sizes: dict[str, int] = {}
        self._connection: tuple[int, Any, str] | None = None  # process, filesystem, path
        self._sent_whole: dict[str, bytes] = {}  # by name, see `read_spans`

    @property
    def is_archive(self) -> bool:
        """Whether the URL names an archive, not a directory."""
        return self.where.endswith(".zip")

    @property
    def listed(self) -> frozenset[str]:
        """Names of the records in the newest listing."""
        return frozenset(self._sizes)

    def place(self, name: str) -> str:
        """The URL of a file or folder in it."""
        before, mark, query = f"{self._url}{self._query}".partition("?")
        return f"{before.rstrip('/')}/{name}{mark}{query}"

    def source(self) -> Source:
        """Open it for reading. Raises ChainNotFoundError, ArchiveError, ChainError."""
        if not self.is_archive:
            ahead = ReadAhead(lambda name: self.read_whole(name, self._sizes.get(name, 0)))
            reading = ahead.read, self.read_spans, ahead.expect
            return Source(self.where, self.sizes, *reading, is_remote=True)
        handle, name = tempfile.mkstemp(suffix=".lcc.zip")
        try:
            os.close(handle)
            with self._call() as (fs, path):
                fs.get_file(path + self._query, name)
            return open_archive(name, self.where)
        except FileNotFoundError as exc:
            raise ChainNotFoundError(f"{self.where}: there is no .lcc.zip there: {exc}") from exc
        except OSError as exc:
            raise ChainError(f"{self.where}: cannot be read: {exc}") from exc
        finally:
            with suppress(OSError):  # the open archive needs no name
                os.unlink(name)

    def sizes(self) -> dict[str, int]:
        """Names and bytes of the records there. Raises ChainNotFoundError, ChainError.

        A listing of several requests is repeated until two in a row are the same.
        """
        try:
            sizes = self._list()
            for _ in range(RETRIES if len(sizes) >= PAGE else 0):
                before, sizes = sizes, self._list()
                if before == sizes:
                    break
        except FileNotFoundError as exc:
            raise ChainNotFoundError(f"{self.where}: there is no chain there") from exc
        except OSError as exc:
            raise ChainError(f"{self.where}: cannot be listed: {exc}") from exc
        self._sizes = sizes
        return sizes

    def read_whole(self, name: str, nbytes: int | None = None) -> bytes:
        """See `Folder`. Raises OSError if fewer bytes arrive than the store says there are."""
        nbytes = (self.nbytes(name) if nbytes is None else nbytes) or 0
        data = self.read(name, nbytes)
        if len(data) < nbytes and len(data) < (nbytes := self.nbytes(name) or 0):
            raise OSError(f"only {len(data)} of its {nbytes} bytes arrived")
        return data

    def read(self, name: str, nbytes: int) -> bytes:
        """A file's bytes. nbytes: their approximate number, 0 if unknown."""
        with self._call(name) as (fs, path):
            fs.invalidate_cache(path)  # s3fs may take the size from it
            # Without a start, s3fs first asks for the size.
            limits = {"start": 0} if 0 < nbytes <= SMALL else {}
            return bytes(_ask(fs.cat_file, path, nbytes=nbytes or None, **limits))

    def read_spans(self, name: str, spans: Sequence[Span]) -> list[bytes]:
        """Parts of a file, requested at the same time where the filesystem can.

        A web server may ignore that only a part is asked for. Its whole file is then kept for
        later calls, with a few others.
        """
        if (whole := self._sent_whole.get(name)) is not None:
            return [whole[begin:end] for begin, end in spans]
        begins, ends = map(list, zip(*spans))
        with self._call(name) as (fs, path):
            nbytes = sum(ends) - sum(begins)
            parts = _ask(fs.cat_ranges, [path] * len(spans), begins, ends, nbytes=nbytes)
            for part in parts:  # fsspec returns errors in their place
                if isinstance(part, Exception):
                    raise part
            parts = list(map(bytes, parts))
        for (begin, end), part in zip(spans, parts):
            if len(part) < end - begin:
                raise OSError(f"only {len(part)} of {end - begin} bytes arrived")
            if len(part) > end - begin:
                for oldest in list(self._sent_whole)[:-MOST_KEPT]:
                    self._sent_whole.pop(oldest, None)
                self._sent_whole[name] = part
                return self.read_spans(name, spans)
        return parts

    def put(self, name: str, data: bytes) -> None:
        """Write a file, or overwrite it."""
        with self._call(name) as (fs, path):
            _ask(fs.pipe_file, path, data, nbytes=len(data))

    def create(self, name: str, data: bytes, *, conditional: bool) -> None:
        """Write a new file. Raises FileExistsError if it exists.

        conditional: the store itself checks that, in the same request.
        """
        with self._call(name) as (fs, path):
            if conditional:
                _ask(fs.pipe_file, path, data, mode="create", nbytes=len(data))
                return
            fs.invalidate_cache(path)
            with suppress(FileNotFoundError):  # fs.exists would answer False after any error
                _ask(fs.info, path)
                raise FileExistsError("it exists already")
            _ask(fs.pipe_file, path, data, nbytes=len(data))

    def put_new(self, name: str, data: bytes) -> None:
        """Write a new file, see `Folder`. If the same bytes are there, only the answer was lost."""
        try:
            self.create(name, data, conditional=True)
        except UnsupportedError:
            self.put(name, data)
        except FileExistsError:
            with suppress(FileNotFoundError):
                if self.read_whole(name) == data:
                    return
            raise

    def exists(self, name: str) -> bool:
        """See `Folder`."""
        with suppress(FileNotFoundError):
            self.nbytes(name)
            return True
        return False

    def nbytes(self, name: str) -> int | None:
        """A file's size; None if the filesystem does not know."""
        with self._call(name) as (fs, path):
            fs.invalidate_cache(path)
            size = _ask(fs.info, path).get("size")
            return None if size is None else int(size)

    def copy(self, name: str, other: str) -> None:
        """Copy a file; the store does it where it can."""
        try:
            with self._call(name) as (fs, path):
                _ask(fs.cp_file, path, path.removesuffix(name) + other, nbytes=None)
        except UnsupportedError:
            self.put(other, self.read_whole(name))

    def holds_files(self, name: str) -> bool:
        """Whether there is a directory of that name, with files in it where a store has none."""
        try:
            with self._call(name) as (fs, path):
                fs.invalidate_cache(path)
                return bool(_ask(fs.ls, path, detail=False))
        except FileNotFoundError:
            return False

    def names(self, folder: str = "") -> dict[str, bool]:
        """See `Folder`."""
        try:
            with self._call(folder) as (fs, path):
                fs.invalidate_cache(path)
                infos = _ask(fs.ls, path, detail=True)
        except FileNotFoundError:
            return {}
        entries = {info["name"].rstrip("/").rpartition("/")[2]: info["type"] for info in infos}
        return {entry: kind == "file" for entry, kind in entries.items() if entry}

    def remove(self, name: str) -> None:
        """See `Folder`."""
        with self._call(name) as (fs, path):
            _ask(fs.rm_file, path)

    def make(self, name: str = "") -> None:
        """Make a folder, in a filesystem that has directories."""
        with self._call(name) as (fs, path):
            if self.protocol in READ_ONLY:
                raise OSError("it can only be read")
            if self.protocol not in WITHOUT_DIRECTORIES:
                _ask(fs.makedirs, path, exist_ok=True)

    def _list(self) -> dict[str, int]:
        with self._call() as (fs, path):
            fs.invalidate_cache(path)
            sizes: dict[str, int | None] = {}
            for info in _ask(fs.ls, path + self._query, detail=True):
                name = info["name"].rpartition("/")[2].partition("?")[0]
                if info["type"] == "file" and entry_of(name, 0):
                    sizes[name] = info.get("size")
        unknown = [name for name, size in sizes.items() if size is None]
        sizes |= zip(unknown, self.each(self.nbytes, unknown))  # over https: pages of links
        return {name: size or 0 for name, size in sizes.items()}

    @contextmanager
    def _call(self, name: str = "") -> Iterator[tuple[Any, str]]:
        """The filesystem, and the path of a file or of the directory in it.

        Every error inside the context becomes an OSError without secrets.
        """
        try:
            fs, path = self._filesystem()
            yield fs, f"{path}/{name}{self._query}" if name else path
        except SettingsError:
            raise
        except Exception as exc:  # anything: from fsspec, botocore, aiohttp…
            text, clean = self._without_secrets(exc)
            raise _kind(exc)(text) from (exc if clean else None)

    def _filesystem(self) -> tuple[Any, str]:
        # No filesystem survives a fork.
        if self._connection is None or self._connection[0] != os.getpid():
            try:
                from fsspec.core import url_to_fs  # type: ignore[import-untyped]
            except ImportError as exc:
                raise self._missing("fsspec is not installed") from exc
            try:
                fs, path = url_to_fs(self._url, **self._options)
            except ImportError as exc:
                raise self._missing(str(exc)) from exc
            except (ValueError, TypeError) as exc:
                text, clean = self._without_secrets(exc)
                cause = exc if clean else None
                raise SettingsError(f"{self.where}: cannot be opened: {text}") from cause
            self._connection = os.getpid(), fs, path.rstrip("/")
        return self._connection[1:]

    def _missing(self, why: str) -> SettingsError:
        packages = PACKAGES.get(self.protocol, "fsspec and the package it asks for")
        return SettingsError(f"{self.where}: {why}; pip install {packages}")

    def _without_secrets(self, exc: Exception) -> tuple[str, bool]:
        """An error's message without secrets, and whether it had none."""
        text = _QUERY.sub("?…", str(exc))  # a library may have quoted it in its own way
        for secret in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(secret, "…")
        clean = text == str(exc)
        if not isinstance(exc, OSError) or not text:
            text = f"{type(exc).__name__}: {text}" if text else type(exc).__name__
        return (text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"), clean


def _ask(call: Callable[..., Any], *args: Any, nbytes: int | None = 0, **more: Any) -> Any:
    """What a method of a file system returns. Raises TimeoutError if nobody answers in time.

    nbytes: that the request carries. If they are unknown, only the library's own limits hold, as in
    a file system that is not asynchronous.
    """
    if nbytes is None or not inspect.iscoroutinefunction(inspect.unwrap(call)):
        return call(*args, **more)
    begin = time.monotonic()
    try:
        return call(*args, timeout=PATIENCE + nbytes / SLOWEST, **more)
    except TimeoutError as exc:  # the library's own limit may be less
        raise TimeoutError(f"no answer for {time.monotonic() - begin:.0f} s") from exc


class UnsupportedError(OSError):
    """The filesystem does not support this way of writing."""


def _kind(exc: Exception) -> type[OSError]:
    """The class that a library's error becomes."""
    if isinstance(exc, NotImplementedError | TypeError | ValueError):
        return UnsupportedError
    if isinstance(exc, OSError) and exc.errno == errno.ENOSYS:
        return UnsupportedError
    refused = isinstance(exc, OSError) and exc.errno == errno.EINVAL
    if refused and "condition" in str(exc).lower():  # from servers that do not name the condition
        return FileExistsError
    kinds = (FileNotFoundError, FileExistsError, PermissionError)
    return next((kind for kind in kinds if isinstance(exc, kind)), OSError)


def _values(query: str) -> Iterator[str]:
    """The values in a URL's query that may be secret."""
    for part in query.split("&"):
        value = part.partition("=")[2]
        if len(unquote(value)) > MAX_PLAIN:
            yield value


def _secrets(options: Mapping[str, Any], inside: bool = False) -> Iterator[str]:
    """The storage options whose names say that they may be secret."""
    for key, value in options.items():
        hidden = inside or SECRET.search(str(key).lower()) is not None
        if isinstance(value, Mapping):
            yield from _secrets(value, hidden)
        elif hidden and isinstance(value, str) and len(value) > MAX_PLAIN:
            yield value
