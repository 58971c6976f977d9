"""The protocol of recovery: rework on a trend, methods at equal bytes, the same numbers again."""

from pathlib import Path

import pytest
import torch

from codec import Coding
from lcviz.lab.recovery.methods import Method, lc
from lcviz.lab.recovery.recovery import Outcome, Protocol, ProtocolError, fail_and_recover
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


def test_full_loses_nothing(outcomes: dict[str, Outcome]) -> None:
    lc = ["LC run-length", "LC run-length, 2 bits", "LC Huffman, steps, per tensor"]
    assert list(outcomes) == ["full", "SCAR", "TOPN", *lc]
    full = outcomes["full"]
    assert (full.rework, full.rework_raw, full.capped, full.distance) == (0, 0, False, 0)
    assert full.loss_restored == full.loss_before
    assert 1 < full.share < 1.1  # its record has a header


def test_less_is_farther(outcomes: dict[str, Outcome]) -> None:
    distances = [outcomes[name].distance for name in ("full", "LC run-length", "TOPN", "SCAR")]
    assert sorted({*distances, 1.0}) == [*distances, 1.0]
    for outcome in outcomes.values():
        assert outcome.seed == 3
        assert min(outcome.save_seconds, outcome.seconds) > 0
        assert outcome.nbytes == pytest.approx(outcome.share * 4 * 6300)
        if outcome.method.share:
            assert outcome.share <= 0.1


def test_what_never_comes_back_is_capped() -> None:
    protocol = Protocol(fail_at=12, cap=2, smooth=2)
    nothing = Method("scar", 0.0001)
    (lost,) = fail_and_recover(workload("matrix-factorization"), 0, [nothing], protocol)
    assert (lost.rework, lost.rework_raw, lost.capped) == (2, 2, True)
    assert lost.distance == pytest.approx(1)


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
