"""The quick set: some thousand inputs. See fuzz.py."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_only_named_errors_come_back(quick: Callable[..., str]) -> None:
    out = quick("fuzz", "--inputs", "12000", "--seed", "1")
    assert "12,000 inputs, 0 findings" in out, out
