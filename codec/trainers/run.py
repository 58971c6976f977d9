"""The chain of one training: opened when the training begins, saved to, closed at its end.

A training that begins at step 0 is new and needs a new directory. A training that begins later was
resumed from a checkpoint of the trainer; the chain goes back to that step if it is further
(rewinding).

Trainers do not always report that they failed. If a training of this thread left the chain open,
the next training in the same directory closes it. A thread that ends closes what it has opened:
Lightning's AsyncCheckpointIO saves in a thread of its own, and never tears down the plugin below.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from codec.chain.chain import Chain
from codec.chain.rewind import rewind
from codec.errors import ChainNotFoundError, LccError, LockedError, SettingsError
from codec.record.track import Track
from codec.rerun import GradientCheckpointer
from codec.rerun import restore as rerun
from codec.saving.checkpointer import Checkpointer
from codec.saving.saved import PendingSave, Saved
from codec.scheme.remainder import describe_behind
from codec.state.policy import EXACT, OPTIONAL
from codec.state.tensors import Layout, spec_of, to_arrays
from codec.storage.location import Location

from .pointer import TOKEN

_log = logging.getLogger(__name__)
_open: WeakValueDictionary[str, ChainRun] = WeakValueDictionary()  # by directory, of this process
_here = threading.local()  # has a _Closer in threads that have opened chains


class ChainRun:
    """A chain that belongs to one training at a time.

    path: the chain's directory or URL. resume: whether a training that begins at step 0 may take
    over an existing chain. settings: of a `Checkpointer`, or with gradients of a
    `GradientCheckpointer`. Raises TypeError for unknown settings, SettingsError for a path that
    cannot hold a chain.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        resume: bool,
        settings: Mapping[str, Any],
        *,
        gradients: bool = False,
    ) -> None:
        self._kind = GradientCheckpointer if gradients else Checkpointer
        optimizer = {"optimizer": None} if gradients else {}
        inspect.signature(self._kind).bind(path, resume=resume, **optimizer, **settings)
        if not isinstance(resume, bool):
            raise SettingsError(f"here resume must be True or False; got {resume!r}"[:300])
        self._location = Location(path, settings.get("storage_options")).absolute()
        self.path = self._location.path
        self._resume, self._settings = resume, dict(settings)
        if isinstance(policy := settings.get("policy"), Mapping):  # it may skip everything
            self._settings["policy"] = {TOKEN: EXACT + OPTIONAL, **policy}
        self._checkpoints: Checkpointer | None = None
        self._thread: threading.Thread | None = None
        self._is_replaced = False
        self._last_step = 0  # of the training, at the last call of `is_due`
        self._newest: Saved | None = None  # may still be under way

    @property
    def where(self) -> str:
        """The path for messages, without secrets."""
        return str(self._location)

    @property
    def is_open(self) -> bool:
        """Whether a training is under way."""
        return self._checkpoints is not None or self._is_replaced

    @property
    def name(self) -> str:
        """The last part of the chain's path."""
        return self.where.rstrip("/").replace(os.sep, "/").rpartition("/")[2]

    @property
    def step(self) -> int | None:
        """The chain's newest step; None before the first."""
        return self._checkpoints.step if self._checkpoints else None

    @property
    def _writer(self) -> Checkpointer:
        if self._checkpoints is None:
            raise LockedError(
                f"{self.where}: is closed, or another training of this process has begun to write "
                "there; give each training its own directory"
            )
        return self._checkpoints

    def begin(self, step: int | None, *, resumed: bool = False, optimizer: Any = None) -> None:
        """Begin a training, or begin it again. Warns with RewoundWarning if the chain goes back.

        Args:
            step: The training's last step; None: the end of the chain. 0 is a new training: all
                earlier records are set aside.
            resumed: Whether step 0 was resumed from a checkpoint and so is not a new training.
            optimizer: The optimizer whose gradients are saved.

        Raises:
            StepOrderError: A new training without resume found a chain.
            LockedError: Another writer has the chain. Also what `Checkpointer` raises.
        """
        is_new = step == 0 and not resumed
        # If this is open already, the trainer has failed and tries again.
        goes_on = not is_new or self._resume or self.is_open
        self.abandon()
        local = isinstance(self.path, Path)
        directory = os.path.realpath(self.path) if local else str(self.path)
        if (former := _open.get(directory)) is not None:
            former._give_way()
        if step is not None and goes_on:
            rewind(self._location, None if is_new else step, takes_over=True)
        extra: dict[str, Any] = {} if optimizer is None else {"optimizer": optimizer}
        self._checkpoints = self._kind(self.path, **extra, **self._settings, resume=goes_on)
        self._thread, self._last_step = threading.current_thread(), step or 0
        _open[directory] = self
        if self._thread is not threading.main_thread():
            if not hasattr(_here, "closer"):
                _here.closer = _Closer()
            _here.closer.runs.add(self)

    def is_due(self, step: int, interval: int | None) -> bool:
        """Whether a multiple of ``interval`` was reached or passed since the last call."""
        if interval is None:
            return False
        before, self._last_step = self._last_step, step
        return step // interval > before // interval

    def save(self, step: int, state: Mapping[str, Any], *, last: bool = False) -> Saved | None:
        """Save a record of a step; returns None if the chain ends with that step already.

        last: do not skip it, however busy the saving process is. Raises LockedError if another
        training has the directory now, and what `Checkpointer.save` raises.
        """
        checkpoints = self._writer
        if step == self.step:
            return None
        saved = checkpoints.save(step, state)
        if not isinstance(saved, PendingSave) and saved.kind == "skipped":
            if not last or self._newest is None:
                return saved
            self._newest.result()
            saved = checkpoints.save(step, state)
        self._newest = saved
        if not isinstance(saved, PendingSave) and saved.kind != "skipped":
            behind = f"a restart would be {describe_behind(saved.behind)}"
            text = f"a base: {saved.reason}" if saved.kind == "base" else behind
            _log.info("%s: step %d, %d bytes; %s", self.where, saved.step, saved.nbytes, text)
        return saved

    def digest_of(self, state: Mapping[str, Any]) -> str:
        """xxh3-128, hex, of a whole state, without what the chain skips.

        Raises LockedError as `save`; DTypeError or StateMismatchError for what a chain cannot hold.
        """
        parts = self._writer.parts_of(state)
        specs = (spec_of(name, tensor, lossy=False) for name, tensor in parts.tensors.items())
        layout = Layout(tuple(specs), parts.structure)
        return Track.of(layout, to_arrays(parts.tensors, layout), parts.values).digest

    def steps(self) -> tuple[int, ...]:
        """The steps of the chain, rising; none if there is no chain. Raises what `Chain` does."""
        try:
            return self._chain().steps
        except ChainNotFoundError:
            return ()

    def restore(self, step: int | None = None, optimizer: Any = None) -> dict[Any, Any]:
        """The state of a step, or of the newest that restores, to go on from. Raises what
        `codec.restore` raises, or with an optimizer `codec.rerun.restore`."""
        if optimizer is not None:
            return rerun(self._location, optimizer, step)
        return self._chain().restore(step, dithers=True)

    def _chain(self) -> Chain:
        return Chain(self._location)

    def close(self) -> None:
        """Wait for the save under way, and release the chain. Raises what that save raised."""
        checkpoints, self._checkpoints, self._is_replaced = self._checkpoints, None, False
        self._newest = None
        if checkpoints is not None:
            checkpoints.close()

    def abandon(self) -> None:
        """Close after another failure, and only log what the last save raised."""
        try:
            self.close()
        except LccError as exc:
            _log.error("the newest save failed too: %s", exc)

    def close_if_opened_by(self, thread: threading.Thread) -> bool:
        """Close what a training of this thread has left open, and return whether there was any."""
        if not self.is_open or self._thread is not thread:
            return False
        _log.info("%s: an earlier training left it open", self.where)
        self.abandon()
        return True

    def _give_way(self) -> None:
        """Close what a failed training of this thread left open."""
        self._is_replaced |= self.close_if_opened_by(threading.current_thread())


def check_every(steps: Any) -> None:
    """Raise SettingsError unless the argument `every` is a number of steps or None."""
    if steps is not None and (type(steps) is not int or steps < 1):
        raise SettingsError(
            "every is a number of steps, at least 1, or None to follow the trainer's own "
            f"checkpoints; got {steps!r}"
        )


class _Closer:
    """Closes the chains that a thread has opened when the thread ends, and its locals with it."""

    def __init__(self) -> None:
        self.runs: WeakSet[ChainRun] = WeakSet()
        self._thread = threading.current_thread()

    def __del__(self) -> None:
        for run in list(self.runs):
            run.close_if_opened_by(self._thread)
