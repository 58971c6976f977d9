"""What the chain's tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from codec.chain import upkeep


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """Most of the time would be spent in fsync, whose calls a few tests look at, and in restoring
    again and again to measure how long it takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        patch.setattr(upkeep, "MEASURED_TIMES", 1)
        yield
