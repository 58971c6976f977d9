"""Keeps the server's memory small: few heaps, and freed memory goes back to the system.

glibc keeps freed memory that lies between pieces still in use: after minutes of training, drawing
and closing runs, a server takes 1.5 times the memory that it uses. It also gives each new thread a
heap of its own, up to 8 for each processor, and each heap has such gaps.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from functools import cache

EVERY_SECONDS = 60.0
HEAPS = 2
_M_ARENA_MAX = -8  # of glibc's malloc.h


def use_few() -> None:
    """Let all threads share few heaps, as MALLOC_ARENA_MAX in the environment does.

    It has an effect only before the process has started its threads. Does nothing where the C
    library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)


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
