"""Temporary folders of a server. A TempFolder goes with it, or, after a kill, with the next server.

A lasting folder stays. They hold visitors' files, and runs. A folder is locked by the process that
uses it, and the system drops the lock with the process.
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
        self.close = weakref.finalize(self, _delete_and_unlock, locked(self.path), self.path)


def lasting_folder(name: str) -> Path | None:
    """This user's folder of that name among temporary files, which outlasts a server.

    None if it cannot be made, if others have any access to it, or on Windows.
    """
    if sys.platform == "win32":
        return None
    path = Path(tempfile.gettempdir(), f"lcviz-{name}-{os.getuid()}")
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        own = (status.st_uid, status.st_mode & 0o77) == (os.getuid(), 0)
        if stat.S_ISDIR(status.st_mode) and own:
            return path
    return None


def remove_abandoned() -> None:
    """Delete the folders of processes that ended without doing so."""
    if sys.platform == "win32":
        return
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process holds it, or is deleting it
            status = path.lstat()
            fresh = time.time() - status.st_mtime < FRESH_SECONDS
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not fresh:
                _delete_and_unlock(locked(path), path)


def locked(path: Path) -> int | None:
    """A descriptor that holds the lock, None on Windows. Raises OSError if it is held already."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def unlock(descriptor: int | None) -> None:
    """Give a lock back."""
    if descriptor is not None:
        os.close(descriptor)


def _delete_and_unlock(descriptor: int | None, path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    unlock(descriptor)
