"""What the chain's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codec.chain import upkeep


@pytest.fixture(scope="module", autouse=True)
def no_waiting() -> Iterator[None]:
    """A restore is not measured again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "MEASURED_TIMES", 1)
        yield


@pytest.fixture(scope="session")
def refield(parts_of: Callable[..., Any], forge: Callable[..., bytes]) -> Callable[..., None]:
    """Change fields of a record; its digest is right."""

    def make(path: Path, **fields: Any) -> None:
        metadata, arrays = parts_of(path.read_bytes())
        path.write_bytes(forge(metadata | fields, arrays))

    return make
