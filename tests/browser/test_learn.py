"""Learn in a browser: every picture is touched, on the page and in the one file."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lcviz.lab.lesson import lesson
from lcviz.learn.numbers import TRACK, TRAINED, read_numbers
from lcviz.learn.one_file import learn_html
from lcviz.learn.values import FINEST, checkpoints_of, steps_of, values_of
from lcviz.ui.picture import FOLDER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

MakeTab = Callable[..., Any]
ASKED = """args => { %s; return args.map(([track, live, x, restored, carries]) =>
    [lessonOf(track, live, x), checkpointsOf(track, live, x, 5, restored, carries)]); }"""
PATIENCE = 60_000


def test_every_picture_can_be_touched(tab: MakeTab) -> None:
    visitor = tab().open("/learn")
    page, expecting = visitor.page, visitor.expecting

    def picture(name: str) -> Any:
        return page.locator(f'[data-picture="{name}"]')

    ribbon = page.get_by_role("list", name="Bits after each stage").get_by_role("listitem")
    expecting(ribbon).to_have_text(ALL)

    dot = picture("delta").get_by_role("slider", name="u of i")  # drag u
    box = dot.bounding_box()
    page.mouse.move(box["x"] + 7, box["y"] + 7)
    page.mouse.down()
    page.mouse.move(box["x"] - 90, box["y"] + 30, steps=4)
    page.mouse.up()
    expecting(picture("delta")).to_contain_text("i: δ = u − ũ =")
    moved = float(dot.get_attribute("aria-valuenow"))
    assert moved < 1
    field = page.get_by_role("textbox", name="Trained weights u")
    expecting(field).to_have_value(re.compile(rf" {moved:.6g} 0\.59$"))
    expecting(page).to_have_url(re.compile("u=1.26"))
    page.get_by_role("button", name="Start over").click()
    expecting(field).to_have_value(TRAINED)

    c = picture("delta").get_by_role("slider", name="u of c")
    c.press("ArrowRight")  # by keyboard
    expecting(picture("delta")).to_contain_text("1.21 − 1 = 0.21")
    c.press("ArrowLeft")
    expecting(field).to_have_value(TRAINED)
    flip = picture("levels").get_by_role("button", name="Flip the exponent bit that counts 1")
    flip.click()  # 2⁻³ becomes 2⁻²
    expecting(picture("levels")).to_contain_text("c: 0.4 becomes")
    flip.click()
    expecting(picture("levels")).to_contain_text("c: 0.2 becomes 0.17, off by 0.03")

    slots = picture("slots").get_by_role("group", name="Bits x")
    expecting(picture("slots")).to_contain_text("c has no slot")
    before = picture("slots").locator(".waiting i").bounding_box()["width"]
    slots.get_by_role("button", name="3").click()  # move x
    expecting(picture("slots")).to_contain_text("c has a slot")
    expecting(picture("slots")).to_contain_text("No bucket waits")
    bar = picture("slots").locator(".waiting i")
    bar.evaluate("bar => Promise.all(bar.getAnimations().map((each) => each.finished))")
    assert bar.bounding_box()["width"] < before
    slots.get_by_role("button", name="2").click()

    tree = picture("tree")  # split and join
    expecting(tree).to_contain_text("= 18 bits; with 2 bits each: 20.")
    for _ in range(3):
        tree.get_by_role("button", name="Split").click()
    expecting(tree).to_contain_text("0 of 3 joined")
    expecting(ribbon.nth(3)).to_have_text("Huffman20 bits, 2 a value · join the tiles")
    tree.get_by_role("button", name="0, 5 times").press("Enter")
    tree.get_by_role("button", name="0.79, 2 times").click()
    expecting(tree).to_contain_text("Not the two rarest")
    tree.get_by_role("button", name="−0.48, 1 time").click()
    tree.get_by_role("button", name="0.44, 2 times").click()
    expecting(tree).to_contain_text("1 of 3 joined")
    join = tree.get_by_role("button", name="Join the two rarest")
    join.click()
    join.click()
    expecting(join).to_be_disabled()
    expecting(tree.locator(".stream span")).to_have_text(
        ["10", "110", "0", "0", "0", "111", "0", "111", "10", "0"]
    )
    expecting(ribbon.nth(3)).to_have_text("Huffman18 bits, 1.8 a value")

    runs = picture("runs")  # fold
    expecting(runs).to_contain_text("206 bits, 1.03 a value")
    runs.get_by_role("slider").press("ArrowRight")
    expecting(runs.locator(".fold")).to_have_count(1)
    runs.get_by_role("button", name="Fold").click()
    expecting(runs.locator(".fold")).to_have_count(6)
    expecting(ribbon.nth(4)).to_have_text(FOLDED)

    restart = picture("restart")  # crash and play
    time = restart.get_by_role("slider")
    time.fill("24")
    restart.get_by_role("button", name="Crash").click()
    expecting(restart).to_contain_text("A restart loads checkpoint 2")
    restart.get_by_role("button", name="Restore").click()
    expecting(restart).to_contain_text("Restored: c is")
    restart.get_by_role("button", name="Play").click()
    expecting(restart).to_contain_text("Checkpoint 5")
    expecting(time).to_have_value("50")

    page.get_by_role("group", name="x = 3: how many slots?").get_by_label("7").check()
    expecting(page.get_by_text("Right. 3 bits encode")).to_be_visible()
    expecting(page).to_have_url(re.compile("learn_answers=slots-2"))
    page.reload()  # the link has all of it
    expecting(page.get_by_text("Right. 3 bits encode")).to_be_visible()
    expecting(ribbon).to_have_text([*ALL[:4], FOLDED])
    page.get_by_test_id("stMain").get_by_text("Show data tables").click()
    expecting(picture("tree").locator("xpath=../..").get_by_role("table")).to_contain_text("111")
    visitor.check_fits()
    visitor.check()


ALL = [
    "float32320 bits, 32 a value",
    "Exponents30 bits, 3 a value",
    "Promotion20 bits, 2 a value",
    "Huffman18 bits, 1.8 a value",
    "Runs1.03 bits a value in a list of 200 · fold the zeros",
]
FOLDED = "Runs0.14 bits a value in a list of 200 · 229 × smaller, without a header"


def test_all_begins_again(tab: MakeTab) -> None:
    """What a link or a reader has done; the tables stay."""
    link = "/learn?learn_bits=3&learn_folded=6&learn_merges=1&learn_follow=b&learn_answers=slots-2"
    visitor = tab().open(f"{link}&tables=true")
    page, expecting = visitor.page, visitor.expecting
    ribbon = page.get_by_role("list", name="Bits after each stage").get_by_role("listitem")
    expecting(ribbon.nth(4)).to_have_text(FOLDED)
    again = page.get_by_role("button", name="Start over")
    again.click()
    expecting(ribbon).to_have_text(ALL)
    expecting(page.get_by_role("radio", checked=True)).to_have_count(1)  # which numbers
    expecting(page.locator("p.why.right")).to_have_count(0)
    expecting(again).to_be_disabled()
    expecting(page).to_have_url(re.compile(r"/learn\?tables=true$"))
    expecting(page.locator(".learn").get_by_role("table")).to_have_count(7)
    page.locator('[data-picture="restart"]').get_by_role("slider").fill("20")
    expecting(again).to_be_enabled()
    visitor.check()


def test_letters_above_dots_stay_apart(tab: MakeTab) -> None:
    """Though the dots are dragged together."""
    visitor = tab().open("/learn?u=0.1+0.1+0.1+1.2+0.7+0.7&track=0+0+0+1+0.5+0.5")
    letters = visitor.page.locator('[data-picture="delta"] .dots text')
    visitor.expecting(letters).to_have_count(6)
    visitor.settled()
    places = sorted(float(one.get_attribute("x")) for one in letters.all())
    assert min(b - a for a, b in pairwise(places)) > 10.9
    visitor.check()


@pytest.mark.parametrize("width", [1280, 800, 340])
def test_an_answer_moves_nothing(tab: MakeTab, width: int) -> None:
    """It stands where the picture's sentence was, which is back at the next touch."""
    visitor = tab(width=width).open("/learn")
    page, expecting = visitor.page, visitor.expecting
    cards = page.locator(".learn .card")
    expecting(cards).to_have_count(7)
    visitor.settled()

    def heights() -> list[float]:
        return [cards.nth(i).bounding_box()["height"] for i in range(7)]

    before = heights()
    for card in cards.all():
        sentence, answer = card.locator("p.text"), card.locator("p.why")
        for option in card.get_by_role("radio").all():
            expecting(sentence).to_have_css("visibility", "visible")
            option.check()
            expecting(answer).to_have_text(re.compile(r"^(Right\.|Not .+\.) "))
            expecting(sentence).to_have_css("visibility", "hidden")
            assert heights() == before
            page.get_by_role("slider", name="u of c").press("ArrowRight")
            expecting(answer).to_have_text("")
            page.get_by_role("slider", name="u of c").press("ArrowLeft")
    visitor.check()


def test_a_word_is_explained_at_its_place(tab: MakeTab) -> None:
    """Under the pointer or with the focus; the glossary opens in another tab."""
    visitor = tab().open("/learn?learn_bits=3")
    page, expecting = visitor.page, visitor.expecting
    card = page.locator('[data-picture="restart"]')
    word, meaning = card.get_by_role("button", name="Restart"), card.get_by_text("the base plus")
    expecting(word).to_be_visible()
    expecting(meaning).to_be_hidden()
    word.hover()
    expecting(meaning).to_be_visible()
    page.mouse.move(0, 0)
    expecting(meaning).to_be_hidden()
    word.focus()
    expecting(meaning).to_be_visible()
    word.press("Escape")
    expecting(meaning).to_be_hidden()
    word.click()
    with page.context.expect_page() as opened:
        card.get_by_role("link", name="Glossary").click()
    assert "glossary?term=track" in opened.value.url
    opened.value.close()
    chosen = page.locator('[data-picture="slots"]').get_by_role("button", name="3", exact=True)
    expecting(chosen).to_have_attribute("aria-pressed", "true")
    visitor.check()


def test_the_first_row_and_the_ribbon_are_in_view(tab: MakeTab) -> None:
    visitor = tab().open("/learn")
    page = visitor.page
    page.set_viewport_size({"width": 1280, "height": 720})
    cards = page.locator(".learn .card")
    visitor.expecting(cards).to_have_count(7)
    visitor.settled()
    boxes = [cards.nth(i).bounding_box() for i in range(6)]
    assert len({box["x"] for box in boxes}) == 3
    assert max(box["y"] + box["height"] for box in boxes[:3]) < 460
    assert max(box["y"] + box["height"] for box in boxes) <= 720
    page.set_viewport_size({"width": 1280, "height": 500})
    page.locator(".st-key-lesson").scroll_into_view_if_needed()
    ribbon = page.locator(".learn .ribbon").bounding_box()
    assert 60 <= ribbon["y"] <= 80, "it stays below the header"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(scheme: str, tab: MakeTab) -> None:
    """With the tables, tiles to join and an answer."""
    visitor = tab(color_scheme=scheme).open(
        "/learn?tables=true&learn_merges=1&learn_answers=runs-2"
    )
    visitor.check_accessible("[data-picture=restart] svg")
    visitor.check()


def test_the_module_computes_what_the_codec_does(page_of_file: Page) -> None:
    rng = random.Random(0)
    track, live = map(read_numbers, (TRACK, TRAINED))
    asked: list[tuple[list[float], list[float], int | None, int | None, bool]] = []
    for _ in range(60):
        moved = [np.float32(v + rng.choice((0, 0, 1)) * rng.gauss(0, 0.5)) for v in live]
        asked.append(
            (track, [float(v) for v in moved], rng.choice((1, 2, 3, None)), 2, rng.random() < 0.5)
        )
    asked.append((track, track, 2, None, True))
    asked.append(([0.0, 0.0, 0.0], [1e-40, -1e-40, 3.0], 1, None, False))
    asked.append(([0.5, 0.5], [0.75, 0.25], 1, None, False))  # alike but for the sign
    script = (FOLDER / "learn" / "scheme.js").read_text()
    found = page_of_file.evaluate(ASKED % script, [list(one) for one in asked])
    for (before, now, x, restored, carries), (stages, checkpoints) in zip(
        asked, found, strict=True
    ):
        assert stages == values_of(lesson(before, now, x))
        assert checkpoints == checkpoints_of(before, now, x, restored=restored, carries=carries)


def test_the_module_takes_the_codec_s_steps(page_of_file: Page) -> None:
    rng = random.Random(1)
    track, live = map(read_numbers, (TRACK, TRAINED))
    moved = [[float(np.float32(v + rng.gauss(0, 0.5))) for v in live] for _ in range(20)]
    asked = [(track, now, rng.randrange(FINEST + 1)) for now in [*moved, live, track]]
    script = (FOLDER / "learn" / "scheme.js").read_text()
    ask = f"args => {{ {script}; return args.map((one) => stepsOf(...one)); }}"
    found = page_of_file.evaluate(ask, [list(one) for one in asked])
    for (before, now, fine), steps in zip(asked, found, strict=True):
        expected = steps_of(before, now, fine)
        assert (steps["codes"], steps["bits"]) == (expected["codes"], expected["bits"])
        assert steps["tolerance"] == pytest.approx(expected["tolerance"])
        if any(steps["codes"]):  # else no size is stored
            assert expected["size"] == pytest.approx(steps["size"], rel=1e-6)


def test_equal_steps_can_be_made_finer(tab: MakeTab) -> None:
    visitor = tab().open("/learn")
    picture = visitor.page.locator('[data-picture="steps"]')
    visitor.expecting(picture).to_contain_text("c: 0.2 becomes 1 × 0.204 = 0.204.")
    slider = picture.get_by_role("slider", name="tolerance")
    for _ in range(4):
        slider.press("ArrowRight")
    visitor.expecting(picture).to_contain_text("c: 0.2 becomes 2 × 0.102 = 0.204.")
    visitor.expecting(visitor.page).to_have_url(re.compile("learn_tolerance=12"))
    visitor.check()


def test_the_one_file_answers_alone(page_of_file: Page, browser: Browser) -> None:
    page = page_of_file
    page.get_by_role("button", name="Split").click()
    page.get_by_text("2 of 3 joined").wait_for()
    page.get_by_role("button", name="Restart").hover()
    page.get_by_text("ũ, what a restart would load").wait_for()
    assert page.get_by_role("link").count() == 0  # there is no glossary
    page.mouse.move(0, 0)
    assert page.evaluate("document.getAnimations().length") == 0  # less motion was asked for
    page.get_by_role("slider", name="u of c").press("ArrowRight")
    page.get_by_text("1.21 − 1 = 0.21").wait_for()
    page.get_by_role("button", name="Data tables").click()
    assert page.get_by_role("table").count() == 7
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(colour) != light
    from axe_playwright_python.sync_playwright import Axe

    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert [v["id"] for v in Axe().run(page).response["violations"]] == []


@pytest.fixture
def page_of_file(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The page as a file, opened as by a double click: nothing goes wrong or over the network."""
    path = tmp_path / "learn.html"
    path.write_text(learn_html(), encoding="utf-8")
    problems: list[str] = []
    with browser.new_context(reduced_motion="reduce", offline=True) as context:
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: m.type == "error" and problems.append(m.text))
        page.on("request", lambda r: r.url.startswith("http") and problems.append(r.url))
        page.goto(path.as_uri())
        page.locator(".learn .card").nth(6).wait_for()
        yield page
        assert problems == []
