"""What a dataset is once loaded, and how its files are found on disk.

A `Dataset` is split in two: a model trains on one part and is judged on the other, which training
never sees. Files are searched in the folder that the user names, else in the one that the
environment variable LCVIZ_DATA names, and in a few usual subfolders of it.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from demo_models.errors import FileUnreadableError, FolderMissingError, FolderNotGivenError

FOLDER_VARIABLE = "LCVIZ_DATA"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples ready for training. Tasks share the tensors: never write to them.

    Attributes:
        name, title: as on the dataset's card.
        train, held_out: columns of n rows each, the target last. Images: pixels float32
            (n, 1, side, side) in [0, 1], class int64 (n,). Ratings: user int64 (n,), item
            int64 (n,), rating float32 (n,) in its own unit (stars, or Jester's -10 to 10). Text:
            bytes int64 (n, t), and the byte after each int64 (n, t).
        n_classes: set for images and text.
        n_users, n_items: set for ratings.
        mean_rating: set for ratings; the mean of the training part, in the ratings' unit.
    """

    name: str
    title: str
    train: tuple[Tensor, ...]
    held_out: tuple[Tensor, ...]
    n_classes: int | None = None
    n_users: int | None = None
    n_items: int | None = None
    mean_rating: float | None = None

    @property
    def is_text(self) -> bool:
        """Whether its examples are bytes of a text."""
        return self.n_classes is not None and self.train[0].ndim == 2

    @property
    def n_train(self) -> int:
        """Number of training examples."""
        return len(self.train[0])

    def digest(self) -> str:
        """SHA-256, in hex, over dtype, shape and bytes of every tensor."""
        sha256 = hashlib.sha256()
        for tensor in (*self.train, *self.held_out):
            sha256.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            sha256.update(tensor.contiguous().numpy().data)
        return sha256.hexdigest()


@dataclass(frozen=True)
class FileStamp:
    """A file at one moment. Caches use it as their key: an edited file is read again."""

    path: Path
    modified_ns: int
    bytes: int


def stamp(path: Path) -> FileStamp:
    """Describe the file at `path` without reading it.

    Raises:
        FileUnreadableError: the operating system refuses.
    """
    try:
        status = path.stat()
    except OSError as exc:
        raise FileUnreadableError(path, exc.strerror or str(exc)) from exc
    return FileStamp(path, status.st_mtime_ns, status.st_size)


def resolve_folder(data: str, folder: str | Path | None) -> Path:
    """The folder to search for the dataset `data`: `folder`, else the one LCVIZ_DATA names.

    Raises:
        FolderNotGivenError: neither is set.
        FolderMissingError: there is no such folder.
    """
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise FolderNotGivenError(data, FOLDER_VARIABLE)
    # os.path answers where pathlib raises: an unknown ~user, missing rights.
    path = Path(os.path.expanduser(named))
    if not os.path.isdir(path):
        raise FolderMissingError(path)
    return path


def first_file(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of `names` that is a file in `folder`, or None."""
    for name in names:
        if os.path.isfile(folder / name):
            return folder / name
    return None
