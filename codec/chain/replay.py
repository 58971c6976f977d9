"""Applies records to a track, one after another.

Not done here: choosing the records and their order (chain).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from codec.caps import short
from codec.errors import MalformedRecordError, ParentError, RerunNeededError
from codec.record import record as records
from codec.record.merged import merged_of
from codec.record.record import Record
from codec.record.track import Track
from codec.record.values import check_values
from codec.scheme.delta import Delta
from codec.state.selection import Selection
from codec.state.tensors import Layout
from codec.state.tree import StructureError
from codec.storage.source import Entry

GRADIENTS = "lcc.rerun"  # key of a state: see codec.rerun


@dataclass(frozen=True)
class Position:
    """A step of the chain while it is replayed.

    Attributes:
        step: Its number.
        entry: The file it was read from.
        record: The content of that file.
        track: The live track, valid until the replay goes on.
        delta: What led here; None on a base and in a merged record.
        writer: Program and version that wrote the base before it; None if that does not say.
        settings: In the newest record that holds any, since that base; {} if none does.
    """

    step: int
    entry: Entry
    record: Record
    track: Track
    delta: Delta | None
    writer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def whole(self) -> dict[Any, Any]:
        """The state as it was saved: nested, in its own libraries and dtypes, in new memory.

        Raises:
            DTypeError: A tensor came from torch and torch is not installed.
            MalformedRecordError: Edits have made an invalid value.
            RerunNeededError: The record holds gradients in place of the state.
        """
        self.check_state()
        try:
            state = self.track.restore()
        except StructureError as exc:
            expected = "values after their edits"
            raise MalformedRecordError(self.entry.name, expected, short(exc)) from exc
        state.pop(GRADIENTS, None)
        return state

    def check_state(self) -> None:
        """Raise RerunNeededError if the record holds gradients in place of the state."""
        if self.needs_rerun:
            raise RerunNeededError(
                f"{self.entry.name}: holds gradients, from which the optimizer's own steps make "
                "the state: codec.rerun.restore(source, optimizer, step)"
            )

    @property
    def needs_rerun(self) -> bool:
        """Whether only an optimizer's steps lead to the state that was saved."""
        return self.record.kind != "base" and self.has_gradients

    @property
    def has_gradients(self) -> bool:
        """Whether a `codec.rerun.GradientCheckpointer` wrote it."""
        structure = self.track.layout.structure
        if GRADIENTS not in structure:
            return False
        ((_, children),) = json.loads(structure).items()
        return any(key == GRADIENTS for key, _ in children)


def state_nbytes(layout: Layout) -> int:
    """Bytes of a saved state, float32 where lossy, without what `codec.rerun` adds."""
    return sum(t.track_nbytes for t in layout.tensors if not t.name.startswith(f"{GRADIENTS}/"))


def is_past(entry: Entry, step: int | None) -> bool:
    """Whether a reader at a step has passed a record, because other records hold its steps.

    A base of exactly this step is not past: it must hold the same state. step: None before the
    first record.
    """
    return step is not None and (entry.step < step if entry.kind == "base" else entry.first <= step)


class Replay:
    """A track to which records are applied one after another.

    Attributes:
        track: None before the first base, and after an error in the middle of a record.
        step: The step of the track.
        run: The run of the records.
        identity: The identity of the record that was applied last.
        writer: Program and version that wrote the newest base, and the deltas after it.
        settings: In the newest record that holds any, since that base; {} if none does.
        selection: The tensors that the track has; None for all.
    """

    def __init__(self, selection: Selection | None = None) -> None:
        self.track: Track | None = None
        self.selection = selection
        self.step: int | None = None
        self.run: str | None = None
        self.identity: str | None = None
        self.writer: str | None = None
        self.settings: Mapping[str, Any] = {}
        self._checked: tuple[str, ...] = ()

    @classmethod
    def at(cls, position: Position) -> Replay:
        """A replay that goes on from a position, and takes its track over.

        In the middle of a merged record it has no track, since no record begins there.
        """
        replay, record = cls(position.track.selection), position.record
        if position.step == record.step:
            replay.track, replay.step = position.track, position.step
        replay.run, replay.identity = record.run, record.identity
        replay.writer, replay.settings = position.writer, position.settings
        return replay

    def is_past(self, entry: Entry) -> bool:
        """See the function `is_past`. A replay that has lost its track can use any base."""
        return is_past(entry, self.step) and (entry.kind != "base" or self.track is not None)

    def advance(
        self, entry: Entry, record: Record, stop: int | None = None, *, all_steps: bool = False
    ) -> Iterator[Position]:
        """Apply one record.

        Args:
            entry: Its file.
            record: Its content.
            stop: The last step to go to.
            all_steps: Yield a position for each step of a merged record, not only for the last.

        Raises:
            ParentError: The record does not follow the record before it.
            RecordError: The record cannot be applied; the track is then None.
        """
        record = record.in_run(self.run)
        if record.run != (self.run or record.run):
            raise ParentError(
                f"{entry.name}: is of the run {record.run}, the records before it are of {self.run}"
            )
        delta, track = None, self.track
        origin = record if record.kind == "base" else self
        writer, settings = origin.writer, record.settings or origin.settings
        parts: list[tuple[int, str, Delta]] = []
        tables = None  # that a merged record leaves
        if record.kind == "base":
            base = records.base_of(record, selection=self.selection)
            if track is not None and self.step == record.step and record.replaces == self.identity:
                records.check_track(record.where, record.track, track)
            track = base
        elif track is None or record.parent != self.identity:
            last = f"has digest {self.identity}" if track else "does not exist"
            raise ParentError(
                f"{entry.name}: its parent, digest {record.parent}, is missing or damaged; "
                f"the usable record before it {last}"
            )
        elif record.kind == "delta":
            delta = records.delta_of(record, track)
            parts = [(record.step, record.track, delta)]
        else:
            content = merged_of(record, track.layout, self.selection)
            deltas = content.single_steps() if all_steps else content.parts(stop)
            parts = [(s.number, s.track, d) for s, d in deltas if stop is None or s.number <= stop]
            tables = dict(content.tables)
        self.track = None  # if a part fails, the track is in between
        for step, digest, part in parts:
            records.apply_checked(record, part, track, digest)
            if step != parts[-1][0]:
                yield Position(step, entry, record, track, delta, writer, settings)
        if tables is not None:
            track.tables = tables
        self.track, self.run, self.identity = track, record.run, record.identity
        self.writer, self.settings = writer, settings
        self.step = parts[-1][0] if parts else record.step
        yield Position(self.step, entry, record, track, delta, writer, settings)

    def check_values(self, where: str) -> None:
        """Raise MalformedRecordError if an edit since the last check made an invalid value.

        where: The record, for messages.
        """
        values = self.track.values if self.track else ()
        pairs = zip_longest(values, self._checked)
        check_values(where, (new for new, old in pairs if new is not None and new != old))
        self._checked = values
