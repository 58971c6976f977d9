"""What a training loop holds: saves its state into a chain directory, here or behind a URL.

    with codec.Checkpointer("run.lcc", bits=2) as checkpoints:
        checkpoints.save(step, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})

Here a state becomes a layout, tensors and values; recorder writes them, in this process or in
another one beside the training (background).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from codec.chain.chain import Chain
from codec.errors import ChainNotFoundError, LccError, SettingsError, WriteError
from codec.scheme.coding import Coding
from codec.scheme.tracker import Tracker
from codec.state.policy import Policy, family
from codec.state.tensors import Layout, fingerprint, signature, spec_of, to_arrays
from codec.state.tree import Parts, Template, flatten
from codec.storage.location import Location

from .background import Background
from .recorder import Recorder, Saved, Settings, check_history, check_step
from .turn import Turn

_log = logging.getLogger(__name__)

WHEN_BUSY = ("wait", "skip")
BASE_EVERY = 1000


class Checkpointer:
    """Writes a chain.

    path: the directory, made if it is missing, or its URL: see below. bits, scope, coder, budget:
    as for `Tracker`; a budget also pays for the record's header. policy: pattern of names ->
    "lossy", "exact" or "skip", see `Policy`; the first save logs what may be a model but is exact
    because of its name. resume: continue the chain that is there, its track rebuilt from disk;
    without it a directory that already holds records is refused.

    base_every: how many deltas are followed by a base, the state itself, so that a restore never
    takes long. It comes earlier once the deltas are together 4 times as large as the base before
    them, and at least 32. None: only the first one, and where tensors change. keep_bases: what
    lies before so many of the newest bases, at least 2, is removed; None keeps all.

    asynchronous: a process of its own encodes and writes, and `save` returns as soon as it has a
    copy of the state. when_busy: what `save` does while the one before is still being written:
    "wait" for it, or "skip" this step.

    With a URL (s3://bucket/run.lcc and whatever else fsspec opens) storage_options are what its
    filesystem is to be told, nothing where it finds credentials itself. No lock reaches so far:
    resume=True takes the chain over from a writer that has not closed it, or not knowing what
    became of its newest save; if he lives, his next `save` raises LockedError. The first save after
    that, and after one of which nobody knows whether it arrived, writes a base. What is not
    promised there, `codec.storage.lease` says.

    Raises SettingsError, LockedError if somebody else writes there, StepOrderError (records are
    there and resume is False), WriteError. On resuming, damaged records at the end are set aside
    with SkippedRecordWarning; RecordError or ChainError if no step restores.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        bits: int | None = 2,
        scope: str = "model",
        coder: str = "runlength",
        *,
        budget: float | None = None,
        policy: Mapping[str, str] | None = None,
        base_every: int | None = BASE_EVERY,
        keep_bases: int | None = None,
        resume: bool = False,
        asynchronous: bool = False,
        when_busy: str = "wait",
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.coding = Coding(bits, scope, coder, budget)
        check_history(base_every, keep_bases)
        if when_busy not in WHEN_BUSY:
            raise SettingsError(
                f"when_busy must be one of {', '.join(WHEN_BUSY)}; got {when_busy!r}"
            )
        self._policy = Policy(policy)
        self._front, self._is_first = Front(self._policy), True
        location = Location(path, storage_options).absolute()
        self.path, self._location, self._closed = location.path, location, False
        self._turn = Turn(location)
        settings = Settings(location, self.coding, resume, base_every, keep_bases)
        self._recorder: Recorder | Background
        if asynchronous:
            self._recorder = Background(settings, self._turn, skips=when_busy == "skip")
        else:
            self._recorder = Recorder(settings)

    @property
    def tracker(self) -> Tracker | None:
        """The track as it is now; None before the first save, and if it is elsewhere."""
        return self._recorder.tracker

    @property
    def step(self) -> int | None:
        """The newest step; None before the first."""
        return self._recorder.step

    def save(self, step: int, state: Mapping[Any, Any]) -> Saved:
        """Append one record; unless asynchronous, it is on disk when this returns.

        step: larger than every step before. state: mappings, lists and tuples of torch tensors,
        numpy arrays, numbers, texts and None, nested as one likes.

        Raises SettingsError for what is no step, BudgetError, StepOrderError, DTypeError,
        StateMismatchError for names, WriteError (also once this is closed), LockedError if the
        chain is another writer's by now, and RecordError if the record could not be
        read again (its header is too long, say); the chain is then as it was.

        If asynchronous, this returns a `PendingSave`: it waits for the record where one of its
        fields is read. An error of the save before is raised by the next call, which then saves
        nothing. The kind of a step that was skipped is "skipped".
        """
        return self._turn.run(self._save, step, state)

    def _save(self, step: int, state: Mapping[Any, Any]) -> Saved:
        self._check_open()
        step = check_step(step, self.step)
        parts, layout = self._front.look_at(state)
        if self._is_first:
            self._is_first = False
            self._say_unknown_models(layout)
        if isinstance(self._recorder, Background):
            return self._recorder.save(step, layout, parts)
        arrays = to_arrays(parts.tensors, layout)
        return self._recorder.save(step, layout, arrays, parts.values)

    def _say_unknown_models(self, layout: Layout) -> None:
        """Log which exact entries may be weights under an unknown name."""
        if patterns := self._policy.unknown_models(layout.tensors):
            _log.warning(
                "%s: %s: stored exactly, at full size. If these are weights, pass policy={%s}, or "
                "save them below 'model'. Set them to 'exact' to silence this",
                self._location,
                ", ".join(patterns),
                ", ".join(f"{p!r}: 'lossy'" for p in patterns),
            )

    def restore(self) -> dict[Any, Any] | None:
        """The state that a training loop goes on from: that of the newest step, None before the
        first. It is what `codec.restore` gives, without reading the chain once more.

        Once this is closed, it reads the chain: others may have gone on since.

        Raises DTypeError for torch tensors without torch; if asynchronous, what the save before
        did, and what `codec.restore` does.
        """
        return self._turn.run(self._restore)

    def _restore(self) -> dict[Any, Any] | None:
        if not self._closed:
            return None if self.step is None else self._recorder.restore(self.step)
        try:
            return Chain(self._location).restore()
        except ChainNotFoundError:
            return None

    def close(self) -> None:
        """Wait for what is being saved, and let others write to the directory; nothing is saved
        through this object afterwards. Does nothing in a fork, whose data loaders and the like may
        leave the same `with`."""
        if not self._turn.elsewhere:
            self._turn.run(self._close)

    def _close(self) -> None:
        self._closed = True
        self._recorder.close()

    def _check_open(self) -> None:
        if self._closed:
            raise WriteError(
                f"{self._location}: this Checkpointer is closed; make a new one with resume=True "
                "to go on, or read what is there with codec.restore"
            )

    def __enter__(self) -> Checkpointer:
        """Raises WriteError once this is closed."""
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except LccError as exc:
            if error is None:
                raise
            _log.error("the newest save failed too: %s", exc)  # the loop's own error matters more


class Front:
    """From a state to its parts and their layout; one that looks like the last is soon done."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._template: Template | None = None
        self._looks: tuple[tuple[Any, ...], ...] = ()
        self._signatures: list[Hashable] | None = None  # None: the layout is not that of looks
        self._layout = Layout(())

    def look_at(self, state: Mapping[Any, Any]) -> tuple[Parts, Layout]:
        """Raises what `flatten` and `spec_of` do."""
        parts = self._template.flatten(state) if self._template else None
        if parts is None:
            self._template = self._signatures = None
            whole = flatten(state, self._policy.is_skipped)
            parts = replace(whole, fingerprints=tuple(map(fingerprint, whole.tensors.values())))
            self._template = Template(state, parts, self._policy.is_skipped)
        if self._signatures is None or parts.fingerprints != self._looks:
            signatures = list(map(signature, parts.tensors.values(), parts.fingerprints))
            if signatures != self._signatures:
                self._signatures = None
                specs = (
                    spec_of(
                        name,
                        tensor,
                        self._policy.is_lossy(name, parts.ties.get(name, ())),
                        family(name),
                    )
                    for name, tensor in parts.tensors.items()
                )
                self._layout = Layout(tuple(specs), parts.structure)
            self._looks, self._signatures = parts.fingerprints, signatures
        return parts, self._layout
