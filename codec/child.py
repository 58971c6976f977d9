"""The command line of a Python process that imports what this process imports."""

from __future__ import annotations

import sys
from pathlib import Path


def command(code: str, *arguments: str) -> list[str]:
    """The command that runs Python code with this process's search path.

    The new process imports nothing from the current directory ("" in sys.path), and finds the
    standard library's modules before others of the same name.

    Args:
        code: Statements, which find the arguments in sys.argv[1:].
        arguments: Of the new process.
    """
    folders = [folder for folder in sys.path if folder and isinstance(folder, str)]
    path = [*folders, str(Path(__file__).parents[1])]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {code}", *arguments]
