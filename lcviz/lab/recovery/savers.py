"""The savers of some methods at work in one training, with the bytes and seconds of each save."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .methods import Method, Saver


class TimedSaver:
    """A saver, with the bytes and seconds of each save."""

    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self._sizes: list[int] = []
        self._seconds: list[float] = []

    def save(self, step: int, state: Mapping[str, Any]) -> None:
        """Save a checkpoint."""
        began = time.perf_counter()
        self._sizes.append(self._saver.save(step, state))
        self._seconds.append(time.perf_counter() - began)

    def restore(self) -> dict[str, Any]:
        """The state of the newest checkpoint, in new tensors."""
        return self._saver.restore()

    @property
    def nbytes(self) -> float:
        """Mean size on disk of a checkpoint after the first."""
        return float(np.mean(self._sizes[1:]))

    @property
    def seconds(self) -> float:
        """The median of a save after the first."""
        return float(np.median(self._seconds[1:]))


@contextmanager
def savers_of(methods: Sequence[Method]) -> Iterator[list[TimedSaver]]:
    """A saver for each method, in a temporary folder of its own. Raises what `Method.open` does."""
    with ExitStack() as stack:
        savers = []
        for method in methods:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            savers.append(TimedSaver(stack.enter_context(closing(method.open(Path(folder))))))
        yield savers
