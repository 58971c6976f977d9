"""Results in a file, trial by trial, so that an interrupted experiment can go on.

The first line holds the settings, the machine and the versions; each further line holds one trial.
The file is created with the first finished trial; until then an older one stays.
"""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from lcviz.lab.machine import PACKAGES, machine

Row = dict[str, Any]


class ResultsFileError(Exception):
    """Results cannot be stored or resumed; the message says what to do."""


class ResultsFile:
    """The trials of one experiment. on: machine, versions and date when the file was begun.

    Args:
        path: The file.
        settings: All settings that decide the values, as JSON holds them.
        resume: Go on with the existing file; otherwise it is renamed, and nothing is lost.

    Raises:
        ResultsFileError: The file holds something else, or cannot be written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, resume: bool = False) -> None:
        self.path = path
        self._rows: dict[str, list[Row]] = {}
        self._file: int | None = None  # its descriptor, once something was added
        self.on = machine(PACKAGES) | {"date": date.today().isoformat()}
        self._head = {"asked": dict(settings), "on": self.on}
        self._resumes = False
        try:
            if path.exists() and not path.is_file():
                raise ResultsFileError(f"{path}: is not a file; name a file for the results")
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):  # fail now, not after a trial
                pass
            if resume and path.exists():
                self._read()
        except OSError as exc:
            raise self._refused(exc) from exc

    def rows(self, key: Sequence[Any]) -> list[Row] | None:
        """The rows of a trial; None if it is not finished."""
        return self._rows.get(json.dumps(key))

    def check_alike(self) -> None:
        """Raise ResultsFileError if new trials would not compare with those in the file.

        Other versions give other numbers, another processor other seconds.
        """
        here = self._head["on"]
        for key in ("cpu", "versions"):
            if self.on[key] != here[key]:
                raise ResultsFileError(
                    f"{self.path}: was begun on {self.on[key]}, this is {here[key]}; its trials "
                    "cannot be mixed with new ones: run without --resume"
                )

    def add(self, key: Sequence[Any], rows: Sequence[Row]) -> None:
        """Write the rows of a trial to disk. Raises ResultsFileError."""
        line = json.dumps({"trial": key, "rows": rows})
        try:
            if self._file is None:
                self._file = self._open()
                weakref.finalize(self, os.close, self._file)
            _write(self._file, line)
        except OSError as exc:
            raise self._refused(exc) from exc
        self._rows[json.dumps(key)] = json.loads(line)["rows"]

    def _open(self) -> int:
        """Open the file; the descriptor stays valid even if another process takes the name."""
        flags = os.O_WRONLY | os.O_APPEND
        if self._resumes:
            return os.open(self.path, flags)
        if self.path.exists():
            self.path.rename(_free(self.path))
        file = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        _write(file, json.dumps(self._head))
        return file

    def _refused(self, exc: OSError) -> ResultsFileError:
        return ResultsFileError(f"{self.path}: results cannot be kept here: {exc.strerror}")

    def _read(self) -> None:
        content = self.path.read_bytes()
        *lines, cut_off = content.split(b"\n")
        try:
            first, *trials = (json.loads(line) for line in lines)
            earlier, on = dict(first["asked"]), dict(first["on"])
            self._rows = {json.dumps(t["trial"]): t["rows"] for t in trials}
        except (ValueError, KeyError, TypeError) as exc:
            raise ResultsFileError(f"{self.path}: holds no results; name another file") from exc
        settings = json.loads(json.dumps(self._head["asked"]))
        names = earlier.keys() | settings
        differing = sorted(name for name in names if earlier.get(name) != settings.get(name))
        if differing:
            raise ResultsFileError(
                f"{self.path}: was begun with another {' and '.join(differing)}; ask for the "
                "same, or run without --resume"
            )
        self.on, self._resumes = on, True
        if cut_off:  # an interrupt cut off the last line
            os.truncate(self.path, len(content) - len(cut_off))


def _write(file: int, line: str) -> None:
    data = (line + "\n").encode()
    while data:
        data = data[os.write(file, data) :]
    os.fsync(file)


def _free(path: Path) -> Path:
    """A free name like this one."""
    names = (path.with_name(f"{path.stem}-{i}{path.suffix}") for i in count(1))
    return next(name for name in names if not name.exists())
