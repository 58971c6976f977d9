"""Makes the picture datasets: handwritten digits from scikit-learn, MNIST and Fashion-MNIST.

Whatever the source, the result has the same form: grey pixels as float32 between 0 and 1, in
square images of the side the model wants, with a class from 0 to 9 for each. Resizing is
bilinear and done once, when the data are loaded; loaded data are kept for the next task.
"""

import functools
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

TITLES = {"digits": "Digits 8x8", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
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
# The first labels of each t10k file. Both datasets use the same file names, so this is how we
# notice that a folder holds the other one.
FIRST_LABELS = {
    "mnist": (7, 2, 1, 0, 4, 1, 4, 9, 5, 9),
    "fashion-mnist": (9, 2, 1, 1, 6, 1, 4, 6, 5, 7),
}


def load_images(name: str, folder: Path | None, side: int) -> Dataset:
    """Load "digits", "mnist" or "fashion-mnist" with images of `side` x `side` pixels.

    `folder` is searched for the IDX files, with the usual subfolders first; digits ignore it.
    Raises FilesMissingError, FileUnreadableError, MalformedFileError or WrongDatasetError.
    """
    if name == "digits":
        return _digits(side)
    assert folder is not None, "IDX data need a folder; resolve_folder gives one"
    return _from_idx(name, _find_idx(name, folder), side)


def to_pixels(images: NDArray[np.generic], full: float, side: int) -> Tensor:
    """Turn (n, s, s) numbers from 0 to `full` into float32 (n, 1, side, side) from 0 to 1."""
    pixels = torch.from_numpy(images.astype(np.float32)).div_(full).unsqueeze(1)
    if pixels.shape[-1] == side:
        return pixels
    # Without antialiasing, shrinking would skip source pixels; enlarging has no need of it.
    shrinking = side < pixels.shape[-1]
    resized = interpolate(
        pixels, size=(side, side), mode="bilinear", align_corners=False, antialias=shrinking
    )
    return resized.clamp_(0.0, 1.0)


@functools.lru_cache(maxsize=4)
def _digits(side: int) -> Dataset:
    from sklearn.datasets import load_digits  # a second of a server's start, and not all need it

    bunch = load_digits()
    x = to_pixels(bunch.images, 16.0, side)
    y = torch.from_numpy(bunch.target.astype(np.int64))
    order = torch.from_numpy(np.random.default_rng(DIGITS_SPLIT_SEED).permutation(len(y)))
    train, held_out = order[:DIGITS_TRAIN], order[DIGITS_TRAIN:]
    return Dataset(
        name="digits",
        title=TITLES["digits"],
        description=f"{len(y):,} real 8x8 scans of handwritten digits shipped with scikit-learn "
        f"(from UCI's optical recognition data), enlarged to {side}x{side}; "
        f"{len(train):,} to train on and {len(held_out)} held out.",
        synthetic=False,
        train=(x[train], y[train]),
        held_out=(x[held_out], y[held_out]),
        n_classes=N_CLASSES,
    )


def _find_idx(name: str, folder: Path) -> tuple[FileStamp, ...]:
    """Find train images, train labels, t10k images, t10k labels; or only the last two."""
    for place in (folder / sub for sub in SUBFOLDERS[name]):
        found = [first_file(place, (stem, stem + ".gz")) for stem in IDX_STEMS]
        if any(found):
            break
    else:
        raise FilesMissingError(TITLES[name], folder, [f"{stem}[.gz]" for stem in IDX_STEMS[2:]])
    if not any(found[:2]):
        found[:2] = []  # only the t10k files are there: _from_idx splits them
    stems = IDX_STEMS[-len(found) :]
    missing = [f"{s}[.gz]" for s, path in zip(stems, found, strict=True) if path is None]
    if missing:
        raise FilesMissingError(TITLES[name], place, missing)
    return tuple(stamp(path) for path in found if path is not None)


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
        source = "the published training and test files"
    else:
        x, y = tensors[0]
        cut = len(y) * 4 // 5  # 8,000 of the 10,000
        if cut == 0:
            raise MalformedFileError(paths[-1], "at least 2 examples to split", "1")
        train, held_out = (x[:cut], y[:cut]), (x[cut:], y[cut:])
        source = "the test files alone, split in two as the training files are not there"
    kind = "handwritten digits" if name == "mnist" else "pieces of clothing"
    return Dataset(
        name=name,
        title=TITLES[name],
        description=f"{TITLES[name]}: real grey images of {kind}, {len(train[1]):,} to train on "
        f"and {len(held_out[1]):,} held out, from {source}, shown at {side}x{side}.",
        synthetic=False,
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
