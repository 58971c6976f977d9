"""Learn in a browser: by keyboard, the tree that builds itself, and the link."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


def test_a_reader_and_the_link_of_what_was_opened(tab: MakeTab) -> None:
    visitor = tab().open("/learn")
    page, expecting = visitor.page, visitor.expecting

    def step(name: str) -> Any:
        return page.locator(f".st-key-{name}")

    step("delta").get_by_role("radio", name="0.2", exact=True).press("Space")
    expecting(step("delta").get_by_text(re.compile("^Right"))).to_be_visible()
    for name in ("exponents", "promotion", "huffman"):
        step(name).get_by_role("button", name="Show me").click()
    tree = step("huffman")
    forward = tree.get_by_role("button", name="Merge the two rarest")
    expecting(tree.get_by_role("button", name="Back")).to_be_disabled()
    tree.get_by_role("button", name="Play").click()  # by itself to its end
    expecting(tree.get_by_text("merge 3 of 3")).to_be_visible()
    expecting(forward).to_be_disabled()
    expecting(tree.locator(".stEChartsChart svg text").filter(has_text="10")).to_have_count(1)
    tree.get_by_role("button", name="Back").click()
    expecting(tree.get_by_text("merge 2 of 3")).to_be_visible()
    tree.get_by_role("slider", name="Numbers written").press("Home")
    expecting(tree.get_by_text("0 bits for 0 numbers")).to_be_visible()
    for key in (r"learn_delta_\w+=0\.2", "learn_opened=delta", "learn_merges=2", "written_10=0"):
        expecting(page).to_have_url(re.compile(key))

    page.reload()
    expecting(tree.get_by_text("merge 2 of 3")).to_be_visible()
    expecting(tree.get_by_text("0 bits for 0 numbers")).to_be_visible()
    expecting(step("delta").get_by_role("radio", name="0.2", exact=True)).to_be_checked()
    expecting(page.get_by_text(re.compile("^Right"))).to_have_count(1)
    visitor.go("Live")
    expecting(page.get_by_role("heading", name="LC-Checkpoint, live")).to_be_visible()
    visitor.go("Learn")
    expecting(tree.get_by_text("merge 2 of 3")).to_be_visible()
    expecting(page).to_have_url(re.compile("learn_opened=delta"))

    page.get_by_text("Open all steps at once").click()
    expecting(visitor.chart("stages")).to_be_visible()
    assert page.get_by_test_id("stTable").count() >= 6
    visitor.check_fits()
    page.get_by_role("slider", name="Bits x for priority promotion").press("ArrowLeft")
    expecting(step("promotion").get_by_text("x = 1", exact=True)).to_be_visible()
    box = page.get_by_role("textbox", name="Trained weights u")
    box.fill("1.26 -0.73 1.2 0.32 -0.32 0.615 0.14 -0.36 1.07 3.5")
    box.press("Enter")
    row = step("delta").get_by_role("row").last
    expecting(row.get_by_text("3", exact=True)).to_be_visible()
    expecting(page).to_have_url(re.compile(r"learn_bits=1.*u=1\.26|u=1\.26.*learn_bits=1"))
    visitor.check()
