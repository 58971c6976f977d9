"""The removed-bucket experiment against a slow and obvious one."""

from typing import Any

import numpy as np
import pytest

from lcviz.lab.anatomy import dissect
from lcviz.lab.removed_bucket import Dissection, errors_without, removed_buckets
from tests.lcviz.common import Calls, Make

Arrays = dict[str, np.ndarray]
MOVED = 7.5


def loss_of(state: Arrays) -> float:
    """Some function of every number in a state that notices each change."""
    ranks = {name: np.arange(1, a.size + 1).reshape(a.shape) for name, a in state.items()}
    return float(sum(np.cos(a.astype(np.float64) * ranks[name]).sum() for name, a in state.items()))


def pieces(case: Any) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Name, the bucket of every value as 2 · exponent + sign, and that bucket's middle."""
    parts = []
    for group in case.step.groups:
        deltas = {t.name: (case.after[t.name] - case.before[t.name]).ravel() for t in group.tensors}
        values = np.concatenate(list(deltas.values()))
        of_values = buckets_of(values)
        for name, delta in deltas.items():
            buckets, middle = buckets_of(delta), np.zeros_like(delta)
            for bucket in set(buckets[delta != 0].tolist()):
                members = values[(of_values == bucket) & (values != 0)].astype(np.float64)
                middle[buckets == bucket] = np.float32((members.min() + members.max()) / 2)
            middle[delta == 0] = 0
            parts.append((name, buckets, middle))
    return parts


def buckets_of(delta: np.ndarray) -> np.ndarray:
    numbers: np.ndarray = 2 * (np.frexp(delta)[1] - 1) + (delta < 0)
    return numbers


def rebuild(case: Any, parts: Any, *without: tuple[int, int]) -> Arrays:
    """Each bucket's middle is added, but for some buckets, which add nothing."""
    state = {name: array.copy() for name, array in case.before.items()}
    left_out = [2 * exponent + sign for exponent, sign in without]
    for name, buckets, middle in parts:
        state[name] += np.where(np.isin(buckets, left_out), 0, middle).reshape(state[name].shape)
    return state


def distance_to(case: Any, state: Arrays) -> float:
    """||state - u_t|| / moved over the tensors that are quantized."""
    names = [t.name for group in case.step.groups for t in group.tensors]
    total = sum(float(np.square(state[n].astype(np.float64) - case.after[n]).sum()) for n in names)
    return float(np.sqrt(total)) / MOVED


@pytest.mark.parametrize(("bits", "scope"), [(1, "tensor"), (2, "model"), (None, "tensor")])
def test_against_a_slow_recomputation(make_case: Make, bits: int | None, scope: str) -> None:
    case = make_case(23, bits, scope)
    kept_copy = {name: array.copy() for name, array in case.before.items()}
    alphabets, stage = dissect(case.changes, case.step)
    reported, dissection = Calls(), Dissection(case.before, alphabets, stage)
    result = removed_buckets(9, dissection, MOVED, loss_of, reported, below=True)
    assert result.step == 9
    parts = pieces(case)
    whole = rebuild(case, parts)
    assert result.loss == loss_of(whole)
    assert result.distance == pytest.approx(distance_to(case, whole), rel=1e-3, abs=1e-6)

    deltas = np.concatenate(case.deltas())
    mantissa, exponent = np.frexp(deltas)
    codes = np.concatenate(case.codes())
    keys = sorted(
        {(int(e) - 1, int(d < 0)) for m, e, d in zip(mantissa, exponent, deltas) if m},
        key=lambda k: (-k[0], k[1]),
    )
    assert [(b.exponent, b.sign) for b in result.buckets] == keys
    for b in result.buckets:
        without = rebuild(case, parts, (b.exponent, b.sign))
        mine = (mantissa != 0) & (exponent - 1 == b.exponent) & ((deltas < 0) == b.sign)
        assert (b.count, b.kept) == (int(mine.sum()), bool((codes[mine] > 0).any()))
        assert b.loss == loss_of(without)
        assert b.distance == pytest.approx(distance_to(case, without), rel=1e-3, abs=1e-6)
        below = rebuild(case, parts, *keys[keys.index((b.exponent, b.sign)) :])
        assert b.loss_below == loss_of(below)
        assert b.distance_below == pytest.approx(distance_to(case, below), rel=1e-3, abs=1e-6)
    rounding, errors = errors_without(alphabets)  # the same distances, as shares of δ
    share = MOVED / float(np.linalg.norm(deltas.astype(np.float64)))
    assert rounding == pytest.approx(result.distance * share, rel=1e-6)
    shares = {(b.exponent, b.sign): b.distance * share for b in result.buckets}
    assert shares == pytest.approx(errors)
    assert reported == [(i, len(keys)) for i in range(1, len(keys) + 1)]
    for name, array in kept_copy.items():  # the caller's track is left alone
        assert np.array_equal(case.before[name], array)


def test_nothing_changed(make_case: Make) -> None:
    """A delta of zeros has no bucket, and the model as it was."""
    case = make_case(scale={"wide": 0.0, "bias": 0.0})
    alphabets, stage = dissect(case.changes, case.step)
    result = removed_buckets(1, Dissection(case.before, alphabets, stage), 0.0, loss_of)
    assert result.buckets == ()
    assert (result.loss, result.distance) == (loss_of(case.before), 0.0)
