"""A finger drags what can be dragged to its end; the page beneath does not scroll."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lcviz.ui import recording
from lcviz.ui.picture import drawing, style

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FAR = 160  # pixels: a browser that takes a drag for scrolling ends it after 15 to 50
MODULE = """%s
const host = document.createElement("div");
document.body.append(host);
window.told = [];
draw({ data: %s, parentElement: host, setTriggerValue: (...what) => told.push(what) });
"""
DRAGGED = {
    "buckets": ("pictures", "circle.handle"),
    "learn": ("", "[data-picture=delta] circle[role=slider] >> nth=1"),
}


def drag(page: Page, what: str) -> None:
    """With one finger, to the right and a little down."""
    box = page.locator(what).bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch = page.context.new_cdp_session(page)
    for kind, moved in (("touchStart", 0), *(("touchMove", 8 * i) for i in range(FAR // 8 + 1))):
        points = [{"x": x + moved, "y": y + moved / 10}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.evaluate("new Promise(requestAnimationFrame)")
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.parametrize("name", DRAGGED)
def test_a_finger_drags_to_the_end(browser: Browser, name: str) -> None:
    group, handle = DRAGGED[name]
    recorded = json.loads(recording.FILE.read_text())
    data = recorded[group][name] if group else recorded[name]
    window = {"width": 390, "height": 600}
    look = style().replace(":host", ":root") + "body { height: 3000px }"
    with browser.new_context(viewport=window, has_touch=True, is_mobile=True) as context:
        page = context.new_page()
        page.set_content(
            f"<!DOCTYPE html><meta name=viewport content='width=device-width'><style>{look}</style>"
        )
        page.add_script_tag(content=MODULE % (drawing(name), json.dumps(data)))
        cancelled = "node => node.addEventListener('pointercancel', () => window.lost = true)"
        page.locator(handle).evaluate(cancelled)
        before = page.locator(handle).bounding_box()
        drag(page, handle)
        after = page.locator(handle).bounding_box()
        assert page.evaluate("[window.lost ?? false, scrollY]") == [False, 0]
        assert before is not None
        assert after is not None
        assert after["x"] - before["x"] == pytest.approx(FAR, abs=30)
