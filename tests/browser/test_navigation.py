"""From page to page: settings stay, and a page leaves nothing of itself on the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]
EDGE = """() => [document.querySelector('[data-testid=stMain]').getBoundingClientRect().left,
    document.querySelector('[data-testid=stExpandSidebarButton]')?.checkVisibility() ?? false]"""
PLACE = (
    "() => document.querySelector('[data-testid=stSidebar]')?.getBoundingClientRect().right ?? 0"
)


def side(visitor: Any) -> Any:
    return visitor.page.get_by_test_id("stSidebar")


def test_settings_stay_under_back_forward_and_reload(tab: MakeTab) -> None:
    visitor = tab().open("/?iterations=2000&interval=3")
    page, expecting = visitor.page, visitor.expecting
    page.get_by_role("button", name="Start live training").click()
    expecting(page.get_by_role("button", name="Reset", exact=True)).to_be_visible()
    visitor.settled()
    page.get_by_test_id("stExpandSidebarButton").click()
    side(visitor).get_by_role("radio", name="Huffman (paper)", exact=True).click()
    speed = page.get_by_role("slider", name="Speed")
    expecting(speed).to_have_attribute("aria-valuetext", "10/s")
    speed.press("ArrowLeft")

    def stay() -> None:
        chosen = side(visitor).get_by_role("radio", name="Huffman (paper)", exact=True)
        expecting(chosen).to_be_checked()
        expecting(page.get_by_label("Iterations", exact=True)).to_have_value("2000")
        expecting(page.get_by_label("Save every … iterations")).to_have_value("3")
        expecting(speed).to_have_attribute("aria-valuetext", "5/s")
        visitor.settled()

    stay()
    visitor.go("Glossary")
    expecting(page.get_by_role("heading", name="Glossary")).to_be_visible()
    visitor.go("Live")
    stay()
    for _ in range(2):
        page.go_back()
        expecting(page.get_by_role("heading", name="Glossary")).to_be_visible()
        visitor.settled()
        page.go_back()
        stay()
        page.go_forward()
        expecting(page.get_by_role("heading", name="Glossary")).to_be_visible()
        visitor.settled()
        page.go_forward()
        stay()
    page.reload()
    stay()
    visitor.check()


def test_the_sidebar_is_on_live_alone(tab: MakeTab) -> None:
    visitor = tab(width=1280).open()
    page = visitor.page
    visitor.expecting(page.get_by_text("An example: ")).to_be_visible()
    visitor.settled()
    page.get_by_test_id("stExpandSidebarButton").click()
    visitor.expecting(side(visitor).get_by_text("Batch size")).to_be_visible()
    page.wait_for_function(f"({EDGE})()[0] > 200")
    # What Streamlit sometimes keeps on the next page: a sidebar without content.
    content = page.get_by_test_id("stSidebarUserContent")
    content.evaluate("node => node.replaceChildren()")
    assert page.evaluate(EDGE) == [0, False]
    visitor.check()


def test_the_menu_of_a_narrow_window_closes_after_a_choice(tab: MakeTab) -> None:
    visitor = tab(width=390).open()
    page, expecting = visitor.page, visitor.expecting
    expecting(page.get_by_text("An example: ")).to_be_visible()
    visitor.settled()
    for name, heading in (("Glossary", "Glossary"), ("Inspect", "Inspect a chain")):
        page.get_by_test_id("stExpandSidebarButton").click()
        page.wait_for_function(f"({PLACE})() > 200")
        side(visitor).get_by_role("link", name=name, exact=True).click()
        expecting(page.get_by_role("heading", name=heading)).to_be_visible()
        visitor.settled()
        page.wait_for_function(f"({PLACE})() <= 0")
    visitor.check()
