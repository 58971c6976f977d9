"""What the chain's tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codec.chain import upkeep


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """Most of the time would be spent in fsync, whose calls a few tests look at, and in loading
    kernels and restoring again and again to measure how long it takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        patch.setattr(upkeep, "MEASURED_TIMES", 1)
        patch.setattr(upkeep, "warm_up", lambda: None)
        yield


@pytest.fixture(scope="session")
def refield(parts_of: Callable[..., Any], forge: Callable[..., bytes]) -> Callable[..., None]:
    """Change fields of a record; its digest is right."""

    def make(path: Path, **fields: Any) -> None:
        metadata, arrays = parts_of(path.read_bytes())
        path.write_bytes(forge(metadata | fields, arrays))

    return make
