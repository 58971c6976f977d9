"""The rating datasets: which user rated which item how.

There are synthetic ratings, drawn from a known formula, and the files of MovieLens and Jester. User
and item ids become 0, 1, 2, ... in sorted order, the row numbers of an embedding table. One rating
in ten is held out.

Ratings keep their unit (stars, or Jester's -10 to 10). A model learns how far a rating lies from
`mean_rating`, the mean of the training part: its mean squared error is in rating units squared,
and an untrained model, which predicts about 0, starts near the variance of the ratings.
"""

import functools
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from demo_models.dataset import Dataset, FileStamp, first_file, stamp
from demo_models.errors import FilesMissingError
from demo_models.rating_files import read_ratings

SPLIT_SEED = 0  # fixed: the split is part of the dataset, not of a task's seed
SYNTHETIC_SEED = 0
SYNTHETIC_USERS, SYNTHETIC_ITEMS, SYNTHETIC_RATINGS = 400, 300, 24_000
SYNTHETIC_RANK = 4

TITLES = {
    "synthetic-ratings": "Synthetic ratings",
    "movielens": "MovieLens",
    "jester": "Jester jokes",
}
FILES = {
    "movielens": ("ratings.csv", "ratings.dat"),
    "jester": ("jester_ratings.dat", "jester*.csv"),
}
SUBFOLDERS = {
    "movielens": ("movielens", "ml-latest-small", "ml-1m", "."),
    "jester": ("jester", "."),
}


def load_ratings(name: str, folder: Path | None) -> Dataset:
    """Load a rating dataset.

    Args:
        name: "synthetic-ratings", "movielens" or "jester".
        folder: where to search for the file, its usual subfolders first; unused for synthetic.

    Raises:
        FilesMissingError, FileUnreadableError, FileTooLargeError, MalformedFileError.
    """
    if name == "synthetic-ratings":
        return _synthetic()
    assert folder is not None, "rating files need a folder; resolve_folder gives one"
    return _from_file(name, _find(name, folder))


@functools.lru_cache(maxsize=1)
def _synthetic() -> Dataset:
    """Draw ratings = mean + user bias + item bias + user taste . item trait + noise.

    This is the model of Koren, Bell and Volinsky (2009) with random numbers, rounded to half stars
    from 0.5 to 5. No user rates an item twice.
    """
    rng = np.random.default_rng(SYNTHETIC_SEED)
    cells = SYNTHETIC_USERS * SYNTHETIC_ITEMS
    user, item = np.divmod(rng.choice(cells, SYNTHETIC_RATINGS, replace=False), SYNTHETIC_ITEMS)
    user_bias = rng.normal(0.0, 0.5, SYNTHETIC_USERS)
    item_bias = rng.normal(0.0, 0.6, SYNTHETIC_ITEMS)
    taste = rng.normal(0.0, 0.5, (SYNTHETIC_USERS, SYNTHETIC_RANK))
    trait = rng.normal(0.0, 0.5, (SYNTHETIC_ITEMS, SYNTHETIC_RANK))
    noise = rng.normal(0.0, 0.3, SYNTHETIC_RATINGS)
    exact = 3.3 + user_bias[user] + item_bias[item] + (taste[user] * trait[item]).sum(1) + noise
    stars = np.clip(np.round(exact * 2) / 2, 0.5, 5.0)
    return _dataset("synthetic-ratings", user, item, stars)


def _find(name: str, folder: Path) -> FileStamp:
    for place in (folder / sub for sub in SUBFOLDERS[name]):
        for pattern in FILES[name]:
            path = first_file(place, sorted(match.name for match in place.glob(pattern)))
            if path is not None:
                return stamp(path)
    raise FilesMissingError(TITLES[name], folder, [" or ".join(FILES[name])])


@functools.lru_cache(maxsize=2)
def _from_file(name: str, file: FileStamp) -> Dataset:
    table = read_ratings(file.path)
    return _dataset(name, *(table[column].to_numpy() for column in ("user", "item", "rating")))


def _dataset(
    name: str, user: NDArray[np.int64], item: NDArray[np.int64], rating: NDArray[np.floating]
) -> Dataset:
    """Renumber the ids, split 90 to 10 and take the mean of the training part."""
    users, user_rows = np.unique(user, return_inverse=True)
    items, item_rows = np.unique(item, return_inverse=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(rating))
    cut = len(rating) * 9 // 10

    def part(rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        return (
            torch.from_numpy(user_rows[rows].astype(np.int64)),
            torch.from_numpy(item_rows[rows].astype(np.int64)),
            torch.from_numpy(rating[rows].astype(np.float32)),
        )

    return Dataset(
        name=name,
        title=TITLES[name],
        train=part(order[:cut]),
        held_out=part(order[cut:]),
        n_users=len(users),
        n_items=len(items),
        mean_rating=float(rating[order[:cut]].mean(dtype=np.float64)),
    )
