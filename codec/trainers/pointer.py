"""A small file in a trainer's checkpoint that names a step of a chain.

    {"lcc checkpoint": 1, "chain": "run.lcc", "step": 88, "token": "6fd1…"}

The chain's name is for people; it is never used as a path. The record holds the same token, which
distinguishes it from a record of another training in the same place. The token is new for each
checkpoint (lightning) or each training (accelerate).
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
TOKEN = "codec.trainers.token"  # the token's key in a record
MAX_BYTES = 1000  # of the file
# A Path keeps one slash of two; Lightning turns file:///… into /current/directory/file:/….
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|.*/file:/")


@dataclass(frozen=True)
class Pointer:
    """The contents of the file. chain: the directory's name, not its path."""

    chain: str
    step: int
    token: str


def check_place(path: str | os.PathLike[str]) -> None:
    """Raise SettingsError unless this is a local path: pointers are always local files."""
    if URL.match(path_text(path)):
        raise SettingsError(
            f"{path}: the file that names a step of a chain is written to a local directory; give "
            "the trainer's checkpoints a local path (the chain itself may be behind a URL)"
        )


def write(path: str | os.PathLike[str], pointer: Pointer) -> None:
    """Write or replace the file, whole or not at all. Raises WriteError."""
    text = json.dumps({KEY: FORMAT} | asdict(pointer))
    place = Path(path_text(path))
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise WriteError(f"{place.parent}: cannot be made: {exc}") from exc
    publish(place, lambda file: file.write(text.encode()), overwrite=True)


def read(path: str | os.PathLike[str]) -> Pointer | None:
    """The pointer in a file; None if the file holds something else or does not exist.

    Raises VersionError for another format, TruncatedRecordError for an empty file, which is neither
    a pointer nor a trainer's own checkpoint.
    """
    place = Path(path_text(path))
    if not place.is_file():
        return None
    with place.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if not data:
        raise TruncatedRecordError(
            str(place), "a checkpoint or a pointer to one", "an empty file; load another one"
        )
    try:
        fields: Any = json.loads(data)
    except ValueError:
        return None
    if len(data) > MAX_BYTES or not isinstance(fields, dict) or KEY not in fields:
        return None
    if (version := fields.pop(KEY)) != FORMAT:
        raise VersionError(
            str(place),
            f"format {FORMAT} of a pointer to a checkpoint",
            f"{version!r}; load it with the version of codec.trainers that wrote it",
        )
    kinds = {name: type(value) for name, value in fields.items()}
    return Pointer(**fields) if kinds == {"chain": str, "step": int, "token": str} else None
