"""What these tests share."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(scope="module", autouse=True)
def prepared() -> None:
    """What each rank would else load for itself."""
    importlib.import_module("torch._dynamo")  # which the first DTensor imports
