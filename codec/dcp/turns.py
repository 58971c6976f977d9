"""One save at a time through one writer.

DCP calls a writer at each stage of a save, and tells nobody when a save has failed elsewhere: in a
planner, or on another rank. So a save has the turn until it ends or another one begins. That one is
refused while the writer is at work in a stage; between two stages it takes the turn, and the first
save is refused at its next stage. Of two saves at once one raises LockedError. What goes unnoticed
is a signal handler's save that fails between the same two stages as the save that it interrupts.

Saves wait only for those of `async_save`: its threads end with their save.

Not done here: what a save is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from codec.errors import LockedError

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE = 60.0  # seconds that a staged state may take until its thread has begun
ONE_SAVE = (
    "two saves at once through one ChainWriter: wait for one before the next, and let a signal's "
    "handler leave a note for the training loop"
)


class Turns:
    """Whose turn it is: that of one thread, which saves."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None  # whose turn it is
        self._at_work = False  # in a stage of its save
        self._staged: list[threading.Thread] | None = None  # threads older than the staged state
        self._last: threading.Thread | None = None  # of `async_save`

    def wait(self) -> None:
        """Until every staged state is saved. Raises LockedError if no thread takes it."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._staged is None, PATIENCE):
                self._staged = None
                raise LockedError("a state was staged and never saved; save again")
        if self._last is not None and self._last is not threading.current_thread():
            self._last.join()

    def stage(self) -> None:
        """A thread that has not started yet is to save a state."""
        self._staged = threading.enumerate()

    def drop(self) -> None:
        """The staged state will not be saved."""
        with self._changed:
            self._staged = None
            self._changed.notify_all()

    def begin(self) -> None:
        """A new save of this thread, once staged states are saved. Raises LockedError."""
        thread = threading.current_thread()
        if self._staged is None or thread in self._staged:
            self.wait()
        with self._changed:
            if self._at_work:
                raise LockedError(ONE_SAVE)
            self._thread = thread
            if self._staged is not None:
                self._last = thread
                self.drop()

    def end(self) -> None:
        """The save is done."""
        self._thread = None

    def is_at_work(self) -> bool:
        """Whether this thread is in a stage of its save."""
        return self._at_work and self._thread is threading.current_thread()

    def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """A stage of this thread's save, which ends if that fails. Raises LockedError."""
        entered = False
        try:
            with self._changed:
                if self._at_work or self._thread is not threading.current_thread():
                    raise LockedError(ONE_SAVE)
                self._at_work = entered = True
            return call(*args, **kwargs)
        except BaseException:
            if entered:
                self._thread = None
            raise
        finally:
            if entered:
                self._at_work = False
