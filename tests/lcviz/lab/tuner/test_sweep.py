"""Sweeps: what makes two of them the same, and what they try out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codec.errors import SourceError
from lcviz.lab.series import TrainedSeries
from lcviz.lab.tuner.candidates import settings
from lcviz.lab.tuner.sweep import RUN_ITERATIONS, Sweep, stamped
from lcviz.lab.tuner.tuner import choose, tune
from lcviz.lab.workload import workload


def test_a_choice_or_every_setting() -> None:
    few, many = Sweep("lenet5").tried, Sweep("lenet5", wide=True).tried
    assert len(few) == 60
    assert set(few) < set(many) == set(settings())
    assert len(set(many)) == len(many) == (9 + 2 * 4 + 2) * 2 * 2 * 4
    assert all(s.coding.bits is None or s.coding.by_bits for s in many)
    assert len(Sweep("matrix-factorization").series) == 161
    assert Sweep("matrix-factorization").unit == "iteration"


def test_a_run_is_repeated_with_few_settings() -> None:
    trained = workload("logistic-regression")
    sweep = Sweep("", run=trained, seed=3)
    assert set(sweep.tried) < set(Sweep("", wide=True).tried)
    assert len(sweep.tried) == 36
    assert sweep.series == TrainedSeries(trained, 3, RUN_ITERATIONS)
    assert sweep.unit == "iteration"
    assert Sweep("", run=trained, seed=3, wide=True).tried == settings()


def test_checkpoints_of_one_s_own(own: Path) -> None:
    sweep = stamped(str(own), wide=False)
    told: list[tuple[int, int]] = []
    found = sweep.try_out(lambda done, total: told.append((done, total)))
    assert told[-1] == (40, 40)
    chosen = choose(found, "distance", 0.2, sweep.tried)
    assert chosen == tune(sweep.series, "distance", 0.2, sweep.tried)
    assert sweep.unit == "checkpoint"


def test_checkpoints_that_have_changed_are_others(own: Path) -> None:
    before = stamped(str(own), wide=False)
    assert stamped(str(own), wide=False) == before
    assert hash(stamped(str(own), wide=False)) == hash(before)
    os.utime(own / "3.pt", ns=(1, 1))
    assert stamped(str(own), wide=False) != before
    missing = stamped(str(own / "nowhere"), wide=False)
    with pytest.raises(SourceError, match="not found"):
        missing.try_out(lambda _done, _total: None)
