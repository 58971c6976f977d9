"""A visitor at Recover: the bar moves, results appear, stopping stops."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


def recover(tab: MakeTab) -> Any:
    visitor = tab().open()
    visitor.go("Recover")
    visitor.expecting(visitor.page.get_by_role("button", name="Crash it")).to_be_visible()
    return visitor


def fill(visitor: Any, name: str, value: int) -> None:
    box = visitor.page.get_by_role("spinbutton", name=name)
    box.fill(str(value))
    box.press("Enter")
    visitor.expecting(visitor.page).to_have_url(re.compile(rf"={value}(&|$)"))


def test_asked_and_finished_by_itself(tab: MakeTab) -> None:
    visitor = recover(tab)
    page, expecting = visitor.page, visitor.expecting
    fill(visitor, "Crash at iteration T", 10)
    fill(visitor, "Give up after", 12)
    begin = page.get_by_role("button", name="Crash it")
    begin.click()
    expecting(page.get_by_text("Finished on")).to_be_visible()
    expecting(begin).to_have_count(0)
    charts = page.locator(".st-key-recover-panels .stEChartsChart svg")
    expecting(charts).to_have_count(2)
    for name in ("full", "SCAR", "TOPN", "LC Huffman", "LC run-length"):
        expecting(charts.nth(0).get_by_text(name, exact=True)).to_have_count(1)
        expecting(charts.nth(1).get_by_text(name, exact=True)).to_have_count(1)
    page.get_by_role("radio", name="as measured").press("Space")
    expecting(
        page.get_by_text("The race back: loss after the failure, as measured")
    ).to_be_visible()
    expecting(page).to_have_url(re.compile("recover_loss=as"))
    expecting(page.get_by_role("row").filter(has_text="LC run-length")).to_have_count(1)
    for width in (1400, 800):
        page.set_viewport_size({"width": width, "height": 1000})
        expecting(charts.nth(1).get_by_text("SCAR", exact=True)).to_have_count(1)
        main = "() => { const m = document.querySelector('[data-testid=stMain]');"
        page.wait_for_function(main + " return m.scrollWidth <= m.clientWidth }")  # charts shrink
        cut = "nodes => nodes.filter(n => n.scrollWidth > n.clientWidth + 1).length"
        assert page.get_by_test_id("stTable").evaluate_all(cut) == 0
    visitor.check()


def test_the_bar_moves_until_it_is_stopped(tab: MakeTab) -> None:
    visitor = recover(tab)
    page, expecting = visitor.page, visitor.expecting
    fill(visitor, "Crash at iteration T", 500)
    page.get_by_role("button", name="Crash it").click()
    moved = re.compile(r"Seed 0, the 1st of 5: ([2-9]|\d\d) %")
    expecting(page.get_by_text(moved)).to_be_visible()
    expecting(page.get_by_role("progressbar")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    expecting(page.get_by_text("Stopped.")).to_be_visible()
    expecting(page.get_by_role("button", name="Crash it")).to_be_visible()
    expecting(page.get_by_role("progressbar")).to_have_count(0)
    visitor.check()
