"""What the lab trains: one model on one dataset, with the lab's settings of its `ModelCard`.

They differ from the dashboard's: a loss that jumps up and down would hide an experiment's effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import demo_models
from demo_models import MODELS, Training


@dataclass(frozen=True)
class Workload:
    """A training without its seed.

    model, data: names of `demo_models`. folder: where MNIST, MovieLens or Jester files are.
    optimizer, lr, momentum, batch_size, beta2: see `demo_models.Training`.
    """

    model: str
    data: str
    folder: str | None = None
    optimizer: str = "sgd"
    lr: float = 0.05
    momentum: float = 0.0
    batch_size: int = 32
    beta2: float = 0.999

    def training(self, seed: int) -> Training:
        """The training of this seed, at its start. Raises demo_models.DataError."""
        task = demo_models.make_task(self.model, self.data, seed=seed, folder=self.folder)
        return Training(task, self.optimizer, self.lr, self.momentum, self.batch_size, self.beta2)


def to_save(state: Mapping[str, Any], whole: bool) -> Mapping[str, Any]:
    """The part of `Training.state` that a checkpoint holds: all, or the model's state alone."""
    return state if whole else state["model"]


def to_load(restored: dict[str, Any], whole: bool) -> dict[str, Any]:
    """A restored checkpoint as `Training.load` takes it. whole: as in `to_save`."""
    return restored if whole else {"model": restored}


def workload(model: str, data: str | None = None, folder: str | None = None) -> Workload:
    """The lab's settings for a model. data: None for the model's default. folder: see `Workload`.

    Raises demo_models.UnknownNameError.
    """
    if model not in MODELS:
        raise demo_models.UnknownNameError("model", model, MODELS)
    card = MODELS[model]
    data = data or card.default_data
    return Workload(model, data, folder, "sgd", card.lab_lr, 0.0, card.lab_batch_size)
