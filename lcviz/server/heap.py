"""Memory that was let go of goes back to the system.

glibc keeps what a thread has freed, in pieces between what others still hold: a server whose runs
come and go for minutes takes half as much again as it uses, and gives nothing back.
"""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Return all free pages of the heap to the system; takes milliseconds.

    Nothing where the C library is not glibc: others do so by themselves, or cannot.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
