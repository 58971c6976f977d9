"""The quick set: every second call refused once, and what the kernel refuses. See disks.py."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes are Linux's")
def test_a_refused_call_changes_nothing(quick: Callable[..., str]) -> None:
    out = quick("disks", "--codes", "1", "--every", "2", "--lasting", "5", "--stride", "20")
    refused = int(out.split(" calls refused")[0].split()[-1])
    assert refused >= 110, out  # half of the calls that there are
    assert int(out.split(" records too large")[0].split()[-1]) >= 8
