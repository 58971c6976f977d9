"""The chain of one run as it grows: bases and deltas, one after another.

The first save, one whose tensors changed name, shape, dtype or nesting, one after many deltas, and
one where others may still write before it (see `Store`) writes a base: the state itself, exactly.
Every other one writes a delta to the track. A record is
decoded again from its own bytes and compared before it is published, and only then does the track
advance: a failed save changes nothing, and the next one encodes the distance to the same track.

Not done here: what a state looks like, and when it is saved (checkpointer).
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from codec.caps import names_of
from codec.chain.chain import Chain
from codec.chain.upkeep import KEEP, advised, intact, superseded
from codec.errors import (
    BudgetError,
    ChainError,
    ChainNotFoundError,
    DTypeError,
    SettingsError,
    StepOrderError,
    TrackDigestError,
    VersionError,
    WriteError,
    warn,
)
from codec.record import record as records
from codec.record.diagnosis import changed, examined
from codec.record.record import Place, Record
from codec.scheme.coding import Coding
from codec.scheme.delta import Delta
from codec.scheme.track import MAX_TEXT, Track
from codec.scheme.tracker import Tracker
from codec.state import edits, tree
from codec.state.tensors import Arrays, Layout, TensorSpec, copy_arrays
from codec.storage.location import Location
from codec.storage.source import record_name

OUTGROWN = 4  # deltas may take as many times the bytes of their base before there is a new one...
AT_LEAST = 32  # ...but not before there are so many: of small models a base is mostly header
NONE_RESTORES = (
    "no step restores: put back a copy of it, or begin anew in another directory, without resume"
)
STAGES = ("encode", "check", "write", "advance")  # of a save

_log = logging.getLogger(__name__)
_DIGITS = re.compile("[0-9]+")


@dataclass(frozen=True)
class Saved:
    """What one save wrote.

    nbytes: size of the record on disk. exact_nbytes: what of it is stored exactly, and so outside
    a budget: tensors and values, with their entries in the header; all of a base. full_nbytes: size
    of the same state uncompressed (float32 for lossy tensors). lossy_nbytes: the lossy tensors'
    part of full_nbytes, which a budget is a share of. seconds: of the whole save. levels: other
    than 0, of all alphabets.
    tables: how many code tables are new, and how many are ones sent before. non_finite: tensors
    with NaN or infinity in their delta, stored whole. delta: what was encoded; None on a base, and
    where another process did it. stages: seconds of "encode" (all up to the record's bytes),
    "check" (decoding them again), "write" (until they are on disk) and "advance" (of the track).
    commit: what of "write" came last, when the file, fsynced already, got its name and the
    directory was fsynced. began: when, by `time.perf_counter`, a clock that all processes of a
    machine share.
    """

    step: int
    kind: str
    nbytes: int
    full_nbytes: int
    seconds: float
    levels: int = 0
    tables: tuple[int, int] = (0, 0)
    non_finite: tuple[str, ...] = ()
    delta: Delta | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    commit: float = 0.0
    began: float = 0.0
    exact_nbytes: int = 0
    lossy_nbytes: int = 0

    @property
    def ratio(self) -> float:
        """full_nbytes / nbytes: 30.0 means that the record is 30 times smaller; inf if skipped."""
        return self.full_nbytes / self.nbytes if self.nbytes else math.inf

    def result(self) -> Saved:
        """Itself; of a `PendingSave`, what was written once it is."""
        return self


@dataclass(frozen=True)
class Settings:
    """Of a `Checkpointer`, as far as they matter to the recorder."""

    path: Location
    coding: Coding
    resume: bool
    base_every: int | None
    keep_bases: int | None


@dataclass(frozen=True)
class _End:
    """The chain's newest record: its step, identity, run and file."""

    step: int
    identity: str
    run: str
    name: str


@dataclass(frozen=True)
class _Since:
    """The newest base, and what was written since: bytes and records."""

    base_nbytes: int = 0
    nbytes: int = 0
    n: int = 0

    def and_then(self, kind: str, nbytes: int) -> _Since:
        """With one more record."""
        if kind == "base":
            return _Since(nbytes)
        return _Since(self.base_nbytes, self.nbytes + nbytes, self.n + 1)

    def is_long(self, base_every: int | None) -> bool:
        """Whether it is time for a base."""
        if base_every is None:
            return False
        outgrown = self.nbytes > OUTGROWN * self.base_nbytes
        return self.n >= base_every or (outgrown and self.n >= AT_LEAST)


class Recorder:
    """Writes a chain. Errors: see `Checkpointer`."""

    def __init__(self, settings: Settings) -> None:
        self.path, self.coding = settings.path, settings.coding
        self._base_every, self._keep_bases = settings.base_every, settings.keep_bases
        self._since = _Since()
        self.tracker: Tracker | None = None
        self._end: _End | None = None
        self._begun: str | None = None  # the record that may be there though nobody was told
        self._known_header: tuple[tuple[Any, ...], int] = ((), 0)
        self._reasons: set[str] = set()  # for bases: each is logged once
        self._directory = settings.path.store(takes_over=settings.resume)
        try:
            self._begin(settings.resume)
        except BaseException:
            self._directory.close()
            raise

    @property
    def step(self) -> int | None:
        """The newest step."""
        return self._end.step if self._end else None

    def save(self, step: int, layout: Layout, arrays: Arrays, values: tuple[str, ...]) -> Saved:
        """Append one record; when this returns it is on disk.

        arrays: of the layout's tensors, as `state.to_arrays` makes them. values: see tree.
        """
        started = time.perf_counter()
        _check_length(step, layout, values)
        self._take_back()
        before, end = (tracker := self.tracker), self._end
        place = Place(step, end.run, end.identity) if end else Place(step)
        delta = None
        if tracker is not None and tracker.track.layout != layout:
            self._log_reason(step, difference(tracker.track.layout, layout))
            tracker = None
        if self._directory.unsettled or self._since.is_long(self._base_every):
            tracker = None
        if tracker is None:
            tracker = Tracker.resume(Track.of(layout, copy_arrays(arrays), values), self.coding)
            data = records.dump_base(place, tracker.track)
        else:
            delta = self._delta(tracker, step, arrays, values)
            data = records.dump_delta(place, tracker.track.digest_after(delta), delta)
        kind = "base" if delta is None else "delta"
        name = record_name(step, kind)
        encoded = time.perf_counter()
        record = records.load(data, name)
        self._check(record, tracker, delta, lambda: self._delta(tracker, step, arrays, values))
        checked = time.perf_counter()
        self.tracker = None  # should what follows be interrupted, the next save is a base
        self._begun = name
        try:
            synced = self._directory.publish(name, data)
        except Exception:
            self.tracker = before
            if not self._directory.doubtful:
                self._begun = None
            raise
        written = time.perf_counter()
        self._end = _End(step, record.digest, record.run, name)
        self.tracker = _committed(tracker, delta)
        self._since = self._since.and_then(kind, len(data))
        if kind == "base":
            self._forget()
        ends = started, encoded, checked, written, time.perf_counter()
        return _told(record, layout, ends, delta, written - synced)

    def _log_reason(self, step: int, reason: str) -> None:
        """Why a base is written instead of a delta: once for names that differ in numbers only."""
        key = _DIGITS.sub("0", reason)
        if key not in self._reasons:
            self._reasons.add(key)
            _log.warning("step %d: a full base instead of a delta, because %s", step, reason)

    def _take_back(self) -> None:
        """Remove the record of a save that was interrupted before anybody could be told: another
        one may get its step. Raises WriteError."""
        begun, known = self._begun, self._end.name if self._end else None
        if begun is not None and begun != known:
            try:
                self._directory.remove([begun])
            except WriteError as exc:
                # Of a store that refuses to delete: a base, which comes next, needs nothing of it.
                kept = isinstance(exc.__cause__, PermissionError) and self._directory.unsettled
                if not kept and not isinstance(exc.__cause__, FileNotFoundError):
                    raise
                if kept:
                    _log.warning("%s stays, though its save had failed: %s", begun, exc)
        self._begun = None

    def restore(self, step: int) -> dict[Any, Any]:
        """The state of the newest step, see `Checkpointer.restore`."""
        if self.tracker is None:  # a save was interrupted: see there
            return Chain(self.path).restore(step)
        return self.tracker.track.restore()

    def close(self) -> None:
        """Let others write to the directory."""
        self._directory.close()

    def _begin(self, resume: bool) -> None:
        try:
            chain = Chain(self.path)
        except ChainNotFoundError:
            return
        if not resume:
            raise StepOrderError(
                f"{self.path}: already holds a chain up to step {chain.steps[-1]}; choose another "
                "directory, or pass resume=True to continue it"
            )
        with advised(NONE_RESTORES):
            position, reason = chain.newest()
        if isinstance(reason, VersionError):
            raise reason  # not damaged: for a newer version of this package to continue
        if reason and chain.failure:
            raise chain.failure  # the disk's: what it cannot read now may be whole
        if position.step != position.record.step:  # a merged record that is wrong further on
            first = position.entry.first
            position = chain.at(max(step for step in chain.steps if step < first))
        after = [e for e in chain.entries if e.step > position.step]
        for entry in after:
            self._directory.set_aside(entry.name)
        if after:
            warn(
                f"{self.path}: goes on from step {position.step}; {len(after)} records after "
                f"it were set aside: {reason}"
            )
        record = position.record
        self._end = _End(position.step, record.identity, record.run, position.entry.name)
        for entry in chain.entries:
            if entry.step <= position.step:
                self._since = self._since.and_then(entry.kind, entry.nbytes)
        self.tracker = Tracker.resume(position.track, self.coding)

    def _forget(self) -> None:
        """Remove what lies before the bases that are kept; where that fails, it stays."""
        if self._keep_bases is not None and not self._directory.contested:
            try:
                chain = Chain(self.path)
                gone = superseded(intact(chain, self._keep_bases), self._keep_bases)
                self._directory.remove(entry.name for entry in gone)
            except ChainError as exc:
                _log.warning("history stays: %s", exc)

    def _delta(self, tracker: Tracker, step: int, arrays: Arrays, values: tuple[str, ...]) -> Delta:
        track = tracker.track

        def header(exact: Arrays) -> int:
            return self._header_nbytes(step, track.layout, exact)

        try:
            delta = tracker.prepare_arrays(arrays, header)
        except BudgetError as exc:
            raise BudgetError(f"step {step}: {exc}") from exc
        return replace(delta, values=edits.changes(track.values, values))

    def _header_nbytes(self, step: int, layout: Layout, exact: Arrays) -> int:
        """Bytes of a delta's header that a budget has to pay for."""
        if self.coding.budget is None:
            return 0
        digits = len(str(step))
        key = (digits, layout, *exact)
        if self._known_header[0] != key:
            self._known_header = (key, records.header_nbytes(digits, layout, exact, self.coding))
        return self._known_header[1]

    def _check(
        self, record: Record, tracker: Tracker, delta: Delta | None, encode: Callable[[], Delta]
    ) -> None:
        """Decode a record whose bytes are about to be published.

        Args:
            record: Read from those bytes.
            tracker: Its track is where the record begins.
            delta: What was encoded; None for a base.
            encode: Encodes it once more.

        Raises:
            TrackDigestError: It does not lead to the track that was meant.
        """
        if delta is None:
            records.base_of(record)
            return
        again = records.delta_of(record, tracker.track)
        try:
            records.preview_checked(record, again, tracker.track, delta.sums or {})
        except TrackDigestError as exc:
            error = examined(exc, tracker.track, delta, again, encode)
            if changed(tracker.track):
                self.tracker = None  # the next save is a base
            raise error from exc


def _committed(tracker: Tracker, delta: Delta | None) -> Tracker | None:
    """The tracker after a record that is on disk; None if its track cannot be followed, so that
    the next record is a base."""
    try:
        if delta is not None:
            tracker.commit(delta)
    except TrackDigestError as exc:
        _log.error("what was saved is whole, but %s; the next save writes a base", exc)
        return None
    return tracker


def difference(before: Layout, now: Layout) -> str:
    """What makes a delta impossible between states of these layouts: the first thing, by name."""
    old, new = ({t.name: t for t in layout.tensors} for layout in (before, now))
    for t in now.tensors:
        if t.name not in old:
            return f"tensor {t.name!r} appeared"
    for t in before.tensors:
        if t.name not in new:
            return f"tensor {t.name!r} disappeared"
        if new[t.name] != t:
            return f"tensor {t.name!r} is {_described(new[t.name])} and was {_described(t)}"
    names, others = (dict.fromkeys(tree.value_names(la.structure)) for la in (now, before))
    for name in names:
        if name not in others:
            return f"value {name!r} appeared"
    for name in others:
        if name not in names:
            return f"value {name!r} disappeared"
    return "containers or tensors are in another order, of another kind, or shared otherwise"


def _described(t: TensorSpec) -> str:
    kind = "lossy" if t.lossy else "exact"
    return f"{t.dtype} {list(t.shape)} of {t.library}, {kind}{t.family and f' as {t.family!r}'}"


def _check_length(step: int, layout: Layout, values: Sequence[str]) -> None:
    """Raise DTypeError for values that no base can hold: deltas to them would lead nowhere."""
    nbytes = sum(map(len, values))
    if nbytes + 12 * len(values) > MAX_TEXT:
        name, longest = max(
            zip(tree.value_names(layout.structure), values), key=lambda pair: len(pair[1])
        )
        raise DTypeError(
            f"step {step}: what is no tensor takes {nbytes:,} bytes as text, and a record holds "
            f"{MAX_TEXT:,}; {name!r} alone takes {len(longest):,}. Store it as an array, "
            f"or leave it out: policy={{{name!r}: 'skip'}}"
        )


def check_history(base_every: Any, keep_bases: Any) -> None:
    """Raise SettingsError unless these say when there is a new base, and how many are kept."""
    for name, value, least in (("base_every", base_every, 1), ("keep_bases", keep_bases, KEEP)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            raise SettingsError(f"{name} is an integer from {least} on, or None; got {value!r}")


def check_step(step: Any, newest: int | None) -> int:
    """Raise SettingsError for what is no step, StepOrderError unless it is after the newest."""
    whole = isinstance(step, int | np.integer) and not isinstance(step, bool)
    if not whole or not 0 <= step <= records.MAX_STEP:
        raise SettingsError(f"a step is an integer from 0 to {records.MAX_STEP}; got {step!r}")
    if newest is not None and step <= newest:
        raise StepOrderError(f"step {step} is not after the chain's newest, {newest}")
    return int(step)


def _told(
    record: Record, layout: Layout, ends: Sequence[float], delta: Delta | None, commit: float
) -> Saved:
    coded = [group.encoded for group in delta.groups] if delta else []
    tables = [e.cached for e in coded if e.table]
    non_finite = delta.non_finite if delta else ()
    if non_finite:
        names = names_of(non_finite)
        _log.warning(
            "step %d: NaN or infinity in %s; stored whole in this step", record.step, names
        )
    stages = {name: end - begin for name, begin, end in zip(STAGES, ends, ends[1:])}
    return Saved(
        record.step,
        record.kind,
        record.nbytes,
        layout.nbytes,
        ends[-1] - ends[0],
        sum(e.levels.size - 1 for e in coded),
        (tables.count(False), tables.count(True)),
        non_finite,
        delta,
        stages,
        commit,
        ends[0],
        record.exact_nbytes,
        layout.lossy_nbytes,
    )
