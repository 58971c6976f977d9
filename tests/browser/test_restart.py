"""The server is killed while a visitor trains: the page in the browser finds its run again."""

import re
from collections.abc import Callable
from typing import Any

from tests.browser.states import drawn, expecting, settled

Dying = tuple[Any, Callable[[], None], Callable[[], None]]


def test_start_while_there_is_no_server(dying: Dying) -> None:
    """The next server begins the run."""
    visitor, kill, start = dying
    page = visitor.open("/?iterations=20").page
    drawn(page)
    settled(page)
    kill()
    page.get_by_role("button", name="Start live training").click()
    expecting(page.get_by_role("button", name=re.compile(r"^Starting … [3-9] s$"))).to_be_disabled()
    start()
    expecting(page.get_by_text("iteration 20 of 20, finished")).to_be_visible()


def test_the_server_dies(dying: Dying) -> None:
    """No reload: the browser connects again by itself. The settings are as they were."""
    visitor, kill, start = dying
    page = visitor.open("/?iterations=20000&interval=20&seed=7&bits=3&speed=full").page
    page.get_by_role("button", name="Start live training").click()
    status = page.locator("[data-picture=headline] .said > span").first
    expecting(status).to_have_text(re.compile(r"iteration [2-9]\d\d of 20000"))
    run_id = visitor.run_id

    kill()
    start()
    told = page.get_by_text(re.compile(r"^The server was restarted. This run goes on from step"))
    expecting(told).to_be_visible()
    settled(page)
    step = int(re.findall(r"\d+", told.inner_text())[-1])
    assert step >= 200
    assert step % 20 == 0
    assert visitor.run_id == run_id
    expecting(status).to_contain_text(f"iteration {step} of 20000")
    expecting(page.locator("[data-picture=buckets]")).to_have_attribute(
        "aria-label", re.compile("2³ − 1 = 7 slots")
    )
    page.get_by_role("button", name="Step", exact=True).click()
    expecting(status).to_contain_text(f"iteration {step + 20} of 20000")
    expecting(told).to_have_count(0)
    page.get_by_role("button", name="Play", exact=True).click()
    expecting(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expecting(status).not_to_contain_text(f"iteration {step + 20} of")
