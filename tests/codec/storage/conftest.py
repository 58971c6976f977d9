"""What the tests of storage share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codec.chain import upkeep


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """A restore is not measured again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "MEASURED_TIMES", 1)
        yield
