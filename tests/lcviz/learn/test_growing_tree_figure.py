"""The growing tree, and the bars of the stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcviz.lab.lesson import StageBits, huffman_merges
from lcviz.learn.growing_tree_figure import growing_tree_panel
from lcviz.learn.stages_figure import stages_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
LABELS, COUNTS = ["0", "0.79", "−0.48", "0.44"], [5, 2, 1, 2]


def places(option: dict[str, Any]) -> list[tuple[float, float]]:
    return [tuple(dot["value"]) for dot in option["series"][1]["data"]]


def test_it_grows_and_nothing_moves(check_option: Check) -> None:
    every = huffman_merges(COUNTS)
    assert len(every) == 3
    before: list[tuple[float, float]] = []
    for done in range(4):
        panel = growing_tree_panel(LABELS, COUNTS, every, done)
        option = check_option(panel)
        assert len(option["series"][0]["data"]) == 2 * done
        now = places(option)
        assert len(now) == 4 + done
        assert now[: len(before)] == before
        before = now
        bold = [d for d in option["series"][1]["data"] if d["label"]["fontWeight"] == "bold"]
        assert len(bold) == (2 if done < 3 else 0)
        assert len(panel.table) == done
    assert before[-1][0] == -3  # the root is farthest from the leaves


def test_what_it_says() -> None:
    every = huffman_merges(COUNTS)
    said = [growing_tree_panel(LABELS, COUNTS, every, done).sentence for done in range(4)]
    assert "−0.48 (1 ×) and 0.44 (2 ×)" in said[0]
    assert "0.79 (2 ×) and tree 1 (3 ×)" in said[1]
    assert said[3].startswith("One tree is left")
    table = growing_tree_panel(LABELS, COUNTS, every, 3).table
    assert table["counts"].tolist() == ["1 + 2", "2 + 3", "5 + 5"]


@pytest.mark.parametrize("counts", [[7], [7, 0, 0]])
def test_a_single_symbol(counts: list[int], check_option: Check) -> None:
    panel = growing_tree_panel(LABELS[: len(counts)], counts, huffman_merges(counts), 0)
    assert len(check_option(panel)["series"][1]["data"]) == 1
    assert "no bits" in panel.sentence


def test_stages(check_option: Check) -> None:
    panel = stages_panel(StageBits(320, 30, 23, 20, 18, 17.61))
    bars = check_option(panel)["series"][0]["data"]
    assert [b["value"] for b in bars] == [32, 3, 2, 1.8]
    assert [b["label"]["formatter"] for b in bars] == ["320 bits", "30 bits", "20 bits", "18 bits"]
    assert "320 bits become 18, 17.8 × fewer" in panel.sentence
    assert "17.61 bits" in panel.sentence
    assert "no bits" in stages_panel(StageBits(64, 0, 0, 4, 0, 0.0)).sentence
