"""The board on Live: its example, before and beside a run on the server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

from lcviz.play.one_file import play_html
from tests.browser.states import PATIENCE, MakeTab, drawn, expecting, sheets

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def numbers(page: Page) -> dict[str, list[str]]:
    """Quantity -> its values on the page, to the last digit."""
    drawn(page)
    found: dict[str, list[str]] = {}
    for place in page.locator(".board [data-quantity]").all():
        name = str(place.get_attribute("data-quantity"))
        found.setdefault(name, []).append(str(place.get_attribute("data-value")))
    return found


def test_live_has_the_numbers_of_the_file(tab: MakeTab, browser: Browser, tmp_path: Path) -> None:
    """To the last digit, also of what is tried."""
    path = tmp_path / "play.html"
    path.write_text(play_html(), encoding="utf-8")
    visitor = tab(width=1280).open("/")
    with browser.new_page(viewport={"width": 1280, "height": 1000}) as file:
        file.set_default_timeout(PATIENCE)
        file.goto(path.as_uri())
        both = visitor.page, file
        for button in ("2", "1"):
            for page in both:
                drawn(page)
                page.get_by_role("button", name=button, exact=True).click()
            live, alone = map(numbers, both)
            assert live == alone
            tried = "" if button == "2" else "whole-"
            assert {"checkpoint-bytes", f"{tried}run-bytes", "live-loss"} <= live.keys()
            crash = "crash-cost" if button == "2" else "whole-run-crash-cost"
            assert crash in live
    visitor.check()


def test_files_of_one_s_own_on_live(tab: MakeTab, tmp_path: Path) -> None:
    """They are read in the browser; the example and the sidebar stay as they are."""
    rng, paths = np.random.default_rng(0), []
    for step in (9, 10):
        paths.append(tmp_path / f"step-{step}.safetensors")
        save_file({"a": rng.normal(size=(30, 40)).astype(np.float32)}, paths[-1])
    visitor = tab(width=1280).open("/")
    page = visitor.page
    drawn(page)
    page.get_by_role("tab", name="Your files").click()
    expecting(page.get_by_role("tab", name="Back to the example")).to_be_focused()
    page.locator("#file-input").set_input_files(paths)
    expecting(page.locator("[data-place=headline]")).to_contain_text("step-9 → step-10")
    drawn(page)
    page.get_by_role("button", name="3", exact=True).click()
    expecting(page.locator("#lines")).to_contain_text("bits=3")
    drawn(page)
    page.get_by_role("tab", name="Back to the example").click()
    expecting(page.get_by_role("button", name="Start live training")).to_be_enabled()
    drawn(page)
    pressed = page.locator("[data-place=buckets]").get_by_role("button", pressed=True)
    assert pressed.all_inner_texts() == ["2", "values"]
    visitor.check()


def saved_with_three_bits(visitor: Any) -> None:
    """The run has what was tried: nothing is only a try any more."""
    visitor.settled()
    pressed = visitor.page.locator("[data-place=buckets]").get_by_role("button", pressed=True)
    assert pressed.all_inner_texts() == ["3", "values"]
    expecting(visitor.page.get_by_text("only a try")).to_have_count(0)


def test_start_hands_over(tab: MakeTab) -> None:
    """The run is saved as was tried. A crash in the example needs no server."""
    visitor = tab(width=1280).open("/?iterations=40&speed=full#step=newest")
    page = visitor.page
    drawn(page)
    page.get_by_role("button", name="Kill it now").click()
    page.get_by_role("button", name="Race back").click()
    expecting(page.locator("[data-place=race] svg").first).to_be_visible()
    page.get_by_role("button", name="Go on from the checkpoint").click()
    expecting(page.locator("[data-place=race]")).to_be_hidden()
    page.get_by_role("button", name="3", exact=True).click()
    expecting(page).to_have_url(re.compile("bits=3"))
    drawn(page)
    page.get_by_role("button", name="Start live training").click()
    expecting(page.get_by_text("iteration 40 of 40, finished")).to_be_visible()
    expecting(page.locator(".board")).to_have_count(1)
    assert "#" not in page.url
    saved_with_three_bits(visitor)
    drawn(page)
    assert sheets(page) == 1
    visitor.check()


# How often the example's own button is shown.
WATCH_PLAY = """() => {
    const play = [...document.querySelectorAll('*')].map(node => node.shadowRoot)
        .map(root => root?.querySelector('#play')).find(node => node);
    window.played = 0;
    new MutationObserver(() => { window.played += Number(!play.hidden); })
        .observe(play, { attributes: true });
}"""


def test_a_lecture_on_live(tab: MakeTab) -> None:
    """It covers the page. Only on its last slide the training is crashed. Back returns to where one
    was. Printed it is one sheet."""
    visitor = tab(color_scheme="dark", width=1280).open("/#step=40&x=3")
    page = visitor.page
    drawn(page)
    page.get_by_role("button", name="Lecture").click()
    expecting(page.locator("#lecture h1")).to_have_text("What has to be stored?")
    box = page.locator(".board").bounding_box()
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 1280, 1000)
    page.mouse.click(400, 900)  # beside everything: keys go on
    question, last = page.locator("#lecture h1"), page.locator("[data-place=race] svg").first
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    expecting(question).to_have_text("What does a crash cost?")
    expecting(last).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expecting(question).to_have_text("Can the restored model still read?")
    page.wait_for_function("!location.hash.includes('killed')")
    page.keyboard.press("ArrowRight")
    expecting(last).to_be_visible()
    page.evaluate(WATCH_PLAY)
    page.keyboard.press("Escape")
    drawn(page)
    assert page.evaluate("window.played") == 0
    page.get_by_role("button", name="Lecture").click()
    expecting(question).to_have_text("What has to be stored?")
    page.keyboard.press("Escape")
    drawn(page)
    expecting(page.get_by_text("step 40", exact=True).first).to_be_visible()
    page.wait_for_function("!location.hash.includes('killed')")  # the crash is undone
    visitor.settled()
    assert sheets(page) == 1
    visitor.go("Glossary")
    visitor.title("Glossary")
    page.go_back()
    drawn(page)
    expecting(page.locator("#step-told")).to_have_text("step 40")
    visitor.check()


def test_the_tab_key_comes_to_what_is_seen(tab: MakeTab) -> None:
    """The skip link, the menu, the board: nothing of the folded sidebar."""
    visitor = tab(width=1280).open("/")
    page = visitor.page
    page.get_by_test_id("stExpandSidebarButton").wait_for()
    drawn(page)
    visitor.settled()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to main content")
    expecting(skip).to_be_focused()
    page.keyboard.press("Tab")
    expecting(page.get_by_test_id("stExpandSidebarButton")).to_be_focused()
    for name in ("Live", "Learn", "Tune"):
        page.keyboard.press("Tab")
        expecting(page.get_by_role("link", name=name, exact=True)).to_be_focused()
    skip.press("Enter")
    stops = []
    while "Start live training" not in "".join(stops):
        page.keyboard.press("Tab")
        stops.append(page.locator(":focus").last.inner_text())
        assert len(stops) < 8, stops
    visitor.check()


def test_start_before_the_server_has_imported_anything(watching: MakeTab) -> None:
    """What is tried and asked for meanwhile is done once it has; the board stays the same one."""
    visitor = watching().open("/?iterations=20")
    page = visitor.page
    drawn(page)
    page.locator(".board").evaluate("board => { board.isFirst = true }")
    page.get_by_role("button", name="3", exact=True).click()
    drawn(page)
    page.get_by_role("button", name="Start live training").click()
    expecting(page.get_by_role("button", name=re.compile(r"^Starting … \d+ s$"))).to_be_disabled()
    assert page.locator(".board").evaluate("board => board.isFirst")
    expecting(page.get_by_text("iteration 20 of 20, finished")).to_be_visible()
    saved_with_three_bits(visitor)
    visitor.check()


def test_board_and_sidebar_follow_each_other(tab: MakeTab) -> None:
    """Each hears only what a visitor has changed on the other; a reload changes nothing."""
    visitor = tab(width=1280).open("/?keep=Tolerance&scope=each+tensor")
    page = visitor.page
    page.get_by_test_id("stExpandSidebarButton").click()
    sidebar = page.get_by_test_id("stSidebar")
    tolerance = sidebar.get_by_role("radio", name="Tolerance", exact=True)
    told = page.get_by_text("does not know buckets over each tensor and a tolerance")

    def stand() -> None:
        drawn(page)
        visitor.settled()

    for _ in range(2):
        expecting(told).to_be_visible()
        stand()
        expecting(tolerance).to_be_checked()
        page.reload()
    stand()
    x = page.locator("[data-place=buckets]").get_by_role("group", name="Bits x")
    x.get_by_role("button", name="3", exact=True).click()
    bits = sidebar.get_by_role("radio", name="Bits x", exact=True)
    expecting(bits).to_be_checked()
    expecting(sidebar.get_by_role("radio", name="each tensor")).to_be_checked()
    stand()
    sidebar.get_by_role("radio", name="Tolerance", exact=True).press("Space")
    expecting(told).to_be_visible()
    stand()
    expecting(tolerance).to_be_checked()
    expecting(x.get_by_role("button", pressed=True)).to_have_text("2")  # the example's own
    visitor.check()
