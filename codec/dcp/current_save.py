"""One save at a time through one writer.

DCP calls a writer at each stage of a save, and does not say when a save has failed elsewhere: in a
planner, or on another rank. So a save is the current one until it ends or another one begins. The
other one is refused while the writer is working in a stage. Between two stages it becomes the
current save, and the first one is refused at its next stage. Of two saves at once, one raises
LockedError. One case goes unnoticed: a signal handler's save that fails between the same two stages
as the save that it interrupts.

Saves wait only for those of `async_save`: its threads end with their save.

Not done here: the stages (writer).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from codec.errors import LockedError

P = ParamSpec("P")
R = TypeVar("R")
PATIENCE = 60.0  # seconds that a staged state may take until its thread has begun
POLL = 0.001  # seconds
ONE_SAVE = (
    "two saves at once through one ChainWriter: wait for one before the next, and let a signal's "
    "handler leave a note for the training loop"
)


class CurrentSave:
    """The thread whose save is the current one."""

    def __init__(self) -> None:
        # Not a Condition: it is mostly Python, and Ctrl-C could leave it locked.
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._at_work = False  # in a stage of its save
        self._staged: list[threading.Thread] | None = None  # threads older than the staged state
        self._last: threading.Thread | None = None  # of `async_save`

    def wait(self) -> None:
        """Wait until every staged state is saved. Raises LockedError if no thread takes it."""
        end = time.monotonic() + PATIENCE
        while self._staged is not None:
            if time.monotonic() > end:
                self._staged = None
                raise LockedError("a state was staged and never saved; save again")
            time.sleep(POLL)
        if self._last is not None and self._last is not threading.current_thread():
            self._last.join()

    def stage(self) -> None:
        """Announce a state that a thread which has not started yet will save."""
        self._staged = threading.enumerate()

    def drop(self) -> None:
        """Forget the staged state: it will not be saved."""
        self._staged = None

    def begin(self) -> None:
        """Begin a save of this thread, after staged states are saved. Raises LockedError."""
        thread = threading.current_thread()
        if self._staged is None or thread in self._staged:
            self.wait()
        with self._lock:
            if self._at_work:
                raise LockedError(ONE_SAVE)
            self._thread = thread
            if self._staged is not None:
                self._last = thread
                self.drop()

    def end(self) -> None:
        """End the save."""
        self._thread = None

    def is_at_work(self) -> bool:
        """Whether this thread is in a stage of its save."""
        return self._at_work and self._thread is threading.current_thread()

    def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a stage of this thread's save; an error ends the save. Raises LockedError."""
        entered = False
        try:
            with self._lock:
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
