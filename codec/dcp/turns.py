"""One save after another, in the order in which they were asked for, whichever threads they run in.

A save is under way while its thread is in the midst of DCP's function for it: so one that fails,
in whatever way, keeps nobody waiting.

Not done here: what a save is.
"""

from __future__ import annotations

import sys
import threading
import time

from torch.distributed.checkpoint import state_dict_saver

from codec.errors import LockedError

PATIENCE = 60.0  # seconds that a staged state may take until its thread has begun
_SAVE = state_dict_saver._save_state_dict.__code__  # what a thread runs while it saves


class Turns:
    """Whose turn it is: that of one thread, which saves, after the states staged before it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread: int | None = None
        self._save = 0  # its frame's id; the frame would keep the state alive
        self._staged: tuple[int, float] | None = None  # by which thread, and since when

    def wait(self) -> None:
        """Until all states staged have been saved. Raises LockedError if one never began."""
        while self._staged is not None or self._is_busy():
            self._rest()

    def stage(self) -> None:
        """A state of this thread's waits for another one to save it."""
        self._staged = threading.get_ident(), time.monotonic()

    def drop(self) -> None:
        """The staged state will not be saved."""
        self._staged = None

    def take(self) -> None:
        """This thread's turn, for the save that it has begun, once those before it have ended;
        states that it has staged come first.

        Raises LockedError as `wait`, and for a save in the midst of another one (a signal's).
        """
        me = threading.get_ident()
        save, *outer = _saves(me) or [0]
        with self._lock:
            if self._thread == me:
                if self._save in outer:
                    raise LockedError("a save is under way, this one in its midst; wait for it")
                self._thread = None  # its last one is over, and this one's frame may be as that was
        while True:
            with self._lock:
                own = self._staged is not None and self._staged[0] == me
                if not own and not self._is_busy():
                    self._thread, self._save, self._staged = me, save, None
                    return
                if not own and self._staged is not None:  # its thread has begun, and waits here
                    self._staged = self._staged[0], time.monotonic()
            self._rest()

    def _rest(self) -> None:
        staged = self._staged
        if staged is not None and not self._is_busy() and time.monotonic() - staged[1] > PATIENCE:
            raise LockedError("a state was staged and never saved; make a new ChainWriter")
        time.sleep(0.001)

    def _is_busy(self) -> bool:
        """Whether another thread than this one is in the midst of a save."""
        thread = self._thread
        return thread not in (None, threading.get_ident()) and self._save in _saves(thread)


def _saves(thread: int | None) -> list[int]:
    """The saves that a thread is in the midst of, the innermost first."""
    frame = sys._current_frames().get(thread or 0)
    found = []
    while frame is not None:
        if frame.f_code is _SAVE:
            found.append(id(frame))
        frame = frame.f_back
    return found
