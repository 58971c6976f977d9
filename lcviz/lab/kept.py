"""Results kept as they come, so that an interrupted experiment goes on where it stopped.

One file: a line that says what was asked, on what, and with which versions, then one line a trial.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from codec.bench.command import machine

Row = dict[str, Any]
PACKAGES = ("numpy", "torch", "numba", "scikit-learn")


class KeptError(Exception):
    """Results that cannot be kept, or not be gone on with; the message says what to do."""


class Kept:
    """The trials of one experiment. on: machine, versions and date of the first of them.

    path: the file. asked: all that decides their values, as JSON holds it. resume: go on with the
    file that is there; otherwise it gets another name, and nothing is lost.

    Raises KeptError for a file that holds something else, or that cannot be written.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        self._rows: dict[str, list[Row]] = {}
        self.on = machine(PACKAGES) | {"date": date.today().isoformat()}
        head = {"asked": dict(asked), "on": self.on}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if resume and path.exists():
                self._read(head)
            else:
                if path.exists():
                    path.rename(_free(path))
                path.write_text(json.dumps(head) + "\n")
        except OSError as exc:
            raise KeptError(f"{path}: results cannot be kept here: {exc.strerror}") from exc

    def rows(self, key: Sequence[Any]) -> list[Row] | None:
        """What a trial gave; None if it was not finished."""
        return self._rows.get(json.dumps(key))

    def add(self, key: Sequence[Any], rows: Sequence[Row]) -> None:
        """Keep what a trial gave; when this returns it is on disk."""
        line = json.dumps({"trial": key, "rows": rows})
        with self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._rows[json.dumps(key)] = json.loads(line)["rows"]

    def _read(self, head: Mapping[str, Any]) -> None:
        whole = self.path.read_bytes()
        *lines, rest = whole.split(b"\n")
        try:
            first, *trials = (json.loads(line) for line in lines)
            asked, on = first["asked"], first["on"]
            self._rows = {json.dumps(t["trial"]): t["rows"] for t in trials}
        except (ValueError, KeyError, TypeError) as exc:
            raise KeptError(f"{self.path}: holds no results; name another file") from exc
        wanted = json.loads(json.dumps(head["asked"]))
        differing = sorted(k for k in asked.keys() | wanted if asked.get(k) != wanted.get(k))
        if differing:
            raise KeptError(
                f"{self.path}: was begun with another {' and '.join(differing)}; ask for the "
                "same, or leave --resume away"
            )
        self.on = on
        if rest:  # a line that an interrupt cut off
            os.truncate(self.path, len(whole) - len(rest))


def _free(path: Path) -> Path:
    """A name that nobody has, like this one."""
    names = (path.with_name(f"{path.stem}-{i}{path.suffix}") for i in count(1))
    return next(name for name in names if not name.exists())
