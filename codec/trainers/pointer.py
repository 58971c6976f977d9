"""A small file in a trainer's checkpoint that says which step of a chain it goes with.

    {"lcc checkpoint": 1, "chain": "run.lcc", "step": 88, "token": "6fd1…"}

The chain's name is for whoever reads the file; no path is made of it. The token stands in the
record as well, so that a step of another training in the same place is not taken for this one: a
new one with each checkpoint (lightning) or with each training (accelerate).

Not done here: the chain (run).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from codec.errors import SettingsError, TruncatedRecordError, VersionError, WriteError
from codec.storage.directory import publish
from codec.storage.location import path_text

KEY = "lcc checkpoint"
FORMAT = 1
TOKEN = "codec.trainers.token"  # where it stands in a record
MOST = 1000  # bytes of such a file
# A Path keeps one slash of two; Lightning makes /where/it/is/file:/… of file:///…; C:/ is none.
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|.*/file:/")


@dataclass(frozen=True)
class Pointer:
    """What the file tells. chain: the directory's name, not its path."""

    chain: str
    step: int
    token: str = ""


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise SettingsError for a URL: such files lie in local directories, wherever the chain is;
    and for what is no path."""
    if URL.match(path_text(path)):
        raise SettingsError(
            f"{path}: what names a step of a chain is written to a local directory; give the "
            "trainer's checkpoints one (the chain itself may be behind a URL)"
        )


def write(path: str | os.PathLike[str], pointer: Pointer) -> None:
    """Write the file, whole or not at all, in the place of one that is there. Raises WriteError."""
    text = json.dumps({KEY: FORMAT} | asdict(pointer))
    place = Path(path_text(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise WriteError(f"{place.parent}: cannot be made: {exc}") from exc
    publish(place, lambda file: file.write(text.encode()), overwrite=True)


def read(path: str | os.PathLike[str]) -> Pointer | None:
    """What the file tells; None if it is no such file, or none is there.

    Raises VersionError for one of another format, TruncatedRecordError for an empty file, which
    is neither a pointer nor a checkpoint of a trainer's own.
    """
    place = Path(path_text(path))
    if not place.is_file():
        return None
    with place.open("rb") as file:
        data = file.read(MOST + 1)
    if not data:
        found = "an empty file; load another one"
        raise TruncatedRecordError(str(place), "a checkpoint or what names one", found)
    try:
        told: Any = json.loads(data)
    except ValueError:
        return None
    if len(data) > MOST or not isinstance(told, dict) or KEY not in told:
        return None
    if (version := told.pop(KEY)) != FORMAT:
        found = f"{version!r}; load it with the version of codec.trainers that wrote it"
        raise VersionError(str(place), f"format {FORMAT} of what names a checkpoint", found)
    kinds = {name: type(value) for name, value in told.items()}
    return Pointer(**told) if kinds == {"chain": str, "step": int, "token": str} else None
