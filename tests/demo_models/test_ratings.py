"""Ratings: the synthetic ones, every file layout, and what is said about unsound files."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from demo_models import (
    Dataset,
    FilesMissingError,
    FileTooLargeError,
    FileUnreadableError,
    MalformedFileError,
    make_task,
    rating_files,
)
from demo_models.rating_files import read_ratings
from demo_models.ratings import load_ratings

# 20 ratings: users 1..5, films 10, 20, ..., 200, stars 0.5 to 5
STARS = [(i % 5 + 1, 10 * (i + 1), (i % 10 + 1) / 2) for i in range(20)]
HEADER = "userId,movieId,rating,timestamp\n"
CSV = HEADER + "".join(f"{u},{m},{r},964982703\n" for u, m, r in STARS)
DAT = "".join(f"{u}::{m}::{r}::978300760\n" for u, m, r in STARS)
JOKES = "".join(f"{u}\t\t{m}\t\t{r - 5:.3f}\n" for u, m, r in STARS)
DENSE = "3,1.5,99,-2,9.99\n2,99,99,1,2\n4,1,2,3,4\n4,-10,10,0,4\n"


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def triples(data: Dataset) -> list[tuple[int, int, float]]:
    pairs = zip(data.train, data.held_out, strict=True)
    return sorted(zip(*(torch.cat(pair).tolist() for pair in pairs), strict=True))


# --- synthetic ----------------------------------------------------------------------------


def test_synthetic_ratings_have_the_promised_form() -> None:
    data = load_ratings("synthetic-ratings", None)
    assert (data.n_users, data.n_items) == (400, 300)
    assert (len(data.train[0]), len(data.held_out[0])) == (21_600, 2_400)
    for user, item, rating in (data.train, data.held_out):
        assert (user.dtype, item.dtype, rating.dtype) == (torch.int64, torch.int64, torch.float32)
        assert torch.equal(rating * 2, (rating * 2).round())
        assert (rating.min(), rating.max()) == (0.5, 5.0)
    assert len({(u, i) for u, i, _ in triples(data)}) == 24_000  # nobody rates twice
    assert "Synthetic" in data.title
    assert data.mean_rating == pytest.approx(data.train[2].double().mean().item())
    same_in_every_run = "c9c2513c373b75a8cd7dff30dba2c012262a713989478e608d1a4d597a80549e"
    assert data.digest() == same_in_every_run


# --- sound files --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "sub"),
    [
        ("ratings.csv", CSV, "."),
        ("ratings.csv", CSV, "ml-latest-small"),
        ("ratings.dat", DAT, "movielens"),
        ("ratings.dat", DAT, "ml-1m"),
    ],
)
def test_movielens(tmp_path: Path, name: str, text: str, sub: str) -> None:
    (tmp_path / sub).mkdir(exist_ok=True)
    write(tmp_path / sub, name, text)
    data = load_ratings("movielens", tmp_path)
    assert triples(data) == sorted((u - 1, m // 10 - 1, r) for u, m, r in STARS)
    assert (data.n_users, data.n_items, data.n_train) == (5, 20, 18)


def test_ids_are_renumbered_in_sorted_order(tmp_path: Path) -> None:
    rows = [(900, 7, 1.0), (3, 7, 2.0), (50, 10**12, 3.0)] * 4
    write(tmp_path, "ratings.csv", HEADER + "".join(f"{u},{m},{r},1\n" for u, m, r in rows))
    data = load_ratings("movielens", tmp_path)
    assert set(triples(data)) == {(2, 0, 1.0), (0, 0, 2.0), (1, 1, 3.0)}


@pytest.mark.parametrize("text", [JOKES, JOKES.replace("\t\t", "\t")])
def test_jester_triples(tmp_path: Path, text: str) -> None:
    write(tmp_path, "jester_ratings.dat", text)
    data = load_ratings("jester", tmp_path)
    assert triples(data) == sorted((u - 1, m // 10 - 1, r - 5) for u, m, r in STARS)


def test_jester_dense(tmp_path: Path) -> None:
    """Ratings stay in their unit; only the loss is taken around the mean."""
    write(tmp_path, "jester-data-1.csv", DENSE)
    task = make_task("matrix-factorization", "jester", folder=tmp_path)
    data, ratings = task.dataset, triples(task.dataset)
    assert (data.n_users, data.n_items, len(ratings)) == (4, 4, 13)
    assert ratings[:3] == [(0, 0, 1.5), (0, 2, -2.0), (0, 3, pytest.approx(9.99))]
    assert max(rating for *_, rating in ratings) == 10  # the 99s are no ratings
    user, item, rating = task.batch(1, 11)
    assert rating.max() > 5
    with torch.no_grad():
        centred = rating - np.float32(data.mean_rating)
        expected = ((task.model(user, item) - centred) ** 2).mean()
    assert task.loss((user, item, rating)).item() == pytest.approx(float(expected))


@pytest.mark.filterwarnings("ignore::pandas.errors.ParserWarning")
@pytest.mark.parametrize(
    "text",
    [
        CSV.replace("\n", "\r\n"),
        "\ufeff" + CSV,
        # Left to itself, pandas would take the first number of such lines for a row label.
        HEADER + CSV[len(HEADER) :].replace("\n", ",,\n"),
    ],
    ids=["Windows", "byte order mark", "trailing separators"],
)
def test_other_ways_to_write_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_bytes(text.encode())
    assert read_ratings(path)["item"].tolist() == [m for _, m, _ in STARS]


def test_split_is_fixed_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, "ratings.csv", CSV)
    first = load_ratings("movielens", tmp_path)
    assert load_ratings("movielens", tmp_path) is first
    write(tmp_path, "ratings.csv", CSV + "6,10,4.0,964982703\n")
    assert load_ratings("movielens", tmp_path).n_users == 6


# --- unsound files ------------------------------------------------------------------------


def test_missing_files(tmp_path: Path) -> None:
    for data, names in (("movielens", "ratings.csv or ratings.dat"), ("jester", "jester_ratings")):
        with pytest.raises(FilesMissingError, match=f"lacks {names}"):
            make_task("matrix-factorization", data, folder=tmp_path)
    with pytest.raises(FileUnreadableError, match="No such file"):
        read_ratings(tmp_path / "ratings.csv")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ratings.csv", "", "a header userId,movieId,rating,timestamp, found 'No columns"),
        ("ratings.csv", CSV.replace("rating", "stars", 1), "found 'userId,movieId,stars"),
        ("ratings.csv", CSV.replace("1,10,", "9" * 30 + ",10,"), "lines such as 1,31,2.5"),
        ("ratings.csv", CSV.replace("0.5,", "7.5,"), "ratings from 0.5 to 5, found 7.5"),
        ("ratings.csv", CSV.replace(",0.5,", ",inf,"), "ratings from 0.5 to 5, found inf"),
        ("ratings.csv", CSV + "1,2,3,4,5,6\n", "Expected 5 fields in line 22, saw 6"),
        ("ratings.csv", CSV.replace("703", "703,1"), "more numbers"),
        ("ratings.csv", CSV[:-14], "lines such as 1,31,2.5"),  # torn off within the last line
        ("ratings.csv", HEADER + "1,1,1,1\n" * 9, "at least 10 ratings, found 9"),
        ("ratings.dat", "", "at least 10 ratings, found 0"),
        ("ratings.dat", DAT.replace("::", ":"), "lines such as 1::1193::5::978300760"),
        ("ratings.dat", DAT.replace("::9783", ":1:9783"), "other separators"),
        ("ratings.dat", DAT.replace("::978300760", ""), "lines such as 1::1193"),
        ("jester_ratings.dat", JOKES + "1\t2\t3\t4\n", "more numbers"),
        ("jester_ratings.dat", JOKES + "1\t2\n", "ratings from -10 to 10, found nan"),
        ("jester_ratings.dat", JOKES.replace("1\t\t10\t", "?\t\t10\t"), "three numbers a line"),
        ("jester.csv", "", "lines of numbers"),
        ("jester.csv", DENSE.replace("3,1.5", "2,1.5"), "line 1 to be its 3 ratings, found 2"),
        ("jester.csv", DENSE.replace("9.99", "98"), "from -10 to 10, found 98"),
        ("jester.csv", "n,a,b\n" + DENSE, "lines of numbers"),
    ],
)
def test_malformed(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path, name, text)
    with pytest.raises(MalformedFileError, match=message) as caught:
        load_ratings("jester" if "jester" in name else "movielens", tmp_path)
    assert caught.value.path == path
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_all_lines_too_long(tmp_path: Path, mode: Any) -> None:
    """pandas only warns of it; that must not depend on what is done with warnings."""
    longer = {
        "ratings.csv": CSV.replace("703", "703,1,2"),
        "ratings.dat": DAT.replace("\n", ":1:2:3\n"),
        "jester_ratings.dat": JOKES.replace("\n", "\t1\t2\n"),
    }
    for name, text in longer.items():
        path = write(tmp_path, name, text)
        with warnings.catch_warnings():
            warnings.simplefilter(mode)
            with pytest.raises(MalformedFileError):
                read_ratings(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "ratings.dat").write_bytes(b"\xff\xfe" * 50)
    with pytest.raises(MalformedFileError) as caught:
        load_ratings("movielens", tmp_path)
    assert isinstance(caught.value.__cause__, UnicodeDecodeError)


def test_too_many_ratings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rating_files, "MAX_RATINGS", 19)
    monkeypatch.setattr(rating_files, "MAX_DENSE_ROWS", 3)
    for name, text in (("ratings.csv", CSV), ("ratings.dat", DAT), ("jester.csv", DENSE)):
        with pytest.raises(FileTooLargeError, match=r"more than 19 ratings.*smaller edition"):
            read_ratings(write(tmp_path, name, text))
