"""The Tune page as Streamlit runs it: tried out once, then every target at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from codec import Coding
from lcviz.lab.progress import Progress
from lcviz.lab.tuner import sweep as sweeps
from lcviz.lab.tuner.candidates import Setting, settings
from lcviz.lab.tuner.sweep import Sweep, stamped
from lcviz.lab.tuner.tuner import choose
from lcviz.lab.workload import workload
from lcviz.tune import page_recommend
from lcviz.ui import session
from lcviz.ui.live_settings import checkpoint_parameters
from lcviz.ui.snippet import in_a_loop

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 60
Tuning = Callable[..., Any]
FEW = settings((1, 2, 3), (), ("model",), ("runlength",), (1, 2))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def few(own: Sweep) -> list[Setting]:
        return FEW[:2] if own.wide else FEW

    monkeypatch.setattr(Sweep, "tried", property(few))
    monkeypatch.setattr(sweeps, "ITERATIONS", 48)
    monkeypatch.setattr(page_recommend, "ITERATIONS", 48)
    yield
    session.all_jobs().close()
    session.all_jobs.clear()


@pytest.fixture
def tuning(page_of: Callable[[AppTest], Any]) -> Tuning:
    """The Tune page of a session of its own, opened with these URL parameters."""

    def script() -> None:
        from lcviz.tune import page as tune

        tune.page()

    def open_page(**parameters: str) -> Any:
        at = AppTest.from_function(script, default_timeout=SECONDS)
        for name, value in (
            {"tune_view": "Recommend one", "tune_model": "Matrix factorization"} | parameters
        ).items():
            at.query_params[name] = value
        return page_of(at).run()

    return open_page


def finished(page: Any, sweep: Sweep) -> Any:
    session.all_jobs().wait(sweep, 1, SECONDS)
    return page.run()


def test_tried_out_once_then_every_target(tuning: Tuning, live: Callable[..., Any]) -> None:
    """Asked for by hand, shown for every target, to every visitor, and opened on Live."""
    page = tuning()
    assert [b.label for b in page.at.button] == ["Try 6 settings out"]
    assert not page.charts
    assert not page.texts("error") + page.texts("warning")
    sweep = Sweep("matrix-factorization")
    finished(page.click("tune-start"), sweep)
    (found,) = session.all_jobs().look(sweep, 1).found
    tuned = choose(found.value, "rework", 3.0)
    assert page.charts == {"frontier"}
    assert page.texts("success") == [tuned.because]
    (link,) = page.at.get("page_link")
    parameters = dict(parse_qsl(link.proto.query_string))
    assert tuned.recommended is not None
    best = tuned.recommended.setting
    assert [c.value for c in page.at.code] == [in_a_loop(best)]
    page.set("number_input", "tune_rework", 0.1)
    assert page.texts("warning") == [choose(found.value, "rework", 0.1).because]
    page.set("segmented_control", "tune_want_True", "size")
    assert page.texts("success") == [choose(found.value, "size", 0.05).because]
    page.set("segmented_control", "tune_want_True", "distance")
    page.set("number_input", "tune_distance", 0.3)
    told = page.texts("success") + page.texts("warning")
    assert told == [choose(found.value, "distance", 0.3).because]
    assert not page.at.button  # nothing was done again
    assert session.all_jobs().look(sweep, 1).found == (found,)
    assert tuning().charts == {"frontier"}
    assert not tuning(tune_wide="2 settings").charts

    at = live(**parameters).at  # its form has this training and setting
    assert at.selectbox(key="model").value == "matrix-factorization"
    assert at.select_slider(key="bits").value == best.coding.bits
    assert at.number_input(key="interval").value == best.interval
    lab = workload("matrix-factorization")
    assert at.number_input(key="lr_matrix-factorization_sgd").value == lab.lr
    assert at.number_input(key="batch_matrix-factorization").value == lab.batch_size
    assert at.number_input(key="iterations").value == 48


@pytest.mark.parametrize(
    "setting",
    [
        Setting(Coding(None, "tensor", "huffman", 0.075), 10),
        Setting(Coding(8, "tensor", "huffman"), 2),
    ],
)
def test_every_setting_can_stand_in_live_s_link(setting: Setting, live: Callable[..., Any]) -> None:
    at = live(**checkpoint_parameters(setting)).at
    assert at.segmented_control(key="scope").value == setting.coding.scope
    assert at.segmented_control(key="coder").value == setting.coding.coder
    assert at.number_input(key="interval").value == setting.interval
    if setting.coding.budget is None:
        assert at.select_slider(key="bits").value == setting.coding.bits
    else:
        assert at.number_input(key="budget").value == 7.5


def test_checkpoints_of_one_s_own(tuning: Tuning, own: Path) -> None:
    page = tuning(tune_source="Checkpoints of yours", tune_distance="0.2")
    assert "Name a folder" in page.texts("info")[0]
    assert not page.at.button
    page.set("text_input", "tune_own", f" {own} ").click("tune-start")
    finished(page, stamped(str(own), wide=False))
    assert "for every checkpoint" in page.texts("success")[0]
    (table,) = (t.value for t in page.at.table)
    assert "rework" not in table


@pytest.mark.parametrize(("path", "told"), [("nowhere", "not found"), (".", "found none")])
def test_what_cannot_be_tried_out(
    path: str, told: str, tuning: Tuning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tuning(tune_source="Checkpoints of yours", tune_own=path).click("tune-start")
    finished(page, stamped(path, wide=False))
    (error,) = page.texts("error")
    assert told in error
    assert [b.key for b in page.at.button] == ["tune-start"]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Nothing is tried out before this event."""
    try_out, go_on = Sweep.try_out, threading.Event()

    def slow(own: Sweep, progress: Progress) -> Any:
        while not go_on.wait(0.02):
            progress(1, 4)
        return try_out(own, progress)

    monkeypatch.setattr(Sweep, "try_out", slow)
    yield go_on
    go_on.set()


def keys(page: Any) -> list[str]:
    return [b.key for b in page.at.button]


def test_one_stops_and_the_other_goes_on(tuning: Tuning, held: threading.Event) -> None:
    sweep = Sweep("matrix-factorization")
    one = tuning().click("tune-start")
    other = tuning()
    assert keys(one) == keys(other) == ["tune-stop"]
    one.click("tune-stop")
    assert keys(one) == ["tune-start"]
    assert "Somebody else" in one.texts("info")[0]
    other.click("tune-stop")
    finished(other, sweep)
    assert other.texts("info") == ["Stopped."]
    other.click("tune-start")
    held.set()
    assert finished(other, sweep).charts == {"frontier"}
    assert one.run().charts == {"frontier"}
