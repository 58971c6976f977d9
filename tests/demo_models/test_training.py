"""A training that was loaded goes on as the one that was saved."""

from __future__ import annotations

import copy

import pytest
import torch

from demo_models import MODELS, BatchError, NumberError, Training, make_task

SETTINGS = [("sgd", 0.1, 0.0), ("sgd", 0.1, 0.9), ("adam", 0.003, 0.0), ("adamw", 0.003, 0.0)]


def training(optimizer: str, lr: float, momentum: float, seed: int = 0) -> Training:
    task = make_task("matrix-factorization", "synthetic-ratings", seed=seed)
    return Training(task, optimizer, lr, momentum, batch_size=64)


def bits(of: Training) -> dict[str, bytes]:
    return {name: t.numpy().tobytes() for name, t in of.task.model.state_dict().items()}


@pytest.mark.parametrize("settings", SETTINGS)
def test_it_goes_on_where_it_was_saved(settings: tuple[str, float, float]) -> None:
    undisturbed, loaded = training(*settings), training(*settings)
    for iteration in range(1, 6):
        undisturbed.iterate(iteration)
    saved = copy.deepcopy(undisturbed.state())
    assert ("optimizer" in saved) == (settings != SETTINGS[0])
    after = [undisturbed.iterate(i) for i in range(6, 9)]
    loaded.iterate(1)  # something to be replaced
    loaded.load(saved)
    assert [loaded.iterate(i) for i in range(6, 9)] == after
    assert bits(loaded) == bits(undisturbed)
    undisturbed.load(saved)  # a step back
    assert [undisturbed.iterate(i) for i in range(6, 9)] == after


def test_a_state_without_an_optimizer_s_makes_it_forget() -> None:
    of = training("sgd", 0.1, 0.9)
    first = copy.deepcopy(of.state())
    losses = [of.iterate(i) for i in (1, 2)]
    of.load(first)
    assert [of.iterate(i) for i in (1, 2)] == losses


def test_beta2_counts() -> None:
    task = make_task("matrix-factorization", "synthetic-ratings")
    (slow, fast) = (Training(task, "adamw", 0.01, beta2=beta2) for beta2 in (0.999, 0.9))
    slow.iterate(1)
    fast.iterate(1)
    (left, right) = (of.state()["optimizer"]["param_groups"][0]["betas"] for of in (slow, fast))
    assert (left, right) == ((0.9, 0.999), (0.9, 0.9))


def test_settings_out_of_range() -> None:
    task = make_task("logistic-regression", "digits")
    with pytest.raises(BatchError):
        Training(task, "sgd", 0.1, batch_size=10**6)
    with pytest.raises(NumberError):
        Training(task, "sgd", -1.0)


@pytest.mark.parametrize("name", MODELS)
def test_all_held_out_examples_are_measured(name: str) -> None:
    task = make_task(name, MODELS[name].default_data)
    every, n = task.held_out_metric(), task.dataset.held_out[-1].numel()
    assert n > task.probe[-1].numel()
    state = {k: v.flip(0) for k, v in task.model.state_dict().items()}
    assert task.held_out_metric(state) != every
    correct = every * n if task.metric_name == "accuracy" else n
    assert correct == pytest.approx(round(correct), abs=1e-3)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_a_state_begun_early_changes_no_iteration(optimizer: str) -> None:
    """To the last bit; plain SGD has none."""
    early, late = (
        Training(make_task("lenet5", "digits", seed=3), optimizer, 0.001) for _ in range(2)
    )
    early.begin_optimizer()
    assert ("optimizer" in early.state()) == (optimizer != "sgd")
    for iteration in range(1, 4):
        assert early.iterate(iteration) == late.iterate(iteration)
    early.begin_optimizer()  # of no effect any more
    for name, value in late.state()["model"].items():
        assert torch.equal(early.state()["model"][name], value)
    if optimizer != "sgd":
        pairs = zip(
            early.state()["optimizer"]["state"].values(),
            late.state()["optimizer"]["state"].values(),
            strict=True,
        )
        assert all(torch.equal(a[key], b[key]) for a, b in pairs for key in b)
