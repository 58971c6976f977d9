"""Reads the rating files of MovieLens and Jester as they are published.

    ratings.csv         MovieLens   userId,movieId,rating,timestamp      with that header line
    ratings.dat         MovieLens   user::movie::rating::timestamp       no header
    jester_ratings.dat  Jester      user <tab> joke <tab> rating         one or more tabs
    jester*.csv         Jester      one user a line: how many jokes they rated, then a rating
                                    for each joke, 99 where they gave none

Each reader returns a table with the columns user, item (int64, ids as in the file) and rating
(float32): stars from 0.5 to 5 in MovieLens, -10 to 10 in Jester. pandas parses; what it rejects
is reported as a MalformedFileError.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from demo_models.errors import FileTooLargeError, FileUnreadableError, MalformedFileError

MAX_RATINGS = 12_000_000  # MovieLens 10M, the paper's, takes 10 s and 1.5 GB at its peak
MAX_DENSE_ROWS = 100_000
MIN_RATINGS = 10  # fewer cannot be split 90 to 10
NOT_RATED = 99.0
STARS = (0.5, 5.0)
JESTER = (-10.0, 10.0)

TRIPLE = ["user", "item", "rating"]
TYPES = {"user": np.int64, "item": np.int64, "rating": np.float32}


def movielens_csv(path: Path) -> pd.DataFrame:
    """Read MovieLens' ratings.csv."""
    header = "userId,movieId,rating,timestamp"
    first_line = ",".join(_parse(path, f"a header {header}", nrows=0).columns)
    if first_line != header:
        raise MalformedFileError(path, f"a header {header}", f"'{first_line[:80]}'")
    names = [*TRIPLE, "time", "beyond"]
    return _lines(path, "lines such as 1,31,2.5,1260759144", STARS, ",", names, skip=1)


def movielens_dat(path: Path) -> pd.DataFrame:
    """Read MovieLens' ratings.dat."""
    # Cutting at every ':' leaves empty columns, which are checked. A two-character separator is
    # much slower in pandas.
    names = ["user", "gap1", "item", "gap2", "rating", "gap3", "time", "beyond"]
    return _lines(path, "lines such as 1::1193::5::978300760", STARS, ":", names)


def jester_dat(path: Path) -> pd.DataFrame:
    """Read Jester's jester_ratings.dat."""
    layout = "three numbers a line (user, joke, rating) with tabs between"
    return _lines(path, layout, JESTER, r"\s+", [*TRIPLE, "beyond"])


def jester_csv(path: Path) -> pd.DataFrame:
    """Read a dense Jester table; users and jokes are numbered by their row and column."""
    layout = "lines of numbers, all of the same length"
    dense = _parse(path, layout, header=None, dtype=np.float32, nrows=MAX_DENSE_ROWS + 1)
    if len(dense) > MAX_DENSE_ROWS:
        raise FileTooLargeError(path, MAX_RATINGS)
    counts, ratings = dense.to_numpy()[:, 0], dense.to_numpy()[:, 1:]
    rated = ratings != NOT_RATED
    wrong = np.flatnonzero(counts != rated.sum(axis=1))
    if len(wrong):
        row = wrong[0]
        expected = f"the first number of line {row + 1} to be its {rated[row].sum()} ratings"
        raise MalformedFileError(path, expected, f"{counts[row]:g}")
    user, item = np.nonzero(rated)
    table = pd.DataFrame({"user": user, "item": item, "rating": ratings[user, item]})
    return _checked(path, table, JESTER)


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "ratings.csv": movielens_csv,
    "ratings.dat": movielens_dat,
    "jester_ratings.dat": jester_dat,
}


def read_ratings(path: Path) -> pd.DataFrame:
    """Read a rating file, whose name decides the layout.

    Returns:
        A table with the columns user, item (int64) and rating (float32).

    Raises:
        MalformedFileError, FileTooLargeError, FileUnreadableError.
    """
    return READERS.get(path.name, jester_csv)(path)


def _lines(
    path: Path,
    layout: str,
    limits: tuple[float, float],
    separator: str,
    names: list[str],
    skip: int = 0,
) -> pd.DataFrame:
    """Read a file with one rating a line. Columns named gap... and beyond must be empty."""
    types = {name: TYPES.get(name, np.int64) for name in (*TRIPLE, "time")}
    table = _parse(
        path,
        layout,
        sep=separator,
        header=None,
        skiprows=skip,
        names=names,
        dtype=types,
        index_col=False,  # otherwise a line too long shifts every column by one
        nrows=MAX_RATINGS + 1,
    )
    empty = [name for name in names if name not in types]
    if not table[empty].isna().all(axis=None):
        raise MalformedFileError(path, layout, "lines with other separators or more numbers")
    return _checked(path, table, limits)


def _parse(path: Path, layout: str, **options: Any) -> pd.DataFrame:
    try:
        return pd.read_csv(path, **options)
    except OSError as exc:
        raise FileUnreadableError(path, exc.strerror or str(exc)) from exc
    # pandas' errors are ValueErrors; a ParserWarning is raised where warnings count as errors.
    except (ValueError, OverflowError, pd.errors.ParserWarning) as exc:
        raise MalformedFileError(path, layout, f"'{str(exc).strip()[:200]}'") from exc


def _checked(path: Path, table: pd.DataFrame, limits: tuple[float, float]) -> pd.DataFrame:
    """Check the number and the range of the ratings; returns the three columns."""
    if len(table) > MAX_RATINGS:
        raise FileTooLargeError(path, MAX_RATINGS)
    if len(table) < MIN_RATINGS:
        raise MalformedFileError(path, f"at least {MIN_RATINGS} ratings", str(len(table)))
    outside = table.loc[~table["rating"].between(*limits), "rating"]  # NaN is never between
    if len(outside):
        expected = f"ratings from {limits[0]:g} to {limits[1]:g}"
        raise MalformedFileError(path, expected, f"{outside.iloc[0]:g}")
    return table[TRIPLE]
