"""What a training loop holds: saves states into a chain directory.

    with codec.Checkpointer("run.lcc", bits=2) as checkpoints:
        checkpoints.save(step, model.state_dict())

The first save, and one whose tensors changed name, shape or dtype, writes a base; every
other one a delta to the track. A record is decoded again from its own bytes and compared
before it is published, and only then does the track advance: a failed save changes nothing,
and the next one encodes the distance to the same track.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from . import record as records
from .chain import Chain, publish, record_name
from .errors import ChainNotFoundError, SettingsError, StepOrderError, WriteError
from .state import Layout, layout_of
from .track import Step, Tracker, check_settings


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


class Checkpointer:
    """Writes a chain.

    path: the directory, made if it is missing. bits, scope, coder, budget: as for `Tracker`; a
    budget is for the whole record. resume: continue the chain that is there, its track rebuilt
    from disk; without it a directory that already holds records is refused.

    Raises SettingsError, StepOrderError (records are there and resume is False), WriteError.
    Resuming needs every record since the last base: RecordError or ChainError otherwise.
    """

    def __init__(
        self,
        path: str | Path,
        bits: int | None = 2,
        scope: str = "model",
        coder: str = "runlength",
        *,
        budget: float | None = None,
        resume: bool = False,
    ) -> None:
        self.bits, self.budget = check_settings(bits, scope, coder, budget)
        self.path = Path(path)
        self.scope, self.coder = scope, coder
        self.tracker: Tracker | None = None
        self.step: int | None = None
        self._parent = ""
        self._known_overhead: tuple[Layout, int] | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            chain = Chain(self.path)
        except ChainNotFoundError:
            return
        except OSError as exc:
            raise WriteError(f"{path}: is no directory and cannot become one: {exc}") from exc
        if not resume:
            raise StepOrderError(
                f"{path}: already holds a chain up to step {chain.steps[-1]}; choose another "
                "directory, or pass resume=True to continue it"
            )
        for position in chain.replay():
            self._parent, self.step = position.record.digest, position.entry.step
        self.tracker = Tracker.resume(
            position.layout, position.state, position.tables, self.bits, scope, coder, budget
        )

    def save(self, step: int, state: Mapping[str, Any]) -> Saved:
        """Append one record; when this returns it is on disk.

        step: larger than every step before. state: name -> numpy array or torch tensor.
        Raises SettingsError for what is no step, StepOrderError, DTypeError,
        StateMismatchError for names, WriteError, and RecordError if the record could not be
        read again (its header is too long, say); the chain is then as it was.
        """
        started = time.perf_counter()
        whole = isinstance(step, int | np.integer) and not isinstance(step, bool)
        if not whole or not 0 <= step <= records.MAX_STEP:
            raise SettingsError(f"a step is an integer from 0 to {records.MAX_STEP}; got {step!r}")
        step = int(step)
        if self.step is not None and step <= self.step:
            raise StepOrderError(f"step {step} is not after the chain's newest, {self.step}")
        before = tracker = self.tracker
        delta = None
        if tracker is None or tracker.layout != layout_of(state):
            tracker = Tracker(state, self.bits, self.scope, self.coder, self.budget)
            data = records.dump_base(step, tracker.layout, tracker.state, tracker.sums)
        else:
            delta = tracker.prepare(state, self._overhead(tracker))
            track = records.track_digest(tracker.layout, delta.exact, delta.sums or {})
            data = records.dump_delta(step, self._parent, track, delta)
        kind = "base" if delta is None else "delta"
        name = record_name(step, kind)
        parent = self._decode_again(data, name, tracker)
        self.tracker = None  # should what follows be interrupted, the next save is a base
        try:
            publish(self.path / name, lambda file: file.write(data))
        except Exception:
            self.tracker = before
            raise
        self.step, self._parent = step, parent
        if delta is not None:
            tracker.commit(delta)
        self.tracker = tracker
        seconds = time.perf_counter() - started
        return Saved(step, kind, len(data), tracker.layout.nbytes, seconds, delta)

    def close(self) -> None:
        """Nothing is pending: every save is on disk when it returns."""

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _overhead(self, tracker: Tracker) -> int:
        """Bytes of a delta record that a budget has to pay for besides those of the step."""
        if self.budget is None:
            return 0
        if self._known_overhead is None or self._known_overhead[0] is not tracker.layout:
            nbytes = records.overhead(
                tracker.layout, tracker.state, self.scope, self.coder, self.budget
            )
            self._known_overhead = (tracker.layout, nbytes)
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
                record, tracker.layout, step, tracker.state, tracker.sums, change=False
            )
        return record.digest
