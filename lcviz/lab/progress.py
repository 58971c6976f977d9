"""Progress of a long piece of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Progress = Callable[[int, int], None]  # done, of how many in all

_FINE = 1000  # steps of one part


class Report(Protocol):
    """A `Progress` that also takes what the work has found so far."""

    def __call__(self, done: int, total: int, so_far: Any = None, /) -> None: ...


def unreported(_done: int, _total: int, _so_far: Any = None, /) -> None:
    """The `Report` of work that nobody follows."""


def counted(progress: Progress) -> Report:
    """Progress as a `Report` whose results nobody wants."""
    return lambda done, total, _so_far=None: progress(done, total)


def part(progress: Progress, i: int, n: int) -> Progress:
    """Progress of the i-th of n parts, as progress of the whole; i counts from 0."""
    return lambda done, total: progress(_FINE * i + _FINE * done // total, _FINE * n)
