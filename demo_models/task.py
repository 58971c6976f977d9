"""A task: one model, one dataset and one seed, which together determine a training run.

A training loop needs its model, the batch of an iteration, and the loss. The dashboard also asks
how good a saved state is: that is measured on the probe, a fixed set of held-out examples, and
does not disturb the model in training.

    task = make_task("lenet5", "digits", seed=0)
    optimizer = make_optimizer("sgd", task.model.parameters(), lr=0.05)
    for iteration in range(1, 101):
        loss = task.loss(task.batch(iteration, 32))
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""

import copy
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, mse_loss

from demo_models.catalog import DATASETS, MODELS
from demo_models.dataset import Dataset, resolve_folder
from demo_models.errors import (
    BatchError,
    IncompatibleDataError,
    NumberError,
    TensorMismatchError,
    UnknownNameError,
)
from demo_models.images import load_images
from demo_models.model import TEXT_DATA, ModelCard
from demo_models.ratings import load_ratings
from demo_models.texts import load_text

PROBE_SIZE = 256
PROBE_TEXTS = 64  # each has 64 bytes
State = Mapping[str, Tensor | NDArray[np.generic]]


class Task:
    """One model on one dataset, from one seed; `make_task` makes it.

    The global random state is never touched.

    Attributes:
        name, title: of model and dataset, for programs and for people.
        dataset: what it trains on.
        seed: decides starting weights and batches.
        model: the live module.
        probe: the first held-out examples, at most 256 (texts: 64), like `dataset.held_out`.
        metric_name: "accuracy" (0 to 1) or "RMSE" (rating units).
    """

    def __init__(self, card: ModelCard, dataset: Dataset, seed: int) -> None:
        self.name = f"{card.name}/{dataset.name}"
        self.title = f"{card.title} on {dataset.title}"
        self.dataset = dataset
        self.seed = seed
        size = PROBE_TEXTS if dataset.is_text else PROBE_SIZE
        self.probe = tuple(column[:size] for column in dataset.held_out)
        self.metric_name = "RMSE" if dataset.n_classes is None else "accuracy"
        # Layers on the "meta" device have shapes but no numbers: building them draws none from the
        # global random state. States are measured in copies that stay without numbers.
        with torch.device("meta"):
            model = card.build(dataset)
        self._hollow: nn.Module = copy.deepcopy(model).eval().requires_grad_(False)
        self._copies: list[nn.Module] = []  # of the hollow module, which no thread uses now
        model.to_empty(device="cpu")
        model.initialise(torch.Generator().manual_seed(seed))
        self.model: nn.Module = model
        self._epoch: tuple[int, Tensor] | None = None  # number and order of the latest epoch

    def batch(self, iteration: int, size: int) -> tuple[Tensor, ...]:
        """The batch of an iteration; only the seed and these arguments decide it.

        An epoch is a seeded shuffle of the training part, cut into batches; a last batch that is
        too short is dropped.

        Args:
            iteration: 1, 2, ..., in any order.
            size: number of examples.

        Returns:
            `size` rows of each column of `dataset.train`.

        Raises:
            BatchError: one of the two is out of range.
        """
        n = self.dataset.n_train
        if not 1 <= size <= n:
            raise BatchError(f"The batch size is {size}; choose one from 1 to {n:,}.")
        if iteration < 1:
            raise BatchError(f"Iterations are counted from 1, so there is no batch {iteration}.")
        epoch, place = divmod(iteration - 1, n // size)
        cached = self._epoch
        if cached is None or cached[0] != epoch:
            order = np.random.default_rng([self.seed, epoch]).permutation(n)
            self._epoch = cached = (epoch, torch.from_numpy(order))
        rows = cached[1][place * size : (place + 1) * size]
        return tuple(column[rows] for column in self.dataset.train)

    def loss(self, batch: tuple[Tensor, ...]) -> Tensor:
        """The live model's mean loss on `batch`, a scalar to call backward() on.

        Images and text: cross-entropy in nats. Ratings: squared error in rating units squared.
        """
        return self._mean_loss(self.model(*batch[:-1]), batch[-1])

    def probe_loss(self, state: State | None = None) -> float:
        """The mean loss on the probe; the live model, its mode and gradients stay as they are.

        Args:
            state: parameter name -> tensor or array of its shape; None for the live model's.

        Raises:
            TensorMismatchError: `state` has other names or shapes than the model.
        """
        return float(self._mean_loss(self._outputs(state, self.probe), self.probe[-1]))

    def probe_metric(self, state: State | None = None) -> tuple[float, float]:
        """The mean loss on the probe, then accuracy (0 to 1) or RMSE (rating units).

        One pass over the probe gives both; see `probe_loss`.
        """
        outputs, target = self._outputs(state, self.probe), self.probe[-1]
        return float(self._mean_loss(outputs, target)), self._metric(outputs, target)

    def predictions(self, n: int, state: State | None = None) -> Tensor:
        """A state's predictions for the first n examples of the probe; see `probe_loss`.

        Returns:
            int64 (n,) classes, or float32 (n,) ratings in rating units. For text int64 (n,): the
            predicted next byte at each of the last n places of the first window.
        """
        first = 1 if self.dataset.is_text else n
        outputs = self._outputs(state, tuple(column[:first] for column in self.probe))
        if self.dataset.is_text:
            return outputs[0, :, -n:].argmax(dim=0)
        if self.dataset.mean_rating is None:
            return outputs.argmax(dim=1)
        return outputs + self.dataset.mean_rating

    def held_out_metric(self, state: State | None = None) -> float:
        """Accuracy (0 to 1) or RMSE (rating units) on all held-out examples; see `probe_loss`."""
        held_out = self.dataset.held_out
        return self._metric(self._outputs(state, held_out), held_out[-1])

    def _metric(self, outputs: Tensor, target: Tensor) -> float:
        if self.dataset.mean_rating is None:
            return float((outputs.argmax(dim=1) == target).float().mean())
        return float(self._mean_loss(outputs, target).sqrt())

    def _mean_loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        if self.dataset.mean_rating is None:
            return cross_entropy(outputs, target)
        return mse_loss(outputs, target - self.dataset.mean_rating)

    def _outputs(self, state: State | None, examples: tuple[Tensor, ...]) -> Tensor:
        tensors = self.model.state_dict() if state is None else self._checked(state)
        # functional_call puts the tensors into the module during the call. Threads train and probe
        # at the same time, so each takes a copy of its own.
        try:
            module = self._copies.pop()
        except IndexError:
            module = copy.deepcopy(self._hollow)
        try:
            with torch.no_grad():
                outputs: Tensor = functional_call(module, tensors, examples[:-1], strict=True)
        finally:
            self._copies.append(module)
        return outputs

    def _checked(self, state: State) -> dict[str, Tensor]:
        """`state` as float32 tensors, of exactly the model's names and shapes."""
        shapes = {name: tuple(p.shape) for name, p in self._hollow.named_parameters()}
        if differing := sorted(shapes.keys() ^ state.keys()):
            raise TensorMismatchError(f"missing or unexpected: {', '.join(differing)}")
        for name, shape in shapes.items():
            if tuple(state[name].shape) != shape:
                raise TensorMismatchError(f"{name} is {tuple(state[name].shape)}, not {shape}")
        return {
            name: value.detach().float()
            if isinstance(value, Tensor)
            else torch.from_numpy(np.array(value, dtype=np.float32))  # a copy: may be read-only
            for name, value in state.items()
        }


def make_task(model: str, data: str, *, seed: int = 0, folder: str | Path | None = None) -> Task:
    """Make the task of training a model on a dataset.

    Args:
        model: a name in MODELS.
        data: a name in DATASETS, among those that the model can take.
        seed: of starting weights and batches, from 0 to 2^63 - 1.
        folder: where the files are, for data that need them; None for what LCVIZ_DATA names.

    Raises:
        UnknownNameError, IncompatibleDataError, NumberError: an argument is wrong.
        DataError: the data cannot be loaded.
    """
    if model not in MODELS:
        raise UnknownNameError("model", model, MODELS)
    if data not in DATASETS:
        raise UnknownNameError("dataset", data, DATASETS)
    card = MODELS[model]
    if data not in card.data:
        raise IncompatibleDataError(model, data, card.data)
    if not 0 <= seed < 2**63:
        raise NumberError(f"The seed is {seed}; choose a whole number from 0 to 2^63 - 1.")
    place = resolve_folder(data, folder) if DATASETS[data].needs_folder else None
    if data in TEXT_DATA:
        return Task(card, load_text(), seed)
    if card.side is None:
        return Task(card, load_ratings(data, place), seed)
    return Task(card, load_images(data, place, card.side), seed)
