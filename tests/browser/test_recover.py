"""A visitor at Recover: the bar moves, stopping stops, results appear."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MakeTab = Callable[..., Any]


def test_stopped_then_asked_and_finished(tab: MakeTab) -> None:
    visitor = tab().open("/recover")
    page, expecting = visitor.page, visitor.expecting
    begin = page.get_by_role("button", name="Crash it")

    def fill(name: str, value: int) -> None:
        box = page.get_by_role("spinbutton", name=name)
        box.fill(str(value))
        box.press("Enter")
        expecting(page).to_have_url(re.compile(rf"={value}(&|$)"))

    fill("Crash at iteration T", 500)
    begin.click()
    moved = re.compile(r"Seed 0, the 1st of 5: ([2-9]|\d\d) %")
    expecting(page.get_by_text(moved)).to_be_visible()
    expecting(page.get_by_role("progressbar")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    expecting(page.get_by_text("Stopped.")).to_be_visible()
    expecting(begin).to_be_visible()
    expecting(page.get_by_role("progressbar")).to_have_count(0)

    fill("Crash at iteration T", 10)
    fill("Give up after", 12)
    begin.click()
    expecting(page.get_by_text("Finished on")).to_be_visible()
    expecting(begin).to_have_count(0)
    charts = page.locator(".st-key-recover-panels .stEChartsChart svg")
    expecting(charts).to_have_count(2)
    for chart in (charts.nth(0), charts.nth(1)):
        for name in ("full", "SCAR", "TOPN", "LC Huffman", "LC run-length"):
            expecting(chart.get_by_text(name, exact=True)).to_have_count(1)
    page.get_by_role("radio", name="as measured").press("Space")
    shown = page.get_by_text("The race back: loss after the failure, as measured")
    expecting(shown).to_be_visible()
    expecting(page).to_have_url(re.compile("recover_loss=as"))
    expecting(page.get_by_role("row").filter(has_text="LC run-length")).to_have_count(1)
    visitor.check_fits()
    expecting(charts.nth(1).get_by_text("SCAR", exact=True)).to_have_count(1)
    visitor.check()
