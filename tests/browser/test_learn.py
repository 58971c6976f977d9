"""A reader's walk through Learn: every question answered from what the page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MakeTab = Callable[..., Any]


def learn(tab: MakeTab, **options: Any) -> Any:
    visitor = tab(**options).open()
    visitor.go("Learn")
    visitor.expecting(visitor.page.get_by_role("heading", name="1 · δ")).to_be_visible()
    return visitor


def step(page: Page, name: str) -> Locator:
    return page.locator(f".st-key-{name}")


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def row(place: Locator, name: str) -> list[str]:
    """The cells of a table's row."""
    line = place.get_by_role("row").filter(has=place.page.locator("th", has_text=name)).last
    return line.locator("td").all_inner_texts()


def answer(visitor: Any, place: Locator, choice: str) -> None:
    place.get_by_role("radio", name=choice, exact=True).press("Space")
    visitor.expecting(place.get_by_text(re.compile("^Right"))).to_be_visible()


def test_a_reader_s_walk(tab: MakeTab) -> None:
    visitor = learn(tab)
    page = visitor.page
    expecting = visitor.expecting

    # δ: the track and the model are shown.
    place = step(page, "delta")
    expecting(place.get_by_role("row").nth(2)).to_be_visible()
    trained, track = (list(map(number, row(place, name))) for name in ("u", "ũ"))
    question = place.get_by_text("What is the least").inner_text()
    found = re.search(r"track has (\S+) for (\S+), the model (\S+)\.", question)
    assert found
    i = "abcdefghij".index(found[2])
    assert (number(found[1]), number(found[3])) == (track[i], trained[i])
    answer(visitor, place, f"{trained[i] - track[i]:.6g}")

    # E: sign and exponent stand in the table.
    place = step(page, "exponents")
    expecting(place.get_by_role("row").nth(2)).to_be_visible()
    products = row(place, "±m · 2ᵉ")
    buckets = {(text[0], text.partition("· ")[2]) for text in products}
    answer(visitor, place, str(len(buckets)))
    expecting(place.get_by_text("half of the sum")).to_be_visible()

    # P: so many things can be told apart, and one of them is 0.
    place = step(page, "promotion")
    told = place.get_by_text("things apart").inner_text()
    found = re.search(r"= (\d+) things apart", told)
    assert found
    answer(visitor, place, str(int(found[1]) - 1))
    expecting(place.get_by_role("row").filter(has_text="after P")).to_be_visible()
    promoted = row(place, "after P")
    assert len(promoted) == 10

    # H: the counts are given.
    place = step(page, "huffman")
    counts = dict(
        re.findall(r"(\S+): (\d+) ×", place.get_by_text("How often each occurs").inner_text())
    )
    assert {text: str(promoted.count(text)) for text in promoted} == counts
    answer(visitor, place, max(counts, key=lambda symbol: int(counts[symbol])))

    # The tree: forward, back, and by itself to its end.
    forward = place.get_by_role("button", name="Merge the two rarest")
    back = place.get_by_role("button", name="Back")
    expecting(back).to_be_disabled()
    forward.click()
    expecting(place.get_by_text("merge 1 of 3")).to_be_visible()
    back.click()
    expecting(place.get_by_text("merge 0 of 3")).to_be_visible()
    place.get_by_role("button", name="Play").click()
    expecting(place.get_by_text("merge 3 of 3")).to_be_visible()
    expecting(forward).to_be_disabled()
    expecting(place.locator(".stEChartsChart svg text").filter(has_text="10")).to_have_count(1)

    # The words one after the other are as many bits as the table says.
    cells = place.get_by_role("table").last.locator("tbody tr").all()
    each = [line.locator("td").all_inner_texts() for line in cells]
    bits = sum(int(line[-1]) for line in each)
    expecting(place.get_by_text(f"{bits} bits for 10 numbers")).to_be_visible()

    # What was left out: the row says what is still missing.
    place = step(page, "restart")
    expecting(place.get_by_role("row").filter(has_text="still missing")).to_be_visible()
    missing = row(place, "still missing")
    question = place.get_by_text("was not written").inner_text()
    found = re.search(r"The change of (\S+), ", question)
    assert found
    answer(visitor, place, missing["abcdefghij".index(found[1])])
    expecting(page.get_by_text("Not ", exact=False).filter(has_text="Not 0.")).to_have_count(0)
    visitor.check()


def test_the_numbers_follow_the_hand(tab: MakeTab) -> None:
    """Bits by keyboard, numbers typed in: everything below follows, and stands in the URL."""
    visitor = learn(tab)
    page = visitor.page
    page.get_by_text("Open all steps at once").click()
    place = step(page, "promotion")
    visitor.expecting(place).to_be_visible()
    visitor.expecting(place.get_by_role("row").last).to_be_visible()
    page.get_by_role("slider", name="Bits x for priority promotion").press("ArrowLeft")
    visitor.expecting(place.get_by_text("that tells 2 = 2 things apart")).to_be_visible()
    box = page.get_by_role("textbox", name="Trained weights u")
    box.fill("1.26 -0.73 1.2 0.32 -0.32 0.615 0.14 -0.36 1.07 3.5")
    box.press("Enter")
    visitor.expecting(
        step(page, "delta").get_by_role("row").last.get_by_text("3", exact=True)
    ).to_be_visible()
    visitor.expecting(page).to_have_url(re.compile(r"learn_bits=1.*u=1\.26|u=1\.26.*learn_bits=1"))
    visitor.check()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_scrolls_sideways(tab: MakeTab, theme: str) -> None:
    visitor = learn(tab, color_scheme=theme)
    page = visitor.page
    page.get_by_text("Open all steps at once").click()
    visitor.expecting(step(page, "restart").locator(".stEChartsChart svg")).to_be_visible()
    tables = page.get_by_test_id("stTable")
    main = "() => { const m = document.querySelector('[data-testid=stMain]');"
    cut = "nodes => nodes.filter(n => n.scrollWidth > n.clientWidth + 1).length"
    for width in (1400, 800):
        page.set_viewport_size({"width": width, "height": 1000})
        # Pictures follow the window a moment later.
        page.wait_for_function(main + " return m.scrollWidth <= m.clientWidth }")
        assert tables.count() >= 6
        assert tables.evaluate_all(cut) == 0
    visitor.check()


def test_a_link_opens_it_as_it_was(tab: MakeTab) -> None:
    """An answer, a step opened, the tree half built, some numbers written: all in the URL."""
    visitor = learn(tab)
    page, expecting = visitor.page, visitor.expecting
    answer(visitor, step(page, "delta"), "0.2")
    step(page, "exponents").get_by_role("button", name="Show me").click()
    step(page, "promotion").get_by_role("button", name="Show me").click()
    place = step(page, "huffman")
    place.get_by_role("button", name="Show me").click()
    place.get_by_role("button", name="Merge the two rarest").click()
    expecting(place.get_by_text("merge 1 of 3")).to_be_visible()
    place.get_by_role("slider", name="Numbers written").press("Home")
    expecting(place.get_by_text("0 bits for 0 numbers")).to_be_visible()
    for told in (r"learn_delta_\w+=0\.2", "learn_opened=delta", "learn_merges=1", "written_10=0"):
        expecting(page).to_have_url(re.compile(told))
    visitor.check()

    again = tab().open(page.url.removeprefix(visitor.url)).page
    place = step(again, "huffman")
    expecting(place.get_by_text("merge 1 of 3")).to_be_visible()
    expecting(place.get_by_text("0 bits for 0 numbers")).to_be_visible()
    expecting(step(again, "delta").get_by_role("radio", name="0.2", exact=True)).to_be_checked()
    expecting(again.get_by_text(re.compile("^Right"))).to_have_count(1)
    expecting(step(again, "restart")).to_be_visible()
    again.get_by_role("link", name="Live").click()
    expecting(again.get_by_role("heading", name="LC-Checkpoint, live")).to_be_visible()
    again.get_by_role("link", name="Learn").click()
    expecting(step(again, "huffman").get_by_text("merge 1 of 3")).to_be_visible()
    expecting(again.get_by_text(re.compile("^Right"))).to_have_count(1)
    expecting(again).to_have_url(re.compile("learn_opened=delta"))
