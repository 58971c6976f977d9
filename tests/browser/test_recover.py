"""A visitor at Recover: a recording at once, then a run of one's own that stops and finishes."""

import re

from tests.browser.states import MakeTab

METHODS = ("full", "SCAR", "TOPN", "LC Huffman", "LC run-length")


def test_a_recording_then_a_run_of_ones_own(tab: MakeTab) -> None:
    """The recorded race is on the first screen, can be looked into, and says what it is."""
    visitor = tab().open("/recover")
    page, expecting = visitor.page, visitor.expecting
    visitor.title(re.compile(r"^Recover: LC is \d\.\d iterations behind after a crash, .*SCAR"))
    race = page.locator("[data-picture=curves]")
    begin = page.get_by_role("button", name="Run it here")
    for part in (race, begin):
        visitor.check_on_first_screen(part)
    expecting(page.get_by_text("Recorded 20")).to_be_visible()

    def raced() -> None:
        for name in METHODS:
            expecting(race.get_by_text(re.compile(rf"^{name} (> )?[\d.]+$"))).to_have_count(1)

    raced()
    visitor.settled()
    race.locator("svg").hover()
    expecting(race.locator("g.hover").get_by_text("SCAR")).to_be_visible()

    def fill(name: str, value: int) -> None:
        box = page.get_by_role("spinbutton", name=name)
        box.fill(str(value))
        box.press("Enter")
        expecting(page).to_have_url(re.compile(rf"={value}(&|$)"))
        visitor.settled()  # a click on the button of other settings would not count

    visitor.settled()
    page.get_by_text("Settings", exact=True).click()
    fill("Crash at iteration T", 501)
    expecting(page.get_by_text("A whole number from 10 to 500.")).to_be_visible()
    expecting(begin).to_be_disabled()
    fill("Crash at iteration T", 500)
    begin.click()
    expecting(page.get_by_text(re.compile(r"Seed 0, the 1st of 5: \d+ %"))).to_be_visible()
    expecting(page.get_by_role("progressbar")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    expecting(page.get_by_text("Stopped.")).to_be_visible()
    expecting(begin).to_be_visible()
    expecting(page.get_by_role("progressbar")).to_have_count(0)

    fill("Crash at iteration T", 10)
    fill("Give up after", 12)
    page.get_by_role("slider", name="Paired seeds").press("Home")
    expecting(page).to_have_url(re.compile("recover_seeds=1"))
    visitor.settled()
    finished, stop = page.get_by_text("Finished on"), page.get_by_role("button", name="Stop")
    expecting(stop).to_have_count(0)  # that of the run before
    begin.click()
    expecting(finished).to_be_visible()
    expecting(begin).to_have_count(0)
    expecting(page.get_by_text("Recorded", exact=True)).to_have_count(0)
    expecting(race).to_contain_text("crash at 10")
    visitor.settled()
    page.get_by_role("radio", name="as measured").press("Space")
    expecting(race).to_contain_text("loss as measured")
    expecting(page).to_have_url(re.compile("recover_loss=as"))
    visitor.settled()
    page.get_by_text("Right after restoring", exact=True).click()
    expecting(page.get_by_role("row").filter(has_text="LC run-length")).to_have_count(1)
    visitor.check_fits()
    raced()
    for name in METHODS:
        expecting(race.get_by_text(re.compile(rf"^{name}, .+B: (≥ )?[\d.]+$"))).to_have_count(1)
    visitor.check()
