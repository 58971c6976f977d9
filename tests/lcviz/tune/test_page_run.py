"""The sections of Tune that look at the run on Live, as Streamlit runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import codec
from codec.scheme.coding import Coding
from codec.state.tensors import layout_of
from lcviz.run.run import Run
from lcviz.text import percent_text
from lcviz.tune import ab, page_by_bucket, page_run
from lcviz.tune.ab import RunState, Side, TrialChain
from lcviz.tune.ab_figure import ab_sentence, ab_table
from lcviz.tune.all_settings import try_all
from lcviz.tune.page import SECTIONS
from lcviz.ui import session
from lcviz.ui.charts import plotted

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 60
Tuning = Callable[..., Any]
Create = Callable[..., Run]


@pytest.fixture
def tuning(page_of: Callable[[AppTest], Any]) -> Tuning:
    """The Tune page in a view, of a run or of the example: tuning("ab", run, tune_a_bits="3")."""

    def script() -> None:
        from lcviz.tune import page as tune

        tune.page()

    def open_page(view: str, run: Run | None = None, **parameters: str) -> Any:
        at = AppTest.from_function(script, default_timeout=SECONDS)
        if run is not None:
            at.query_params["run"] = run.id
        at.query_params["tune_view"] = SECTIONS[view][0]
        for name, value in parameters.items():
            at.query_params[name] = value
        return page_of(at).run()

    return open_page


def step(run: Run) -> None:
    run.step()
    run.wait(SECONDS)


def both_states(run: Run, number: int | None = None) -> Any:
    states = run.states() if number is None else run.states(number)
    assert states is not None
    return states


def states_of(run: Run) -> list[RunState]:
    return [
        RunState(c.step, both_states(run, c.step).live, c.moved) for c in run.snapshot().checkpoints
    ]


def side(run: Run, choice: Coding) -> Side:
    base, *later = states_of(run)
    replay = TrialChain(choice, layout_of(base.arrays), base.arrays)
    for state in later:
        replay.save(state)
    return replay.side(run.task.probe_loss)


def rows(page: Any) -> dict[str, list[str]]:
    """The table of A against B, by measure; seconds are never the same twice."""
    (table,) = (t.value for t in page.at.table if "B against A" in t.value)
    return {row[0]: row[1:] for row in table.to_numpy().tolist() if "time to" not in row[0]}


def expected(run: Run, a: Coding, b: Coding) -> dict[str, list[str]]:
    live = run.snapshot().newest.live_loss
    assert live is not None
    table = ab_table(side(run, a), side(run, b), live)
    return {row[0]: row[1:] for row in table.to_numpy().tolist() if "time to" not in row[0]}


def test_a_against_b(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every control changes the table; what was replayed before is not replayed again."""
    page = tuning("ab")
    run = session.all_runs().example()
    assert rows(page) == expected(run, Coding(2), Coding(3))
    assert page.charts == {"ab-sizes", "ab-distances"}
    assert [line["y"][-1] for line in page.figure("ab-sizes")["data"]] == [
        plotted(100 * s.newest.nbytes / s.full_nbytes, 4)
        for s in (side(run, Coding(2)), side(run, Coding(3)))
    ]
    assert "3 checkpoints after an exact base at step 0." in page.texts("caption")
    save, saves = TrialChain.save, []

    def counted(own: TrialChain, state: RunState) -> Any:
        saves.append((own.choice, state.step))
        return save(own, state)

    with monkeypatch.context() as counting:
        counting.setattr(TrialChain, "save", counted)
        page.run()
        assert not saves
        page.set("select_slider", "tune_a_bits", 8)
        assert saves == [(Coding(8), step) for step in (2, 4, 6)]
    page.set("segmented_control", "tune_b_scope", "tensor")
    page.set("segmented_control", "tune_a_coder", "huffman")
    a, b = Coding(8, "model", "huffman"), Coding(3, "tensor")
    assert rows(page) == expected(run, a, b)
    assert ab_sentence(side(run, a), side(run, b)) in page.texts("markdown")
    page.set("segmented_control", "tune_b_keep", "budget").set("number_input", "tune_b_budget", 8.0)
    assert rows(page) == expected(run, a, Coding(None, "tensor", "runlength", 0.08))


def test_a_link_reopens_it(tuning: Tuning) -> None:
    parts = {"a_bits": "all", "a_coder": "Huffman (paper)", "b_keep": "Budget", "b_budget": "8"}
    page = tuning("ab", tune_b_scope="each tensor", **{f"tune_{k}": v for k, v in parts.items()})
    a, b = Coding(None, "model", "huffman"), Coding(None, "tensor", "runlength", 0.08)
    assert rows(page) == expected(session.all_runs().example(), a, b)


def test_it_follows_the_run(tuning: Tuning, create: Create) -> None:
    run = create()
    page = tuning("ab", run)
    (told,) = page.texts("info")
    assert "its base only" in told
    for n in (1, 2):
        step(run)
        page.run()
        assert rows(page) == expected(run, Coding(2), Coding(3))
        assert any(text.startswith(f"{n} checkpoint") for text in page.texts("caption"))


def test_where_the_base_is(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    run = session.all_runs().example()
    with monkeypatch.context() as few:  # all states are in memory, but too many to replay
        few.setattr(ab, "MOST_CHECKPOINTS", 2)
        (basis,) = (c for c in tuning("ab").texts("caption") if "exact base" in c)
        assert "at step 4; no more than 2 are replayed." in basis
    monkeypatch.setattr(Run, "steps_held", lambda _: (4, 6))
    page = tuning("ab")
    assert "base at step 4; older states" in "".join(page.texts("caption"))
    base, newest = states_of(run)[2:]
    other = TrialChain(Coding(3), layout_of(base.arrays), base.arrays)
    assert f"{other.save(newest).nbytes:,} B" in rows(page)["newest record, % of float32"][1]
    monkeypatch.setattr(Run, "steps_held", lambda _: (6,))
    assert "Only one state" in tuning("ab").texts("info")[0]


def test_a_step_has_the_size_that_live_shows(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the replay begins later than the run, with other tables."""
    run = session.all_runs().example()
    newest = run.snapshot().newest
    monkeypatch.setattr(Run, "steps_held", lambda _: (2, 4, 6))
    page = tuning("ab")
    shown = rows(page)
    base, *later = states_of(run)[1:]
    replayed = TrialChain(Coding(2), layout_of(base.arrays), base.arrays)
    assert [replayed.save(state).nbytes for state in later][-1] != newest.nbytes
    assert shown["newest record, % of float32"][0].startswith(f"{newest.nbytes:,} B, ")
    assert shown["distance"][0] == percent_text(newest.distance)
    sizes = page.figure("ab-sizes")["data"][0]["y"]
    saved = [run.snapshot().at(step) for step in (4, 6)]
    assert sizes == [plotted(100 * c.nbytes / c.full_nbytes, 4) for c in saved]
    (basis,) = (c for c in page.texts("caption") if "exact base" in c)
    assert basis.endswith(" A: as the run saved them.")


def test_a_failure_is_told(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise codec.SettingsError("there is no room")

    monkeypatch.setattr(ab.TrialChains, "replay", fails)
    (error,) = tuning("ab").texts("error")
    assert "there is no room" in error


def test_every_setting_and_one_put_into_a_and_b(tuning: Tuning) -> None:
    page = tuning("all_settings", tune_a_keep="Budget", tune_pick=Coding(None).describe())
    run = session.all_runs().example()
    states, newest = both_states(run), run.snapshot().newest
    state = RunState(newest.step, states.live, newest.moved)
    found = try_all(layout_of(states.live), states.before, state)
    assert page.charts == {"all-settings"}
    line = page.figure("all-settings")["data"][0]
    assert line["y"] == [
        round(100 * s.nbytes / newest.full_nbytes, 4)
        for v, s in found.items()
        if (v.scope, v.coder) == ("model", "runlength")
    ]
    assert line["marker"]["size"][1] > line["marker"]["size"][0]  # this run's own
    assert any("as no x decides: A" in s for s in page.sentences)
    page.click("tune-put-A")  # bits take the place of the budget
    chosen = Coding(5, "tensor", "huffman")
    page.set("selectbox", "tune_pick", chosen.describe())
    assert f"{found[chosen].nbytes:,} B" in "".join(page.texts("caption"))
    page.click("tune-put-B")
    notes = page.figure("all-settings")["layout"]["annotations"]
    assert [n["x"] for n in notes if n["text"] == "<b>B</b>"] == [4, 4]
    page.set("segmented_control", "tune_view", "ab")
    assert page.charts == {"ab-sizes", "ab-distances"}  # what is not shown is not computed
    assert rows(page) == expected(run, Coding(None), chosen)


def test_tensor_by_tensor(tuning: Tuning) -> None:
    page = tuning("by_tensor", tune_b_scope="each tensor")
    assert page.charts == {"by-tensor-A", "by-tensor-B"}
    a, b = (page.figure(f"by-tensor-{who}") for who in "AB")
    assert a["data"][0]["zmax"] == b["data"][0]["zmax"]
    rows = a["layout"]["yaxis"]["ticktext"]
    assert rows == b["layout"]["yaxis"]["ticktext"]
    assert len(a["data"][1]["text"]) == 9 * len(rows)
    page.set("segmented_control", "tune_measure", "zeros")
    assert "A, step 6: values left as they were, %" in "".join(page.texts("markdown"))
    page.set("segmented_control", "tune_a_keep", "budget")
    assert page.figure("by-tensor-A")["layout"]["xaxis"]["ticktext"][-1] == "5 %"


def points(page: Any) -> int:
    """How many of the curve are drawn."""
    return len(page.figure("by-bucket")["data"][0]["x"])


def measuring(page: Any) -> bool:
    return any("points left" in element.proto.text for element in page.at.get("progress"))


def test_the_largest_buckets(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_by_bucket, "SLICE", 0.0)
    page = tuning("by_bucket")
    run = session.all_runs().example()
    newest = run.snapshot().newest
    assert page.charts == {"by-bucket"}
    assert page.metrics["Loss, rebuilt"][0] == f"{newest.restored_loss:.6f}"  # x = 2, as the run
    assert page.metrics["Loss, live"][0] == f"{newest.live_loss:.6f}"
    assert page.metrics["Distance"][0] == f"{100 * newest.distance:.2f} %"
    first = points(page)
    assert first < 5
    assert measuring(page)
    page.run()
    page.run()
    assert first < points(page) < 9
    page.set("slider", "tune_k", 0)
    before = run.task.probe_loss(both_states(run).before)
    assert page.metrics["Loss, rebuilt"][0] == f"{before:.6f}"
    assert page.metrics["Values changed"][0] == "0"
    monkeypatch.setattr(page_by_bucket, "SLICE", 1e9)
    page.run()
    assert not measuring(page)
    assert points(page) > 20


def test_left_out(tuning: Tuning) -> None:
    page = tuning("by_bucket", tune_mode="Leave out any")
    run = session.all_runs().example()
    whole = page.metrics["Loss, rebuilt"][0]
    options = page.at.button_group(key="tune_out").options
    page.set("button_group", "tune_out", options)
    before = run.task.probe_loss(both_states(run).before)
    assert page.metrics["Loss, rebuilt"][0] == f"{before:.6f}" != whole
    assert page.metrics["Values changed"][0] == "0"
    assert any(t.startswith(f"Without {len(options)} buckets of") for t in page.texts("markdown"))


def test_a_newer_delta_while_it_plays(
    tuning: Tuning, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(stop_after=8)
    step(run)
    page = tuning("by_bucket", run, tune_k="200")
    assert page.at.slider(key="tune_k").value <= page.at.slider(key="tune_k").max
    assert page.metrics["Loss, live"][1] == "at step 1"
    step(run)
    with monkeypatch.context() as playing:
        playing.setattr(page_run, "PLAYING", run.snapshot().status)  # as if it still played
        page.run()
        page.set("slider", "tune_k", 4)
        assert page.metrics["Loss, live"][1] == "at step 1"
        page.click("tune-newest")
        assert page.metrics["Loss, live"][1] == "at step 2"
        assert page.at.slider(key="tune_k").value == 4
    step(run)
    page.at.slider(key="tune_k").set_value(500)  # as if the delta before had had more
    assert page.run().metrics["Loss, live"][1] == "at step 3"
    assert page.at.slider(key="tune_k").value == 3  # as many as the run's own bits keep


@pytest.mark.parametrize("view", ["ab", "all_settings", "by_tensor"])
def test_what_is_shown_stays_while_the_run_plays(
    view: str, tuning: Tuning, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure that is drawn anew flickers: until the newest step is asked for, or a pause."""
    run = create(stop_after=8)
    step(run)
    page = tuning(view, run)
    shown = figures(page)
    with monkeypatch.context() as playing:
        playing.setattr(page_run, "PLAYING", run.snapshot().status)  # as if it still played
        page.run()
        assert "tune-newest" not in [b.key for b in page.at.button]  # it is the newest
        step(run)
        assert figures(page.run()) == shown
        assert "Step 1; the run goes on." in page.texts("markdown")
        newer = figures(page.click("tune-newest"))
        assert newer != shown
        step(run)
        assert figures(page.run()) == newer
    assert figures(page.run()) != newer


def figures(page: Any) -> dict[str, Any]:
    return {key: page.figure(key) for key in page.charts}


def test_a_step_that_changed_nothing_and_one_without_codes(tuning: Tuning, create: Create) -> None:
    """A learning rate so small that no weight moves; then every value becomes NaN."""
    run = create()
    step(run)
    states = both_states(run)
    for name, array in states.live.items():
        array[...] = states.before[name]
    page = tuning("by_bucket", run, tune_a_bits="4")  # not the run's own, which has saved others
    assert "changed no value" in page.texts("info")[0]
    page.set("segmented_control", "tune_view", "ab")
    assert "as many bytes" in "".join(page.texts("markdown"))
    page.set("segmented_control", "tune_view", "all_settings")
    page.set("segmented_control", "tune_view", "by_tensor")
    assert any("0.00 bits" in s for s in page.sentences)
    for array in states.live.values():
        array[...] = np.nan  # all is stored whole, and comes back as it was
    page = tuning("by_bucket", run)
    assert "nothing to take apart" in page.texts("info")[0]
    page.set("segmented_control", "tune_view", "ab")
    assert any(s.endswith("B 0.00 %.") for s in page.sentences)
    for view in ("all_settings", "by_tensor"):
        page.set("segmented_control", "tune_view", view)
