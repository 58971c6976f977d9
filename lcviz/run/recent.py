"""What is kept of the newest steps, up to a number of bytes."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Newest(Generic[T]):
    """Values by step, of which the oldest are let go; not for several threads at once.

    budget: bytes that all values may take together. The newest one stays whatever it takes.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._nbytes = budget, 0
        self._held: dict[int, tuple[T, int]] = {}

    def add(self, step: int, value: T, nbytes: int) -> None:
        """Keep one more; nbytes: what it takes."""
        self.drop(step)
        self._held[step] = value, nbytes
        self._nbytes += nbytes
        while self._nbytes > self._budget and len(self._held) > 1:
            self.drop(next(iter(self._held)))

    def drop(self, step: int) -> None:
        """Let one go, if it is there."""
        _, nbytes = self._held.pop(step, (None, 0))
        self._nbytes -= nbytes

    def keep(self, n: int) -> None:
        """Let all go but the newest n."""
        for step in self.steps[: max(len(self._held) - n, 0)]:
            self.drop(step)

    def get(self, step: int) -> T | None:
        """One that is kept, or None."""
        return self._held[step][0] if step in self._held else None

    @property
    def steps(self) -> tuple[int, ...]:
        """Those that are kept, in the order in which they came."""
        return tuple(self._held)
