"""The models and datasets on offer, each with what a dashboard wants to show about it.

A card holds plain values only: names, titles, sentences and the settings that work well. The
learning rates and batch sizes were chosen by measurement: with them each model's loss falls
clearly within its first hundred iterations on its default data.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from demo_models import images, ratings

IMAGE_DATA = ("digits", "mnist", "fashion-mnist")
RATING_DATA = ("synthetic-ratings", "movielens", "jester")


@dataclass(frozen=True)
class ModelCard:
    """One model on offer.

    `parameters` says in words how many there are; `side` is the image side in pixels (None for
    ratings); `data` names the datasets it can take, `default_data` being one of them;
    `optimizers` maps "sgd" and "adam" to (learning rate, momentum) that work well.
    """

    name: str
    title: str
    sentence: str
    parameters: str
    side: int | None
    data: tuple[str, ...]
    default_data: str
    optimizers: Mapping[str, tuple[float, float]]
    batch_size: int


@dataclass(frozen=True)
class DatasetCard:
    """One dataset on offer. `files` are the names looked for when it `needs_folder`."""

    name: str
    title: str
    sentence: str
    needs_folder: bool
    files: tuple[str, ...] = ()


_MODELS = (
    ModelCard(
        name="logistic-regression",
        title="Logistic regression",
        sentence="One template of weights per class; the simplest classifier of images.",
        parameters="7,850",
        side=28,
        data=IMAGE_DATA,
        default_data="digits",
        optimizers={"sgd": (0.1, 0.0), "adam": (0.003, 0.0)},
        batch_size=32,
    ),
    ModelCard(
        name="lenet5",
        title="LeNet-5",
        sentence="Two convolutions and three dense layers, the classic reader of digits.",
        parameters="61,706",
        side=28,
        data=IMAGE_DATA,
        default_data="digits",
        optimizers={"sgd": (0.05, 0.0), "adam": (0.001, 0.0)},
        batch_size=32,
    ),
    ModelCard(
        name="alexnet",
        title="AlexNet, scaled down",
        sentence="Five convolutions and three dense layers, shrunk to images of 32x32.",
        parameters="645,258",
        side=32,
        data=IMAGE_DATA,
        default_data="digits",
        optimizers={"sgd": (0.01, 0.0), "adam": (0.0005, 0.0)},
        batch_size=32,
    ),
    ModelCard(
        name="matrix-factorization",
        title="Matrix factorization",
        sentence="Eight numbers and a bias per user and per item predict ratings.",
        parameters="9 per user and per item; 6,300 on the synthetic ratings",
        side=None,
        data=RATING_DATA,
        default_data="synthetic-ratings",
        optimizers={"sgd": (2.0, 0.0), "adam": (0.02, 0.0)},
        batch_size=64,
    ),
)

_DATASETS = (
    DatasetCard(
        "digits", images.TITLES["digits"], "1,797 real 8x8 scans of handwritten digits.", False
    ),
    DatasetCard(
        "mnist",
        images.TITLES["mnist"],
        "Real handwritten digits, 28x28, read from IDX files; the t10k pair is enough.",
        True,
        images.IDX_STEMS,
    ),
    DatasetCard(
        "fashion-mnist",
        images.TITLES["fashion-mnist"],
        "Real photographs of clothing, 28x28, read from IDX files; the t10k pair is enough.",
        True,
        images.IDX_STEMS,
    ),
    DatasetCard(
        "synthetic-ratings",
        ratings.TITLES["synthetic-ratings"],
        "Synthetic: 24,000 made-up star ratings of 300 items by 400 users.",
        False,
    ),
    DatasetCard(
        "movielens",
        ratings.TITLES["movielens"],
        "Real star ratings of films, read from a MovieLens file of at most 12 million.",
        True,
        ratings.FILES["movielens"],
    ),
    DatasetCard(
        "jester",
        ratings.TITLES["jester"],
        "Real ratings of jokes from -10 to 10, read from a Jester file.",
        True,
        ratings.FILES["jester"],
    ),
)

MODELS: dict[str, ModelCard] = {card.name: card for card in _MODELS}
DATASETS: dict[str, DatasetCard] = {card.name: card for card in _DATASETS}
