"""A step of the codec on made-up tensors, with all that it came from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import codec

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One step: the track before it, the state that was saved, and what the codec made of it."""

    before: Arrays
    after: Arrays
    step: codec.Step

    @property
    def changes(self) -> Arrays:
        """Name -> what the step encodes."""
        return {name: self.after[name] - self.before[name] for name in self.before}

    def deltas(self) -> list[np.ndarray]:
        """The delta of each group, flat, in the codec's order."""
        return [
            np.concatenate([self.changes[t.name].ravel() for t in g.tensors])
            for g in self.step.groups
        ]

    def codes(self) -> list[np.ndarray]:
        """The codes of each group as the record has them, read from the record."""
        return [codec.decode(g.encoded).codes for g in self.step.groups]


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """A seeded step over tensors of very different scale; ``scale`` overrides some of them.

    ``steps``: it is the last of so many, so that its tables may be ones sent before.
    """

    def make(
        seed: int = 0,
        bits: int | None = 2,
        scope: str = "model",
        scale: dict[str, float] | None = None,
        coder: str = "runlength",
        budget: float | None = None,
        steps: int = 1,
    ) -> Case:
        rng = np.random.default_rng(seed)
        shapes = {"wide": (40, 50), "bias": (30,), "still": (5, 5), "tiny": (3,)}
        scales = {"wide": 0.01, "bias": 3.0, "still": 0.0, "tiny": 1.0} | (scale or {})
        after = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
        tracker = codec.Tracker(after, bits, scope, coder, budget)
        for _ in range(steps):
            before = {name: array.copy() for name, array in tracker.state.items()}
            after = dict(after)
            for name, shape in shapes.items():
                change = rng.normal(size=shape) * 2.0 ** rng.integers(-9, 1, size=shape)
                after[name] = (after[name] + scales[name] * change).astype(np.float32)
            step = tracker.step(after)
        return Case(before, after, step)

    return make
