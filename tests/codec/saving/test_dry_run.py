"""What a chain would hold, against chains that are written, values and exact tensors included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codec
from codec.saving.checkpointer import Front
from codec.saving.dry_run import DryRun, record_nbytes
from codec.scheme.coding import Coding
from codec.state.policy import Policy
from codec.state.tensors import to_arrays
from tests.codec.chains import tracker_of

CHOICES = [
    Coding(2),
    Coding(None, "tensor", "huffman"),
    Coding(None, "model", "runlength", 0.12),
    Coding(None, "tensor", "runlength", 0.12),
]


def states(n: int) -> Iterator[dict[str, Any]]:
    """Nested states with a number, a text that comes and goes, and a tensor that is exact."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(40, 60))
    for i in range(n):
        yield {
            "model": {"w": w.astype(np.float32)},
            "ids": np.arange(20) + i // 3,
            "epoch": i // 2,
            "note": "a longer text" * (i % 3),
        }
        w = w + rng.normal(size=w.shape) * 2.0 ** rng.integers(-9, 1, size=w.shape)


@pytest.mark.parametrize("choice", CHOICES, ids=lambda v: v.describe())
def test_byte_for_byte_and_bit_for_bit(choice: Coding, tmp_path: Path) -> None:
    v, front, mine = choice, Front(Policy()), None
    with codec.Checkpointer(tmp_path / "c.lcc", **v.header(), restore_work=None) as checkpointer:
        for i, state in enumerate(states(8)):
            step = 95 + i  # the number gets a digit more on the way
            parts, layout = front.look_at(state)
            arrays, said = to_arrays(parts.tensors, layout), checkpointer.save(step, state)
            if mine is None:
                mine = DryRun(v, layout, arrays, parts.values)
                continue
            before = {name: array.copy() for name, array in mine.track.items()}
            delta = mine.prepare(step, arrays, parts.values)
            assert all(np.array_equal(mine.track[name], a) for name, a in before.items())
            assert record_nbytes(step, delta, mine.layout) == said.nbytes
            if v.budget is not None:
                assert said.nbytes - said.exact_nbytes <= v.budget * layout.lossy_nbytes
            mine.commit(delta)
            live = tracker_of(checkpointer).state
            assert all(np.array_equal(mine.track[name], a) for name, a in live.items())
