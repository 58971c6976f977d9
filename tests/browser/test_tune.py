"""A visitor at Tune."""

import re

from tests.browser.states import MakeTab


def test_an_answer_at_once(tab: MakeTab) -> None:
    """Nobody has pressed anything, and the answer and its picture are on the first screen."""
    visitor = tab().open("/tune")
    page, expecting = visitor.page, visitor.expecting
    expecting(page.get_by_text("Recorded with")).to_have_count(0)  # this server's own is there
    told = r"^Tune: .+ meets the limit: .+ % of float32, a crash costs at most \d"
    title = visitor.title(re.compile(told))
    frontier = visitor.figure("frontier")
    visitor.check_on_first_screen(title)
    visitor.check_on_first_screen(frontier)
    visitor.check_on_first_screen(page.get_by_role("link", name="Use it on Live"))
    expecting(page.get_by_text(re.compile("^Changes: |has this setting already"))).to_be_visible()
    before = title.inner_text()
    visitor.settled()
    page.get_by_role("radio", name="fit into a size").press("Space")
    expecting(page.get_by_role("spinbutton")).to_have_value("5")
    visitor.settled()
    page.get_by_role("spinbutton").fill("1")
    page.get_by_role("spinbutton").press("Enter")
    expecting(title).not_to_have_text(before)
    expecting(frontier.get_by_text("your limit, kept in 95 of 100")).to_have_count(1)
    visitor.check_fits()
    visitor.check()
