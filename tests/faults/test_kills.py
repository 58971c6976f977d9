"""The quick set: every call to the file system, and a few random times. See kills.py."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_nothing_that_was_told_is_lost(quick: Callable[..., str]) -> None:
    out = quick("kills", "--random", "20")
    assert "LOST" not in out
    killed = int(out.split(" killed")[0].split()[-1])
    assert killed >= 110, out  # that many calls there are
