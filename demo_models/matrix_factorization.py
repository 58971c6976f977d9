"""Matrix factorization: predicts a rating from a few numbers per user and per item.

Each user has a vector of tastes and each item a vector of traits, both of length `rank`; where the
two point the same way, the rating is high. A bias per user tells generous from strict, a bias per
item liked from disliked. The formula is that of Koren, Bell and Volinsky, "Matrix factorization
techniques for recommender systems" (2009):

    rating - mean  =  user bias + item bias + taste . trait

The model predicts the left side; the caller adds the mean.
"""

import torch
from torch import Tensor, nn

from demo_models.dataset import Dataset
from demo_models.model import RATING_DATA, Model, ModelCard


class MatrixFactorization(Model):
    """(user, item) -> rating minus the mean. Parameters: (n_users + n_items) * (rank + 1).

    Inputs int64 (n,) and int64 (n,), row numbers; output float32 (n,) in rating units.
    Gradients are dense: optimizers with momentum need that.
    """

    def __init__(self, n_users: int, n_items: int, rank: int = 8) -> None:
        super().__init__()
        self.user = nn.Embedding(n_users, rank)
        self.item = nn.Embedding(n_items, rank)
        self.user_bias = nn.Embedding(n_users, 1)
        self.item_bias = nn.Embedding(n_items, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        bias = (self.user_bias(user) + self.item_bias(item)).squeeze(1)
        prediction: Tensor = (self.user(user) * self.item(item)).sum(dim=1) + bias
        return prediction

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw small vectors, and start every bias at zero.

        Vectors of zeros would never move: the gradient of each is a multiple of the other.
        """
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1, generator=generator)
        for biases in (self.user_bias, self.item_bias):
            nn.init.zeros_(biases.weight)


def _build(dataset: Dataset) -> MatrixFactorization:
    assert dataset.n_users is not None, "a model of ratings was given images"
    assert dataset.n_items is not None, "a model of ratings was given images"
    return MatrixFactorization(dataset.n_users, dataset.n_items)


CARD = ModelCard(
    name="matrix-factorization",
    title="Matrix factorization",
    sentence="Eight numbers and a bias per user and per item predict ratings.",
    parameters="9 per user and per item; 6,300 on the synthetic ratings",
    data=RATING_DATA,
    side=None,
    build=_build,
    optimizers={"sgd": (2.0, 0.0), "adam": (0.02, 0.0)},
    batch_size=64,
    lab_lr=1.0,
    lab_batch_size=128,
)
