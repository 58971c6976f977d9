"""A training that was loaded goes on as the one that was saved."""

import copy

import pytest
import torch

from demo_models import Training, make_task
from tests.bits import bits

SETTINGS = [("sgd", 0.1, 0.0), ("sgd", 0.1, 0.9), ("adam", 0.003, 0.0), ("adamw", 0.003, 0.0)]


def training(optimizer: str, lr: float, momentum: float, seed: int = 0) -> Training:
    task = make_task("matrix-factorization", "synthetic-ratings", seed=seed)
    return Training(task, optimizer, lr, momentum, batch_size=64)


@pytest.mark.parametrize("settings", SETTINGS[:3])
def test_it_goes_on_where_it_was_saved(settings: tuple[str, float, float]) -> None:
    undisturbed, loaded = training(*settings), training(*settings)
    first = copy.deepcopy(undisturbed.state())
    losses = [undisturbed.iterate(iteration) for iteration in range(1, 4)]
    saved = copy.deepcopy(undisturbed.state())
    assert ("optimizer" in saved) == (settings != SETTINGS[0])
    after = [undisturbed.iterate(i) for i in range(4, 6)]
    loaded.iterate(1)  # something to be replaced
    loaded.load(saved)
    assert [loaded.iterate(i) for i in range(4, 6)] == after
    assert bits(loaded.state()) == bits(undisturbed.state())
    undisturbed.load(saved)  # a step back
    assert [undisturbed.iterate(i) for i in range(4, 6)] == after
    undisturbed.load(first)  # a state without an optimizer's makes it forget
    assert [undisturbed.iterate(i) for i in range(1, 4)] == losses


def test_settings() -> None:
    task = make_task("matrix-factorization", "synthetic-ratings")
    for beta2 in (0.999, 0.9):
        of = Training(task, "adamw", 0.01, beta2=beta2)
        of.iterate(1)
        assert of.state()["optimizer"]["param_groups"][0]["betas"] == (0.9, beta2)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_state_begun_early_changes_no_iteration(optimizer: str) -> None:
    """To the last bit; plain SGD has none."""
    tasks = (make_task("lenet5", "digits", seed=3) for _ in range(2))
    early, late = (Training(task, optimizer, 0.001) for task in tasks)
    early.begin_optimizer()
    assert ("optimizer" in early.state()) == (optimizer != "sgd")
    for iteration in range(1, 3):
        assert early.iterate(iteration) == late.iterate(iteration)
    early.begin_optimizer()  # of no effect any more
    states = early.state(), late.state()
    torch.testing.assert_close(*states, rtol=0, atol=0)
