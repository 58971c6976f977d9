"""A against B: the table's differences, the sentence, the lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec.scheme.coding import Coding
from lcviz.tune.ab import Side, TrialSave
from lcviz.tune.ab_figure import ab_distances, ab_sentence, ab_sizes, ab_table
from lcviz.ui.charts import Panel
from lcviz.ui.picture import Picture

Check = Callable[[Panel], dict[str, Any]]
A = Side(
    Coding(2),
    (TrialSave(1, 1000, 24, 1, 0, 3, 0.5, 0.002), TrialSave(2, 3000, 0, 1, 1, 3, 0.25, 0.004)),
    45,
    0.9,
    100_000,
    25_000,
)
B = Side(
    Coding(3, "tensor"),
    (TrialSave(1, 500, 70, 9, 0, 7, 0.4, 0.002), TrialSave(2, 1500, 12, 9, 8, 7, 0.125, 0.001)),
    301,
    0.85,
    100_000,
    25_000,
)


def differences(a: Side, b: Side) -> list[str]:
    return list(ab_table(a, b, 0.8)["B against A"])


def test_every_difference_with_sign_and_unit() -> None:
    table = ab_table(A, B, 0.8)
    assert table["A"].tolist() == [
        "3,000 B, 3.00 % of float32",
        "2,000 B, 2.00 % of float32",
        "0.960",
        "25.00 %",
        "0.900000",
        "3 of 45",
        "0 B, 1 of 1 table reused",
        "3.00 ms",
    ]
    assert differences(A, B) == [
        "−1,500 B, −50.0 % of A's",
        "−1,000 B, −50.0 % of A's",
        "−0.480 bits",
        "−12.50 percentage points",
        "−0.050000",
        "+4 buckets",
        "+12 B",
        "−1.50 ms, −50.0 % of A's",
    ]
    one_more = replace(A, saves=(replace(A.newest, kept=4),))
    assert differences(A, one_more)[5] == "+1 bucket"


def test_what_is_the_same_has_no_sign() -> None:
    same = differences(A, A)
    assert same[:3] == ["0 B, 0.0 % of A's", "0 B, 0.0 % of A's", "0.000 bits"]
    assert same[4:6] == ["0.000000", "0 buckets"]
    near = replace(B, saves=(replace(B.newest, distance=0.2500001),))
    assert differences(A, near)[3] == "0.00 percentage points"


def test_the_sentence() -> None:
    less, more = ab_sentence(A, B), ab_sentence(B, A)
    assert "1.00 kB (50.00 % of A's) less than A" in less
    assert "12.50 percentage points nearer" in less
    assert "(100 % of A's) more than A" in more
    assert "12.50 percentage points further" in more
    assert "the same" in ab_sentence(A, A)
    other = ab_sentence(A, replace(A, choice=Coding(2, "model", "huffman")))
    assert "as many bytes as A" in other
    assert "as far as A" in other


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_run_that_diverged(bad: float) -> None:
    broken = replace(B, loss=bad, saves=(B.saves[0], replace(B.newest, distance=bad)))
    assert "not finite" in ab_sentence(A, broken)
    assert differences(A, broken)[3:5] == ["not finite", "not finite"]
    picture = ab_distances(A, broken)
    assert lines(picture)["B"][-1] == (2, None)
    assert "not finite" in picture.text


def lines(picture: Picture) -> dict[str, list[tuple[int, float | None]]]:
    data = json.loads(json.dumps(picture.data, allow_nan=False))
    return {line["name"]: list(zip(line["x"], line["y"])) for line in data["lines"]}


def test_the_lines() -> None:
    sizes, distances = ab_sizes(A, B), ab_distances(A, B)
    assert lines(sizes) == {"A": [(1, 1.0), (2, 3.0)], "B": [(1, 0.5), (2, 1.5)]}
    a, b = sizes.data["lines"]
    assert a["dash"] != b["dash"]  # not by colour alone
    assert {name: line[-1] for name, line in lines(distances).items()} == {
        "A": (2, 25.0),
        "B": (2, 12.5),
    }
    assert sizes.data["range"] == [1, 2]
    assert "12.50 % with B" in distances.text
    assert sizes.table["step"].tolist() == [1, 2]
    first = replace(A, saves=A.saves[:1])
    assert ab_sizes(first, first).data["range"] == [1, 2]  # a single step has a width, too
