"""A visitor at Tune."""

import re

from tests.browser.states import MakeTab


def test_an_answer_at_once(tab: MakeTab) -> None:
    """Nobody has pressed anything, and the answer and its picture are on the first screen."""
    visitor = tab().open("/tune")
    page, expecting = visitor.page, visitor.expecting
    expecting(page.get_by_text("recorded with")).to_have_count(0)  # this server's own is there
    told = r"^Tune: .+ meets the limit: .+B an iteration, .+ smaller, 95 of 100 crashes cost .+ \d"
    title = visitor.title(re.compile(told))
    frontier = visitor.figure("frontier")
    for seen in (title, frontier, page.get_by_text("Try settings out on")):
        visitor.check_on_first_screen(seen)
    before = title.inner_text()
    visitor.settled()
    page.get_by_role("radio", name="size").press("Space")
    limit = page.get_by_role("spinbutton", name="Size of a checkpoint at most")
    expecting(limit).to_have_value("2")
    visitor.settled()
    limit.fill("0.4")
    limit.press("Enter")
    expecting(title).not_to_have_text(before)
    expecting(frontier.get_by_text("your limit")).to_have_count(1)
    visitor.check_fits()
    visitor.check()


def test_it_is_used_on_live(tab: MakeTab) -> None:
    """A click begins a run with the setting, and the sidebar has it, too."""
    visitor = tab().open("/tune")
    page, expecting = visitor.page, visitor.expecting
    title = visitor.title(re.compile("^Tune: budget .+ meets the limit"))
    visitor.settled()  # a click while the script runs may be lost
    budget = re.search(r"budget ([\d.]+)", title.inner_text())
    assert budget
    page.get_by_role("button", name="Use it on Live").click()
    setting = f"a budget of {float(budget[1]):g} % of float32"
    expecting(
        page.get_by_text(re.compile(f"{setting}.* a checkpoint every iteration"))
    ).to_be_visible()
    expecting(page.get_by_role("button", name="Pause")).to_be_visible()
    visitor.check()
