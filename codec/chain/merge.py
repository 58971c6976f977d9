"""Merges consecutive deltas of a chain into one record, and removes them.

A merged record is decoded again, compared, and durable on disk before anything is removed.

Not done here: how deltas are coded together (record.layers), the bytes of the record
(record.merged).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from codec.errors import ForeignRecordError
from codec.record import layers, merged
from codec.record import record as records
from codec.record.exact import ExactPart
from codec.record.merged import Merged, MergedStep
from codec.record.record import Place, Record
from codec.record.track import Track
from codec.scheme.delta import Delta
from codec.storage.directory import Store
from codec.storage.source import Entry, record_name

from .chain import Chain
from .replay import Replay

Deltas = list[tuple[Entry, Record, Delta]]


class DeltaMerger:
    """Collects consecutive deltas of equal settings, and merges them when there are enough.

    A delta that changes the layout, or has settings, is not merged.

    Attributes:
        has_changed: Whether records were merged or removed.

    Args:
        directory: Where records are written and removed.
        chain: The same directory as it is read.
        steps: How many deltas become one record.
        coder: The coder of the merged records; None for that of the deltas.
        least: How many deltas, at least, become one record.
    """

    def __init__(
        self,
        directory: Store,
        chain: Chain,
        steps: int,
        coder: str | None = None,
        least: int = 2,
    ) -> None:
        self._directory, self._chain, self._steps = directory, chain, steps
        self._coder, self._least = coder, least
        self._start: Track | None = None  # where the first of the collected deltas begins
        self._collected: Deltas = []
        self._due: tuple[Track, Deltas] | None = None
        # Step -> track digest, of the newest merged record.
        self._merged_tracks: dict[int, str] = {}
        # The same of each record that the newest merged record replaces and that is still there.
        self._leftovers: dict[Entry, dict[int, str]] = {}
        self.has_changed = False

    def add(self, replay: Replay, entry: Entry) -> None:
        """Apply the next record of the chain, and collect it if it is a delta.

        Raises:
            RecordError, ParentError: The record is damaged, or follows one that is.
        """
        record = self._chain.read(entry)
        if replay.is_past(entry):  # left over from a merge that was interrupted
            if entry.kind != "base":
                self._leftovers[entry] = merged.tracks_of(record)
            return
        self.remove_leftovers()
        alike = not self._collected or self._collected[-1][1].coding == record.coding
        can_merge = entry.kind == "delta" and not (record.has_transition or record.settings)
        if not can_merge or not alike:
            self._set_due()
        begins = can_merge and not self._collected and record.parent == replay.identity
        if begins and replay.track:
            self._start = replay.track.copy()
        for position in replay.advance(entry, record):
            if can_merge and position.delta is not None:
                self._collected.append((entry, position.record, position.delta))
        if entry.kind == "merged":
            self._merged_tracks = merged.tracks_of(record)
        if len(self._collected) == self._steps:
            self._set_due()

    def finish(self) -> None:
        """Let the next `merge` replace the last deltas, even if they are few."""
        self._set_due()

    def merge(self) -> None:
        """Replace the deltas that are due by one record, if there are several.

        Raises:
            RecordError: A step does not restore from the new record.
            WriteError: The record cannot be written, or the deltas not removed.
        """
        due, self._due = self._due, None
        if due and len(due[1]) >= self._least:
            self._merge(*due)

    def remove_leftovers(self) -> None:
        """Remove the records that the newest merged record replaces, if it holds all their steps.

        If one of them goes further, it may need the others. Raises WriteError.
        """
        old, self._leftovers = self._leftovers, {}
        if old and all(tracks.items() <= self._merged_tracks.items() for tracks in old.values()):
            self._remove(old)

    def _set_due(self) -> None:
        """Let the next `merge` replace the collected deltas; no other delta joins them."""
        if self._collected:
            assert self._start is not None, "copied before the first delta"
            self._due = self._start, self._collected
        self._start, self._collected = None, []

    def _merge(self, at: Track, deltas: Deltas) -> None:
        """Replace deltas by one record, or by several if one would be too long.

        at: The track before the deltas; it advances by all of them.
        """
        (entry, first, delta), (_, last, _) = deltas[0], deltas[-1]
        tables = dict(at.tables)
        for _, _, next_delta in deltas:
            tables |= next_delta.tables
        record = None
        n_lengths = sum(table.lengths.size for table in tables.values())
        if len(deltas) >= self._least and n_lengths <= records.MAX_LENGTHS:
            steps = [(MergedStep(r.step, r.track, ExactPart.of(d)), d) for _, r, d in deltas]
            rest = deltas[-1][2].rest
            coding = replace(delta.coding, coder=self._coder or delta.coding.coder)
            content = Merged(layers.layers_of(steps, self._coder), coding, tables, rest)
            name = record_name(last.step, "merged", entry.step)
            place = Place(last.step, last.run, first.parent, last.identity)
            data = merged.dump(place, content, at.layout)
            with suppress(ForeignRecordError):  # its header is longer than a reader takes
                record = records.load(data, name)
        if record is not None:
            for step, part in merged.merged_of(record, at.layout).single_steps():
                records.apply_checked(record, part, at, step.track)
            records.check_whole(name, at)
            if any(e.name == name for e in self._chain.entries):
                # It is damaged: else the deltas would have been past, and not collected.
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
