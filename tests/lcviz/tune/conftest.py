"""What the tests of this page share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest


@pytest.fixture
def tuning(visit: Callable[..., Any]) -> Callable[..., Any]:
    """The Tune page, of a run or of the example: tuning(tune_wide="all")."""
    return partial(visit, "tune")
