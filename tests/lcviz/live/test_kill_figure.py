"""Around the crash: lines, marks, the table, and a verdict that is honest whoever wins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lcviz.lab.recovery.kill import OnDisk
from lcviz.lab.recovery.methods import Method
from lcviz.lab.recovery.recovery import Outcome, Race
from lcviz.live.kill_figure import killed_panel, rework_table, verdict
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]
METHODS = {
    "full": Method("full"),
    "SCAR": Method("scar", 0.05),
    "TOPN": Method("topn", 0.05),
    "LC": OnDisk("lc", bits=2, chain=Path("run.lcc"), newest=9),
}
CALM = (2.0, 1.9, 1.8, 1.7, 1.6)
TREND = (2.0, 1.8, 1.6, 1.4, 1.2)
BEFORE, TREND_BEFORE = (2.6, 2.3, 2.0), (2.5, 2.2, 2.0)
CAP = 4


def outcome(name: str, rework: float, above: Sequence[float]) -> Outcome:
    """above: what the restored training is above the undisturbed one, by iteration."""
    restored = tuple(c + a for c, a in zip(CALM, above))
    raw = [r for r, loss in enumerate(restored) if loss <= CALM[0]]
    nbytes = 24_000.0 if name == "full" else 1200.0
    return Outcome(
        METHODS[name],
        0,
        rework,
        rework == CAP,
        raw[0] if raw else CAP,
        CALM[0],
        restored[0],
        0.1,
        nbytes,
        nbytes / 24_000,
        0.002,
        0.001,
        Race(CALM, TREND, restored, BEFORE, TREND_BEFORE),
    )


RACE = (
    outcome("full", 0.0, (0.0,)),
    outcome("SCAR", 4.0, (3.0,) * 5),
    outcome("TOPN", 1.4, (0.3, 0.25, 0.15)),
    outcome("LC", 0.7, (0.1, 0.05)),
)


def test_a_loss_that_is_no_number_was_never_back(check_option: Check) -> None:
    broken = outcome("LC", 4.0, (math.nan,) * 5)
    assert rework_table([broken])["as measured"].tolist() == ["≥ 4"]
    panel = killed_panel([RACE[0], broken], 83, smooth=False)
    check_option(panel)
    assert "LC not within 4 iterations" in panel.sentence


def amounts(**rework: float) -> list[Outcome]:
    return [outcome(name, rework.get(name, 0.0), (0.1,) * 5) for name in METHODS]


def test_lines_before_and_after(check_option: Check) -> None:
    panel = killed_panel(RACE, 83, smooth=True)
    option = check_option(panel)
    lines = {s["name"]: [d["value"] for d in s["data"]] for s in option["series"]}
    assert lines == {
        "before the crash": [[-2, 2.5], [-1, 2.2], [0, 2.0]],
        "did not crash": [[0, 2.0], [1, 1.8], [2, 1.6], [3, 1.4], [4, 1.2]],
        "full (at once)": [[0, 2.0]],
        "SCAR (> 4)": [[0, 5.0], [1, 4.8], [2, 4.6], [3, 4.4], [4, 4.2]],
        "TOPN (1.4)": [[0, 2.3], [1, 2.05], [1.4, 2.0]],
        "LC (0.7)": [[0, 2.1], [0.7, 2.0]],
    }
    target, moment = option["series"][0]["markLine"]["data"]
    assert target["yAxis"] == 2.0
    assert target["label"]["formatter"] == "back again"  # in one line, beside the plot
    assert moment["xAxis"] == 0
    assert "(at iteration 83)" in option["xAxis"]["name"]
    assert (option["xAxis"]["min"], option["xAxis"]["max"]) == (-2, 4)
    assert [one["name"] for one in option["legend"]["data"]] == list(lines)
    for line in option["series"][2:]:  # the start and where it is back
        assert [d["symbolSize"] > 0 for d in line["data"]] == [
            i in (0, len(line["data"]) - 1) for i in range(len(line["data"]))
        ]
    looks = {(s["lineStyle"]["type"], s["symbol"]) for s in option["series"]}
    assert len(looks) == 6  # not by colour alone
    assert "full at once, LC after 0.7, TOPN after 1.4, SCAR not within 4" in panel.sentence
    assert panel.sentence.startswith("Before the crash the loss was 2.0000 on the trend. Back")


def test_as_measured(check_option: Check) -> None:
    panel = killed_panel(RACE, 83, smooth=False)
    lines = {s["name"]: [d["value"] for d in s["data"]] for s in check_option(panel)["series"]}
    assert lines["before the crash"] == [[-2, 2.6], [-1, 2.3], [0, 2.0]]
    assert lines["LC (1)"] == [[0, 2.1], [1, 1.95]]
    assert lines["TOPN (2)"][-1] == [2, 1.95]
    assert panel.sentence.startswith("Before the crash the loss was 2.0000. Back there: full at")
    assert panel.alt == killed_panel(RACE, 83, smooth=True).alt


def test_the_table_has_whole_iterations() -> None:
    table = killed_panel(RACE, 83, smooth=True).table
    assert table["iteration"].tolist() == ["-2", "-1", "0", "+1", "+2", "+3", "+4"]
    assert table["before the crash"].tolist() == ["2.50000", "2.20000", "2.00000", "", "", "", ""]
    assert table["TOPN"].tolist() == ["", "", "2.30000", "2.05000", "", "", ""]
    assert table["SCAR"].tolist()[-1] == "4.20000"


def test_rework_by_method() -> None:
    table = rework_table(RACE)
    assert table["method"].tolist() == ["**full**", "**SCAR**", "**TOPN**", "**LC**"]
    assert table["rework, iterations"].tolist() == ["0.00", "≥ 4.00", "1.40", "0.70"]
    assert table["as measured"].tolist() == ["0", "≥ 4", "2", "1"]
    assert table["a checkpoint"].tolist()[::3] == ["24.0 kB, 100 %", "1.20 kB, 5.00 %"]
    assert table["distance"].tolist() == ["10.00 %"] * 4


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            RACE,
            "**LC wins**: back after 0.7 iterations, at 1.20 kB a checkpoint; TOPN needs 1.4 "
            "iterations, 2 times as many, SCAR was not back within 4 iterations, at least 5.71 "
            "times as many. Full, with 20 times the bytes, is back at once.",
        ),
        (
            amounts(full=1, SCAR=2, TOPN=0.5, LC=1),
            "**TOPN wins**: back after 0.5 iterations, at 1.20 kB a checkpoint; LC needs 1 "
            "iteration, 2 times as many, SCAR needs 2 iterations, 4 times as many. Full, with 20 "
            "times the bytes, is back after 1 iteration.",
        ),
        (
            amounts(full=4, SCAR=4, TOPN=4, LC=4),
            "**Nobody wins**: at 1.20 kB a checkpoint, none of SCAR, TOPN and LC was back within "
            "4 iterations. Full, with 20 times the bytes, is not back within 4 iterations.",
        ),
        (
            amounts(SCAR=3, TOPN=0.01, LC=0),
            "**LC and TOPN are level**: back at once, at 1.20 kB a checkpoint; SCAR needs 3 "
            "iterations. Full, with 20 times the bytes, is back at once.",
        ),
        (
            amounts(SCAR=1.0004, TOPN=1.2, LC=1.2),
            "**SCAR wins**: back after 1 iteration, at 1.20 kB a checkpoint; TOPN needs 1.2 "
            "iterations, 1.2 times as many, LC needs 1.2 iterations, 1.2 times as many. Full, with "
            "20 times the bytes, is back at once.",
        ),
        (
            [replace(o, nbytes=24_000.0) for o in amounts(SCAR=2, TOPN=3, LC=0)],
            "**LC wins**: back at once, at 24.0 kB a checkpoint; SCAR needs 2 iterations, TOPN "
            "needs 3 iterations. Full, with 24.0 kB a checkpoint, is back at once.",
        ),
        (
            amounts(SCAR=2, TOPN=2, LC=2.02),
            "**SCAR, TOPN and LC are level**: back after 2 iterations, at 1.20 kB a checkpoint. "
            "Full, with 20 times the bytes, is back at once.",
        ),
    ],
)
def test_verdicts(found: Sequence[Outcome], said: str) -> None:
    assert verdict(found) == said
