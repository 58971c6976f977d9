"""The models and datasets on offer, in the order in which pages list them.

A model and its settings have a file of their own, as model.py describes; here it is only listed.
"""

from dataclasses import dataclass

from demo_models import (
    alexnet,
    byte_transformer,
    images,
    lenet5,
    logistic_regression,
    matrix_factorization,
    ratings,
    texts,
)
from demo_models.model import ModelCard


@dataclass(frozen=True)
class DatasetCard:
    """One dataset on offer.

    Attributes:
        name: what URLs, files and the command line call it.
        title: what people read.
        sentence: what it is, in one sentence.
        files: names or patterns of the files it is read from; empty if it is built in.
    """

    name: str
    title: str
    sentence: str
    files: tuple[str, ...] = ()

    @property
    def needs_folder(self) -> bool:
        """True if somebody has to name the folder with its files."""
        return bool(self.files)


_DATASETS = (
    DatasetCard("digits", images.TITLES["digits"], "1,797 real 8x8 scans of digits, enlarged."),
    DatasetCard(
        "mnist",
        images.TITLES["mnist"],
        "Real handwritten digits, 28x28, read from IDX files; the t10k pair is enough.",
        images.IDX_STEMS,
    ),
    DatasetCard(
        "fashion-mnist",
        images.TITLES["fashion-mnist"],
        "Real photographs of clothing, 28x28, read from IDX files; the t10k pair is enough.",
        images.IDX_STEMS,
    ),
    DatasetCard(
        "synthetic-ratings",
        ratings.TITLES["synthetic-ratings"],
        "Synthetic: 24,000 made-up star ratings of 300 items by 400 users.",
    ),
    DatasetCard(
        "movielens",
        ratings.TITLES["movielens"],
        "Real star ratings of films, read from a MovieLens file of at most 12 million.",
        ratings.FILES["movielens"],
    ),
    DatasetCard(
        "jester",
        ratings.TITLES["jester"],
        "Real ratings of jokes from -10 to 10, read from a Jester file.",
        ratings.FILES["jester"],
    ),
    DatasetCard(
        "python-sources",
        texts.TITLES["python-sources"],
        "Real text: up to 1 MiB of the standard library's own sources, byte by byte.",
    ),
)

_MODELS = (
    logistic_regression.CARD,
    lenet5.CARD,
    alexnet.CARD,
    matrix_factorization.CARD,
    byte_transformer.CARD,
)

MODELS: dict[str, ModelCard] = {card.name: card for card in _MODELS}
DATASETS: dict[str, DatasetCard] = {card.name: card for card in _DATASETS}
