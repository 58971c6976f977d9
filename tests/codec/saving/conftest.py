"""What the tests of saving share."""

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
        for module in (upkeep, process):  # in a fork the kernels are loaded already
            patch.setattr(module, "warm_up", lambda: None)
        yield


@pytest.fixture
def started() -> None:
    """For tests of how the process that saves starts, or of what depends on it."""


@pytest.fixture(autouse=True)
def forked(request: pytest.FixtureRequest) -> None:
    """In all others it is a fork of this one, see `forks`."""
    if "started" not in request.fixturenames:
        request.getfixturevalue("forks")
