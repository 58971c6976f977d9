"""What these tests share."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator

import pytest

import codec


@pytest.fixture(scope="module", autouse=True)
def prepared() -> Iterator[None]:
    """What each rank would else load for itself; and nothing here needs what fsync does."""
    codec.warm_up()
    importlib.import_module("torch._dynamo")  # which the first DTensor imports
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield
