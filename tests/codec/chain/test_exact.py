"""Exact tensors along a chain: residuals in deltas, and every bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec.errors import RewoundWarning
from tests.bits import same
from tests.codec.chains import save_all
from tests.compaction import add_base

N = 8
EXACT = {"*": "exact"}


@pytest.fixture
def states() -> list[dict[str, Any]]:
    """Weights in bfloat16 of which some change, their float32 moments, a mask, random bits."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(6000) / 50
    moment = rng.standard_normal(3000).astype(np.float32)
    seen = []
    for step in range(N):
        weights = torch.from_numpy(w).bfloat16()
        weights[:4] = torch.tensor([0.0, -0.0, float("inf"), 1e-40])
        weights.view(torch.int16)[4] = -3 - step  # NaN, each time with another payload
        weights.view(torch.int16)[5] = -32768 if step % 2 else 0
        seen.append(
            {
                "model": {"w": weights, "moment": moment},
                "mask": np.abs(moment) > 1,
                "random": rng.integers(0, 256, 2000).astype(np.uint8),
                "step": step,
            }
        )
        w = w + (rng.random(6000) < 0.3) * rng.standard_normal(6000) / 20_000
        moment = (0.9 * moment + 0.1 * rng.standard_normal(3000)).astype(np.float32)
    return seen


def check(path: Path, states: list[dict[str, Any]]) -> None:
    """That each step has every bit."""
    report = codec.verify(path)
    assert (report.problems, report.steps) == ((), tuple(range(len(states))))
    assert same([codec.restore(path, step) for step in range(len(states))], states)


def names(path: Path, step: int) -> set[str]:
    return set(codec.Chain(path).at(step).record.arrays)


def test_every_step(tmp_path: Path, states: list[dict[str, Any]]) -> None:
    run = tmp_path / "run.lcc"
    save_all(run, states, policy=EXACT)
    check(run, states)
    assert names(run, 3) >= {"d/model/w", "d/model/moment", "d/mask", "t/random"}
    whole = 2 * 6000 + 4 * 3000 + 3000 + 2000  # bytes of weights, moment, mask and random bits
    (delta,) = run.glob("00000003.*")
    assert delta.stat().st_size < 0.75 * whole  # random bits and most of a moment are new


def test_resume_compact_and_rewind(tmp_path: Path, states: list[dict[str, Any]]) -> None:
    path = tmp_path / "run.lcc"
    for begin, end in ((0, 3), (3, 6)):
        save_all(path, states[begin:end], begin, policy=EXACT, resume=True)
    add_base(path)
    save_all(path, states[6:], 6, resume=True)
    check(path, states)
    assert "d/model/w" in names(path, 6)  # the first after the new base
    with pytest.warns(RewoundWarning):
        codec.rewind(path, 6)
    save_all(path, [states[3] | {"step": 7}], 7, resume=True)
    assert same(codec.restore(path), states[3] | {"step": 7})
    assert codec.verify(path).ok


def test_a_tensor_that_is_whole_in_between(tmp_path: Path) -> None:
    """A residual, a whole array, a residual: each applies to the array before it."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2**40, 500)
    other = rng.integers(0, 2**62, 500) * 2 - 2**62
    arrays = [first, first + 1, other, other + 2, other + 5, other + 5]
    path = tmp_path / "run.lcc"
    save_all(path, ({"x": array} for array in arrays))
    for step, kind in ((1, "d"), (2, "t"), (3, "d"), (4, "d")):
        assert f"{kind}/x" in names(path, step)
    check(path, [{"x": array} for array in arrays])
