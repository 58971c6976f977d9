"""Small models and datasets that the dashboard and the lab train.

Start with `make_task`, which joins a model, its data and its loss; `MODELS` and `DATASETS` list
what there is. To add a model, write one file with a `CARD` (see `model`) and list it in `catalog`.
A reading order:

    errors                what can go wrong
    dataset               what a dataset is, and where its files may be
    idx, images           images: digits, MNIST, Fashion-MNIST
    rating_files, ratings ratings: synthetic, MovieLens, Jester
    texts                 text: Python's own sources
    model                 what the file of a model provides
    logistic_regression, lenet5, alexnet, matrix_factorization, byte_transformer
                          the models and their settings
    catalog               the list of models and data
    task, optimizers      one model + one dataset + one seed, and how to train it
    training              the two together: iterate, state, load
"""

from demo_models.catalog import DATASETS, MODELS, DatasetCard
from demo_models.dataset import FOLDER_VARIABLE, Dataset
from demo_models.errors import (
    ArgumentError,
    BatchError,
    DataError,
    FilesMissingError,
    FileTooLargeError,
    FileUnreadableError,
    FolderMissingError,
    FolderNotGivenError,
    IncompatibleDataError,
    MalformedFileError,
    NumberError,
    TensorMismatchError,
    UnknownNameError,
    WrongDatasetError,
)
from demo_models.model import Model, ModelCard
from demo_models.optimizers import OPTIMIZERS, make_optimizer
from demo_models.task import Task, make_task
from demo_models.training import Training

__all__ = [
    "DATASETS",
    "FOLDER_VARIABLE",
    "MODELS",
    "OPTIMIZERS",
    "ArgumentError",
    "BatchError",
    "DataError",
    "Dataset",
    "DatasetCard",
    "FileTooLargeError",
    "FileUnreadableError",
    "FilesMissingError",
    "FolderMissingError",
    "FolderNotGivenError",
    "IncompatibleDataError",
    "MalformedFileError",
    "Model",
    "ModelCard",
    "NumberError",
    "Task",
    "TensorMismatchError",
    "Training",
    "UnknownNameError",
    "WrongDatasetError",
    "make_optimizer",
    "make_task",
]
