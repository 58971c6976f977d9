"""Labels in pictures are whole: no half rows, no number under a line; a cut name can be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lcviz.ui import recording
from lcviz.ui.picture import drawing, style

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HALF_SEEN = """() => {
    const end = document.querySelector('.words').getBoundingClientRect().bottom;
    return [...document.querySelectorAll('.row > span')].map(node => node.getBoundingClientRect())
        .filter(box => box.top < end && end < box.bottom).length;
}"""
SELECT = """select => [select.title, getComputedStyle(select).textOverflow]"""
TOPMOST = """() => [...document.querySelector('svg').children].map(group => group.classList[0])"""
NAME = "blocks.0.attention.projection.weight"


def shown(browser: Browser, name: str, width: int, **more: Any) -> Page:
    """A page with nothing but a recorded picture, with other data."""
    data = json.loads(recording.FILE.read_text())["pictures"][name] | more
    page = browser.new_page(offline=True, viewport={"width": width, "height": 500})
    page.set_content(f"<!DOCTYPE html><style>{style().replace(':host', ':root')}</style><main>")
    page.add_script_tag(content=f"{drawing(name)} window.draw = draw")
    page.evaluate(
        "data => draw({ data, parentElement: document.querySelector('main'), "
        "setTriggerValue: () => {} })",
        data,
    )
    return page


@pytest.mark.parametrize("width", [330, 390, 414, 480])
def test_rows_of_code_words_are_whole(browser: Browser, width: int) -> None:
    words = [{"bits": "1" * (3 + i % 11), "sign": i % 2, "title": ""} for i in range(40)]
    with shown(browser, "bits", width, words=words) as page:
        assert page.evaluate(HALF_SEEN) == 0


def test_shares_say_what_they_are(browser: Browser) -> None:
    words = [{"bits": "5.1", "sign": 0, "title": "3 zeros, then +1 step"}]
    with shown(browser, "bits", 390, words=words, words_are="Bits of each change:") as page:
        texts = page.locator(".words .about, .words .row > span").all_text_contents()
        assert texts == ["Bits of each change:", "5.1"]


def test_a_cut_name_ends_in_an_ellipsis_and_is_whole_on_hover(browser: Browser) -> None:
    with shown(browser, "weights", 390, tensors=[NAME, "b"], tensor=NAME) as page:
        assert page.locator("select").evaluate(SELECT) == [NAME, "ellipsis"]


def test_the_cut_strikes_no_number(browser: Browser) -> None:
    """Its line is below the bars, whose numbers have the page's colour around them."""
    with shown(browser, "buckets", 390) as page:
        assert page.evaluate(TOPMOST) == ["edge", "level", "bars", "axis", "cut"]
        number = page.locator("g.bars text").first
        assert number.evaluate("node => getComputedStyle(node).strokeWidth") == "3px"
