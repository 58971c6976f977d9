"""What a compaction leaves that is killed before it removes anything."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import codec
from codec.chain import upkeep


def add_base(path: Path) -> None:
    """Write a base of a chain's newest step beside its delta."""
    with mock.patch.object(upkeep, "needless", return_value=[]):
        codec.compact(path)
