"""Which paths of this machine a visitor may name.

A server that listens to its own machine alone serves the one who started it, and opens what that
one may open. Anybody else is to read only what was meant for him: the folders that FOLDERS names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codec.errors import SourceError

FOLDERS = "LCVIZ_FOLDERS"  # in the environment: as in PATH, one after another
_OWN = ("127.0.0.1", "localhost", "::1")  # what only this machine reaches


def check_within(paths: Sequence[Path], address: str | None, folders: str) -> None:
    """Whether a visitor may open these, links followed.

    address: that the server listens to, None or "" for all. folders: see FOLDERS; where there are
    some, nothing else is opened, whatever the address. Raises SourceError.
    """
    if not folders:
        if address in _OWN:
            return
        raise SourceError(
            "This server can be reached from other machines, so it opens no paths. Upload the "
            f"files; or let who runs it name folders that all may read, in {FOLDERS}"
        )
    roots = [os.path.realpath(Path(f).expanduser()) for f in folders.split(os.pathsep) if f]
    for path in paths:
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):  # no path at all: that it is not below is all that is told
            real = ""
        if not any(real == root or real.startswith(os.path.join(root, "")) for root in roots):
            raise SourceError(
                f"{path}: is in none of the folders that this server opens: {', '.join(roots)}"
            )
