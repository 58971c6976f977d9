"""The dashboard in a real browser: what ticks, what keys do, what it looks like."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.browser.states import MakeTab, expecting, settled

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PICTURES = ("headline", "weights", "buckets", "bits", "curves", "examples")


# Where the pictures begin, in pixels.
TOPS = "nodes => nodes.map(node => Math.round(node.getBoundingClientRect().top))"


def tops(page: Page) -> tuple[int, ...]:
    return tuple(page.locator(".board.served .card").evaluate_all(TOPS))


def picture(page: Page, name: str) -> Locator:
    """One of our own pictures; of the curves, the loss."""
    return page.locator(f"[data-picture={name}]{'[data-title=Loss]' if name == 'curves' else ''}")


def heading(page: Page) -> Locator:
    """What step the pictures show."""
    return picture(page, "curves").locator("text").filter(has_text=re.compile(r"^step \d+$"))


def heading_of(page: Page, step: int) -> Locator:
    return picture(page, "curves").get_by_text(f"step {step}", exact=True)


def whereabouts(page: Page) -> Locator:
    """'iteration 12 of 300, 10 per second'."""
    return picture(page, "headline").locator(".said > span").first


def iteration(page: Page) -> int:
    found = re.search(r"iteration (\d+) of", whereabouts(page).inner_text())
    assert found
    return int(found[1])


def iteration_of_pause(page: Page) -> int:
    """Of a run that was paused, once its last picture is drawn."""
    expecting(whereabouts(page)).to_have_text(re.compile(r" of \d+$"))  # no rate: it has stopped
    return iteration(page)


def step_slider(page: Page) -> Locator:
    """The slider of steps, on the board."""
    return page.get_by_role("slider", name="Step to show")


def start(page: Page) -> None:
    """Press the button that everybody presses first."""
    page.get_by_role("button", name="Start live training").click()
    expecting(page.get_by_role("button", name="Reset", exact=True)).to_be_visible()


def check_order(page: Page, n: int) -> None:
    """n iterations, each later than the one before, while the layout stands still."""
    seen, places = [iteration(page)], {tops(page)}
    while len(seen) < n:
        expecting(whereabouts(page)).not_to_contain_text(f"iteration {seen[-1]} of")
        seen.append(iteration(page))
        places.add(tops(page))
    assert len(places) == 1  # texts take as many lines at every tick
    assert seen == sorted(set(seen))


def check_same_nodes(page: Page) -> None:
    """Ticks replace no picture."""
    settled(page)
    for name in PICTURES:
        expecting(picture(page, name)).to_be_visible()
    ours = page.locator("[data-picture], [data-picture] svg, [data-picture] canvas")
    ours.evaluate_all("nodes => nodes.forEach(node => node.lcvizTag = true)")
    check_order(page, 3)
    assert ours.evaluate_all("nodes => nodes.every(node => node.lcvizTag)")


def test_live_training_updates_in_place_and_pauses(tab: MakeTab) -> None:
    """The first visitor of a fresh server, who does not wait until the example is measured."""
    visitor = tab().open("/?iterations=3000&interval=1")
    page = visitor.page
    start(page)
    expecting(page.locator(".board.served")).to_have_count(1)
    expecting(page.locator(".board")).to_have_count(1)  # the example is gone
    expecting(heading(page)).to_have_count(1)
    first = heading(page).text_content()
    check_same_nodes(page)
    expecting(heading(page)).not_to_have_text(first)

    page.get_by_role("button", name="Pause").click()
    expecting(page.get_by_role("button", name="Play")).to_be_visible()
    stopped = iteration_of_pause(page)
    expecting(heading_of(page, stopped)).to_be_visible()
    assert iteration(page) == stopped
    expecting(step_slider(page)).to_have_value(str(stopped))
    page.get_by_role("button", name="Step", exact=True).click()
    expecting(whereabouts(page)).to_contain_text(f"iteration {stopped + 1} of")
    expecting(heading_of(page, stopped + 1)).to_be_visible()

    cut = picture(page, "buckets").get_by_role("slider")  # the next step does not take it back
    cut.press("ArrowRight")
    headline = picture(page, "headline")
    expecting(headline).to_contain_text("only a try: the run has")
    kept = cut.get_attribute("aria-valuenow")
    page.get_by_role("button", name="Step", exact=True).click()
    expecting(heading_of(page, stopped + 2)).to_be_visible()
    settled(page)
    expecting(headline).to_contain_text("only a try: the run has")
    expecting(cut).to_have_attribute("aria-valuenow", str(kept))
    visitor.check()


def test_keys_and_reset(tab: MakeTab) -> None:
    """Space plays and pauses, the right arrow steps, unless what has the focus needs the key."""
    visitor = tab(width=500).open("/?iterations=20000&interval=50&speed=slow")
    page = visitor.page
    sure = page.get_by_role("button", name="Delete and start over")
    reset = page.get_by_role("button", name="Reset", exact=True)

    def renewed(before: str) -> None:
        page.wait_for_function("old => !location.search.includes(old)", arg=before)
        expecting(page.get_by_role("button", name="Pause")).to_be_visible()  # it plays at once
        expecting(picture(page, "buckets")).to_be_visible()
        settled(page)

    def reached(step: int) -> None:
        expecting(whereabouts(page)).to_contain_text(f"iteration {step} of")
        settled(page)

    start(page)
    expecting(picture(page, "buckets")).to_be_visible()
    settled(page)
    first = visitor.run_id
    reset.click()
    sure.click()
    renewed(first)
    page.get_by_role("button", name="Pause").click()
    expecting(page.get_by_role("button", name="Step", exact=True)).to_be_enabled()
    step = iteration_of_pause(page) // 50 * 50
    page.get_by_role("slider", name="Speed").press("End")
    settled(page)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    reached(step + 50)
    page.get_by_role("button", name="Step", exact=True).click()  # it keeps the focus
    reached(step + 100)
    page.keyboard.press("ArrowRight")
    reached(step + 150)
    cut = picture(page, "buckets").get_by_role("slider")
    kept = int(cut.get_attribute("aria-valuenow") or 0)
    cut.press("ArrowRight")
    expecting(picture(page, "headline")).to_contain_text("only a try")
    expecting(cut).to_have_attribute("aria-valuenow", str(kept + 1))
    assert iteration(page) == step + 150
    settled(page)

    second = visitor.run_id
    reset.press("Enter")
    expecting(sure).to_be_in_viewport()
    page.keyboard.press("Escape")
    expecting(sure).to_have_count(0)
    assert visitor.run_id == second
    reset.press("Enter")
    sure.press("Enter")
    renewed(second)
    expecting(sure).to_have_count(0)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Space")
    expecting(page.get_by_role("button", name="Play")).to_be_visible()
    visitor.check()


def test_a_run_and_its_steps_by_keyboard(tab: MakeTab) -> None:
    visitor = tab().open("/?iterations=600&speed=full")
    page = visitor.page
    start(page)
    expecting(whereabouts(page)).to_contain_text("iteration 600 of 600, finished")
    for name in PICTURES:
        expecting(picture(page, name)).to_be_visible()
    expecting(heading_of(page, 600)).to_be_visible()
    visitor.settled()

    for step in (590, 580, 570):
        step_slider(page).press("ArrowLeft")
        expecting(heading_of(page, step)).to_be_visible()
    step_slider(page).press("Home")
    expecting(heading_of(page, 10)).to_be_visible()
    step_slider(page).press("End")  # the newest is followed again
    page.wait_for_function("!location.search.includes('step=')")
    visitor.check()
