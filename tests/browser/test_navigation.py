"""From page to page: settings stay, and a page leaves nothing of itself on the next."""

import re

from tests.browser.states import MakeTab

EDGE = """() => [document.querySelector('[data-testid=stMain]').getBoundingClientRect().left,
    document.querySelector('[data-testid=stExpandSidebarButton]')?.checkVisibility() ?? false]"""
PLACE = (
    "() => document.querySelector('[data-testid=stSidebar]')?.getBoundingClientRect().right ?? 0"
)


def test_settings_stay_under_back_forward_and_reload(tab: MakeTab) -> None:
    visitor = tab().open("/?iterations=2000&interval=3")
    page, expecting = visitor.page, visitor.expecting
    page.get_by_role("button", name="Start live training").click()
    expecting(page.get_by_role("button", name="Reset", exact=True)).to_be_visible()
    visitor.settled()
    page.get_by_test_id("stExpandSidebarButton").click()
    page.wait_for_function(f"({EDGE})()[0] > 200")
    coder = page.get_by_test_id("stSidebar").get_by_role("radio", name="Huffman (paper)")
    coder.click()
    visitor.settled()  # a key pressed while the page still changes may get lost
    speed = page.get_by_role("slider", name="Speed")
    expecting(speed).to_have_attribute("aria-valuetext", "10/s")
    speed.press("ArrowLeft")

    def stay() -> None:
        expecting(coder).to_be_checked()
        expecting(page.get_by_label("Iterations", exact=True)).to_have_value("2000")
        expecting(page.get_by_label("Save every … iterations")).to_have_value("3")
        expecting(speed).to_have_attribute("aria-valuetext", "5/s")
        visitor.settled()

    def glossary() -> None:
        visitor.title("Glossary")
        visitor.settled()

    stay()
    visitor.go("Glossary")
    glossary()
    visitor.go("Live")
    stay()
    page.go_back()
    glossary()
    page.go_back()
    stay()
    page.go_forward()
    glossary()
    page.go_forward()
    stay()
    page.reload()
    stay()
    # What Streamlit sometimes keeps on the next page: a sidebar without content.
    content = page.get_by_test_id("stSidebarUserContent")
    content.evaluate("node => node.replaceChildren()")
    assert page.evaluate(EDGE) == [0, False]
    visitor.check()


def test_the_menu_of_a_narrow_window_closes_after_a_choice(tab: MakeTab) -> None:
    visitor = tab(width=390).open("/glossary")
    page = visitor.page
    visitor.title("Glossary")
    visitor.settled()
    menu = page.get_by_test_id("stSidebar")
    opened = page.locator("[data-testid=stSidebar][data-collapsed=false]")
    page.get_by_test_id("stExpandSidebarButton").click()
    visitor.expecting(opened).to_be_visible()
    page.wait_for_function(f"({PLACE})() > 200")
    menu.get_by_role("link", name="Inspect", exact=True).click()
    visitor.title(re.compile("^Inspect: 61 steps"))
    visitor.settled()
    page.wait_for_function(f"({PLACE})() <= 0")
    visitor.check()
