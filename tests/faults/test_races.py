"""The quick set: a few cases, disturbed in each way. See races.py."""

from __future__ import annotations

from collections.abc import Callable


def test_threads_and_memory_do_not_show(quick: Callable[..., str]) -> None:
    assert quick("races") == "10 rounds of 10 cases, 0 differ\n"
