"""SIGTERM, which comes some seconds before a machine is taken away: a save under way ends first.

Not done here: a save of the newest state. The signal may come in the middle of an iteration.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from codec.errors import LccError

from .call_lock import CallLock

_log = logging.getLogger(__name__)


class Termination:
    """Handles SIGTERM between `install` and `remove`.

    A handler of the training's own is called after the save under way, and decides what follows.
    Without one, the process waits for that save, and then ends by SIGTERM.

    Args:
        lock: Of the calls that save.
        close: Waits for the save under way, one in another process too, and releases the chain.
    """

    def __init__(self, lock: CallLock, close: Callable[[], None]) -> None:
        self._lock, self._close = lock, close
        self._previous: Any = None

    def install(self) -> None:
        """Take the signal; not if it is ignored, if C code has it, or outside the main thread."""
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGTERM)
            if previous not in (None, signal.SIG_IGN):
                self._previous = previous
                signal.signal(signal.SIGTERM, self._handle)

    def remove(self) -> None:
        """Give the signal back, unless a later handler has it."""
        if self._previous is not None and signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._lock.after_call(partial(self._go_on, number, frame))

    def _go_on(self, number: int, frame: FrameType | None) -> None:
        if callable(self._previous):
            self._previous(number, frame)
            return
        try:
            self._close()
        except LccError as exc:
            _log.error("the newest save failed: %s", exc)
        self.remove()
        signal.raise_signal(number)
