"""Where a chain lies: a directory or archive on this machine's disks, or anywhere that a URL says.

    run.lcc, /data/run.lcc, file:///data/run.lcc      here
    s3://bucket/run.lcc, gs://…, memory://…           through fsspec (remote, fencing)
    https://host/run.lcc, https://host/run.lcc.zip    the same, only to be read

Nobody else knows which of them it is: who reads gets a Source, who writes a Store.

Not done here: reading and writing (source, storage, remote, fencing).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.request import url2pathname

from codec.errors import SettingsError

from .directory import Directory, Store
from .lease import Fenced
from .remote import PACKAGES, READ_ONLY, WITHOUT_DIRECTORIES, Remote
from .source import Source, opened

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)  # C:/ is a drive
_CUT = re.compile("([A-Za-z0-9]+):")  # what is left of a scheme in a Path
_TWO = re.compile("[^/]+//")
_USER = re.compile(r"(:/{1,2})[^/]*@")
LOCAL = ("file", "local")
SCHEMES = {*LOCAL, *PACKAGES, *WITHOUT_DIRECTORIES}  # that nobody calls a directory


class Location:
    """A place for a chain; its text is fit for messages, without what a URL may have of secrets.

    path: a local path, or a URL as text. storage_options: what the URL's filesystem is to be told
    (fsspec's word for it); a local path needs none, and ignores them. Nothing is connected to yet.
    Raises SettingsError for what is neither, see `path_text`, and for a Path made of a URL.
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
        """The same, wherever the process goes from here."""
        if isinstance(self.path, Path):
            self.path = self.path.absolute()
        return self

    def source(self) -> Source:
        """To read from. Raises what `opened` does; SettingsError for URLs that nothing installed
        can open."""
        return opened(str(self.path)) if self.remote is None else self.remote.source()

    def store(self, *, takes_over: bool = False) -> Store:
        """To write to, made if it is missing. takes_over: from whoever may still write there,
        where no operating system knows whether he lives (see `Fenced`).

        Raises LockedError, WriteError; SettingsError for what can only be read.
        """
        if isinstance(self.path, Path):
            return Directory(self.path)
        assert self.remote is not None, "a URL"
        if self.remote.protocol in READ_ONLY or self.remote.is_archive:
            raise SettingsError(f"{self}: can only be read; a chain is written to a directory")
        return Fenced(self.remote, takes_over=takes_over)

    def told(self) -> list[Any]:
        """For another process: `Location(*told)` there is this one."""
        return [str(self.path), None if self.remote is None else dict(self._options)]


def source_of(
    source: str | os.PathLike[str] | IO[bytes] | Location,
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """A Source for all that a chain may be read from. Raises what `Location` and `source` do."""
    if isinstance(source, Location):
        return source.source()
    if not isinstance(source, str | os.PathLike) and hasattr(source, "read"):
        return opened(source)
    return Location(source, storage_options).source()  # type: ignore[arg-type]


def path_text(path: str | os.PathLike[str]) -> str:
    """A path or URL as text. Raises SettingsError for anything but a str or an os.PathLike of one,
    for an empty text, and for one that no file can have as its name."""
    if not isinstance(path, str | os.PathLike):
        raise SettingsError(f"a path is a str or an os.PathLike; got a {type(path).__name__}")
    try:
        text = os.fspath(path)
    except TypeError as exc:  # of an os.PathLike that gives neither
        raise SettingsError(f"a path is text; {exc}") from exc
    if not isinstance(text, str):
        raise SettingsError(f"a path is text; got {text!r}: decode it with os.fsdecode")
    if not text:
        raise SettingsError('a path is empty; the current directory is "."')
    if "\0" in text or not _is_encodable(text):
        raise SettingsError(f"{text!r}: a path is text that a file can have as its name; rename it")
    return text


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path on this machine. Raises SettingsError for a URL that leads elsewhere, and what
    `path_text` does."""
    location = Location(path)
    if not isinstance(location.path, Path):
        raise SettingsError(f"{location}: is a URL; this needs a path on this machine")
    return location.path


def fit_to_show(text: str) -> str:
    """What may be shown of a text that was meant as a URL and is none, or not one of a chain."""
    return _USER.sub(r"\1", text.partition("?")[0])


def _local(text: str) -> Path | str:
    """As a path; the text itself if it is a URL that leads elsewhere."""
    if not (found := _URL.fullmatch(text)):
        if "::" in text and "://" in text:
            raise SettingsError(f"{fit_to_show(text)}: one URL is taken, not a chain of several")
        first = Path(text).parts[:1]
        cut = first and _CUT.fullmatch(first[0])
        if cut and cut[1].lower() in SCHEMES and not Path(first[0]).exists():
            raise SettingsError(
                f"{fit_to_show(text)}: give a URL as text, scheme://…: a Path drops one of its "
                "slashes"
            )
        return Path(text)
    scheme, rest = found[1].lower(), found[2]
    if scheme not in LOCAL:
        if not rest.strip("/") or "::" in rest:
            raise SettingsError(f"{scheme}://: needs the place of one chain after it")
        if scheme in WITHOUT_DIRECTORIES and _TWO.match(rest):
            raise SettingsError(
                f"{fit_to_show(text)}: has two slashes after the bucket: what is put there is not "
                "found when it is listed (of S3, for one); leave one out"
            )
        return f"{scheme}://{rest}"
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise SettingsError(
            f"{fit_to_show(text)}: a file of another machine; file:///… is one of this machine"
        )
    return Path(url2pathname(slash + path))


def _is_encodable(text: str) -> bool:
    """Whether it can be a name of a file. One that is not UTF-8 has surrogates from U+DC80 on, as
    os.fsdecode gives them; others stand for nothing."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
