"""Progress of a long piece of work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Progress = Callable[[int, int], None]  # takes the steps done, and those in all

_FINE = 1000  # steps of one part


class Report(Protocol):
    """A `Progress` that also takes the results so far."""

    def __call__(self, done: int, total: int, so_far: Any = None, /) -> None: ...


def unreported(_done: int, _total: int, _so_far: Any = None, /) -> None:
    """A `Report` that does nothing."""


def as_report(progress: Progress) -> Report:
    """A `Report` that passes on progress and drops the results."""
    return lambda done, total, _so_far=None: progress(done, total)


def part(progress: Progress, i: int, n: int) -> Progress:
    """The progress of part i of n, reported as progress of the whole; i counts from 0."""
    return lambda done, total: progress(_FINE * i + _FINE * done // total, _FINE * n)
