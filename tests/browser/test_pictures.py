"""Pictures alone: labels are whole, a finger drags to the end, and a recording cannot be used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from lcviz.ui import picture, recording

if TYPE_CHECKING:
    from playwright.sync_api import Page

Alone = Callable[..., "Page"]
RECORDED = json.loads(recording.FILE.read_text())
HALF_SEEN = """() => {
    const end = document.querySelector('.words').getBoundingClientRect().bottom;
    return [...document.querySelectorAll('.row > span')].map(node => node.getBoundingClientRect())
        .filter(box => box.top < end && end < box.bottom).length;
}"""
SELECT = """select => [select.title, getComputedStyle(select).textOverflow]"""
TOPMOST = """() => [...document.querySelector('svg').children].map(group => group.classList[0])"""
NAME = "blocks.0.attention.projection.weight"


def shown(alone: Alone, name: str, width: int = 390, **more: Any) -> Page:
    """A recorded picture with other data."""
    return alone(name, RECORDED["pictures"][name] | more, width)


def test_rows_of_code_words_are_whole_and_shares_say_what_they_are(alone: Alone) -> None:
    word = {"exponent": None, "steps": 1, "run": 3, "weight": None, "pixel": None, "here": False}
    words = [word | {"bits": "1" * (3 + i % 11), "sign": i % 2} for i in range(40)]
    page = shown(alone, "bits", words=words)
    for width in (330, 390, 414, 480):
        page.set_viewport_size({"width": width, "height": 500})
        page.evaluate("show", RECORDED["pictures"]["bits"] | {"words": words, "nbytes": width})
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
    data = RECORDED["pictures"]["buckets"]
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
    ("name", "data", "handle"),
    [
        ("buckets", RECORDED["pictures"]["buckets"], "circle.handle"),
        ("learn", RECORDED["learn"], "[data-picture=delta] circle[role=slider] >> nth=1"),
    ],
)
def test_a_finger_drags_to_the_end(alone: Alone, name: str, data: Any, handle: str) -> None:
    """To the right and a little down; the page beneath does not scroll."""
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


DRAW = """([name, data]) => {
    const id = `host-${name}`;
    const host = document.getElementById(id) ?? document.createElement("div");
    host.id = id;
    document.body.append(host);
    const nothing = () => {};
    const parts = { parentElement: host, setTriggerValue: nothing, setStateValue: nothing };
    window[`draw-${data.picture}`]({ data, ...parts });
}"""


def focused(page: Page) -> set[str]:
    """What the Tab key comes to."""
    found = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        found.add(str(page.evaluate("document.activeElement.tagName")))
    return found


def test_nothing_in_a_recording_can_be_used(browser: Any) -> None:
    """Once the pictures of a run come in their places, they can be."""
    with browser.new_page() as page:
        page.add_style_tag(content=picture.style())
        for name, data in RECORDED["pictures"].items():
            script = picture.drawing(data["picture"])
            drawn = "one => draw({ ...one, data: said(one.data) })"
            script += f"\nwindow['draw-{data['picture']}'] = {drawn};"
            page.add_script_tag(content=script, type="module")
            page.wait_for_function(f"() => window['draw-{data['picture']}']")
            page.evaluate(DRAW, [name, data | {"recorded": True}])
        images = page.get_by_role("img", name=re.compile("^A recording[.] "))
        assert images.count() == len(RECORDED["pictures"])
        assert focused(page) == {"BODY"}
        handle, choices = page.locator("circle.handle"), page.locator(".choices").first
        opacity = "node => getComputedStyle(node).opacity"
        assert not handle.is_visible()
        assert choices.evaluate(opacity) == "0.45"
        for name, data in RECORDED["pictures"].items():
            page.evaluate(DRAW, [name, data])
        assert images.count() == 0
        assert handle.is_visible()
        assert choices.evaluate(opacity) == "1"
        assert focused(page) > {"circle", "BUTTON"}
