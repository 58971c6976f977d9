"""The size of every checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from lcviz.live.details.size_figure import MAX_POINTS, size_panel
from lcviz.ui.charts import Panel

Check = Callable[[Panel], dict[str, Any]]


def made(*sizes: int, exact: int = 0, lossy: int = 4000, moments: int = 0) -> list[Any]:
    """Checkpoints of a state of 4,000 bytes in these many bytes, the base first."""
    return [
        SimpleNamespace(
            step=i,
            nbytes=n,
            full_nbytes=4000,
            saved=SimpleNamespace(
                exact_nbytes=exact * i, lossy_nbytes=lossy, moment_nbytes=moments
            ),
        )
        for i, n in enumerate(sizes)
    ]


def traces(figure: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {t["name"]: t for t in figure["data"]}


def test_the_base_is_left_out(check_figure: Check) -> None:
    panel = size_panel(made(4100, 140, 160), 2, None)
    figure = check_figure(panel)
    record, floor = figure["data"]
    assert (record["x"], record["y"]) == ([1, 2], [3.5, 4.0])
    assert floor["y"] == [3.125, 3.125]
    assert record["mode"] == "lines+markers"  # few points are seen one by one
    for part in ("3 checkpoints", "4.40 kB", "12.0 kB", "3.75 % of float32"):
        assert part in panel.sentence
    assert panel.table["bytes"].tolist() == [4100, 140, 160]
    assert panel.table["%"].tolist() == [102.5, 3.5, 4.0]
    (note,) = figure["layout"]["annotations"]
    assert (note["text"], note["x"], note["xanchor"]) == ("step 2", 2, "right")
    base = size_panel(made(4100), 0, None)
    assert check_figure(base)["data"][0]["y"] == []
    assert "0.00 %" not in base.sentence  # there is no delta record yet
    assert base.alt == panel.alt


def test_a_budget_allows_a_share_and_what_is_stored_exactly(check_figure: Check) -> None:
    panel = size_panel(made(4100, 190, 200, exact=20, lossy=3600), 1, 0.05)
    lines = traces(check_figure(panel))
    assert lines["budget"]["y"] == [5.0, 5.5]
    assert len({t["line"]["dash"] for t in lines.values()}) == 3  # not by colour alone
    assert "4.88 % of float32 on average (budget 5.00 %)" in panel.sentence


def test_moments_are_outside_a_budget(check_figure: Check) -> None:
    panel = size_panel(made(4100, 190, 200, lossy=2000, moments=80), 1, 0.05)
    assert traces(check_figure(panel))["budget"]["y"] == [4.5, 4.5]


def test_of_many_checkpoints_some_are_drawn(check_figure: Check) -> None:
    n = 2 * MAX_POINTS + 1
    record = check_figure(size_panel(made(4100, *[40] * n), n, None))["data"][0]
    assert MAX_POINTS / 2 < len(record["x"]) <= MAX_POINTS
    assert (record["x"][-1], record["mode"]) == (n, "lines")
