"""One call at a time, in the process that made the object.

Two saves at once would both follow the same record, and no reader could follow both. Other threads
wait. An error goes to the callers that cannot wait: a signal handler that interrupts a call, and a
forked process, which does not notice what the first process writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from codec.errors import LockedError

P = ParamSpec("P")
R = TypeVar("R")


class CallLock:
    """Runs calls one after another. path: for errors."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._threads: set[int] = set()  # in a call or waiting for the lock
        self._next: dict[int, Callable[[], None]] = {}  # by thread, what comes after its call

    @property
    def is_fork(self) -> bool:
        """Whether this process is a fork of the one that made the lock."""
        return os.getpid() != self._process

    def after_call(self, act: Callable[[], None]) -> None:
        """Call ``act`` once this thread's call has ended, at once if it is in none: for signal
        handlers."""
        if (thread := threading.get_ident()) in self._threads:
            self._next[thread] = act
        else:
            act()

    def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it when no other thread is in a call.

        Raises:
            LockedError: This thread is in a call already, or this process is a fork.
        """
        if self.is_fork:
            raise LockedError(
                f"{self._path}: only process {self._process} writes here, and this one is a fork "
                "of it; make a Checkpointer in the process that saves"
            )
        thread = threading.get_ident()
        if thread in self._threads:
            raise LockedError(
                f"{self._path}: another call is under way, and this one interrupts it; in "
                "a signal handler only set a flag, and save in the loop"
            )
        try:
            self._threads.add(thread)
            with self._lock:  # in this frame, so that Ctrl-C never leaves it locked
                return call(*args, **kwargs)
        finally:
            self._threads.discard(thread)
            if act := self._next.pop(thread, None):
                act()
