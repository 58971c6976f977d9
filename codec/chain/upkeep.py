"""Keeping a chain short: several deltas in one record, and a new base so that history can go.

Whatever takes the place of something is decoded again, compared, and durable on disk before
that is removed; at any moment, should the process be killed, everything that could be restored
can be restored.

Not done here: which deltas are merged (gathering) and how (merging), when a base is due (recorder).
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
from codec.record import record as records
from codec.record.record import Place
from codec.scheme.warmup import warm_up
from codec.storage.location import Location
from codec.storage.source import Entry, record_name

from .chain import Chain
from .merge import Gathering
from .replay import Position, Replay

MEASURED_SECONDS, MEASURED_TIMES = 0.5, 5  # for restoring
KEEP = 2  # bases: the newest could turn out to be damaged
NEWEST = "a Checkpointer with resume=True sets aside what does not restore at the chain's end"
KEPT = (
    "nothing was removed: put back a copy of what is damaged or missing, or rename that record if "
    "no step needs it (verify tells)"
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Change:
    """What became of a chain, each before and after.

    records: how many. nbytes: theirs. restore_seconds: for the newest step, measured.
    """

    records: tuple[int, int]
    nbytes: tuple[int, int]
    restore_seconds: tuple[float, float]

    @classmethod
    def of(cls, before: tuple[int, int, float], after: tuple[int, int, float]) -> Change:
        """From each before and each after."""
        return cls(*zip(before, after))  # type: ignore[arg-type]


def merge(
    path: str | os.PathLike[str],
    steps: int = 8,
    progress: Progress | None = None,
    *,
    quick: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Change:
    """Replace every ``steps`` consecutive deltas by one record that restores all their steps.

    path: the chain's directory or its URL (storage_options: as for `Checkpointer`); nobody else may
    write there. Fewer deltas at the end of the chain stay as they are. Where one record would be
    too long for its header there are several. progress(records looked at, records in all) is called
    after each. quick: how long restoring takes is measured once before and after, not a few times:
    a training waits meanwhile.

    Records that are damaged, and what cannot be restored without them, stay as they are, with
    SkippedRecordWarning. Raises SettingsError, LockedError, ChainNotFoundError, RecordError or
    ParentError if the newest step does not restore (a Checkpointer with resume=True sets aside what
    is damaged), VersionError, WriteError; what was merged until then stands, nothing is lost.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or not 2 <= steps <= merged.MAX_STEPS:
        raise SettingsError(f"2 to {merged.MAX_STEPS} deltas can be merged; got {steps!r}")
    location = Location(path, storage_options)
    Chain(location)
    with location.store() as directory:
        chain = Chain(location)
        before = _measured(chain, quick)[0]
        gathering = Gathering(directory, chain, steps)
        damaged: list[RecordError | ParentError] = []
        replay = Replay()
        for done, entry in enumerate(chain.entries, 1):
            try:
                gathering.take(replay, entry)
            except VersionError:
                raise
            except (RecordError, ParentError) as exc:
                damaged.append(exc)
            gathering.merge()
            if progress:
                progress(done, len(chain.entries))
        gathering.tidy()
        if damaged:
            warn(
                f"{location}: {len(damaged)} records stay as they are, for they are damaged or "
                f"follow one that is; put back a copy of it, or rename it if no step needs it "
                f"(verify tells): {damaged[0]}"
            )
        changed = gathering.has_changed
        return Change.of(before, _measured(Chain(location), quick)[0] if changed else before)


def compact(
    path: str | os.PathLike[str],
    keep: int = KEEP,
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Change:
    """Write a base of the newest step, then remove what lies before the ``keep`` newest bases;
    those that cannot be read count for none, and stay.

    The steps before the oldest base that is kept cannot be restored any more. path, progress,
    storage_options: as for `merge`. keep: at least 2, for the new base may turn out to be damaged
    one day.

    Raises SettingsError, LockedError, ChainNotFoundError, RecordError or ParentError if what would
    be kept does not restore, WriteError; nothing is removed then.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < KEEP:
        raise SettingsError(f"at least {KEEP} bases are kept; got {keep!r}")
    location = Location(path, storage_options)
    Chain(location)
    with location.store() as directory:
        chain = Chain(location)
        before, position = _measured(chain)
        if position.entry.kind != "base":
            there = [e for e in chain.entries if (e.step, e.kind) == (position.step, "base")]
            _check(chain, there, None)  # one that was passed over: it says why
            directory.publish(record_name(position.step, "base"), _base(position))
        chain = Chain(location)
        whole = intact(chain, keep)
        gone = superseded(whole, keep)
        _check(chain, [e for e in whole if e not in gone], progress)
        directory.remove(e.name for e in gone)
        return Change.of(before, _measured(Chain(location))[0])


def unpack(
    source: str | os.PathLike[str] | IO[bytes],
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> Chain:
    """Write the records of a chain, each of them checked, into another directory.

    source: as for `Chain`. path: made if it is missing; it must not hold records. storage_options:
    of each of them that is a URL. Raises
    StepOrderError if it does, LockedError, ChainNotFoundError, ArchiveError, RecordError for a
    damaged record, WriteError; what was written until then stands.
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
    """What the ``keep`` newest bases make needless; whatever of it is left can be restored if
    they are removed in this order. A base within the steps of a merged record, which may be needed
    and leans on what lies before, counts for none."""
    every = sorted(entries, key=lambda e: (e.step, e.kind != "base"))
    several = [e for e in every if e.kind == "merged"]
    bases = [e.step for e in every if e.kind == "base"]
    bases = [s for s in bases if not any(e.first <= s < e.step for e in several)]
    if len(bases) < keep:
        return []
    oldest = bases[-keep]
    gone = [e for e in every if e.step < oldest or (e.step == oldest and e.kind != "base")]
    return gone[::-1]


def intact(chain: Chain, n: int) -> list[Entry]:
    """The chain's records without those bases that cannot be read, until n can: newest first."""
    gone: set[Entry] = set()
    for entry in sorted((e for e in chain.entries if e.kind == "base"), key=lambda e: -e.step):
        if n == 0:
            break
        try:
            chain.read(entry)
            n -= 1
        except RecordError:
            gone.add(entry)
    return [e for e in chain.entries if e not in gone]


@contextmanager
def advised(what: str) -> Iterator[None]:
    """To a RecordError or ParentError, add what to do about it."""
    try:
        yield
    except VersionError:
        raise
    except RecordError as exc:
        raise type(exc)(exc.where, exc.expected, f"{exc.found}; {what}") from exc
    except ParentError as exc:
        raise ParentError(f"{exc}; {what}") from exc


def _measured(chain: Chain, quick: bool = False) -> tuple[tuple[int, int, float], Position]:
    """Records, their bytes, and seconds to restore the newest step: once where that takes long, or
    if one is in a hurry, else the fastest of a few times. And where it led."""
    if not quick:
        warm_up()  # else the first restore would count what the kernels take to load
    times: list[float] = []
    most = 1 if quick else MEASURED_TIMES
    while not times or (sum(times) < MEASURED_SECONDS and len(times) < most):
        with warnings.catch_warnings(action="ignore" if times else None):  # once is enough
            started = time.perf_counter()
            with advised(NEWEST):
                position = chain.at()
            times.append(time.perf_counter() - started)
    return (len(chain.entries), chain.nbytes, min(times)), position


def _base(position: Position) -> bytes:
    """A base that stands in the place of the record that led here."""
    record = position.record
    place = Place(position.step, record.run, record.parent, record.identity)
    data = records.dump_base(place, position.track)
    again = records.load(data, record_name(position.step, "base"))
    records.base_of(again)
    if again.track != record.track:
        raise TrackDigestError(again.where, f"a track of digest {record.track}", again.track)
    return data


def _check(chain: Chain, entries: list[Entry], progress: Progress | None) -> None:
    """Raise RecordError or ParentError unless these records restore all their steps."""
    replay = Replay()
    for done, entry in enumerate(entries, 1):
        with advised(KEPT):
            record = chain.read(entry)
            if not replay.is_past(entry):
                for _ in replay.advance(entry, record, every=True):
                    replay.check_values(entry.name)
        if progress:
            progress(done, len(entries))
