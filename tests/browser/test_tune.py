"""A visitor at Tune: an answer at once, A and B, and a clicked point."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


def test_an_answer_at_once_then_a_and_b(tab: MakeTab) -> None:
    """Nobody has pressed anything, and the answer and its picture are on the first screen.

    To compare, the answer follows every control and a clicked point; the URL says it all.
    """
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
    visitor.settled()  # a section that is left while it is drawn may leave its title behind

    page.get_by_role("radio", name="Compare", exact=True).press("Space")
    title = visitor.title(re.compile(r"^Tune: B against A: .+ more, .+ nearer$"))
    figure = visitor.figure("compare")
    visitor.check_on_first_screen(title)
    visitor.check_on_first_screen(figure)
    three_bits = title.inner_text()
    page.locator(".st-key-tune_b_bits").get_by_role("slider").press("ArrowRight")
    expecting(title).not_to_have_text(three_bits)
    expecting(page).to_have_url(re.compile("tune_b_bits=4"))
    visitor.settled()  # a key pressed while the page still changes may get lost
    four_bits = title.inner_text()
    page.locator(".st-key-tune_b_coder").get_by_role("radio", name="Context").press("Space")
    expecting(page).to_have_url(re.compile("tune_b_coder=Context"))
    expecting(title).not_to_have_text(four_bits)  # it is smaller
    in_contexts = title.inner_text()
    page.reload()
    expecting(title).to_have_text(in_contexts)
    each_tensor = figure.locator(".scatterlayer .trace").nth(1)
    one_bit = each_tensor.locator("path.point").first
    visitor.settled()
    one_bit.hover(force=True)
    expecting(figure.locator(".hoverlayer").get_by_text("of float32")).to_be_visible()
    one_bit.click(force=True)
    expecting(page).to_have_url(re.compile("tune_b_bits=1"))
    expecting(page.locator(".st-key-tune_b_scope").get_by_role("radio").nth(1)).to_be_checked()
    expecting(title).to_have_text(re.compile(" less, .+ further$"))
    expecting(figure.locator(".annotation").get_by_text("B", exact=True)).to_have_count(1)
    visitor.check_fits()
    visitor.check()
