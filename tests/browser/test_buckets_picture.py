"""The picture of the buckets shows what was asked for before the server has answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

DATA: dict[str, Any] = {
    "picture": "buckets",
    "buckets": [
        {"exponent": -3 - i, "sign": 0, "kept": 0 if i > 2 else 5, "rest": 5 if i > 2 else 0}
        | {"rank": i + 1, "error": 0.5 / (i + 1), "loss": None}
        for i in range(9)
    ],
    "alphabets": [9],
    "slots": [3],
    "n": 100,
    "changed": 15,
    "bits": "2",
    "marked": None,
    "moments": False,
    "carries": True,
    "view": "values",
    "rounding": 0.05,
    "loss": None,
    "waiting": "",
}
OVERLAPS = """() => {
    const labels = [...document.querySelectorAll('g.bars text')].filter(text => text.textContent);
    const boxes = labels.map(text => text.getBoundingClientRect());
    const meet = (a, b) =>
        a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const pairs = boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => meet(a, b)));
    return [labels.length, pairs.length];
}"""
LOOK = """() => [
    document.querySelector('[role=slider]').getAttribute('aria-valuenow'),
    document.querySelector('[aria-label="Bits x"] [aria-pressed=true]')?.textContent,
    [...document.querySelectorAll('g.bars > g')].findIndex(
        bar => bar.querySelector('[stroke-width="3"]')),
]"""


@pytest.fixture
def page(alone: Callable[..., Page]) -> Page:
    """The picture alone, its clock stopped."""
    return alone("buckets", DATA, stopped=True)


def test_what_is_asked_for_is_shown_at_once(page: Page) -> None:
    page.get_by_role("button", name="3", exact=True).click()
    assert page.evaluate(LOOK) == ["7", "3", -1]
    page.locator("g.bars > g").nth(1).click()
    assert page.evaluate(LOOK) == ["7", "3", 1]
    assert page.evaluate("sent") == [["bits", "3"], ["bucket", [-4, 0]]]


def test_without_an_answer_it_is_taken_back(page: Page) -> None:
    page.get_by_role("button", name="all", exact=True).click()
    page.evaluate("show", DATA | {"marked": [-3, 0]})
    assert page.evaluate(LOOK) == ["9", "all", 0]
    sentence = page.locator("p.text")
    assert sentence.text_content() == "All 9 buckets are kept."
    page.clock.fast_forward(2000)
    assert page.evaluate(LOOK) == ["3", "2", 0]
    assert "15 of 100 values are kept." in sentence.text_content()


def test_the_error_without_a_bucket_is_shown_at_once(page: Page) -> None:
    page.get_by_role("button", name="error without it").click()
    assert page.locator("g.bars text").first.text_content() == "50 %"
    heights = page.locator("g.bars rect:last-of-type").evaluate_all(
        "rects => rects.map(rect => Number(rect.getAttribute('height')))"
    )
    assert heights[0] == pytest.approx(2 * heights[1]) == pytest.approx(3 * heights[2])
    page.locator("g.bars > g").nth(4).hover()
    told = page.locator(".told").text_content()
    assert "+2⁻⁷: 5 values, stay in the next δ" in told
    assert "without it 10 % of δ is lost (5 % with all)" in told


def test_the_cut_is_dragged(page: Page) -> None:
    handle = page.get_by_role("slider")
    to = page.locator("g.bars > g").nth(6).locator("rect").first.bounding_box()
    handle.hover()
    page.mouse.down()
    page.mouse.move(to["x"] + to["width"] * 0.9, handle.bounding_box()["y"], steps=4)
    assert page.evaluate(LOOK)[0] == "7"
    sentence = "7 slots for 9 buckets, largest first."
    assert page.locator("p.text").text_content() == sentence
    at = handle.bounding_box()
    larger = [{**bar, "exponent": bar["exponent"] + 3} for bar in DATA["buckets"][:2]]
    answer = DATA | {"buckets": larger, "alphabets": [2], "slots": [2], "bits": "all"}
    page.evaluate("show", answer)  # while it is held, its bars stay under the pointer
    assert handle.bounding_box() == at
    page.mouse.up()
    assert page.evaluate("sent")[-1] == ["cut", 7]
    assert page.locator("g.bars > g").count() == 2


def test_other_changes_before_the_answer_do_not_undo_it(page: Page) -> None:
    page.get_by_role("slider").press("ArrowRight")
    page.evaluate("show", DATA | {"changed": 16})
    assert page.evaluate(LOOK) == ["4", "2", -1]
    page.clock.fast_forward(200)
    assert page.evaluate("sent") == [["cut", 4]]
    page.evaluate("show", DATA | {"slots": [4], "bits": ""})
    page.evaluate("show", DATA)  # another step
    assert page.evaluate(LOOK) == ["3", "2", -1]


def test_a_bar_tells_its_count_as_short_as_it_fits(alone: Callable[..., Page]) -> None:
    many = [bar | {"kept": 1144 if bar["kept"] else 0} for bar in DATA["buckets"]]
    page = alone("buckets", DATA)
    texts = []
    for width in range(500, 100, -20):
        page.locator("main").evaluate(f"main => main.style.width = '{width}px'")
        page.evaluate("show", DATA | {"buckets": many, "changed": width})
        page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        texts.append(page.locator("g.bars text").first.text_content())
    assert list(dict.fromkeys(texts)) == ["1,144", "1.1k", ""]


@pytest.mark.parametrize("width", [380, 338], ids=["window", "phone"])
def test_labels_never_run_into_each_other(alone: Callable[..., Page], width: int) -> None:
    """Fifteen slots, each with hundreds of values."""
    buckets = [
        {"exponent": -4 - i // 2, "sign": i % 2, "rank": i + 1, "error": 0.1, "loss": None}
        | {"kept": 500 + 9 * i if i < 15 else 0, "rest": 400 if i >= 15 else 0}
        for i in range(34)
    ]
    data = DATA | {"buckets": buckets, "alphabets": [34], "slots": [15]}
    page = alone("buckets", data)
    page.locator("main").evaluate("(main, width) => (main.style.width = `${width}px`)", width)
    drawn = "width => document.querySelector('svg').viewBox.baseVal.width === width"
    page.wait_for_function(drawn, arg=width)
    labels, overlaps = page.evaluate(OVERLAPS)
    assert labels > 5
    assert overlaps == 0
