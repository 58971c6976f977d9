"""Several people at once on one small server: each sees one's own run, and caps are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.dashboard.serving import Server, server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

SMALL = """
import runpy

from lcviz.server import jobs, runs
from lcviz.ui import own_files

runs.MAX_RUNS, jobs.MAX_WAITING, own_files.UPLOAD_MIB = 2, 0, 1
runpy.run_path("app.py")
"""

SLOW = """
import runpy
import time

from lcviz.server.runs import Runs

create = Runs.create


def slowly(*args):
    run = create(*args)
    time.sleep(1)
    return run


Runs.create = slowly
runpy.run_path("app.py")
"""


@pytest.fixture
def slow(browser: Browser, tmp_path: Path) -> Iterator[Server]:
    """A server that needs a second for a new run."""
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    with server(str(script)) as ours:
        yield ours


@pytest.fixture
def small(browser: Browser, tmp_path: Path) -> Iterator[Server]:
    """A server that has room for two runs, one experiment, and uploads of 1 MiB."""
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    with server(str(script)) as ours:
        yield ours


def ask(page: Page, seeds: int) -> None:
    """Have that many seeds of Recover's experiment done, or be told why not."""
    url = page.url.partition("?")[0].rstrip("/")
    page.goto(f"{url}/recover?recover_seeds={seeds}")
    page.get_by_role("button", name="Run it here").click()


def test_two_at_once_and_a_third_who_is_told(visits: BrowserContext, small: Server) -> None:
    from playwright.sync_api import expect

    from benchmarks.dashboard.crowd import FULL, Visitor, tracebacks

    said: Counter[str] = Counter()
    crowd = [Visitor(visits, small.url, number, said) for number in range(3)]
    *lucky, late = crowd
    for visitor in crowd:
        visitor.start()
        visitor.look()
    assert len({visitor.run for visitor in lucky}) == 2
    assert (late.run, said["refused: the server is full"]) == (None, 1)
    expect(late.page.get_by_text(f"{FULL} 2 runs, its limit.")).to_be_visible()

    before = lucky[0].run
    lucky[0].start()  # instead of the one before, for which there is no room beside it
    lucky[1].pause_or_play()
    shown = lucky[0].page.locator("[data-picture=headline] .said > span").first
    expect(shown).not_to_have_text(shown.inner_text())  # the other one goes on
    lucky[1].page.get_by_role("link", name="Learn", exact=True).first.click()
    expect(lucky[1].page.get_by_role("heading", name="Learn: why is")).to_be_visible()
    lucky[1].page.reload()  # on a page that shows no run
    expect(lucky[1].page.get_by_role("heading", name="Learn: why is")).to_be_visible()
    lucky[1].page.get_by_role("link", name="Live", exact=True).first.click()
    for visitor in lucky:
        visitor.look()
    assert lucky[0].run != before
    assert said["stale link"] == 0

    ask(lucky[1].page, 10)
    expect(lucky[1].page.get_by_role("progressbar")).to_be_visible()
    ask(late.page, 9)
    full = "The line of waiting experiments is full: this server's limit is 0."
    expect(late.page.get_by_text(full)).to_be_visible()
    late.page.goto(f"{small.url}/inspect")
    late.page.get_by_text("Open a path or archive").click()
    large = {"name": "large.zip", "mimeType": "application/zip", "buffer": bytes(2**20 + 1)}
    late.page.locator(".st-key-inspect-where input[type=file]").set_input_files(large)
    expect(late.page.get_by_text("File must be 1.0MB or smaller.")).to_be_visible()
    for visitor in crowd:
        assert visitor.problems == []
        visitor.close()
    assert tracebacks(small.log()) == []


def test_no_click_is_lost(visits: BrowserContext, small: Server) -> None:
    from benchmarks.dashboard.clicks import busy, clicks
    from benchmarks.dashboard.crowd import Visitor

    visitor = Visitor(visits, small.url, 1, Counter())
    visitor.start()
    with busy():
        pressed = Counter(clicks(visitor, 20))
    assert set(pressed) == {"Pause", "Play", "Step", "Reset"}
    visitor.look()
    visitor.close()


def test_a_step_right_after_a_reset(visits: BrowserContext, slow: Server) -> None:
    """The click names the old run, which is gone."""
    from benchmarks.dashboard.crowd import Visitor, tracebacks

    visitor = Visitor(visits, slow.url, 1, Counter())
    visitor.start()
    visitor.press("Pause")
    for milliseconds in (300, 600):
        visitor.reset_and_step(milliseconds)
        visitor.look()
    visitor.close()
    assert tracebacks(slow.log()) == []
