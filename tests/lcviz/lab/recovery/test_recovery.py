"""The protocol of recovery: rework on a trend, methods at equal bytes, the same numbers again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import codec
from codec import Coding
from lcviz.lab.measures import crossing
from lcviz.lab.progress import as_report
from lcviz.lab.recovery.baselines import Scar
from lcviz.lab.recovery.methods import Method, lc
from lcviz.lab.recovery.recovery import (
    Outcome,
    Protocol,
    ProtocolError,
    fail_and_recover,
    fail_repeatedly,
)
from lcviz.lab.workload import workload

METHODS = [
    Method("full"),
    Method("scar", 0.1),
    Method("topn", 0.1),
    lc(Coding(budget=0.1)),
    lc(Coding(2)),
    lc(Coding(None, "tensor", "huffman", 0.1)),
]
SHORT = Protocol(fail_at=12, cap=15, smooth=2)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    found = fail_and_recover(workload("matrix-factorization"), 3, METHODS, SHORT)
    return {o.method.name: o for o in found}


def test_names(outcomes: dict[str, Outcome]) -> None:
    lc = ["LC run-length", "LC run-length, 2 bits", "LC Huffman, steps, per tensor"]
    assert list(outcomes) == ["full", "SCAR", "TOPN", *lc]


def test_full_loses_nothing(outcomes: dict[str, Outcome]) -> None:
    full = outcomes["full"]
    assert (full.rework, full.rework_raw, full.capped, full.distance) == (0, 0, False, 0)
    assert full.loss_restored == full.loss_before
    assert 1 < full.share < 1.1  # its record has a header


def test_less_is_farther(outcomes: dict[str, Outcome]) -> None:
    assert 0 < outcomes["LC run-length"].distance < outcomes["TOPN"].distance < 1
    assert outcomes["TOPN"].distance < outcomes["SCAR"].distance < 1
    for outcome in outcomes.values():
        assert outcome.seed == 3
        assert outcome.save_seconds > 0
        assert outcome.seconds > 0
        assert outcome.nbytes == pytest.approx(outcome.share * 4 * 6300)
        if outcome.method.share:
            assert outcome.share <= 0.1


def test_same_seed_same_numbers(outcomes: dict[str, Outcome]) -> None:
    calls: list[tuple[int, int]] = []
    again = fail_and_recover(
        workload("matrix-factorization"),
        3,
        METHODS[1:4:2],
        SHORT,
        as_report(lambda done, total: calls.append((done, total))),
    )
    for outcome in again:
        before = vars(outcomes[outcome.method.name]) | {"save_seconds": 0, "seconds": 0}
        assert vars(outcome) | {"save_seconds": 0, "seconds": 0} == before
    done = [n for n, _ in calls]
    assert (done, {total for _, total in calls}) == (sorted(done), {done[-1]})
    other = fail_and_recover(workload("matrix-factorization"), 4, METHODS[1:2], SHORT)
    assert other[0].loss_before != again[0].loss_before


def test_an_interval_loses_what_came_after_it() -> None:
    protocol = Protocol(fail_at=12, interval=5, cap=15, smooth=2)
    (full,) = fail_and_recover(workload("matrix-factorization"), 0, METHODS[:1], protocol)
    assert (full.rework, full.capped, full.since) == (2, False, 2)  # exact: no more than that
    assert 0 < full.distance < 1
    assert full.loss_restored > full.loss_before


def test_what_never_comes_back_is_capped() -> None:
    protocol = Protocol(fail_at=12, cap=2, smooth=2)
    nothing = Method("scar", 0.0001)
    (lost,) = fail_and_recover(workload("matrix-factorization"), 0, [nothing], protocol)
    assert (lost.rework, lost.rework_raw, lost.capped) == (2, 2, True)
    assert lost.distance == pytest.approx(1)


def test_an_optimizer_that_remembers_is_restored_too() -> None:
    adam = replace(workload("matrix-factorization"), optimizer="adam", lr=0.02)
    full, ours = fail_and_recover(adam, 0, [Method("full"), lc(Coding(None))], SHORT)
    assert full.rework == 0
    assert full.share > 3  # of the model's float32: two moments more
    assert ours.share < 1


@pytest.mark.parametrize("wrong", [{"interval": 0}, {"interval": 13}, {"cap": 0}, {"smooth": -1}])
def test_protocols_that_are_none(wrong: dict[str, int]) -> None:
    with pytest.raises(ProtocolError, match="must save before it fails"):
        Protocol(**{"fail_at": 12, "cap": 5} | wrong)


@pytest.mark.parametrize("method", [*METHODS[:2], METHODS[3], METHODS[5]], ids=lambda m: m.name)
def test_a_method_gives_back_what_it_tracks(method: Method, tmp_path: Path) -> None:
    training = workload("logistic-regression").training(0)
    saver = method.open(tmp_path)
    try:
        first = saver.save(0, training.state())
        assert first > 4 * 7850
        for step in range(1, 4):
            training.iterate(step)
            nbytes = saver.save(step, training.state())
            assert nbytes < first or method.kind == "full"
        state = saver.restore()
        assert state["model"].keys() == training.state()["model"].keys()
        before = state["model"]["linear.weight"].clone()
        training.load(state)
        training.iterate(4)
        assert torch.equal(state["model"]["linear.weight"], before)  # a copy, not the track
        assert torch.equal(saver.restore()["model"]["linear.weight"], before)
    finally:
        saver.close()


@pytest.mark.parametrize("interval", [1, 5])
def test_against_a_training_told_step_by_step(interval: int) -> None:
    """The protocol in its plainest form, for SCAR."""
    of, share, last, cap, w = workload("matrix-factorization"), 0.01, 12, 15, 2
    undisturbed = of.training(5)
    start = {k: v.clone() for k, v in undisturbed.task.model.state_dict().items()}
    track = Scar(start, fraction=share)
    losses, states = [undisturbed.task.probe_loss()], [start]
    for step in range(1, last + cap + w + 1):
        undisturbed.iterate(step)
        losses.append(undisturbed.task.probe_loss())
        states.append({k: v.clone() for k, v in undisturbed.task.model.state_dict().items()})
        if step <= last and step % interval == 0:
            track.step(states[step])
    restored = of.training(5)
    restored.load({"model": {k: torch.from_numpy(v) for k, v in track.state.items()}})
    after = [restored.task.probe_loss()]
    since = last % interval
    for step in range(last - since + 1, last + cap + 1):
        restored.iterate(step)
        after.append(restored.task.probe_loss())
    trend = [sum(losses[t - w : t + w + 1]) / (2 * w + 1) for t in range(last, last + cap + 1)]
    rework = crossing(trend, [own - losses[last + r] for r, own in enumerate(after[since:])])
    raw = [r for r, loss in enumerate(after) if r >= since and loss <= losses[last]]

    # Its record has a header, which has to be paid for from the share.
    nbytes = [Scar(start, fraction=share).step(states[1]).nbytes]
    protocol = Protocol(last, interval, cap, w)
    (found,) = fail_and_recover(of, 5, [_Free("scar", share)], protocol)
    assert rework is not None
    assert found.rework == pytest.approx(since + rework)
    assert 1 < found.rework < cap
    assert found.rework_raw == raw[0]
    assert found.nbytes == pytest.approx(nbytes[0], rel=0.05)
    assert (found.loss_before, found.loss_restored) == (losses[last], after[0])


class _Free(Method):
    """A baseline whose header costs nothing."""

    def open(self, _folder: Path) -> _FreeSaver:
        return _FreeSaver(self.share or 0.0)


class _FreeSaver:
    def __init__(self, share: float) -> None:
        self._share, self._track = share, Scar({})

    def save(self, step: int, state: Mapping[str, Any]) -> int:
        if step == 0:
            self._track = Scar(state["model"], fraction=self._share)
            return 0
        return self._track.step(state["model"]).nbytes

    def restore(self) -> dict[str, Any]:
        return {"model": {k: torch.from_numpy(v.copy()) for k, v in self._track.state.items()}}

    def close(self) -> None:
        pass


def test_failing_again_and_again() -> None:
    """Against the same told step by step; with whole checkpoints nothing is lost."""
    of = workload("matrix-factorization")
    calls: list[tuple[int, int]] = []
    full, ours = fail_repeatedly(
        of,
        1,
        [Method("full"), lc(Coding(1))],
        2,
        9,
        as_report(lambda done, total: calls.append((done, total))),
    )
    assert calls == [(n, 27) for n in range(1, 28)]
    assert full.metric == full.undisturbed == ours.undisturbed
    training = of.training(1)
    start = {k: v.clone() for k, v in training.task.model.state_dict().items()}
    tracker = codec.Tracker(start, bits=1)
    for step in range(1, 10):
        training.iterate(step)
        tracker.step(training.task.model.state_dict())
        if step in (3, 6):
            training.load({"model": {k: torch.from_numpy(v) for k, v in tracker.state.items()}})
    assert ours.metric == training.task.held_out_metric() != ours.undisturbed
    assert (ours.metric_name, ours.seed) == ("RMSE", 1)
    assert 0 < ours.share < 0.2 < full.share
