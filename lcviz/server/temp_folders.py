"""Folders that live as long as their server; the next server removes those of a killed one.

They hold visitors' files and runs. A folder is locked by the process that made it, and the system
drops the lock with the process.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":  # Windows has no such locks: there only its owner removes a folder
    import fcntl

PREFIX = "lcviz-scratch-"
FRESH_SECONDS = 60.0  # a younger folder may have been made just now, and not be locked yet


class TempFolder:
    """An empty folder, ``path``; deleted with this object, at the latest with the process.

    name: a part of the folder's name. Raises OSError.
    """

    def __init__(self, name: str) -> None:
        remove_abandoned()
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-"))
        self.close = weakref.finalize(self, _delete_and_unlock, _locked(self.path), self.path)


def remove_abandoned() -> None:
    """Delete the folders of processes that ended without doing so."""
    if sys.platform == "win32":
        return
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process holds it, or is deleting it
            status = path.lstat()
            fresh = time.time() - status.st_mtime < FRESH_SECONDS
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not fresh:
                _delete_and_unlock(_locked(path), path)


def _locked(path: Path) -> int | None:
    """A descriptor that holds the lock. Raises OSError if another process holds it."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _delete_and_unlock(descriptor: int | None, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if descriptor is not None:
        os.close(descriptor)
