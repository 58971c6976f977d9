"""Which deltas become one record: they are gathered along the chain, merged, and removed.

Whatever takes the place of something is decoded again, compared, and durable on disk before that is
removed. Not done here: how deltas are coded together (merging), the bytes of the record (merged).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from codec.errors import ForeignRecordError
from codec.record import layers, merged
from codec.record import record as records
from codec.record.merged import Merged, Moment
from codec.record.record import Place, Record
from codec.scheme.delta import Delta
from codec.scheme.track import Track
from codec.storage.directory import Store
from codec.storage.source import Entry, record_name

from .chain import Chain
from .replay import Replay

Deltas = list[tuple[Entry, Record, Delta]]


class Gathering:
    """Consecutive deltas of equal settings, until there are enough of them to merge."""

    def __init__(self, directory: Store, chain: Chain, steps: int) -> None:
        self._directory, self._chain, self._steps = directory, chain, steps
        self._start: Track | None = None
        self._waiting: Deltas = []
        self._due: tuple[Track, Deltas] | None = None
        self._told: dict[int, str] = {}  # step -> track, of the newest merged record...
        self._past: dict[Entry, dict[int, str]] = {}  # ...and of each that it has led past
        self.has_changed = False

    def take(self, replay: Replay, entry: Entry) -> None:
        """Follow one more record of the chain. Raises RecordError, ParentError."""
        record = self._chain.read(entry)
        if replay.is_past(entry) and entry.kind == "base":
            return
        if replay.is_past(entry):  # left over from a merge that was interrupted
            self._past[entry] = merged.tracks_of(record)
            return
        self.tidy()
        alike = not self._waiting or _settings(self._waiting[-1][1]) == _settings(record)
        if entry.kind != "delta" or not alike:
            self._end()
        begins = entry.kind == "delta" and not self._waiting and record.parent == replay.identity
        if begins and replay.track:
            self._start = replay.track.copy()
        for position in replay.advance(entry, record):
            if position.delta is not None:
                self._waiting.append((entry, record, position.delta))
        if entry.kind == "merged":
            self._told = merged.tracks_of(record)
        if len(self._waiting) == self._steps:
            self._end()

    def merge(self) -> None:
        """Put one record in the place of those that are due, if there are several.

        Raises RecordError unless every step restores from its bytes, WriteError.
        """
        due, self._due = self._due, None
        if due and len(due[1]) > 1:
            self._merge(*due)

    def tidy(self) -> None:
        """Remove what the newest merged record has led past, if it tells all of their steps: one
        that goes further may need the others. Raises WriteError.
        """
        past, self._past = self._past, {}
        if past and all(told.items() <= self._told.items() for told in past.values()):
            self._remove(past)

    def _end(self) -> None:
        """Those that wait are due; no other follows them."""
        if self._waiting:
            assert self._start is not None, "copied before the first of them"
            self._due = self._start, self._waiting
        self._start, self._waiting = None, []

    def _merge(self, at: Track, deltas: Deltas) -> None:
        """In several records where one would be too long; ``at`` goes on to after the deltas."""
        (entry, first, delta), (_, last, _) = deltas[0], deltas[-1]
        tables = dict(at.tables)
        for _, _, each in deltas:
            tables |= each.tables
        record = None
        if len(deltas) > 1 and sum(t.lengths.size for t in tables.values()) <= records.MAX_LENGTHS:
            moments = [(Moment(r.step, r.track, d.exact, d.values), d) for _, r, d in deltas]
            content = Merged(layers.layers_of(moments), delta.coding, tables)
            name = record_name(last.step, "merged", entry.step)
            data = merged.dump(Place(last.step, last.run, first.parent, last.identity), content)
            with suppress(ForeignRecordError):  # its header is longer than a reader takes
                record = records.load(data, name)
        if record is not None:
            for moment, part in merged.merged_of(record, at.layout).every():
                records.apply_checked(record, part, at, moment.track)
            records.check_whole(name, at)
            if any(e.name == name for e in self._chain.entries):  # damaged: the deltas are not past
                self._directory.set_aside(name)
            self._directory.publish(name, data)
            self._remove(entry for entry, *_ in deltas)
        elif len(deltas) == 1:
            records.apply_checked(first, delta, at)
        else:
            self._merge(at, deltas[: len(deltas) // 2])
            self._merge(at, deltas[len(deltas) // 2 :])
        at.tables = tables

    def _remove(self, entries: Iterable[Entry]) -> None:
        self._directory.remove(entry.name for entry in entries)
        self.has_changed = True


def _settings(record: Record) -> tuple[Any, ...]:
    return tuple(record.metadata.get(key) for key in ("bits", "budget", "scope", "coder"))
