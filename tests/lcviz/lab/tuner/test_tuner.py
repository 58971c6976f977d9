"""The tuner: what it tries, what it measures, what it recommends and why."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import codec
from codec import Coding
from codec.errors import BudgetError
from lcviz.lab.recovery.methods import lc
from lcviz.lab.recovery.recovery import Protocol, fail_and_recover
from lcviz.lab.series import OwnSeries, TrainedSeries
from lcviz.lab.tuner import replay
from lcviz.lab.tuner.candidates import Candidate, Grid, Setting
from lcviz.lab.tuner.replay import failure_points, just_before_a_checkpoint, try_out
from lcviz.lab.tuner.tuner import Tuned, choose, tune
from lcviz.lab.workload import workload
from lcviz.tune.answer import measure_of, reason
from tests.lcviz.common import Calls

SERIES = TrainedSeries(workload("logistic-regression"), 0, 48)


def settings(bits: Any, budgets: Any = (), intervals: Any = (1,), **more: Any) -> list[Setting]:
    """Every combination of these, of the whole model with run lengths."""
    few: dict[str, Any] = {"scopes": ("model",), "coders": ("runlength",), "distances": ()}
    return Grid(bits, budgets, intervals=intervals, **few | more).settings


UNIFORM = {"quantizers": ("uniform",)}
FEW = settings((1, 2, 3, None), (0.1,), (1, 4), distances=(0.3,), **UNIFORM)


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    return tune(SERIES, "rework", 2.0, FEW)


@pytest.fixture
def own(tmp_path: Path) -> OwnSeries:
    """Checkpoints of one tensor that wanders."""
    rng, w = np.random.default_rng(0), np.zeros(2000, np.float32)
    for i in range(24):
        torch.save({"w": torch.from_numpy(w.copy())}, tmp_path / f"{i}.pt")
        w += (rng.normal(size=2000) * 2.0 ** rng.integers(-8, 0, 2000)).astype(np.float32)
    return OwnSeries([tmp_path])


def test_what_is_recommended_meets_the_target_most_cheaply(tuned: Tuned) -> None:
    best = tuned.recommended
    assert best is not None
    assert best.rework is not None
    assert best.rework.value < best.rework_bound <= 2
    for c in tuned.candidates:
        assert c.rate == c.share / c.setting.interval
        assert c.rate >= best.rate or c.rework_bound > 2
        assert c.share <= c.share_bound
        assert c.setting.coding.budget is None or c.share_bound <= c.setting.coding.budget
        if c.setting == Setting(Coding(), 1):
            assert c.share_bound > 1.02 * c.share  # sizes differ


def test_the_frontier_is_what_nobody_beats(tuned: Tuned) -> None:
    def costs(c: Candidate) -> tuple[float, float, float]:
        assert c.rework
        return c.rate, c.distance.value, c.rework.value

    for c in tuned.candidates:
        beaten = any(
            all(a <= b for a, b in zip(costs(o), costs(c))) and costs(o) != costs(c)
            for o in tuned.candidates
        )
        assert (c in tuned.frontier) == (not beaten)
    rates = [c.rate for c in tuned.frontier]
    assert rates == sorted(rates)
    assert 2 < len(tuned.frontier) < len(tuned.candidates)


def test_sizes_and_distances_are_those_of_a_real_chain(tuned: Tuned, tmp_path: Path) -> None:
    interval = 4
    setting = Setting(Coding(), interval)
    (c,) = (c for c in tuned.candidates if c.setting == setting)
    fails = {just_before_a_checkpoint(t, interval) for t in failure_points(48)}
    distances, nbytes, start = [], [], {}
    with codec.Checkpointer(tmp_path / "run.lcc", bits=2, restore_work=None) as checkpoints:
        for number, moment in enumerate(SERIES):
            state = {n: a.copy() for n, a in moment.arrays.items()}
            start = start or state
            if number % interval == 0:
                saved = checkpoints.save(number, state)
                nbytes += [saved.nbytes] if number else []
            if number in fails:
                assert checkpoints.tracker
                track = checkpoints.tracker.state
                far, moved = (
                    math.sqrt(sum(float(np.square(a[n] - state[n]).sum()) for n in state))
                    for a in (track, start)
                )
                distances.append(far / moved)
    assert c.full_nbytes == 4 * 7850
    assert c.share * c.full_nbytes == pytest.approx(np.mean(nbytes))
    assert c.distance.value == pytest.approx(np.mean(distances), rel=1e-4)
    assert c.distance.n == len(fails)


@pytest.mark.parametrize("budget", [None, 0.1])
def test_sizes_are_those_of_a_chain_with_values(
    budget: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no tensor takes bytes as well, and large steps take more digits; so do bases."""
    monkeypatch.setattr("codec.saving.history.RESTORE_WORK", 3)
    monkeypatch.setattr("codec.saving.history.FREE_WORK", 0)
    n = 10_000
    rng, w, states = np.random.default_rng(0), np.zeros(n, np.float32), {}
    for i in range(12):
        w = w + (rng.normal(size=n) * 2.0 ** rng.integers(-8, 0, n)).astype(np.float32)
        model = {"w": torch.from_numpy(w)}
        states[1000 * i] = {"model": model, "epoch": torch.tensor(i), "name": f"run at {i}"}
        torch.save(states[1000 * i], tmp_path / f"{1000 * i}.pt")
    setting = Setting(Coding(budget=budget), 1)
    (c,) = tune(OwnSeries([tmp_path]), "size", 1, [setting]).candidates
    how = {"bits": setting.coding.bits, "budget": budget}
    with codec.Checkpointer(tmp_path / "run.lcc", **how) as checkpoints:
        saved = [checkpoints.save(step, state) for step, state in states.items()]
    assert [s.kind for s in saved] == ["base", *["delta"] * c.n_deltas] * 3
    of_all = np.mean([s.nbytes for s in saved]) / saved[0].full_nbytes
    assert c.with_bases.rate == pytest.approx(of_all, rel=0.05)
    longer = tmp_path / "longer.lcc"
    with codec.Checkpointer(longer, restore_work=None, **how) as checkpoints:
        saved = [checkpoints.save(step, state) for step, state in states.items()]
    assert c.share == np.mean([s.nbytes for s in saved[1:]]) / saved[0].full_nbytes


def test_it_foresees_what_recovery_finds(tuned: Tuned) -> None:
    """The same failures, with trainings that do go on from what was restored."""
    setting = Setting(Coding(), 4)
    (c,) = (c for c in tuned.candidates if c.setting == setting)
    fails = sorted({just_before_a_checkpoint(t, 4) for t in failure_points(48)})[::3]
    of, ours = SERIES.workload, [lc(setting.coding)]
    real = [fail_and_recover(of, 0, ours, Protocol(t, 4, cap=20))[0].rework for t in fails]
    assert c.rework is not None
    assert c.rework.value == pytest.approx(np.mean(real), rel=0.35, abs=0.3)


def test_a_target_of_size_wants_the_least_rework(tuned: Tuned) -> None:
    found = choose(tuned.candidates, "size", 0.06)
    assert found.recommended is not None
    assert found.recommended.share < found.recommended.share_bound <= 0.06
    for c in found.candidates:
        assert c.share_bound > 0.06 or c.rework_bound >= found.recommended.rework_bound


def test_checkpoints_without_a_training(own: OwnSeries) -> None:
    found = tune(own, "distance", 0.2, FEW)
    assert found.recommended is not None
    assert found.recommended.rework is None
    assert found.recommended.distance_bound <= 0.2
    calls = Calls()
    with pytest.raises(codec.SettingsError, match="loss of these checkpoints is unknown"):
        tune(own, "rework", 3, FEW, calls)
    assert calls == []  # before anything is tried
    with pytest.raises(codec.SettingsError, match="loss of these checkpoints is unknown"):
        choose(found.candidates, "rework", 3)


def test_settings_that_come_to_the_same_stand_there_once(own: OwnSeries) -> None:
    """All buckets are fewer than 8 bits can keep."""
    tried = settings((8, None))
    found = tune(own, "distance", 3.0, tried)
    assert [c.setting.coding.bits for c in found.candidates] == [8, None]
    assert [c.setting.coding.bits for c in found.frontier] == [8]


def test_what_is_stored_exactly_is_named(tmp_path: Path) -> None:
    """An optimizer's state, which no bits of the codec make smaller, until a policy does."""
    rng = np.random.default_rng(0)
    for i in range(6):
        w = torch.from_numpy(rng.normal(size=500).astype(np.float32))
        noise = torch.from_numpy(rng.integers(0, 2**31, 500, np.int32))
        m = noise.view(torch.float32)  # has no residual
        torch.save({"model": {"w": w * (1 + i)}, "optimizer": {"m": m}}, tmp_path / f"{i}.pt")
    few = settings((2,))
    found = tune(OwnSeries([tmp_path]), "size", 1.0, few).candidates
    assert found[0].exact_share == 0.5
    assert found[0].share > 0.5
    for most in (1.0, 0.1):
        answer = choose(found, "size", most)
        told = reason(answer, measure_of(answer, "file", 1.0))
        assert ", 2.00 kB are exact tensors: a policy can make them lossy." in told
    other = tune(OwnSeries([tmp_path], {"optimizer/*": "skip"}), "size", 1.0, few)
    assert other.candidates[0].exact_share == 0
    assert "exact tensors" not in reason(other, measure_of(other, "file", 1.0))


def test_nothing_meets_the_target(tuned: Tuned) -> None:
    found = choose(tuned.candidates[:4], "rework", 1e-9)
    assert found.recommended is None
    assert found.frontier


def test_a_few_at_a_time_is_the_same(tuned: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "MOST_TRACK_NBYTES", 3 * 4 * 7850)
    again = try_out(SERIES, FEW[:4], calls := Calls())
    assert again == tuned.candidates[:4]
    assert calls == [(n, 49 * 2) for n in range(1, 49 * 2 + 1)]  # in two rounds


@pytest.mark.parametrize(("target", "most"), [("speed", 1.0), ("size", 0.0), ("rework", math.nan)])
def test_targets_that_are_none(target: str, most: float) -> None:
    with pytest.raises(codec.SettingsError, match="size, rate, distance, rework"):
        tune(SERIES, target, most, FEW)


@pytest.mark.usefixtures("own")
def test_series_that_cannot_fail(tmp_path: Path) -> None:
    for iterations, interval in ((8, 10), (13, 1)):  # to fail, or to come back
        series = replace(SERIES, iterations=iterations)
        with pytest.raises(codec.SettingsError, match="too short to compare"):
            tune(series, "size", 0.1, settings((2,), intervals=(interval,)))
    torch.save({"w": torch.ones(7, 7)}, tmp_path / "24.pt")
    with pytest.raises(codec.SettingsError, match="tensors of checkpoint 24 differ from those"):
        tune(OwnSeries([tmp_path]), "size", 0.1, FEW[:1])


@pytest.mark.usefixtures("own")
def test_intervals_that_the_series_is_too_short_for(tmp_path: Path) -> None:
    few = settings((2,), intervals=(1, 2, 5, 10))
    for i in range(14, 24):
        (tmp_path / f"{i}.pt").unlink()
    own = OwnSeries([tmp_path])
    found = tune(own, "distance", 9, few)
    assert [c.setting.interval for c in found.candidates] == [1, 2]
    told = "Intervals of 5 or 10 are left out: this series is too short for them."
    assert told in found.left_out
    assert told in choose(found.candidates, "distance", 1e-9, few).left_out
    assert tune(own, "distance", 9, few[:2]).left_out == ""
    with pytest.raises(codec.SettingsError, match=r"saves at every 5 of them .* 15 or more are"):
        tune(own, "distance", 9, few[2:])


def test_a_series_that_is_not_finite(own: OwnSeries, tmp_path: Path) -> None:
    """No distance is known there."""
    torch.save({"w": torch.full((2000,), math.nan)}, tmp_path / "10.pt")
    with pytest.raises(codec.SettingsError, match="checkpoint 10 holds NaN, infinity or"):
        tune(own, "distance", 0.5, FEW[:1])


def test_budgets_that_are_too_small_are_left_out(own: OwnSeries) -> None:
    few = settings((2,), (1e-4, 0.1), **UNIFORM)
    found = tune(own, "distance", 0.9, few)
    assert [c.setting.coding.budget for c in found.candidates] == [None, 0.1]
    assert "1 setting is left out" in found.left_out
    with pytest.raises(BudgetError, match="header"):
        tune(own, "distance", 0.9, few[1:2])


def test_budgets_that_fail_are_not_blamed_on_the_series_alone(own: OwnSeries) -> None:
    bits = settings((2,), intervals=(1, 40))
    budget = settings((), (1e-4,), (2,), **UNIFORM)
    assert tune(own, "distance", 9, bits + budget).left_out == (
        " Intervals of 40 are left out: this series is too short for them."
        " 1 setting is left out: the budget is too small, or this series too short."
    )


def test_where_a_run_fails() -> None:
    points = failure_points(160)
    assert (points[0], points[-1]) == (40, 100)
    assert (len(points), just_before_a_checkpoint(40, 1)) == (10, 40)
    assert [just_before_a_checkpoint(t, 5) for t in (38, 39, 40, 43, 44)] == [34, 39, 39, 39, 44]
