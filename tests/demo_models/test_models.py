"""The models: sizes, shapes, starting weights, and that their defaults do train."""

import pytest
import torch

from demo_models import DATASETS, MODELS, Training, make_task
from demo_models.matrix_factorization import MatrixFactorization

# Parameters; and the share of the first probe loss left after at most 60 iterations, with margin.
KNOWN = {
    "logistic-regression": (7_850, 0.3),
    "lenet5": (61_706, 0.35),
    "alexnet": (645_258, 0.45),
    "matrix-factorization": (6_300, 0.75),
    "byte-transformer": (112_384, 0.75),
}


@pytest.mark.parametrize("name", MODELS)
def test_cards_tell_the_truth(name: str) -> None:
    card = MODELS[name]
    model = make_task(name, card.default_data).model
    count = sum(p.numel() for p in model.parameters())
    assert f"{count:,}" in card.parameters
    assert count == KNOWN.get(name, (count,))[0]
    assert card.name == name
    assert set(card.data) <= DATASETS.keys()
    assert card.optimizers.keys() == {"sgd", "adam"}
    assert not DATASETS[card.default_data].needs_folder
    assert all(p.dtype == torch.float32 and p.requires_grad for p in model.parameters())
    assert model.state_dict().keys() == dict(model.named_parameters()).keys()  # no buffers


@pytest.mark.parametrize("name", [card.name for card in MODELS.values() if card.side])
def test_image_models_give_ten_scores_for_each_image_alone(name: str) -> None:
    """And AlexNet has the classic layers, without dropout."""
    task = make_task(name, "digits")
    x = task.probe[0][:5]
    with torch.no_grad():
        together, alone = task.model(x), task.model(x[2:3])
    assert (together.shape, together.dtype) == ((5, 10), torch.float32)
    assert torch.allclose(together[2:3], alone, atol=1e-5)
    assert not torch.allclose(together[0], together[1])
    kinds = [type(layer).__name__ for layer in task.model.children()]
    assert name != "alexnet" or kinds == ["Conv2d"] * 5 + ["Linear"] * 3


def test_matrix_factorization_formula_and_dense_gradients() -> None:
    model = MatrixFactorization(3, 4, rank=2)
    model.initialise(torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.user_bias.weight += 0.25
        model.item_bias.weight -= 1.0
    prediction = model(torch.tensor([2]), torch.tensor([1]))
    expected = model.user.weight[2] @ model.item.weight[1] + 0.25 - 1.0
    assert prediction.shape == (1,)
    assert torch.allclose(prediction, expected)
    prediction.sum().backward()
    assert not any(p.grad.is_sparse for p in model.parameters())
    assert torch.equal(model.user.weight.grad[2], model.item.weight[1])
    assert not model.user.weight.grad[:2].any()


@pytest.mark.parametrize("name", MODELS)
def test_initialise_sets_every_tensor_from_the_generator(name: str) -> None:
    """make_task allocates without filling, so a forgotten tensor would hold rubbish."""
    model = make_task(name, MODELS[name].default_data).model
    states = []
    for filler in (float("nan"), 7.0):
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(filler)
        model.initialise(torch.Generator().manual_seed(5))
        states.append([p.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*states, strict=True))
    assert all(bool(p.any()) for p in states[0] if p.dim() > 1 and p.shape[-1] > 1)


@pytest.mark.parametrize(
    ("name", "optimizer"), [(name, ("sgd", "adam")[i % 2]) for i, name in enumerate(MODELS)]
)
def test_defaults_train(name: str, optimizer: str) -> None:
    card = MODELS[name]
    task = make_task(name, card.default_data, seed=0)
    training = Training(task, optimizer, *card.optimizers[optimizer], card.batch_size)
    before, first = task.probe_loss(), task.loss(task.batch(1, card.batch_size)).item()
    assert training.iterate(1) == first
    enough = KNOWN.get(name, (0, 0.75))[1] * before
    for iteration in range(2, 61):
        training.iterate(iteration)
        if iteration % 5 == 0 and task.probe_loss() < enough:
            break
    assert task.probe_loss() < enough
