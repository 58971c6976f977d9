"""The Learn page as Streamlit runs it: questions first, and everything follows the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from lcviz.learn.page_example import TRACK, TRAINED, read_numbers

pytestmark = pytest.mark.usefixtures("server")

STEPS = ["1 · δ", "2 · E", "3 · P", "4 · H", "5 · A"]
DELTA = ["0.76", "−0.48", "0.2", "0.07", "0.18", "0.49", "0.14", "0.39", "0.82", "0.09"]
PROMOTED = ["0.79", "−0.48", "0", "0", "0", "0.44", "0", "0.44", "0.79", "0"]
RIGHT = ["0.2", "5", "3", "0", "0.2"]
Learning = Callable[..., Any]


def titles(page: Any) -> list[str]:
    return [text[:5] for text in page.texts("subheader")]


def said(page: Any) -> str:
    return "\n".join(page.texts("markdown"))


def answer(page: Any, *choices: str) -> None:
    """Answer the last question on the page, again and again."""
    for choice in choices:
        page.at.radio[-1].set_value(choice)
        page.run()


def table(page: Any, row: str) -> list[str]:
    """A row of the last table that has it, without the bold type."""
    for found in reversed(page.at.table):
        if row in found.value.index:
            return [str(cell).strip("*") for cell in found.value.loc[row]]
    raise AssertionError(row)


def test_right_answers_open_step_after_step(learning: Learning) -> None:
    page = learning()
    assert titles(page) == STEPS[:1]
    assert [(r.value, sorted(r.options)) for r in page.at.radio] == [(None, ["0.2", "1.2", "2.2"])]
    assert not [t for t in page.at.table if "δ = u − ũ" in t.value.index]
    for done, choice in enumerate(RIGHT, 1):
        answer(page, choice)
        assert len(page.texts("success")) == done
        assert titles(page) == STEPS[: min(done + 1, 5)]
    assert not page.texts("warning") + page.texts("error")
    assert table(page, "δ = u − ũ") == DELTA
    assert table(page, "after P") == PROMOTED
    assert "18 bits for 10 numbers, which as float32 are 320 bits" in said(page)
    page.set("select_slider", "learn_bits", 1)  # other numbers: what was opened stays open
    assert titles(page) == STEPS
    assert table(page, "after P") == ["0.79", "0", "0", "0", "0", "0", "0", "0", "0.79", "0"]
    page.set("segmented_control", "learn_scope", "tensor")
    assert table(page, "tensor") == ["w"] * 6 + ["b"] * 4


@pytest.mark.parametrize(
    ("step", "wrong"), list(enumerate(["2.2", "4", "4", "0.44", "0: it is lost"]))
)
def test_a_wrong_answer_is_told_and_opens_it_too(step: int, wrong: str, learning: Learning) -> None:
    page = learning()
    answer(page, *RIGHT[:step], wrong)
    (warning,) = page.texts("warning")
    assert warning.startswith(f"Not {wrong}")
    assert titles(page) == STEPS[: min(step + 2, 5)]


def test_all_buckets(learning: Learning) -> None:
    page = learning(everything="true", learn_bits="all")
    assert "“All” keeps every bucket" in said(page)
    assert table(page, "written") == table(page, "after E")


def test_numbers_of_one_s_own(learning: Learning) -> None:
    page = learning(everything="true", u="1 2 4", track="0 0 −0.5")
    assert table(page, "δ = u − ũ") == ["1", "2", "4.5"]
    page.set("text_input", "u", "1 2")
    assert "2 trained weights, but 3 in the track" in page.texts("error")[0]
    page.set("text_input", "u", "1 2 nan")
    assert "“nan” is not finite" in page.texts("error")[0]
    page.set("text_input", "u", "1 2 0,5")
    assert "write 0.76, with a point" in page.texts("error")[0]
    page.set("text_input", "u", "0 0 -0.5")  # nothing has changed
    assert not page.texts("error")
    assert "no bits needed" in said(page)


def test_weights_of_the_run(learning: Learning) -> None:
    page = learning(everything="true", carry="16 weights of this run")
    assert not page.texts("error") + page.texts("warning")
    assert titles(page) == STEPS
    (found,) = (
        t.value
        for t in page.at.table
        if "u" in t.value and "ũ" in t.value and "written" not in t.value
    )
    run = page.the_run
    states = run.states()
    assert states is not None
    assert len(found) == 16
    assert any(f"of step {states.step}." in text for text in page.texts("caption"))
    biggest = max(float(abs(states.live[n] - states.before[n]).max()) for n in states.live)
    shown = [abs(float(t.strip("*").replace("−", "-"))) for t in found["δ = u − ũ"]]
    assert max(shown) == pytest.approx(biggest, rel=1e-5)


def link(page: Any, **widgets: str) -> dict[str, str]:
    """The URL's parameters: those that the page has set, and widgets' own, which a browser sets."""
    told = {k: v[0] if isinstance(v, list) else v for k, v in page.at.query_params.items()}
    return told | widgets


def test_a_link_has_the_answers(learning: Learning) -> None:
    page = learning()
    answer(page, *RIGHT[:2], "2")
    given = {str(r.key): str(r.value) for r in page.at.radio if r.value is not None}
    assert len(given) == 3
    again = learning(**link(page, **given))
    assert [r.value for r in again.at.radio] == [*RIGHT[:2], "2", None]
    assert titles(again) == STEPS[:4]
    assert len(again.texts("success")) == 2
    assert "Not 2" in again.texts("warning")[0]
    other = learning(**link(page, **given, learn_bits="1"))  # P's question is another one
    assert [r.value for r in other.at.radio] == [*RIGHT[:2], None, None]


def test_a_link_has_what_was_opened(learning: Learning) -> None:
    page = learning().click("show-delta")
    assert "1.2 − 1 = 0.2" in said(page)
    page.click("show-exponents")
    assert link(page) == {"learn_opened": "delta,exponents"}
    again = learning(**link(page))
    assert titles(again) == STEPS[:3]
    assert not page.texts("success") + again.texts("success")
    assert titles(learning(learn_opened="huffman,nonsense,<b>")) == STEPS[:1]


def test_a_link_has_the_number_and_the_bits_written(learning: Learning) -> None:
    page = learning(everything="true", learn_follow_ten="b", learn_written_10="3")
    assert "−0.73 − (−0.25) = −0.48" in said(page)
    assert "b is in a bucket that is kept: −0.48 is written" in said(page)
    assert ":blue-background[10]:orange-background[110]:blue-background[0]" in said(page)
    assert "6 bits for 3 numbers" in said(page)


def test_the_tree_is_built_step_by_step_and_stands_in_the_link(learning: Learning) -> None:
    page = learning(everything="true")
    for done in range(4):
        assert f"merge {done} of 3" in said(page)
        assert len(page.chart("growing-tree")["series"][0]["data"]) == 2 * done
        assert page.at.button(key="tree-back").disabled == (done == 0)
        assert page.at.button(key="tree-forward").disabled == (done == 3)
        if done < 3:
            page.click("tree-forward")
    page.click("tree-back")
    assert link(page)["learn_merges"] == "2"
    again = learning(**link(page))
    assert "merge 2 of 3" in said(again)
    again.set("select_slider", "learn_bits", 1)  # another tree begins at its leaves
    assert "merge 0 of 1" in said(again)
    assert "learn_merges" not in link(again)
    for text, done in (("99", 3), ("x", 0), ("²", 0)):
        assert f"merge {done} of 3" in said(learning(everything="true", learn_merges=text))


def test_which_checkpoint(learning: Learning, create: Callable[..., Any]) -> None:
    """The shown one stays until another is asked for, and a link has it."""
    run = create()
    parameters = {"run": run.id, "carry": "16 weights of this run"}
    page = learning(**parameters)
    assert "Step 0 has no δ" in page.texts("info")[0]
    for _ in range(3):
        run.step()
        run.wait(60)
        assert "The checkpoint of step 1." in page.run().texts("caption")[-1]
    (button,) = (b for b in page.at.button if b.label == "Take the newest checkpoint, step 3")
    button.click()
    assert "The checkpoint of step 3." in page.run().texts("caption")[-1]
    assert link(page)["learn_step"] == "3"
    page = learning(**parameters, learn_step="2")
    assert "The checkpoint of step 2." in page.texts("caption")[-1]
    gone = learning(**parameters, learn_step="77")
    assert "Step 77 of this link is no longer in memory" in gone.texts("info")[0]
    assert "The checkpoint of step 3." in gone.run().texts("caption")[-1]
    assert not gone.texts("info")


def test_reading_numbers() -> None:
    assert len(read_numbers(TRAINED)) == len(read_numbers(TRACK)) == 10
    assert read_numbers(" 1, −2;\t3e-1 ") == [1.0, -2.0, pytest.approx(0.3)]
    for text, problem in (("", "enter"), ("1 x", "“x”"), ("1e31", "too large"), ("inf", "“inf”")):
        with pytest.raises(ValueError, match=problem):
            read_numbers(text)


@pytest.fixture
def learning(page_of: Callable[[AppTest], Any]) -> Learning:
    """The Learn page, opened with these URL parameters."""

    def script() -> None:
        from lcviz.learn import page as learn

        learn.page()

    def open_page(**parameters: str) -> Any:
        at = AppTest.from_function(script, default_timeout=60)
        for name, value in parameters.items():
            at.query_params[name] = value
        return page_of(at).run()

    return open_page
