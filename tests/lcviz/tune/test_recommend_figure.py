"""Settings as points: which are drawn, which nobody beats, which is recommended."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from codec import Coding
from lcviz.lab.intervals import Mean
from lcviz.lab.tuner.candidates import Candidate, Setting
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.tune.answer import DAY, measure_of
from lcviz.tune.recommend_figure import LIMIT, frontier_panel
from lcviz.tune.recorded import recorded
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def candidate(
    bits: int, share: float, distance: float, rework: float | None, interval: int = 1
) -> Candidate:
    of = None if rework is None else Mean(rework, 0.1, 10)
    bound = None if rework is None else 1.5 * rework
    setting = Setting(Coding(bits), interval)
    far = Mean(distance, 0.0, 10)
    sizes = 10_000, 10_000, 99
    return Candidate(setting, share, share, 0.0, far, distance, of, bound, *sizes)


SEVERAL = (
    candidate(1, 0.01, 0.5, math.inf),
    candidate(2, 0.02, 0.2, 4.0),
    candidate(2, 0.03, 0.3, 5.0, interval=1),  # beaten
    candidate(3, 0.04, 0.1, 1.0),
    candidate(4, 0.08, 0.05, 0.5),
)


def written(figure: dict[str, Any]) -> list[str]:
    return [annotation["text"] for annotation in figure["layout"]["annotations"]]


def points(figure: dict[str, Any]) -> dict[str, list[tuple[float, float]]]:
    return {trace["name"]: list(zip(trace["x"], trace["y"])) for trace in figure["data"]}


def panel_of(tuned: Tuned, unit: str = "iteration") -> Panel:
    """Its picture; every second an iteration."""
    return frontier_panel(tuned, measure_of(tuned, unit, 1.0), unit)


def test_rework(check_figure: Check) -> None:
    tuned = choose(SEVERAL, "rework", 2.0)
    panel = panel_of(tuned)
    figure = check_figure(panel)
    drawn = points(figure)
    assert drawn["Pareto frontier"] == [(200, 6), (400, 1.5), (800, 0.75)]  # bounds
    assert (len(drawn["tried"]), drawn["recommended"]) == (4, [(400, 1.5)])
    assert drawn[LIMIT] == [(200, 2), (800, 2)]
    assert figure["data"][-1]["customdata"] == [SEVERAL[3].setting.text("iteration")]
    assert figure["layout"]["xaxis"]["type"] == "log"
    assert figure["layout"]["xaxis"]["ticktext"] == ["100 B", "200 B", "500 B"]
    assert panel.title == "◆ x = 3 bits, 400 B: of 5 settings tried, the best within the limit"
    assert "Not drawn: 1 that cost more than 25 iterations after a crash" in panel.sentence
    means = ["1.00", "not reached", "4.00", "5.00", "0.50"]
    assert panel.table["price, mean"].tolist() == means
    bounds = ["1.50", "not reached", "6.00", "7.50", "0.75"]
    assert panel.table["price, 95 of 100 below"].tolist() == bounds
    assert panel.table["advised"].tolist() == ["→", "", "", "", ""]
    nbytes = ["400 B", "100 B", "200 B", "300 B", "800 B"]
    assert panel.table["bytes an iteration"].tolist() == nbytes


@pytest.mark.parametrize("most", [0.1, 0.9, 3.0, 25.0])
def test_the_recommended_one_is_the_cheapest_below_the_drawn_limit(most: float) -> None:
    """Where people look: 3 iterations once had a point below the line that was cheaper."""
    tuned = choose(recorded(), "rework", most)
    drawn = points(json.loads(panel_of(tuned).figure.to_json()))
    below = [point for point in drawn["tried"] if point[1] <= most]
    (limit,) = {y for _, y in drawn[LIMIT]}
    assert limit == most
    assert drawn.get("recommended") == ([min(below)] if below else None)


@pytest.mark.parametrize("target", ["size", "rate"])
@pytest.mark.parametrize("most", [0.013, 0.03])
def test_of_those_within_a_limit_of_bytes_it_is_the_one_that_loses_least(
    target: str, most: float
) -> None:
    tuned = choose(recorded(), target, most)
    drawn = points(json.loads(panel_of(tuned).figure.to_json()))
    (limit,) = {x for x, _ in drawn[LIMIT]}
    times = DAY if target == "rate" else 1
    assert limit == pytest.approx(most * times * recorded()[0].full_nbytes)
    within = [point for point in drawn["tried"] if point[0] <= limit]
    if within:
        ((x, y),) = drawn["recommended"]
        assert (x <= limit, y) == (True, min(lost for _, lost in within))


def test_without_a_limit(check_figure: Check) -> None:
    tuned = replace(choose(SEVERAL, "rework", 2.0), most=math.nan)
    assert LIMIT not in points(check_figure(panel_of(tuned)))


def test_distance_without_a_loss(check_figure: Check) -> None:
    several = tuple(candidate(b, s, d, None) for b, s, d in ((1, 0.01, 0.5), (2, 0.02, 0.0)))
    panel = panel_of(choose(several, "distance", 0.1), "file")
    figure = check_figure(panel)
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert "distance, %, largest" in written(figure)
    assert [y for _, y in points(figure)["Pareto frontier"]] == [50, 0.1]
    assert {y for _, y in points(figure)[LIMIT]} == {10}
    assert not [name for name in panel.table if "price" in name]
    assert "bytes a file" in panel.table
    assert panel.table["setting"].tolist() == ["x = 2 bits", "x = 1 bit"]


def test_what_restores_no_number_is_not_drawn(check_figure: Check) -> None:
    several = (*SEVERAL, candidate(5, 0.1, math.inf, 0.4))
    panel = panel_of(choose(several, "distance", 0.2))
    assert len(points(check_figure(panel))["tried"]) == len(SEVERAL)
    assert "Not drawn: 1 that restore what is not finite." in panel.sentence


@pytest.mark.parametrize(("target", "most"), [("rework", 0.1), ("size", 0.001)])
def test_none_is_recommended(target: str, most: float, check_figure: Check) -> None:
    panel = panel_of(choose(SEVERAL, target, most))
    assert "recommended" not in points(check_figure(panel))
    assert set(panel.table["advised"]) == {""}


def test_no_setting_can_be_drawn(check_figure: Check) -> None:
    panel = panel_of(choose(SEVERAL[:1], "rework", 2.0))
    assert points(check_figure(panel)) == {}
