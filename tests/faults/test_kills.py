"""The quick set: every call to the file system once, and a few random times. See kills.py."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

STEPS = 5  # that each process saves


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_nothing_that_was_told_is_lost(quick: Callable[..., str]) -> None:
    out = quick("kills", "--random", "10", "--every", "2")
    assert "LOST" not in out
    assert "MISSED" not in out
    planned = int(out.split(" planned")[0].split()[-1])
    # Each save at least opens, writes and fsyncs a file, and gives it its name, in a new chain and
    # in one that goes on; half of these calls before, and half of them after it.
    assert planned >= 2 * STEPS * 4, out
    assert f"{planned} reached" in out
    for name in ("open", "write", "fsync", "link", "unlink"):
        assert f" {name}" in out.splitlines()[-2], name
