"""A chain: a directory (or .lcc.zip) of immutable records, each naming its predecessor.

    run.lcc/
      00000000.base.safetensors               the exact track
      00000010.delta.safetensors              one step, parent = identity of the record before
    run.lcc.zip                               the same files, stored, for export

Not done here: where records lie (storage), applying them to a track (replay), checking all of them
(verify), removing them (upkeep), the bytes of a record (record).
"""

from __future__ import annotations

import copy
import os
import threading
import traceback
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

import numpy as np

from codec.errors import (
    ChainError,
    ChainNotFoundError,
    MalformedRecordError,
    ParentError,
    RecordError,
    SettingsError,
    StepNotFoundError,
    VanishedError,
    warn,
)
from codec.record import record as records
from codec.record.container import check_blocks
from codec.record.record import Record
from codec.scheme.warmup import wait_for
from codec.state.policy import escaped
from codec.state.selection import Only, Selection
from codec.state.tensors import Layout, is_tensor
from codec.state.tree import leaves
from codec.storage.directory import publish
from codec.storage.entry import Entry
from codec.storage.folder import Span
from codec.storage.location import Location, local_path, source_of
from codec.storage.read_ahead import ReadAhead
from codec.storage.source import RETRIES, Source, without_records

from .replay import Position, Replay, following
from .verify import Report, verify_chain

UNIX = 3  # the system that an archive names as its origin


T = TypeVar("T")


class Chain:
    """Read access to a chain directory or archive.

    Attributes:
        where: Its name in messages.
        entries: The files of its records, in the order of their steps; of one step the base last.
        steps: All steps that records hold, rising.
        failure: The last error of the disk itself.
        n_read: How many records were read so far.
        nbytes_read: The bytes that were read of them.
        selection: The tensors that are read, see `part`; None for all.

    Args:
        source: Path or URL of a run.lcc directory or .lcc.zip, or an archive as an open binary
            file. An archive behind a URL is fetched as a whole, into a file without a name. Also a
            `codec.inspect.Source`, which reads records in a way of its own.
        storage_options: For the filesystem of a URL, see fsspec; not needed where credentials come
            from the environment.

    Raises:
        ChainNotFoundError: Nothing is there.
        ArchiveError: The archive is broken.
        ChainError: The directory cannot be listed or reached.
        SettingsError: No installed filesystem opens the URL.
    """

    steps: tuple[int, ...]

    def __init__(
        self,
        source: str | os.PathLike[str] | IO[bytes] | Location | Source,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._source = source_of(source, storage_options)
        self.where = self._source.where
        self.selection: Selection | None = None
        self._parts: ReadAhead[Record] | None = None  # behind URLs: opens records
        self._counting = threading.Lock()
        self.failure: ChainError | None = None
        self.n_read = self.nbytes_read = 0
        self.refresh()

    def part(self, only: Only | Selection) -> Chain:
        """A copy of this chain that reads and restores only some tensors and values.

        It counts what it reads by itself. Every byte that is read is checked. Records of more than
        32 KiB are read in blocks, smaller ones as a whole, as are those without digests of blocks.

        Args:
            only: A pattern of names, or several: "model/encoder.*". * matches / too. The name of a
                container selects everything in it.

        Raises:
            SettingsError: This is no pattern. Restoring raises it where a pattern matches nothing.
        """
        chain = copy.copy(self)
        chain.selection = only if isinstance(only, Selection) else Selection(only)
        chain.n_read = chain.nbytes_read = 0
        chain._parts = ReadAhead(chain._partly_read) if self._source.is_remote else None
        return chain

    def refresh(self) -> None:
        """List the records again. Raises ChainNotFoundError, ChainError."""
        self.failure = None
        entries = (self._source.entry(*file) for file in self._source.sizes().items())
        order = sorted((e for e in entries if e), key=lambda e: (e.step, e.kind == "base"))
        self.entries = tuple(order)
        self.steps = tuple(dict.fromkeys(e.step for e in order))
        self._nbytes_of = {e.name: e.nbytes for e in order}
        if not self.entries:
            raise ChainNotFoundError(without_records(self.where))

    @property
    def nbytes(self) -> int:
        """Bytes of all records on disk."""
        return sum(e.nbytes for e in self.entries)

    def expect(self, entries: Iterable[Entry]) -> None:
        """Announce the records that will be read next, in this order."""
        names = (entry.name for entry in entries)
        if self.selection is None:
            self._source.expect(names)
        elif self._parts is not None:
            self._parts.expect(names)

    def read(self, entry: Entry, *, thoroughly: bool = False) -> Record:
        """Read one record and check its bytes; of a part, those that are needed, when they are.

        thoroughly: also check the digests that only readers of parts use.

        Raises:
            RecordError: The record is damaged.
            ArchiveError: The member of an archive is damaged.
            VanishedError: The record was removed meanwhile.
            ChainError: The disk fails.
        """
        if self.selection is None:
            data = self._bytes(entry)
            record = _checked(entry, records.load(data, entry.name))
            if thoroughly:
                check_blocks(data, entry.name)
            return record

        open_part = self._partly_read if self._parts is None else self._parts.read
        return _checked(entry, self._reading(entry.name, lambda: open_part(entry.name)))

    def identity_of(self, entry: Entry) -> str:
        """The identity of a record, whose beginning alone is read. Raises what `read` raises."""
        return self._partly_read(entry.name).identity

    def _partly_read(self, name: str) -> Record:
        """A record of which only the beginning is read, and checked; the rest when it is needed."""
        nbytes = self._nbytes_of[name]

        def read(spans: Sequence[Span]) -> list[bytes]:
            parts = self._reading(name, lambda: self._source.read_spans(name, spans))
            self._count(0, sum(map(len, parts)))
            return parts

        record = records.load_parts(read, nbytes, name)
        self._count(1, 0)
        return record

    def _count(self, n_records: int, nbytes: int) -> None:
        with self._counting:
            self.n_read += n_records
            self.nbytes_read += nbytes

    def read_bytes(self, entry: Entry) -> bytes:
        """The bytes of a record's file, checked as in `read`."""
        data = self._bytes(entry)
        _checked(entry, records.load(data, entry.name))
        return data

    def _bytes(self, entry: Entry) -> bytes:
        data = self._reading(entry.name, lambda: self._source.read(entry.name))
        self._count(1, len(data))
        return data

    def _reading(self, name: str, read: Callable[[], T]) -> T:
        """What a reading of a record returns. Raises VanishedError, ArchiveError, ChainError."""
        try:
            return read()
        except FileNotFoundError as exc:
            raise VanishedError(f"{self.where}/{name}: is gone") from exc
        except (OSError, MemoryError) as exc:
            self.failure = ChainError(f"{self.where}/{name}: cannot be read: {exc}")
            raise self.failure from exc

    def replay(self, step: int | None = None) -> Iterator[Position]:
        """Rebuild the track step by step, from the last base at or before ``step``.

        Every digest is checked. What was yielded before an error is valid.

        Args:
            step: The last step; None for the newest.

        Raises:
            StepNotFoundError: No record holds the step.
            ParentError: A record is missing.
            RecordError: A record is damaged. Also what `read` raises.
        """
        return self.every_step(self.steps[-1] if step is None else step, step)

    def every_step(self, begin: int | None = None, end: int | None = None) -> Iterator[Position]:
        """All steps from the first base on, each once; where a step has a base, that base.

        Args:
            begin: Begin at the last base at or before this step.
            end: The last step.

        Raises: What `replay` raises.
        """
        replay = Replay(self.selection)
        first = 0 if begin is None else self.entries.index(self._bases(begin)[-1])
        entries = [e for e in self.entries[first:] if end is None or e.step <= end]
        way = list({e.step: e for e in entries}.values())  # the base comes last
        self.get_ready(way)
        for entry in way:
            yield replay.advance(entry, self.read(entry))

    def history(self, name: str, steps: Iterable[int] | None = None) -> Iterator[tuple[int, Any]]:
        """A tensor's values at many steps, without the rest of the state.

            for step, weight in codec.Chain("run.lcc").history("model/conv1.weight"):
                print(step, weight[0, 0])

        Args:
            name: Of the tensor, "model/conv1.weight", as Inspect shows it.
            steps: Of the values; None for all.

        Yields:
            Step, rising, and the tensor at that step, as `restore` returns it, in new memory.

        Raises:
            SettingsError: The state has no tensor of this name.
            StepNotFoundError: No record holds one of the steps.
            ParentError: A record is missing.
            RerunNeededError: The chain holds gradients in place of states.
            RecordError, ChainError: As `replay`.
        """
        part = self.part(escaped(name))
        begin = end = None
        wanted = None if steps is None else set(steps)
        if wanted is not None:
            if not wanted:
                return
            begin, end = min(wanted), max(wanted)
            for step in {begin, *wanted.difference(self.steps)}:
                self._bases(step)
        for position in part.every_step(begin, end):
            if wanted is None or position.step in wanted:
                tensor = dict(leaves(position.whole())).get(name)
                if not is_tensor(tensor):
                    raise SettingsError(f"{name!r} is no tensor of the state, but has some in it")
                yield position.step, tensor

    def layout(self, step: int | None = None) -> Layout:
        """The names, shapes and dtypes of a step's tensors, without the tensors.

        Of each record from the last base on, only the beginning and what it says about the layout
        is read, and checked. If one is damaged, the step is rebuilt as `at` does.

        Args:
            step: The step; None for the newest.

        Raises:
            ChainError, RecordError: As for `at`.
        """
        try:
            return self._retried(lambda: self._layout(step))
        except (RecordError, ParentError):  # other records may lead there
            return self.at(step).track.layout

    def _layout(self, step: int | None) -> Layout:
        """See `layout`. Raises VanishedError."""
        base = self._bases(step)[-1]
        layout = identity = None
        for entry in (base, *deltas_between(self.entries, base.step, step)):
            record = _checked(entry, self._partly_read(entry.name))
            following(record, entry.name, None, identity)
            layout, identity = records.layout_after(record, layout), record.identity
        assert layout is not None, "there was a base"
        return layout

    def at(self, step: int | None = None) -> Position:
        """The track at ``step``, or at the newest step.

        A damaged record is passed over, with SkippedRecordWarning, if other records lead to the
        same step: of a base the older records, of a stray delta those around it.

        Raises:
            ChainError, RecordError: As for `replay`, about the first damaged record.
        """
        position, reason = self._reach(step)
        if reason is not None:
            raise reason
        assert position is not None, "reached or failed"
        return position

    def newest(self) -> tuple[Position, Exception | None]:
        """The newest step that restores; if it is not the chain's newest step, also why."""
        position, reason = self._reach(None)
        if position is None:
            raise self.failure or reason or AssertionError("reached or failed")
        if reason is not None:  # from the start: a record may have failed half-way
            position = self.at(position.step)
        return position, reason

    def get_ready(self, way: Sequence[Entry]) -> None:
        """Get ready to read these records, and to apply them."""
        self.expect(way)
        wait_for(sum(entry.nbytes for entry in way if entry.kind == "delta"))

    def _reach(self, step: int | None) -> tuple[Position | None, Exception | None]:
        """The furthest position on the way to a step; if it is not at the step, also why."""
        try:
            return self._retried(lambda: self._follow(step))
        except ChainError as exc:
            return None, exc

    def _follow(self, step: int | None) -> tuple[Position | None, Exception | None]:
        """See `_reach`. Raises VanishedError, and what `_bases` raises."""
        bases = self._bases(step)
        reached: Position | None = None
        reason: Exception | None = None  # the first error
        while bases and reached is None:
            replay, base = Replay(self.selection), bases.pop()
            way = [base, *deltas_between(self.entries, base.step, step)]
            self.get_ready(way)
            for entry in way:
                try:
                    reached = replay.advance(entry, self.read(entry))
                except VanishedError:
                    raise
                except (RecordError, ChainError) as exc:
                    reason = reason or _bare(exc)
                    if replay.track is None or not isinstance(exc, RecordError | ParentError):
                        break  # else a later record may fit this track
        if reached is None or reached.step != (self.steps[-1] if step is None else step):
            return reached, reason
        try:
            records.check_whole(reached.entry.name, reached.track)
        except RecordError as exc:
            return reached, reason or _bare(exc)
        if reason is not None:
            self._warn(f"reached step {reached.step} by another way: {reason}")
        return reached, None

    def restore(
        self, step: int | None = None, *, only: Only | None = None, dithers: bool = False
    ) -> dict[Any, Any]:
        """The state of ``step``, or the newest restorable one: see `restore`.

        dithers: For a training to go on from, see `Position.whole`; not with ``only``.
        """
        if only is not None:
            return self.part(only).restore(step)
        if step is not None:
            return self.at(step).whole(dithers=dithers)
        position, reason = self.newest()
        if reason:
            self._warn(f"restored step {position.step} instead of {self.steps[-1]}: {reason}")
        return position.whole(dithers=dithers)

    def verify(self, progress: Callable[[int, int], None] | None = None) -> Report:
        """Read and replay every record, see `verify`."""
        return self._retried(lambda: verify_chain(self, progress))

    def _retried(self, call: Callable[[], T]) -> T:
        """Call again, with a new listing, while somebody removes records."""
        for _ in range(RETRIES - 1):
            with suppress(VanishedError):
                return call()
            self.refresh()
        return call()

    def _bases(self, step: int | None) -> list[Entry]:
        """The bases at or before a step; a restore begins at the last one.

        Raises:
            SettingsError: The step is no integer.
            StepNotFoundError: No record holds the step.
            ParentError: There is no base.
        """
        if step is not None and (isinstance(step, bool) or not isinstance(step, int | np.integer)):
            raise SettingsError(f"a step is an integer; got {step!r}")
        if step is not None and step not in self.steps:
            n, first, last = len(self.steps), self.steps[0], self.steps[-1]
            raise StepNotFoundError(
                f"{self.where}: no record of step {step}; it has {n} steps from {first} to {last}"
            )
        end = self.steps[-1] if step is None else step
        bases = [e for e in self.entries if e.kind == "base" and e.step <= end]
        if not bases:
            raise ParentError(f"{self.where}: no base record at or before step {end}")
        return bases

    def pack(self, path: str | os.PathLike[str]) -> int:
        """Write all records into one archive of uncompressed members.

        The same records give the same bytes, on every system and at any time.

        Returns:
            The archive's size in bytes.

        Raises:
            SettingsError: The path is not local.
            WriteError: The archive cannot be written.
            ChainError: A record cannot be read.
        """
        target = local_path(path)
        nbytes = 0

        def write(file: IO[bytes]) -> None:
            nonlocal nbytes
            self.expect(self.entries)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for entry in self.entries:
                    info = zipfile.ZipInfo(entry.name)  # of 1980: no clock
                    info.create_system = UNIX
                    archive.writestr(info, self._bytes(entry))
            nbytes = file.tell()

        self._retried(lambda: publish(target, write, overwrite=True))
        return nbytes

    def _warn(self, text: str) -> None:
        warn(f"{self.where}: {text}")


def _checked(entry: Entry, record: Record) -> Record:
    """A record. Raises MalformedRecordError unless it is the one that its name says."""
    if (record.step, record.kind) != (entry.step, entry.kind):
        expected = f"{entry.kind} of step {entry.step}"
        raise MalformedRecordError(entry.name, expected, f"{record.kind} of step {record.step}")
    return record


def deltas_between(entries: Iterable[Entry], begin: int, end: int | None = None) -> list[Entry]:
    """The deltas after step ``begin``, up to step ``end``; None for all."""
    deltas = (e for e in entries if e.kind == "delta" and begin < e.step)
    return [e for e in deltas if end is None or e.step <= end]


def _bare(exc: Exception) -> Exception:
    """An error without the local variables of its traceback, which may hold a track."""
    link: BaseException | None = exc
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return exc


def restore(
    source: str | os.PathLike[str] | IO[bytes],
    step: int | None = None,
    *,
    only: Only | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[Any, Any]:
    """Restore the state saved at ``step``, or at the newest step that restores.

    Args:
        source: The chain's directory, archive or URL, see `Chain`.
        step: The number of the checkpoint. With None, damaged newer records are passed over with
            SkippedRecordWarning.
        only: A pattern of names, or several, to read and restore a part: "model/encoder.*". See
            `Chain.part`.
        storage_options: See `Chain`.

    Returns:
        The state as it was saved: same nesting, libraries, dtypes and shapes. Tensors that shared
        memory share it again. Of a part, mappings have only what was asked for; in lists and tuples
        None takes the place of the rest.

    Raises:
        ChainNotFoundError: Nothing is there.
        StepNotFoundError: No record holds the step.
        ParentError: A record that the step builds on is missing.
        RecordError, ArchiveError: A record or the archive is damaged.
        ChainError: The disk cannot be read.
        DTypeError: A tensor came from torch and torch is not installed.
        SettingsError: Nothing in the state has a name like ``only``.
    """
    return Chain(source, storage_options=storage_options).restore(step, only=only)


def verify(
    source: str | os.PathLike[str] | IO[bytes],
    progress: Callable[[int, int], None] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Check every record of a chain: bytes, parents, streams, and the rebuilt tracks.

    Args:
        source: The chain's directory, archive or URL, see `Chain`.
        progress: Called with (records done, records in all) after each record.
        storage_options: See `Chain`.

    Returns:
        The steps that restore, and every problem of a record.

    Raises:
        ChainNotFoundError: Nothing is there.
        ArchiveError: The archive is broken.
    """
    return Chain(source, storage_options=storage_options).verify(progress)
