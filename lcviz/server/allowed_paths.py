"""Which paths of this machine a visitor may name.

A server that only its own machine reaches serves whoever started it, and opens any path. Other
visitors may read only the folders that FOLDERS names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codec.errors import SourceError

FOLDERS = "LCVIZ_FOLDERS"  # an environment variable: folders, separated as in PATH
_LOCAL = ("127.0.0.1", "localhost", "::1")  # addresses that only this machine reaches


def check_within(paths: Sequence[Path], address: str | None, folders: str) -> None:
    """Check that a visitor may open these paths, links followed.

    Args:
        paths: What the visitor named.
        address: The one that the server listens to, None or "" for all.
        folders: The value of FOLDERS; if there is one, nothing else is opened.

    Raises:
        SourceError: A path is not allowed; says which one, and what to do instead.
    """
    if not folders:
        if address in _LOCAL:
            return
        raise SourceError(
            "This server can be reached from other machines, so it opens no paths. Upload the "
            f"files, or ask its owner to name folders that all may read in {FOLDERS}"
        )
    roots = [os.path.realpath(Path(f).expanduser()) for f in folders.split(os.pathsep) if f]
    for path in paths:
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):  # not a path: it is in no folder either
            real = ""
        if not any(real == root or real.startswith(os.path.join(root, "")) for root in roots):
            raise SourceError(
                f"{path}: is in none of the folders that this server opens: {', '.join(roots)}"
            )
