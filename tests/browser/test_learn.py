"""Learn in a browser: every picture is touched, on the page and without a server."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.pictures import Start, learn_picture
from tests.browser.states import MakeTab

if TYPE_CHECKING:
    from playwright.sync_api import Page

MEANING = "ũ, what a restart would load"


ALL = [
    "float32320 bits, 32 a value",
    "Exponents30 bits, 3 a value",
    "Promotion20 bits, 2 a value",
    "Huffman18 bits, 1.8 a value",
    "Runs1.03 bits a value in a list of 200 · fold the zeros",
]
FOLDED = "Runs0.14 bits a value in a list of 200 · 229 × smaller, without a header"


ANSWERS = """async () => {
    const cards = [...document.querySelectorAll(".learn .card")];
    const heights = () => cards.map(card => card.getBoundingClientRect().height).join();
    const seen = node => getComputedStyle(node).visibility;
    const before = heights(), said = [], wrong = [];
    const slider = '[role=slider][aria-label="u of c"]';
    for (const card of cards) {
        for (const option of card.querySelectorAll("input[type=radio]")) {
            const sentence = card.querySelector("p.text"), answer = card.querySelector("p.why");
            if (seen(sentence) !== "visible") wrong.push("no sentence");
            option.click();
            said.push(answer.textContent);
            if (seen(sentence) !== "hidden") wrong.push(`${answer.textContent} over the sentence`);
            if (heights() !== before) wrong.push(`${answer.textContent}: ${heights()}`);
            for (const key of ["ArrowRight", "ArrowLeft"])
                document.querySelector(slider).dispatchEvent(
                    new KeyboardEvent("keydown", { key, bubbles: true }));
            if (answer.textContent !== "") wrong.push("the answer stays");
        }
    }
    return [said, wrong];
}"""


# Whether the name of a number line and what is said about it cover each other.
OVERLAP = """() => [...document.querySelectorAll('[data-picture=steps] svg > g')].some(lane => {
    const [name, said] = [...lane.querySelectorAll(":scope > text")]
        .map(text => text.getBoundingClientRect());
    return name.right > said.left && name.bottom > said.top + 1 && said.bottom > name.top + 1;
})"""


def test_every_picture_can_be_touched(pictures: Page) -> None:
    """Without a server."""
    from playwright.sync_api import expect

    page = pictures

    def picture(name: str) -> Any:
        return page.locator(f'[data-picture="{name}"]')

    def says(name: str, text: str) -> None:
        expect(picture(name)).to_contain_text(text)

    ribbon = page.get_by_role("list", name="Bits after each stage").get_by_role("listitem")
    expect(ribbon).to_have_text(ALL)
    assert page.get_by_role("link").count() == 0  # there is no glossary
    assert page.evaluate("document.getAnimations().length") == 0  # less motion was asked for

    dot = picture("delta").get_by_role("slider", name="u of i")  # drag u
    box = dot.bounding_box()
    page.mouse.move(box["x"] + 7, box["y"] + 7)
    page.mouse.down()
    page.mouse.move(box["x"] - 90, box["y"] + 30, steps=4)
    page.mouse.up()
    says("delta", "i: δ = u − ũ =")
    assert float(dot.get_attribute("aria-valuenow")) < 1
    page.get_by_role("button", name="Start over").click()

    c = picture("delta").get_by_role("slider", name="u of c")
    c.press("ArrowRight")  # by keyboard
    says("delta", "1.21 − 1 = 0.21")
    c.press("ArrowLeft")
    flip = picture("levels").get_by_role("button", name="Flip the exponent bit that counts 1")
    flip.click()  # 2⁻³ becomes 2⁻²
    says("levels", "c: 0.4 becomes")
    flip.click()
    says("levels", "c: 0.2 becomes 0.17, off by 0.03")

    slots = picture("slots").get_by_role("group", name="Bits x")
    says("slots", "c has no slot")
    waiting = picture("slots").locator(".waiting i")
    before = waiting.bounding_box()["width"]
    slots.get_by_role("button", name="3").click()  # move x
    says("slots", "c has a slot")
    says("slots", "No bucket waits")
    assert waiting.bounding_box()["width"] < before
    slots.get_by_role("button", name="2").click()

    tree = picture("tree")  # split and join
    says("tree", "= 18 bits; with 2 bits each: 20.")
    for _ in range(3):
        tree.get_by_role("button", name="Split").click()
    says("tree", "0 of 3 joined")
    expect(ribbon.nth(3)).to_have_text("Huffman20 bits, 2 a value · join the tiles")
    tree.get_by_role("button", name="0, 5 times").press("Enter")
    tree.get_by_role("button", name="0.79, 2 times").click()
    says("tree", "Not the two rarest")
    tree.get_by_role("button", name="−0.48, 1 time").click()
    tree.get_by_role("button", name="0.44, 2 times").click()
    says("tree", "1 of 3 joined")
    join = tree.get_by_role("button", name="Join the two rarest")
    join.click()
    join.click()
    expect(join).to_be_disabled()
    expect(tree.locator(".stream span")).to_have_text(
        ["10", "110", "0", "0", "0", "111", "0", "111", "10", "0"]
    )
    expect(ribbon.nth(3)).to_have_text("Huffman18 bits, 1.8 a value")

    runs = picture("runs")  # fold
    says("runs", "206 bits, 1.03 a value")
    runs.get_by_role("slider").press("ArrowRight")
    expect(runs.locator(".fold")).to_have_count(1)
    runs.get_by_role("button", name="Fold").click()
    expect(runs.locator(".fold")).to_have_count(6)
    expect(ribbon.nth(4)).to_have_text(FOLDED)

    says("steps", "c: 0.2 becomes 1 × 0.204 = 0.204.")
    for _ in range(4):
        picture("steps").get_by_role("slider", name="tolerance").press("ArrowRight")
    says("steps", "c: 0.2 becomes 2 × 0.102 = 0.204.")

    neighbours = picture("neighbours")  # shuffle
    says("neighbours", "Runs take 1,345 bits")
    neighbours.get_by_role("button", name="Shuffle").click()
    says("neighbours", "in another order")
    neighbours.get_by_role("button", name="Put in order").click()
    says("neighbours", "The fainter a value")

    restart = picture("restart")  # crash and play
    time = restart.get_by_role("slider")
    time.fill("24")
    restart.get_by_role("button", name="Crash").click()
    says("restart", "A restart loads checkpoint 2")
    restart.get_by_role("button", name="Restore").click()
    says("restart", "Restored: c is")
    page.clock.install()
    restart.get_by_role("button", name="Play").click()
    page.clock.run_for(60_000)
    says("restart", "Checkpoint 5")
    expect(time).to_have_value("50")

    word, meaning = page.get_by_role("button", name="Restart"), page.get_by_text(MEANING)
    word.hover()  # under the pointer or with the focus
    expect(meaning).to_be_visible()
    page.keyboard.press("Escape")
    expect(meaning).to_be_hidden()
    page.mouse.move(0, 0)
    expect(meaning).to_be_hidden()
    word.focus()
    expect(meaning).to_be_visible()
    word.press("Escape")
    expect(meaning).to_be_hidden()
    page.get_by_role("button", name="Data tables").click()
    assert page.get_by_role("table").count() == 8
    expect(tree.locator("xpath=../..").get_by_role("table")).to_contain_text("111")


def test_an_answer_moves_nothing(pictures: Page) -> None:
    """It stands where the picture's sentence was, which is back at the next touch."""
    for width in (1280, 800, 340):
        pictures.set_viewport_size({"width": width, "height": 1000})
        said, wrong = pictures.evaluate(ANSWERS)
        assert len(said) > 14
        assert all(re.match(r"(Right\.|Not .+\.) ", answer) for answer in said)
        assert wrong == []


def test_the_page_does_not_scroll_sideways(pictures: Page) -> None:
    """And the ribbon stays as high, and its bars to scale: 32 bits, and 3."""
    page = pictures
    runs = page.locator('[data-picture="runs"]')
    heights: list[list[float]] = []
    for _ in range(2):
        heights.append([])
        for width in (340, 390, 600, 768, 1280):
            page.set_viewport_size({"width": width, "height": 1000})
            page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
            heights[-1].append(page.locator(".ribbon").bounding_box()["height"])
            bars = (page.locator(".ribbon i").nth(i).bounding_box() for i in range(2))
            whole, exponents = (bar["width"] for bar in bars)
            assert exponents == pytest.approx(whole * 3 / 32, abs=0.1)
            page.wait_for_function(f"!({OVERLAP})()")
        runs.get_by_role("slider").press("ArrowRight")
        runs.get_by_role("button", name="Fold").click()  # which says more
    assert heights[0] == heights[1]


def test_the_link_has_what_was_done(tab: MakeTab) -> None:
    """And *Start over* has nothing of it, but the tables. All is in view."""
    link = "/learn?learn_bits=3&learn_folded=6&learn_merges=1&learn_follow=b&learn_answers=slots-2"
    visitor = tab(width=1280).open(f"{link}&tables=true")
    page, expecting = visitor.page, visitor.expecting
    ribbon = page.get_by_role("list", name="Bits after each stage").get_by_role("listitem")
    cards = page.locator(".learn .card")
    expecting(ribbon.nth(4)).to_have_text(FOLDED)
    again = page.get_by_role("button", name="Start over")
    again.click()
    expecting(ribbon).to_have_text(ALL)
    expecting(page.get_by_role("radio", checked=True)).to_have_count(1)  # which numbers
    expecting(page.locator("p.why.right")).to_have_count(0)
    expecting(again).to_be_disabled()
    expecting(page).to_have_url(re.compile(r"/learn\?tables=true$"))
    expecting(page.locator(".learn").get_by_role("table")).to_have_count(8)
    page.get_by_test_id("stMain").get_by_text("Show data tables").click()
    expecting(page.locator(".learn").get_by_role("table")).to_have_count(0)
    page.locator('[data-picture="restart"]').get_by_role("slider").fill("20")
    expecting(again).to_be_enabled()

    field = page.get_by_role("textbox", name="Trained weights u")
    expecting(field).to_have_value(TRAINED)
    page.get_by_role("slider", name="u of c").press("ArrowRight")
    expecting(field).to_have_value(TRAINED.replace(" 1.2 ", " 1.21 "))
    expecting(page).to_have_url(re.compile(r"u=.*\+1\.21\+"))
    page.get_by_role("group", name="x = 3: how many slots?").get_by_label("7").check()
    expecting(page.get_by_text("Right. 3 bits encode")).to_be_visible()
    slider = page.locator('[data-picture="steps"]').get_by_role("slider", name="tolerance")
    slider.press("ArrowRight")
    expecting(page).to_have_url(re.compile("learn_tolerance=9"))
    expecting(page).to_have_url(re.compile("learn_answers=slots-2"))
    visitor.settled()
    page.reload()  # the link has all of it
    expecting(page.get_by_text("Right. 3 bits encode")).to_have_count(1)
    expecting(field).to_have_value(TRAINED.replace(" 1.2 ", " 1.21 "))

    page.set_viewport_size({"width": 1280, "height": 720})
    expecting(cards).to_have_count(8)
    visitor.settled()
    boxes = [cards.nth(i).bounding_box() for i in range(6)]
    assert len({box["x"] for box in boxes}) == 3
    assert max(box["y"] + box["height"] for box in boxes[:3]) < 460
    assert max(box["y"] + box["height"] for box in boxes) <= 720
    page.set_viewport_size({"width": 1280, "height": 500})
    page.locator(".st-key-lesson").scroll_into_view_if_needed()
    top = page.locator(".learn .ribbon").bounding_box()["y"]
    assert 60 <= top <= 80, "it stays below the header"
    visitor.check_fits()

    card = page.locator('[data-picture="restart"]')
    card.get_by_role("button", name="Restart").click()
    with page.context.expect_page() as opened:  # in another tab
        card.get_by_role("link", name="Glossary").click()
    assert "glossary?term=track" in opened.value.url
    opened.value.close()
    visitor.check()


def test_letters_above_dots_stay_apart(alone: Callable[..., Page]) -> None:
    """Though the dots are dragged together."""
    track, live = map(read_numbers, ("0 0 0 1 0.5 0.5", "0.1 0.1 0.1 1.2 0.7 0.7"))
    page = alone("learn", learn_picture(track, live, live, Start()).data, width=1400)
    letters = page.locator('[data-picture="delta"] .dots text')
    assert letters.count() == 6
    places = sorted(float(one.get_attribute("x")) for one in letters.all())
    assert min(b - a for a, b in pairwise(places)) > 10.9


@pytest.fixture
def pictures(alone: Callable[..., Page]) -> Page:
    """The pictures as they are in one file, without a server: nothing goes over the network."""
    track, live = map(read_numbers, (TRACK, TRAINED))
    data = learn_picture(track, live, live, Start()).data | {"alone": True}
    return alone("learn", data, width=1280, height=1000, reduced_motion="reduce")
