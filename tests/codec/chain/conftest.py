"""What the chain's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def refield(parts_of: Callable[..., Any], forge: Callable[..., bytes]) -> Callable[..., None]:
    """Change fields of a record; its digest is right."""

    def make(path: Path, **fields: Any) -> None:
        metadata, arrays = parts_of(path.read_bytes())
        path.write_bytes(forge(metadata | fields, arrays))

    return make
