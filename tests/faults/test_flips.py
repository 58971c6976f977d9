"""The quick set: a bit of every few bytes, and of the zip's directory of most. See flips.py."""

from __future__ import annotations

from collections.abc import Callable


def test_damage_is_noticed(quick: Callable[..., str]) -> None:
    out = quick("flips", "--every", "5", "--files", "200", "--archive", "64", "--bits", "1")
    assert "UNNOTICED" not in out.replace("0 UNNOTICED", ""), out
    assert out.count("lengths, 0 unnoticed") == 6, out
    assert "files: " in out
    assert int(out.split(" noticed,")[0].split()[-1]) > 300, out
