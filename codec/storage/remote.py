"""Records where a URL says: listed, read, put and deleted through fsspec.

fsspec is imported once a URL is used. Whatever it and the libraries below it raise becomes an
OSError here, its text without what may be secret; they retry what is worth it. Listings that they
keep are thrown away before each look: others write there too.

Not done here: who may write, and what is known of a put that failed (fencing).
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

from codec.errors import ChainError, ChainNotFoundError, SettingsError

from .read_ahead import THREADS, Ahead
from .source import RETRIES, Source, archived, entry_of

READ_ONLY = ("http", "https")
PAGE = 1000  # names that S3 tells at once; more of them are not of one moment
SMALL = 32 * 2**20  # bytes, up to which an object is read by one request
SECRET = re.compile("key|secret|token|pass|user|auth|cred|cert|sas|header|cookie|connection")
_USER = re.compile("[^/]*//([^/]*)@")
_TOLD_QUERY = re.compile(r"\?[^\s?'\"=]+=[^\s'\"]*")
MOST_PLAIN = 3  # characters that are no secret, and stand in many other words
MOST_TEXT = 300  # characters of somebody else's error
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


class Remote:
    """A directory in a filesystem of fsspec's; names are of the files in it.

    where: the URL for messages. Methods raise OSError for all that goes wrong, FileNotFoundError
    and FileExistsError where that is known; SettingsError if what the URL needs is not installed.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.protocol = url.partition("://")[0]
        place, mark, query = url.partition("?") if self.protocol in READ_ONLY else (url, "", "")
        self._url, self._options, self._query = place, options, mark + query
        found = _USER.match(place)
        user = found[1] if found else ""
        self.where = place.replace(f"{user}@", "", 1).rstrip("/")
        told = {user, user.partition(":")[2], query, *_values(query)}
        self._hidden = told | set(map(unquote, told)) | set(_secrets(options))
        self._hidden -= {""}
        self._sizes: dict[str, int] = {}
        self._known: tuple[int, Any, str] | None = None

    @property
    def is_archive(self) -> bool:
        """Whether the URL is that of a file to be read, not of a directory: its name says so."""
        return self.where.endswith(".zip")

    @property
    def listed(self) -> frozenset[str]:
        """Names of the records that the newest look has found."""
        return frozenset(self._sizes)

    def source(self) -> Source:
        """To read records from. Raises ChainNotFoundError, ArchiveError, ChainError."""
        if not self.is_archive:
            ahead = Ahead(self.read_listed)
            return Source(self.where, self.sizes, ahead.read, ahead.expect)
        handle, name = tempfile.mkstemp(suffix=".lcc.zip")
        try:
            os.close(handle)
            with self._foreign() as (fs, path):
                fs.get_file(path + self._query, name)
            return archived(name, self.where)
        except FileNotFoundError as exc:
            raise ChainNotFoundError(f"{self.where}: there is no .lcc.zip there: {exc}") from exc
        except OSError as exc:
            raise ChainError(f"{self.where}: cannot be read: {exc}") from exc
        finally:
            with suppress(OSError):  # what is open stays so where names can go
                os.unlink(name)

    def sizes(self) -> dict[str, int]:
        """Name -> bytes of the records there. Raises ChainNotFoundError, ChainError.

        Where it takes several requests, it is repeated until nothing has changed meanwhile.
        """
        try:
            found = self._look()
            for _ in range(RETRIES if len(found) >= PAGE else 0):
                before, found = found, self._look()
                if before == found:
                    break
        except FileNotFoundError as exc:
            raise ChainNotFoundError(f"{self.where}: there is no chain there") from exc
        except OSError as exc:
            raise ChainError(f"{self.where}: cannot be listed: {exc}") from exc
        self._sizes = found
        return found

    def read_listed(self, name: str) -> bytes:
        """A record's bytes. One of modest size, as it was listed, takes one request."""
        nbytes = self._sizes.get(name, 0)
        data = self.read(name, nbytes)
        if len(data) < nbytes:
            self._check_whole(name, data)
        return data

    def read_whole(self, name: str) -> bytes:
        """A file's bytes, as many as the store says that it has."""
        data = self.read(name)
        self._check_whole(name, data)
        return data

    def _check_whole(self, name: str, data: bytes) -> None:
        """What is cut short on its way is not damaged where it lies."""
        nbytes = self.nbytes(name) or 0
        if len(data) < nbytes:
            raise OSError(f"only {len(data)} of its {nbytes} bytes have come")

    def read(self, name: str, nbytes: int = 0) -> bytes:
        """A file's bytes. nbytes: about how many, 0 if that is not known."""
        with self._foreign(name) as (fs, path):
            # s3fs asks for the size before it reads the whole of something.
            limits = {"start": 0} if 0 < nbytes <= SMALL else {}
            return bytes(fs.cat_file(path, **limits))

    def put(self, name: str, data: bytes) -> None:
        """Write a file, also in the place of another."""
        with self._foreign(name) as (fs, path):
            fs.pipe_file(path, data)

    def create(self, name: str, data: bytes, *, conditional: bool) -> None:
        """Write a file that is not there yet. conditional: the store refuses if it is, else it is
        looked for before."""
        with self._foreign(name) as (fs, path):
            if conditional:
                fs.pipe_file(path, data, mode="create")
                return
            fs.invalidate_cache(path)
            with suppress(FileNotFoundError):  # not exists, which takes any error for a no
                fs.info(path)
                raise FileExistsError("is there already")
            fs.pipe_file(path, data)

    def nbytes(self, name: str) -> int | None:
        """A file's size; None if the filesystem does not know."""
        with self._foreign(name) as (fs, path):
            fs.invalidate_cache(path)
            size = fs.info(path).get("size")
            return None if size is None else int(size)

    def remove(self, name: str) -> None:
        """Delete a file. Of one that is not there, not every store says so."""
        with self._foreign(name) as (fs, path):
            fs.rm_file(path)

    def make(self) -> None:
        """The directory, where there is such a thing."""
        with self._foreign() as (fs, path):
            if self.protocol not in WITHOUT_DIRECTORIES:
                fs.makedirs(path, exist_ok=True)

    def _look(self) -> dict[str, int]:
        with self._foreign() as (fs, path):
            fs.invalidate_cache(path)
            found: dict[str, int | None] = {}
            for item in fs.ls(path + self._query, detail=True):
                name = item["name"].rpartition("/")[2].partition("?")[0]
                if item["type"] == "file" and entry_of(name, 0):
                    found[name] = item.get("size")
        unknown = [name for name, size in found.items() if size is None]
        if unknown:  # of https, whose listings are pages of links
            with ThreadPoolExecutor(THREADS) as pool:
                found |= zip(unknown, pool.map(self.nbytes, unknown))
        return {name: size or 0 for name, size in found.items()}

    @contextmanager
    def _foreign(self, name: str = "") -> Iterator[tuple[Any, str]]:
        """The filesystem and the path in it of a file, of the directory without a name."""
        try:
            fs, path = self._filesystem()
            yield fs, f"{path}/{name}{self._query}" if name else path
        except SettingsError:
            raise
        except Exception as exc:  # anything: of fsspec, botocore, aiohttp…
            said, clean = self._said(exc)
            raise _kind(exc)(said) from (exc if clean else None)

    def _filesystem(self) -> tuple[Any, str]:
        if self._known is None or self._known[0] != os.getpid():  # none of them survives a fork
            try:
                from fsspec.core import url_to_fs  # type: ignore[import-untyped]
            except ImportError as exc:
                raise self._missing("fsspec is not installed") from exc
            try:
                fs, path = url_to_fs(self._url, **self._options)
            except ImportError as exc:
                raise self._missing(str(exc)) from exc
            except (ValueError, TypeError) as exc:
                said, clean = self._said(exc)
                text = f"{self.where}: cannot be opened: {said}"
                raise SettingsError(text) from (exc if clean else None)
            self._known = os.getpid(), fs, path.rstrip("/")
        return self._known[1:]

    def _missing(self, why: str) -> SettingsError:
        packages = PACKAGES.get(self.protocol, "fsspec and what it asks for")
        return SettingsError(f"{self.where}: {why}; pip install {packages}")

    def _said(self, exc: Exception) -> tuple[str, bool]:
        """What an error says, and whether nothing in it was to be hidden."""
        text = str(exc)
        said = _TOLD_QUERY.sub("?…", text)  # others may have spelled it in their own way
        for secret in sorted(self._hidden, key=len, reverse=True):
            said = said.replace(secret, "…")
        clean = said == text
        if not isinstance(exc, OSError) or not said:
            said = f"{type(exc).__name__}: {said}" if said else type(exc).__name__
        return (said if len(said) <= MOST_TEXT else said[:MOST_TEXT] + "…"), clean


class UnsupportedError(OSError):
    """The filesystem does not know this way of writing."""


def _kind(exc: Exception) -> type[OSError]:
    """What somebody else's error becomes."""
    if isinstance(exc, NotImplementedError | TypeError | ValueError):
        return UnsupportedError
    if isinstance(exc, OSError) and exc.errno == errno.ENOSYS:
        return UnsupportedError
    refused = isinstance(exc, OSError) and exc.errno == errno.EINVAL
    if refused and "condition" in str(exc).lower():  # of servers that do not say which one
        return FileExistsError
    kinds = (FileNotFoundError, FileExistsError, PermissionError)
    return next((kind for kind in kinds if isinstance(exc, kind)), OSError)


def _values(query: str) -> Iterator[str]:
    """Of a URL's query."""
    for part in query.split("&"):
        value = part.partition("=")[2]
        if len(unquote(value)) > MOST_PLAIN:
            yield value


def _secrets(options: Mapping[str, Any], inside: bool = False) -> Iterator[str]:
    """Texts among storage options that may be secret: their names say so."""
    for key, value in options.items():
        hidden = inside or SECRET.search(str(key).lower()) is not None
        if isinstance(value, Mapping):
            yield from _secrets(value, hidden)
        elif hidden and isinstance(value, str) and len(value) > MOST_PLAIN:
            yield value
