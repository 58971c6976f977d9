"""Several people at once on one server: each steers one's own run, and no click is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

# A server that needs a while for a new run.
SLOW = """
import time

from lcviz.server.runs import Runs

if not hasattr(Runs, "at_once"):
    Runs.at_once = Runs.create

    def slowly(*args):
        run = Runs.at_once(*args)
        time.sleep(0.5)
        return run

    Runs.create = slowly
"""
QUICK = """
from lcviz.server.runs import Runs

Runs.create = Runs.at_once
"""


@pytest.mark.exhaustive
def test_each_has_a_run_of_ones_own(
    visits: BrowserContext, server: str, server_with: Callable[[str, str], None]
) -> None:
    from playwright.sync_api import expect

    from benchmarks.dashboard.clicks import clicks
    from benchmarks.dashboard.crowd import Visitor

    said: Counter[str] = Counter()
    one, other = (Visitor(visits, server, number, said) for number in (1, 0))
    for visitor in (one, other):
        visitor.start()
        visitor.look()
    assert one.run != other.run
    before = one.run
    one.start()  # instead of the one before
    assert one.run != before
    pressed = Counter(clicks(other, 5))
    assert pressed.keys() == {"Pause", "Play", "Step"}
    shown = one.page.locator("[data-picture=headline] .said > span").first
    expect(shown).not_to_have_text(shown.inner_text())  # that one goes on

    # A step right after a reset: the click names the old run, which is gone.
    server_with(SLOW, QUICK)
    other.reload()
    other.press("Pause")
    other.reset_and_step(300)

    learn = other.page.get_by_role("heading", name="Learn: why is")
    other.page.get_by_role("link", name="Learn", exact=True).first.click()
    expect(learn).to_be_visible()
    other.page.reload()  # on a page that shows no run
    expect(learn).to_be_visible()
    other.page.get_by_role("link", name="Live", exact=True).first.click()
    for visitor in (one, other):
        visitor.look()
        assert visitor.problems == []
        visitor.close()
    assert said["stale link"] == 0
