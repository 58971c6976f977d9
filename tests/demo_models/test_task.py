"""Tasks: batches, losses, probes, determinism, and the errors about settings."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_models import (
    DATASETS,
    MODELS,
    ArgumentError,
    BatchError,
    IncompatibleDataError,
    NumberError,
    Task,
    TensorMismatchError,
    Training,
    UnknownNameError,
    make_optimizer,
    make_task,
)
from tests.bits import bits, same

ALL = list(MODELS)


def weights(task: Task) -> dict[str, object]:
    return {name: bits(tensor) for name, tensor in task.model.state_dict().items()}


def task_of(name: str, seed: int = 0) -> Task:
    return make_task(name, MODELS[name].default_data, seed=seed)


# --- determinism --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "optimizer"), [(name, ("adam", "sgd")[i % 2]) for i, name in enumerate(ALL)]
)
def test_same_seed_same_bits(name: str, optimizer: str) -> None:
    """Whatever the global random state is, and if the second run is probed."""
    card, first, second = MODELS[name], task_of(name, 3), task_of(name, 3)
    start = weights(first)
    assert weights(second) == start
    for number, task in enumerate((first, second)):
        torch.manual_seed(number)
        training = Training(task, optimizer, *card.optimizers[optimizer], card.batch_size)
        for iteration in range(1, 4):
            training.iterate(iteration)
            if task is second and iteration == 2:
                task.probe_loss({k: v + 1 for k, v in task.model.state_dict().items()})
    assert weights(first) == weights(second)
    assert all(start[key] != bits(after) for key, after in first.model.state_dict().items())


@pytest.mark.parametrize("name", ALL)
def test_seeds(name: str) -> None:
    """Another one gives other weights and batches; the global random state is left alone."""
    torch.manual_seed(0)
    np.random.seed(0)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    one, two = task_of(name, 0), task_of(name, 1)
    assert weights(one) != weights(two)
    assert not same(one.batch(1, 16), two.batch(1, 16))
    assert same(one.probe, two.probe)  # the probe belongs to the data
    assert len(one.probe[0]) == (64 if one.dataset.is_text else 256)
    assert same(one.probe, tuple(c[: len(one.probe[0])] for c in one.dataset.held_out))
    two.probe_loss()
    two.held_out_metric(two.model.state_dict())
    two.loss(two.batch(2, 8)).backward()
    assert torch.equal(torch.get_rng_state(), before)
    assert np.random.get_state()[1].tolist() == numpy_before


# --- batches ------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    iteration=st.integers(1, 2000),
    size=st.integers(1, 1437),
    before=st.lists(st.tuples(st.integers(1, 500), st.integers(1, 300)), max_size=3),
)
def test_batch_is_pure(iteration: int, size: int, before: list[tuple[int, int]]) -> None:
    """Whatever was asked for before, a batch is what a fresh task gives."""
    used = task_of("logistic-regression", 4)
    for other, other_size in before:
        used.batch(other, other_size)
    fresh = task_of("logistic-regression", 4)
    batch = used.batch(iteration, size)
    assert same(batch, fresh.batch(iteration, size))
    assert [part.shape for part in batch] == [(size, 1, 28, 28), (size,)]


def test_an_epoch_takes_each_example_once_and_drops_the_rest() -> None:
    task = task_of("matrix-factorization")
    n, size = task.dataset.n_train, 1000  # 21 batches an epoch, 600 examples left over
    pairs = set(zip(*(c.tolist() for c in task.dataset.train[:2]), strict=True))
    assert len(pairs) == n  # nobody rates twice, so a pair tells the example
    epochs = []
    for first in (1, 22):
        rows = [task.batch(first + k, size) for k in range(21)]
        seen = [p for u, i, _ in rows for p in zip(u.tolist(), i.tolist(), strict=True)]
        assert len(seen) == len(set(seen)) == 21_000
        assert set(seen) <= pairs
        epochs.append(seen)
    assert epochs[0] != epochs[1]
    assert set(epochs[0]) != set(epochs[1])  # other examples are left over


def test_a_batch_has_from_one_example_to_all() -> None:
    task = task_of("logistic-regression")
    _, y = task.batch(7, 1437)
    assert torch.equal(y.sort().values, task.dataset.train[1].sort().values)
    for iteration, size, message in (
        (1, 1438, "batch size is 1438; choose one from 1 to 1,437"),
        (1, 0, "batch size is 0"),
        (1, -5, "batch size is -5"),
        (0, 32, "counted from 1, so there is no batch 0"),
    ):
        with pytest.raises(BatchError, match=message):
            task.batch(iteration, size)


# --- losses and probes --------------------------------------------------------------------


def test_image_loss_is_mean_cross_entropy_in_nats() -> None:
    task = task_of("logistic-regression")
    x, y = task.batch(1, 32)
    expected = -task.model(x).softmax(1)[torch.arange(32), y].log().mean()
    loss = task.loss((x, y))
    assert (loss.dim(), loss.requires_grad) == (0, True)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    zeros = {k: torch.zeros_like(v) for k, v in task.model.state_dict().items()}
    assert task.probe_loss(zeros) == pytest.approx(np.log(10), rel=1e-6)


def test_metrics_are_accuracy_and_rmse() -> None:
    task = task_of("lenet5")
    state = {k: torch.zeros_like(v) for k, v in task.model.state_dict().items()}
    state["output.bias"][3] = 1.0  # says 3 to everything
    share = float((task.dataset.held_out[1] == 3).float().mean())
    assert task.metric_name == "accuracy"
    assert 0 < share < 1
    assert task.held_out_metric(state) == pytest.approx(share)
    ratings = task_of("matrix-factorization")
    zeros = {k: torch.zeros_like(v) for k, v in ratings.model.state_dict().items()}
    all_of_them, probe = (
        float(((part[2] - ratings.dataset.mean_rating) ** 2).mean())
        for part in (ratings.dataset.held_out, ratings.probe)
    )
    assert ratings.metric_name == "RMSE"
    assert ratings.held_out_metric(zeros) == pytest.approx(all_of_them**0.5)
    assert ratings.probe_loss(zeros) == pytest.approx(probe)


@pytest.mark.parametrize("name", ALL)
def test_probing_a_state_equals_loading_it(name: str) -> None:
    task, other = task_of(name, 0), task_of(name, 1)
    state = other.model.state_dict()
    arrays = {}
    for key, value in reversed(state.items()):  # the order does not matter
        arrays[key] = value.numpy().copy()
        arrays[key].flags.writeable = False
    before, loss = weights(task), task.probe_loss(state)
    assert loss != task.probe_loss()
    assert loss == task.probe_loss(arrays) == other.probe_loss()
    assert weights(task) == before
    metric, n = task.held_out_metric(arrays), task.dataset.held_out[-1].numel()
    assert task.held_out_metric({k: v.flip(0) for k, v in state.items()}) != metric
    task.model.load_state_dict(state)
    assert task.probe_loss() == loss
    assert task.held_out_metric() == metric
    assert n > task.probe[-1].numel()
    correct = metric * n if task.metric_name == "accuracy" else n  # a share of all of them
    assert correct == pytest.approx(round(correct), abs=1e-3)


@pytest.mark.parametrize("training", [True, False])
def test_probing_leaves_mode_gradients_and_parameters_alone(training: bool) -> None:
    task = task_of("lenet5")
    task.model.train(training)
    task.loss(task.batch(1, 8)).backward()
    parameters = list(task.model.parameters())
    gradients = [p.grad.clone() for p in parameters]
    task.probe_loss({k: v + 1 for k, v in task.model.state_dict().items()})
    task.held_out_metric()
    assert task.model.training is training
    assert all(a is b for a, b in zip(parameters, task.model.parameters(), strict=True))
    assert all(torch.equal(p.grad, g) for p, g in zip(parameters, gradients, strict=True))


def test_states_that_do_not_fit() -> None:
    task = task_of("logistic-regression")
    state = dict(task.model.state_dict())
    for measure, wrong, message in (
        (task.probe_loss, {"linear.weight": state["linear.weight"]}, r"unexpected: linear\.bias"),
        (task.probe_loss, {**state, "extra": torch.zeros(1)}, "unexpected: extra"),
        # This one would broadcast silently.
        (task.held_out_metric, {**state, "linear.bias": np.zeros(1)}, r"is \(1,\), not \(10,\)"),
    ):
        with pytest.raises(TensorMismatchError, match=message):
            measure(wrong)


# --- settings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "data", "seed", "error", "message"),
    [
        ("resnet", "digits", 0, UnknownNameError, "no model named 'resnet'.*: logistic-regr"),
        ("lenet5", "cifar", 0, UnknownNameError, "no dataset named 'cifar'.*: digits, mnist"),
        ("lenet5", "jester", 0, IncompatibleDataError, "'lenet5' cannot be .* on 'jester'.*digits"),
        ("matrix-factorization", "digits", 0, IncompatibleDataError, "one of: synthetic-ratings"),
        ("lenet5", "digits", -1, NumberError, "The seed is -1; choose"),
        ("lenet5", "digits", 2**63, NumberError, "choose a whole number from 0 to"),
    ],
)
def test_impossible_tasks(model: str, data: str, seed: int, error: type, message: str) -> None:
    assert issubclass(error, ArgumentError)
    with pytest.raises(error, match=message):
        make_task(model, data, seed=seed)


def test_every_sound_pair_without_a_folder_can_be_made() -> None:
    """With the largest seed."""
    for card in MODELS.values():
        for data in card.data:
            if not DATASETS[data].needs_folder:
                task = make_task(card.name, data, seed=2**63 - 1)
                assert task.name == f"{card.name}/{data}"
                assert card.title in task.title
                assert np.isfinite(task.probe_loss())


PARAMETERS = [torch.nn.Parameter(torch.zeros(3))]
ADAMW = {"betas": (0.9, 0.5), "weight_decay": 0.1}


@pytest.mark.parametrize(
    ("name", "given", "kind", "expected"),
    [
        ("sgd", {"lr": 0.5, "momentum": 0.9}, torch.optim.SGD, {"lr": 0.5, "momentum": 0.9}),
        ("adam", {"lr": 0.001}, torch.optim.Adam, {"lr": 0.001}),
        ("adamw", {"lr": 0.1, "beta2": 0.5}, torch.optim.AdamW, {"lr": 0.1, **ADAMW}),
    ],
)
def test_optimizers(name: str, given: dict, kind: type, expected: dict) -> None:
    optimizer = make_optimizer(name, PARAMETERS, **given)
    assert isinstance(optimizer, kind)
    assert expected.items() <= optimizer.defaults.items()


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("lion", {"lr": 0.1}, "no optimizer named 'lion'.*: sgd, adam"),
        ("sgd", {"lr": 0.0}, "learning rate is 0.0; choose a number above 0"),
        ("sgd", {"lr": 0.1, "momentum": 1.0}, "momentum is 1.0; choose a number from 0 to below 1"),
        ("adam", {"lr": 0.1, "momentum": 0.9}, "set the momentum to 0"),
        ("adamw", {"lr": 0.1, "beta2": 1}, "Beta2 is 1; choose a number from 0 to below 1"),
    ],
)
def test_impossible_optimizers(name: str, given: dict, message: str) -> None:
    with pytest.raises(UnknownNameError if name == "lion" else NumberError, match=message):
        make_optimizer(name, PARAMETERS, **given)
