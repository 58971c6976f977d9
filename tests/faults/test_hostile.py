"""The quick set: all that is soon made. See hostile.py."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="limits and their units are Linux's")
def test_files_made_to_do_harm_are_refused(quick: Callable[..., str]) -> None:
    out = quick("hostile", "--small", "--seconds", "120")  # a slow machine is no fault
    assert " cases, 0 WRONG" in out, out
    assert int(out.split(" cases, 0 WRONG")[0].split()[-1]) >= 70, out
