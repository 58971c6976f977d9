"""Appends bases and deltas to the chain of one run.

A base is the state itself, exactly. A save writes one if there is a reason (`record.reason`). All
others write a delta to the track. The delta begins with a transition if the tensors or their
nesting have changed since the previous save. Each record is decoded from its own bytes and compared
before it is published, and only then the track advances: after a failed save, the next one removes
what may be left of it on disk, and encodes the difference to the same track.

Not done here: splitting a state into arrays and values (checkpointer); encoding and checking a
record (record.encode).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from codec import version
from codec.caps import names_of
from codec.chain.chain import Chain
from codec.chain.upkeep import Change, compact_in, needless, with_advice
from codec.errors import (
    BudgetError,
    ChainError,
    ChainNotFoundError,
    DTypeError,
    SettingsError,
    StepOrderError,
    TrackDigestError,
    VersionError,
    warn,
)
from codec.record.alphabets import nbytes_of
from codec.record.encode import Draft, encode_delta
from codec.record.header import MAX_STEP
from codec.record.reason import Reason
from codec.record.record import Place, Record
from codec.record.settings import ChainSettings, Overrides, check_exact, settings_at
from codec.record.track import Track
from codec.record.values import MAX_TEXT
from codec.scheme.coders import lacks_kernels
from codec.scheme.delta import Delta
from codec.scheme.remainder import describe_behind
from codec.scheme.tracker import Tracker
from codec.scheme.transition import Transition
from codec.scheme.warmup import is_too_slow
from codec.state import tree
from codec.state.tensors import Arrays, Layout, copy_arrays
from codec.storage.entry import record_name
from codec.storage.location import Location

from .history import History, Written
from .saved import STAGES, Saved

FAR_BEHIND = 0.5  # share of the distance trained since the base; above it, the log warns
SETTLED = 3  # deltas after a base; before that, little was trained and most may be postponed
MOST_NEW = 0.5  # share of a state in a transition; above it, a base is at most twice as large
REQUIRED = "required"  # in place of resume=True: there must be a chain
NONE_RESTORES = (
    "no step restores: put back a copy of the record, or begin a chain in another directory, "
    "without resume"
)

_log = logging.getLogger(__name__)
_DIGITS = re.compile("[0-9]+")


@dataclass(frozen=True)
class Settings:
    """The settings of a `Checkpointer` that the recorder needs."""

    path: Location
    overrides: Overrides
    resume: bool | str  # or REQUIRED
    history: History


@dataclass(frozen=True)
class _Newest:
    """The chain's newest record: its step, identity, run and file."""

    step: int
    identity: str
    run: str | None
    name: str


class _State(NamedTuple):
    """A state taken apart."""

    layout: Layout
    arrays: Arrays
    values: tuple[str, ...]


@dataclass(frozen=True)
class _Prepared:
    """A record that is encoded and not yet written.

    tracker: at the track before a delta, or at a base's.
    """

    draft: Draft
    tracker: Tracker[Track]


class Recorder:
    """Writes a chain. It raises the errors that `Checkpointer` lists.

    Attributes:
        tracker: Holds the track; None before the first save, and after an interrupted save.
        settings: Those given, and the chain's or the default where none were.
        differences: In which of them the given ones differ from the chain's, in words.
    """

    def __init__(self, settings: Settings) -> None:
        self.path, self._overrides = settings.path, settings.overrides
        self.settings = self._overrides.over(ChainSettings.default())
        self.differences = ""
        self._history, self._written = settings.history, Written()
        self.tracker: Tracker[Track] | None = None
        self._newest: _Newest | None = None
        self._needed: list[str] = []  # records that the next delta builds on
        self._unconfirmed: Draft | None = None  # may be there, though its save did not end
        self._pending_reason: Reason | None = None  # for the next record to be a base
        self._is_policy_new = False  # the next record has to hold it
        self._reasons: set[str] = set()  # for bases; each is logged once
        self._has_warned = False  # whether the log says that a restart would be far behind
        if settings.resume == REQUIRED:
            _check_exists(settings.path)  # before a directory is made
        self._directory = settings.path.store(takes_over=bool(settings.resume))
        try:
            self._continue_chain(bool(settings.resume))
        except BaseException:
            self._directory.close()
            raise

    @property
    def step(self) -> int | None:
        """The newest step."""
        return self._newest.step if self._newest else None

    def save(
        self,
        step: int,
        layout: Layout,
        arrays: Arrays,
        values: tuple[str, ...],
        *,
        reason: Reason | None = None,
        unchanged: Iterable[str] = (),
    ) -> Saved:
        """Append one record; it is on disk when this returns.

        Args:
            step: Larger than all previous steps.
            layout: Of the state.
            arrays: Name -> array, as `state.to_arrays` makes them.
            values: JSON texts of the values that are not tensors, see `codec.state.tree`.
            reason: Write a base, for this reason.
            unchanged: Names of tensors that a delta leaves as they are in the track.
        """
        started = time.perf_counter()
        _check_length(step, layout, values)
        self._withdraw_unconfirmed()
        newest = self._newest
        place = Place(step, newest.run, newest.identity) if newest else Place(step)
        state = _State(layout, arrays, values)
        prepared = self._prepare(place, state, reason, unchanged)
        record, *ends, synced = self._write(prepared)
        if prepared.draft.delta is not None and (missing := self._directory.missing(self._needed)):
            # The delta is useless.
            self._log_reason(step, _describe_missing(missing), once=False)
            self._pending_reason = Reason.PARENT_GONE
            self._withdraw_unconfirmed()
            prepared = self._prepare_base(place, state, Reason.PARENT_GONE)
            record, *ends, synced = self._write(prepared)
        draft, delta = prepared.draft, prepared.draft.delta
        written = time.perf_counter()
        self.tracker = None  # if the rest of the save is interrupted, the next save is a base
        self._newest = _Newest(step, record.digest, record.in_run(place.run).run, draft.name)
        self._unconfirmed = None
        self._needed = [] if delta is None else self._needed
        self._needed.append(draft.name)
        self._written = self._written.and_then(record.nbytes, delta)
        try:
            if delta is not None:
                prepared.tracker.commit(delta)
            self.tracker = prepared.tracker
        except TrackDigestError as exc:
            _log.error("the saved record is intact, but %s; the next save writes a base", exc)
        self._pending_reason, self._is_policy_new = None, False
        self._remove_history()
        ends = [started, *ends, written, time.perf_counter()]
        saved = _summary(record, layout, ends, delta, written - synced)
        self._log_behind(saved)
        return saved

    def _reason(self, asked: Reason | None) -> Reason | None:
        """A reason for a base that does not depend on the state; None: try a delta. asked: The
        caller's reason."""
        if self._newest is None:
            return Reason.FIRST
        if reason := asked or self._pending_reason:
            return reason
        if self.tracker and self._history.is_base_due(self._written, self.tracker.track.layout):
            return Reason.MANY_DELTAS
        if self._directory.may_gain_records:
            return Reason.LATE_RECORD
        return Reason.INTERRUPTED if self.tracker is None else None

    def _prepare(
        self, place: Place, state: _State, asked: Reason | None, unchanged: Iterable[str]
    ) -> _Prepared:
        """Encode a delta, or a base if there is a reason for one."""
        if (reason := self._reason(asked)) is not None:
            return self._prepare_base(place, state, reason)
        if is_too_slow(sum(t.size for t in state.layout.tensors if t.lossy)):
            return self._prepare_base(place, state, Reason.KERNELS)
        assert self.tracker is not None, "else there is a reason"
        tracker, track, transition = self.tracker, self.tracker.track, None
        if track.layout != state.layout:
            transition = Transition.between(track.layout, track.arrays, state.layout, state.arrays)
            if transition.nbytes > MOST_NEW * state.layout.nbytes:
                difference = tree.describe_difference(track.layout, state.layout)
                sizes = f"{transition.nbytes:,} of {state.layout.nbytes:,} bytes are new"
                self._log_reason(place.step, f"{difference}: {sizes}")
                return self._prepare_base(place, state, Reason.LAYOUT)
        new = transition.arrays if transition else {}
        kept = {name: track.arrays[name] for name in unchanged if name not in new}
        state = state._replace(arrays=state.arrays | kept)
        if self._is_policy_new:
            place = replace(place, settings=self.settings.field)
        try:
            delta = encode_delta(tracker, place, state.arrays, state.values, transition=transition)
        except BudgetError as exc:
            raise BudgetError(f"step {place.step}: {exc}", exc.budget) from exc
        draft = Draft.of_delta(record_name(place.step, "delta"), place, track, delta)
        return _Prepared(draft, tracker)

    def _prepare_base(self, place: Place, state: _State, reason: Reason) -> _Prepared:
        track = Track.of(state.layout, copy_arrays(state.arrays), state.values)
        parent = None if self._history.keep_steps else place.parent  # it is to be removed
        place = replace(place, settings=self.settings.field, reason=reason, parent=parent)
        draft = Draft.of_base(record_name(place.step, "base"), place, track)
        return _Prepared(draft, Tracker.resume(track, self.settings.coding))

    def _write(self, prepared: _Prepared) -> tuple[Record, float, float, float]:
        """Check a record, and publish it.

        Returns:
            The record as read; when it was encoded, when checked, and when its bytes were durable.
        """
        encoded, draft = time.perf_counter(), prepared.draft
        checked: list[tuple[Record, float]] = []

        def check() -> None:
            try:
                record = draft.check(prepared.tracker.track)
            except TrackDigestError:
                self.tracker = None  # it may be damaged: the next save is a base
                raise
            checked.append((record, time.perf_counter()))
            self._unconfirmed = draft

        synced = self._directory.publish(draft.name, draft.data, check)
        ((record, when),) = checked
        return record, encoded, when, synced

    def _log_behind(self, saved: Saved) -> None:
        """Log once that a restart would be far behind, and the setting that changes it."""
        if saved.behind > FAR_BEHIND and self._written.n >= SETTLED and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "step %d: a restart would be %s (%s). For saves this far apart pass distance=%.2g "
                "instead",
                saved.step,
                describe_behind(saved.behind),
                self.settings.coding.describe(),
                self.settings.coding.closer_distance(saved.distance),
            )

    def _log_reason(self, step: int, reason: str, *, once: bool = True) -> None:
        """Log why this is a base. once: not again for a reason that differs in digits only."""
        key = _DIGITS.sub("0", reason)
        if not once or key not in self._reasons:
            self._reasons.add(key)
            _log.warning("step %d: a full base instead of a delta, because %s", step, reason)

    def _withdraw_unconfirmed(self) -> None:
        """Remove what an interrupted or failed save has left: the next record has another parent.

        Raises:
            LockedError, WriteError: Nobody knows whether it is there.
        """
        draft, newest = self._unconfirmed, self._newest
        if draft is not None and not (newest and newest.name == draft.name):
            self._directory.withdraw(draft.name, draft.data)
        self._unconfirmed = None

    def restore(self, step: int) -> dict[Any, Any]:
        """The newest state, see `Checkpointer.restore`."""
        if self.tracker is None:  # a save was interrupted
            return Chain(self.path).restore(step, dithers=True)
        return self.tracker.track.restore(step if self._written.n else None)

    def close(self) -> None:
        """Let others write to the directory."""
        self._directory.close()

    def _continue_chain(self, resume: bool) -> None:
        try:
            chain = Chain(self.path)
        except ChainNotFoundError:
            return
        if not resume:
            raise StepOrderError(
                f"{self.path}: already holds a chain up to step {chain.steps[-1]}; choose another "
                "directory, or pass resume=True to continue it"
            )
        self._take_over(chain)

    def _take_over(self, chain: Chain) -> None:
        """Go on from the newest step of a chain that restores."""
        with with_advice(NONE_RESTORES):
            position, reason = chain.newest()
        if isinstance(reason, VersionError):
            raise reason  # not damaged: a newer version of this package can continue
        if reason and chain.failure:
            raise chain.failure  # the disk's error: the records may be intact
        after = [e for e in chain.entries if e.step > position.step]
        for entry in after:
            self._directory.set_aside(entry.name)
        if after:
            warn(
                f"{self.path}: goes on from step {position.step}; {len(after)} records after "
                f"it were set aside: {reason}"
            )
        record = position.record
        self._newest = _Newest(position.step, record.identity, record.run, position.entry.name)
        self._written = Written.at(position, chain.entries)
        # Until the next base, maybe more than needed.
        self._needed = [entry.name for entry in chain.entries if entry.step <= position.step]
        field = settings_at(position.settings, record)
        chain_settings = ChainSettings.of_field(field, record.where)
        self.settings = self._overrides.over(chain_settings)
        check_exact(position.track.layout, self.settings, chain_settings, self.path)
        self.differences = self.settings.differences(chain_settings)
        self.tracker = Tracker.resume(position.track, self.settings.coding)
        self._is_policy_new = self.settings.policy.field != chain_settings.policy.field
        if position.writer != version.WRITER:  # a delta stores no writer: its base does
            self._pending_reason = Reason.ANOTHER_VERSION

    def compact(self, keep_steps: int) -> Change:
        """See `Checkpointer.compact`."""
        self._withdraw_unconfirmed()
        self.tracker = None  # for its memory; if what is left cannot be read, a base comes next
        try:
            return compact_in(self._directory, self.path, keep_steps)
        finally:
            with suppress(ChainNotFoundError):
                self._take_over(Chain(self.path))

    def _remove_history(self) -> None:
        """Remove the records that the newest steps do not need, as far as the store permits."""
        keep = self._history.keep_steps
        if keep is None or not self._written.may_shorten(keep) or self._directory.has_rival:
            return
        try:
            self._directory.remove(entry.name for entry in needless(Chain(self.path), keep))
            self._written = self._written.shortened(keep)
        except ChainError as exc:
            _log.warning("old records may not all have been removed: %s", exc)


def _check_exists(path: Location) -> None:
    """Raise ChainNotFoundError, with what to do, unless a chain is there."""
    try:
        Chain(path)
    except ChainNotFoundError as exc:
        raise ChainNotFoundError(
            f"{exc}; resume={REQUIRED!r} needs a chain: give its path, or pass resume=True to "
            "begin a new one"
        ) from exc


def check_resume(resume: Any) -> None:
    """Raise SettingsError unless this is a bool or REQUIRED."""
    if not isinstance(resume, bool) and resume != REQUIRED:
        raise SettingsError(f"resume must be True, False or {REQUIRED!r}; got {resume!r}"[:300])


def _describe_missing(names: Sequence[str]) -> str:
    were, them = ("was", "it") if len(names) == 1 else ("were", "them")
    gone = f"{names_of(names)}, on which it would build, {were} removed by somebody else"
    return f"{gone}; steps before this one that need {them} no longer restore"


def _check_length(step: int, layout: Layout, values: Sequence[str]) -> None:
    """Raise DTypeError for values that are too long for a base."""
    nbytes = sum(map(len, values))
    if nbytes + 12 * len(values) > MAX_TEXT:
        name, longest = max(
            zip(tree.value_names(layout.structure), values), key=lambda pair: len(pair[1])
        )
        raise DTypeError(
            f"step {step}: the values that are not tensors take {nbytes:,} bytes as JSON; the "
            f"limit is {MAX_TEXT:,}; {name!r} alone takes {len(longest):,}. Store it as an array, "
            f"or leave it out: policy={{{name!r}: 'skip'}}"
        )


def check_step(step: Any, newest: int | None) -> int:
    """Raise SettingsError unless this is a step, StepOrderError unless it is after the newest."""
    is_integer = isinstance(step, int | np.integer) and not isinstance(step, bool)
    if not is_integer or not 0 <= step <= MAX_STEP:
        raise SettingsError(f"a step is an integer from 0 to {MAX_STEP}; got {step!r}")
    if newest is not None and step <= newest:
        raise StepOrderError(f"step {step} is not after the chain's newest, {newest}")
    return int(step)


def _summary(
    record: Record, layout: Layout, ends: Sequence[float], delta: Delta | None, commit: float
) -> Saved:
    groups = delta.groups if delta else ()
    non_finite = delta.non_finite if delta else ()
    if non_finite:
        names = names_of(non_finite)
        _log.warning(
            "step %d: NaN, infinity or too large a change in %s; stored exactly in this step",
            record.step,
            names,
        )
    reason = record.reason
    if delta and any(lacks_kernels(delta.coding.coder, g.n, g.encoded.uniform) for g in groups):
        reason = Reason.KERNELS
    stages = {name: end - begin for name, begin, end in zip(STAGES, ends, ends[1:])}
    return Saved(
        record.step,
        record.kind,
        record.nbytes,
        layout.nbytes,
        ends[-1] - ends[0],
        non_finite,
        delta.lean if delta else None,
        stages,
        commit,
        ends[0],
        record.exact_nbytes,
        layout.lossy_nbytes,
        nbytes_of(group for group in groups if group.tensors[0].measure),
        *(delta.rest or (0.0, 0.0) if delta else (0.0, 0.0)),
        reason,
    )
