"""The sections of Tune that look at the run on Live, as Streamlit runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import codec
from codec.state.tensors import layout_of
from lcviz.run.run import Run
from lcviz.tune import ab
from lcviz.tune import page_ab as duel
from lcviz.tune import page_by_bucket as kept_buckets
from lcviz.tune import page_newest_delta as following
from lcviz.tune.ab import Follower, Moment, Side, Variant
from lcviz.tune.ab_figure import ab_sentence, ab_table
from lcviz.tune.all_settings import tried
from lcviz.ui import session as state

pytestmark = pytest.mark.usefixtures("server")

SECONDS = 60
Tuning = Callable[..., Any]
Create = Callable[..., Run]
VIEWS = {
    "ab": "A against B",
    "all": "All settings",
    "tensors": "Tensor by tensor",
    "buckets": "Bucket by bucket",
}


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
        at.query_params["tune_view"] = VIEWS[view]
        for name, value in parameters.items():
            at.query_params[name] = value
        return page_of(at).run()

    return open_page


def moments(run: Run) -> list[Moment]:
    found = []
    for c in run.snapshot().checkpoints:
        states = run.states(c.step)
        assert states is not None
        found.append(Moment(c.step, states.live, c.moved))
    return found


def side(run: Run, variant: Variant) -> Side:
    base, *later = moments(run)
    follower = Follower(variant, layout_of(base.arrays), base.arrays)
    for moment in later:
        follower.save(moment)
    return follower.side(run.task.probe_loss)


def rows(page: Any) -> dict[str, list[str]]:
    """The table of A against B, by measure; seconds are never the same twice."""
    (table,) = (t.value for t in page.at.table if "B against A" in t.value)
    return {row[0]: row[1:] for row in table.to_numpy().tolist() if "time to" not in row[0]}


def expected(run: Run, a: Variant, b: Variant) -> dict[str, list[str]]:
    live = run.snapshot().newest.live_loss
    assert live is not None
    table = ab_table(side(run, a), side(run, b), live)
    return {row[0]: row[1:] for row in table.to_numpy().tolist() if "time to" not in row[0]}


def test_a_against_b(tuning: Tuning) -> None:
    page = tuning("ab")
    run = state.all_runs().example()
    assert rows(page) == expected(run, Variant(2), Variant(3))
    assert page.charts == {"ab-sizes", "ab-distances"}
    assert "exact base at step 0, as the run's own chain does" in "".join(page.texts("caption"))
    page.set("segmented_control", "tune_b_scope", "tensor")
    page.set("segmented_control", "tune_a_coder", "huffman")
    page.set("select_slider", "tune_a_bits", 8)
    a, b = Variant(8, "model", "huffman"), Variant(3, "tensor")
    assert rows(page) == expected(run, a, b)
    assert ab_sentence(side(run, a), side(run, b)) in page.texts("markdown")
    page.set("segmented_control", "tune_b_keep", "budget").set("number_input", "tune_b_budget", 8.0)
    assert rows(page) == expected(run, a, Variant(None, "tensor", "runlength", 0.08))


def test_a_link_reopens_it(tuning: Tuning) -> None:
    page = tuning(
        "ab",
        tune_a_bits="all",
        tune_a_coder="Huffman (paper)",
        tune_b_keep="Budget",
        tune_b_budget="8",
        tune_b_scope="each tensor",
    )
    assert rows(page) == expected(
        state.all_runs().example(),
        Variant(None, "model", "huffman"),
        Variant(None, "tensor", "runlength", 0.08),
    )


def test_it_follows_the_run(tuning: Tuning, create: Create) -> None:
    run = create()
    page = tuning("ab", run)
    assert page.texts("info") == [
        "This run has saved its base only: play it on Live until there is a delta."
    ]
    for n in (1, 2):
        run.step()
        run.wait(SECONDS)
        page.run()
        assert rows(page) == expected(run, Variant(2), Variant(3))
        assert any(f"the {n} checkpoint" in text for text in page.texts("caption"))


def test_what_is_kept_is_not_saved_again(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    page, saves = tuning("ab"), []
    save = Follower.save

    def counted(own: Follower, moment: Moment) -> Any:
        saves.append((own.variant, moment.step))
        return save(own, moment)

    monkeypatch.setattr(Follower, "save", counted)
    page.run()
    assert not saves
    page.set("select_slider", "tune_a_bits", 4)
    assert saves == [(Variant(4), step) for step in (2, 4, 6)]


def test_older_states_are_gone(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    run = state.all_runs().example()
    monkeypatch.setattr(Run, "steps_held", lambda _: (4, 6))
    page = tuning("ab")
    assert "base at step 4, for older states are no longer" in "".join(page.texts("caption"))
    base, newest = moments(run)[2:]
    own = Follower(Variant(2), layout_of(base.arrays), base.arrays)
    assert f"{own.save(newest).nbytes:,} B" in rows(page)["newest record, bytes on disk"][0]
    monkeypatch.setattr(Run, "steps_held", lambda _: (6,))
    assert "only the newest state is in memory, and two are needed" in tuning("ab").texts("info")[0]


def test_a_base_as_late_as_it_has_to_be(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    """All states are in memory: it is not for want of them that the base is not the run's own."""
    monkeypatch.setattr(ab, "MOST", 2)
    monkeypatch.setattr(duel, "MOST", 2)
    (basis,) = (c for c in tuning("ab").texts("caption") if "exact base" in c)
    assert "at step 4, so that no more than 2 checkpoints have to be saved again, and" in basis


def test_a_failure_is_told(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise codec.SettingsError("there is no room")

    monkeypatch.setattr(duel.Followers, "follow", fails)
    assert tuning("ab").texts("error") == ["These settings cannot follow the run. there is no room"]


def test_every_setting_and_one_put_into_b(tuning: Tuning) -> None:
    page = tuning("all")
    run = state.all_runs().example()
    states = run.states()
    assert states is not None
    newest = run.snapshot().newest
    found = tried(
        layout_of(states.live), states.before, Moment(newest.step, states.live, newest.moved)
    )
    option = page.chart("every")
    full = newest.full_nbytes
    assert [p["value"] for p in option["series"][0]["data"]] == [
        round(100 * s.nbytes / full, 4)
        for v, s in found.items()
        if (v.scope, v.coder) == ("model", "runlength")
    ]
    assert option["series"][0]["data"][1]["label"]["formatter"] == "this run, A"
    chosen = Variant(5, "tensor", "huffman")
    page.set("selectbox", "tune_pick", chosen.text)
    assert f"{found[chosen].nbytes:,} B" in "".join(page.texts("caption"))
    page.click("tune-put-B")
    assert page.chart("every")["series"][3]["data"][4]["label"]["formatter"] == "B"
    page.set("segmented_control", "tune_view", "ab")
    assert rows(page) == expected(run, Variant(2), chosen)


def test_a_budget_gives_way_to_bits(tuning: Tuning) -> None:
    page = tuning("all", tune_a_keep="Budget", tune_pick=Variant(None).text)
    assert any("A keeps a budget instead of bits" in s for s in page.sentences)
    page.click("tune-put-A")
    page.set("segmented_control", "tune_view", "ab")
    assert rows(page) == expected(state.all_runs().example(), Variant(None), Variant(3))


def test_tensor_by_tensor(tuning: Tuning) -> None:
    page = tuning("tensors", tune_b_scope="each tensor")
    assert page.charts == {"tensors-A", "tensors-B"}
    a, b = (page.chart(f"tensors-{who}") for who in "AB")
    assert a["visualMap"]["max"] == b["visualMap"]["max"]
    assert a["yAxis"]["data"] == b["yAxis"]["data"]
    assert len(a["series"][0]["data"]) == 9 * len(a["yAxis"]["data"])
    page.set("segmented_control", "tune_measure", "zeros")
    assert "A, step 6: values left as they were, %" in "".join(page.texts("markdown"))
    page.set("segmented_control", "tune_a_keep", "budget")
    assert page.chart("tensors-A")["xAxis"]["data"][-1] == "5 %"


def test_the_largest_buckets(tuning: Tuning, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tuning("buckets")
    run = state.all_runs().example()
    newest = run.snapshot().newest
    restored = newest.restored_loss
    assert page.metrics["Loss, rebuilt"][0] == f"{restored:.6f}"  # x = 2, as the run has it
    assert page.metrics["Loss, live"][0] == f"{newest.live_loss:.6f}"
    assert page.metrics["Distance"][0] == f"{100 * newest.distance:.2f} %"
    page.set("slider", "tune_k", 0)
    states = run.states()
    assert states is not None
    before = run.task.probe_loss(states.before)
    assert page.metrics["Loss, rebuilt"][0] == f"{before:.6f}"
    assert page.metrics["Values changed"][0] == "0"
    for _ in range(100):
        page.run()
        if not any("still being measured" in s for s in page.sentences):
            break
    assert len(page.chart("kept")["series"][0]["data"]) > 20


def test_the_curve_goes_on_until_it_is_there(
    tuning: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_buckets, "SLICE", 0.0)
    page = tuning("buckets")
    first = len(page.chart("kept")["series"][0]["data"])
    assert any("still being measured" in s for s in page.sentences)
    page.run()
    assert len(page.chart("kept")["series"][0]["data"]) == first + 1


def test_left_out(tuning: Tuning) -> None:
    page = tuning("buckets", tune_mode="Leave out any")
    run = state.all_runs().example()
    whole = page.metrics["Loss, rebuilt"][0]
    options = page.at.button_group(key="tune_out").options
    page.set("button_group", "tune_out", options)
    states = run.states()
    assert states is not None
    before = run.task.probe_loss(states.before)
    assert page.metrics["Loss, rebuilt"][0] == f"{before:.6f}" != whole
    assert page.metrics["Values changed"][0] == "0"
    assert any(t.startswith(f"Without {len(options)} buckets of") for t in page.texts("markdown"))


def test_a_newer_delta_while_it_plays(
    tuning: Tuning, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(stop_after=8)
    run.step()
    run.wait(SECONDS)
    page = tuning("buckets", run, tune_k="200")
    assert page.at.slider(key="tune_k").value <= page.at.slider(key="tune_k").max
    assert page.metrics["Loss, live"][1] == "at step 1"
    run.step()
    run.wait(SECONDS)
    monkeypatch.setattr(kept_buckets, "PLAYING", run.snapshot().status)  # as if it still played
    page.run()
    page.set("slider", "tune_k", 4)
    assert page.metrics["Loss, live"][1] == "at step 1"
    page.click("tune-newest")
    assert page.metrics["Loss, live"][1] == "at step 2"
    assert page.at.slider(key="tune_k").value == 4
    monkeypatch.undo()
    run.step()
    run.wait(SECONDS)
    page.at.slider(key="tune_k").set_value(500)  # as if the delta before had had more
    assert page.run().metrics["Loss, live"][1] == "at step 3"
    assert page.at.slider(key="tune_k").value == 3  # as many as the run's own bits keep


def test_a_large_model_waits_for_a_rest(
    tuning: Tuning, create: Create, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create(stop_after=8)
    run.step()
    run.wait(SECONDS)
    page = tuning("all", run)
    run.step()
    run.wait(SECONDS)
    monkeypatch.setattr(following, "LARGE", 10)
    monkeypatch.setattr(following, "PLAYING", run.snapshot().status)
    assert "Step 1 with every setting" in "".join(page.run().texts("markdown"))
    assert "Below is step 1: the next one is taken when the run rests." in page.texts("caption")
    monkeypatch.undo()
    assert "Step 2 with every setting" in "".join(page.run().texts("markdown"))


def test_only_what_is_looked_at_is_computed(tuning: Tuning) -> None:
    assert tuning("ab").charts == {"ab-sizes", "ab-distances"}
    assert tuning("all").charts == {"every"}
    assert tuning("buckets").charts == {"kept"}


def test_a_step_that_changed_nothing(tuning: Tuning, create: Create) -> None:
    """As with a learning rate so small that every weight stays where it is."""
    run = create()
    run.step()
    run.wait(SECONDS)
    states = run.states()
    assert states is not None
    for name, array in states.live.items():
        array[...] = states.before[name]
    for mode in ("Keep the largest", "Leave out any"):
        page = tuning("buckets", run, tune_mode=mode)
        assert page.texts("info") == ["Step 1 changed no value, so its delta has no buckets."]
    assert "as many bytes" in "".join(tuning("ab", run).texts("markdown"))
    tuning("all", run)
    page = tuning("tensors", run)
    assert any("it is 0.00 bits in every tensor" in s for s in page.sentences)


def test_a_delta_without_codes(tuning: Tuning, create: Create) -> None:
    """Every value became NaN: all is stored whole, and comes back as it was."""
    run = create()
    run.step()
    run.wait(SECONDS)
    states = run.states()
    assert states is not None
    for array in states.live.values():
        array[...] = np.nan
    assert "nothing to take apart" in tuning("buckets", run).texts("info")[0]
    assert "0.00 % with B" in "".join(tuning("ab", run).texts("markdown"))
    tuning("all", run)
    tuning("tensors", run)
