"""The race back: lines that end where the loss is back, words and table that say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lcviz.lab.recovery.kill import OnDisk
from lcviz.lab.recovery.recovery import Outcome, Protocol
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.recover.race_figure import race_panel
from lcviz.ui.charts import Panel
from lcviz.ui.race import STYLES

Check = Callable[[Panel], dict[str, Any]]
Seeds = list[tuple[Outcome, ...]]


def points(figure: dict[str, Any], name: str) -> list[tuple[float, float]]:
    (found,) = (trace for trace in figure["data"] if trace["name"] == name)
    return list(zip(found["x"], found["y"]))


def test_on_the_trend_it_ends_at_the_rework(check_figure: Check, seeds: Seeds) -> None:
    panel = race_panel(seeds[0], 80, smooth=True)
    figure = check_figure(panel)
    assert points(figure, "SCAR") == [(0, 2.3), (1, 2.05), (1.4, 2.0)]
    topn = points(figure, "TOPN")
    assert [x for x, _ in topn] == [0, 1, 2, 3, 4]  # capped: all there is, and never back
    assert topn[-1][1] > 2
    assert points(figure, "full") == [(0, 2.0)]
    assert points(figure, "did not fail") == list(enumerate(seeds[0][0].race.trend))
    (level,) = figure["layout"]["shapes"]
    assert level["y0"] == level["y1"] == 2.0
    (topn_line,) = (trace for trace in figure["data"] if trace["name"] == "TOPN")
    marked = [size > 0 for size in topn_line["marker"]["size"]]
    assert marked == [True, False, False, False, True]
    assert "LC Huffman after 0.4" in panel.sentence
    assert "TOPN not within 4 iterations" in panel.sentence
    assert panel.table["SCAR"].tolist()[:3] == ["2.30000", "2.05000", ""]


def test_as_measured(check_figure: Check, seeds: Seeds) -> None:
    panel = race_panel(seeds[0], 80, smooth=False)
    figure = check_figure(panel)
    assert points(figure, "SCAR") == [(0, 2.3), (1, 2.15), (2, 1.95)]
    assert points(figure, "did not fail") == list(enumerate(seeds[0][0].race.undisturbed))
    assert "SCAR after 2" in panel.sentence
    assert "as measured" in panel.title
    looks = {(t["line"]["dash"], t["marker"].get("symbol")) for t in figure["data"]}
    assert len(looks) == 6


def test_every_method_has_a_look_of_its_own() -> None:
    names = [m.name for m in CrashExperiment("lenet5", 0.05, Protocol()).methods]
    names.append(OnDisk("lc", chain=Path("run.lcc"), newest=9).name)
    assert list(STYLES) == names
    assert len({(symbol, dash) for _, symbol, dash in STYLES.values()}) == len(STYLES)
