"""The files of a chain and their names: in a directory, in a .lcc.zip, or behind a URL."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from codec.errors import ArchiveError, ChainError, ChainNotFoundError

from .entry import Entry, entry_of
from .folder import Disk, Span, spanned

RETRIES = 100  # of a reader, while another process compacts

# What zipfile raises on damaged or forged archives: encrypted members are RuntimeErrors,
# newer zip versions NotImplementedErrors, offsets beyond the file any of the others.
_ZIP_ERRORS = (zipfile.BadZipFile, EOFError, OverflowError, RuntimeError, ValueError, struct.error)
_BEGIN, _END = b"PK\3\4", b"PK\5\6"  # of a zip: its first bytes, and how its last part begins
_END_NBYTES = 22  # of that last part, without a comment
_LONGEST_END = _END_NBYTES + 2**16 - 1  # with the longest comment


def _nothing_ahead(_names: Iterable[str]) -> None:
    """Read nothing ahead."""


@dataclass(frozen=True)
class Source:
    """How to list and read the records at a place.

    where: its name in messages. sizes: lists names and bytes; raises ChainError. read: reads one
    record by name; raises OSError, or ArchiveError for a damaged member. read_spans: reads parts
    of one, each from its first byte to its end; raises the same. expect: announces the names that
    `read` will get next, in this order, so that a remote source can read ahead. is_remote: whether
    reading waits for a network, and may be done in several threads. entry: the record that a name
    and its bytes stand for.
    """

    where: str
    sizes: Callable[[], dict[str, int]]
    read: Callable[[str], bytes]
    read_spans: Callable[[str, Sequence[Span]], list[bytes]]
    expect: Callable[[Iterable[str]], None] = _nothing_ahead
    is_remote: bool = False
    entry: Callable[[str, int], Entry | None] = entry_of


def open_source(source: str | Path | IO[bytes]) -> Source:
    """Open a directory, an archive, or an archive that is an open binary file.

    Raises ChainNotFoundError if nothing is there, ArchiveError for a broken archive, ChainError if
    the disk cannot be read.
    """
    where = "the archive" if hasattr(source, "read") else str(source)
    mode = stat.S_IFREG if hasattr(source, "read") else _mode(where)
    if stat.S_ISREG(mode):
        return open_archive(source, where)
    if stat.S_ISDIR(mode):
        disk = Disk(Path(where))
        reading = disk.read_whole, disk.read_spans
        return Source(where, lambda: _list_directory(disk.path), *reading)
    raise ChainNotFoundError(f"{where}: there is no chain directory or .lcc.zip there")


def open_archive(source: str | Path | IO[bytes], where: str) -> Source:
    """The members of an archive. where: its name in messages. Raises ArchiveError."""
    try:
        archive = zipfile.ZipFile(source)
    except (*_ZIP_ERRORS, OSError) as exc:
        raise ArchiveError(f"{where}: {_describe_no_archive(source, exc)}") from exc
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if len(sizes) != len(archive.infolist()):
        raise ArchiveError(f"{where}: two members have the same name")
    for info in archive.infolist():
        stored = info.compress_type == zipfile.ZIP_STORED
        hides = info.comment or b"PK\1\2" in info.extra  # a damaged length hides members
        if not entry_of(info.orig_filename, 0) or not stored or hides:
            raise ArchiveError(
                f"{where}: member {info.orig_filename[:80]!r} is not a stored record; a .lcc.zip "
                "holds only uncompressed files like 00000000.base.safetensors"
            )

    def read(name: str) -> bytes:
        try:
            return archive.read(name)
        except _ZIP_ERRORS as exc:
            raise ArchiveError(f"{where}: member {name} is damaged: {exc}") from exc

    def read_spans(name: str, spans: Sequence[Span]) -> list[bytes]:
        try:
            with archive.open(name) as member:
                return [spanned(member, span) for span in spans]
        except _ZIP_ERRORS as exc:
            raise ArchiveError(f"{where}: member {name} is damaged: {exc}") from exc

    return Source(where, sizes.copy, read, read_spans)


def _describe_no_archive(source: str | Path | IO[bytes], error: Exception) -> str:
    """Why a file is no archive: it ends too early, is damaged, or is something else.

    error: what zipfile raised.
    """
    with suppress(OSError), _file_of(source) as file:
        nbytes = file.seek(0, os.SEEK_END)
        tail = spanned(file, (max(0, nbytes - _LONGEST_END), nbytes))
        has_end = 0 <= tail.rfind(_END) <= len(tail) - _END_NBYTES
        if not nbytes:
            return "is empty; copy or download it again"
        if _BEGIN.startswith(spanned(file, (0, len(_BEGIN)))) and not has_end:
            return (
                f"ends too early, after {nbytes:,} bytes: it begins as a .lcc.zip, but the list of "
                "records at its end is missing; copy or download it again"
            )
    return f"is not a readable .lcc.zip: {error}"


def _file_of(source: str | Path | IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """A file, open until the context ends; one that is open already stays so."""
    return open(source, "rb") if isinstance(source, str | Path) else nullcontext(source)


def without_records(where: str) -> str:
    """The message about a place that holds no records."""
    with suppress(OSError):  # after it, the message is the general one
        path = Path(where)
        if any(itertools.chain(path.glob("*.metadata"), path.glob("*/*.metadata"))):
            return (
                f"{where}: is a distributed checkpoint, or holds some; load a step's directory "
                "through torch.distributed.checkpoint, with codec.dcp.ChainReader if "
                "codec.dcp.ChainWriter wrote it, else with PyTorch's own reader. On the command "
                "line, name the step's directory for info, verify and restore, and the directory "
                "of the steps for compact"
            )
    return f"{where}: holds no records (files like 00000000.base.safetensors)"


def _mode(path: str) -> int:
    """Mode of a file or directory, 0 if it does not exist."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return 0
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            return 0
        raise ChainError(f"{path}: cannot be read: {exc}") from exc


def _list_directory(path: Path) -> dict[str, int]:
    """Names and bytes of the files that are named like records.

    A listing may lack a file that appears meanwhile, and hold a later one: it is repeated until
    two in a row hold the same names.
    """
    sizes: dict[str, int] = {}
    try:
        files = _record_files(path)
        for _ in range(RETRIES):
            sizes = {}
            for file in files:
                with suppress(FileNotFoundError):
                    sizes[file.name] = file.stat().st_size
            before, files = files, _record_files(path)
            if {file.name for file in files} == {file.name for file in before}:
                break
    except OSError as exc:
        raise ChainError(f"{path}: cannot be listed: {exc}") from exc
    return sizes


def _record_files(path: Path) -> list[os.DirEntry[str]]:
    with os.scandir(path) as files:
        return [file for file in files if entry_of(file.name, 0)]
