"""What the codec's tests share, beside chains.py, forging.py and states.py."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from tests.codec import states
from tests.codec.chains import save_all

settings.register_profile("codec", derandomize=True, max_examples=60, deadline=None, database=None)
settings.load_profile("codec")

PAPER = [0.76, -0.48, 0.2, 0.07, 0.18, 0.49, 0.14, 0.39, 0.82, 0.09]


@pytest.fixture(scope="session")
def paper() -> np.ndarray:
    """The delta of the paper's worked example, float32 (10,)."""
    return np.array(PAPER, np.float32)


@pytest.fixture(scope="session")
def huffman_total() -> Callable[[list[int]], int]:
    """Bits of an optimal prefix code for these counts: the sum of all merged weights."""

    def total(counts: list[int]) -> int:
        heap = [c for c in counts if c]
        heapq.heapify(heap)
        bits = 0
        while len(heap) > 1:
            merged = heapq.heappop(heap) + heapq.heappop(heap)
            bits += merged
            heapq.heappush(heap, merged)
        return bits

    return total


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A chain of a base and three deltas, steps 0, 10, 20, 30."""
    path = tmp_path / "run.lcc"
    save_all(path, states.random_states(), stride=10, bits=3)
    return path
