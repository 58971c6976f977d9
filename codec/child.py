"""The command line of a Python process that imports what this process imports."""

from __future__ import annotations

import sys
from pathlib import Path


def command(code: str, *arguments: str) -> list[str]:
    """The command that runs Python code with this process's search path.

    The new process imports nothing from the directory where this one was started ("" is the current
    one), and the standard library's modules before others of their names.

    Args:
        code: Statements. They see the arguments as sys.argv[1:].
        arguments: Texts.
    """
    places = [place for place in sys.path if place and isinstance(place, str)]
    path = [*places, str(Path(__file__).parents[1])]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {code}", *arguments]
