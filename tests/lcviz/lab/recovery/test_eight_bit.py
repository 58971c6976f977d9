"""8-bit blocks: as near as their levels allow, a byte a value and less."""

import numpy as np
import pytest

from lcviz.lab.recovery.eight_bit import BLOCK, _levels, rounded


@pytest.mark.parametrize("signed", [True, False])
def test_levels(signed: bool) -> None:
    levels = _levels(signed)
    assert len(set(levels.tolist())) == 256
    assert (levels[-1], 0 in levels, bool((levels < 0).any())) == (1, True, signed)
    within = levels[levels > 0.1]
    assert np.diff(within)[:-1] == pytest.approx(0.9 / (64 if signed else 128), rel=0.01)


@pytest.mark.parametrize("n", [1, BLOCK, 2 * BLOCK + 5])
def test_values_come_back_roughly(n: int) -> None:
    values = np.random.default_rng(0).normal(size=n).astype(np.float32) * np.float32(1e-3)
    values[n // 2] = 0
    for array in (values, values**2, np.zeros(n, np.float32)):
        back, nbytes = rounded(array)
        assert (back.dtype, back.shape, back[n // 2]) == (np.float32, array.shape, 0)
        top = np.repeat(np.abs(array)[: n // BLOCK * BLOCK].reshape(-1, BLOCK).max(axis=1), BLOCK)
        top = np.append(top, np.full(n - top.size, np.abs(array[top.size :]).max(initial=0)))
        assert (np.abs(back - array) <= 0.0075 * top).all()
        assert nbytes < 1.1 * n + 40
        assert (np.signbit(back) <= np.signbit(array)).all()


def test_each_block_has_a_scale() -> None:
    values = np.ones(2 * BLOCK, np.float32)
    values[BLOCK:] = 1e-6
    assert np.array_equal(rounded(values.reshape(2, BLOCK))[0].reshape(-1), values)
