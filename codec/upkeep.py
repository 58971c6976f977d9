"""Keeping a chain short: several deltas in one record, and a new base so that history can go.

Whatever takes the place of something is decoded again, compared, and durable on disk before
that is removed; at any moment, should the process be killed, everything that could be restored
can be restored.

Not done here: how deltas are merged (merging), when a base is due (recorder).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from . import merged, merging
from . import record as records
from .chain import Chain
from .errors import ChainNotFoundError, RecordError, SettingsError, StepOrderError, TrackDigestError
from .merged import Merged, Moment
from .record import Place, Record
from .source import Entry, record_name
from .state import Arrays, copy_arrays
from .storage import Directory
from .track import Step
from .walk import Position, Walk

MEASURED_SECONDS, MEASURED_TIMES = 0.5, 5  # for restoring
KEEP = 2  # bases: the newest could turn out to be damaged

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Change:
    """What became of a chain, each before and after.

    records: how many. nbytes: theirs. restore_seconds: for the newest step, measured.
    """

    records: tuple[int, int]
    nbytes: tuple[int, int]
    restore_seconds: tuple[float, float]


def merge(path: str | Path, steps: int = 8, progress: Progress | None = None) -> Change:
    """Replace every ``steps`` consecutive deltas by one record that restores all their steps.

    path: the chain's directory; nobody else may write there. Fewer deltas at the end of the chain
    stay as they are. progress(records looked at, records in all) is called after each.

    Raises SettingsError, LockedError, ChainNotFoundError, RecordError or ParentError for a
    damaged chain, WriteError; what was merged until then stands, nothing is lost.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or not 2 <= steps <= merged.MAX_STEPS:
        raise SettingsError(f"2 to {merged.MAX_STEPS} deltas can be merged; got {steps!r}")
    Chain(path)
    with Directory(Path(path)) as directory:
        chain = Chain(path)
        before = _measured(chain)
        gathering = _Gathering(directory, steps)
        walk = Walk()
        for done, entry in enumerate(chain.entries, 1):
            gathering.take(walk, entry, chain.read(entry))
            if progress:
                progress(done, len(chain.entries))
        return _change(before, _measured(Chain(path)))


def compact(path: str | Path, keep: int = KEEP, progress: Progress | None = None) -> Change:
    """Write a base of the newest step, then remove what lies before the ``keep`` newest bases.

    The steps before the oldest base that is kept cannot be restored any more. path, progress: as
    for `merge`. keep: at least 2, for the new base may turn out to be damaged one day.

    Raises SettingsError, LockedError, ChainNotFoundError, RecordError or ParentError if what would
    be kept does not restore, WriteError; nothing is removed then.
    """
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < KEEP:
        raise SettingsError(f"at least {KEEP} bases are kept; got {keep!r}")
    Chain(path)
    with Directory(Path(path)) as directory:
        chain = Chain(path)
        before = _measured(chain)
        position = chain.at()
        if position.entry.kind != "base":
            there = [e for e in chain.entries if (e.step, e.kind) == (position.step, "base")]
            _check(chain, there, None)  # one that was passed over: it says why
            directory.publish(record_name(position.step, "base"), _base(position))
        chain = Chain(path)
        gone = superseded(chain.entries, keep)
        kept = [e for e in chain.entries if e not in gone]
        _check(chain, kept, progress)
        directory.remove(e.name for e in gone)
        return _change(before, _measured(Chain(path)))


def unpack(
    source: str | Path | IO[bytes], path: str | Path, progress: Progress | None = None
) -> Chain:
    """Write the records of a chain, each of them checked, into another directory.

    source: as for `Chain`. path: made if it is missing; it must not hold records. Raises
    StepOrderError if it does, LockedError, ChainNotFoundError, ArchiveError, RecordError for a
    damaged record, WriteError; what was written until then stands.
    """
    chain = Chain(source)
    with Directory(Path(path)) as directory:
        with suppress(ChainNotFoundError):
            Chain(path)
            raise StepOrderError(f"{path}: holds a chain already; choose another directory")
        for done, entry in enumerate(chain.entries, 1):
            directory.publish(entry.name, chain.read_bytes(entry))
            if progress:
                progress(done, len(chain.entries))
    return Chain(path)


def superseded(entries: Iterable[Entry], keep: int) -> list[Entry]:
    """What the ``keep`` newest bases make needless; whatever of it is left can be restored if
    they are removed in this order."""
    every = sorted(entries, key=lambda e: (e.step, e.kind != "base"))
    bases = [e.step for e in every if e.kind == "base"]
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


def _measured(chain: Chain) -> tuple[int, int, float]:
    """Records, their bytes, and seconds to restore the newest step: the fastest of a few times."""
    times: list[float] = []
    while not times or (sum(times) < MEASURED_SECONDS and len(times) < MEASURED_TIMES):
        started = time.perf_counter()
        chain.at()
        times.append(time.perf_counter() - started)
    return len(chain.entries), chain.nbytes, min(times)


def _change(before: tuple[int, int, float], after: tuple[int, int, float]) -> Change:
    return Change((before[0], after[0]), (before[1], after[1]), (before[2], after[2]))


def _base(position: Position) -> bytes:
    """A base that stands in the place of the record that led here."""
    record = position.record
    place = Place(position.step, record.run, record.parent, record.identity)
    layout, state, sums = position.layout, position.state, position.sums
    data = records.dump_base(place, layout, state, sums, position.values, position.tables)
    again = records.load(data, record_name(position.step, "base"))
    records.base_of(again)
    if again.track != record.track:
        raise TrackDigestError(again.where, f"a track of digest {record.track}", again.track)
    return data


def _check(chain: Chain, entries: list[Entry], progress: Progress | None) -> None:
    """Raise RecordError or ParentError unless these records restore all their steps."""
    walk = Walk()
    for done, entry in enumerate(entries, 1):
        record = chain.read(entry)
        if not walk.is_past(entry):
            for _ in walk.advance(entry, record, every=True):
                pass
        if progress:
            progress(done, len(entries))


class _Gathering:
    """Consecutive deltas of equal settings, until there are enough of them to merge."""

    def __init__(self, directory: Directory, steps: int) -> None:
        self._directory, self._steps = directory, steps
        self._waiting: list[tuple[Entry, Record, Step]] = []
        self._before: tuple[Arrays, dict[str, int], tuple[str, ...]] = ({}, {}, ())

    def take(self, walk: Walk, entry: Entry, record: Record) -> None:
        """One more record of the chain; the walk goes on to it."""
        if walk.is_past(entry):
            self._directory.remove([entry.name])  # left over from a merge that was interrupted
            return
        alike = not self._waiting or _settings(self._waiting[-1][1]) == _settings(record)
        if entry.kind != "delta" or not alike:
            self._merge(walk)
        if not self._waiting:
            self._before = copy_arrays(walk.state), dict(walk.sums), walk.values
        for position in walk.advance(entry, record):
            if position.delta is not None:
                self._waiting.append((entry, record, position.delta))
        if len(self._waiting) == self._steps:
            self._merge(walk)

    def _merge(self, walk: Walk) -> None:
        """Put one record in the place of those that wait, if there are several."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) < 2:
            return
        deltas = [
            (Moment(record.step, record.track, step.exact, step.values), step)
            for _, record, step in waiting
        ]
        settings = replace(waiting[-1][2], groups=(), exact={}, non_finite=(), values={})
        content = Merged(merging.layers_of(deltas), settings, walk.tables)
        (entry, first, _), (_, last, _) = waiting[0], waiting[-1]
        name = record_name(last.step, "merged", entry.step)
        data = merged.dump(Place(last.step, last.run, first.parent, last.identity), content)
        self._decode_again(data, name, walk)
        self._directory.publish(name, data)
        self._directory.remove(entry.name for entry, *_ in waiting)

    def _decode_again(self, data: bytes, name: str, walk: Walk) -> None:
        """Raises RecordError unless every step restores from these bytes."""
        record = records.load(data, name)
        state, sums, values = self._before
        assert walk.layout is not None, "it has just been at the last of these deltas"
        for moment, part in merged.merged_of(record, walk.layout).every():
            sums, values = records.apply_checked(
                record, walk.layout, part, state, sums, values, track=moment.track
            )
        records.check_whole(name, walk.layout, state, sums)


def _settings(record: Record) -> tuple[Any, ...]:
    return tuple(record.metadata.get(key) for key in ("bits", "budget", "scope", "coder"))
