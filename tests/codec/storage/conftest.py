"""What the tests of storage share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from codec.chain import upkeep
from codec.saving import process


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """Nothing here needs what fsync does, or how long a restore takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        patch.setattr(upkeep, "MEASURED_TIMES", 1)
        for module in (upkeep, process):  # kernels are loaded already
            patch.setattr(module, "warm_up", lambda: None)
        yield
