"""What the tests of saving share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """Nothing here needs what fsync does; some tests look at its calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@pytest.fixture
def started() -> None:
    """For tests of how the process that saves starts, or of what depends on it."""


@pytest.fixture(autouse=True)
def forked(request: pytest.FixtureRequest) -> None:
    """In all others it is a fork of this one, see `forks`."""
    if "started" not in request.fixturenames:
        request.getfixturevalue("forks")
