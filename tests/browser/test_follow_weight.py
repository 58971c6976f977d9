"""A bucket highlighted by a click, and a term explained, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


def rims(page: Any, key: str) -> Any:
    rim = "[style*='rgb(204, 121, 167)'][style*='stroke-width: 3px']"
    return page.locator(f".st-key-panel-{key} .bars path{rim}")


def test_a_click_on_a_bar_highlights_its_bucket_in_all_charts(tab: MakeTab) -> None:
    visitor = tab().open("/?details=true&step=600")
    page = visitor.page
    visitor.expecting(page.get_by_text("Error when one bucket of step 600")).to_be_visible()
    bars = page.locator("[data-picture=buckets] g.bars > g")
    rim = page.locator("[data-picture=buckets] rect[stroke-width='3']")
    visitor.expecting(rim).to_have_count(0)
    tall = bars.filter(has=page.locator("title", has_text="+2⁻⁹")).locator("rect").last
    tall.click()
    visitor.expecting(page).to_have_url(re.compile(r"bucket=pos-9"))
    visitor.expecting(rim).to_have_count(2)  # of what is kept and what is not
    visitor.expecting(rims(page, "removed")).to_have_count(1)
    keep = page.locator(".st-key-panel-by-bits svg").get_by_text("keep +2⁻⁹")
    visitor.expecting(keep).to_be_visible()
    tall.click()
    visitor.expecting(rim).to_have_count(0)
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
