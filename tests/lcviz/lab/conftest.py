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

    def deltas(self) -> list[np.ndarray]:
        """The delta of each group, flat, in the codec's order."""
        return [
            np.concatenate([(self.after[t.name] - self.before[t.name]).ravel() for t in g.tensors])
            for g in self.step.groups
        ]


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """A seeded step over tensors of very different scale; ``scale`` overrides some of them."""

    def make(
        seed: int = 0,
        bits: int | None = 2,
        scope: str = "model",
        scale: dict[str, float] | None = None,
    ) -> Case:
        rng = np.random.default_rng(seed)
        shapes = {"wide": (40, 50), "bias": (30,), "still": (5, 5), "tiny": (3,)}
        scales = {"wide": 0.01, "bias": 3.0, "still": 0.0, "tiny": 1.0} | (scale or {})
        before = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
        after = {}
        for name, shape in shapes.items():
            change = rng.normal(size=shape) * 2.0 ** rng.integers(-9, 1, size=shape)
            after[name] = (before[name] + scales[name] * change).astype(np.float32)
        tracker = codec.Tracker(before, bits, scope)
        return Case(before, after, tracker.prepare(after))

    return make
