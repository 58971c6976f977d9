"""A chain: a directory (or .lcc.zip) of immutable records, each naming its predecessor.

    run.lcc/
      00000000.base.safetensors               the exact track
      00000010.delta.safetensors              one step, parent = identity of the record before
      00000020-00000090.merged.safetensors    several steps
    run.lcc.zip                               the same files, stored, for export

Not done here: deciding what to save (recorder), merging and removing (upkeep), writing files
(storage), the bytes of a record (record, merged).
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
from contextlib import suppress
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
    VanishedError,
)
from .merged import merged_of, steps_of
from .record import Record
from .state import Arrays, Layout, from_arrays
from .storage import publish
from .tables import CodeTable
from .track import Step
from .tree import Parts, put_together

# Eight digits, more only where needed: one name a step. Not \d, which matches any script's.
_STEP = "([0-9]{8}|[1-9][0-9]{8,18})"
_NAME = re.compile(rf"(?:{_STEP}-)?{_STEP}\.(base|delta|merged)\.safetensors")
RETRIES = 100  # of a reader, while somebody else merges or compacts

# What zipfile raises on damaged or forged archives: encrypted members are RuntimeErrors,
# newer zip versions NotImplementedErrors, offsets beyond the file any of the others.
_ZIP_ERRORS = (
    zipfile.BadZipFile, EOFError, OverflowError, RuntimeError, ValueError, struct.error
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A record's place in the chain: its (last) step, kind, file name and size in bytes.

    first: the first step of a merged record, elsewhere the only one.
    """

    step: int
    kind: str
    name: str
    nbytes: int
    first: int


@dataclass(frozen=True)
class Position:
    """A step of the chain while it is replayed.

    state is the live, writable track: valid until the replay goes on, and so are sums, the
    digests of its lossy tensors, and tables, the code tables sent last, by alphabet. values:
    what is no tensor, see tree. delta: what led here; None on a base and in a merged record.
    """

    step: int
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
        return whole(self.layout, self.state, self.values)


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
        self.failure: ChainError | None = None  # the last one of the disk itself
        self._read: Callable[[str], bytes]
        self._sizes: Callable[[], dict[str, int]]
        mode = stat.S_IFREG if hasattr(source, "read") else _mode(str(source))
        if stat.S_ISREG(mode):
            archive = _open_archive(source, self.where)
            self._sizes = lambda: {info.filename: info.file_size for info in archive.infolist()}
            self._read = lambda name: _read_member(archive, name, self.where)
        elif stat.S_ISDIR(mode):
            directory = Path(self.where)
            self._sizes = lambda: _list_directory(directory)
            self._read = lambda name: _read_file(directory / name)
        else:
            raise ChainNotFoundError(f"{self.where}: there is no chain directory or .lcc.zip there")
        self._list()

    def _list(self) -> None:
        found = (_entry(name, nbytes) for name, nbytes in self._sizes().items())
        # Where two tell of a step, the one that reaches further is tried first, a base last.
        order = sorted(
            (e for e in found if e), key=lambda e: (e.first, e.kind == "base", -e.step, e.kind)
        )
        self.entries = tuple(order)
        self._steps: tuple[int, ...] | None = None
        if not self.entries:
            raise ChainNotFoundError(
                f"{self.where}: holds no records (files like 00000000.base.safetensors)"
            )

    @property
    def _last(self) -> int:
        return max(e.step for e in self.entries)

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps that have a record, rising. Merged records are read to know theirs."""
        if self._steps is None:
            found = {e.step for e in self.entries} | {e.first for e in self.entries}
            for entry in self.entries:
                if entry.kind == "merged":
                    with suppress(RecordError, ChainError):
                        found.update(steps_of(self.read(entry)))
            self._steps = tuple(sorted(found))
        return self._steps

    @property
    def nbytes(self) -> int:
        """Bytes of all records on disk."""
        return sum(e.nbytes for e in self.entries)

    def read(self, entry: Entry) -> Record:
        """One record, its bytes checked.

        Raises RecordError; ArchiveError for a damaged member, VanishedError, ChainError on failing
        disks.
        """
        return self._checked(entry, self._bytes(entry))

    def read_bytes(self, entry: Entry) -> bytes:
        """A record's file, checked as in `read`."""
        data = self._bytes(entry)
        self._checked(entry, data)
        return data

    def _bytes(self, entry: Entry) -> bytes:
        try:
            return self._read(entry.name)
        except FileNotFoundError as exc:
            raise VanishedError(f"{self.where}/{entry.name}: is not there any more") from exc
        except (OSError, MemoryError) as exc:
            self.failure = ChainError(f"{self.where}/{entry.name}: cannot be read: {exc}")
            raise self.failure from exc

    def _checked(self, entry: Entry, data: bytes) -> Record:
        record = records.load(data, entry.name)
        first = steps_of(record)[0] if record.kind == "merged" else record.step
        if (record.step, record.kind, first) != (entry.step, entry.kind, entry.first):
            found = f"{record.kind} of step {record.step}"
            raise MalformedRecordError(entry.name, f"{entry.kind} of step {entry.step}", found)
        return record

    def replay(self, step: int | None = None) -> Iterator[Position]:
        """Rebuild the track step by step, from the last base at or before ``step``.

        step: the one to end at, None for the newest. Every digest is checked on the way.
        Raises StepNotFoundError, ParentError, RecordError, and what `read` does; what was
        yielded before stands.
        """
        walk = Walk()
        for entry in self._route(step, frozenset()):
            yield from walk.advance(entry, self.read(entry), step, every=True)

    def every_step(self) -> Iterator[Position]:
        """All steps from the first base on, each once. Raises what `replay` does."""
        walk = Walk()
        for entry in self.entries:
            if not walk.is_past(entry):
                known = walk.step
                for position in walk.advance(entry, self.read(entry), every=True):
                    if position.step != known:
                        yield position

    def at(self, step: int | None = None) -> Position:
        """The track at ``step``, or at the newest one, in as few passes over it as can be.

        A damaged record is passed over where others lead to the same step, with
        SkippedRecordWarning: an older base, or the deltas that a merged one replaces. Raises
        what `replay` does, for the first record that is damaged.
        """
        bad: frozenset[Entry] = frozenset()
        reason: Exception | None = None
        retries = RETRIES
        while True:
            walk, entry = Walk(), None
            try:
                for entry in self._route(step, bad):
                    for position in walk.advance(entry, self.read(entry), step):
                        reached = position
                assert entry is not None, "a route has a base"
                if reached.step != (self._last if step is None else step):
                    raise reason or ParentError(f"{self.where}: no way to its newest step")
                records.check_whole(entry.name, reached.layout, reached.state, reached.sums)
            except VanishedError:
                retries -= 1
                if not retries:
                    raise
                self._list()
                bad, reason = frozenset(), None
            except (RecordError, ChainError) as exc:
                reason = reason or exc
                if entry is None or not self._has_others(entry, bad | {entry}):
                    raise reason from None
                bad |= {entry}
            else:
                if reason:
                    self._warn(f"reached step {reached.step} by another way: {reason}")
                return reached

    def newest(self) -> tuple[Position, Exception | None]:
        """The newest step that restores, and, if that is not the chain's newest, why."""
        try:
            return self.at(), None
        except (RecordError, ChainError) as exc:
            reason = exc
        report = self.verify()
        if not report.steps:
            raise self.failure or reason
        return self.at(report.steps[-1]), reason

    def restore(self, step: int | None = None) -> dict[Any, Any]:
        """The state of ``step``, or the newest restorable one: see `restore`."""
        if step is not None:
            return self.at(step).whole()
        position, reason = self.newest()
        if reason:
            self._warn(f"restored step {position.step} instead of {self.steps[-1]}: {reason}")
        return position.whole()

    def verify(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Read and replay every record. progress(done, total) is called after each."""
        for retries in range(RETRIES, 0, -1):
            try:
                return self._verify(progress)
            except VanishedError:
                if retries == 1:
                    raise
                self._list()
        raise AssertionError("returned or raised")

    def _verify(self, progress: Callable[[int, int], None] | None) -> Report:
        steps: set[int] = set()
        problems = []
        walk = Walk()
        for done, entry in enumerate(self.entries, 1):
            try:
                record = self.read(entry)
                if not walk.is_past(entry):
                    for position in walk.advance(entry, record, every=True):
                        steps.add(position.step)
            except VanishedError:
                raise
            except (RecordError, ChainError) as exc:
                problems.append(str(exc))
            if progress:
                progress(done, len(self.entries))
        if walk.layout is not None:
            try:
                records.check_whole(self.where, walk.layout, walk.state, walk.sums)
            except RecordError as exc:
                problems.append(str(exc))
        return Report(tuple(sorted(steps)), tuple(problems), self.nbytes)

    def _route(self, step: int | None, bad: frozenset[Entry]) -> list[Entry]:
        """The records to replay, without the bad ones.

        Raises StepNotFoundError, ParentError if there is no base.
        """
        if step is not None and not self._has(step):
            raise StepNotFoundError(f"{self.where}: no record of step {step}; {self._range()}")
        usable = [e for e in self.entries if e not in bad and (step is None or e.first <= step)]
        bases = [i for i, e in enumerate(usable) if e.kind == "base"]
        if not bases:
            end = self._last if step is None else step
            raise ParentError(f"{self.where}: no base record at or before step {end}")
        route = [usable[bases[-1]]]
        for entry in usable[bases[-1] :]:
            if entry.first > route[-1].step:
                route.append(entry)
        return route

    def _has(self, step: int) -> bool:
        """Whether a record tells of a step; should it be damaged, that is raised."""
        if any(step in (e.first, e.step) for e in self.entries):
            return True
        around = [e for e in self.entries if e.first < step < e.step]
        return any(step in steps_of(self.read(e)) for e in around)

    def _has_others(self, entry: Entry, bad: frozenset[Entry]) -> bool:
        """Whether the steps of a bad record may be reached without it."""
        rest = [e for e in self.entries if e not in bad]
        if entry.kind == "base":
            return any(e.kind == "base" and e.step < entry.step for e in rest)
        return any(e.kind != "base" and e.first <= entry.step <= e.step for e in rest)

    def pack(self, path: str | Path) -> int:
        """Write all records into one archive of stored members; returns its bytes.

        The same records give the same bytes. Raises WriteError, ChainError.
        """

        nbytes = 0

        def write(file: IO[bytes]) -> None:
            nonlocal nbytes
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for entry in self.entries:
                    archive.writestr(zipfile.ZipInfo(entry.name), self._bytes(entry))
            nbytes = file.tell()

        for retries in range(RETRIES, 0, -1):
            try:
                publish(Path(path), write, overwrite=True)
                break
            except VanishedError:
                if retries == 1:
                    raise
                self._list()
        return nbytes

    def _range(self) -> str:
        steps = self.steps
        return f"it has {len(steps)} steps from {steps[0]} to {steps[-1]}"

    def _warn(self, text: str) -> None:
        warnings.warn(f"{self.where}: {text}", SkippedRecordWarning, stacklevel=4)


class Walk:
    """The track while records are applied one after another.

    layout: None while there is no track. step: where it is. identity: of the record last applied.
    sums: digests of its lossy tensors, which follow the changes. tables: code tables last sent.
    """

    def __init__(self) -> None:
        self.layout: Layout | None = None
        self.step: int | None = None
        self.state: Arrays = {}
        self.sums: dict[str, int] = {}
        self.tables: dict[str, CodeTable] = {}
        self.values: tuple[str, ...] = ()
        self.run: str | None = None
        self.identity: str | None = None

    def is_past(self, entry: Entry) -> bool:
        """Whether other records have led past this one already; a base is never past."""
        return entry.kind != "base" and self.step is not None and entry.first <= self.step

    def advance(
        self, entry: Entry, record: Record, stop: int | None = None, *, every: bool = False
    ) -> Iterator[Position]:
        """Apply one record, up to step ``stop`` if it goes further.

        every: a position for each step of a merged record, not only for where it leads. A record
        that fails while it is applied leaves the walk without a track.
        """
        if record.run != (self.run or record.run):
            raise ParentError(
                f"{entry.name}: is of the run {record.run}, the records before it are of {self.run}"
            )
        delta, layout, sent = None, self.layout, self.tables
        parts: list[tuple[int, str, Step]] = []
        if record.kind == "base":
            base, sent = records.base_of(record), records.sent_by(record)
            self._check_same(record)
            layout, self.state, self.sums, self.values = base
        elif layout is None or record.parent != self.identity:
            last = f"has digest {self.identity}" if layout else "does not exist"
            raise ParentError(
                f"{entry.name}: its parent, digest {record.parent}, is missing or damaged; "
                f"the usable record before it {last}"
            )
        elif record.kind == "delta":
            delta = records.delta_of(record, layout, self.tables)
            sent = self.tables | delta.tables
            parts = [(record.step, record.track, delta)]
        else:
            content = merged_of(record, layout)
            own = content.every() if every else content.parts(stop)
            parts = [(m.step, m.track, part) for m, part in own if stop is None or m.step <= stop]
            sent = dict(content.sent)
        self.layout = None  # should a part fail, the state is no longer the parent's
        for step, track, part in parts:
            self.sums, self.values = records.apply_checked(
                record, layout, part, self.state, self.sums, self.values, track=track
            )
            if step != parts[-1][0]:
                yield self._position(step, entry, record, layout, delta)
        self.layout, self.run, self.identity = layout, record.run, record.identity
        self.tables, self.step = sent, parts[-1][0] if parts else record.step
        yield self._position(self.step, entry, record, layout, delta)

    def _position(
        self, step: int, entry: Entry, record: Record, layout: Layout, delta: Step | None
    ) -> Position:
        return Position(
            step, entry, record, layout, self.state, self.sums, self.tables, self.values, delta
        )

    def _check_same(self, base: Record) -> None:
        """A base in the place of another record holds the very state that this one led to."""
        if self.layout is not None and self.step == base.step and base.replaces == self.identity:
            records.check_track(
                base.where, base.track, self.layout, self.state, self.sums, self.values
            )


def whole(layout: Layout, state: Arrays, values: tuple[str, ...]) -> dict[Any, Any]:
    """A state as it was saved, from its track: see `Position.whole`."""
    return put_together(Parts(layout.structure, from_arrays(state, layout), values))


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


def record_name(step: int, kind: str, first: int | None = None) -> str:
    """File name of a record. first: the first step of a merged one."""
    return ("" if first is None else f"{first:08d}-") + f"{step:08d}.{kind}.safetensors"


def _entry(name: str, nbytes: int) -> Entry | None:
    """What a file's name tells; None for one that is no record's."""
    found = _NAME.fullmatch(name)
    if not found or (found[1] is None) == (found[3] == "merged"):
        return None
    step = int(found[2])
    first = step if found[1] is None else int(found[1])
    return Entry(step, found[3], name, nbytes, first) if first <= step else None


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
    """Name -> bytes of the files that are named like records; all others are ignored.

    A look while somebody merges may find neither the deltas nor what takes their place: it is
    repeated until nothing has changed meanwhile.
    """
    found: dict[str, int] = {}
    try:
        items = _look(path)
        for _ in range(RETRIES):
            found = {}
            for item in items:
                with suppress(FileNotFoundError):
                    found[item.name] = item.stat().st_size
            before, items = items, _look(path)
            if {item.name for item in items} == {item.name for item in before}:
                break
    except OSError as exc:
        raise ChainError(f"{path}: cannot be listed: {exc}") from exc
    return found


def _look(path: Path) -> list[os.DirEntry[str]]:
    with os.scandir(path) as every:
        return [item for item in every if _entry(item.name, 0)]


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
        if not _entry(info.orig_filename, 0) or not stored or hides:
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
