"""The pictures of a compressed series."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lcviz.export.comparison import Compared, TensorError
from lcviz.export.comparison_figure import (
    MOST_BARS,
    distance_by_step,
    sizes_by_step,
    tensors_of_step,
)
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
TENSORS = tuple(TensorError(f"t{i}", 10, i / 20, i / 100) for i in range(20))
BASE = Compared(0, "e0.pt", "base", 1100, 1000, 1050, 900, 0.0, 0.0, (), "")
EVERY = [
    BASE,
    Compared(10, "e10.pt", "delta", 50, 1000, 1050, 900, 0.25, 0.125, TENSORS, ""),
    Compared(20, "e20.pt", "delta", 50, 1000, 1050, 900, 0.2, 0.5, TENSORS, ""),
]


def test_sizes(check_option: Check) -> None:
    panel = sizes_by_step(EVERY)
    option = check_option(panel)
    lines = {s["name"]: s["data"] for s in option["series"]}
    assert lines["record of the chain"] == [[0, 1100], [10, 50], [20, 50]]
    assert lines["its file"] == [[0, 1050], [10, 1050], [20, 1050]]
    assert lines["the file zipped"][0] == [0, 900]
    assert option["yAxis"]["type"] == "log"
    assert len({(s["lineStyle"]["type"], s["symbol"]) for s in option["series"]}) == 4
    assert panel.sentence == (
        "3 steps in 1.20 kB instead of 3.00 kB in float32, 3.15 kB as files, 2.70 kB as zipped "
        "files: 40.00 % of float32. 1 of them is a base, stored exactly."
    )


def test_sizes_of_a_chain_have_no_files(check_option: Check) -> None:
    panel = sizes_by_step([replace(c, file_nbytes=None, zipped=None) for c in EVERY])
    option = check_option(panel)
    assert [s["name"] for s in option["series"]] == ["in float32", "record of the chain"]
    assert "file bytes" not in panel.table
    assert "as files" not in panel.sentence


def test_distances(check_option: Check) -> None:
    panel = distance_by_step(EVERY)
    assert check_option(panel)["series"][0]["data"] == [[0, 0.0], [10, 0.25], [20, 0.2]]
    assert panel.sentence == (
        "Furthest from its original is step 10: 25.00 % of the way that training had come by then. "
        "No weight of any step is off by more than 0.5."
    )
    assert "exactly, to the last bit" in distance_by_step([BASE]).sentence
    broken = distance_by_step([BASE, replace(EVERY[1], distance=math.nan, largest=math.nan)])
    assert check_option(broken)["series"][0]["data"][1] == [10, None]
    assert "not finite" in broken.sentence


def test_tensors(check_option: Check) -> None:
    panel = tensors_of_step(EVERY[1])
    option = check_option(panel)
    assert option["yAxis"]["data"] == [f"t{i}" for i in range(19, 19 - MOST_BARS, -1)]
    assert option["series"][0]["data"][0]["value"] == 0.95
    assert len(panel.table) == 20
    assert panel.sentence == (
        "At step 10 t19 is furthest from its original, 0.95, t0 closest, 0. The 16 furthest are "
        "drawn."
    )
    assert "None of its tensors" in tensors_of_step(BASE).sentence
    exact = replace(BASE, tensors=(TensorError("w", 9, 0.0, 0.0),))
    assert tensors_of_step(exact).sentence.startswith("Step 0 is stored exactly")
    odd = replace(EVERY[1], tensors=(TensorError("w", 9, math.inf, math.nan), *TENSORS[:2]))
    assert check_option(tensors_of_step(odd))["yAxis"]["data"][0] == "w"


def test_names_of_tensors_are_no_markdown() -> None:
    evil = [TensorError(f"![{i}](x)", 9, 0.1 * i, 0.1) for i in (1, 2)]
    sentence = tensors_of_step(replace(EVERY[1], tensors=tuple(evil))).sentence
    assert "![" not in sentence
    assert "\\!\\[2\\](x) is furthest" in sentence
