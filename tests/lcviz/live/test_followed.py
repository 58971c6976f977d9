"""A followed weight and a highlighted bucket: shown on Live, in the URL of every page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import codec
from lcviz.lab.anatomy import totals
from lcviz.lab.follow_weight import Weight
from lcviz.run.run import Run
from lcviz.ui import follow_weight, navigation, session

pytestmark = pytest.mark.usefixtures("server")

Live = Callable[..., Any]


@pytest.fixture
def weight() -> Weight:
    """One of the example whose change was kept in its newest step."""
    run = session.all_runs().example()
    newest, states = run.snapshot().newest, run.states()
    assert states is not None
    (alphabet,), codes = newest.alphabets, run.codes(newest.step)
    assert codes is not None
    at = int(np.flatnonzero((codes[0] > 0) & (codes[0] <= alphabet.kept))[0])
    for name in alphabet.names:
        if at < states.live[name].size:
            return Weight(name, at)
        at -= states.live[name].size
    raise AssertionError("it is in one of the tensors")


def line(page: Any) -> dict[str, str]:
    """What the line above the page says of the followed weight."""
    rows = [
        t.split("]  \n") for t in page.texts("markdown") if t.startswith(":small[") and "]  \n" in t
    ]
    return {name.removeprefix(":small["): value for name, value in rows}


def parameter(page: Any, name: str) -> str:
    """One of the URL's."""
    value = page.at.query_params[name]
    return value[0] if isinstance(value, list) else value


def rimmed(page: Any) -> list[Any]:
    """The highlighted bars of the histogram: sign, values kept and not."""
    data = page.picture("buckets")
    return [
        ("negative" if b["sign"] else "positive", b["kept"], b["rest"])
        for b in data["buckets"]
        if [b["exponent"], b["sign"]] == data["marked"]
    ]


def test_a_followed_weight_is_told_of(live: Live, weight: Weight) -> None:
    page = live(weight=str(weight))
    run = page.the_run
    newest, states = run.snapshot().newest, run.states()
    found = line(page)
    place = np.unravel_index(weight.index, states.live[weight.tensor].shape)
    assert found["followed weight"] == f"{weight.tensor} ({', '.join(map(str, place))})"
    assert found["step"] == str(newest.step)
    u, was = weight.of(states.live), weight.of(states.before)
    assert found["trained u"] == f"{u:.6g}".replace("-", "−")
    assert found["δ"] == f"{np.float32(u) - np.float32(was):+.6g}".replace("-", "−")
    assert found["level"].endswith(", kept")
    track = codec.restore(run.path)[weight.tensor].reshape(-1)[weight.index]
    assert found["restored"].startswith(f"{track:.6g},".replace("-", "−"))
    assert "followed" in page.charts
    assert parameter(page, "weight") == str(weight)


def test_its_bucket_is_highlighted_at_the_step_looked_into(live: Live, weight: Weight) -> None:
    page = live(weight=str(weight)).follow_newest(False)
    run = page.the_run
    for step in (2, 4, 6):
        page.look_into(step)
        found = follow_weight.at_step(run, run.snapshot().at(step), weight)
        assert found is not None
        if found.bucket is None:
            assert rimmed(page) == []
            continue
        here = next(
            b
            for b in totals(run.snapshot().at(step).alphabets)
            if (b.exponent, b.sign) == (found.bucket.exponent, found.bucket.sign)
        )
        assert sum(kept + rest for _, kept, rest in rimmed(page)) == here.kept + here.dropped
        assert f"In step {step}: δ = " in " ".join(page.sentences)


def test_a_chosen_bucket_comes_before_the_weight_s(live: Live, weight: Weight) -> None:
    run = session.all_runs().example()
    smallest = totals(run.snapshot().newest.alphabets)[-1]
    name = follow_weight.bucket_name((smallest.exponent, smallest.sign))
    page = live(weight=str(weight), bucket=name)
    assert [rest for _, _, rest in rimmed(page)] == [smallest.dropped]
    assert parameter(page, "bucket") == name
    assert rimmed(live(weight=str(weight), bucket="none")) == []
    assert rimmed(live()) == []
    assert "Highlighted" in " ".join(page.sentences)


def test_choosing_in_the_popover(live: Live) -> None:
    page = live()
    assert "follow-this" not in {b.key for b in page.at.button}  # it is shut
    page.at.session_state["open-my_location"] = True
    page.run()
    tensor = page.at.selectbox(key="following-tensor").options[-1]
    page.set("selectbox", "following-tensor", tensor)
    page.set("number_input", "following-index", 3)
    page.click("follow-this")
    assert parameter(page, "weight") == f"{tensor}:3"
    assert line(page)["followed weight"].startswith(tensor)
    page.click("follow-kept")
    assert line(page)["level"].endswith(", kept")
    page.click("follow-none")
    assert "weight" not in page.at.query_params
    assert line(page) == {}
    page.at.session_state["open-ink_highlighter"] = True
    page.run()
    page.at.selectbox(key="highlighted").select_index(2)
    page.run()
    assert len(rimmed(page)) == 1
    page.at.selectbox(key="highlighted").select_index(1)
    page.run()
    assert rimmed(page) == []


def test_an_element_too_far_is_taken_back(live: Live) -> None:
    """The larger tensor is left with a large index."""
    page = live()
    page.at.session_state["open-my_location"] = True
    page.run()
    big, small = page.at.selectbox(key="following-tensor").options[:2]
    page.set("selectbox", "following-tensor", big)
    page.set("number_input", "following-index", 600)
    page.set("selectbox", "following-tensor", small)
    assert page.at.number_input(key="following-index").value == 9
    page.click("follow-this")
    assert parameter(page, "weight") == f"{small}:9"


@pytest.mark.parametrize("text", ["nonsense", "other.weight:3", "linear.weight:99999999", "x:-1"])
def test_a_link_to_a_weight_that_is_not_there(live: Live, text: str) -> None:
    page = live(weight=text)
    assert line(page) == {}
    assert rimmed(page) == []
    told = [t for t in page.texts("markdown") if "has no such weight" in t]
    assert len(told) == (":" in text and "-1" not in text)


def test_a_step_that_is_no_longer_held(live: Live, create: Callable[..., Run]) -> None:
    run = create(stop_after=3)
    run.play()
    run.wait(60)
    name = next(iter(run.states().live))  # type: ignore[union-attr]
    run._states.drop(2)
    page = live(run=run.id, weight=f"{name}:5").follow_newest(False).look_into(2)
    assert "followed" not in page.charts
    assert any("no longer kept" in text for text in page.texts("caption"))
    assert "followed" in page.look_into(3).charts


def test_a_base_is_followed_too(live: Live, create: Callable[..., Run]) -> None:
    run = create()
    name = next(iter(run.states().live))  # type: ignore[union-attr]
    found = line(live(run=run.id, weight=f"{name}:5"))
    assert (found["bucket"], found["track ũ"]) == ("stored exactly", "–")
    assert found["restored"].endswith("off by 0")


@pytest.mark.parametrize("name", navigation.PAGES)
def test_the_bars_are_on_live_alone_and_both_stay_in_the_url(
    page_of: Callable[[AppTest], Any], weight: Weight, name: str
) -> None:
    def script(name: str) -> None:
        import streamlit as st

        from lcviz import dashboard
        from lcviz.ui import navigation

        dashboard.run(st.navigation([navigation.page(name)], position="hidden"))

    at = AppTest.from_function(script, args=(name,), default_timeout=60)
    at.query_params.update({"weight": str(weight), "bucket": "pos-9"})
    page = page_of(at).run()
    assert (parameter(page, "weight"), parameter(page, "bucket")) == (str(weight), "pos-9")
    shown = "open-my_location" in at.session_state, "open-ink_highlighter" in at.session_state
    assert (*shown, bool(line(page))) == 3 * (name == "live",)


def test_buckets_by_name() -> None:
    for key in ((-7, 0), (3, 1), (-127, 1)):
        assert follow_weight.read_bucket(follow_weight.bucket_name(key)) == key
    for text in ("", "none", "pos", "pos-", "pos--3", "+7", "posx", "pos³"):
        assert follow_weight.read_bucket(text) is None
