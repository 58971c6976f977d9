"""The picture of the buckets shows what was asked for before the server has answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from lcviz.ui.picture import drawing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DATA: dict[str, Any] = {
    "picture": "buckets",
    "title": "Buckets",
    "about": "",
    "text": "",
    "number": 2,
    "buckets": [
        {"exponent": -3 - i, "sign": 0, "kept": 0 if i > 2 else 5, "rest": 5 if i > 2 else 0}
        | {"rank": i + 1, "error": 0.5 / (i + 1), "loss": None}
        for i in range(9)
    ],
    "exponents": list(range(-3, -12, -1)),
    "largest": 5,
    "cut": 3,
    "most": 9,
    "options": [[x, x] for x in ("1", "2", "3", "all")],
    "bits": "2",
    "marked": None,
    "view": "values",
    "rounding": 0.05,
    "loss": None,
    "left_out": "stay in the next δ",
}
MODULE = "window.sent = []; %s window.show = data => draw({data, parentElement: document.body, \
setTriggerValue: (...what) => sent.push(what)});"
LOOK = """() => [
    document.querySelector('[role=slider]').getAttribute('aria-valuenow'),
    document.querySelector('[aria-label="Bits x"] [aria-pressed=true]')?.textContent,
    [...document.querySelectorAll('g.bars > g')].findIndex(
        bar => bar.querySelector('[stroke-width="3"]')),
]"""


def test_what_is_asked_for_is_shown_at_once(page: Page) -> None:
    page.get_by_role("button", name="3", exact=True).click()
    assert page.evaluate(LOOK) == ["7", "3", -1]
    page.locator("g.bars > g").nth(1).click()
    assert page.evaluate(LOOK) == ["7", "3", 1]
    assert page.evaluate("sent") == [["bits", "3"], ["bucket", [-4, 0]]]


def test_the_error_without_a_bucket_is_shown_at_once(page: Page) -> None:
    from playwright.sync_api import expect

    page.get_by_role("button", name="error without it").click()
    expect(page.locator("g.bars text").first).to_have_text("50 %")
    heights = page.locator("g.bars rect:last-of-type").evaluate_all(
        "rects => rects.map(rect => Number(rect.getAttribute('height')))"
    )
    assert heights[0] == pytest.approx(2 * heights[1]) == pytest.approx(3 * heights[2])
    page.locator("g.bars > g").nth(4).hover()
    told = page.locator(".told")
    expect(told).to_contain_text("−7: 5 values, stay in the next δ".replace("−7", "+2⁻⁷"))
    expect(told).to_contain_text("without it 10 % of δ is lost (5 % with all)")


def test_the_cut_is_dragged(page: Page) -> None:
    handle = page.get_by_role("slider")
    box = handle.bounding_box()
    to = page.locator("g.bars > g").nth(6).locator("rect").first.bounding_box()
    assert box is not None
    assert to is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(to["x"] + to["width"] * 0.9, box["y"], steps=4)
    assert page.evaluate(LOOK)[0] == "7"
    page.mouse.up()
    assert page.evaluate("sent")[-1] == ["cut", 7]


def test_other_changes_before_the_answer_do_not_undo_it(page: Page) -> None:
    page.get_by_role("slider").press("ArrowRight")
    page.evaluate("show", DATA | {"text": "another tick"})
    assert page.evaluate(LOOK) == ["4", "2", -1]
    page.clock.fast_forward(200)
    assert page.evaluate("sent") == [["cut", 4]]
    page.evaluate("show", DATA | {"cut": 4, "bits": ""})
    page.evaluate("show", DATA)  # another step
    assert page.evaluate(LOOK) == ["3", "2", -1]


def test_without_an_answer_it_is_taken_back(page: Page) -> None:
    page.get_by_role("button", name="all", exact=True).click()
    page.evaluate("show", DATA | {"marked": [-3, 0]})
    assert page.evaluate(LOOK) == ["9", "all", 0]
    page.clock.fast_forward(2000)
    assert page.evaluate(LOOK) == ["3", "2", 0]


def test_a_bar_tells_its_count_as_short_as_it_fits(page: Page) -> None:
    from playwright.sync_api import expect

    many = [bar | {"kept": 1144 if bar["kept"] else 0} for bar in DATA["buckets"]]
    for width, text in ((480, "1,144"), (314, "1.1k"), (260, "")):
        page.locator("body").evaluate(f"body => body.style.width = '{width}px'")
        page.evaluate("show", DATA | {"buckets": many, "largest": 1144, "text": text})
        expect(page.locator("g.bars text").first).to_have_text(text)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that holds the picture alone, its clock stopped."""
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.clock.install(time=0)
        page.set_content("<body></body>")
        module = drawing("buckets")
        page.add_script_tag(content=MODULE % module)
        page.evaluate("show", DATA)
        page.clock.pause_at(3_600_000)
        yield page
