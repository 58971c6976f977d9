"""Compiles the codec's kernels in a separate process, which this server starts once."""

from __future__ import annotations

import subprocess
from functools import cache

import codec
import codec.inspect


@cache
def begin() -> subprocess.Popen[bytes] | None:
    """Start the process. Returns None if the kernels are compiled already."""
    return codec.inspect.warm_up_beside()


def finish() -> None:
    """Wait for the process, then load all kernels from numba's cache."""
    if process := begin():
        process.wait()
    codec.warm_up()
