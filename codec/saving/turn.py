"""One call at a time, in the process that made the object.

Two saves at once would both follow the same record, and no reader could follow both. Other
threads wait for their turn. Whoever cannot wait is refused: the handler of a signal that came in
the midst of a call, and a forked process, which knows nothing of what the others write.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any

from codec.errors import LockedError


class Turn:
    """`with turn.taken():` around whatever must not run twice. path: for the errors."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._owner = os.getpid()
        self._lock: Any = threading.RLock()

    @property
    def elsewhere(self) -> bool:
        """Whether this process is a fork of the one that made it."""
        return os.getpid() != self._owner

    def taken(self) -> AbstractContextManager[object]:
        """Raises LockedError, see above."""
        if self.elsewhere:
            raise LockedError(
                f"{self._path}: only process {self._owner} writes here, and this one is a fork of "
                "it; make a Checkpointer in the process that saves"
            )
        if self._lock._is_owned():  # no public name, but threading.Condition asks for it as well
            raise LockedError(
                f"{self._path}: another call is under way, and this one is in the midst of it; "
                "let a signal's handler leave a note, and save in the loop"
            )
        lock: AbstractContextManager[object] = self._lock  # itself: Ctrl-C never leaves it taken
        return lock
