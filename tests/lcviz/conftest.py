"""Helpers of the dashboard's tests, as fixtures: test files import nothing of each other."""

from __future__ import annotations

import functools
import json
import queue
import re
import runpy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from safetensors.torch import save_file
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

import codec
from codec import Coding
from demo_models import FOLDER_VARIABLE, MODELS
from lcviz import welcome
from lcviz.lab.recovery.methods import Method, lc
from lcviz.lab.recovery.recovery import Outcome, Race
from lcviz.live import page as live_page
from lcviz.live import page_pictures
from lcviz.live.step_record import StepRecord, trial_record
from lcviz.run import run as run_module
from lcviz.run.run import Run, RunSettings, Snapshot
from lcviz.run.whole_run import Replay, Trial
from lcviz.server import runs
from lcviz.server.runs import EXAMPLE_ID
from lcviz.ui import session
from lcviz.ui.charts import Panel, inked_figure
from tests.lcviz.common import SECONDS, Answer, MakeRun, Patch, finished
from tests.worded import as_read, worded

MakeSettings = Callable[..., RunSettings]


def _coded(changes: dict[str, Any]) -> dict[str, Any]:
    """With bits, scope, coder and budget as one `Coding`."""
    names = {field.name for field in fields(Coding)}
    coding = Coding(**{name: changes[name] for name in names & changes.keys()})
    return {k: v for k, v in changes.items() if k not in names} | {"coding": coding}


@pytest.fixture
def retry() -> Callable[..., StepRecord]:
    """A function: the newest step of a run, or another, if the whole run were saved once more."""

    def retry(
        run: Run, coding: Coding, most: int | None = None, step: int | None = None, **changes: bool
    ) -> StepRecord:
        replay = Replay(run, Trial(coding, most, **changes))
        wanted = run.snapshot().newest if step is None else run.snapshot().at(step)
        replay.pinned_step = wanted.step
        for each in replay.steps():
            replay.save(each, measured=False)
        delta = replay.delta(wanted.step)
        assert delta is not None
        return trial_record(wanted, replay.trial, delta)

    return retry


def _settings(model: str = "logistic-regression", **changes: Any) -> RunSettings:
    card = MODELS[model]
    optimizer = changes.get("optimizer", "sgd")
    lr, momentum = card.optimizers[optimizer]
    chosen: dict[str, Any] = {
        "data": card.default_data,
        "lr": lr,
        "momentum": momentum,
        "batch_size": min(card.batch_size, 128),
        "interval": 1,
        "stop_after": 6,
    }
    return RunSettings(model, **(chosen | _coded(changes)))


@pytest.fixture(scope="session")
def settings_for() -> MakeSettings:
    """Settings of a short run with a model's own defaults: settings_for(model, **changes)."""
    return _settings


WATCHER = "the test"  # without one a run pauses, if it is slow


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """A paused run in its own directory, closed after the test: make_run(model, **changes), or of
    settings."""
    made: list[Run] = []

    def make(model: str | RunSettings = "logistic-regression", **changes: Any) -> Run:
        number = len(made)
        settings = _settings(model, **changes) if isinstance(model, str) else model
        run = Run(f"test-{number}", settings, tmp_path / f"{number}" / "run.lcc")
        run.watch(WATCHER, lambda _: True)
        made.append(run)
        return run

    yield make
    for run in made:
        run.close()


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Run]]:
    """A finished run, trained once for all tests that only look: finished_runs(model, **changes).

    Tests must not steer these runs, nor touch their files.
    """
    made: dict[RunSettings, Run] = {}

    def get(model: str = "logistic-regression", **changes: Any) -> Run:
        settings = _settings(model, **changes)
        if settings not in made:
            run = Run("shared", settings, tmp_path_factory.mktemp("run") / "run.lcc")
            run.watch(WATCHER, lambda _: True)
            made[settings] = finished(run)
        return made[settings]

    yield get
    for run in made.values():
        run.close()


class Gate:
    """Holds a run's thread in the middle of each iteration until it is let through."""

    def __init__(self, run: Run) -> None:
        self._loss, self._nan = run.task.loss, False
        self._entered, self._open = threading.Semaphore(0), threading.Semaphore(0)
        run.task.loss = self._held  # type: ignore[method-assign]

    def _held(self, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        self._entered.release()
        assert self._open.acquire(timeout=60), "nobody opened the gate"
        loss = self._loss(batch)
        return loss * float("nan") if self._nan else loss

    def wait_until_inside(self) -> None:
        """Until an iteration is under way."""
        assert self._entered.acquire(timeout=60), "no iteration began"

    def let_through(self, n: int = 1, *, nan: bool = False) -> None:
        """n iterations may go on; nan: with a loss that is none."""
        self._nan = nan
        self._open.release(n)


@pytest.fixture(scope="session")
def gate() -> type[Gate]:
    """gate(run) holds its thread: see `Gate`."""
    return Gate


@pytest.fixture
def unhandled(monkeypatch: Patch) -> queue.Queue[BaseException | None]:
    """What ended a thread, in the order of their ends: wait for it with `get(timeout=...)`."""
    ends: queue.Queue[BaseException | None] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda args: ends.put(args.exc_value))
    return ends


@pytest.fixture
def slowly(monkeypatch: Patch) -> Iterator[threading.Event]:
    """A long chain: it is read once this event is set."""
    read, restarted = threading.Event(), run_module.restarted_model

    def slow(*arguments: Any) -> Any:
        assert read.wait(SECONDS)
        return restarted(*arguments)

    monkeypatch.setattr(run_module, "restarted_model", slow)
    yield read
    read.set()


@pytest.fixture
def run_here(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> Answer:
    """A script run in this process, which saves its start: exit code and what it says."""

    def run(path: Path, *arguments: str | Path) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        monkeypatch.chdir(path.parent)
        code: Any = 0
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as exc:
            code = exc.code
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of forty checkpoints of one tensor that wanders."""
    generator = torch.Generator().manual_seed(0)
    w = torch.zeros(400)
    for i in range(40):
        w = w + torch.randn(400, generator=generator) * 2.0 ** -(i % 7)
        save_file({"w": w}, tmp_path / f"{i}.safetensors")
    return tmp_path


Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One step: the track before it, the state that was saved, and what the codec made of it."""

    before: Arrays
    after: Arrays
    step: codec.Delta

    @property
    def changes(self) -> Arrays:
        """Name -> what the step encodes."""
        return {name: self.after[name] - self.before[name] for name in self.before}

    def deltas(self) -> list[np.ndarray]:
        """The delta of each group, flat, in the codec's order."""
        return [
            np.concatenate([self.changes[t.name].ravel() for t in g.tensors])
            for g in self.step.groups
        ]

    def codes(self) -> list[np.ndarray]:
        """The codes of each group as the record has them, read from the record."""
        return [codec.decode(g.encoded).codes for g in self.step.groups]


@pytest.fixture(scope="session")
def make_case() -> Callable[..., Case]:
    """A seeded step over tensors of very different scale; ``scale`` overrides some of them.

    ``steps``: it is the last of so many, so that its tables may be ones sent before.
    """

    def make(
        seed: int = 0,
        bits: int | None = 2,
        scope: str = "model",
        scale: dict[str, float] | None = None,
        coder: str = "runlength",
        budget: float | None = None,
        steps: int = 1,
        tolerance: float | None = None,
        quantizer: str | None = None,
    ) -> Case:
        rng = np.random.default_rng(seed)
        shapes = {"wide": (40, 50), "bias": (30,), "still": (5, 5), "tiny": (3,)}
        scales = {"wide": 0.01, "bias": 3.0, "still": 0.0, "tiny": 1.0} | (scale or {})
        after = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
        bits = bits if budget is None and tolerance is None else None
        tracker = codec.Tracker(after, bits, scope, coder, budget, tolerance, quantizer)
        for _ in range(steps):
            before = {name: array.copy() for name, array in tracker.state.items()}
            after = dict(after)
            for name, shape in shapes.items():
                change = rng.normal(size=shape) * 2.0 ** rng.integers(-9, 1, size=shape)
                after[name] = (after[name] + scales[name] * change).astype(np.float32)
            step = tracker.step(after)
        return Case(before, after, step)

    return make


@pytest.fixture
def three_saves(create: MakeRun) -> Run:
    """A finished run of the server with three deltas, as the example of the tests."""
    return finished(create(interval=2, stop_after=6))


def _check_figure(panel: Panel) -> dict[str, Any]:
    figure = panel.figure
    assert isinstance(figure, go.Figure)
    told: dict[str, Any] = json.loads(figure.to_json())
    margin, axes = told["layout"]["margin"], ("xaxis", "yaxis")
    assert set(margin) >= {"l", "r", "t", "b"}
    assert told["layout"]["height"] > 0
    for theme, ink in (("light", "#31333f"), ("dark", "#fafafa")):
        dyed = json.loads(inked_figure(figure, theme).to_json())["layout"]
        assert all(dyed[axis]["tickfont"]["color"] == ink for axis in axes)
        assert all(dyed[axis]["title"]["font"]["color"] == ink for axis in axes)
        assert all(note["font"]["color"] == ink for note in dyed.get("annotations", []))
        assert not dyed["yaxis"]["title"].get("text")  # it would be turned
        assert dyed["showlegend"] is False
        assert dyed.get("coloraxis", {}).get("showscale", False) is False
        assert dyed["template"] == told["layout"]["template"]
    assert json.loads(figure.to_json()) == told  # not changed by a theme
    assert re.search(r"\d|Every step", panel.title), "a finding, with its number"
    assert not panel.title.endswith(".")
    assert panel.sentence.endswith(".") or not panel.sentence
    assert panel.alt.endswith(".")
    assert len(panel.table.columns) > 1
    return told


@pytest.fixture(scope="session")
def check_figure() -> Callable[[Panel], dict[str, Any]]:
    """Checks a Plotly panel: explicit margins, inked in both themes, with words. Its figure."""
    return _check_figure


CALM = (2.0, 1.9, 1.8, 1.7, 1.6)
TREND = (2.0, 1.8, 1.6, 1.4, 1.2)


def _outcome(method: Method, seed: int, rework: float, above: Sequence[float]) -> Outcome:
    """above: what the restored training is above the undisturbed one, by iteration."""
    restored = tuple(c + a for c, a in zip(CALM, above))
    raw = next((r for r, loss in enumerate(restored) if loss <= CALM[0]), 4)
    sizes = (0.1, 1234.0, 0.0499, 0.002, 0.001)
    race = Race(CALM, TREND, restored)
    return Outcome(method, seed, rework, rework == 4, raw, CALM[0], restored[0], *sizes, race)


@pytest.fixture(scope="session")
def seeds() -> list[tuple[Outcome, ...]]:
    """Two seeds of full, SCAR, TOPN, LC Huffman and LC run-length: TOPN is capped at 4."""
    return [
        (
            _outcome(Method("full"), seed, 0.0, (0.0,)),
            _outcome(Method("scar", 0.05), seed, 1.4 + seed, (0.3, 0.25, 0.15)),
            _outcome(Method("topn", 0.05), seed, 4.0, (3.0,) * 5),
            _outcome(
                lc(Coding(budget=0.05, coder="huffman", quantizer="exponent")),
                seed,
                0.4,
                (0.1, 0.05),
            ),
            _outcome(lc(Coding(budget=0.05)), seed, 0.0, (0.0,)),
        )
        for seed in (0, 1)
    ]


EXPLAINED = re.compile(r'\[([^\]]+)\]\(glossary[^"]+"[^"]+"\)')
APP = str(Path(__file__).resolve().parents[2] / "app.py")


def _page(name: str) -> None:
    import importlib

    importlib.import_module(f"lcviz.{name}.page").page()


@pytest.fixture(scope="session")
def scanned_once() -> Iterator[None]:
    """Each AppTest looks for components in everything that is installed, which takes six times as
    long as a page, and finds the same each time."""
    with pytest.MonkeyPatch.context() as patch:
        scan = functools.cache(manifest_scanner.scan_component_manifests)
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


class Page:
    """One session at the dashboard: an AppTest, and shortcuts to what a test looks at."""

    def __init__(self, at: AppTest) -> None:
        self.at = at

    def run(self) -> Page:
        """Run the script; an exception in it fails the test."""
        self.at.run()
        assert [(e.message, e.stack_trace) for e in self.at.exception] == []
        return self

    def unfold(self, *keys: str) -> Page:
        """Open boxes, see `widgets.opened`."""
        for key in keys:
            self.at.session_state[key] = True
        return self.run()

    def click(self, key: str) -> Page:
        """Press a button, maybe the board's *Start*."""
        if key == "start" and "start" not in {button.key for button in self.at.button}:
            self.at.session_state["board-pressed"] = f"press {len(session.all_runs()._runs)}"
        else:
            self.at.button(key=key).click()
        return self.run()

    def set(self, kind: str, key: str, value: Any) -> Page:
        """Set a widget, kind being its name in Streamlit."""
        getattr(self.at, kind)(key=key).set_value(value)
        return self.run()

    def look_into(self, step: int | None) -> Page:
        """Choose a step on the board; None for the newest."""
        self.at.session_state["remembered-step"] = None if step is None else str(step)
        if step is None:
            self.at.query_params.pop("step", None)
        else:
            self.at.query_params["step"] = str(step)
        return self.run()

    def told(self, place: str) -> Any | None:
        """What the page gives our component of that name; None if it is not on the page."""
        mount = self._mounts.get(place)
        return mount and json.loads(mount.proto.json)[0]

    @property
    def _mounts(self) -> dict[str, Any]:
        """Our components by name: that of a run is "run", whatever its id."""
        elements = [
            (e.proto.id.partition("-picture-")[2], e) for e in self.at.get("bidi_component")
        ]
        named = [("run" if name.startswith("run-") else name, e) for name, e in elements if name]
        return dict(named)

    @property
    def problem(self) -> str:
        """What the board says of what is not as asked for."""
        return str((self.told("board") or self.told("run") or {})["problem"])

    @property
    def step(self) -> int:
        """The step that the board shows."""
        return int((self.told("run") or {})["served"]["state"]["shown"])

    @property
    def the_run(self) -> Run:
        """The run in the URL, else the example."""
        found = self.at.query_params.get("run", EXAMPLE_ID)
        run = session.all_runs().get(found[0] if isinstance(found, list) else found)
        assert run is not None, found
        return run

    def finish(self) -> Snapshot:
        """Wait until the run is at rest, then look again."""
        snapshot = self.the_run.wait(SECONDS)
        self.run()
        return snapshot

    @property
    def served(self) -> dict[str, Any]:
        """Facts on the board, by place."""
        return (self.told("run") or {"served": {"pictures": {}}})["served"]["pictures"]  # type: ignore[no-any-return]

    def picture(self, key: str) -> dict[str, Any]:
        """What our own picture of that key draws, its texts as they are read."""
        facts = self.served.get(key) or self.told(key)
        return {k: as_read(v) for k, v in worded(facts).items()}

    @property
    def pictures(self) -> set[str]:
        """Keys of all pictures of our own."""
        drawn = {name for name, facts in self.served.items() if not isinstance(facts, str)}
        return ({*self._mounts} - {"board", "run"}) | drawn

    def figure(self, key: str) -> dict[str, Any]:
        """The Plotly panel of that key."""
        (found,) = (e for e in self.at.get("plotly_chart") if e.proto.id.endswith(f"-panel-{key}"))
        figure: dict[str, Any] = json.loads(found.proto.spec)
        return figure

    @property
    def charts(self) -> set[str]:
        """Keys of all panels."""
        return {e.proto.id.rpartition("-panel-")[2] for e in self.at.get("plotly_chart")}

    def texts(self, kind: str) -> list[str]:
        """What all elements of a kind say: header, error, caption, ...; links as their words."""
        return [EXPLAINED.sub(r"\1", element.value) for element in getattr(self.at, kind)]

    def said(self, kind: str) -> list[str]:
        """The same without the escapes of Markdown."""
        return [text.replace("\\", "").replace("\u2060", "") for text in self.texts(kind)]

    def shows(self, text: str, kind: str = "markdown") -> bool:
        """Whether an element of a kind says this among other words."""
        return any(text in said for said in self.said(kind))

    def keys(self, kind: str) -> list[str]:
        """Keys of all elements of a kind."""
        return [element.key for element in getattr(self.at, kind)]

    @property
    def buttons(self) -> list[str]:
        """Keys of all buttons."""
        return self.keys("button")

    @property
    def title(self) -> str:
        """What the page is called."""
        (found,) = self.texts("title")
        return found

    @property
    def sentences(self) -> list[str]:
        """What the panels say."""
        return [t[len(":small[") : -1] for t in self.texts("markdown") if t.startswith(":small[")]

    @property
    def chain(self) -> tuple[str, str] | None:
        """On Inspect, how many steps the chain has, and the first to the last; None without one."""
        number = re.fullmatch(r"Inspect: (?:[\d,]+ of )?([\d,]+) steps?\b.*", self.title)
        ends = re.search(r": steps ([\d,]+ to [\d,]+), ", "".join(self.texts("markdown")))
        return (number[1], ends[1]) if number and ends else None


@pytest.fixture(scope="session")
def cheap_example(scanned_once: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Six iterations instead of six hundred, trained once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "EXAMPLE", RunSettings(batch_size=32, interval=2, stop_after=6))
        patch.delenv(FOLDER_VARIABLE, raising=False)
        folder = tmp_path_factory.mktemp("runs")
        patch.setattr(runs, "lasting_folder", lambda _: folder)
        session.all_runs.clear()
        welcome.load()
        assert session.all_runs().prepared(SECONDS)
        yield
        for run in list(session.all_runs()._runs.values()):
            run.close()
        session.all_runs.clear()


@pytest.fixture
def server(cheap_example: None) -> Iterator[None]:
    """Every test begins with the example alone: the manager is one for the whole process."""
    yield
    session.all_jobs().close()  # Tune begins one by itself
    session.all_jobs.clear()
    manager = session.all_runs()
    for run in list(manager._runs.values()):
        manager.close(run)


@pytest.fixture
def page_of(server: None) -> Callable[[AppTest], Page]:
    """A session at any script."""
    return Page


@pytest.fixture
def visit(server: None) -> Callable[..., Page]:
    """A session of its own at a page, or at any script: visit("tune", run, tune_wide="all").

    held: in the session before the page runs.
    """

    def open_page(
        page: str | Callable[[], None],
        run: Run | None = None,
        held: dict[str, Any] | None = None,
        **parameters: object,
    ) -> Page:
        script, given = (_page, (page,)) if isinstance(page, str) else (page, ())
        at = AppTest.from_function(script, args=given, default_timeout=SECONDS)
        for key, value in (held or {}).items():
            at.session_state[key] = value
        for name, value in (({"run": run.id} if run else {}) | parameters).items():
            at.query_params[name] = str(value)
        return Page(at).run()

    return open_page


@pytest.fixture
def live(server: None, monkeypatch: Patch) -> Callable[..., Page]:
    """The Live page at full speed: live(model="lenet5", bits="3").

    A step, or what is tried, is there at once, however slow the machine is.

    steers: whether the link to a run is the one of who began it.
    """
    for module in (page_pictures, live_page):
        monkeypatch.setattr(module, "PATIENCE", SECONDS)

    def open_page(*, steers: bool = True, **parameters: str) -> Page:
        at = AppTest.from_file(APP, default_timeout=SECONDS)
        for name, value in ({"speed": "full"} | parameters).items():
            at.query_params[name] = value
        run = session.all_runs().get(parameters.get("run"))
        if steers and run is not None:
            at.query_params["steer"] = session.all_runs().key(run)
        return Page(at).run()

    return open_page


@pytest.fixture
def create(server: None) -> MakeRun:
    """A paused run of the server: create(stop_after=5)."""

    def make(**changes: Any) -> Run:
        settings = {"batch_size": 32, "interval": 1, "stop_after": 5} | changes
        run = session.all_runs().create(RunSettings(**_coded(settings)))
        run.watch(WATCHER, lambda _: True)
        return run

    return make
