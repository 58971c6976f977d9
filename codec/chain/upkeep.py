"""Keeps a chain short: merges deltas into one record, removes the records before a base.

A new record is decoded again, compared, and durable on disk before an old one is removed. Whenever
the process is killed, every step that could be restored before can still be restored.

Not done here: which deltas are merged (merge) and how (record.layers), when a base is due
(saving.recorder).
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from codec.errors import (
    ChainNotFoundError,
    ParentError,
    RecordError,
    SettingsError,
    StepOrderError,
    TrackDigestError,
    VersionError,
    warn,
)
from codec.record import merged
from codec.record.encode import Draft
from codec.record.reason import Reason
from codec.record.record import Place
from codec.record.settings import settings_at
from codec.scheme.coders import coder_of
from codec.scheme.warmup import warm_up
from codec.storage.directory import Store
from codec.storage.location import Location
from codec.storage.source import Entry, record_name

from .chain import Chain
from .merge import DeltaMerger
from .replay import Position, Replay

MEASURED_SECONDS, MEASURED_TIMES = 0.5, 5  # limits on measuring a restore
RECODED = 8  # deltas that become one record if they are coded anew
KEEP = 2  # bases: the newest may turn out to be damaged
IF_NEWEST_FAILS = (
    "a Checkpointer with resume=True sets aside what does not restore at the chain's end"
)
IF_OTHERS_FAIL = (
    "nothing was removed: put back a copy of what is damaged or missing, or rename that record if "
    "no step needs it (verify tells)"
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Change:
    """A chain before and after `merge` or `compact`.

    Attributes:
        records: How many.
        nbytes: Their bytes. `compact` without ``base`` never makes them more.
        restore_seconds: Measured for the newest step.
    """

    records: tuple[int, int]
    nbytes: tuple[int, int]
    restore_seconds: tuple[float, float]

    @classmethod
    def of(cls, before: tuple[int, int, float], after: tuple[int, int, float]) -> Change:
        """From both measurements, as `_measured` returns them."""
        return cls(*zip(before, after))  # type: ignore[arg-type]


def merge(
    path: str | os.PathLike[str],
    steps: int = 8,
    progress: Progress | None = None,
    *,
    quick: bool = False,
    coder: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Change:
    """Replace every ``steps`` consecutive deltas by one record that restores all their steps.

    Fewer deltas at the end of the chain stay as they are. A record whose header would be too long
    becomes several records. Damaged records, and those that need them, stay as they are, with
    SkippedRecordWarning. After an error nothing is lost, and finished merges stay.

    Args:
        path: The chain's directory or URL; nobody else may write there.
        steps: 2 to 4096.
        progress: Called with (records done, records in all) after each record.
        quick: Measure a restore only once before and once after, for a training that waits.
        coder: Code the merged records with this coder; None for the deltas' own.
        storage_options: As for `Checkpointer`.

    Raises:
        SettingsError: ``steps`` is out of range, or there is no such coder.
        ChainNotFoundError: Nothing is there.
        LockedError: Another writer is at work.
        RecordError, ParentError: The newest step does not restore. A Checkpointer with resume=True
            sets damaged records aside.
        VersionError: A newer version wrote a record.
        WriteError: The disk refuses.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or not 2 <= steps <= merged.MAX_STEPS:
        raise SettingsError(f"2 to {merged.MAX_STEPS} deltas can be merged; got {steps!r}")
    if coder is not None:
        coder_of(coder)
    location = Location(path, storage_options)
    Chain(location)
    with location.store() as directory:
        before = _measured(Chain(location), quick)[0]
        changed = _merged(location, directory, steps, progress, coder)
        return Change.of(before, _measured(Chain(location), quick)[0] if changed else before)


def _merged(
    location: Location,
    directory: Store,
    steps: int,
    progress: Progress | None,
    coder: str | None = None,
    every: bool = False,
) -> bool:
    """Merge deltas, see `merge`. every: also the last ones, which are few, and single ones.

    Returns whether anything has changed.
    """
    chain = Chain(location)
    merger = DeltaMerger(directory, chain, steps, coder, 1 if every else 2)
    damaged: list[RecordError | ParentError] = []
    replay = Replay()
    for done, entry in enumerate(chain.entries, 1):
        try:
            merger.add(replay, entry)
        except VersionError:
            raise
        except (RecordError, ParentError) as exc:
            damaged.append(exc)
        merger.merge()
        if progress:
            progress(done, len(chain.entries))
    if every:
        merger.finish()
        merger.merge()
    merger.remove_leftovers()
    if damaged:
        warn(
            f"{location}: {len(damaged)} records stay as they are: they are damaged or follow "
            "a damaged record; put back a copy of that, or rename it if no step needs it "
            f"(verify tells): {damaged[0]}"
        )
    return merger.has_changed


def compact(
    path: str | os.PathLike[str],
    keep: int = KEEP,
    progress: Progress | None = None,
    *,
    base: bool = False,
    coder: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Change:
    """Remove all records before the ``keep`` newest bases.

    Before that, a base of the newest step is written if it takes fewer bytes than the older records
    that can then be removed. So the chain never becomes larger, unless ``base`` is true. A chain
    with a single base stays as it is. A chain of gradients (codec.rerun) gets no new base: only the
    training can write it. Afterwards, steps before the oldest of these bases cannot be restored.
    Bases that cannot be read do not count, and stay.

    Args:
        path: The chain's directory or URL; nobody else may write there.
        keep: At least 2, because the newest base may turn out to be damaged.
        progress: Called with (records done, records in all) after each record.
        base: Always write a base of the newest step, so that it restores fast. A chain with fewer
            than ``keep`` bases then becomes larger.
        coder: Code the deltas that stay anew with this coder, as merged records of up to RECODED
            steps. Every step restores to the same bits. Records that are merged already stay.
        storage_options: As for `Checkpointer`.

    Raises:
        SettingsError: ``keep`` is out of range, or there is no such coder.
        ChainNotFoundError: Nothing is there.
        LockedError: Another writer is at work.
        RecordError, ParentError: The remaining records would not restore; nothing is removed.
        WriteError: The disk refuses.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < KEEP:
        raise SettingsError(f"at least {KEEP} bases are kept; got {keep!r}")
    if coder is not None:
        coder_of(coder)
    location = Location(path, storage_options)
    Chain(location)
    with location.store() as directory:
        chain = Chain(location)
        before, position = _measured(chain)
        if position.entry.kind != "base" and not position.has_gradients:
            same_step = [e for e in chain.entries if (e.step, e.kind) == (position.step, "base")]
            _check(chain, same_step, None)  # the restore has passed such a base over: raise why
            data = _base(position)
            if base or _saves_bytes(chain, position.step, len(data), keep):
                directory.publish(record_name(position.step, "base"), data)
        chain = Chain(location)
        intact = without_damaged_bases(chain, keep)
        needless = superseded(intact, keep)
        _check(chain, [e for e in intact if e not in needless], progress)
        directory.remove(e.name for e in needless)
        if coder is not None:
            _merged(location, directory, RECODED, progress, coder, every=True)
        return Change.of(before, _measured(Chain(location))[0])


def pack(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> int:
    """Write all records of a chain to one archive.

    The same records give the same bytes, on every system and at any time.

    Args:
        source: A directory of records, or its URL.
        path: The .lcc.zip to write, on this machine.
        storage_options: For a URL.

    Returns:
        The bytes of the archive.

    Raises:
        SettingsError: The path is not on this machine.
        WriteError: The archive cannot be written.
        ChainError: There is no chain, or it cannot be read.
    """
    return Chain(source, storage_options=storage_options).pack(path)


def unpack(
    source: str | os.PathLike[str] | IO[bytes],
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Chain:
    """Check each record of a chain, and write it into another directory.

    After an error, what was written stays.

    Args:
        source: As for `Chain`.
        path: Made if it is missing; it must not hold records.
        progress: Called with (records done, records in all) after each record.
        storage_options: For source and path, if they are URLs.

    Raises:
        StepOrderError: The directory holds records.
        ChainNotFoundError, ArchiveError, RecordError: The source is missing or damaged.
        LockedError: Another writer is at work.
        WriteError: The disk refuses.
    """
    target = Location(path, storage_options)
    chain = Chain(source, storage_options=storage_options)
    with target.store() as directory:
        with suppress(ChainNotFoundError):
            Chain(target)
            raise StepOrderError(f"{target}: holds a chain already; choose another directory")
        for done, entry in enumerate(chain.entries, 1):
            directory.publish(entry.name, chain.read_bytes(entry))
            if progress:
                progress(done, len(chain.entries))
    return Chain(target)


def superseded(entries: Iterable[Entry], keep: int) -> list[Entry]:
    """The records that the ``keep`` newest bases make needless, in the order to remove them.

    In this order, the remaining records restore at any time. A base within the steps of a merged
    record does not count: the merged record may be needed, and builds on records before it.
    """
    order = sorted(entries, key=lambda e: (e.step, e.kind != "base"))
    merged_records = [e for e in order if e.kind == "merged"]
    bases = [e.step for e in order if e.kind == "base"]
    bases = [s for s in bases if not any(e.first <= s < e.step for e in merged_records)]
    if len(bases) < keep:
        return []
    oldest = bases[-keep]
    needless = [e for e in order if e.step < oldest or (e.step == oldest and e.kind != "base")]
    return needless[::-1]


def without_damaged_bases(chain: Chain, n: int) -> list[Entry]:
    """The chain's records without damaged bases. Reads the newest bases until ``n`` are intact."""
    damaged: set[Entry] = set()
    for entry in sorted((e for e in chain.entries if e.kind == "base"), key=lambda e: -e.step):
        if n == 0:
            break
        try:
            chain.read(entry)
            n -= 1
        except RecordError:
            damaged.add(entry)
    return [e for e in chain.entries if e not in damaged]


def _saves_bytes(chain: Chain, step: int, nbytes: int, keep: int) -> bool:
    """Whether a base of the newest step makes a chain that keeps ``keep`` bases smaller.

    nbytes: The size of that base.
    """
    entries = without_damaged_bases(chain, keep)
    base = Entry(step, "base", record_name(step, "base"), nbytes, step)
    removed_without = sum(entry.nbytes for entry in superseded(entries, keep))
    removed_with = sum(entry.nbytes for entry in superseded([*entries, base], keep))
    return removed_with - nbytes > removed_without


@contextmanager
def with_advice(advice: str) -> Iterator[None]:
    """Add advice to a RecordError or ParentError."""
    try:
        yield
    except VersionError:
        raise
    except RecordError as exc:
        raise type(exc)(exc.where, exc.expected, f"{exc.found}; {advice}") from exc
    except ParentError as exc:
        raise ParentError(f"{exc}; {advice}") from exc


def _measured(chain: Chain, quick: bool = False) -> tuple[tuple[int, int, float], Position]:
    """Number of records, their bytes, seconds to restore the newest step; and its position.

    A long restore is measured once. Of short ones the fastest of a few counts.
    """
    if not quick:
        warm_up()  # else the first restore would include the time to load the kernels
    times: list[float] = []
    most = 1 if quick else MEASURED_TIMES
    while not times or (sum(times) < MEASURED_SECONDS and len(times) < most):
        with warnings.catch_warnings(action="ignore" if times else None):  # warn only once
            started = time.perf_counter()
            with with_advice(IF_NEWEST_FAILS):
                position = chain.at()
            times.append(time.perf_counter() - started)
    return (len(chain.entries), chain.nbytes, min(times)), position


def _base(position: Position) -> bytes:
    """The bytes of a base that can replace the record of this position."""
    record = position.record
    settings = settings_at(position.settings, record)
    place = Place(position.step, record.run, record.parent, record.identity, settings, Reason.ASKED)
    draft = Draft.of_base(record_name(position.step, "base"), place, position.track)
    digest = draft.check(position.track).track
    if digest != record.track:
        raise TrackDigestError(draft.name, f"a track of digest {record.track}", digest)
    return draft.data


def _check(chain: Chain, entries: list[Entry], progress: Progress | None) -> None:
    """Raise RecordError or ParentError unless these records restore all their steps."""
    replay = Replay()
    for done, entry in enumerate(entries, 1):
        with with_advice(IF_OTHERS_FAIL):
            record = chain.read(entry)
            if not replay.is_past(entry):
                for _ in replay.advance(entry, record, all_steps=True):
                    replay.check_values(entry.name)
        if progress:
            progress(done, len(entries))
