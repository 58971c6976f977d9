"""The quick set: some hundred records. See length.py."""

from __future__ import annotations

from collections.abc import Callable


def test_appending_and_opening_do_not_grow(quick: Callable[..., str]) -> None:
    out = quick("length", "--records", "200", "--count")
    assert "0 figures beyond their limit" in out, out
    assert "append: " in out
    assert "of 200\n" in out
