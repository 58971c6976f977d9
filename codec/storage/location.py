"""Where a chain lies: on this machine's disks, or behind a URL.

    run.lcc, /data/run.lcc, file:///data/run.lcc      a local directory or archive
    s3://bucket/run.lcc, gs://…, memory://…           through fsspec (remote, lease)
    https://host/run.lcc, https://host/run.lcc.zip    the same, read-only

Other modules need not know which of these it is: readers get a Source, writers a Store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from codec.errors import SettingsError

from .directory import Directory, Store
from .folder import Disk, Folder
from .lease import LeasedStore
from .remote import PACKAGES, READ_ONLY, WITHOUT_DIRECTORIES, Remote
from .source import Source, open_source

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)  # C:/ is a drive
_SCHEME = re.compile(r"([A-Za-z0-9]+):(?=[/\\]|$)")  # how a Path that was made of a URL begins
_TWO_SLASHES = re.compile("[^/]+//")
_USER = re.compile(r"(:/{1,2})[^/]*@")
LOCAL = ("file", "local")
SCHEMES = {*LOCAL, *PACKAGES, *WITHOUT_DIRECTORIES}


class Location:
    """A place for a chain. Its str() is fit for messages: it has none of a URL's secrets.

    Args:
        path: A local path, or a URL as text. Nothing is connected to yet.
        storage_options: fsspec's options for the URL's filesystem; ignored for a local path.

    Raises:
        SettingsError: Neither a path nor a URL, see `path_text`, or a Path made of a URL.
    """

    def __init__(
        self, path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> None:
        options = {} if storage_options is None else storage_options
        if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
            raise SettingsError("storage_options are a mapping from names to values")
        self.remote: Remote | None = None
        self.path: Path | str = _local(path_text(path))
        if isinstance(self.path, str):
            self.remote = Remote(self.path, dict(options))
        self._options = options

    def __str__(self) -> str:
        return str(self.path) if self.remote is None else self.remote.where

    def absolute(self) -> Location:
        """The same place, also after the process changes its directory."""
        if isinstance(self.path, Path):
            self.path = self.path.absolute()
        return self

    def source(self) -> Source:
        """Open it for reading. Raises what `open_source` raises; SettingsError for a URL that no
        installed package can open."""
        return open_source(str(self.path)) if self.remote is None else self.remote.source()

    def store(self, *, takes_over: bool = False) -> Store:
        """Open it for writing; made if missing.

        takes_over: take the chain over from an earlier writer of an object store, see
        `LeasedStore`. Raises LockedError, WriteError; SettingsError for a read-only place.
        """
        if isinstance(self.path, Path):
            return Directory(self.path)
        assert self.remote is not None, "a URL"
        if self.remote.protocol in READ_ONLY or self.remote.is_archive:
            raise SettingsError(f"{self}: can only be read; a chain is written to a directory")
        return LeasedStore(self.remote, takes_over=takes_over)

    def folder(self) -> Folder:
        """Its files, for many writers. Links to a local directory are resolved."""
        return Disk(Path(os.path.realpath(self.path))) if self.remote is None else self.remote

    def arguments(self) -> list[Any]:
        """The arguments with which another process makes the same Location."""
        return [str(self.path), None if self.remote is None else dict(self._options)]


def source_of(
    source: str | os.PathLike[str] | IO[bytes] | Location | Source,
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Open any path, URL or binary file that a chain may be read from; a Source is open already.

    Raises what `Location` and `Location.source` raise.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, Location):
        return source.source()
    if not isinstance(source, str | os.PathLike) and hasattr(source, "read"):
        return open_source(source)
    return Location(source, storage_options).source()  # type: ignore[arg-type]


def path_text(path: str | os.PathLike[str]) -> str:
    """A path or URL as text.

    Raises SettingsError unless it is a str or an os.PathLike of a str, not empty, and a possible
    file name.
    """
    if not isinstance(path, str | os.PathLike):
        raise SettingsError(f"a path is a str or an os.PathLike; got a {type(path).__name__}")
    try:
        text = os.fspath(path)
    except TypeError as exc:  # an os.PathLike of neither str nor bytes
        raise SettingsError(f"a path is text; {exc}") from exc
    if not isinstance(text, str):
        raise SettingsError(f"a path is text; got {text!r}: decode it with os.fsdecode")
    if not text:
        raise SettingsError('a path is empty; the current directory is "."')
    with suppress(UnicodeEncodeError):  # surrogates that os.fsdecode does not make
        if b"\0" not in os.fsencode(text):
            return text
    raise SettingsError(f"{text!r}: a path is text that can name a file; rename it")


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path on this machine. Raises SettingsError for a URL, and what `path_text` raises."""
    location = Location(path)
    if not isinstance(location.path, Path):
        raise SettingsError(f"{location}: is a URL; this needs a path on this machine")
    return location.path


def fit_to_show(text: str) -> str:
    """A text without the secrets that it would have as a URL."""
    return _USER.sub(r"\1", text.partition("?")[0])


def _local(text: str) -> Path | str:
    """A path; the text itself if it is a remote URL."""
    if not (url := _URL.fullmatch(text)):
        if "::" in text and "://" in text:
            raise SettingsError(f"{fit_to_show(text)}: give one URL, not a chain of several")
        scheme_part = _SCHEME.match(text)
        if scheme_part and scheme_part[1].lower() in SCHEMES and not Path(scheme_part[0]).exists():
            raise SettingsError(
                f"{fit_to_show(text)}: give a URL as text, scheme://…: a Path drops one of its "
                "slashes"
            )
        return Path(text)
    scheme, place = url[1].lower(), url[2]
    if scheme not in LOCAL:
        if not place.strip("/") or "::" in place:
            raise SettingsError(f"{scheme}://: needs the place of one chain after it")
        if scheme in WITHOUT_DIRECTORIES and _TWO_SLASHES.match(place):
            raise SettingsError(
                f"{fit_to_show(text)}: has two slashes after the bucket, and such files are "
                "missing from listings (on S3, for example); leave one out"
            )
        return f"{scheme}://{place}"
    host, slash, path = place.partition("/")
    if host not in ("", "localhost"):
        raise SettingsError(
            f"{fit_to_show(text)}: a file of another machine; give file:///… for this machine"
        )
    from urllib.request import url2pathname  # brings an HTTP client: slow to import

    return Path(url2pathname(slash + path))
