"""What a model's file provides: a `Model`, which is the network, and a `ModelCard` about it.

To add a model, write one file with both (see logistic_regression.py, the shortest) and list it in
catalog.py. Pages, lab and command line offer what the catalog lists.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from demo_models.dataset import Dataset

IMAGE_DATA = ("digits", "mnist", "fashion-mnist")
TEXT_DATA = ("python-sources",)
RATING_DATA = ("synthetic-ratings", "movielens", "jester")


class Model(nn.Module):
    """An ordinary nn.Module that can draw its own starting weights.

    `forward` takes the columns of a batch without the last one, the target. For images it returns
    class scores (n, 10), for ratings how far each rating lies from the mean (n,), for text scores
    of each next byte (n, 128, t).
    It must have float32 parameters only, and no buffers (so no batch norm).
    """

    def initialise(self, generator: torch.Generator) -> None:
        """Set every parameter, drawing from `generator`; until then its memory is undefined."""
        raise NotImplementedError


@dataclass(frozen=True)
class ModelCard:
    """One model on offer, with the settings that work well.

    The settings were chosen by measurement. With the dashboard's, the loss falls clearly within the
    first hundred iterations on the default data. With the lab's, the loss on MNIST and on the
    synthetic ratings falls at least as much per iteration as it fluctuates, around iteration 80.

    Attributes:
        name: what URLs, files and the command line call it.
        title: what people read.
        sentence: what it is, in one sentence.
        parameters: how many, as text: "61,706".
        data: names of the datasets that it can take, the default first.
        side: image side in pixels; None for other data.
        build: makes the model in the size that a dataset asks for; `initialise` follows.
        optimizers: "sgd" and "adam" -> (learning rate, momentum) on the dashboard.
        batch_size: examples an iteration on the dashboard.
        lab_lr: learning rate of plain SGD in the lab.
        lab_batch_size: examples an iteration in the lab.
    """

    name: str
    title: str
    sentence: str
    parameters: str
    data: tuple[str, ...]
    side: int | None
    build: Callable[[Dataset], Model]
    optimizers: Mapping[str, tuple[float, float]]
    batch_size: int
    lab_lr: float
    lab_batch_size: int

    @property
    def default_data(self) -> str:
        """The name of the default dataset, which needs no files."""
        return self.data[0]
