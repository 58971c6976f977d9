"""axe-core's view of every page: what a screen reader and a keyboard need is there.

Not done here: watched runs, whose server has a test of its own (test_watch).
"""

import re

import pytest

from tests.browser.states import MakeTab

# What a page has to show before it is looked at.
PAGES = {
    "Live": "[data-picture=examples]",
    "Learn": "[data-picture=restart] svg",
    "Tune": ".st-key-panel-frontier .js-plotly-plot .main-svg",
    "Recover": "[data-picture=curves] svg",
    "Inspect": ".st-key-verify button",
    "Export": ".st-key-download-all button",
    "Glossary": ".st-key-glossary-asked",
}
VIEW = "weight=linear.weight:1234"  # followed on Live
LINKS = {  # with tables, tiles to join and an answer; and with a word
    "Learn": f"/learn?tables=true&learn_merges=1&learn_answers=runs-2&{VIEW}",
    "Glossary": f"/glossary?term=bucket&{VIEW}",
}
# The colours of text on the page, and in charts.
PAGE_INKS = {"light": "rgb(22, 22, 21)", "dark": "rgb(237, 235, 232)"}
INKS = {"light": "rgb(49, 51, 63)", "dark": "rgb(250, 250, 250)"}
# No chart has the ink of the theme before any more. A page follows when it is next run: the key r
# asks for a run, and is ignored during another one.
FOLLOWED = """([page_ink, before]) => {
    const app = document.querySelector('[data-testid=stApp]');
    if (app.dataset.testScriptState !== 'notRunning' || getComputedStyle(app).color !== page_ink)
        return false;
    const texts = [...document.querySelectorAll('.js-plotly-plot text')];
    if (!texts.some(text => getComputedStyle(text).fill === before))
        return true;
    for (const what of ['keydown', 'keyup'])
        document.dispatchEvent(new KeyboardEvent(what, { key: 'r', code: 'KeyR', bubbles: true }));
    return false;
}"""
COLOURS = ("color-contrast", "link-in-text-block")  # the rules that themes can change


@pytest.mark.exhaustive
def test_axe_finds_nothing(tab: MakeTab) -> None:
    """On every page, in the light and in the dark theme; back on Live, the weight is still
    followed."""
    visitor = tab(width=800).open(f"/?{VIEW}&iterations=100&speed=full")
    visitor.expecting(visitor.page.locator(".board[data-settled]")).to_be_visible()
    visitor.check_accessible("[data-picture=examples]")  # the example
    visitor.page.get_by_role("button", name="Start live training").click()
    visitor.expecting(visitor.page.get_by_text("iteration 100 of 100")).to_be_visible()
    line = visitor.page.locator("[data-title='One weight']")
    visitor.expecting(line).to_contain_text("linear.weight (1, 450)")
    told = line.inner_text()
    themes, run = ["light", "dark"], visitor.run_id

    def check(shown: str) -> None:
        visitor.check_accessible(shown)
        themes.reverse()
        visitor.page.emulate_media(color_scheme=themes[0])
        visitor.page.wait_for_function(FOLLOWED, arg=[PAGE_INKS[themes[0]], INKS[themes[1]]])
        visitor.check_accessible(shown, COLOURS)

    for name, shown in PAGES.items():
        if name in LINKS:
            visitor.open(f"{LINKS[name]}&run={run}")
        elif name != "Live":
            visitor.go(name)
        visitor.title(name)
        visitor.expecting(visitor.page).to_have_url(re.compile("weight="))
        check(shown)
    visitor.go("Live")
    visitor.expecting(line).to_have_text(told, use_inner_text=True)
    box = line.bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 800
    visitor.check()
