"""Pictures alone: labels are whole, keys reach their parts, a finger drags to the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from lcviz.play.given import recorded
from tests.played import facts

if TYPE_CHECKING:
    from playwright.sync_api import Page

Alone = Callable[..., "Page"]
HALF_SEEN = """() => {
    const end = document.querySelector('.words').getBoundingClientRect().bottom;
    return [...document.querySelectorAll('.row > span')].map(node => node.getBoundingClientRect())
        .filter(box => box.top < end && end < box.bottom).length;
}"""
SELECT = """select => [select.title, getComputedStyle(select).textOverflow]"""
TOPMOST = """() => [...document.querySelector('svg').children].map(group => group.classList[0])"""
NAME = "blocks.0.attention.projection.weight"


def shown(alone: Alone, name: str, width: int = 390, **more: Any) -> Page:
    """A picture of the example with other data."""
    return alone(name, facts()[name] | more, width)


def test_rows_of_code_words_are_whole_and_shares_say_what_they_are(alone: Alone) -> None:
    word = {"exponent": None, "steps": 1, "run": 3, "weight": None, "pixel": None, "here": False}
    words = [word | {"bits": "1" * (3 + i % 11), "sign": i % 2} for i in range(40)]
    page = shown(alone, "bits", words=words)
    for width in (330, 390, 414, 480):
        page.set_viewport_size({"width": width, "height": 500})
        page.evaluate("show", facts()["bits"] | {"words": words, "nbytes": width})
        assert page.evaluate(HALF_SEEN) == 0
    shared = {"title": "context code", "a_title": "a context code"}
    words = [word | {"bits": "5.1", "sign": 0}]
    page = shown(alone, "bits", words=words, shared=shared, shares=True, followed=None)
    texts = page.locator(".words .about, .words .row > span").all_text_contents()
    assert texts == ["Bits of each change and the zeros before it:", "5.1"]


def test_parts_are_reached_by_arrow_keys(alone: Alone) -> None:
    """One part is in the tab order; what has the focus keeps it when the picture is drawn anew."""
    page = shown(alone, "buckets")
    bars = page.locator("g.bars > g")
    bars.first.press("ArrowRight")
    assert bars.nth(1).evaluate("bar => bar === document.activeElement")
    assert ": 1 value, kept" in page.locator(".told").inner_text()
    assert page.locator("g.bars > g[tabindex='0']").count() == 1
    bars.nth(1).press("Enter")
    assert page.evaluate("sent.at(-1)[0]") == "bucket"
    data = facts()["buckets"]
    page.evaluate("show", data | {"buckets": data["buckets"][1:]})  # its place among them changes
    assert bars.first.evaluate("bar => bar === document.activeElement")
    page = shown(alone, "weights")
    pixels = page.locator(".map")
    pixels.press("ArrowRight")
    assert "ũ" in page.locator(".told").inner_text()
    pixels.press("Enter")
    assert page.evaluate("sent.at(-1)[0]") == "pixel"


def test_a_cut_name_ends_in_an_ellipsis_and_is_whole_on_hover(alone: Alone) -> None:
    page = shown(alone, "weights", tensors=[NAME, "b"], tensor=NAME)
    assert page.locator("select").evaluate(SELECT) == [NAME, "ellipsis"]


def test_the_cut_strikes_no_number(alone: Alone) -> None:
    """Its line is below the bars, whose numbers have the page's colour around them."""
    page = shown(alone, "buckets")
    assert page.evaluate(TOPMOST) == ["edge", "level", "bars", "axis", "cut"]
    number = page.locator("g.bars text").first
    assert number.evaluate("node => getComputedStyle(node).strokeWidth") == "3px"


FAR = 160  # pixels: a browser that takes a drag for scrolling ends it after 15 to 50


@pytest.mark.parametrize(
    ("name", "handle"),
    [
        ("buckets", "circle.handle"),
        ("learn", "[data-picture=delta] circle[role=slider] >> nth=1"),
    ],
)
def test_a_finger_drags_to_the_end(alone: Alone, name: str, handle: str) -> None:
    """To the right and a little down; the page beneath does not scroll."""
    data = recorded()["learn"] if name == "learn" else facts()[name]
    page = alone(name, data, 390, 600, has_touch=True, is_mobile=True)
    page.add_style_tag(content="body { height: 3000px }")
    dragged = page.locator(handle)
    dragged.evaluate("node => node.addEventListener('pointercancel', () => window.lost = true)")
    before = dragged.bounding_box()
    x, y = before["x"] + before["width"] / 2, before["y"] + before["height"] / 2
    touch = page.context.new_cdp_session(page)
    for kind, moved in (("touchStart", 0), *(("touchMove", 8 * i) for i in range(FAR // 8 + 1))):
        points = [{"x": x + moved, "y": y + moved / 10}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.evaluate("new Promise(requestAnimationFrame)")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate("[window.lost ?? false, scrollY]") == [False, 0]
    assert dragged.bounding_box()["x"] - before["x"] == pytest.approx(FAR, abs=30)
