"""Sweeps: what makes two of them the same, and what they try out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from lcviz.lab.series import OwnSeries, TrainedSeries
from lcviz.lab.tuner.candidates import Grid
from lcviz.lab.tuner.sweep import RUN_ITERATIONS, Sweep
from lcviz.lab.tuner.tuner import choose, tune
from lcviz.lab.workload import workload
from tests.lcviz.common import Calls


def test_a_choice_or_every_setting() -> None:
    few, many = Sweep("lenet5").candidate_settings, Sweep("lenet5", wide=True).candidate_settings
    assert len(few) == 60
    assert set(few) < set(many) == set(Grid().settings)
    assert len(set(many)) == len(many) == (3 * (9 + 4) + 3 * (4 + 2)) * 2 * 4
    assert all(s.coding.bits is None or s.coding.by_bits for s in many)
    assert len(Sweep("matrix-factorization").series) == 161


def test_a_run_is_repeated_with_few_settings() -> None:
    trained = workload("logistic-regression")
    sweep = Sweep("", run=trained, seed=3)
    assert set(sweep.candidate_settings) < set(Sweep("", wide=True).candidate_settings)
    assert len(sweep.candidate_settings) == 36
    assert sweep.series == TrainedSeries(trained, 3, RUN_ITERATIONS)
    assert Sweep("", run=trained, seed=3, wide=True).candidate_settings == Grid().settings


class Opened:
    """Checkpoints as the dashboard opens them."""

    def __init__(self, folder: Path) -> None:
        self._paths = [folder / f"{step}.safetensors" for step in range(8)]

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(range(8))

    def states(self) -> Iterator[tuple[int, Any]]:
        return enumerate(map(load_file, self._paths))


def test_checkpoints_of_one_s_own(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They give what the same files give by their path."""
    few = Grid((2,), (0.1,), ("model",), ("runlength",), (1, 2), ("uniform",), ()).settings
    monkeypatch.setattr(Sweep, "candidate_settings", property(lambda _: few))
    for i in range(8, 40):
        (own / f"{i}.safetensors").unlink()
    sweep = Sweep("", "digest", opened=Opened(own))
    found = sweep.try_out(told := Calls())
    assert told[-1] == (8, 8)
    chosen = choose(found, "distance", 0.2, sweep.candidate_settings)
    assert chosen == tune(OwnSeries([own]), "distance", 0.2, sweep.candidate_settings)


def test_the_same_files_are_the_same_sweep(own: Path) -> None:
    """Its key does not keep them."""
    sweep = Sweep("", "digest", opened=Opened(own))
    assert sweep == Sweep("", "digest", opened=Opened(own)) == sweep.key
    assert hash(sweep) == hash(sweep.key)
    assert sweep.key.opened is None
    assert sweep != Sweep("", "other", opened=sweep.opened)
