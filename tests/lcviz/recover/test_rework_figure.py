"""Rework by seed: every number is where it belongs, capped ones are marked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from lcviz.lab.recovery.recovery import Outcome
from lcviz.lab.recovery.rework import costs
from lcviz.recover.rework_figure import restored_table, rework_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
Seeds = list[tuple[Outcome, ...]]
NAMES = ["full", "SCAR", "TOPN", "LC Huffman", "LC run-length"]


def series(option: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (s for s in option["series"] if s.get("name") == name)
    return dict(found)


def test_a_point_for_every_seed_and_the_mean(check_option: Check, seeds: Seeds) -> None:
    panel = rework_panel(costs(seeds))
    option = check_option(panel)
    points = series(option, "one seed")["data"]
    pairs = [(0, 0), (1.4, 2.4), (4, 4), (0.4, 0.4), (0, 0)]
    assert [p["value"] for p in points] == [[v, row] for row, own in enumerate(pairs) for v in own]
    assert [p["symbol"] == "arrow" for p in points] == [p["value"][1] == 2 for p in points]
    assert len({p["symbol"] for p in points}) == 5  # not by colour alone
    means = series(option, "mean, 95 % interval")["data"]
    assert [m["value"][0] for m in means] == [0, 1.9, 4, 0.4, 0]
    half = 12.706 * math.sqrt(0.5) / math.sqrt(2)
    (bars,) = (s["data"] for s in option["series"] if s["type"] == "lines")
    assert bars[1]["coords"] == [[0, 1], [pytest.approx(1.9 + half, abs=1e-3), 1]]
    (ends,) = (s["data"] for s in option["series"] if s.get("symbolSize") == 1)
    texts = [one["label"]["formatter"] for one in ends]
    assert texts == ["0.00 ± 0.00", "1.90 ± 6.35", "0.40 ± 0.00", "0.00 ± 0.00"]
    assert [m["label"]["formatter"] for m in means] == ["", "", "≥ 4.00", "", ""]
    assert option["xAxis"]["max"] >= 1.9 + half
    assert [n.split("\n") for n in option["yAxis"]["data"]] == [
        [n, "1.23 kB, 4.99 %"] for n in NAMES
    ]
    assert "2 seeds" in panel.sentence
    assert "An arrow marks" in panel.sentence
    assert panel.table["of each seed"].tolist()[1:3] == ["1.40 · 2.40", "≥ 4.00 · ≥ 4.00"]


def test_one_seed_has_no_interval(check_option: Check, seeds: Seeds) -> None:
    panel = rework_panel(costs(seeds[:1]))
    option = check_option(panel)
    assert not any(s["data"] for s in option["series"] if s["type"] == "lines")
    means = series(option, "mean, 95 % interval")["data"]
    assert means[1]["label"]["formatter"] == "1.40"
    assert "no interval yet" in panel.sentence


def test_nothing_lost_at_all(check_option: Check, seeds: Seeds) -> None:
    full = [own[:1] for own in seeds]
    assert check_option(rework_panel(costs(full)))["xAxis"]["max"] == 1


def test_right_after_restoring(seeds: Seeds) -> None:
    table = restored_table(costs(seeds))
    losses = ["2.0000", "2.3000", "5.0000", "2.1000", "2.0000"]
    assert table["right after restoring"].tolist() == losses
    assert set(table["distance"]) == {"10.00 %"}
    assert set(table["one save"]) == {"2.0 ms"}
