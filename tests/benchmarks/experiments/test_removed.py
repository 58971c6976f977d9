"""Buckets left out of the last checkpoint of a series."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from benchmarks.experiments.removed import remove_buckets_of_last
from codec import Coding
from lcviz.lab.series import OwnSeries, SeriesState, TrainedSeries
from lcviz.lab.workload import workload
from tests.lcviz.common import Calls, files


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
