"""Timelines: every span where it belongs, on the same time axis, with words for all of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from lcviz.recover.timelines import (
    ASYNCHRONOUS,
    CHECKS,
    COMMITS,
    ENCODES,
    STANDS_STILL,
    SYNCHRONOUS,
    TRAINS,
    WRITES,
    Timeline,
)
from lcviz.recover.timelines_figure import crash_table, ticks, timelines_panel, ways_table
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


ALL = (0.0, 0.08)
Lines = tuple[Timeline, ...]


def bars(figure: dict[str, Any], name: str, axis: str) -> dict[str, Any]:
    traces: list[dict[str, Any]] = figure["data"]
    (own,) = (t for t in traces if (t["name"], t.get("yaxis", "y")) == (name, axis))
    return own


def spans(figure: dict[str, Any], name: str, axis: str) -> list[tuple[float, float, int]]:
    """Begin, length and lane."""
    own = bars(figure, name, axis)
    return list(zip(own["base"], own["x"], own["y"]))


def costs(figure: dict[str, Any]) -> list[list[list[float]]]:
    lines = (t for t in figure["data"] if t["type"] == "scatter")
    return [[list(point) for point in zip(t["x"], t["y"])] for t in lines]


def test_every_span_is_in_its_lane(check_figure: Check, timelines: Lines) -> None:
    figure = check_figure(timelines_panel(timelines, 0.02, True, ALL))
    layout = figure["layout"]
    for axis, way in (("yaxis", SYNCHRONOUS), ("yaxis3", ASYNCHRONOUS)):
        assert layout[axis]["ticktext"] == [f"{way}: training", "saving"]
    for i, own in enumerate(timelines):
        for what in (TRAINS, STANDS_STILL, ENCODES, CHECKS, WRITES, COMMITS):
            lane = 0 if what in (TRAINS, STANDS_STILL) else 1
            expected = [
                (round(1e3 * s.begin, 3), round(1e3 * s.seconds, 3), lane)
                for s in (*own.loop, *own.saver)
                if s.activity == what
            ]
            assert spans(figure, what, "y" if i == 0 else f"y{2 * i + 1}") == expected
    first = bars(figure, STANDS_STILL, "y3")
    assert first["customdata"][0] == "stands still 2 ms, step 9"


def test_one_time_axis_and_no_meaning_by_colour(check_figure: Check, timelines: Lines) -> None:
    figure = check_figure(timelines_panel(timelines, 0.02, True, ALL))
    layout = figure["layout"]
    assert {trace.get("xaxis", "x") for trace in figure["data"]} == {"x"}
    assert (layout["xaxis"]["range"], layout["xaxis"]["anchor"]) == ([0, 80], "y4")
    domains = [layout[f"yaxis{i or ''}"]["domain"] for i in (0, 2, 3, 4)]
    assert all(0 <= low < high <= 1 for low, high in domains)
    assert all(below[1] < above[0] for above, below in pairwise(domains))
    looks = {(t["marker"]["color"], t["width"]) for t in figure["data"] if t["type"] == "bar"}
    assert len(looks) == 6
    legend = [trace["name"] for trace in figure["data"] if trace["showlegend"]]
    assert len(legend) == len(set(legend)) == 7
    assert {TRAINS, STANDS_STILL, ENCODES, CHECKS, WRITES, COMMITS} < set(legend)
    (mark,) = layout["shapes"]
    assert (mark["x0"], mark["x1"], mark["yref"]) == (20, 20, "paper")


def test_what_a_crash_would_cost(check_figure: Check, timelines: Lines) -> None:
    panel = timelines_panel(timelines, 0.02, True, ALL)
    plain, background = costs(check_figure(panel))
    assert plain == [[0, 0], [10, 1], [14, 0], [24, 1], [28, 0], [70, 1], [70, 1]]
    assert background == [[0, 0], [10, 1], [16, 0], [24, 1], [30, 0], [70, 1], [70, 1]]
    _, alone = costs(check_figure(timelines_panel(timelines, 0.02, False, ALL)))
    assert alone[:5] == [[0, 0], [10, 1], [12, 0], [24, 1], [26, 0]]
    most = " costs at most, in iterations since the checkpoint: synchronous 1, asynchronous 1."
    assert panel.sentence == f"A crash of the machine{most}"
    alone = timelines_panel(timelines, 0.02, False, (0.012, 0.025))
    assert alone.sentence.endswith(f"alone{most}")
    assert check_figure(alone)["layout"]["xaxis"]["range"] == [12, 25]


def test_the_numbers_are_in_the_table(timelines: Lines) -> None:
    table = timelines_panel(timelines, 0.02, True, ALL).table
    assert len(table) == sum(len(own.loop) + len(own.saver) for own in timelines)
    row = table[(table["way"] == ASYNCHRONOUS) & (table["what"] == WRITES)].iloc[0]
    assert (row["who"], row["from, ms"], row["to, ms"], row["took, ms"]) == ("saver", 14, 15, 1)


@pytest.mark.parametrize(
    ("ms", "machine", "expected"),
    [
        (5, True, ["trains (9)", "waits", "8", "8", "0 iterations"]),
        (14.5, True, ["trains (10)", "writes (9)", "9", "8", "1 iteration"]),
        (14.5, False, ["trains (10)", "writes (9)", "9", "9", "0 iterations"]),
        (75, True, ["is done", "is done", "11", "10", "1 iteration"]),
    ],
)
def test_while_it_saves(ms: float, machine: bool, expected: list[str], timelines: Lines) -> None:
    table = crash_table(timelines, ms / 1e3, machine)
    assert list(table.iloc[1])[1:] == expected
    assert table["saved"].tolist() == ["**synchronous**", "**asynchronous**"]


def test_each_way_in_a_column(timelines: Lines) -> None:
    table = ways_table(timelines)
    assert table.columns.tolist() == ["measure", SYNCHRONOUS, ASYNCHRONOUS]
    plain = ["10 ms", "4 ms", "40 %", "21 %", "4 ms", "1.00 kB"]
    assert table[SYNCHRONOUS].tolist() == plain


@pytest.mark.parametrize(
    ("end", "most", "step"),
    [(0.0301, 30.1, 0.1), (0.2, 200, 0.5), (0.487, 487, 1), (0.5001, 502, 2), (13.0, 13000, 50)],
)
def test_a_slider_s_steps(end: float, most: float, step: float) -> None:
    assert ticks(end) == (most, pytest.approx(step))
