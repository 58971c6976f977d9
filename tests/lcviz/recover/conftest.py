"""What the tests of this page share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from lcviz.ui import session


@pytest.fixture
def _nothing_known() -> Iterator[None]:
    """Experiments of one test are nobody else's."""
    yield
    session.all_jobs().close()
    session.all_jobs.clear()


@pytest.fixture
def recovering(visit: Callable[..., Any], _nothing_known: None) -> Callable[..., Any]:
    """The Recover page of a session of its own, opened with these URL parameters."""
    return partial(visit, "recover")
