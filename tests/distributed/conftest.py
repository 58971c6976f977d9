"""What these tests share."""

from __future__ import annotations

import importlib

import pytest

import codec


@pytest.fixture(scope="module", autouse=True)
def prepared() -> None:
    """What each rank would else load for itself."""
    codec.warm_up()
    importlib.import_module("torch._dynamo")  # which the first DTensor imports
