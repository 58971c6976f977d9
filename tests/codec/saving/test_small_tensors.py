"""Many small parameter tensors with an optimizer's moments: few alphabets, few bytes each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import codec
from codec.saving.saved import Saved

F32 = np.float32


def saved_with(path: Path, n: int, scope: str, size: int = 20) -> Saved:
    """The third save of n parameters, Adam's moments and steps."""
    rng = np.random.default_rng(0)
    with codec.Checkpointer(path, scope=scope) as checkpoints:
        for step in range(3):
            weights, moments = {}, {}
            for i in range(n):
                m = (rng.standard_normal(size) * 10.0 ** -(i % 7)).astype(F32)
                weights[f"layers.{i}.weight"] = m
                moments[i] = {"step": np.array(step, F32), "exp_avg": m / 2, "exp_avg_sq": m * m}
            saved = checkpoints.save(step, {"model": weights, "optimizer": {"state": moments}})
    assert codec.verify(path).ok
    return saved


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_one_alphabet_for_each_moment(tmp_path: Path, scope: str) -> None:
    """Whatever the scope; what a parameter tensor adds to a record has a bound."""
    few, many = (saved_with(tmp_path / f"{n}.lcc", n, scope) for n in (20, 120))
    for saved in (few, many):
        assert saved.delta is not None
        of_moments = [g for g in saved.delta.groups if g.tensors[0].alone]
        assert [str(g.tensors[0].family) for g in of_moments] == [
            "bits=3 exp_avg",
            "bits=3 exp_avg_sq",
        ]
        assert scope == "tensor" or len(saved.delta.groups) == 3
    moments = (many.moment_nbytes - few.moment_nbytes) / 100
    assert moments < 2 * (1 + 7 * 4 + 20 * 4 / 8)  # two moments: numbers, levels, 4 bits a value
    assert many.exact_nbytes - few.exact_nbytes < 8  # all steps are equal
    assert many.exact_nbytes < 120


def test_a_large_moment_has_an_alphabet(tmp_path: Path) -> None:
    saved = saved_with(tmp_path / "run.lcc", 2, "model", size=2**16)
    assert saved.delta is not None
    alone = [str(g.tensors[0].family) for g in saved.delta.groups if g.tensors[0].alone]
    kinds = ("exp_avg", "exp_avg_sq")
    assert alone == [f"bits=3 optimizer/state/{i}/{kind}" for i in range(2) for kind in kinds]
    assert all(len(g.tensors) == 1 for g in saved.delta.groups[1:])
