"""The quick set: two writers, a reader beside some hundred steps. See writers.py."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_several_processes_at_one_chain(quick: Callable[..., str]) -> None:
    out = quick("writers", "--rounds", "10", "--steps", "100")
    assert "10 rounds of two writers" in out, out
    assert "9 steps of a clock that jumps" in out
    # The writer waits for a read every 20 steps.
    assert int(out.split(" reads beside a writer")[0].split()[-1]) >= 4, out
