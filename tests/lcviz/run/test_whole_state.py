"""Runs whose checkpoints hold Adam's state beside the weights."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import codec
from codec import Coding
from lcviz.lab.progress import unreported
from lcviz.lab.recovery.kill import Crash, OnDisk
from lcviz.lab.recovery.methods import lc
from lcviz.lab.recovery.recovery import Protocol, fail_and_recover
from lcviz.live.step_record import StepRecord
from lcviz.run.run import RunError
from tests.lcviz.common import Make, MakeRun, finished, stepped

WHOLE: dict[str, Any] = {"model": "lenet5", "optimizer": "adam", "optimizer_state": True}
KEYS = ("exp_avg", "exp_avg_sq")


def test_every_record_holds_weights_and_moments(finished_runs: MakeRun) -> None:
    """One base: zeros stand for the moments before the first iteration."""
    run = finished_runs(**WHOLE)
    checkpoints = run.snapshot().checkpoints
    assert [c.kind for c in checkpoints] == ["base", *["delta"] * 6]
    first = codec.restore(run.path, 0)["optimizer"]["state"]
    assert all(not own[key].any() and not own["step"] for own in first.values() for key in KEYS)
    state = codec.restore(run.path)
    assert state["model"].keys() == run.task.model.state_dict().keys()
    assert {float(own["step"]) for own in state["optimizer"]["state"].values()} == {6.0}
    assert all(own[key].any() for own in state["optimizer"]["state"].values() for key in KEYS)
    for c in checkpoints[1:]:
        lossy = [n for n, p in run.task.model.named_parameters() if p.numel() >= 8]
        for kind in "mv":
            assert [m.parameter for m in c.moments if m.kind == kind] == lossy
        delta = codec.Chain(run.path).at(c.step)
        assert delta.entry.nbytes == c.nbytes
        assert c.full_nbytes > 3 * c.weights_nbytes == 3 * 4 * 61_706


def test_the_weights_are_those_of_a_run_that_saves_them_alone(finished_runs: MakeRun) -> None:
    """Saving more changes neither the training nor what is coded of the weights."""
    whole, alone = (finished_runs(**WHOLE | {"optimizer_state": w}) for w in (True, False))
    pairs = zip(whole.snapshot().checkpoints, alone.snapshot().checkpoints, strict=True)
    for with_moments, weights in pairs:
        assert weights.moments == ()
        mine, other = (
            (c.losses, c.distance, [(a.names, a.nbytes) for a in c.alphabets])
            for c in (weights, with_moments)
        )
        assert mine == other
    mine, other = codec.restore(whole.path)["model"], codec.restore(alone.path)
    assert all(torch.equal(mine[name], other[name]) for name in other)


def test_saved_once_more(finished_runs: MakeRun, retry: Callable[..., StepRecord]) -> None:
    """Of the whole state, to the last byte, with moments and all."""
    run, other = finished_runs(**WHOLE), finished_runs(**WHOLE, bits=3)
    for first in other.snapshot().checkpoints[1:]:
        shown = retry(run, Coding(3), step=first.step)
        assert (shown.nbytes, shown.moments) == (first.nbytes, first.moments)
    shown, less = retry(run, Coding(3), step=1), retry(run, Coding(3), 1, step=1)
    assert less.moments == shown.moments
    assert less.nbytes < shown.nbytes


@pytest.mark.parametrize("whole", [True, False])
def test_going_on_takes_the_saved_optimizer(make_run: MakeRun, whole: bool) -> None:
    run = make_run(**WHOLE | {"optimizer_state": whole})
    stepped(run, 2)
    run.kill()
    run.go_on()
    state = run._trainer.live.training.state()
    if not whole:
        assert "optimizer" not in state
        return
    saved = codec.Chain(run.path).restore(dithers=True)["optimizer"]["state"]
    now = state["optimizer"]["state"]
    assert now.keys() == saved.keys()
    for i, own in saved.items():
        assert float(own["step"]) == 2.0
        assert all(torch.equal(own[key], now[i][key]) for key in own)
    assert stepped(run).newest.step == 3


def test_it_races_back_as_the_lab_does(make_run: MakeRun) -> None:
    """Against the experiment that writes a chain of its own from whole states."""
    run = finished(make_run(**WHOLE))
    run.kill()
    (kill,) = run.snapshot().kills
    ours = OnDisk("lc", chain=run.path, newest=kill.step, whole=True)
    s = run.settings
    crash = Crash(s.workload, s.seed, 6, 1, ours, 0.05, kill.last_fingerprint, cap=5)
    raced = crash.race(unreported)
    assert raced.alike
    stop = Protocol(6, 1, 5, optimizer_at_start=True)
    (again,) = fail_and_recover(s.workload, s.seed, [lc(Coding(), "default")], stop)
    assert raced.outcomes[-1].race.restored == again.race.restored
    (full,) = (one for one in raced.outcomes if one.method.name == "full")
    assert full.nbytes > 3 * run.snapshot().newest.weights_nbytes  # m and v, too
    alone = replace(crash, ours=replace(ours, whole=False)).protocol
    assert (alone.optimizer, alone.optimizer_at_start) == (False, False)


def test_only_adam_has_moments(settings_for: Make) -> None:
    with pytest.raises(RunError, match="Only Adam and AdamW"):
        settings_for(optimizer_state=True).check()
