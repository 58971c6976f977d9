"""A visitor at the timelines: measured, and stepped through by keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

MakeTab = Callable[..., Any]


# Else a process that saves would start, and import for seconds.
ALONE = """
from lcviz.recover import timelines

timelines.ASYNCHRONOUS = "never"
"""


@pytest.mark.exhaustive
def test_a_crash_by_the_millisecond(tab: MakeTab, server_with: Callable[[str, str], None]) -> None:
    server_with(ALONE, ALONE.replace("never", "asynchronous"))
    visitor = tab().open("/recover")
    page, expecting = visitor.page, visitor.expecting
    page.get_by_text("Where the time of saving goes", exact=True).click()
    page.get_by_role("button", name="Measure it").click()
    expecting(page.get_by_role("button", name="Measure again")).to_be_visible()
    chart = visitor.figure("recover-timelines")
    for name in ("trains", "stands still", "encodes", "writes", "merges"):
        expecting(chart.locator(".legend").get_by_text(name, exact=True)).to_have_count(1)
    expecting(chart.get_by_text("asynchronous: training", exact=True)).to_have_count(1)
    expecting(chart.get_by_text("crash", exact=True)).to_have_count(1)
    expecting(page.get_by_text("restore the same weights to the last bit")).to_be_visible()

    # To the very end by keyboard: nothing is under way any more, nothing lost.
    slider = page.get_by_role("slider", name="Crash at …")
    slider.press("End")
    ends = page.get_by_role("row").filter(has_text=re.compile("^merged.*is done"))
    expecting(ends).to_contain_text("0 iterations")
    slider.press("Home")
    expecting(ends).to_have_count(0)
    expecting(page.get_by_role("row").filter(has_text="trains (25)")).to_have_count(3)
    page.get_by_role("radio", name="around the crash").press("Space")
    page.get_by_role("radio", name="training alone").press("Space")
    expecting(page.get_by_text("A crash of the training alone costs at most")).to_be_visible()
    expecting(page).to_have_url(re.compile(r"recover_crash_[\d.]+=0(\.0)?(&|$)"))
    expecting(page).to_have_url(re.compile("recover_shows=around"))

    visitor.check_fits()
    visitor.check()
