"""A visitor kills a run, sees the race back, and goes on; another tab sees it all."""

import re
from typing import Any

from tests.browser.states import MakeTab

RACE_FIRST = """grid => {
    const [race, buckets] = ['race', 'buckets'].map(name =>
        grid.querySelector(`[data-place=${name}]`).getBoundingClientRect().top);
    return race < buckets;
}"""
REPORT_FITS = """() => {
    const text = document.querySelector('.st-key-kill-report .stMarkdown');
    return text && text.getBoundingClientRect().right <= innerWidth;
}"""
MEASURED = re.compile(r"[\d.]+ iterations?this crash(?! costs about)")
WINDOW = {"width": 1280, "height": 720}


def test_killed_raced_and_gone_on(tab: MakeTab) -> None:
    """Meanwhile no picture moves."""
    settings = "/?model=Logistic+regression&iterations=20000&interval=5&speed=full"
    visitor = tab(width=1280).open(settings)
    page, expecting = visitor.page, visitor.expecting
    page.set_viewport_size(WINDOW)
    page.get_by_role("button", name="Start live training").click()
    kill = page.get_by_role("button", name="Kill it now")
    expecting(kill).to_be_enabled()

    def place() -> Any:
        visitor.settled()
        return page.locator("#live > .grid").bounding_box()["y"]  # their height follows the data

    before = place()
    kill.click()
    dead = page.get_by_text(re.compile(r"^Killed at iteration \d+"))
    expecting(dead).to_be_visible()
    for name in ("Kill it now", "Play", "Step"):
        expecting(page.get_by_role("button", name=name, exact=True)).to_be_disabled()
    assert place() == before
    page.set_viewport_size({"width": 390, "height": 844})  # a phone
    page.wait_for_function(REPORT_FITS)
    page.set_viewport_size(WINDOW)
    iteration = re.search(r"iteration (\d+)", dead.inner_text())[1]
    other = tab(color_scheme="dark", width=800).open(f"/?run={visitor.run_id}")
    expecting(other.page.get_by_text(f"Killed at iteration {iteration}")).to_be_visible()
    other.check()
    other.page.close()

    race_back = page.get_by_role("button", name="Race back")
    expecting(race_back).to_have_count(1)  # one that it replaces may stay a moment
    race_back.click()
    race = page.locator("[data-title='Race back']")
    expecting(race).to_be_visible()  # while it runs
    for name in ("full", "SCAR", "TOPN", "LC"):
        expecting(race.get_by_text(re.compile(rf"^{name} (> )?[\d.]+$"))).to_have_count(1)
    expecting(race).to_contain_text(re.compile("wins|are level"))
    expecting(page.locator("[data-picture=headline]")).to_contain_text(MEASURED)
    assert place() == before
    page.set_viewport_size({"width": 960, "height": 720})  # two columns, as beside the settings
    assert page.locator("#live > .grid").evaluate(RACE_FIRST)
    page.get_by_role("button", name="Reset", exact=True).hover()  # its help is below the menu
    expecting(page.locator(".stTooltipContent")).to_have_css("pointer-events", "none")
    visitor.check_fits()
    visitor.check_accessible("[data-title='Race back']")
    page.set_viewport_size(WINDOW)
    page.get_by_role("button", name="Go on from the checkpoint").click()
    expecting(page.get_by_role("button", name="Pause")).to_be_visible()
    expecting(page.get_by_text("Killed at")).to_have_count(0)
    expecting(race).to_be_hidden()
    assert place() == before
    loss = page.locator("[data-title=Loss]")
    # Until the newest step is far from it, the mark says "killed" alone.
    expecting(loss.get_by_text(re.compile(rf"^killed( at {iteration})?$"))).to_have_count(1)
    visitor.check()
