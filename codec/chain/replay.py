"""Applies records to a track, one after another.

Not done here: choosing the records and their order (chain).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from codec.caps import short
from codec.errors import MalformedRecordError, ParentError, RerunNeededError
from codec.record import record as records
from codec.record.record import Record
from codec.record.track import Track
from codec.record.values import check_values
from codec.scheme.delta import Delta
from codec.state.selection import Selection
from codec.state.tensors import Layout
from codec.state.tree import StructureError
from codec.storage.entry import Entry

GRADIENTS = "lcc.rerun"  # key of a state: see codec.rerun


@dataclass(frozen=True)
class Position:
    """A step of a chain while it is replayed.

    Attributes:
        entry: The file it was read from.
        record: The content of that file.
        track: The live track, valid until the replay goes on.
        delta: What led here; None on a base.
        writer: Program and version that wrote the base before it; None if that does not say.
        settings: In the newest record that holds any, since that base; {} if none does.
        work: Of the deltas since that base, see `Delta.work`.
    """

    entry: Entry
    record: Record
    track: Track
    delta: Delta | None
    writer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    work: int = 0

    @property
    def step(self) -> int:
        """Its number."""
        return self.record.step

    def whole(self, *, dithers: bool = False) -> dict[Any, Any]:
        """The state as it was saved: nested, in its own libraries and dtypes, in new memory.

        dithers: For a training to go on from: after a delta, moments in octaves and roots get noise
        of up to half a rounding step, seeded by the checkpoint's step; see `measures.dithered`.

        Raises:
            DTypeError: A tensor came from torch and torch is not installed.
            MalformedRecordError: Edits have made an invalid value.
            RerunNeededError: The record holds gradients in place of the state.
        """
        self.check_state()
        try:
            state = self.track.restore(self.step if dithers and self.delta else None)
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


def following(record: Record, where: str, run: str | None, identity: str | None) -> Record:
    """Check that a record continues the chain; return it with its run. Raises ParentError.

    Args:
        record: A base follows any of its run, a delta its parent.
        where: The record's name.
        run: Of the records before it; None if there are none.
        identity: Of the record applied last; None if there is none.
    """
    record = record.in_run(run)
    if record.run != (run or record.run):
        raise ParentError(
            f"{where}: is of the run {record.run}, the records before it are of {run}"
        )
    if record.kind != "base" and (identity is None or record.parent != identity):
        last = "does not exist" if identity is None else f"has digest {identity}"
        raise ParentError(f"{_lost(where, record.parent)}; the usable record before it {last}")
    return record


def lost_before(where: str, parent: str | None, identities: Set[str | None]) -> str:
    """A sentence if records are missing before a chain's newest base; else "".

    Older bases are not looked at: an interrupted removal may have left some records before them.
    where, parent: of the base, which has no parent if the records before it were to be removed.
    identities: of these records.
    """
    return _lost(where, parent) if parent and identities and parent not in identities else ""


def _lost(where: str, parent: str | None) -> str:
    return f"{where}: its parent, digest {parent}, is missing or damaged"


class Replay:
    """A track to which records are applied one after another.

    Attributes:
        track: None before the first base, and after a delta that failed while it was applied.
        step: The step of the track.
        run: The run of the records.
        identity: The identity of the record that was applied last.
        writer: Program and version that wrote the newest base, and the deltas after it.
        settings: In the newest record that holds any, since that base; {} if none does.
        work: Of the deltas since that base, see `Delta.work`.
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
        self.work = 0
        self._checked: tuple[str, ...] = ()

    @classmethod
    def at(cls, position: Position) -> Replay:
        """A replay that goes on from a position, and takes its track over."""
        replay, record = cls(position.track.selection), position.record
        replay.track, replay.step = position.track, position.step
        replay.run, replay.identity = record.run, record.identity
        replay.writer, replay.settings = position.writer, position.settings
        replay.work = position.work
        return replay

    def advance(self, entry: Entry, record: Record) -> Position:
        """Apply one record.

        Args:
            entry: Its file.
            record: Its content.

        Raises:
            ParentError: The record does not follow the record before it.
            RecordError: The record cannot be applied; the track may then be None.
        """
        last = self.identity if self.track else None
        record = following(record, entry.name, self.run, last)
        delta, track = None, self.track
        origin = record if record.kind == "base" else self
        writer, settings = origin.writer, record.settings or origin.settings
        if record.kind == "base":
            base = records.base_of(record, selection=self.selection)
            if track is not None and self.step == record.step and record.replaces == self.identity:
                records.check_track(record.where, record.track, track)
            track = base
        else:
            assert track is not None, "or it would have no parent"
            delta = records.delta_of(record, track)
            self.track = None  # if the delta fails, the track is in between
            records.apply_checked(record, delta, track)
        self.track, self.run, self.identity = track, record.run, record.identity
        self.step, self.writer, self.settings = record.step, writer, settings
        self.work = 0 if delta is None else self.work + delta.work
        return Position(entry, record, track, delta, writer, settings, self.work)

    def check_values(self, where: str) -> None:
        """Raise MalformedRecordError if an edit since the last check made an invalid value.

        where: The record, for messages.
        """
        values = self.track.values if self.track else ()
        pairs = zip_longest(values, self._checked)
        check_values(where, (new for new, old in pairs if new is not None and new != old))
        self._checked = values
