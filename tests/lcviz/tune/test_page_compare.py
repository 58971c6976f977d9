"""Tune's Compare as Streamlit runs it, on the run of Live."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import codec
from codec.scheme.coding import Coding
from codec.state.tensors import layout_of
from lcviz.run.run import Run
from lcviz.run.saved_steps import SavedSteps
from lcviz.tune import page_compare
from lcviz.tune.compare import OneDelta, Trial, try_all, try_one
from lcviz.tune.compare_figure import headline, tensors_table
from lcviz.ui import session
from tests.lcviz.common import stepped

pytestmark = pytest.mark.usefixtures("server")

Tuning = Callable[..., Any]
Create = Callable[..., Run]
Patch = pytest.MonkeyPatch


@pytest.fixture
def comparing(tuning: Tuning) -> Tuning:
    """Compare, of a run or of the example: comparing(run, tune_a_bits="3")."""
    return partial(tuning, tune_view="Compare")


def newest(run: Run) -> OneDelta:
    states, saved = run.saved.states(), run.snapshot().newest
    assert states is not None
    layout = layout_of(states.live)
    return OneDelta(run.id, saved.step, layout, states.before, states.live, saved.moved)


def tried(run: Run, a: Coding, b: Coding) -> tuple[Trial, Trial]:
    one, other = (try_one(newest(run), coding, run.task.probe_loss) for coding in (a, b))
    return one, other


def check(page: Any, run: Run, a: Coding, b: Coding) -> None:
    """The title, the marks and the table of tensors are those of these two settings."""
    one, other = tried(run, a, b)
    assert page.title == f"Tune: {headline(one, other)}"
    marks = page.figure("compare")["data"][6:]
    assert [m["customdata"][0][0] for m in marks] == [a.describe(), b.describe()]
    sizes = {t.name: t.size for t in newest(run).layout.tensors if t.lossy}
    (table,) = (t.value for t in page.at.dataframe)
    assert table.equals(tensors_table(sizes, {"A": one, "B": other}))


def test_a_b_and_every_setting(comparing: Tuning, monkeypatch: Patch) -> None:
    """Every control changes what is shown; what was tried before is not tried again."""
    page, run = comparing(), session.all_runs().example()
    assert page.charts == {"compare"}
    check(page, run, Coding(2), Coding(3))
    lines = page.figure("compare")["data"][:6]
    nbytes = [x for line in lines for x in line["x"]]
    full = newest(run).layout.nbytes
    assert nbytes == [round(100 * s.nbytes / full, 4) for s in by_line(try_all(newest(run)))]
    (told,) = (c for c in page.texts("caption") if "Restored loss" in c)
    assert f"live {run.snapshot().newest.live_loss:.6f}" in told
    asked: list[Coding] = []

    def counted(delta: OneDelta, coding: Coding, loss_of: Any) -> Trial:
        asked.append(coding)
        return try_one(delta, coding, loss_of)

    monkeypatch.setattr(page_compare, "try_all", None)
    monkeypatch.setattr(page_compare, "try_one", counted)
    page.run()
    assert not asked
    page.set("select_slider", "tune_a_bits", 8)
    assert asked == [Coding(8)]
    page.set("segmented_control", "tune_b_scope", "tensor")
    page.set("segmented_control", "tune_a_coder", "huffman")
    check(page, run, Coding(8, "model", "huffman"), Coding(3, "tensor"))
    page.set("segmented_control", "tune_b_keep", "budget").set("number_input", "tune_b_budget", 8.0)
    budget = Coding(None, "tensor", budget=0.08, quantizer="uniform")
    check(page, run, Coding(8, "model", "huffman"), budget)


def by_line(found: dict[Coding, Trial]) -> list[Trial]:
    """As the picture has them: by coder, then by scope."""
    places = list(codec.inspect.CODERS), ["model", "tensor"]
    order = sorted(found, key=lambda c: (places[0].index(c.coder), places[1].index(c.scope)))
    return [found[coding] for coding in order]


def test_a_link_reopens_it(comparing: Tuning) -> None:
    parts = {"a_bits": "all", "a_coder": "Huffman (paper)", "b_keep": "Budget", "b_budget": "8"}
    page = comparing(tune_b_scope="each tensor", **{f"tune_{k}": v for k, v in parts.items()})
    b = Coding(None, "tensor", budget=0.08, quantizer="uniform")
    check(page, session.all_runs().example(), Coding(None, "model", "huffman"), b)


def test_the_same_twice(comparing: Tuning) -> None:
    assert comparing(tune_b_bits="2").title == f"Tune: {page_compare.SAME}"


def test_a_wrong_number_and_a_small_budget_leave_the_picture(comparing: Tuning) -> None:
    page, run = comparing(tune_b_keep="Budget"), session.all_runs().example()
    budget = Coding(None, budget=0.05, quantizer="uniform")
    check(page, run, Coding(2), budget)
    page.set("number_input", "tune_b_budget", 101.0)
    check(page, run, Coding(2), budget)
    page.set("number_input", "tune_b_budget", 0.5)  # a header takes more
    (error,) = page.texts("error")
    assert error.startswith("B cannot encode this delta.")
    assert page.title == f"Tune: {page_compare.QUESTION}"
    marks = page.figure("compare")["data"][6:]
    assert [m["customdata"][0][0] for m in marks] == [Coding(2).describe()]


def test_a_click_becomes_b(comparing: Tuning, monkeypatch: Patch) -> None:
    page, run = comparing(), session.all_runs().example()
    chosen = Coding(5, "tensor", "huffman")
    monkeypatch.setattr(page_compare, "picked", lambda line, point, _: chosen)
    script = page.at

    class Clicked:
        class selection:  # noqa: N801 as Streamlit has it
            points = ({"curve_number": 3, "point_index": 4},)

    state: dict[str, Any] = {"panel-compare": Clicked}
    monkeypatch.setattr(page_compare.st, "session_state", state)
    page_compare._clicked()
    monkeypatch.undo()
    for name, value in state.items():
        if name.startswith("tune_b_"):
            script.session_state[name] = value
    check(page.run(), run, Coding(2), chosen)


def test_it_follows_the_run(comparing: Tuning, create: Create) -> None:
    run = create()
    page = comparing(run)
    (told,) = page.texts("info")
    assert "its base only" in told
    for _ in range(2):
        stepped(run)
        check(page.run(), run, Coding(2), Coding(3))


def test_states_that_are_no_longer_kept(comparing: Tuning, monkeypatch: Patch) -> None:
    monkeypatch.setattr(SavedSteps, "states", lambda *_: None)
    page = comparing()
    assert page.texts("info") == [page_compare.GONE]
    assert not page.charts


def test_a_failure_is_told(comparing: Tuning, monkeypatch: Patch) -> None:
    def fails(*_: Any) -> None:
        raise codec.SettingsError("there is no room")

    monkeypatch.setattr(page_compare, "try_all", fails)
    (error,) = comparing().texts("error")
    assert "there is no room" in error


def test_it_stays_while_it_plays(comparing: Tuning, create: Create, monkeypatch: Patch) -> None:
    """A figure that is drawn anew flickers: until the newest step is asked for, or a pause."""
    run = create(stop_after=8)
    stepped(run)
    page = comparing(run)
    shown = page.figure("compare")
    with monkeypatch.context() as playing:
        playing.setattr(page_compare, "PLAYING", run.snapshot().status)  # as if it still played
        page.run()
        assert "tune-newest" not in page.buttons  # it is the newest
        stepped(run)
        assert page.run().figure("compare") == shown
        assert "Step 1; the run goes on." in page.texts("markdown")
        newer = page.click("tune-newest").figure("compare")
        assert newer != shown
        stepped(run)
        assert page.run().figure("compare") == newer
    assert page.run().figure("compare") != newer


def test_a_step_without_changes_and_one_without_codes(comparing: Tuning, create: Create) -> None:
    """A learning rate so small that no weight moves; then every value becomes NaN."""
    run = create()
    stepped(run)
    states = run.saved.states()
    assert states is not None
    for name, array in states.live.items():
        array[...] = states.before[name]
    page = comparing(run)
    assert "as near to what was trained" in page.title
    (table,) = (t.value for t in page.at.dataframe)
    assert (table["A, left as it was, %"] == 100).all()
    for array in states.live.values():
        array[...] = np.nan  # all is stored whole, and comes back as it was
    page = comparing(run)
    assert page.title == f"Tune: {headline(*tried(run, Coding(2), Coding(3)))}"
    (table,) = (t.value for t in page.at.dataframe)
    assert table.iloc[:, 2:].isna().to_numpy().all()
