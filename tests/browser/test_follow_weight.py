"""A bucket highlighted by a click, and a term explained, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


def histogram(page: Any) -> Any:
    return page.locator(".st-key-panel-buckets svg")


def rims(page: Any, key: str) -> Any:
    return page.locator(f".st-key-panel-{key} svg path[stroke='#CC79A7'][stroke-width='3']")


def test_a_click_on_a_bar_highlights_its_bucket_in_all_charts(tab: MakeTab) -> None:
    visitor = tab().open("/")
    page = visitor.page
    visitor.expecting(page.get_by_text("Error when one bucket of step 40")).to_be_visible()
    visitor.expecting(rims(page, "buckets")).to_have_count(0)
    solid = histogram(page).locator("path[fill='#0072B2']:not([fill-opacity])")
    visitor.expecting(solid.last).to_be_attached()
    page.locator(".st-key-panel-buckets").scroll_into_view_if_needed()
    boxes = [bar.bounding_box() for bar in solid.all()]
    tall = max((b for b in boxes if b), key=lambda b: b["height"])  # the legend's are small
    page.mouse.click(tall["x"] + tall["width"] / 2, tall["y"] + tall["height"] / 2)
    visitor.expecting(page).to_have_url(re.compile(r"bucket=pos-\d"))
    visitor.expecting(rims(page, "buckets")).to_have_count(1)
    visitor.expecting(rims(page, "removed")).to_have_count(1)
    visitor.expecting(page.get_by_text("Highlighted:").first).to_be_visible()
    visitor.expecting(page.locator(".st-key-panel-bits svg").get_by_text("keep")).to_be_visible()
    visitor.check()


def test_a_word_is_explained_where_it_stands(tab: MakeTab) -> None:
    visitor = tab().open("/")
    page = visitor.page
    visitor.go("Inspect")
    word = page.get_by_role("link", name="record", exact=False).first
    visitor.expecting(word).to_have_attribute("title", re.compile("One file of a chain"))
    with page.context.expect_page() as opened:  # what was being looked at stays
        word.click()
    glossary = opened.value
    visitor.expecting(glossary.get_by_role("heading", name="Glossary")).to_be_visible()
    asked = glossary.locator(".st-key-glossary-asked")
    visitor.expecting(asked).to_contain_text("One file of a chain")
    asked.get_by_role("link", name="Inspect").click()
    visitor.expecting(glossary.get_by_role("heading", name="Inspect a chain")).to_be_visible()
    visitor.check()
