"""Keeps a chain short: writes a base of the oldest step to keep, and removes all records before it.

The new base is decoded again, compared, and durable on disk before an old record is removed.
Whenever the process is killed, the newest step and those that stay can still be restored.

Not done here: when a base is due (saving.recorder).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
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
)
from codec.record.encode import Draft
from codec.record.reason import Reason
from codec.record.record import Place
from codec.record.settings import settings_at
from codec.storage.directory import Store
from codec.storage.entry import Entry, record_name
from codec.storage.location import Location

from .chain import Chain
from .replay import Position, Replay

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
    """A chain before and after `compact`.

    Attributes:
        records: How many there are.
        nbytes: Bytes of all records.
    """

    records: tuple[int, int]
    nbytes: tuple[int, int]


def compact(
    path: str | os.PathLike[str],
    keep_steps: int = 1,
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Change:
    """Remove all records that the newest steps do not need.

    A base of the oldest of these steps takes the place of all records up to it. A chain of
    gradients (codec.rerun) gets no new base: only the training can write it.

    Args:
        path: The chain's directory or URL; nobody else may write there.
        keep_steps: How many of the newest steps restore afterwards.
        progress: Called with (records done, records in all) after each record.
        storage_options: As for `Checkpointer`.

    Raises:
        SettingsError: ``keep_steps`` is out of range.
        ChainNotFoundError: Nothing is there.
        LockedError: Another writer is at work.
        RecordError, ParentError: These steps do not restore; nothing is changed.
        WriteError: The disk refuses.
    """
    check_keep("keep_steps", keep_steps)
    location = Location(path, storage_options)
    Chain(location)
    with location.store() as directory:
        return compact_in(directory, location, keep_steps, progress)


def compact_in(
    directory: Store, location: Location, keep_steps: int, progress: Progress | None = None
) -> Change:
    """See `compact`. directory: the store at this location."""
    chain = Chain(location)
    n_before, nbytes_before = len(chain.entries), chain.nbytes
    oldest, base = chain.steps[-keep_steps:][0], None
    with with_advice(IF_NEWEST_FAILS):
        position = chain.at(oldest)
    if position.entry.kind != "base" and not position.has_gradients:
        for entry in chain.entries:
            if (entry.step, entry.kind) == (oldest, "base"):
                chain.read(entry)  # the restore has passed it over: raise why
        base = _base(position)
    _check_after(chain, position, progress)
    if base is not None:
        directory.publish(record_name(oldest, "base"), base)
    directory.remove(e.name for e in needless(Chain(location), keep_steps))
    after = Chain(location)
    return Change((n_before, len(after.entries)), (nbytes_before, after.nbytes))


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


def needless(chain: Chain, keep_steps: int) -> list[Entry]:
    """The records that the newest steps do not need, in the order to remove them.

    In this order, the remaining records restore at any time. A restore of these steps begins at the
    last intact base that is not after the oldest of them. Raises ChainError if the disk fails.
    """
    oldest = chain.steps[-keep_steps:][0]
    for i, entry in reversed(list(enumerate(chain.entries))):
        if entry.kind == "base" and entry.step <= oldest:
            with suppress(RecordError):
                chain.read(entry)
                return list(chain.entries[:i][::-1])
    return []


def check_keep(name: str, value: Any) -> None:
    """Raise SettingsError unless a setting of what is kept is an integer from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingsError(f"{name} is an integer from 1 on; got {value!r}")


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


def _base(position: Position) -> bytes:
    """The bytes of a base that can replace the record of this position."""
    record = position.record
    settings = settings_at(position.settings, record)
    # Without a parent: records before it go, and verify should not miss them.
    place = Place(position.step, record.run, None, record.identity, settings, Reason.ASKED)
    draft = Draft.of_base(record_name(position.step, "base"), place, position.track)
    digest = draft.check(position.track).track
    if digest != record.track:
        raise TrackDigestError(draft.name, f"a track of digest {record.track}", digest)
    return draft.data


def _check_after(chain: Chain, position: Position, progress: Progress | None) -> None:
    """Raise RecordError or ParentError unless all steps after this one restore.

    progress: See `compact`.
    """
    replay = Replay.at(position)
    rest = [entry for entry in chain.entries if entry.step > position.step]
    for done, entry in enumerate((None, *rest), 1):
        if entry is not None:
            with with_advice(IF_OTHERS_FAIL):
                replay.advance(entry, chain.read(entry))
                replay.check_values(entry.name)
        if progress:
            progress(done, len(rest) + 1)
