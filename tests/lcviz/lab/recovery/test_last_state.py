"""A crash at the last state of a series, against the experiment that trains."""

from pathlib import Path

import pytest
import torch

from codec import SettingsError
from lcviz.lab.recovery.last_state import LastState, crash_at_last
from lcviz.lab.recovery.methods import Method, methods_at
from lcviz.lab.recovery.recovery import Protocol, fail_and_recover
from lcviz.lab.series import OwnSeries
from lcviz.lab.workload import workload
from tests.lcviz.common import files as saved_files

ITERATIONS = 12
METHODS = (Method("full"), *methods_at(0.05))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a training of the lab."""
    folder = tmp_path_factory.mktemp("own")
    training = workload("matrix-factorization").training(0)
    for step in range(ITERATIONS + 1):
        if step:
            training.iterate(step)
        torch.save(training.state(), folder / f"{step}.pt")
    return folder


@pytest.fixture(scope="module")
def found(files: Path) -> LastState:
    return crash_at_last(OwnSeries([files]), METHODS)


def test_it_restores_what_the_lab_s_experiment_restores(found: LastState) -> None:
    protocol = Protocol(ITERATIONS, 1, 5, 2)
    outcomes = fail_and_recover(workload("matrix-factorization"), 0, METHODS, protocol)
    assert [r.method for r in found.restored] == list(METHODS)
    for mine, trained in zip(found.restored, outcomes, strict=True):
        assert mine.distance == pytest.approx(trained.distance)
        assert mine.nbytes == trained.nbytes
        assert mine.loss == pytest.approx(trained.loss_restored)
        assert found.loss == pytest.approx(trained.loss_before)
    assert found.restored[0].distance == 0
    assert found.restored[1].distance > found.restored[-1].distance > 0


def test_the_lab_s_model_that_the_tensors_fit_gives_the_loss(found: LastState) -> None:
    assert found.by.startswith("Matrix factorization on ")
    assert (found.step, found.restored[0].lost) == (ITERATIONS, 0)
    assert 0 < found.restored[-1].lost < 0.1


def test_weights_alone_fit_those_of_another_training_do_not(files: Path, tmp_path: Path) -> None:
    for i in (0, 6, 12):
        weights = torch.load(files / f"{i}.pt")["model"]
        torch.save(weights, tmp_path / f"{i}.pt")
    assert crash_at_last(OwnSeries([tmp_path]), METHODS).by
    (tmp_path / "0.pt").rename(tmp_path / "99.pt")  # as if it had unlearned
    other = crash_at_last(OwnSeries([tmp_path]), METHODS)
    assert (other.by, other.loss, other.restored[0].loss) == ("", None, None)
    assert other.restored[1].distance > 0


def test_a_loss_of_one_s_own_gets_the_state_as_it_was_saved(tmp_path: Path) -> None:
    for i in range(4):
        torch.save({"net": {"w": torch.full((900,), float(i))}, "epoch": i}, tmp_path / f"{i}.pt")

    def loss(state: dict[str, object]) -> float:
        assert isinstance(state["epoch"], int)
        net = state["net"]
        assert isinstance(net, dict)
        return 10 - float(net["w"].mean())

    found = crash_at_last(OwnSeries([tmp_path], loss=loss), METHODS)
    assert (found.loss, found.restored[0].loss, found.by) == (7, 7, "")
    assert found.restored[0].lost == 0


def test_states_that_cannot_be_compared(tmp_path: Path) -> None:
    saved_files(tmp_path, ({"w": w} for w in (torch.ones(900), torch.zeros(900), torch.ones(800))))
    with pytest.raises(SettingsError, match="checkpoint 2 differ from those of the first one"):
        crash_at_last(OwnSeries([tmp_path]), METHODS)
    torch.save({"w": torch.full((900,), float("nan"))}, tmp_path / "2.pt")
    with pytest.raises(SettingsError, match="checkpoint 2 holds NaN"):
        crash_at_last(OwnSeries([tmp_path]), METHODS)
