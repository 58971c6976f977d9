"""Keeps a chain short: writes a base of the newest step, and removes the records before a base.

The new base is decoded again, compared, and durable on disk before an old record is removed.
Whenever the process is killed, the newest step and those that stay can still be restored.

Not done here: when a base is due (saving.recorder).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, TypeVar

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
from codec.storage.entry import Entry, record_name
from codec.storage.location import Location

from .chain import Chain
from .replay import Position, Replay

KEEP = 2  # bases: the newest may turn out to be damaged
IF_NEWEST_FAILS = (
    "a Checkpointer with resume=True sets aside what does not restore at the chain's end"
)
IF_OTHERS_FAIL = (
    "nothing was removed: put back a copy of what is damaged or missing, or rename that record if "
    "no step needs it (verify tells)"
)

Progress = Callable[[int, int], None]
T = TypeVar("T")


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
    keep: int = KEEP,
    progress: Progress | None = None,
    *,
    base: bool = False,
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
        storage_options: As for `Checkpointer`.

    Raises:
        SettingsError: ``keep`` is out of range.
        ChainNotFoundError: Nothing is there.
        LockedError: Another writer is at work.
        RecordError, ParentError: The remaining records would not restore; nothing is removed.
        WriteError: The disk refuses.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < KEEP:
        raise SettingsError(f"at least {KEEP} bases are kept; got {keep!r}")
    location = Location(path, storage_options)
    Chain(location)
    with location.store() as directory:
        chain = Chain(location)
        n_before, nbytes_before = len(chain.entries), chain.nbytes
        with with_advice(IF_NEWEST_FAILS):
            position = chain.at()
        if position.entry.kind != "base" and not position.has_gradients:
            same_step = [e for e in chain.entries if (e.step, e.kind) == (position.step, "base")]
            _check(chain, same_step)  # the restore has passed such a base over: raise why
            data = _base(position)
            if base or _saves_bytes(chain, position.step, len(data), keep):
                directory.publish(record_name(position.step, "base"), data)
        chain = Chain(location)
        intact = without_damaged_bases(chain, keep)
        needless = superseded(intact, keep)
        _check(chain, [e for e in intact if e not in needless], progress)
        directory.remove(e.name for e in needless)
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


def superseded(entries: Sequence[Entry], keep: int) -> list[Entry]:
    """The records that the ``keep`` newest bases make needless, in the order to remove them.

    In this order, the remaining records restore at any time. entries: in the order of a chain.
    """
    return before_newest(entries, [e.kind == "base" for e in entries], keep)[::-1]


def before_newest(items: Sequence[T], counts: Sequence[bool], keep: int) -> list[T]:
    """The items before the ``keep`` newest that count; none if fewer count.

    items: records of a chain, or steps of several ranks; oldest first.
    """
    counted = [i for i, item_counts in enumerate(counts) if item_counts]
    return list(items[: counted[-keep]]) if len(counted) >= keep else []


def check_keep(name: str, value: Any, least: int) -> None:
    """Raise SettingsError unless a setting of what is kept is None or an integer in its range."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_integer and value >= least):
        raise SettingsError(f"{name} is an integer from {least} on, or None; got {value!r}")


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
    base = Entry(step, "base", record_name(step, "base"), nbytes)
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


def _check(chain: Chain, entries: list[Entry], progress: Progress | None = None) -> None:
    """Raise RecordError or ParentError unless these records restore all their steps."""
    replay = Replay()
    for done, entry in enumerate(entries, 1):
        with with_advice(IF_OTHERS_FAIL):
            replay.advance(entry, chain.read(entry))
            replay.check_values(entry.name)
        if progress:
            progress(done, len(entries))
