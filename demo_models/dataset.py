"""What a dataset is once loaded, and how its files are looked for on disk.

A `Dataset` is a handful of tensors split in two: the part a model trains on, and the part
held out to see how well it does on examples it never saw. The rest of this file answers
"where are the files": in the folder the user names, or in the one the environment variable
LCVIZ_DATA names, or in a few usual subfolders of it.
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
    """Examples ready for training. The tensors may be shared between tasks: never write to them.

    Images:  `train` and `held_out` are (pixels float32 (n, 1, side, side) in [0, 1],
             class int64 (n,)); `n_classes` is set.
    Ratings: they are (user int64 (n,), item int64 (n,), rating float32 (n,) in its own unit:
             stars, or Jester's -10..10); `n_users`, `n_items` and `mean_rating` (mean of the
             training ratings, same unit) are set.

    `description` is one sentence that names the source; `synthetic` is True for made-up data.
    """

    name: str
    title: str
    description: str
    synthetic: bool
    train: tuple[Tensor, ...]
    held_out: tuple[Tensor, ...]
    n_classes: int | None = None
    n_users: int | None = None
    n_items: int | None = None
    mean_rating: float | None = None

    @property
    def n_train(self) -> int:
        """Number of training examples."""
        return len(self.train[0])

    def digest(self) -> str:
        """Give the SHA-256, in hex, of every example: dtype, shape and bytes of each tensor."""
        found = hashlib.sha256()
        for tensor in (*self.train, *self.held_out):
            found.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            found.update(tensor.contiguous().numpy().data)
        return found.hexdigest()


@dataclass(frozen=True)
class FileStamp:
    """A file as it was when looked at. Caches use it as key, so an edited file is read again."""

    path: Path
    modified_ns: int
    bytes: int


def stamp(path: Path) -> FileStamp:
    """Look at `path` without reading it. Raises FileUnreadableError."""
    try:
        status = path.stat()
    except OSError as exc:
        raise FileUnreadableError(path, exc.strerror or str(exc)) from exc
    return FileStamp(path, status.st_mtime_ns, status.st_size)


def resolve_folder(data: str, folder: str | Path | None) -> Path:
    """Give the folder to search for `data`: `folder`, or else the one LCVIZ_DATA names.

    Raises FolderNotGivenError when neither is set, FolderMissingError when it is no folder.
    """
    named = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        raise FolderNotGivenError(data, FOLDER_VARIABLE)
    # os.path's two functions answer where pathlib's raise: an unknown ~user, a lack of rights.
    path = Path(os.path.expanduser(named))
    if not os.path.isdir(path):
        raise FolderMissingError(path)
    return path


def first_file(folder: Path, names: Iterable[str]) -> Path | None:
    """Give the first of `names` that is a file in `folder`, or None."""
    for name in names:
        if os.path.isfile(folder / name):
            return folder / name
    return None
