"""The race back: lines that end where the loss is back, words and table that say the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lcviz.lab.recovery.kill import OnDisk
from lcviz.lab.recovery.recovery import Outcome, Protocol, Race
from lcviz.lab.recovery.rework import CrashExperiment
from lcviz.ui.race import STYLES, race_picture
from tests.docs.pages import ROOT
from tests.worded import lost_work, worded

Seeds = list[tuple[Outcome, ...]]


Drawn = dict[str, Any]


def points(drawn: Drawn, name: str) -> list[tuple[float, float]]:
    (found,) = (line for line in drawn["lines"] if line["name"] == name)
    return list(zip(found["x"], found["y"]))


def labels(drawn: Drawn) -> list[str]:
    return [line["label"] for line in drawn["lines"] if line["label"]]


def race(outcomes: Sequence[Outcome], at: int, **more: Any) -> Drawn:
    drawn = worded(race_picture(outcomes, at, **more).data)
    return drawn | {"text": drawn["text"].replace("[[", "").replace("]]", "")}


def test_on_the_trend_it_ends_at_the_price(seeds: Seeds) -> None:
    drawn = race(seeds[0], 80)
    assert points(drawn, "SCAR") == [(0, 2.3), (1, 2.05), (1.4, 2.0)]
    topn = points(drawn, "TOPN")
    assert [x for x, _ in topn] == [0, 1, 2, 3, 4]  # capped: all there is, and never back
    assert topn[-1][1] > 2
    assert points(drawn, "full") == [(0, 2.0)]
    assert points(drawn, "no crash") == list(enumerate(seeds[0][0].race.trend))
    assert drawn["level"]["y"] == 2.0
    of_lc = ["LC Huffman 0.4", "LC run-length 0"]
    assert labels(drawn) == ["no crash", "full 0", "SCAR 1.4", "TOPN > 4", *of_lc]
    assert drawn["log"]
    assert (drawn["play"], drawn["height"]) == (6, 230)
    said = (ROOT / "docs" / "reference" / "dashboard.md").read_text(encoding="utf-8")
    assert "the race is played in six seconds" in said
    assert "LC Huffman after 0.4" in drawn["text"]
    assert "TOPN not within 4 iterations" in drawn["text"]
    data = race_picture(seeds[0], 80).data
    short = worded(data | {"calm": data["calm"][:2]})
    assert short["range"][1] == topn[-1][0]  # the axis ends where the last line does
    assert race_picture(seeds[0], 80).table["SCAR"].tolist()[:3] == ["2.30000", "2.05000", ""]
    assert "before" not in race_picture(seeds[0], 80).table  # nothing is known of it


def test_as_measured(seeds: Seeds) -> None:
    drawn = race(seeds[0], 80, smooth=False)
    assert points(drawn, "SCAR") == [(0, 2.3), (1, 2.15), (2, 1.95)]
    assert points(drawn, "no crash") == list(enumerate(seeds[0][0].race.undisturbed))
    assert "SCAR after 2" in drawn["text"]
    assert "as measured" in drawn["about"]
    looks = {(line["colour"], line["dash"]) for line in drawn["lines"]}
    assert len(looks) == 7  # not by colour alone


def test_what_was_not_saved_is_repeated_first(seeds: Seeds) -> None:
    """The line begins with the restored checkpoint, and is not back before the crash is reached."""
    calm, restored = ((2.0, 1.9, 1.8), (2.0, 1.8, 1.6)), (2.6, 2.3, 2.05, 1.95)
    losses = Race(*calm, restored, (2.7, 2.4, 2.0), (2.5, 2.2, 2.0))
    late = replace(seeds[0][1], race=losses, since=2, capped=True).after(losses.restored)
    assert late.rework == pytest.approx(2.25)
    assert (late.rework_raw, late.since) == (3, 2)
    drawn = race([late], 83)
    assert points(drawn, "SCAR") == [(0, 2.4), (1, 2.1), (2, 2.05), (2.25, 2.0)]
    assert race_picture([late], 83).table["iteration"].tolist() == ["-2", "-1", "0", "+1", "+2"]
    assert points(race([late], 83, smooth=False), "SCAR")[-1] == (3, 1.95)


def test_a_loss_that_is_no_number_was_never_back(seeds: Seeds) -> None:
    broken = seeds[0][1].after([math.nan] * 5)
    drawn = race([seeds[0][0], broken], 83, smooth=False)
    assert labels(drawn) == ["no crash", "full 0", "SCAR > 4"]
    assert not drawn["log"]
    assert [y for _, y in points(drawn, "SCAR")] == [None] * 5


def test_every_method_has_a_look_of_its_own() -> None:
    names = [m.name for m in CrashExperiment("lenet5", 0.05, Protocol()).methods]
    names.append(OnDisk("lc", chain=Path("run.lcc"), newest=9).name)
    assert list(STYLES) == names
    assert len({(symbol, dash) for _, symbol, dash in STYLES.values()}) == len(STYLES)


def test_an_estimate_has_one_digit() -> None:
    """A race may come out at four times as much; and a part of it is never larger than it."""
    cost = {"price": 8.26, "unsaved": 6, "step": 3}
    assert lost_work(cost) == "costs about 8 iterations, 6 of them not saved"
    assert lost_work(cost | {"price": 0.34}) == "costs about 0.3 iterations"
    assert lost_work(cost | {"price": 13.7, "unsaved": 12}) == "costs about 10 iterations"
