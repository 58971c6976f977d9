"""One call at a time, in the process that made the object.

Two saves at once would both follow the same record, and no reader could follow both. Other
threads wait for their turn. Whoever cannot wait is refused: the handler of a signal that interrupts
a call, and a forked process, which knows nothing of what the others write.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from codec.errors import LockedError

P = ParamSpec("P")
R = TypeVar("R")


class Turn:
    """Runs calls one after another. path: for the errors."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._threads: set[int] = set()  # that are in a call, or wait for the lock

    @property
    def elsewhere(self) -> bool:
        """Whether this process is a fork of the one that made it."""
        return os.getpid() != self._process

    def run(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it once no other thread is in a call. Raises LockedError, see above."""
        if self.elsewhere:
            raise LockedError(
                f"{self._path}: only process {self._process} writes here, and this one is a fork "
                "of it; make a Checkpointer in the process that saves"
            )
        thread = threading.get_ident()
        if thread in self._threads:
            raise LockedError(
                f"{self._path}: another call is under way, and this one interrupts it; let a "
                "signal's handler leave a note, and save in the loop"
            )
        try:
            self._threads.add(thread)
            with self._lock:  # in this frame: Ctrl-C never leaves it taken
                return call(*args, **kwargs)
        finally:
            self._threads.discard(thread)
