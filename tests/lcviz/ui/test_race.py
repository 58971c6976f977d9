"""The race back: lines that end where the loss is back, words and table that say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lcviz.lab.recovery.kill import OnDisk
from lcviz.lab.recovery.recovery import Outcome, Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.ui.charts import Panel
from lcviz.ui.race import STYLES, race_panel

Check = Callable[[Panel], dict[str, Any]]
Seeds = list[tuple[Outcome, ...]]


def series(option: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (s for s in option["series"] if s.get("name") == name)
    return dict(found)


def test_the_race_on_the_trend_ends_at_the_rework(check_option: Check, seeds: Seeds) -> None:
    panel = race_panel(seeds[0], 80, smooth=True)
    option = check_option(panel)
    scar = [p["value"] for p in series(option, "SCAR")["data"]]
    assert scar == [[0, 2.3], [1, 2.05], [1.4, 2.0]]
    topn = [p["value"] for p in series(option, "TOPN")["data"]]
    assert [x for x, _ in topn] == [0, 1, 2, 3, 4]  # capped: all there is, and never back
    assert topn[-1][1] > 2
    assert [p["value"] for p in series(option, "full")["data"]] == [[0, 2.0]]
    calm = [p["value"] for p in series(option, "did not fail")["data"]]
    assert calm == [[r, v] for r, v in enumerate(seeds[0][0].race.trend)]
    assert series(option, "did not fail")["markLine"]["data"][0]["yAxis"] == 2.0
    marked = [p["symbolSize"] > 0 for p in series(option, "TOPN")["data"]]
    assert marked == [True, False, False, False, True]
    assert "LC Huffman after 0.4" in panel.sentence
    assert "TOPN not within 4 iterations" in panel.sentence
    assert panel.table["SCAR"].tolist()[:3] == ["2.30000", "2.05000", ""]


def test_the_race_as_measured(check_option: Check, seeds: Seeds) -> None:
    panel = race_panel(seeds[0], 80, smooth=False)
    option = check_option(panel)
    scar = [p["value"] for p in series(option, "SCAR")["data"]]
    assert scar == [[0, 2.3], [1, 2.15], [2, 1.95]]
    calm = [p["value"] for p in series(option, "did not fail")["data"]]
    assert calm == [[r, v] for r, v in enumerate(seeds[0][0].race.undisturbed)]
    assert "SCAR after 2" in panel.sentence
    assert "as measured" in panel.title
    dashes = {(s["lineStyle"]["type"], s["symbol"]) for s in option["series"]}
    assert len(dashes) == 6


def test_every_method_has_a_look_of_its_own() -> None:
    names = [m.name for m in CrashExperiment("lenet5", 0.05, Protocol()).methods]
    names.append(OnDisk("lc", chain=Path("run.lcc"), newest=9).name)
    assert list(STYLES) == names
    assert len({(symbol, dash) for _, symbol, dash in STYLES.values()}) == len(STYLES)
