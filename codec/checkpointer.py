"""What a training loop holds: saves states into a chain directory.

    with codec.Checkpointer("run.lcc", bits=2) as checkpoints:
        checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})

The first save, and one whose tensors changed name, shape, dtype or nesting, writes a base; every
other one a delta to the track. A record is decoded again from its own bytes and compared
before it is published, and only then does the track advance: a failed save changes nothing,
and the next one encodes the distance to the same track.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import record as records
from .chain import Chain, Position, record_name
from .errors import (
    ChainNotFoundError,
    ParentError,
    RecordError,
    SettingsError,
    SkippedRecordWarning,
    StepOrderError,
    VersionError,
)
from .policy import Policy, family
from .record import Place
from .state import Arrays, Layout, copy_arrays, spec_of, to_arrays
from .storage import Directory
from .track import Step, Tracker, check_settings
from .tree import take_apart

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Saved:
    """What one save wrote.

    nbytes: size of the record on disk. full_nbytes: size of the same state uncompressed
    (float32 for lossy tensors). seconds: of the whole save. delta: None on a base.
    """

    step: int
    kind: str
    nbytes: int
    full_nbytes: int
    seconds: float
    delta: Step | None

    @property
    def ratio(self) -> float:
        """full_nbytes / nbytes: 30.0 means that the record is 30 times smaller."""
        return self.full_nbytes / self.nbytes

    @property
    def levels(self) -> int:
        """Levels other than 0, of all alphabets; 0 for a base."""
        return sum(g.encoded.levels.size - 1 for g in self.delta.groups) if self.delta else 0

    @property
    def tables(self) -> tuple[int, int]:
        """How many code tables are new, and how many are ones sent before."""
        coded = [g.encoded for g in self.delta.groups if g.encoded.table] if self.delta else []
        return sum(not e.cached for e in coded), sum(e.cached for e in coded)

    @property
    def non_finite(self) -> tuple[str, ...]:
        """Tensors with NaN or infinity in their delta, stored whole."""
        return self.delta.non_finite if self.delta else ()


class Checkpointer:
    """Writes a chain.

    path: the directory, made if it is missing. bits, scope, coder, budget: as for `Tracker`; a
    budget is for the whole record. policy: pattern of names -> "lossy", "exact" or "skip", see
    `Policy`. resume: continue the chain that is there, its track rebuilt from disk; without it a
    directory that already holds records is refused.

    Raises SettingsError, LockedError if somebody else writes there, StepOrderError (records are
    there and resume is False), WriteError. On resuming, damaged records at the end are set aside
    with SkippedRecordWarning; RecordError or ChainError if no step restores.
    """

    def __init__(
        self,
        path: str | Path,
        bits: int | None = 2,
        scope: str = "model",
        coder: str = "runlength",
        *,
        budget: float | None = None,
        policy: Mapping[str, str] | None = None,
        resume: bool = False,
    ) -> None:
        self.bits, self.budget = check_settings(bits, scope, coder, budget)
        self.policy = Policy(policy)
        self.path = Path(path)
        self.scope, self.coder = scope, coder
        self.tracker: Tracker | None = None
        self.step: int | None = None
        self._values: tuple[str, ...] = ()
        self._run: str | None = None
        self._parent: str | None = None
        self._known_overhead: tuple[tuple[Any, ...], int] = ((), 0)
        self._directory = Directory(self.path)
        try:
            self._begin(resume)
        except BaseException:
            self._directory.close()
            raise

    def save(self, step: int, state: Mapping[Any, Any]) -> Saved:
        """Append one record; when this returns it is on disk.

        step: larger than every step before. state: mappings, lists and tuples of torch tensors,
        numpy arrays, numbers, texts and None, nested as one likes.
        Raises SettingsError for what is no step, StepOrderError, DTypeError,
        StateMismatchError for names, WriteError, and RecordError if the record could not be
        read again (its header is too long, say); the chain is then as it was.
        """
        started = time.perf_counter()
        step = self._checked(step)
        parts = take_apart(state, self.policy.is_skipped)
        layout = self._layout(parts.tensors, parts.structure)
        arrays = to_arrays(parts.tensors, layout)
        before = tracker = self.tracker
        place = Place(step, self._run, self._parent)
        delta = None
        if tracker is None or tracker.layout != layout:
            tracker = Tracker.resume(
                layout, copy_arrays(arrays), {}, self.bits, self.scope, self.coder, self.budget
            )
            data = records.dump_base(place, layout, tracker.state, tracker.sums, parts.values)
        else:
            delta, data = self._delta(tracker, place, arrays, parts.values)
        kind = "base" if delta is None else "delta"
        name = record_name(step, kind)
        digest = self._decode_again(data, name, tracker)
        self.tracker = None  # should what follows be interrupted, the next save is a base
        try:
            self._directory.publish(name, data)
        except Exception:
            self.tracker = before
            raise
        self.step, self._parent, self._run = step, digest, self._run or digest[: records.RUN]
        if delta is not None:
            tracker.commit(delta)
        self.tracker, self._values = tracker, parts.values
        seconds = time.perf_counter() - started
        saved = Saved(step, kind, len(data), layout.nbytes, seconds, delta)
        if saved.non_finite:
            names = ", ".join(map(repr, saved.non_finite))
            _log.warning("step %d: NaN or infinity in %s; stored whole in this step", step, names)
        return saved

    def close(self) -> None:
        """Let others write to the directory. Every save is on disk already."""
        self._directory.close()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

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
        position, reason = _newest(chain)
        after = [e for e in chain.entries if e.step > position.entry.step]
        for entry in after:
            self._directory.set_aside(entry.name)
        if after:
            warnings.warn(
                f"{self.path}: goes on from step {position.entry.step}; {len(after)} records after "
                f"it were set aside: {reason}",
                SkippedRecordWarning,
                stacklevel=4,
            )
        self.step, self._parent = position.entry.step, position.record.digest
        self._run, self._values = position.record.run, position.values
        self.tracker = Tracker.resume(
            position.layout, position.state, position.tables,
            self.bits, self.scope, self.coder, self.budget,
        )  # fmt: skip

    def _checked(self, step: int) -> int:
        whole = isinstance(step, int | np.integer) and not isinstance(step, bool)
        if not whole or not 0 <= step <= records.MAX_STEP:
            raise SettingsError(f"a step is an integer from 0 to {records.MAX_STEP}; got {step!r}")
        if self.step is not None and step <= self.step:
            raise StepOrderError(f"step {step} is not after the chain's newest, {self.step}")
        return int(step)

    def _layout(self, tensors: Mapping[str, Any], structure: str) -> Layout:
        specs = (
            spec_of(name, tensor, self.policy.is_lossy(name), family(name))
            for name, tensor in tensors.items()
        )
        return Layout(tuple(specs), structure)

    def _delta(
        self, tracker: Tracker, place: Place, arrays: Arrays, values: tuple[str, ...]
    ) -> tuple[Step, bytes]:
        changed = {i: v for i, (v, old) in enumerate(zip(values, self._values)) if v != old}
        texts = sum(len(v) + 12 for v in changed.values())

        def overhead(exact: Arrays) -> int:
            return self._overhead(place.step, tracker.layout, exact) + texts

        delta = replace(tracker.prepare_arrays(arrays, overhead), values=changed)
        track = records.track_digest(
            tracker.layout, tracker.state | delta.exact, delta.sums or {}, values
        )
        return delta, records.dump_delta(place, track, delta)

    def _overhead(self, step: int, layout: Layout, exact: Arrays) -> int:
        """Bytes of a delta record that a budget has to pay for besides those of the step."""
        if self.budget is None:
            return 0
        digits = len(str(step))
        key = (digits, id(layout), *exact)
        if self._known_overhead[0] != key:
            nbytes = records.overhead(digits, layout, exact, self.scope, self.coder, self.budget)
            self._known_overhead = (key, nbytes)
        return self._known_overhead[1]

    def _decode_again(self, data: bytes, name: str, tracker: Tracker) -> str:
        """Rebuild the track from the bytes about to be published; returns their digest.

        Raises TrackDigestError if they do not lead to the track that was meant.
        """
        record = records.load(data, name)
        if record.kind == "base":
            records.base_of(record)
        else:
            step = records.delta_of(record, tracker.layout, tracker.tables)
            records.apply_checked(
                record, tracker.layout, step, tracker.state, tracker.sums, self._values,
                change=False,
            )  # fmt: skip
        return record.digest


def _newest(chain: Chain) -> tuple[Position, Exception | None]:
    """The newest step that restores, and why it is not the chain's newest."""
    position = None
    try:
        for reached in chain.replay():
            position = reached
        assert position is not None, "replay yields or raises"
        return position, None
    except VersionError:
        raise  # not damaged: for a newer version of this package to continue
    except (RecordError, ParentError) as exc:
        step = position.entry.step if position else max(chain.verify().steps, default=None)
        if step is None:
            raise
        for reached in chain.replay(step):  # from the start: a record may have failed half-way
            position = reached
        assert position is not None, "replay yields or raises"
        return position, exc
