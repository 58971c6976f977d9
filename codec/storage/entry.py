"""The file name of a record, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Eight digits, more only where needed: one name per step. Not \d, which matches any script's.
_NAME = re.compile(r"([0-9]{8}|[1-9][0-9]{8,18})\.(base|delta)\.safetensors")


@dataclass(frozen=True)
class Entry:
    """A record's place in the chain: its step, kind, file name and size in bytes."""

    step: int
    kind: str
    name: str
    nbytes: int


def record_name(step: int, kind: str) -> str:
    """File name of a record."""
    return f"{step:08d}.{kind}.safetensors"


def entry_of(name: str, nbytes: int) -> Entry | None:
    """The record that a file name stands for; None for other names."""
    match = _NAME.fullmatch(name)
    return Entry(int(match[1]), match[2], name, nbytes) if match else None
