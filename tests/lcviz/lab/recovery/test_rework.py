"""Costs over seeds, and the curves they were counted on."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lcviz.lab.recovery.recovery import Outcome, Protocol, fail_and_recover
from lcviz.lab.recovery.rework import CrashExperiment, costs
from lcviz.lab.workload import workload

SHORT = Protocol(fail_at=12, interval=5, cap=15, smooth=2)
EXPERIMENT = CrashExperiment("matrix-factorization", 0.1, SHORT)


def nothing(_done: int, _total: int) -> None:
    pass


@pytest.fixture(scope="module")
def seeds() -> list[tuple[Outcome, ...]]:
    return [EXPERIMENT.fail(seed, nothing) for seed in (0, 1)]


def test_it_is_the_lab_s_experiment(seeds: list[tuple[Outcome, ...]]) -> None:
    again = fail_and_recover(workload("matrix-factorization"), 1, EXPERIMENT.methods, SHORT)
    still = {"save_seconds": 0.0, "seconds": 0.0}
    assert [replace(o, **still) for o in again] == [replace(o, **still) for o in seeds[1]]
    names = [o.method.name for o in again]
    assert names == ["full", "SCAR", "TOPN", "LC Huffman", "LC run-length"]
    assert all(o.share <= 0.1 for o in again[1:])


def test_races_are_the_losses_of_trainings(seeds: list[tuple[Outcome, ...]]) -> None:
    """The undisturbed one, and the one restored from a full checkpoint of iteration 10."""

    def losses(seed: int, last: int) -> list[float]:
        training = workload("matrix-factorization").training(seed)
        found = [training.task.probe_loss()]
        for step in range(1, last + 1):
            training.iterate(step)
            found.append(training.task.probe_loss())
        return found

    plain = losses(0, 12 + 15 + 2)
    full = seeds[0][0]
    race = full.race
    assert list(race.undisturbed) == plain[12:28]
    means = [np.mean(plain[t - 2 : t + 3]) for t in range(12, 28)]
    assert race.trend == pytest.approx(means)
    assert list(race.restored) == plain[10:14]  # at 12 it is back
    assert (full.rework, full.rework_raw, full.since, full.capped) == (2, 2, 2, False)
    assert 0 < full.distance < 1  # what came after the last save is lost
    assert full.on_trend[2:] == pytest.approx(race.trend[:2])
    assert full.on_trend[:2] == pytest.approx(race.trend_before[:2])
    assert (race.restored[0], race.undisturbed[0]) == (full.loss_restored, full.loss_before)


def test_rework_is_where_the_race_is_back(seeds: list[tuple[Outcome, ...]]) -> None:
    for outcome in (o for own in seeds for o in own):
        race, rework = outcome.race, outcome.rework
        assert len(race.trend) == len(race.undisturbed) == SHORT.cap + 1
        line = np.array(outcome.on_trend) - race.trend[0]
        assert rework >= outcome.since == SHORT.since == 2  # what was not saved is always repeated
        if not outcome.capped and rework > 2:
            assert np.all(line[2 : math.ceil(rework)] > 0)
            assert np.interp(rework, np.arange(len(line)), line) == pytest.approx(0, abs=1e-12)
        back = [r for r, loss in enumerate(race.restored) if r > 1 and loss <= outcome.loss_before]
        assert outcome.rework_raw == (back[0] if back else 2 + SHORT.cap)


def test_costs_are_means_over_seeds(seeds: list[tuple[Outcome, ...]]) -> None:
    def made(rework: float, capped: bool = False) -> Outcome:
        return replace(seeds[0][0], rework=rework, capped=capped)

    _, lost = costs([[made(6.0), made(15.0, True)]])
    assert lost.capped == 1
    two = [[made(6.0)], [replace(seeds[1][0], rework=3.0)]]
    (cost,) = costs(two)
    assert ([value for value, _ in cost.each], cost.rework.value) == ([6, 3], 4.5)
    assert cost.distance == pytest.approx(np.mean([own[0].distance for own in two]))
    with pytest.raises(ValueError, match="no mean"):
        costs([])


def test_what_progress_raises_ends_it(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen = []

    def stop(done: int, _total: int) -> None:
        seen.append((done, len(list(tmp_path.iterdir()))))
        if done == 5:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        EXPERIMENT.fail(0, stop)
    assert seen[-1] == (5, 5)  # a folder for each method, until then
    assert not list(tmp_path.iterdir())
