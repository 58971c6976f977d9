"""Timelines as Streamlit runs them: measured when asked for, stepped through, kept in the URL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from codec import Coding
from lcviz.lab.workload import workload
from lcviz.recover import page_timelines
from lcviz.recover.timelines import Drill, Timeline
from lcviz.recover.timelines_figure import crash_table, ticks
from lcviz.server import jobs
from lcviz.ui import session
from tests.lcviz.common import SECONDS

pytestmark = pytest.mark.usefixtures("server")

DRILL = Drill(workload("logistic-regression"), 0, 1, Coding())
Showing = Callable[..., Any]
Patch = pytest.MonkeyPatch


def script() -> None:
    """Timelines only."""
    from codec import Coding
    from lcviz.lab.workload import workload
    from lcviz.recover.page_timelines import timelines
    from lcviz.recover.timelines import Drill

    timelines(Drill(workload("logistic-regression"), 0, 1, Coding()))


@pytest.fixture
def showing(visit: Showing, _nothing_known: None) -> Showing:
    """A page of timelines only, opened with these URL parameters."""
    return partial(visit, script)


@pytest.fixture
def parts(timelines: tuple[Timeline, ...], monkeypatch: Patch) -> list[int]:
    """Asking gives a measurement at once; which ones were asked for."""
    numbers: list[int] = []
    measure = lambda _own, part, _progress: (numbers.append(part), timelines)[1]  # noqa: E731
    monkeypatch.setattr(Drill, "measure", measure)
    return numbers


def measure(page: Any, number: int = 0) -> None:
    page.click("recover-timelines-start")
    assert session.all_jobs().wait((DRILL, number), 1, SECONDS).status == jobs.DONE
    page.run()


def crash(page: Any) -> Any:
    (slider,) = page.at.slider
    return slider


def left(page: Any) -> list[list[str]]:
    """What the crash leaves, of each way."""
    return [list(row) for row in page.at.table[0].value.to_numpy()]


def test_measured_when_asked_for(showing: Showing, parts: list[int], monkeypatch: Patch) -> None:
    monkeypatch.setattr(page_timelines, "MOST_MEASUREMENTS", 2)
    page = showing()
    assert not page.charts
    assert not page.at.table
    assert "saved every iteration, in two ways" in page.texts("markdown")[0]
    assert f"{DRILL.iterations} iterations" in page.at.button(key="recover-timelines-start").help
    measure(page)
    assert (page.charts, parts) == ({"recover-timelines"}, [0])
    assert [b.label for b in page.at.button] == ["Measure again"]
    told = "\n".join(page.texts("markdown"))
    assert "the same weights to the last bit" in told
    measure(page, 1)
    assert (len(parts), page.charts) == (2, {"recover-timelines"})
    assert not page.at.button


def test_a_crash_at_any_moment(
    showing: Showing, parts: list[int], timelines: tuple[Timeline, ...]
) -> None:
    page = showing()
    measure(page)
    most, step = ticks(max(line.end for line in timelines))
    assert (crash(page).min, crash(page).max, crash(page).step) == (0, most, step)
    for share in (0.0, 0.4, 1.0):
        ms = round(round(share * most / step) * step, 1)  # never a hair above the end
        crash(page).set_value(ms)
        page.run()
        assert left(page) == crash_table(timelines, ms / 1e3, True).to_numpy().tolist()
        (mark,) = page.figure("recover-timelines")["layout"]["shapes"]
        assert (mark["x0"], mark["x1"]) == (pytest.approx(ms), pytest.approx(ms))
    assert left(page)[0][1] == "is done"
    ms = round(round(0.4 * most / step) * step, 1)
    crash(page).set_value(ms)
    page.set("segmented_control", "recover_crashes", "training")
    told = {f"recover_crash_{most:g}": str(ms), "recover_crashes": "training alone"}
    again = showing(**told, recover_shows="around the crash")  # a link
    assert crash(again).value == pytest.approx(ms)
    assert left(again) == left(page)
    low, high = again.figure("recover-timelines")["layout"]["xaxis"]["range"]
    assert low <= ms <= high
    assert high - low == pytest.approx(most / 6, abs=0.2)
    assert parts == [0]  # the other session found it there


def test_on_recover_with_its_own_model(recovering: Showing, parts: list[int]) -> None:
    page = recovering(recover_interval="5").unfold("recover-timing")
    assert "AlexNet, scaled down: saved every 5 iterations, in two ways" in page.texts("markdown")
    page.set("selectbox", "recover_timed", "matrix-factorization")
    assert "Matrix factorization: saved every 5 iterations, in two ways" in page.texts("markdown")
    page.click("recover-timelines-start")
    drill = Drill(workload("matrix-factorization"), 0, 5, Coding(budget=0.05))
    assert session.all_jobs().look((drill, 0), 1).status in (*jobs.ACTIVE, jobs.DONE)
