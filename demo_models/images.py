"""The image datasets: handwritten digits from scikit-learn, MNIST and Fashion-MNIST.

All have the same form: grey float32 pixels from 0 to 1, in square images of the side that the
model wants, each with a class from 0 to 9. Images are resized bilinearly when they are loaded, and
loaded data are cached for the next task.
"""

import functools
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from demo_models.dataset import Dataset, FileStamp, first_file, stamp
from demo_models.errors import FilesMissingError, MalformedFileError, WrongDatasetError
from demo_models.idx import N_CLASSES, read_images, read_labels

DIGITS_TRAIN = 1437  # of 1797; the other 360 are held out
DIGITS_SPLIT_SEED = 0  # fixed: the split is part of the dataset, not of a task's seed

TITLES = {"digits": "Digits", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
IDX_STEMS = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
SUBFOLDERS = {
    "mnist": ("mnist", "MNIST/raw", "."),
    "fashion-mnist": ("fashion-mnist", "FashionMNIST/raw", "."),
}
# The first labels of each t10k file. They tell the two datasets apart: the file names are the same.
FIRST_LABELS = {
    "mnist": (7, 2, 1, 0, 4, 1, 4, 9, 5, 9),
    "fashion-mnist": (9, 2, 1, 1, 6, 1, 4, 6, 5, 7),
}


def load_images(name: str, folder: Path | None, side: int) -> Dataset:
    """Load an image dataset.

    Args:
        name: "digits", "mnist" or "fashion-mnist".
        folder: where to search for IDX files, its usual subfolders first; unused for digits.
        side: side of the square images, in pixels.

    Raises:
        FilesMissingError, FileUnreadableError, MalformedFileError, WrongDatasetError.
    """
    if name == "digits":
        return _digits(side)
    assert folder is not None, "IDX data need a folder; resolve_folder gives one"
    return _from_idx(name, _find_idx(name, folder), side)


def to_pixels(images: NDArray[np.generic], full: float, side: int) -> Tensor:
    """(n, s, s) numbers from 0 to `full` -> float32 (n, 1, side, side) from 0 to 1."""
    pixels = torch.from_numpy(images.astype(np.float32)).div_(full).unsqueeze(1)
    if pixels.shape[-1] == side:
        return pixels
    # Without antialiasing, shrinking would skip source pixels.
    shrinking = side < pixels.shape[-1]
    resized = interpolate(
        pixels, size=(side, side), mode="bilinear", align_corners=False, antialias=shrinking
    )
    return resized.clamp_(0.0, 1.0)


@functools.lru_cache(maxsize=4)
def _digits(side: int) -> Dataset:
    rows = digits_rows()
    x = to_pixels(rows[:, :-1].reshape(-1, 8, 8), 16.0, side)
    y = torch.from_numpy(rows[:, -1].astype(np.int64))
    return Dataset(
        name="digits",
        title=TITLES["digits"],
        train=(x[:DIGITS_TRAIN], y[:DIGITS_TRAIN]),
        held_out=(x[DIGITS_TRAIN:], y[DIGITS_TRAIN:]),
        n_classes=N_CLASSES,
    )


def digits_rows() -> NDArray[np.uint8]:
    """uint8 (1797, 65): the 64 pixels of each digit, from 0 to 16, and which digit it is.

    The first DIGITS_TRAIN are the training part.
    """
    # scikit-learn's file, without importing scikit-learn, which takes more than a second.
    package = find_spec("sklearn")
    assert package is not None, "requirements.txt has scikit-learn"
    assert package.origin is not None
    path = Path(package.origin).parent / "datasets/data/digits.csv.gz"
    rows = np.loadtxt(path, delimiter=",").astype(np.uint8)
    return rows[np.random.default_rng(DIGITS_SPLIT_SEED).permutation(len(rows))]


def _find_idx(name: str, folder: Path) -> tuple[FileStamp, ...]:
    """Files in the order of IDX_STEMS; the t10k pair alone if there are no training files."""
    for place in (folder / sub for sub in SUBFOLDERS[name]):
        paths = [first_file(place, (stem, stem + ".gz")) for stem in IDX_STEMS]
        if any(paths):
            break
    else:
        raise FilesMissingError(TITLES[name], folder, [f"{stem}[.gz]" for stem in IDX_STEMS[2:]])
    if not any(paths[:2]):
        paths[:2] = []
    stems = IDX_STEMS[-len(paths) :]
    missing = [f"{s}[.gz]" for s, path in zip(stems, paths, strict=True) if path is None]
    if missing:
        raise FilesMissingError(TITLES[name], place, missing)
    return tuple(stamp(path) for path in paths if path is not None)


@functools.lru_cache(maxsize=4)
def _from_idx(name: str, files: tuple[FileStamp, ...], side: int) -> Dataset:
    paths = [file.path for file in files]
    pairs = [_read_pair(*paths[i : i + 2]) for i in range(0, len(paths), 2)]
    (other,) = FIRST_LABELS.keys() - {name}
    if tuple(pairs[-1][1][:10].tolist()) == FIRST_LABELS[other]:
        raise WrongDatasetError(paths[0].parent, TITLES[name], TITLES[other])
    tensors = [(to_pixels(x, 255.0, side), torch.from_numpy(y.astype(np.int64))) for x, y in pairs]
    if len(tensors) == 2:
        train, held_out = tensors
    else:  # the test files alone: split them
        x, y = tensors[0]
        cut = len(y) * 4 // 5  # 8,000 of the 10,000
        if cut == 0:
            raise MalformedFileError(paths[-1], "at least 2 examples to split", "1")
        train, held_out = (x[:cut], y[:cut]), (x[cut:], y[cut:])
    return Dataset(
        name=name,
        title=TITLES[name],
        train=train,
        held_out=held_out,
        n_classes=N_CLASSES,
    )


def _read_pair(images: Path, labels: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    x, y = read_images(images), read_labels(labels)
    if len(x) != len(y):
        expected = f"{len(x):,} labels, one for each image of {images.name}"
        raise MalformedFileError(labels, expected, f"{len(y):,}")
    return x, y
