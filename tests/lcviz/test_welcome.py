"""The first seconds: a recording that is true, drawn without the heavy imports."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from lcviz import welcome
from lcviz.record_example import recorded
from lcviz.server.runs import EXAMPLE, EXAMPLE_OPENS
from lcviz.ui import navigation, recording
from lcviz.ui.glossary import title_help


def test_the_recording_is_the_example() -> None:
    """Trained again it has the same pictures; other processors round losses otherwise."""
    found, now = json.loads(recording.FILE.read_text()), recorded()
    assert found["title"] == now["title"]
    assert found["learn"] == json.loads(json.dumps(now["learn"])), recording.COMMAND
    assert found["pictures"].keys() == now["pictures"].keys()
    then, again = found["pictures"], now["pictures"]
    for name in then:
        assert then[name].keys() == again[name].keys()
    assert then["headline"]["full"] == again["headline"]["full"]
    for of_step, same_step in zip(then["loss"]["losses"], again["loss"]["losses"], strict=True):
        assert of_step[0] == same_step[0]
        assert of_step[1:] == pytest.approx(same_step[1:], rel=0.05)
    assert then["weights"]["shape"] == list(again["weights"]["shape"])
    assert found["pages"].keys() == now["pages"].keys() == set(recording.WITH_FIGURES)
    for name, page in found["pages"].items():
        other = now["pages"][name]
        assert page["title"] == other["title"]
        named = [
            [panel.get("title", panel.get("kind")) for panel in one["panels"]]
            for one in (page, other)
        ]
        assert named[0] == named[1]
        for panel, same in zip(page["panels"], other["panels"], strict=True):
            traces, others = (lines_of(one) for one in (panel, same))
            assert [t.get("name") for t in traces] == [t.get("name") for t in others]
    # Which buckets are kept at one step depends on how losses round; sums over all steps hardly do.
    sizes = [sizes_of(one["pages"]["inspect"]) for one in (found, now)]
    assert sum(sizes[0]) == pytest.approx(sum(sizes[1]), rel=0.05)
    for one, nbytes in zip((then, again), sizes, strict=True):
        shown = sum(part["nbytes"] for part in one["bits"]["parts"])
        assert shown == nbytes[EXAMPLE_OPENS // EXAMPLE.interval - 1]
        each = shown / sum(bar["kept"] for bar in one["buckets"]["buckets"])
        assert 0.5 < each < 1, "bytes for each value that is kept: its code, and the zeros before"


def lines_of(panel: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a picture of our own, or of Plotly's."""
    found: list[dict[str, Any]] = panel.get("ways") or panel["figure"]["data"]
    return found


def sizes_of(page: dict[str, Any]) -> list[int]:
    """Bytes of each delta, in the order of their steps."""
    (panel,) = (panel for panel in page["panels"] if panel.get("title") == "Size of each record")
    points = [
        point
        for trace in panel["figure"]["data"]
        if trace["name"].startswith("delta")
        for point in zip(trace["x"], trace["y"], strict=True)
    ]
    return [nbytes for _, nbytes in sorted(points)]


def test_nothing_heavy_is_imported_for_it() -> None:
    code = (
        "import sys, lcviz.welcome\n"
        "print(*(m for m in ('torch', 'numba', 'codec', 'demo_models') if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("name", navigation.PAGES)
def test_while_everything_is_imported(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def script(name: str) -> None:
        from lcviz import welcome

        welcome.show(name)

    monkeypatch.setattr(welcome, "loaded", lambda: False)
    page = AppTest.from_function(script, args=(name,), default_timeout=60).run()
    assert not page.exception
    pictures = [json.loads(e.proto.json)[0] for e in page.get("bidi_component")]
    found = json.loads(recording.FILE.read_text())
    if name == "live":
        assert {p["picture"]: p for p in pictures} == {
            p["picture"]: {**p, **title_help(p.get("title", "")), "recorded": True}
            for p in found["pictures"].values()
        }
        assert len(pictures) == len(found["pictures"])
        assert page.button[0].disabled
    elif name == "learn":
        assert pictures == [found["learn"]]
    elif name in recording.WITH_FIGURES:
        own = found["pages"][name]
        assert page.title[0].value == own["title"]
        figures = [json.loads(e.proto.spec) for e in page.get("plotly_chart")]
        ours = [p for p in own["panels"] if "picture" in p]
        assert pictures == [{**p, **title_help(p.get("title", "")), "recorded": True} for p in ours]
        drawn = [p["figure"]["data"] for p in own["panels"] if p not in ours]
        assert [f["data"] for f in figures] == drawn
        assert page.markdown[0].value.startswith("A recording: ")
    else:
        assert page.info[0].value.startswith("The server has just started")


@pytest.mark.usefixtures("server")  # whose example is prepared already
def test_no_figure_is_drawn_while_pandas_is_half_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plotly asks a half-imported pandas what a value is, and fails."""
    held: dict[str, bool] = {}

    def importing(name: str) -> ModuleType:
        held[name] = recording.DRAWING.locked()
        return import_module(name)

    def drawing(*_: object, key: str, **__: object) -> None:
        held[key] = recording.DRAWING.locked()

    monkeypatch.setattr(welcome, "import_module", importing)
    monkeypatch.setattr(recording.st, "plotly_chart", drawing)
    monkeypatch.setattr(recording.picture, "mount", lambda *_: None)
    welcome.load()
    recording.show_figures("recover")
    # Whatever else is imported in this process comes after it.
    assert next(iter(held)) == "pandas"
    assert held["pandas"]
    assert held["recorded-1"]  # the first is the race
    assert not held["lcviz.dashboard"]
    assert not recording.DRAWING.locked()
