"""The Learn page as Streamlit runs it: what its pictures are given, and the link."""

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from tests.lcviz.common import Make, stepped

pytestmark = pytest.mark.usefixtures("server")

RUN = {"carry": "16 weights of this run"}


def data(page: Any) -> dict[str, Any]:
    """What the pictures draw."""
    (found,) = page.at.get("bidi_component")
    shown: dict[str, Any] = json.loads(found.proto.json)[0]
    return shown


def test_the_page_opens_on_the_paper_s_example(learning: Make) -> None:
    page = learning()
    shown = data(page)
    assert shown["live"] == read_numbers(TRAINED) == shown["home"]
    assert shown["track"] == read_numbers(TRACK)
    start = {"x": 2, "followed": 2, "merges": 15, "folded": 0, "fine": 8, "answers": {}}
    assert (shown["start"], shown["tables"]) == (start, False)
    assert not page.at.table
    page.at.session_state["tables"] = True  # as the switch below every page does
    page.run()
    assert data(page)["tables"]
    assert len(page.at.table) == 1


def test_numbers_of_one_s_own(learning: Make) -> None:
    page = learning(u="1 2 4", track="0 0 −0.5")
    assert [m["delta"] for m in data(page)["lessons"][0]["lesson"]["numbers"]] == [1, 2, 4.5]
    for text, problem in (
        ("1 2", "There are 2 trained weights, but 3 in the track"),
        ("1 2 nan", "“nan” is not finite. The pictures show the last good numbers."),
        ("1 2 0,5", "“0,5” is not a number (write 0.76, with a point)"),
        ("", "Enter numbers."),
        ("![a](x) 2 3", "“!\\[a\\](x)” is not a number"),
    ):
        page.set("text_input", "u", text)
        (told,) = (t for t in page.texts("markdown") if t.startswith(":red["))
        assert problem in told.replace("\u2060", "").replace("\\!", "!").replace("\\(", "(")
        assert data(page)["live"] == [1, 2, 4]  # the last that could be used
    page.set("text_input", "track", "0 1e99 0")
    told = [t for t in page.texts("markdown") if t.startswith(":red[")]
    assert len(told) == 2  # each at its field
    assert "“1e99” is too large" in told[1]
    page.set("text_input", "track", "0 0 −0.5")
    page.set("text_input", "u", "0 0 -0.5")  # nothing has changed
    assert not any(t.startswith(":red[") for t in page.texts("markdown"))
    assert data(page)["lessons"][1]["lesson"]["bits"]["h"] == 0


def test_a_link_with_wrong_numbers_shows_the_example(learning: Make) -> None:
    page = learning(u="1 2 nan")
    assert data(page)["live"] == read_numbers(TRAINED)
    told = "“nan” is not finite. The pictures show the example."
    assert page.shows(told)


def test_weights_of_the_run(learning: Make) -> None:
    page = learning(**RUN)
    assert not page.texts("error") + page.texts("warning")
    states = page.the_run.saved.states()
    assert states is not None
    assert page.shows(f"of step {states.step}.", "caption")
    shown = data(page)
    assert len(shown["live"]) == 16
    deltas = [abs(m["delta"]) for m in shown["lessons"][0]["lesson"]["numbers"]]
    biggest = max(float(abs(states.live[n] - states.before[n]).max()) for n in states.live)
    assert max(deltas) == biggest
    every = np.concatenate([a.ravel() for a in states.live.values()])
    assert set(shown["live"]) <= set(every.tolist())


def test_a_link_has_what_was_done(learning: Make) -> None:
    asked = {"learn_bits": "all", "learn_follow": "b", "learn_merges": "3", "learn_folded": "6"}
    asked |= {"learn_tolerance": "12", "learn_answers": "delta-2,slots-1"}
    page = learning(**asked)
    done = {"x": None, "followed": 1, "merges": 3, "folded": 6, "fine": 12}
    assert data(page)["start"] == done | {"answers": {"delta": 1, "slots": 0}}
    kept = {name: page.at.query_params[name] for name in asked}
    assert {k: v[0] if isinstance(v, list) else v for k, v in kept.items()} == asked
    nonsense = {"learn_bits": "9", "learn_follow": "?", "learn_answers": "delta-9,<b>-1,,runs"}
    start = data(learning(**nonsense, learn_merges="²"))["start"]
    assert start == {"x": 2, "followed": 0, "merges": 0, "folded": 0, "fine": 8, "answers": {}}


def test_what_was_done_while_the_server_started(learning: Make) -> None:
    moved = [*read_numbers(TRAINED)[:-1], 0.25]
    done = {"x": 3, "followed": 1, "merges": 2, "folded": 0, "fine": 3, "answers": {"runs": 0}}
    page = learning(held={"sent-events": {"told": done | {"live": moved}}})
    shown = data(page)
    assert shown["live"] == read_numbers(page.at.query_params["u"]) == moved
    assert (shown["home"], shown["start"]) == (read_numbers(TRAINED), done)
    assert page.at.session_state["sent-events"] == {}


def test_which_checkpoint(learning: Make, create: Make) -> None:
    """The shown one stays until another is asked for, and a link has it."""
    run = create()
    parameters = {"run": run, **RUN}
    page = learning(**parameters)
    assert "Step 0 has no δ" in page.texts("info")[0]
    assert "The pictures show the example." in page.texts("info")[0]
    assert data(page)["live"] == read_numbers(TRAINED)
    for _ in range(3):
        stepped(run)
        assert "The checkpoint of step 1." in page.run().texts("caption")[-1]
    (button,) = (b for b in page.at.button if b.label == "Take the newest checkpoint, step 3")
    button.click()
    assert "The checkpoint of step 3." in page.run().texts("caption")[-1]
    assert page.at.query_params["learn_step"] in ("3", ["3"])
    page = learning(**parameters, learn_step="2")
    assert "The checkpoint of step 2." in page.texts("caption")[-1]
    gone = learning(**parameters, learn_step="77")
    assert "Step 77 of this link is no longer kept" in gone.texts("info")[0]
    assert "The checkpoint of step 3." in gone.run().texts("caption")[-1]
    assert not gone.texts("info")


@pytest.fixture
def learning(visit: Make) -> Make:
    """The Learn page, opened with these values in the URL, maybe some in the session."""
    return partial(visit, "learn")
