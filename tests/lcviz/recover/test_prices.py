"""Prices by seed: every number is where it belongs, capped ones are marked."""

from __future__ import annotations

import math

import pytest

from lcviz.lab.recovery.recovery import Outcome
from lcviz.lab.recovery.rework import costs
from lcviz.recover.prices import prices, restored_table
from lcviz.ui.race import race_picture
from tests.worded import worded

Seeds = list[tuple[Outcome, ...]]
NAMES = ["full", "SCAR", "TOPN", "LC Huffman", "LC run-length"]


def test_every_seed_and_the_mean(seeds: Seeds) -> None:
    rows = prices(costs(seeds))
    assert [row["name"] for row in rows] == NAMES
    assert [[price for price, _ in row["each"]] for row in rows] == [
        *([0, 0], [1.4, 2.4], [4, 4], [0.4, 0.4], [0, 0])
    ]
    assert [{capped for _, capped in row["each"]} for row in rows] == [
        *({False}, {False}, {True}, {False}, {False})
    ]
    assert [row["mean"] for row in rows] == [0, 1.9, 4, 0.4, 0]
    half = 12.706 * math.sqrt(0.5) / math.sqrt(2)
    assert [row["half"] for row in rows] == [0, pytest.approx(half, abs=1e-3), None, 0, 0]


def test_they_stand_under_the_race(seeds: Seeds) -> None:
    drawn = worded(race_picture(seeds[0], 80, prices=prices(costs(seeds))).data)
    texts = ["0.00 ± 0.00", "1.90 ± 6.35", "≥ 4.00", "0.40 ± 0.00", "0.00 ± 0.00"]
    assert [row["text"] for row in drawn["rows"]] == [
        f"{name}, 1.23 kB: {text}" for name, text in zip(NAMES, texts)
    ]
    assert drawn["range"][1] >= 1.9 + 6.35
    assert "each of 2 seeds" in drawn["text"]
    one = worded(race_picture(seeds[0], 80, prices=prices(costs(seeds[:1]))).data)
    assert one["rows"][1]["text"].endswith(": 1.40")
    assert "one seed, so far without an interval" in one["text"]
    assert worded(race_picture(seeds[0], 80).data)["rows"] == []


def test_right_after_restoring(seeds: Seeds) -> None:
    table = restored_table(costs(seeds))
    losses = ["2.0000", "2.3000", "5.0000", "2.1000", "2.0000"]
    assert table["right after restoring"].tolist() == losses
    assert (set(table["distance"]), set(table["one save"])) == ({"10.00 %"}, {"2.0 ms"})
    assert table["price of each seed"].tolist()[1:3] == ["1.40 · 2.40", "≥ 4.00 · ≥ 4.00"]
