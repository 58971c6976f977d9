"""Tune's recommendation as Streamlit runs it: tried out once, then every target at once."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import torch
from safetensors.torch import load_file

import codec
from codec import Coding
from lcviz.export.comparison import totals
from lcviz.export.compress import Compression, compress
from lcviz.lab.progress import Progress
from lcviz.lab.tuner import sweep as sweeps
from lcviz.lab.tuner.candidates import Candidate, Grid, Setting
from lcviz.lab.tuner.sweep import Sweep
from lcviz.lab.tuner.tuner import Tuned, choose
from lcviz.lab.workload import Workload, workload
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings
from lcviz.server import jobs
from lcviz.server.own_files import list_files, open_files
from lcviz.text import UNITS, kept_text, nbytes_text, percent_text
from lcviz.tune import page_recommend, page_sweep
from lcviz.tune.answer import DAY, basis, default_of, described, headline, measure_of, reason
from lcviz.tune.recommend_figure import LIMIT
from lcviz.tune.recorded import recorded
from lcviz.ui import own_files, session
from lcviz.ui.coding_form import in_url
from lcviz.ui.live_settings import run_parameters
from lcviz.ui.settings import LOSS_SHARE
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


def said(tuned: Tuned) -> str:
    return headline(tuned, measure_of(tuned, "iteration", 1.0))


def why(tuned: Tuned) -> str:
    return reason(tuned, measure_of(tuned, "iteration", 1.0))


def finished(page: Any, sweep: Sweep) -> Any:
    session.all_jobs().wait(sweep, 1, SECONDS)
    return page.run()


@pytest.fixture
def chain(own: Path, tmp_path: Path) -> Path:
    """The chain of a training elsewhere, as a watched run writes it."""
    path = tmp_path / "elsewhere" / "run.lcc"
    with codec.Checkpointer(path, bits=6) as checkpoints:
        for step, name in enumerate(NAMES):
            checkpoints.save(step, load_file(own / name))
    return path


UNIT_OF = {"run": "iteration", "model": "iteration", "files": "file", "chain": "step"}
SECONDS_BETWEEN = 0.04  # from one to the next


@pytest.fixture
def answered(
    tuning: Tuning, own: Path, chain: Path
) -> Callable[[str], tuple[Any, tuple[Candidate, ...]]]:
    """Tune with its answer for a source, which nobody had to ask for; and the candidates."""

    def visit(source: str) -> tuple[Any, tuple[Candidate, ...]]:
        paths = {"files": own, "chain": chain}
        parameters = MODEL if source == "model" else {}
        if source in paths:
            parameters = OWN | {"tune_own": str(paths[source])}
        page = tuning(**parameters)
        sweep, _ = page.at.session_state["tune-asked"]
        page = finished(page, sweep)
        (found,) = session.all_jobs().look(sweep, 1).finished_parts
        return page, found.value

    return visit


@pytest.mark.parametrize("source", UNIT_OF)
@pytest.mark.parametrize("target", ["rework", "distance", "size", "rate"])
def test_its_numbers_agree(source: str, target: str, answered: Callable[..., Any]) -> None:
    """Headline, point, limit, table, button and code tell the best that the limit allows."""
    page, candidates = answered(source)
    files, unit = source in ("files", "chain"), UNIT_OF[source]
    key = "tune_files" if files else "tune_run"
    choice = page.at.segmented_control(key=f"{key}_want")
    if files and target == "rework":
        assert "crash" not in choice.options  # no loss is known
        return
    page.set("segmented_control", f"{key}_want", target)
    if target == "rate":
        page.set("number_input", f"{key}_seconds", SECONDS_BETWEEN)
        candidates = tuple(c.with_bases for c in candidates)
    reached = sorted(c.reached(target) for c in candidates)
    most = (reached[len(reached) // 2 - 1] + reached[len(reached) // 2]) / 2
    full = candidates[0].full_nbytes
    label = page.at.number_input(key=f"{key}_{target}").label
    entry, drawn_limit = most, most
    if target == "distance":
        entry = drawn_limit = 100 * most
    elif target in ("size", "rate"):
        drawn_limit = most * full * (DAY / SECONDS_BETWEEN if target == "rate" else 1)
        (unit_nbytes,) = (n for name, n in UNITS.items() if name in label.split())
        entry = drawn_limit / unit_nbytes
    page.set("number_input", f"{key}_{target}", entry)
    page.set("toggle", "tables", True)

    figure = page.figure("frontier")
    drawn = {trace["name"]: trace for trace in figure["data"]}
    (x,), (y,) = (drawn["recommended"][axis] for axis in "xy")
    (text,) = drawn["recommended"]["customdata"]
    points = list(zip(drawn["tried"]["x"], drawn["tried"]["y"], strict=True))
    of_bytes = target in ("size", "rate")
    assert drawn[LIMIT]["x" if of_bytes else "y"][0] == pytest.approx(drawn_limit)
    allowed = [p for p in points if p[0 if of_bytes else 1] <= drawn_limit]
    assert 0 < len(allowed) < len(points)
    assert (x, y) == min(allowed, key=lambda point: point[::-1] if of_bytes else point)

    name, _, numbers = page.title.removeprefix("Tune: ").partition(" meets the limit")
    numbers = numbers.removeprefix(", yet too far off for a restart" if files and y > 35 else "")
    by_distance = files or target == "distance"
    price = f"at most {math.ceil(10 * y - 1e-6) / 10:.1f}" if y >= 0.1 else "less than 0.1"
    lost = f"95 of 100 crashes cost {price} iterations"
    lost = f"distance at most {y:.2f} %" if by_distance else lost
    sure = "at most" if files else "in 95 of 100 saves"
    per = {"size": f"a checkpoint {sure}", "rate": "a day, bases included"}
    (best,) = (c for c in candidates if c.setting.text(unit) == text)
    share = best.share_bound if target == "size" else best.rate * best.setting.interval
    smaller = f"{1 / share:.3g} × smaller"
    told = per.get(target, f"a{'n' * (not files)} {unit}")
    assert numbers.startswith(f": {nbytes_text(x)} {told}, {smaller}, {lost}")
    assert page.shows(f"◆ {name}, {nbytes_text(x)}: of ")
    assert kept_text(best.setting.coding) in name
    (table,) = (t.value for t in [*page.at.table, *page.at.dataframe])
    (row,) = (r for _, r in table.iterrows() if r["advised"])
    assert (row["setting"], len(table)) == (name, len(candidates))
    assert row[f"bytes {told}"] == nbytes_text(x)
    assert row["a checkpoint, mean"] == nbytes_text(best.share * full)
    loss = table.columns[3]  # what is drawn comes first
    assert loss.startswith("distance" if by_distance else "price")
    assert row[loss] == (percent_text(y / 100) if by_distance else f"{best.rework_bound:.2f}")
    (code,) = (c.value for c in page.unfold("own-training").at.code)
    assert code == in_a_loop(best.setting)
    if files:
        tuned = choose(candidates, target, most)
        default, measure = default_of(candidates), measure_of(tuned, unit, SECONDS_BETWEEN)
        assert default is not None
        told = f"The codec's default, {described(default, measure)}."
        assert page.shows(told) == (default is not best)
        link = dict(parse_qsl(page.at.get("page_link")[0].proto.query_string))
        expected = in_url(best.setting.coding, "export_") | {"export_source": "Files of mine"}
        assert link == expected


def test_bytes_a_day_follow_the_seconds(answered: Callable[..., Any]) -> None:
    """Until a visitor enters a limit of their own. What lies on the disk after a month is told."""
    page, _ = answered("files")
    page.set("segmented_control", "tune_files_want", "rate")
    limit = lambda: page.at.number_input(key="tune_files_rate").value  # noqa: E731
    label, first = page.at.number_input(key="tune_files_rate").label, limit()
    page.set("number_input", "tune_files_seconds", 600.0)
    assert page.at.number_input(key="tune_files_rate").label == label
    assert limit() == pytest.approx(first / 10)
    (best,) = page.figure("frontier")["data"][-1]["x"]
    assert f"In 30 days that makes {nbytes_text(30 * best)} on disk" in page.texts("caption")[0]
    page.set("number_input", "tune_files_rate", 2 * first)
    page.set("number_input", "tune_files_seconds", 6.0)
    assert limit() == 2 * first


def test_wrong_limits_and_none_that_meets_them(answered: Callable[..., Any]) -> None:
    page, candidates = answered("model")
    assert (page.charts, page.buttons) == ({"frontier"}, ["tune-use"])
    assert page.at.title[0].proto.help == why(choose(candidates, "rework", 3.0))
    page.set("number_input", "tune_run_rework", 101.0)
    assert page.shows(":red[:material/error: Enter a number from 0.1 to 100.]")
    assert page.title == "Tune: which setting should I use?"
    assert not page.texts("warning") + page.buttons
    page.set("number_input", "tune_run_rework", 0.1)
    assert page.texts("warning") == [why(choose(candidates, "rework", 0.1))]


@pytest.mark.parametrize("source", ["run", "model"])
def test_it_is_used_on_live(
    source: str, answered: Callable[..., Any], live: Callable[..., Any], monkeypatch: Patch
) -> None:
    """The run that begins is the training that was tried out, and Live's sidebar shows it."""
    opened: dict[str, str] = {}
    go = lambda _, query_params: opened.update(query_params)  # noqa: E731
    monkeypatch.setattr(page_recommend.st, "switch_page", go)
    page, candidates = answered(source)
    page.click("tune-use")
    run = page.at.session_state["steering"].begun
    best = choose(candidates, "rework", 3.0).recommended
    assert best is not None
    setting = {"coding": best.setting.coding, "interval": best.setting.interval}
    if source == "run":
        example = session.all_runs().example().settings
        assert run.settings == replace(example, **setting, loss_share=LOSS_SHARE)
    else:
        assert run.settings == replace(run.settings, **setting, stop_after=48, seed=0)
        assert run.settings.workload == workload("matrix-factorization")
    at = live(**opened).at
    assert at.number_input(key="interval").value == run.settings.interval
    assert at.number_input(key="iterations").value == run.settings.stop_after
    assert at.number_input(key="seed").value == run.settings.seed
    name = run.settings.model
    assert at.selectbox(key="model").value == name
    assert at.number_input(key=f"batch_{name}").value == run.settings.batch_size
    assert at.number_input(key=f"lr_{name}_sgd").value == run.settings.lr


def test_a_budget_can_stand_in_live_s_link(live: Callable[..., Any]) -> None:
    settings = RunSettings(coding=Coding(None, "tensor", "huffman", 0.075))
    at = live(**run_parameters(settings)).at
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
    assert page.title == f"Tune: {said(tuned)}"
    assert (page.charts, page.buttons) == ({"frontier"}, ["tune-use"])
    assert page.texts("caption")[0].startswith("The example: ")

    run = create(lr=0.03, seed=7, bits=5)
    page = finished(tuning(run), of_run(run))
    assert page.texts("caption")[0].startswith("Your run: ")


def test_a_recording_at_first(tuning: Tuning, held: threading.Event, monkeypatch: Patch) -> None:
    """Of the example with its usual settings alone."""
    sweep = of_run(session.all_runs().example())  # these tests' example is a short one
    monkeypatch.setattr(page_recommend, "SWEEP", sweep)
    recording = choose(recorded(), "rework", 3.0)
    page = tuning()
    assert (page.title, page.charts) == (f"Tune: {said(recording)}", {"frontier"})
    assert "recorded with python -m lcviz.record" in page.texts("caption")[0]
    assert not tuning(tune_wide="all").charts
    assert not tuning(**MODEL).charts
    held.set()
    page = finished(page, sweep)
    assert page.charts == {"frontier"}
    assert "recorded" not in page.texts("caption")[0]

    runs = session.all_runs()
    monkeypatch.setattr(runs, "get", lambda _: None)
    monkeypatch.setattr(runs, "prepared", lambda: False)
    page = tuning()
    assert page.charts == {"frontier"}
    assert page.texts("caption")[0].startswith("The example: ")


def test_a_compiler_is_waited_for(tuning: Tuning, monkeypatch: Patch) -> None:
    monkeypatch.setattr(page_recommend, "is_loading", lambda: True)
    go_on = threading.Event()
    monkeypatch.setattr(Sweep, "try_out", lambda *_: go_on.wait(SECONDS) and recorded())
    page = tuning(**MODEL)
    assert page.shows(
        "Loading the codec. The first time, it is compiled, which takes a minute or two"
    )
    monkeypatch.setattr(page_recommend, "is_loading", lambda: False)
    assert page.run().shows("Trying settings out: 0 %")
    go_on.set()


def test_what_was_stopped_does_not_begin_again(tuning: Tuning, held: threading.Event) -> None:
    sweep = of_run(session.all_runs().example())
    page = tuning()
    assert page.buttons == ["tune-stop"]
    finished(page.click("tune-stop"), sweep)
    assert (page.run().buttons, page.texts("info")) == (["tune-start"], ["Stopped."])
    assert session.all_jobs().look(sweep, 1).status == jobs.STOPPED
    other = tuning()  # has not stopped it
    assert other.buttons == ["tune-stop"]
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
    tuning(**MODEL)
    monkeypatch.setattr(jobs, "MAX_WAITING", 0)
    page = tuning()
    assert page.buttons == ["tune-start"]
    assert "is full" in page.click("tune-start").texts("error")[0]


def of_own(page: Any) -> Any:
    """What became of the files that this page has asked for."""
    asked = page.at.session_state["tune-asked"]
    session.all_jobs().wait(*asked, SECONDS)
    return session.all_jobs().look(*asked)


def test_own_files(tuning: Tuning, own: Path) -> None:
    """They are answered at once; the lines keep the files' interval."""
    for i in reversed(range(40)):
        (own / f"{i}.safetensors").rename(own / f"step-{5 * i + 5}.safetensors")
    page = tuning(**OWN, tune_files_distance="25")
    assert page.texts("caption")[0] == "Open 3 or more checkpoints, or a chain."
    assert not page.buttons
    page.set("text_input", "tune_own", f" {own} ")
    (found,) = of_own(page).finished_parts
    page.run()
    assert page.texts("caption")[0].startswith("40 files, steps 5–200 every 5, ")
    best, default = choose(found.value, "distance", 0.25).recommended, Coding.safe()
    assert best is not None
    assert page.shows(f"The codec's default, {kept_text(default)}: ")
    (code,) = (c.value for c in page.unfold("own-training").at.code)
    assert f"if step % {5 * best.setting.interval} == 0" in code
    assert "this one writes the fewest bytes" in page.at.title[0].proto.help
    page.set("number_input", "tune_files_distance", 90.0)
    every = choose(found.value, "distance", 0.9).recommended
    assert every is not None
    assert page.shows("Export compresses every file; this") == (every.setting.interval > 1)
    assert every.distance_bound > 0.35
    assert "Too far for a restart" in page.texts("error")[0]  # as Export says
    page.set("number_input", "tune_files_distance", 30.0)
    assert not page.texts("error")


def test_what_it_tells_of_files_is_what_export_measures(tuning: Tuning, own: Path) -> None:
    """Of the codec's default, to the last digit: the furthest step, and the largest record."""
    page = tuning(**OWN, tune_own=str(own))
    (found,) = of_own(page).finished_parts
    (default,) = (c for c in found.value if c.setting == Setting(Coding.safe(), 1))
    quiet = lambda *_: None  # noqa: E731
    opened = open_files(list_files(own), session.shelf().place(), quiet)
    made = compress(opened, Compression(), session.shelf().place(), quiet)
    furthest = totals(made.steps).furthest
    assert default.distance_bound == pytest.approx(furthest.distance, rel=1e-9)
    largest = max(step.nbytes for step in made.steps if step.kind == "delta")
    assert default.share_bound * default.full_nbytes == largest


def test_own_files_too_few(tuning: Tuning, own: Path, monkeypatch: Patch) -> None:
    """Intervals that they are too few for are left out, and the page says so; three are enough."""
    for name in NAMES[3:]:
        (own / name).unlink()
    page = tuning(**OWN, tune_own=str(own), tune_files_distance="100")
    tuned = choose(of_own(page).finished_parts[0].value, "distance", 1.0)
    page.run()
    assert page.charts == {"frontier"}
    left_out = "Intervals of 2 are left out: this series is too short for them."
    assert page.texts("caption")[0].endswith(f"{left_out}{basis(tuned)}")
    (own / NAMES[2]).unlink()
    page = tuning(**OWN, tune_own=str(own))
    assert page.shows("too few. Open 3 or more.")
    assert not page.buttons


def test_own_files_with_what_no_chain_holds(tuning: Tuning, tmp_path: Path) -> None:
    """It is left out, as on Export."""
    models = ({"w": torch.arange(90.0) * i} for i in range(3))
    files(tmp_path, ({"model": model, "kind": torch.float32} for model in models))
    page = tuning(**OWN, tune_own=tmp_path)
    assert "Left out, because a chain cannot hold it: kind." in page.texts("caption")
    assert of_own(page).status == jobs.DONE
    limit = page.run().at.number_input(key="tune_files_distance")
    assert limit.value == 100 * Coding.safe().distance  # as near as the codec's default


def test_uploads(tuning: Tuning, own: Path) -> None:
    page = tuning(**OWN, tune_files_distance="100")
    given = [(f.name, f.read_bytes(), "") for f in map(own.joinpath, NAMES[:7])]
    page.set("file_uploader", "own_upload_0", given)
    of_own(page)
    assert page.run().texts("caption")[0].startswith("7 files, steps 0–6 every 1, ")
    assert page.charts == {"frontier"}
    page = page.click("own-close")
    assert page.texts("caption")[0] == "Open 3 or more checkpoints, or a chain."


def test_an_upload_in_an_interrupted_run_is_not_lost(
    tuning: Tuning, own: Path, monkeypatch: Patch
) -> None:
    """As when the page is drawn again while the files are taken over."""
    write, calls = own_files._write, []

    def interrupted_once(given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            own_files.st.rerun()
        return write(given)

    monkeypatch.setattr(own_files, "_write", interrupted_once)
    page = tuning(**OWN)
    given = [(f.name, f.read_bytes(), "") for f in map(own.joinpath, NAMES[:7])]
    page.set("file_uploader", "own_upload_0", given)
    assert len(calls) == 2
    assert "own-close" in page.buttons
    of_own(page)


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
