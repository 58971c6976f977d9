"""How far a long piece of work is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done, of how many in all

_FINE = 1000  # steps of one part


def part(progress: Progress, i: int, n: int) -> Progress:
    """What the i-th of n parts tells of itself, as progress of the whole; i counts from 0."""
    return lambda done, total: progress(_FINE * i + _FINE * done // total, _FINE * n)
