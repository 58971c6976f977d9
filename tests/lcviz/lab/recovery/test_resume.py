"""A training that goes on without its optimizer's exact moments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lcviz.lab.recovery.recovery import ProtocolError
from lcviz.lab.recovery.resume import WAYS, Stop, Way, restarts
from lcviz.lab.workload import workload

ADAM = replace(workload("matrix-factorization"), optimizer="adam", lr=0.02)


def test_an_exact_state_loses_nothing() -> None:
    told: list[tuple[int, int]] = []
    everything = Way("everything", {"*": "exact"})
    stop = Stop(at=12, interval=2, saves=3, horizon=4)
    (found,) = restarts(
        ADAM, 1, stop, [everything], progress=lambda done, all_: told.append((done, all_))
    )
    training = ADAM.training(1)
    losses = [training.iterate(t) and training.task.probe_loss() for t in range(1, 17)]
    assert list(found.losses) == losses[12:]
    assert told == [(done, 16) for done in range(1, 17)]


def test_less_of_the_moments_is_less_to_write() -> None:
    found = restarts(ADAM, 0, Stop(at=30, saves=10, horizon=5))
    assert [r.way.name for r in found] == [w.name for w in WAYS]
    shares = [r.share for r in found]
    assert shares == sorted(shares, reverse=True)
    assert len({r.losses for r in found}) == len(found)


def test_a_stop_before_its_first_save() -> None:
    with pytest.raises(ProtocolError, match="3 checkpoints, one every 4, do not fit before 12"):
        restarts(ADAM, 0, Stop(at=12, interval=4, saves=3))
