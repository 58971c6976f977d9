"""Builds the bare model of a given name, in the size that its dataset asks for.

The models share no base class. What a task relies on is that each one is an ordinary nn.Module
with a method initialise(generator), which draws every one of its starting weights.
"""

from demo_models.alexnet import AlexNet
from demo_models.dataset import Dataset
from demo_models.lenet5 import LeNet5
from demo_models.logistic_regression import LogisticRegression
from demo_models.matrix_factorization import MatrixFactorization

ImageModel = LogisticRegression | LeNet5 | AlexNet

IMAGE_MODELS: dict[str, type[ImageModel]] = {
    "logistic-regression": LogisticRegression,
    "lenet5": LeNet5,
    "alexnet": AlexNet,
}


def build_model(name: str, dataset: Dataset) -> ImageModel | MatrixFactorization:
    """Build the model `name`; matrix factorization gets a row per user and item of `dataset`.

    The weights are whatever the layers' constructors leave: call initialise to draw them.
    """
    if name in IMAGE_MODELS:
        return IMAGE_MODELS[name]()
    assert dataset.n_users is not None, "a model of ratings was given images"
    assert dataset.n_items is not None, "a model of ratings was given images"
    return MatrixFactorization(dataset.n_users, dataset.n_items)
