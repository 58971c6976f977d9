"""A chain: a directory (or .lcc.zip) of immutable records, each naming its predecessor.

    run.lcc/
      00000000.base.safetensors      the exact track
      00000010.delta.safetensors     one step, parent = digest of the record before
    run.lcc.zip                      the same files, stored, for export

Not done here: deciding what to save (checkpointer), writing files (storage), the bytes of a
record (record).
"""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import record as records
from .errors import (
    ArchiveError,
    ChainError,
    ChainNotFoundError,
    MalformedRecordError,
    ParentError,
    RecordError,
    SkippedRecordWarning,
    StepNotFoundError,
)
from .record import Record
from .state import Arrays, Layout, from_arrays
from .storage import publish
from .tables import CodeTable
from .track import Step
from .tree import Parts, put_together

# Eight digits, more only where needed: one name a step. Not \d, which matches any script's.
_NAME = re.compile(r"([0-9]{8}|[1-9][0-9]{8,18})\.(base|delta)\.safetensors")

# What zipfile raises on damaged or forged archives: encrypted members are RuntimeErrors,
# newer zip versions NotImplementedErrors, offsets beyond the file any of the others.
_ZIP_ERRORS = (
    zipfile.BadZipFile, EOFError, OverflowError, RuntimeError, ValueError, struct.error
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A record's place in the chain: its step, kind, file name and size in bytes."""

    step: int
    kind: str
    name: str
    nbytes: int


@dataclass(frozen=True)
class Position:
    """A point of the chain while it is replayed.

    state is the live, writable track: valid until the replay goes on, and so are sums, the
    digests of its lossy tensors, and tables, the code tables sent last, by alphabet. values:
    what is no tensor, see tree. delta is None on a base.
    """

    entry: Entry
    record: Record
    layout: Layout
    state: Arrays
    sums: Mapping[str, int]
    tables: Mapping[str, CodeTable]
    values: tuple[str, ...]
    delta: Step | None

    def whole(self) -> dict[Any, Any]:
        """The state as it was saved: nested, in its own libraries and dtypes; all of it fresh.

        Raises DTypeError if a tensor came from torch and torch is not installed.
        """
        tensors = from_arrays(self.state, self.layout)
        return put_together(Parts(self.layout.structure, tensors, self.values))


@dataclass(frozen=True)
class Report:
    """What `verify` found: restorable steps and, as sentences, everything that is wrong."""

    steps: tuple[int, ...]
    problems: tuple[str, ...]
    nbytes: int

    @property
    def ok(self) -> bool:
        """True if every record is intact and restores."""
        return not self.problems


class Chain:
    """Read access to a chain directory or archive.

    source: path of a run.lcc directory or .lcc.zip, or an archive as an open binary file.
    Raises ChainNotFoundError if nothing is there, ArchiveError for a broken archive,
    ChainError if the directory cannot be listed.
    """

    def __init__(self, source: str | Path | IO[bytes]) -> None:
        self.where = "the archive" if hasattr(source, "read") else str(source)
        self._read: Callable[[str], bytes]
        mode = stat.S_IFREG if hasattr(source, "read") else _mode(str(source))
        if stat.S_ISREG(mode):
            archive = _open_archive(source, self.where)
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            self._read = lambda name: _read_member(archive, name, self.where)
        elif stat.S_ISDIR(mode):
            directory = Path(self.where)
            sizes = _list_directory(directory)
            self._read = lambda name: _read_file(directory / name)
        else:
            raise ChainNotFoundError(f"{self.where}: there is no chain directory or .lcc.zip there")
        found = [(m, n) for name, n in sizes.items() if (m := _NAME.fullmatch(name))]
        entries = (Entry(int(m[1]), m[2], m[0], n) for m, n in found)
        self.entries = tuple(sorted(entries, key=lambda e: (e.step, e.kind)))
        if not self.entries:
            raise ChainNotFoundError(
                f"{self.where}: holds no records (files like 00000000.base.safetensors)"
            )

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps that have a record, rising."""
        return tuple(dict.fromkeys(e.step for e in self.entries))

    @property
    def nbytes(self) -> int:
        """Bytes of all records on disk."""
        return sum(e.nbytes for e in self.entries)

    def read(self, entry: Entry) -> Record:
        """One record, its bytes checked.

        Raises RecordError; ArchiveError for a damaged member, ChainError on failing disks.
        """
        try:
            data = self._read(entry.name)
        except (OSError, MemoryError) as exc:
            raise ChainError(f"{self.where}/{entry.name}: cannot be read: {exc}") from exc
        record = records.load(data, entry.name)
        if (record.step, record.kind) != (entry.step, entry.kind):
            found = f"{record.kind} of step {record.step}"
            raise MalformedRecordError(entry.name, f"{entry.kind} of step {entry.step}", found)
        return record

    def replay(self, step: int | None = None) -> Iterator[Position]:
        """Rebuild the track record by record, from the last base at or before ``step``.

        step: the one to end at, None for the newest. Every digest is checked on the way.
        Raises StepNotFoundError, ParentError, RecordError, and what `read` does; what was
        yielded before stands.
        """
        if step is not None and step not in self.steps:
            raise StepNotFoundError(f"{self.where}: no record of step {step}; {self._range()}")
        path = [e for e in self.entries if step is None or e.step <= step]
        bases = [i for i, e in enumerate(path) if e.kind == "base"]
        if not bases:
            raise ParentError(f"{self.where}: no base record at or before step {path[-1].step}")
        walk = _Walk()
        first = path[bases[-1]]
        for entry in path[bases[-1] :]:
            if entry is first or entry.step > first.step:  # a delta beside a base is nobody's
                yield walk.advance(entry, self.read(entry))

    def restore(self, step: int | None = None) -> dict[Any, Any]:
        """The state of ``step``, or the newest restorable one: see `restore`."""
        position = None
        replay = self.replay(step)
        try:
            while (reached := next(replay, None)) is not None:
                position = reached
        except (RecordError, ChainError) as exc:
            if step is not None:
                raise
            good = position.entry.step if position else None
            if good is None:  # the newest base is unusable: what stands before it?
                report = self.verify()
                if not report.steps:
                    raise
                good = report.steps[-1]
            self._warn_skipped(good, exc)
            return self.restore(good)  # from the start: a record may have failed half-way
        assert position is not None, "replay yields or raises"
        records.check_whole(position.entry.name, position.layout, position.state, position.sums)
        return position.whole()

    def verify(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Read and replay every record. progress(done, total) is called after each."""
        steps: list[int] = []
        problems: list[str] = []
        walk = _Walk()
        for done, entry in enumerate(self.entries, 1):
            try:
                record = self.read(entry)
                if steps[-1:] != [entry.step]:  # a delta beside a base is nobody's
                    walk.advance(entry, record)
                    steps.append(entry.step)
            except (RecordError, ChainError) as exc:
                problems.append(str(exc))
            if progress:
                progress(done, len(self.entries))
        if walk.layout is not None:
            try:
                records.check_whole(self.where, walk.layout, walk.state, walk.sums)
            except RecordError as exc:
                problems.append(str(exc))
        return Report(tuple(dict.fromkeys(steps)), tuple(problems), self.nbytes)

    def pack(self, path: str | Path) -> int:
        """Write all records into one archive of stored members; returns its bytes.

        The same records give the same bytes. Raises WriteError, ChainError.
        """

        nbytes = 0

        def write(file: IO[bytes]) -> None:
            nonlocal nbytes
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for entry in self.entries:
                    archive.writestr(zipfile.ZipInfo(entry.name), self._read(entry.name))
            nbytes = file.tell()

        publish(Path(path), write, overwrite=True)
        return nbytes

    def _range(self) -> str:
        steps = self.steps
        return f"it has {len(steps)} steps from {steps[0]} to {steps[-1]}"

    def _warn_skipped(self, step: int, reason: Exception) -> None:
        message = f"{self.where}: restored step {step} instead of {self.steps[-1]}: {reason}"
        warnings.warn(message, SkippedRecordWarning, stacklevel=4)


class _Walk:
    """The track while records are applied one after another.

    sums: digests of its lossy tensors, which follow the changes. tables: code tables last sent.
    """

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.state: Arrays = {}
        self.sums: dict[str, int] = {}
        self.tables: dict[str, CodeTable] = {}
        self.values: tuple[str, ...] = ()
        self.run: str | None = None
        self.digest: str | None = None

    def advance(self, entry: Entry, record: Record) -> Position:
        """Apply one record; a failing one leaves the walk where it was."""
        delta = None
        if record.run != (self.run or record.run):
            raise ParentError(
                f"{entry.name}: is of the run {record.run}, the records before it are of {self.run}"
            )
        if record.kind == "base":
            self.layout, self.state, self.sums, self.values = records.base_of(record)
            self.tables = {}
        else:
            if self.layout is None or record.parent != self.digest:
                last = f"has digest {self.digest}" if self.layout else "does not exist"
                raise ParentError(
                    f"{entry.name}: its parent, digest {record.parent}, is missing or damaged; "
                    f"the usable record before it {last}"
                )
            delta = records.delta_of(record, self.layout, self.tables)
            try:
                self.sums, self.values = records.apply_checked(
                    record, self.layout, delta, self.state, self.sums, self.values
                )
            except RecordError:
                self.layout = None  # the state is no longer the parent's
                raise
            self.tables |= delta.tables
        self.run, self.digest = record.run, record.digest
        return Position(
            entry, record, self.layout, self.state, self.sums, self.tables, self.values, delta
        )


def restore(source: str | Path | IO[bytes], step: int | None = None) -> dict[Any, Any]:
    """The state saved at ``step``, or the newest one that can be restored.

    Returns it as it was saved: same nesting, libraries, dtypes and shapes; tensors that were one
    are one again. With step=None a damaged newer record is passed over with SkippedRecordWarning.
    Raises ChainNotFoundError, StepNotFoundError, ParentError, RecordError, ArchiveError;
    ChainError if the disk cannot be read, DTypeError for torch tensors without torch.
    """
    return Chain(source).restore(step)


def verify(
    source: str | Path | IO[bytes], progress: Callable[[int, int], None] | None = None
) -> Report:
    """Check every record of a chain: bytes, parents, streams and the rebuilt tracks.

    progress(records done, records in all) is called after each. Raises ChainNotFoundError
    or ArchiveError; whatever is wrong with single records is in the report.
    """
    return Chain(source).verify(progress)


def record_name(step: int, kind: str) -> str:
    """File name of a record."""
    return f"{step:08d}.{kind}.safetensors"


def _mode(path: str) -> int:
    """Of a file or directory, 0 if there is none."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return 0
    except OSError as exc:
        if exc.errno == errno.ENAMETOOLONG:
            return 0
        raise ChainError(f"{path}: cannot be read: {exc}") from exc


def _list_directory(path: Path) -> dict[str, int]:
    """Name -> bytes of the files that are named like records; all others are ignored."""
    try:
        found = [p for p in path.iterdir() if _NAME.fullmatch(p.name)]
        return {p.name: p.stat().st_size for p in found}
    except OSError as exc:
        raise ChainError(f"{path}: cannot be listed: {exc}") from exc


def _read_file(path: Path) -> bytes:
    """Raises OSError for what is no file: a pipe would keep its reader waiting."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "is no regular file")
    return path.read_bytes()


def _open_archive(source: str | Path | IO[bytes], where: str) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(source)
    except (*_ZIP_ERRORS, OSError) as exc:
        raise ArchiveError(f"{where}: is not a readable .lcc.zip: {exc}") from exc
    names = [info.filename for info in archive.infolist()]
    if len(set(names)) != len(names):
        raise ArchiveError(f"{where}: two members have the same name")
    for info in archive.infolist():
        stored = info.compress_type == zipfile.ZIP_STORED
        hides = info.comment or b"PK\1\2" in info.extra  # a damaged length takes in what follows
        if not _NAME.fullmatch(info.orig_filename) or not stored or hides:
            raise ArchiveError(
                f"{where}: member {info.orig_filename[:80]!r} is not a stored record; a .lcc.zip "
                "holds only uncompressed files like 00000000.base.safetensors"
            )
    return archive


def _read_member(archive: zipfile.ZipFile, name: str, where: str) -> bytes:
    try:
        return archive.read(name)
    except _ZIP_ERRORS as exc:
        raise ArchiveError(f"{where}: member {name} is damaged: {exc}") from exc
