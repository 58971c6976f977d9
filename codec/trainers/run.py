"""The chain of one training: opened where the training begins, saved into, closed at its end.

A trainer tells at which step it begins. At 0 it is a new training, which needs a new directory;
later it is resumed from a checkpoint of the trainer's own, and the chain goes back to that step if
it was further (rewinding).

Trainers do not always tell that they failed. What a training of this thread, or of one that has
ended, left open is closed by the next one in the same directory.

A chain behind a URL cannot go back: a training that is resumed before its end needs another place.

Not done here: when to save, and what (the modules of the trainers).
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from codec.chain.chain import Chain
from codec.chain.rewind import rewind
from codec.errors import ChainNotFoundError, LccError, LockedError, SettingsError, StepOrderError
from codec.saving.checkpointer import Checkpointer
from codec.saving.saved import PendingSave, Saved
from codec.state.policy import EXACT
from codec.storage.location import Location

from .pointer import TOKEN

_log = logging.getLogger(__name__)
_open: WeakValueDictionary[str, Run] = WeakValueDictionary()  # by directory, of this process


class Run:
    """Of one training at a time.

    path: the chain's directory, or its URL. resume: also a training that begins at step 0 takes
    over a chain that is there. settings: of a `Checkpointer`. Raises TypeError for those that it
    has not, SettingsError for what is no place.
    """

    def __init__(
        self, path: str | os.PathLike[str], resume: bool, settings: Mapping[str, Any]
    ) -> None:
        inspect.signature(Checkpointer).bind(path, resume=resume, **settings)
        self._location = Location(path, settings.get("storage_options")).absolute()
        self.path = self._location.path
        self._resume, self._settings = resume, dict(settings)
        if isinstance(policy := settings.get("policy"), Mapping):  # which may skip all it can
            self._settings["policy"] = {TOKEN: EXACT, **policy}
        self._checkpoints: Checkpointer | None = None
        self._thread: threading.Thread | None = None
        self._is_replaced = False
        self._seen = 0
        self._under_way: Saved | None = None  # the newest, if it may be

    @property
    def where(self) -> str:
        """The path as messages tell it."""
        return str(self._location)

    @property
    def is_open(self) -> bool:
        """Whether a training is under way that this belongs to."""
        return self._checkpoints is not None or self._is_replaced

    @property
    def name(self) -> str:
        """Of the chain, without where it is."""
        return self.where.rstrip("/").replace(os.sep, "/").rpartition("/")[2]

    @property
    def step(self) -> int | None:
        """The chain's newest step; None before the first."""
        return self._checkpoints.step if self._checkpoints else None

    def begin(self, step: int | None, *, resumed: bool = False) -> None:
        """A training begins after ``step``, or begins again; None: wherever the chain ends.

        resumed: at step 0 it goes on as well, from a checkpoint of that step. Else 0 is a new
        training, and all that a chain has been until then is put aside, its step 0 too.

        Raises StepOrderError if there is a chain and a new training, unless resume, or one behind
        a URL is further; LockedError, and what `Checkpointer` does. With RewoundWarning, see
        `rewind`.
        """
        is_new = step == 0 and not resumed
        # Where this one is open already, the trainer has failed before, and tries again.
        goes_on = not is_new or self._resume or self.is_open
        self.abandon()
        local = isinstance(self.path, Path)
        directory = os.path.realpath(self.path) if local else str(self.path)
        if (former := _open.get(directory)) is not None:
            former._make_room()
        if step is not None and goes_on and local:
            rewind(self.path, None if is_new else step)
        elif step is not None and goes_on:
            self._check_reached(-1 if is_new else step)
        self._checkpoints = Checkpointer(self.path, **self._settings, resume=goes_on)
        self._thread, self._seen = threading.current_thread(), step or 0
        _open[directory] = self

    def is_due(self, step: int, every: int) -> bool:
        """Whether a multiple of ``every`` was reached or passed since the last time this was
        asked."""
        before, self._seen = self._seen, step
        return step // every > before // every

    def save(self, step: int, state: Mapping[str, Any], *, last: bool = False) -> Saved | None:
        """A record of a step; None if the chain ends with it already.

        last: it is not skipped, however busy the process that saves may be. Raises LockedError if
        another training has the directory now, and what `Checkpointer.save` does.
        """
        if self._checkpoints is None:
            raise LockedError(
                f"{self.where}: is closed, or another training of this process has begun to write "
                "there; give each a directory of its own"
            )
        if step == self.step:
            return None
        saved = self._checkpoints.save(step, state)
        if not isinstance(saved, PendingSave) and saved.kind == "skipped":
            if not last or self._under_way is None:
                return saved
            self._under_way.result()
            saved = self._checkpoints.save(step, state)
        self._under_way = saved
        return saved

    def steps(self) -> tuple[int, ...]:
        """Those that are on disk, rising; none if there is no chain. Raises what `Chain` does."""
        try:
            return self._chain().steps
        except ChainNotFoundError:
            return ()

    def restore(self, step: int) -> dict[Any, Any]:
        """The state of a step. Raises what `codec.restore` does."""
        return self._chain().restore(step)

    def _chain(self) -> Chain:
        return Chain(self._location)

    def _check_reached(self, step: int) -> None:
        """Raise StepOrderError if a chain is further, before it is taken from whoever may still
        write there; -1: if there is one."""
        try:
            chain = self._chain()
        except ChainNotFoundError:
            return
        if max(entry.step for entry in chain.entries) > step:
            newest = chain.newest()[0].step  # what is damaged after it will be set aside
            if newest > step:
                training = "begins anew" if step < 0 else f"goes on from {step}"
                raise StepOrderError(
                    f"{self.where}: is at step {newest}, and the training {training}; a chain "
                    "behind a URL cannot go back: choose another place"
                )

    def close(self) -> None:
        """Wait for what is being saved, and let others write. Raises what that save did."""
        checkpoints, self._checkpoints, self._is_replaced = self._checkpoints, None, False
        self._under_way = None
        if checkpoints is not None:
            checkpoints.close()

    def abandon(self) -> None:
        """The same where something else has failed, which matters more than that save."""
        try:
            self.close()
        except LccError as exc:
            _log.error("the newest save failed too: %s", exc)

    def _make_room(self) -> None:
        """Close what a training left behind that failed; one of another thread may be at work."""
        thread = self._thread
        if self.is_open and (thread is threading.current_thread() or not _is_alive(thread)):
            _log.info("%s: an earlier training left it open", self.where)
            self.abandon()
            self._is_replaced = True


def check_every(every: Any) -> None:
    """Raise SettingsError unless a number of steps, or None."""
    if every is not None and (type(every) is not int or every < 1):
        raise SettingsError(
            f"every is a number of steps from 1 on, or None to follow the trainer's own "
            f"checkpoints; got {every!r}"
        )


def _is_alive(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.is_alive()
