"""One weight through all pictures, and a term explained, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


RING = "[data-picture=weights] .ring"


def followed(page: Any) -> Any:
    """The name of the followed weight."""
    return page.locator("[data-title='One weight'] .about")


def test_one_weight_runs_through_all_pictures(tab: MakeTab) -> None:
    """A click on a pixel, a bar or a code word follows a weight; the others show it."""
    visitor = tab().open("/?step=600&weight=linear.weight:1234")
    page, expecting = visitor.page, visitor.expecting
    expecting(followed(page)).to_have_text("linear.weight (1, 450)")
    visitor.settled()
    image = page.locator("[data-picture=weights] .map")
    size = image.bounding_box()
    across, down = size["width"] / 144, size["height"] / 57  # ten tiles of 28 x 28, five in a row
    at = {"x": 10.5 * across, "y": 12.5 * down}
    told = page.locator("[data-picture=weights] .told")
    image.hover(position=at)
    expecting(told).to_contain_text(re.compile(r"δ = u − ũ = .*(bucket|no change)"))
    page.mouse.click(size["x"] + at["x"], size["y"] + at["y"])
    expecting(followed(page)).to_have_text(f"linear.weight (0, {12 * 28 + 10})")
    expecting(page).to_have_url(re.compile(rf"weight=linear.weight%3A{12 * 28 + 10}"))

    bars = page.locator("[data-picture=buckets] g.bars > g")
    rim = page.locator("[data-picture=buckets] g.bars > g:has(rect[stroke-width='3'])")
    first = bars.first
    first.hover()
    expecting(page.locator("[data-picture=buckets] .told")).to_contain_text("of δ is lost")
    first.click()
    expecting(rim).to_have_attribute("data-of", first.get_attribute("data-of"))
    before = followed(page).inner_text()

    word = page.locator("[data-picture=bits] .row > span:not(.here):not(.none)").last
    word.hover()
    expecting(page.locator(f"{RING}.at")).to_be_visible()  # its pixel
    word.click()
    expecting(followed(page)).not_to_have_text(before)
    expecting(page.locator("[data-picture=bits] .row > .here")).to_have_count(1)
    visitor.check()


def test_bars_of_equal_steps_follow_a_weight(tab: MakeTab) -> None:
    visitor = tab().open("/?step=600&weight=linear.weight:1234&keep=Budget&budget=6")
    page, expecting = visitor.page, visitor.expecting
    bars = page.locator("[data-picture=steps] g.bars > g")
    rim = page.locator("[data-picture=steps] g.bars > g:has(rect[stroke-width='3'])")
    expecting(rim).to_have_count(1)
    visitor.settled()
    first = bars.first
    first.hover()
    told = page.locator("[data-picture=steps] .told")
    expecting(told).to_contain_text(re.compile("−.* steps?: .* value"))
    before = followed(page).inner_text()
    first.click()
    expecting(followed(page)).not_to_have_text(before)
    visitor.settled()
    expecting(rim).to_have_attribute("data-key", first.get_attribute("data-key"))
    first.press("ArrowRight")
    expecting(bars.nth(1)).to_be_focused()
    page.locator("[data-picture=weights] .map").hover(position={"x": 30, "y": 30})
    expecting(page.locator("[data-picture=steps] rect.pointed")).to_have_count(1)
    visitor.check()


def test_keys_read_pixels_bars_and_words(tab: MakeTab) -> None:
    visitor = tab().open("/?step=600&weight=linear.weight:1234")
    page, expecting = visitor.page, visitor.expecting
    expecting(followed(page)).to_have_text("linear.weight (1, 450)")
    visitor.settled()
    pixels = page.locator("[data-picture=weights] .map")
    pixels.press("ArrowRight")
    expecting(page.locator("[data-picture=weights] .told")).to_contain_text("ũ")
    pixels.press("Enter")
    expecting(followed(page)).to_have_text("linear.weight (1, 451)")
    visitor.settled()
    bars = page.locator("[data-picture=buckets] g.bars > g")
    bars.first.press("ArrowRight")
    expecting(bars.nth(1)).to_be_focused()
    expecting(page.locator("[data-picture=buckets] .told")).to_contain_text("values")
    words = page.locator("[data-picture=bits] .row > span")
    words.first.press("ArrowLeft")
    expecting(words.last).to_be_focused()
    visitor.check()


def test_tab_goes_through_all_pictures(tab: MakeTab) -> None:
    visitor = tab().open("/?step=600")
    page, expecting = visitor.page, visitor.expecting
    expecting(followed(page)).to_be_visible()
    visitor.settled()
    page.get_by_role("slider", name="Show step").focus()
    details = page.get_by_role("switch", name="Details")
    for _ in range(60):
        page.keyboard.press("Tab")
        if details.evaluate("node => node === document.activeElement"):
            break
    expecting(details).to_be_focused()
    visitor.check()


def test_a_word_keeps_the_focus_while_it_moves(tab: MakeTab) -> None:
    """A followed weight's word comes first: whoever pressed Enter on it is still there."""
    visitor = tab().open("/?step=600&weight=linear.weight:1234")
    page, expecting = visitor.page, visitor.expecting
    expecting(followed(page)).to_have_text("linear.weight (1, 450)")
    visitor.settled()
    word = page.locator("[data-picture=bits] .row > span:not(.here):not(.none)").last
    word.focus()
    word.press("Enter")
    expecting(followed(page)).not_to_have_text("linear.weight (1, 450)")
    visitor.settled()
    expecting(page.locator("[data-picture=bits] .row > span:focus")).to_have_count(1)
    visitor.check()


def test_the_error_without_a_bucket(tab: MakeTab) -> None:
    """Values or error: the losses are measured when somebody asks for them."""
    visitor = tab().open("/?step=600")
    page, expecting = visitor.page, visitor.expecting
    expecting(followed(page)).to_be_visible()
    visitor.settled()
    buckets = page.locator("[data-picture=buckets]")
    buckets.get_by_role("button", name="error without it").click()
    expecting(buckets.locator("p.text")).to_contain_text("the loss is")
    first = buckets.locator("g.bars > g").first
    assert first.get_attribute("data-quantity") == "error-without-bucket"
    assert 0 < float(first.get_attribute("data-value")) <= 1
    first.hover()
    expecting(buckets.locator(".told")).to_contain_text("loss without it")
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
