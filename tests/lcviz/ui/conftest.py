"""What the tests of these parts share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _scanned(scanned_once: None) -> None:
    """Also for scripts without the example."""
