"""The removed-bucket experiment against a slow and obvious one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec import Coding
from lcviz.lab.anatomy import dissect
from lcviz.lab.removed_bucket import (
    Dissection,
    errors_without,
    remove_buckets_of_last,
    removed_buckets,
)
from lcviz.lab.series import OwnSeries, SeriesState, TrainedSeries
from lcviz.lab.workload import workload
from tests.lcviz.common import Calls, Make, files

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


def test_on_the_last_checkpoint_of_a_series() -> None:
    """Against the states of the same training, tracked here."""
    series = TrainedSeries(workload("logistic-regression"), 2, iterations=7, interval=2)
    states = [{n: a.copy() for n, a in m.arrays.items()} for m in series]
    task = series.workload.training(2).task
    tracker = codec.Tracker(states[0], 2)
    for state in states[1:3]:
        tracker.step(state)
    before = {n: a.copy() for n, a in tracker.state.items()}
    result = remove_buckets_of_last(series, Coding(2), progress=(calls := Calls()))
    n, total = len(result.buckets), calls[0][1]
    done = [total * i // 6 for i in (1, 2, 3)]
    done += [total // 2 + total // 2 * i // n for i in range(1, n + 1)]
    assert calls == [(each, total) for each in done]
    assert result.step == 6
    moved = np.sqrt(sum(float(np.square(states[3][n] - states[0][n]).sum()) for n in before))
    assert result.distance < 0.3
    assert result.loss == pytest.approx(task.probe_loss(states[3]), rel=0.05)
    nothing = result.buckets[0]  # with the largest, all go: the track stays where it was
    far = np.sqrt(sum(float(np.square(states[3][n] - before[n]).sum()) for n in before)) / moved
    assert nothing.loss_below == pytest.approx(task.probe_loss(before), rel=1e-6)
    assert nothing.distance_below == pytest.approx(far, rel=1e-5)


def test_a_series_that_always_begins_anew(tmp_path: Path) -> None:
    files(tmp_path, ({f"w{i}": torch.ones(10)} for i in range(2)))
    with pytest.raises(codec.SettingsError, match="no two checkpoints in a row"):
        remove_buckets_of_last(OwnSeries([tmp_path]), Coding(2))


def test_exact_tensors_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    states = ({"w": torch.full((9,), float(i)), "n": torch.tensor(i)} for i in range(3))
    files(tmp_path, states)
    seen: list[int] = []

    class Telling(OwnSeries):
        def __iter__(self) -> Iterator[SeriesState]:
            tell = lambda state: float(seen.append(int(state["n"])) or 0)  # noqa: E731
            for moment in super().__iter__():
                yield replace(moment, loss_of=tell)

    remove_buckets_of_last(Telling([tmp_path]), Coding(2))
    assert set(seen) == {2}


def test_distances_are_of_what_is_quantized(tmp_path: Path) -> None:
    """A tensor that is not finite, that came later, or of an optimizer, changes nothing."""
    rng = np.random.default_rng(3)
    w = [torch.from_numpy(rng.normal(size=50).astype(np.float32)) * i for i in range(5)]

    def distance(*states: dict[str, Any], coding: Coding = Coding(2)) -> float:  # noqa: B008
        return remove_buckets_of_last(OwnSeries([files(tmp_path, states)]), coding).distance

    alone = distance(*({"w": one} for one in w))
    assert alone > 0
    assert distance(*({"w": one, "b": torch.full((9,), np.inf)} for one in w)) == alone
    moments = ({0: {"exp_avg_sq": torch.full((9,), 4.0**i)}} for i in range(5))
    beside = [{"w": one, "optimizer": {"state": state}} for one, state in zip(w, moments)]
    assert distance(*beside) == alone
    other = {"w": torch.ones(2, 25), "a": torch.ones(9)}  # what is of another layout counts no more
    anew = distance(other, other, other, {"w": w[3]}, {"w": w[4]}, coding=Coding(None))
    assert 0 < anew < 0.3


@pytest.mark.parametrize("last", [1.0, np.nan])
def test_nothing_changed_last(tmp_path: Path, last: float) -> None:
    files(tmp_path, ({"w": torch.full((9,), value)} for value in (1.0, 1.0, last)))
    with pytest.raises(codec.SettingsError, match="checkpoint 2: no change can be quantized"):
        remove_buckets_of_last(OwnSeries([tmp_path]), Coding(2))
