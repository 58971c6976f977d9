"""What the tests of saving share."""

from __future__ import annotations

import pytest


@pytest.fixture
def started() -> None:
    """For tests of how the process that saves starts, or of what depends on it."""


@pytest.fixture(autouse=True)
def forked(request: pytest.FixtureRequest) -> None:
    """In all others it is a fork of this one, see `forks`."""
    if "started" not in request.fixturenames:
        request.getfixturevalue("forks")
