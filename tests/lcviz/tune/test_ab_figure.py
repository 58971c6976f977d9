"""A against B: the table's differences, the sentence, the lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec.scheme.coding import Coding
from lcviz.tune.ab import Side, TrialSave
from lcviz.tune.ab_figure import ab_distances, ab_sentence, ab_sizes, ab_table
from lcviz.ui.charts import Panel

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
        "3,000 B, 3.00 %",
        "2,000 B, 2.00 %",
        "0.960",
        "25.00 %",
        "0.900000",
        "3 of 45",
        "0 B, 1 of 1 reused",
        "3.00 ms",
    ]
    assert differences(A, B) == [
        "−1,500 B, −50.0 %",
        "−1,000 B, −50.0 %",
        "−0.480 bits",
        "−12.50 percentage points",
        "−0.050000",
        "+4 buckets",
        "+12 B",
        "−1.50 ms, −50.0 %",
    ]
    one_more = replace(A, saves=(replace(A.newest, kept=4),))
    assert differences(A, one_more)[5] == "+1 bucket"


def test_what_is_the_same_has_no_sign() -> None:
    same = differences(A, A)
    assert same[:3] == ["0 B, 0.0 %", "0 B, 0.0 %", "0.000 bits"]
    assert same[4:6] == ["0.000000", "0 buckets"]
    near = replace(B, saves=(replace(B.newest, distance=0.2500001),))
    assert differences(A, near)[3] == "0.00 percentage points"


def test_the_sentence() -> None:
    less, more = ab_sentence(A, B), ab_sentence(B, A)
    assert less.endswith(": 1.00 kB (50.00 %) less, 12.50 percentage points nearer.")
    assert more.endswith("(100 %) more, 12.50 percentage points further.")
    assert "the same" in ab_sentence(A, A)
    other = ab_sentence(A, replace(A, choice=Coding(2, "model", "huffman")))
    assert other.endswith(": as many bytes, as near to what was trained.")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_run_that_diverged(check_figure: Check, bad: float) -> None:
    broken = replace(B, loss=bad, saves=(B.saves[0], replace(B.newest, distance=bad)))
    assert "not finite" in ab_sentence(A, broken)
    assert differences(A, broken)[3:5] == ["not finite", "not finite"]
    panel = ab_distances(A, broken)
    assert lines(check_figure(panel))["B"][-1] == (2, None)
    assert "B not finite." in panel.sentence


def lines(figure: dict[str, Any]) -> dict[str, list[tuple[int, float | None]]]:
    return {line["name"]: list(zip(line["x"], line["y"])) for line in figure["data"]}


def test_the_lines(check_figure: Check) -> None:
    sizes, distances = ab_sizes(A, B), ab_distances(A, B)
    figure = check_figure(sizes)
    assert lines(figure) == {"A": [(1, 1.0), (2, 3.0)], "B": [(1, 0.5), (2, 1.5)]}
    assert len({line["line"]["dash"] for line in figure["data"]}) == 2  # not by colour alone
    assert figure["layout"]["hovermode"] == "x unified"
    ends = {name: line[-1] for name, line in lines(check_figure(distances)).items()}
    assert ends == {"A": (2, 25.0), "B": (2, 12.5)}
    assert distances.sentence == "At step 2: A 25.00 %, B 12.50 %."
    assert sizes.table["step"].tolist() == [1, 2]
    first = replace(A, saves=A.saves[:1])
    low, high = check_figure(ab_sizes(first, first))["layout"]["xaxis"]["range"]
    assert low < 1 < high  # a single step has a width, too
