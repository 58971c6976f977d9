"""Rework by seed and the race back: every number is where it belongs, capped ones are marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lcviz.figures.panel import Panel
from lcviz.figures.race import race_panel
from lcviz.figures.recovery import restored_table, rework_panel
from lcviz.lab.methods import Method
from lcviz.lab.recovery import Outcome, Race
from lcviz.lab.rework import costs

Check = Callable[[Panel], dict[str, Any]]
NAMES = ["full", "SCAR", "TOPN", "LC Huffman", "LC run-length"]
METHODS = [Method("full"), Method("scar", 0.05), Method("topn", 0.05),
           Method("lc", 0.05, coder="huffman"), Method("lc", 0.05)]  # fmt: skip
CALM = (2.0, 1.9, 1.8, 1.7, 1.6)
TREND = (2.0, 1.8, 1.6, 1.4, 1.2)


def outcome(method: Method, seed: int, rework: float, above: Sequence[float]) -> Outcome:
    """above: what the restored training is above the undisturbed one, by iteration."""
    restored = tuple(c + a for c, a in zip(CALM, above))
    raw = [r for r, loss in enumerate(restored) if loss <= CALM[0]]
    return Outcome(
        method, seed, rework, rework == 4, raw[0] if raw else 4, CALM[0], restored[0], 0.1,
        1234.0, 0.0499, 0.002, 0.001, Race(CALM, TREND, restored),
    )  # fmt: skip


def seed_of(seed: int) -> tuple[Outcome, ...]:
    above = [(0.0,), (0.3, 0.25, 0.15), (3.0,) * 5, (0.1, 0.05), (0.0,)]
    return tuple(
        outcome(m, seed, r, a) for m, r, a in zip(METHODS, [0.0, 1.4 + seed, 4.0, 0.4, 0.0], above)
    )


SEEDS = [seed_of(0), seed_of(1)]


def series(option: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (s for s in option["series"] if s.get("name") == name)
    return dict(found)


def test_a_point_for_every_seed_and_the_mean(check_option: Check) -> None:
    panel = rework_panel(costs(SEEDS))
    option = check_option(panel)
    points = series(option, "one seed")["data"]
    assert [p["value"] for p in points] == [
        [0, 0], [0, 0], [1.4, 1], [2.4, 1], [4, 2], [4, 2], [0.4, 3], [0.4, 3], [0, 4], [0, 4],
    ]  # fmt: skip
    assert [p["symbol"] == "arrow" for p in points] == [p["value"][1] == 2 for p in points]
    assert len({p["symbol"] for p in points}) == 5  # not by colour alone
    means = series(option, "mean, 95 % interval")["data"]
    assert [m["value"][0] for m in means] == [0, 1.9, 4, 0.4, 0]
    half = 12.706 * math.sqrt(0.5) / math.sqrt(2)
    bars = option["series"][2]["data"]
    assert bars[1]["coords"] == [[0, 1], [pytest.approx(1.9 + half, abs=1e-3), 1]]
    texts = [one["label"]["formatter"] for one in option["series"][3]["data"]]
    assert texts == ["0.00 ± 0.00", "1.90 ± 6.35", "0.40 ± 0.00", "0.00 ± 0.00"]
    assert [m["label"]["formatter"] for m in means] == ["", "", "≥ 4.00", "", ""]
    assert option["xAxis"]["max"] >= 1.9 + half
    assert [n.split("\n") for n in option["yAxis"]["data"]] == [
        [n, "1.23 kB, 4.99 %"] for n in NAMES
    ]
    assert "2 seeds" in panel.sentence
    assert "An arrow was not back" in panel.sentence
    assert panel.table["of each seed"].tolist()[1:3] == ["1.40 · 2.40", "≥ 4.00 · ≥ 4.00"]


def test_one_seed_has_no_interval(check_option: Check) -> None:
    panel = rework_panel(costs(SEEDS[:1]))
    option = check_option(panel)
    assert option["series"][2]["data"] == option["series"][3]["data"] == []
    means = series(option, "mean, 95 % interval")["data"]
    assert means[1]["label"]["formatter"] == "1.40"
    assert "no interval yet" in panel.sentence


def test_nothing_lost_at_all(check_option: Check) -> None:
    full = [own[:1] for own in SEEDS]
    assert check_option(rework_panel(costs(full)))["xAxis"]["max"] == 1


def test_the_race_on_the_trend_ends_at_the_rework(check_option: Check) -> None:
    panel = race_panel(SEEDS[0], 80, smooth=True)
    option = check_option(panel)
    scar = [p["value"] for p in series(option, "SCAR")["data"]]
    assert scar == [[0, 2.3], [1, 2.05], [1.4, 2.0]]
    topn = [p["value"] for p in series(option, "TOPN")["data"]]
    assert [x for x, _ in topn] == [0, 1, 2, 3, 4]  # capped: all there is, and never back
    assert topn[-1][1] > 2
    assert [p["value"] for p in series(option, "full")["data"]] == [[0, 2.0]]
    calm = [p["value"] for p in series(option, "did not fail")["data"]]
    assert calm == [[r, v] for r, v in enumerate(TREND)]
    assert series(option, "did not fail")["markLine"]["data"][0]["yAxis"] == 2.0
    marked = [p["symbolSize"] > 0 for p in series(option, "TOPN")["data"]]
    assert marked == [True, False, False, False, True]
    assert "full at once, LC run-length at once, LC Huffman after 0.4" in panel.sentence
    assert "TOPN not within 4 iterations" in panel.sentence
    assert panel.sentence.endswith("is back, or at the cap.")
    assert panel.table["SCAR"].tolist()[:3] == ["2.30000", "2.05000", ""]


def test_the_race_as_measured(check_option: Check) -> None:
    panel = race_panel(SEEDS[0], 80, smooth=False)
    option = check_option(panel)
    scar = [p["value"] for p in series(option, "SCAR")["data"]]
    assert scar == [[0, 2.3], [1, 2.15], [2, 1.95]]
    calm = [p["value"] for p in series(option, "did not fail")["data"]]
    assert calm == [[r, v] for r, v in enumerate(CALM)]
    assert "SCAR after 2" in panel.sentence
    assert "as measured" in panel.title
    dashes = {(s["lineStyle"]["type"], s["symbol"]) for s in option["series"]}
    assert len(dashes) == 6


def test_right_after_restoring() -> None:
    table = restored_table(costs(SEEDS))
    assert table["right after restoring"].tolist() == [
        "2.0000", "2.3000", "5.0000", "2.1000", "2.0000",
    ]  # fmt: skip
    assert set(table["distance"]) == {"10.00 %"}
    assert set(table["one save"]) == {"2.0 ms"}
