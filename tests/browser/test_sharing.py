"""One link lets others look at a run, a private one lets them steer; the browser remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.states import PATIENCE, MakeTab, settled

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.mark.exhaustive
def test_two_links(tab: MakeTab, browser: Browser) -> None:
    owner = tab().open("/?iterations=100&interval=2&speed=slow")
    page, expecting = owner.page, owner.expecting
    page.get_by_role("button", name="Start live training").click()
    page.get_by_role("button", name="Pause").click()
    expecting(page.get_by_role("button", name="Play")).to_be_visible()
    owner.settled()
    page.get_by_role("button", name="Share").click()
    codes = page.get_by_test_id("stCode")
    expecting(codes).to_have_count(2)
    look, steer = (code.inner_text().strip() for code in codes.all())
    assert "steer=" in steer
    assert "steer=" not in look + page.url
    (key,) = parse_qs(urlsplit(steer).query)["steer"]

    def keeps_key(other: Page) -> None:
        other.wait_for_function("key => document.cookie.includes(key)", arg=key)

    keeps_key(page)

    def steers(other: Page) -> None:
        expecting(other.get_by_role("button", name="Play")).to_be_visible()
        expecting(other.get_by_text("You are watching.")).to_have_count(0)

    with browser.new_context() as context:
        other = context.new_page()
        other.set_default_timeout(PATIENCE)
        other.goto(look)
        expecting(other.get_by_text("You are watching.")).to_be_visible()
        expecting(other.get_by_role("button", name="Start your own")).to_be_visible()
        expecting(other.get_by_role("button", name="Step", exact=True)).to_have_count(0)
        elsewhere = look.replace("127.0.0.1", "localhost")  # as from another machine
        other.goto(elsewhere)
        expecting(other.get_by_text("You are watching.")).to_be_visible()
        settled(other)
        other.get_by_role("button", name="Share").click()
        expecting(other.get_by_test_id("stCode")).to_have_text(elsewhere)
        other.goto(steer)
        steers(other)
        assert "steer=" not in other.url
        keeps_key(other)
        other.goto(look)  # a cookie brings the key
        steers(other)
    owner.check()
