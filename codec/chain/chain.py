"""A chain: a directory (or .lcc.zip) of immutable records, each naming its predecessor.

    run.lcc/
      00000000.base.safetensors               the exact track
      00000010.delta.safetensors              one step, parent = identity of the record before
      00000020-00000090.merged.safetensors    several steps
    run.lcc.zip                               the same files, stored, for export

Not done here: where records lie (location, source), the track while they are applied (replay),
deciding what to save (recorder), merging and removing (upkeep), the bytes of a record (record,
merged).
"""

from __future__ import annotations

import os
import traceback
import zipfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

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
from codec.record.merged import steps_of
from codec.record.record import Record
from codec.storage.directory import publish
from codec.storage.location import Location, local_path, source_of
from codec.storage.source import RETRIES, Entry, entry_of, without_records

from .replay import Position, Replay

WAYS = 16  # to a step, tried one after another where records are damaged
UNIX = 3  # what an archive says it was made on


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

    source: path or URL of a run.lcc directory or .lcc.zip, or an archive as an open binary file.
    storage_options: what a URL's filesystem is to be told, see fsspec; where it takes credentials
    from the environment, none. An archive behind a URL is fetched as a whole, into a file without
    a name.

    Raises ChainNotFoundError if nothing is there, ArchiveError for a broken archive,
    ChainError if the directory cannot be listed or reached, SettingsError for a URL that nothing
    installed can open.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | IO[bytes] | Location,
        *,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        found = source_of(source, storage_options)
        self.where, self._sizes, self._read = found.where, found.sizes, found.read
        self._expect = found.expect
        self.failure: ChainError | None = None  # the last one of the disk itself
        self._list()

    def _list(self) -> None:
        found = (entry_of(name, nbytes) for name, nbytes in self._sizes().items())
        # Where two tell of a step, the one that reaches further is tried first, a base last.
        order = sorted(
            (e for e in found if e), key=lambda e: (e.first, e.kind == "base", -e.step, e.kind)
        )
        self.entries = tuple(order)
        self._steps: tuple[int, ...] | None = None
        if not self.entries:
            raise ChainNotFoundError(without_records(self.where))

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
        replay = Replay()
        entry: Entry | None = self._bases(step)[-1]
        self._expect(self._ahead(entry, step))
        while entry is not None:
            yield from replay.advance(entry, self.read(entry), step, every=True)
            entry = self._next(entry.step, step)

    def every_step(self) -> Iterator[Position]:
        """All steps from the first base on, each once. Raises what `replay` does, ParentError
        for records that overlap: of those, each step has to be asked for.
        """
        replay, last = Replay(), -1
        self._expect(entry.name for entry in self.entries)
        for entry in self.entries:
            if replay.is_past(entry) and entry.step > last:
                raise ParentError(f"{entry.name}: begins before step {last}, where others end")
            if not replay.is_past(entry):
                for position in replay.advance(entry, self.read(entry), every=True):
                    if position.step > last:
                        last = position.step
                        yield position

    def at(self, step: int | None = None) -> Position:
        """The track at ``step``, or at the newest one, in as few passes over it as can be.

        A damaged record is passed over where others lead to the same step, with
        SkippedRecordWarning: an older base, or the deltas that a merged one replaces. Raises
        what `replay` does, for the first record that is damaged.
        """
        position, reason = self._reach(step)
        if reason is not None:
            raise reason
        assert position is not None, "reached or failed"
        return position

    def newest(self) -> tuple[Position, Exception | None]:
        """The newest step that restores, and, if that is not the chain's newest, why."""
        position, reason = self._reach(None)
        if position is None:
            raise self.failure or reason or AssertionError("reached or failed")
        if reason is not None:  # from the start: a record may have failed half-way
            position = self.at(position.step)
        return position, reason

    def _reach(self, step: int | None) -> tuple[Position | None, Exception | None]:
        """The last position on the way to a step, and why it is not that of the step."""
        bad: set[Entry] = set()
        bases: list[Entry] = []
        reason: Exception | None = None
        furthest: Position | None = None
        ways, retries = WAYS, RETRIES
        while True:
            end = self._last if step is None else step
            replay, entry, reached, passed = Replay(), None, None, set(bad)
            try:
                bases = bases or self._bases(step)
                entry = bases[-1]
                self._expect(self._ahead(entry, step, passed))
                while entry is not None:
                    try:
                        for reached in replay.advance(entry, self.read(entry), step):
                            if furthest is None or reached.step > furthest.step:
                                furthest = reached
                    except (RecordError, ParentError) as exc:
                        if replay.track is None:
                            raise
                        reason = reason or _bare(exc)  # the track is as it was: maybe another fits
                        passed.add(entry)
                        if not isinstance(exc, ParentError):
                            bad.add(entry)
                    assert replay.step is not None, "a base leads to its step"
                    entry = self._next(replay.step, step, passed)
                assert reached is not None, "there was a base"
                if reached.step != end:
                    raise ParentError(
                        f"{reached.entry.name}: no record after it leads to step {end}"
                    )
                records.check_whole(reached.entry.name, reached.track)
            except VanishedError as exc:
                retries -= 1
                if not retries:
                    return None, exc
                self._list()
                bad, bases, reason, furthest = set(), [], None, None
            except (RecordError, ChainError) as exc:
                reason = reason or _bare(exc)
                if reached is None and len(bases) > 1:  # a base failed, which costs but a look
                    bases.pop()
                    continue
                stuck = reached.entry if reached and isinstance(exc, ParentError) else None
                left_out = self._left_out(entry, stuck, bad)
                ways -= 1
                if left_out is None or not ways:
                    return furthest, reason
                bad.add(left_out)
                bases = [e for e in bases if e != left_out]
                if not bases:
                    return furthest, reason
            else:
                if reason:
                    self._warn(f"reached step {reached.step} by another way: {reason}")
                return reached, None

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
        aside: set[int] = set()  # of records that overlap with those that were followed
        known: set[str | None] = set()  # identities
        problems = []
        replay, failed = Replay(), False
        self._expect(entry.name for entry in self.entries)
        for done, entry in enumerate(self.entries, 1):
            try:
                record = self.read(entry)
                if replay.is_past(entry):
                    aside.update(steps_of(record) if entry.kind == "merged" else [entry.step])
                else:
                    before = replay.step
                    for position in replay.advance(entry, record, every=True):
                        replay.check_values(entry.name)
                        steps.add(position.step)
                    if not failed and self._lacks_steps(entry, record, known):
                        problems.append(
                            f"{entry.name}: the record before it, digest {record.parent}, is "
                            f"missing; steps between {before} and {entry.step} may be lost"
                        )
                    failed = False
                known.add(record.identity)
            except VanishedError:
                raise
            except (RecordError, ChainError) as exc:
                problems.append(str(exc))
                failed = True
            if progress:
                progress(done, len(self.entries))
        if replay.track is not None:
            try:
                records.check_whole(self.where, replay.track)
            except RecordError as exc:
                problems.append(str(exc))
        for step in sorted(aside - steps):
            try:
                self.at(step)
                steps.add(step)
            except VanishedError:
                raise
            except (RecordError, ChainError) as exc:
                problems.append(str(exc))
        return Report(tuple(sorted(steps)), tuple(problems), self.nbytes)

    def _lacks_steps(self, entry: Entry, record: Record, known: set[str | None]) -> bool:
        """Whether records are missing before the newest base; known: identities of those there.

        Before older ones they may have been removed by a compaction that was interrupted.
        """
        if not known or entry.kind != "base" or record.parent is None:
            return False
        if known & {record.parent, record.replaces}:
            return False
        return all(e.kind != "base" or e.step <= entry.step for e in self.entries)

    def _bases(self, step: int | None) -> list[Entry]:
        """The records that one may begin at, the last one first choice.

        Raises SettingsError for what is no step, StepNotFoundError, ParentError if there is no
        base.
        """
        if step is not None and (isinstance(step, bool) or not isinstance(step, int | np.integer)):
            raise SettingsError(f"a step is an integer; got {step!r}")
        if step is not None and not self._has(step):
            raise StepNotFoundError(f"{self.where}: no record of step {step}; {self._range()}")
        end = self._last if step is None else step
        bases = [e for e in self.entries if e.kind == "base" and e.step <= end]
        if not bases:
            raise ParentError(f"{self.where}: no base record at or before step {end}")
        return bases

    def _next(self, at: int, step: int | None, bad: Set[Entry] = frozenset()) -> Entry | None:
        """The record to apply at step ``at``; None if there is none up to ``step``."""
        for i in range(bisect_right(self.entries, at, key=lambda e: e.first), len(self.entries)):
            found = self.entries[i]
            if step is not None and found.first > step:
                break
            if found.kind != "base" and found not in bad:
                return found
        return None

    def _ahead(
        self, entry: Entry | None, step: int | None, bad: Set[Entry] = frozenset()
    ) -> Iterator[str]:
        """Names of the records from this one on, if all goes well."""
        while entry is not None:
            yield entry.name
            entry = self._next(entry.step, step, bad)

    def _has(self, step: int) -> bool:
        """Whether a record tells of a step; should it be damaged, that is raised."""
        if any(step in (e.first, e.step) for e in self.entries):
            return True
        damaged: Exception | None = None
        for entry in (e for e in self.entries if e.first < step < e.step):
            try:
                if step in steps_of(self.read(entry)):
                    return True
            except RecordError as exc:  # another one may tell of it too
                damaged = damaged or exc
        if damaged:
            raise damaged
        return False

    def _left_out(self, entry: Entry | None, stuck: Entry | None, bad: Set[Entry]) -> Entry | None:
        """The record without which there may be another way; None if there is none.

        entry: the one that failed. stuck: the one before it, if nothing follows on that.
        """
        rest = [e for e in self.entries if e not in bad and e != entry and e.kind != "base"]
        if stuck and any(e.first <= stuck.step < e.step for e in rest):
            return stuck  # another one goes further
        if entry and any(e.first <= entry.step and e.step >= entry.first for e in rest):
            return entry
        return None

    def pack(self, path: str | os.PathLike[str]) -> int:
        """Write all records into one archive of stored members; returns its bytes.

        The same records give the same bytes, on every system and at any time. Raises SettingsError
        for what is no local path, WriteError, ChainError.
        """
        target = local_path(path)
        nbytes = 0

        def write(file: IO[bytes]) -> None:
            nonlocal nbytes
            self._expect(entry.name for entry in self.entries)
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for entry in self.entries:
                    info = zipfile.ZipInfo(entry.name)  # of 1980: no clock
                    info.create_system = UNIX
                    archive.writestr(info, self._bytes(entry))
            nbytes = file.tell()

        for retries in range(RETRIES, 0, -1):
            try:
                publish(target, write, overwrite=True)
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
        warn(f"{self.where}: {text}")


def _bare(exc: Exception) -> Exception:
    """An error to be kept: without what the functions that it has passed were at work on."""
    each: BaseException | None = exc
    while each is not None:
        traceback.clear_frames(each.__traceback__)
        each = each.__cause__ or each.__context__
    return exc


def restore(
    source: str | os.PathLike[str] | IO[bytes],
    step: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[Any, Any]:
    """The state saved at ``step``, or the newest one that can be restored.

    source, storage_options: as for `Chain`. Returns it as it was saved: same nesting, libraries,
    dtypes and shapes; tensors that were one are one again. With step=None a damaged newer record is
    passed over with SkippedRecordWarning. Raises ChainNotFoundError, StepNotFoundError,
    ParentError, RecordError, ArchiveError; ChainError if the disk cannot be read, DTypeError for
    torch tensors without torch.
    """
    return Chain(source, storage_options=storage_options).restore(step)


def verify(
    source: str | os.PathLike[str] | IO[bytes],
    progress: Callable[[int, int], None] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Report:
    """Check every record of a chain: bytes, parents, streams and the rebuilt tracks.

    source, storage_options: as for `Chain`.
    progress(records done, records in all) is called after each. Raises ChainNotFoundError
    or ArchiveError; whatever is wrong with single records is in the report.
    """
    return Chain(source, storage_options=storage_options).verify(progress)
