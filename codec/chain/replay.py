"""The track while records are applied one after another: where a replay is.

Not done here: which records, and in which order (chain).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from codec.caps import short
from codec.errors import MalformedRecordError, ParentError
from codec.record import record as records
from codec.record.merged import merged_of
from codec.record.record import Record
from codec.scheme.tables import CodeTable
from codec.scheme.track import Step
from codec.state.tensors import Arrays, Layout, from_arrays
from codec.state.tree import Parts, StructureError, put_together
from codec.storage.source import Entry


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

        Raises DTypeError if a tensor came from torch and torch is not installed,
        MalformedRecordError if edits led to what is no value.
        """
        try:
            return whole(self.layout, self.state, self.values)
        except StructureError as exc:
            expected = "values after their edits"
            raise MalformedRecordError(self.entry.name, expected, short(exc)) from exc


def is_past(entry: Entry, step: int | None) -> bool:
    """Whether a reader that has reached a step has no use for a record: others told of its steps.

    A base of that very step is not past, for it has to hold the same state. step: None before the
    first record.
    """
    return step is not None and (entry.step < step if entry.kind == "base" else entry.first <= step)


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
        self._checked: tuple[str, ...] = ()
        self.run: str | None = None
        self.identity: str | None = None

    def is_past(self, entry: Entry) -> bool:
        """See the function of this name; a walk that has lost its track can use any base."""
        return is_past(entry, self.step) and (entry.kind != "base" or self.layout is not None)

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

    def check_values(self, where: str) -> None:
        """Raise MalformedRecordError if an edit made since the last check led to what is no
        value. where: the record."""
        pairs = zip_longest(self.values, self._checked)
        records.check_values(where, (v for v, old in pairs if v is not None and v != old))
        self._checked = self.values

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
