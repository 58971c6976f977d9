"""The dashboard under Streamlit's AppTest, with a cheap example run."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest

from demo_models import FOLDER_VARIABLE
from lcviz import runs, state
from lcviz.runs import EXAMPLE_ID
from lcviz.session import Run, Settings, Snapshot

EXPLAINED = re.compile(r'\[([^\]]+)\]\(glossary[^"]+"[^"]+"\)')
SECONDS = 60  # for one script run
APP = str(Path(__file__).resolve().parents[3] / "app.py")


def _export_page() -> None:
    from lcviz.pages import export

    export.page()


@pytest.fixture(scope="session", autouse=True)
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
        told = [(e.message, e.stack_trace) for e in self.at.exception]
        assert told == []
        return self

    def click(self, key: str) -> Page:
        """Press a button."""
        self.at.button(key=key).click()
        return self.run()

    def set(self, kind: str, key: str, value: Any) -> Page:
        """Set a widget, kind being its name in Streamlit."""
        getattr(self.at, kind)(key=key).set_value(value)
        return self.run()

    @property
    def scrubber(self) -> Any:
        """The slider that chooses the step to look into."""
        (slider,) = (s for s in self.at.slider if str(s.key).startswith("viewed-"))
        return slider

    @property
    def follow(self) -> Any:
        """The toggle that follows the newest step."""
        (toggle,) = (t for t in self.at.toggle if str(t.key).startswith("follow-"))
        return toggle

    def follow_newest(self, follow: bool) -> Page:
        """Turn it."""
        self.follow.set_value(follow)
        return self.run()

    def look_into(self, step: int) -> Page:
        """Choose a step."""
        self.scrubber.set_value(step)
        return self.run()

    @property
    def the_run(self) -> Run:
        """The run in the URL, else the example."""
        found = self.at.query_params.get("run", EXAMPLE_ID)
        run = state.all_runs().get(found[0] if isinstance(found, list) else found)
        assert run is not None, found
        return run

    def finish(self) -> Snapshot:
        """Wait until the run is at rest, then look again."""
        snapshot = self.the_run.wait(SECONDS)
        self.run()
        return snapshot

    def chart(self, key: str) -> dict[str, Any]:
        """The option of the ECharts panel of that key."""
        (found,) = (e for e in self.at.get("echarts_chart") if e.proto.id.endswith(f"-panel-{key}"))
        assert found.proto.alt
        option: dict[str, Any] = json.loads(found.proto.spec)
        return option

    @property
    def charts(self) -> set[str]:
        """Keys of all panels, whatever they are drawn with."""
        return {
            e.proto.id.rpartition("-panel-")[2]
            for kind in ("echarts_chart", "plotly_chart")
            for e in self.at.get(kind)
        }

    def texts(self, kind: str) -> list[str]:
        """What all elements of a kind say: subheader, error, caption, ...; links as their words."""
        return [EXPLAINED.sub(r"\1", element.value) for element in getattr(self.at, kind)]

    @property
    def sentences(self) -> list[str]:
        """What the panels say."""
        return [t[len(":small[") : -1] for t in self.texts("markdown") if t.startswith(":small[")]

    @property
    def removed_step(self) -> int | None:
        """The step whose removed buckets are shown, by the panel's title."""
        found = [re.search(r"^\*\*Error .* of step (\d+) ", t) for t in self.texts("markdown")]
        return next((int(m[1]) for m in found if m), None)

    @property
    def metrics(self) -> dict[str, tuple[str, str]]:
        """Label -> (value, note)."""
        return {m.label: (m.value, m.delta) for m in self.at.metric}


@pytest.fixture(scope="session", autouse=True)
def _cheap_example() -> Iterator[None]:
    """Six iterations of logistic regression instead of forty of LeNet-5, trained once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            runs, "EXAMPLE", Settings("logistic-regression", lr=0.1, interval=2, stop_after=6)
        )
        patch.delenv(FOLDER_VARIABLE, raising=False)
        state.all_runs.clear()
        assert state.all_runs().prepared(SECONDS)
        yield
        for run in list(state.all_runs()._runs.values()):
            run.close()
        state.all_runs.clear()


@pytest.fixture(autouse=True)
def _no_runs_left() -> Iterator[None]:
    """Every test begins with the example alone: the manager is one for the whole process."""
    yield
    manager = state.all_runs()
    for run in list(manager._runs.values()):
        manager.close(run)


@pytest.fixture
def page_of() -> Callable[[AppTest], Page]:
    """A session at any script."""
    return Page


@pytest.fixture
def live() -> Callable[..., Page]:
    """The Live page, opened with these URL parameters: live(model="lenet5", bits="3")."""

    def open_page(**parameters: str) -> Page:
        at = AppTest.from_file(APP, default_timeout=SECONDS)
        for name, value in parameters.items():
            at.query_params[name] = value
        return Page(at).run()

    return open_page


@pytest.fixture
def exporting() -> Callable[..., Page]:
    """The Export page of a run, or of the example."""

    def open_page(run: Run | None = None) -> Page:
        at = AppTest.from_function(_export_page, default_timeout=SECONDS)
        if run is not None:
            at.query_params["run"] = run.id
        return Page(at).run()

    return open_page


@pytest.fixture
def create() -> Callable[..., Run]:
    """A paused run of the server: create(stop_after=5)."""

    def make(**changes: Any) -> Run:
        settings = {"model": "logistic-regression", "lr": 0.1, "stop_after": 5} | changes
        return state.all_runs().create(Settings(**settings))

    return make
