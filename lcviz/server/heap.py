"""Gives freed memory back to the system.

glibc keeps freed memory that lies between pieces still in use: after minutes of training, drawing
and closing runs, a server takes 1.5 times the memory that it uses.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from functools import cache

EVERY_SECONDS = 60.0


@cache
def give_back_regularly() -> None:
    """Call `give_back` every minute from now on, in a thread that the process starts once."""
    threading.Thread(target=_regularly, name="give-back", daemon=True).start()


def _regularly() -> None:
    while True:
        time.sleep(EVERY_SECONDS)
        give_back()


def give_back() -> None:
    """Return all free pages of the heap to the system; takes milliseconds.

    Does nothing where the C library is not glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
