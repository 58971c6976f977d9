"""Progress of a long piece of work."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done, of how many in all

_FINE = 1000  # steps of one part


def part(progress: Progress, i: int, n: int) -> Progress:
    """Progress of the i-th of n parts, as progress of the whole; i counts from 0."""
    return lambda done, total: progress(_FINE * i + _FINE * done // total, _FINE * n)
