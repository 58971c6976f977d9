"""Tune's recommendation as Streamlit runs it: tried out once, then every target at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import torch

import codec
from codec import Coding
from lcviz.lab.progress import Progress
from lcviz.lab.tuner import sweep as sweeps
from lcviz.lab.tuner.candidates import Grid, Setting
from lcviz.lab.tuner.sweep import Sweep
from lcviz.lab.tuner.tuner import choose
from lcviz.lab.workload import Workload, workload
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings
from lcviz.server import jobs
from lcviz.text import kept_text
from lcviz.tune import page_recommend, page_sweep
from lcviz.tune.answer import headline
from lcviz.tune.page_recommend import changes
from lcviz.tune.recorded import recorded
from lcviz.ui import session
from lcviz.ui.live_settings import checkpoint_parameters, training_parameters
from lcviz.ui.snippet import in_a_loop
from tests.lcviz.common import SECONDS, files

pytestmark = pytest.mark.usefixtures("server")

Tuning = Callable[..., Any]
Patch = pytest.MonkeyPatch
FEW = Grid((1, 3), (), ("model",), ("runlength",), (1, 2), distances=()).settings


@pytest.fixture(autouse=True)
def _quick(monkeypatch: Patch) -> Iterator[None]:
    def few(own: Sweep) -> list[Setting]:
        few = FEW[:2] if own.wide else FEW
        return [*few, Setting(Coding.safe(), 1)] if own.digest else few

    monkeypatch.setattr(Sweep, "candidate_settings", property(few))
    monkeypatch.setattr(sweeps, "ITERATIONS", 48)
    monkeypatch.setattr(sweeps, "RUN_ITERATIONS", 48)
    monkeypatch.setattr(page_sweep, "ITERATIONS", 48)
    try_out = Sweep.try_out
    quick = lambda own, tell: recorded() if own.run else try_out(own, tell)  # noqa: E731
    monkeypatch.setattr(Sweep, "try_out", quick)  # of runs the answer is there at once
    session.shelf.clear()
    yield
    session.all_jobs().close()
    session.all_jobs.clear()
    session.shelf.clear()


MODEL = {"tune_source": "another model", "tune_model": "Matrix factorization"}
OWN = {"tune_source": "own files"}
NAMES = [f"{i}.safetensors" for i in range(40)]


def of_run(run: Run, **changes: Any) -> Sweep:
    s = run.settings
    trained = Workload(s.model, s.data, s.folder, s.optimizer, s.lr, s.momentum, s.batch_size)
    return Sweep("", run=trained, seed=s.seed, **changes)


def finished(page: Any, sweep: Sweep) -> Any:
    session.all_jobs().wait(sweep, 1, SECONDS)
    return page.run()


def test_tried_out_once_then_every_target(tuning: Tuning, live: Callable[..., Any]) -> None:
    """Asked for by hand, shown for every target, to every visitor, and opened on Live."""
    page = tuning(**MODEL)
    assert [b.label for b in page.at.button] == ["Try 4 settings out"]
    assert not page.charts
    assert not page.texts("error") + page.texts("warning")
    sweep = Sweep("matrix-factorization")
    finished(page.click("tune-asked-start"), sweep)
    (found,) = session.all_jobs().look(sweep, 1).finished_parts
    of_rework = choose(found.value, "rework", 3.0)
    assert (page.charts, page.at.title[0].proto.help) == ({"frontier"}, of_rework.because)
    assert page.title == f"Tune: {headline(of_rework)}"
    parameters = dict(parse_qsl(page.at.get("page_link")[0].proto.query_string))
    assert of_rework.recommended is not None
    best = of_rework.recommended.setting
    assert not page.at.code
    page.unfold("own-training")
    assert [c.value for c in page.at.code] == [in_a_loop(best)]
    page.set("number_input", "tune_rework", 101.0)
    assert page.shows(":red[:material/error: Enter a number from 0.1 to 100.]")
    assert page.title == "Tune: which setting should I use?"
    assert not page.texts("warning") + page.at.get("page_link")
    page.set("number_input", "tune_rework", 0.1)
    assert page.texts("warning") == [choose(found.value, "rework", 0.1).because]
    page.set("segmented_control", "tune_want_True", "size")
    assert page.title == f"Tune: {headline(choose(found.value, 'size', 0.05))}"
    assert not page.at.button  # nothing was done again
    assert tuning(**MODEL).charts == {"frontier"}
    assert not tuning(**MODEL, tune_wide="all").charts

    at = live(**parameters).at  # its form has this training and setting
    assert at.selectbox(key="model").value == "matrix-factorization"
    if best.coding.by_bits:  # which one is the best, processors decide
        assert at.select_slider(key="bits").value == best.coding.bits
    assert at.number_input(key="interval").value == best.interval
    lab = workload("matrix-factorization")
    assert at.number_input(key="lr_matrix-factorization_sgd").value == lab.lr
    assert at.number_input(key="batch_matrix-factorization").value == lab.batch_size
    assert at.number_input(key="iterations").value == 48


def test_a_budget_can_stand_in_live_s_link(live: Callable[..., Any]) -> None:
    setting = Setting(Coding(None, "tensor", "huffman", 0.075), 10)
    at = live(**checkpoint_parameters(setting)).at
    assert at.segmented_control(key="scope").value == "tensor"
    assert at.segmented_control(key="coder").value == "huffman"
    assert at.number_input(key="interval").value == 10
    assert at.number_input(key="budget").value == 7.5


def test_the_run_on_live_is_answered_unasked(tuning: Tuning, create: Callable[..., Run]) -> None:
    """Of the example and of a run of one's own, each with what it would change there."""
    example = session.all_runs().example()
    page = finished(tuning(), of_run(example))
    tuned = choose(recorded(), "rework", 3.0)
    assert tuned.recommended is not None
    assert page.title == f"Tune: {headline(tuned)}"
    assert (page.charts, page.buttons) == ({"frontier"}, [])
    assert page.shows(changes(tuned.recommended.setting, example.settings))
    assert page.texts("caption")[0].startswith("The example: ")

    run = create(lr=0.03, seed=7, bits=5)
    page = finished(tuning(run), of_run(run))
    assert page.texts("caption")[0].startswith("Your run: ")
    assert page.shows("5 bits → ")
    given = dict(parse_qsl(page.at.get("page_link")[0].proto.query_string))
    s = run.settings
    assert training_parameters(s.workload, s.stop_after, 7).items() <= given.items()


def test_a_recording_at_first(tuning: Tuning, held: threading.Event, monkeypatch: Patch) -> None:
    """Of the example with its usual settings alone."""
    sweep = of_run(session.all_runs().example())  # these tests' example is a short one
    monkeypatch.setattr(page_recommend, "SWEEP", sweep)
    recording = choose(recorded(), "rework", 3.0)
    page = tuning()
    assert (page.title, page.charts) == (f"Tune: {headline(recording)}", {"frontier"})
    assert page.shows("`python -m lcviz.record_example`")
    assert not tuning(tune_wide="all").charts
    assert not tuning(**MODEL).charts
    held.set()
    page = finished(page, sweep)
    assert page.charts == {"frontier"}
    assert not page.shows("Recorded")

    runs = session.all_runs()
    monkeypatch.setattr(runs, "get", lambda _: None)
    monkeypatch.setattr(runs, "prepared", lambda: False)
    page = tuning()
    assert page.charts == {"frontier"}
    assert page.texts("caption")[0].startswith("The example: ")


def test_what_was_stopped_does_not_begin_again(tuning: Tuning, held: threading.Event) -> None:
    sweep = of_run(session.all_runs().example())
    page = tuning()
    assert page.buttons == ["tune-run-stop"]
    finished(page.click("tune-run-stop"), sweep)
    assert (page.run().buttons, page.texts("info")) == (["tune-run-start"], ["Stopped."])
    assert session.all_jobs().look(sweep, 1).status == jobs.STOPPED
    other = tuning()  # has not stopped it
    assert other.buttons == ["tune-run-stop"]
    held.set()
    assert finished(other, sweep).charts == {"frontier"}


@pytest.mark.parametrize("status", [jobs.FAILED, jobs.DONE])
def test_what_failed_does_not_begin_again(status: str, tuning: Tuning, monkeypatch: Patch) -> None:
    asked: list[int] = []
    try_out = Sweep.try_out

    def once(own: Sweep, progress: Progress) -> Any:
        asked.append(1)
        if status == jobs.FAILED:
            raise codec.SettingsError("there is no room")
        return try_out(own, progress)

    monkeypatch.setattr(Sweep, "try_out", once)
    sweep = of_run(session.all_runs().example())
    page = finished(tuning(), sweep)
    finished(page, sweep)
    finished(tuning(), sweep)
    assert (session.all_jobs().look(sweep, 1).status, len(asked)) == (status, 1)


def test_a_full_line(tuning: Tuning, held: threading.Event, monkeypatch: Patch) -> None:
    tuning(**MODEL).click("tune-asked-start")
    monkeypatch.setattr(jobs, "MAX_WAITING", 0)
    page = tuning()
    assert page.buttons == ["tune-run-start"]
    assert "is full" in page.click("tune-run-start").texts("error")[0]


def test_what_live_would_change() -> None:
    setting = Setting(Coding(3), 2)
    same = RunSettings(coding=Coding(3), interval=2)
    assert changes(setting, same) == "Live has this setting already."
    other = RunSettings(coding=Coding(None, "tensor", "huffman"), interval=10)
    told = changes(setting, other)
    assert told.startswith("Changes: all buckets → 3 bits; buckets over each tensor → buckets over")
    assert told.endswith("saved every 10 → saved every 2.")


def of_own(page: Any) -> Any:
    """What became of the files that this page has asked for."""
    asked = page.at.session_state["tune-asked-asked"]
    session.all_jobs().wait(*asked, SECONDS)
    return session.all_jobs().look(*asked)


def test_own_files(tuning: Tuning, own: Path) -> None:
    """What was found is said before anything is tried; the lines keep the files' interval."""
    for i in reversed(range(40)):
        (own / f"{i}.safetensors").rename(own / f"step-{5 * i + 5}.safetensors")
    page = tuning(**OWN, tune_distance="0.2")
    assert page.at.button(key="tune-asked-start").disabled
    page.set("text_input", "tune_own", f" {own} ")
    assert page.texts("caption")[0].startswith("40 files, steps 5–200 every 5, ")
    assert not page.at.button(key="tune-asked-start").disabled
    page.click("tune-asked-start")
    (found,) = of_own(page).finished_parts
    page.run()
    best, default = choose(found.value, "distance", 0.2).recommended, Coding.safe()
    assert best is not None
    assert page.shows(f"The codec's default, {kept_text(default)}: ")
    (code,) = (c.value for c in page.unfold("own-training").at.code)
    assert f"if step % {5 * best.setting.interval} == 0" in code
    assert "for every checkpoint" in page.at.title[0].proto.help
    page.set("toggle", "tables", True)
    (table,) = (t.value for t in page.at.table)
    assert "price" not in table


def test_own_files_too_few(tuning: Tuning, own: Path, monkeypatch: Patch) -> None:
    """Intervals that they are too few for are left out, and the page says so; three are enough."""
    for name in NAMES[3:]:
        (own / name).unlink()
    page = tuning(**OWN, tune_own=str(own), tune_distance="1")
    of_own(page.click("tune-asked-start"))
    page.run()
    assert (page.texts("error"), page.charts) == ([], {"frontier"})
    left_out = "Saves at every 2 are left out: this series is too short for them."
    basis = " This rests on 2 failures: the fewer, the wider is the margin."
    assert page.texts("caption")[0].endswith(f". {left_out}{basis}")
    assert left_out in page.at.title[0].proto.help
    (own / NAMES[2]).unlink()
    page = tuning(**OWN, tune_own=str(own))
    assert page.shows("too few. Open 3 or more.")
    assert page.at.button(key="tune-asked-start").disabled


def test_own_files_with_what_no_chain_holds(tuning: Tuning, tmp_path: Path) -> None:
    """It is left out, as on Export."""
    models = ({"w": torch.arange(90.0) * i} for i in range(3))
    files(tmp_path, ({"model": model, "kind": torch.float32} for model in models))
    page = tuning(**OWN, tune_own=tmp_path)
    assert "Left out, because a chain cannot hold it: kind." in page.texts("caption")
    assert of_own(page.click("tune-asked-start")).status == jobs.DONE
    limit = page.run().at.number_input(key="tune_distance")
    assert limit.value == Coding.safe().distance  # as near as the codec's default keeps each save


def test_uploads(tuning: Tuning, own: Path) -> None:
    page = tuning(**OWN, tune_distance="1")
    given = [(f.name, f.read_bytes(), "") for f in map(own.joinpath, NAMES[:7])]
    page.set("file_uploader", "own_upload_0", given)
    assert page.texts("caption")[0].startswith("7 files, steps 0–6 every 1, ")
    assert not page.at.button(key="tune-asked-start").disabled
    assert page.click("own-close").at.button(key="tune-asked-start").disabled


@pytest.fixture
def held(monkeypatch: Patch) -> Iterator[threading.Event]:
    """Nothing is tried out before this event."""
    try_out, go_on = Sweep.try_out, threading.Event()

    def slow(own: Sweep, progress: Progress) -> Any:
        while not go_on.wait(0.02):
            progress(1, 4)
        return try_out(own, progress)

    monkeypatch.setattr(Sweep, "try_out", slow)
    yield go_on
    go_on.set()
