"""Many small parameter tensors with an optimizer's moments: few alphabets, few bytes each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import codec
from codec.saving.saved import Saved
from tests.codec.chains import save_all

F32 = np.float32


def saved_with(path: Path, n: int, scope: str, size: int = 20) -> Saved:
    """The third save of n parameters, Adam's moments and steps."""
    rng, states = np.random.default_rng(0), []
    for step in range(3):
        weights, moments = {}, {}
        for i in range(n):
            scale = F32(10.0 ** -(i % 7))
            m = scale * rng.standard_normal(size).astype(F32)
            weights[f"layers.{i}.weight"], v = m, m * m + scale * scale
            moments[i] = {"step": np.array(step, F32), "exp_avg": m / 2, "exp_avg_sq": v}
        states.append({"model": weights, "optimizer": {"state": moments}})
    saved = save_all(path, states, scope=scope)
    assert codec.verify(path).ok
    return saved[-1]


@pytest.mark.parametrize("scope", ["model", "tensor"])
def test_one_alphabet_for_each_moment(tmp_path: Path, scope: str) -> None:
    """Whatever the scope, and for large ones too; what a parameter tensor adds to a record has a
    bound."""
    few, many = (saved_with(tmp_path / f"{n}.lcc", n, scope) for n in (20, 120))
    large = saved_with(tmp_path / "large.lcc", 2, scope, size=2**16)
    for saved in (few, many, large):
        assert saved.delta is not None
        of_moments = [g for g in saved.delta.groups if g.tensors[0].measure]
        assert [str(g.tensors[0].family) for g in of_moments] == [
            "roots=0.5 exp_avg",
            "octaves=0.25 exp_avg_sq",
        ]
        assert scope == "tensor" or len(saved.delta.groups) == 3
    moments = (many.moment_nbytes - few.moment_nbytes) / 100
    assert moments < 2 * 20 * 4 / 8  # of two moments, 4 bits a value and nothing else
    assert many.exact_nbytes - few.exact_nbytes < 8  # all steps are equal
    assert many.exact_nbytes < 120
