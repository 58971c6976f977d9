"""Timelines: every span where it belongs, on the same time axis, with words for all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lcviz.recover.timelines import (
    ASYNCHRONOUS,
    CHECKS,
    COMMITS,
    ENCODES,
    MERGED,
    MERGES,
    REOPENS,
    STANDS_STILL,
    SYNCHRONOUS,
    TRAINS,
    WRITES,
    Span,
    Timeline,
)
from lcviz.recover.timelines_figure import crash_table, ticks, timelines_panel, ways_table
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def line(way: str, merges: bool = False) -> Timeline:
    """Iterations 9, 10 and 11, of 10 ms each; steps 9 and 10 are saved within 4 ms, in seconds."""
    late = 0.002 if way == ASYNCHRONOUS else 0.0
    loop = (
        Span(TRAINS, 9, 0.0, 0.010),
        Span(STANDS_STILL, 9, 0.010, 0.014 - late),
        Span(TRAINS, 10, 0.014, 0.024),
        Span(STANDS_STILL, 10, 0.024, 0.060 if merges else 0.028),
        Span(TRAINS, 11, 0.060, 0.070),
    )
    saver = [
        Span(what, step, begin + i / 1000, begin + (i + 1) / 1000)
        for step, begin in ((9, 0.010 + late), (10, 0.024 + late))
        for i, what in enumerate((ENCODES, CHECKS, WRITES, COMMITS))
    ]
    if merges:
        saver += [Span(MERGES, 10, 0.030, 0.050), Span(REOPENS, 10, 0.050, 0.060)]
    durable = ((-0.01, 8), (0.014 + late, 9), (0.028 + late, 10))
    given = ((-0.02, 8), (0.012, 9), (0.026, 10))
    return Timeline(
        way,
        9,
        loop,
        tuple(saver),
        given,
        durable,
        1000,
        900 if merges else 1000,
        2 if merges else 10,
        11,
        "t",
    )


FOUND = (line(SYNCHRONOUS), line(ASYNCHRONOUS), line(MERGED, merges=True))
ALL = (0.0, 0.08)


def spans(option: dict[str, Any], name: str, axis: int) -> list[Any]:
    (own,) = (s for s in option["series"] if s.get("name") == name and s["xAxisIndex"] == axis)
    return [one["coords"] for one in own["data"]]


def costs(option: dict[str, Any]) -> list[list[list[float]]]:
    return [s["data"] for s in option["series"] if s.get("step")]


def test_every_span_is_in_its_lane(check_option: Check) -> None:
    option = check_option(timelines_panel(FOUND, 0.02, True, ALL))
    assert [y["data"] for y in option["yAxis"][::2]] == [
        [f"{way}: training", "saving"] for way in (SYNCHRONOUS, ASYNCHRONOUS, MERGED)
    ]
    for i, own in enumerate(FOUND):
        for what in (TRAINS, STANDS_STILL, ENCODES, CHECKS, WRITES, COMMITS, MERGES, REOPENS):
            lane = 0 if what in (TRAINS, STANDS_STILL) else 1
            expected = [
                [[round(1e3 * s.begin, 3), lane], [round(1e3 * s.end, 3), lane]]
                for s in (*own.loop, *own.saver)
                if s.what == what
            ]
            assert spans(option, what, 2 * i) == expected, (own.way, what)
    (first,) = (
        s for s in option["series"] if s.get("name") == STANDS_STILL and s["xAxisIndex"] == 2
    )
    assert first["data"][0]["name"] == "stands still 2 ms, step 9"


def test_one_time_axis_and_no_meaning_by_colour_alone(check_option: Check) -> None:
    option = check_option(timelines_panel(FOUND, 0.02, True, ALL))
    assert {(x["min"], x["max"]) for x in option["xAxis"]} == {(0, 80)}
    assert {(g["left"], g["right"]) for g in option["grid"]} == {(150, 24)}
    looks = {
        (s["lineStyle"]["color"], s["lineStyle"]["width"])
        for s in option["series"]
        if s["type"] == "lines"
    }
    legend = [one["name"] for one in option["legend"]["data"]]
    assert len(looks) == 8
    assert legend[:8] == [TRAINS, STANDS_STILL, ENCODES, CHECKS, WRITES, COMMITS, MERGES, REOPENS]
    marks = [s["markLine"]["data"][0]["xAxis"] for s in option["series"] if "markLine" in s]
    assert marks == [20] * 6
    without = check_option(timelines_panel(FOUND[:2], 0.02, True, ALL))
    assert MERGES not in [one["name"] for one in without["legend"]["data"]]


def test_what_a_crash_would_cost(check_option: Check) -> None:
    panel = timelines_panel(FOUND, 0.02, True, ALL)
    plain, background, merged = costs(check_option(panel))
    assert plain == [[0, 0], [10, 1], [14, 0], [24, 1], [28, 0], [70, 1], [70, 1]]
    assert background == [[0, 0], [10, 1], [16, 0], [24, 1], [30, 0], [70, 1], [70, 1]]
    assert merged == plain
    _, alone, _ = costs(check_option(timelines_panel(FOUND, 0.02, False, ALL)))
    assert alone[:5] == [[0, 0], [10, 1], [12, 0], [24, 1], [26, 0]]
    assert "synchronous 4 ms for a checkpoint, 40 % of an iteration" in panel.sentence
    assert "asynchronous 3 ms for a checkpoint, 30 %" in panel.sentence
    assert "and 36 ms where 8 deltas were merged" in panel.sentence
    assert "synchronous 1, asynchronous 1, merged 1." in panel.sentence


def test_a_part_of_it_is_cut_at_its_edges(check_option: Check) -> None:
    option = check_option(timelines_panel(FOUND, 0.02, True, (0.012, 0.025)))
    assert spans(option, TRAINS, 0) == [[[14, 0], [24, 0]]]
    assert spans(option, STANDS_STILL, 0) == [[[12, 0], [14, 0]], [[24, 0], [25, 0]]]
    assert {(x["min"], x["max"]) for x in option["xAxis"]} == {(12, 25)}


def test_the_numbers_are_in_the_table() -> None:
    table = timelines_panel(FOUND, 0.02, True, ALL).table
    assert len(table) == sum(len(own.loop) + len(own.saver) for own in FOUND)
    row = table[(table["way"] == MERGED) & (table["what"] == MERGES)].iloc[0]
    assert (row["who"], row["from, ms"], row["to, ms"], row["took, ms"]) == ("saver", 30, 50, 20)


@pytest.mark.parametrize(
    ("ms", "machine", "expected"),
    [
        (5, True, ["trains (9)", "waits", "8", "8", "0 iterations"]),
        (14.5, True, ["trains (10)", "writes (9)", "9", "8", "1 iteration"]),
        (14.5, False, ["trains (10)", "writes (9)", "9", "9", "0 iterations"]),
        (75, True, ["is done", "is done", "11", "10", "1 iteration"]),
    ],
)
def test_a_crash_of_the_asynchronous_one(ms: float, machine: bool, expected: list[str]) -> None:
    table = crash_table(FOUND, ms / 1e3, machine)
    assert list(table.iloc[1])[1:] == expected
    assert table["saved"].tolist() == ["**synchronous**", "**asynchronous**", "**merged**"]


def test_each_way_in_a_column() -> None:
    table = ways_table(FOUND)
    assert table.columns.tolist() == ["", SYNCHRONOUS, ASYNCHRONOUS, MERGED]
    assert table[SYNCHRONOUS].tolist() == [
        "10 ms",
        "4 ms",
        "40 %",
        "21 %",
        "4 ms",
        "1.00 kB",
        "10",
        "11",
    ]
    assert table[MERGED].tolist() == ["10 ms", "20 ms", "200 %", "57 %", "4 ms", "900 B", "2", "11"]


@pytest.mark.parametrize(
    ("end", "most", "step"),
    [(0.0301, 30.1, 0.1), (0.2, 200, 0.5), (0.487, 487, 1), (0.5001, 502, 2), (13.0, 13000, 50)],
)
def test_a_slider_s_steps(end: float, most: float, step: float) -> None:
    assert ticks(end) == (most, pytest.approx(step))
