"""A against B: the table's differences, the sentence, the lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lcviz.tune.ab import Saved, Side, Variant
from lcviz.tune.ab_figure import ab_distances, ab_sentence, ab_sizes, ab_table
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
A = Side(
    Variant(2),
    (Saved(1, 1000, 24, 1, 0, 3, 0.5, 0.002), Saved(2, 3000, 0, 1, 1, 3, 0.25, 0.004)),
    45,
    0.9,
    100_000,
    25_000,
)
B = Side(
    Variant(3, "tensor"),
    (Saved(1, 500, 70, 9, 0, 7, 0.4, 0.002), Saved(2, 1500, 12, 9, 8, 7, 0.125, 0.001)),
    301,
    0.85,
    100_000,
    25_000,
)


def test_every_difference_with_sign_and_unit() -> None:
    table = ab_table(A, B, 0.8)
    assert table.columns.tolist() == ["", "A", "B", "B against A"]
    assert table.to_numpy().tolist() == [
        [
            "newest record, bytes on disk",
            "3,000 B, 3.00 % of float32",
            "1,500 B, 1.50 % of float32",
            "−1,500 B, −50.0 % of A's",
        ],
        [
            "mean of 2 checkpoints, bytes",
            "2,000 B, 2.00 % of float32",
            "1,000 B, 1.00 % of float32",
            "−1,000 B, −50.0 % of A's",
        ],
        ["bits a parameter, newest record", "0.960", "0.480", "−0.480 bits"],
        ["distance, % of the way trained", "25.00 %", "12.50 %", "−12.50 percentage points"],
        ["loss, restored (live 0.8000)", "0.900000", "0.850000", "−0.050000"],
        ["buckets kept", "3 of 45", "7 of 301", "+4 buckets"],
        [
            "code tables written, bytes",
            "0 B, 1 of 1 table used again",
            "12 B, 8 of 9 tables used again",
            "+12 B",
        ],
        [
            "time to encode, median of 2 checkpoints",
            "3.00 ms",
            "1.50 ms",
            "−1.50 ms, −50.0 % of A's",
        ],
    ]


def test_what_is_the_same_has_no_sign() -> None:
    told = ab_table(A, A, 0.8)["B against A"].tolist()
    assert told[:3] == ["0 B, 0.0 % of A's", "0 B, 0.0 % of A's", "0.000 bits"]
    assert told[4:6] == ["0.000000", "0 buckets"]
    assert ab_sentence(A, A) == "A and B are the same: change one of them."
    near = replace(B, every=(replace(B.newest, distance=0.2500001),))
    assert ab_table(A, near, 0.8)["B against A"][3] == "0.00 percentage points"


def test_the_sentence() -> None:
    assert ab_sentence(A, B) == (
        "B takes 1.00 kB (50.00 % of A's) less than A for a checkpoint on average, and is 12.50 "
        "percentage points nearer to what was trained."
    )
    assert ab_sentence(B, A) == (
        "B takes 1.00 kB (100 % of A's) more than A for a checkpoint on average, and is 12.50 "
        "percentage points further from what was trained."
    )
    other = replace(A, variant=Variant(2, "model", "huffman"))
    assert ab_sentence(A, other) == (
        "B takes as many bytes as A for a checkpoint on average, and is as far as A from what was "
        "trained."
    )


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_run_that_diverged(check_option: Check, bad: float) -> None:
    broken = replace(B, loss=bad, every=(B.every[0], replace(B.newest, distance=bad)))
    assert "no number" in ab_sentence(A, broken)
    told = ab_table(A, broken, bad)
    assert told["B against A"].tolist()[3:5] == ["no number", "no number"]
    assert told["B"][3] == "not finite"
    panel = ab_distances(A, broken)
    check_option(panel)
    assert panel.sentence.endswith("so far from the live one that it has no number.")


def test_one_bucket_is_one() -> None:
    other = replace(A, every=(replace(A.newest, kept=4),))
    assert ab_table(A, other, 0.8)["B against A"][5] == "+1 bucket"


def test_the_lines(check_option: Check) -> None:
    sizes, distances = ab_sizes(A, B), ab_distances(A, B)
    lines = {s["name"]: s["data"] for s in check_option(sizes)["series"]}
    assert lines == {"A": [[1, 1.0], [2, 3.0]], "B": [[1, 0.5], [2, 1.5]]}
    assert sizes.sentence == (
        "On average A writes 2.00 kB and B 1.00 kB for a checkpoint of 100 kB in float32."
    )
    option = check_option(distances)
    assert [s["data"][-1] for s in option["series"]] == [[2, 25.0], [2, 12.5]]
    assert len({s["lineStyle"]["type"] for s in option["series"]}) == 2  # not colour alone
    assert len({s["symbol"] for s in option["series"]}) == 2
    assert "25.00 %" in distances.sentence
    assert "12.50 % with B" in distances.sentence
    assert sizes.table["step"].tolist() == [1, 2]
    later = replace(A, every=(*A.every, Saved(3, 900, 0, 1, 1, 3, 0.2, 0.002)))
    assert ab_sizes(later, later).alt == sizes.alt
