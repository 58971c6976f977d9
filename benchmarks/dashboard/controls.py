"""Seconds from a key, a click or a drag to what it changes on the page.

What is tried on the step shown is measured on the example, on a paused LeNet-5, and on one that
trains at full speed while a fixed step is shown; the example computes in the browser. Learn's
pictures answer by themselves.

Measured in the page: from the event to the first frame in which the watched part differs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from playwright.sync_api import Browser, Page, expect

from .crowd import SURE
from .first import summary
from .in_page import new_context
from .serving import PATIENCE, Server

# Notes the time of the next event in `acted`, and in `changed` that of the first frame in which
# `selector` differs and `when` matches something.
WATCH = """([selector, event, when]) => {
    const read = () => window.nodesOf(selector).map(node => node.outerHTML).join();
    const before = read();
    window.acted = window.changed = undefined;
    const act = () => { window.acted ??= performance.now() };
    if (event === 'theme') matchMedia('(prefers-color-scheme: dark)').onchange = act;
    else window.addEventListener(event, act, {capture: true, once: true});
    const paint = () => getComputedStyle(document.querySelector('.stApp')).backgroundColor;
    const colour = paint();
    const look = () => {
        const differs = event === 'theme' ? paint() !== colour
            : (!when || window.nodesOf(when).length) && read() && read() !== before;
        if (window.acted !== undefined && differs) window.changed = performance.now();
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}"""
CHANGED = "() => window.changed"
SECONDS = "() => (window.changed - window.acted) / 1000"
RUNS = ("example", "paused", "training")
LENET = "model=LeNet-5&iterations=20000&speed=full&interval=300"  # the step shown stays in memory
EFFECT, VIEW = 0.3, 0.1  # goals of medians: what is computed anew, and what is only shown
WHOLE = 0.15  # and the whole example, saved once more
BUCKETS = "[data-picture=buckets]"
BARS, SIZE = f"{BUCKETS} svg", "[data-picture=headline] [data-quantity=checkpoint-bytes]"
PIXELS = "[data-picture=weights] .map"
RING = f"{PIXELS} .followed"
FOLLOWED = "[data-title='One weight'] .about"
Act = Callable[[Page, int], None]  # the page, and how often it was done before


@dataclass(frozen=True)
class Control:
    """act: done on a page at a path. target: the part that changes. event: that begins it.

    goal: seconds of the median. runs: on which runs.
    ready: selector to wait for before, if not the target. when: selector that must match, too,
    before a change counts.
    """

    target: str
    act: Act
    event: str = "keydown"
    path: str = ""
    goal: float = VIEW
    runs: tuple[str, ...] = RUNS[:1]
    ready: str = ""
    when: str = ""


def _slider(place: str, *keys: str) -> Act:
    """Keys pressed in turn on the slider of a part of the page."""
    return lambda page, i: (
        page.locator(place).get_by_role("slider").first.press(keys[i % len(keys)])
    )


def _radio(selector: str) -> Act:
    """The two choices in turn, the second first."""
    return lambda page, i: page.locator(selector).get_by_role("radio").nth(1 - i % 2).press("Space")


def _bits(page: Page, i: int) -> None:
    """x in the picture of the buckets: 3, then 2 again."""
    bits = page.locator(BUCKETS).get_by_role("group", name="Bits x")
    bits.get_by_role("button", name=str(3 - i % 2)).click()


def _drag(page: Page, i: int) -> None:
    """The cut, to the right and back."""
    box = page.locator(BUCKETS).get_by_role("slider").bounding_box()
    assert box is not None, "a cut to drag"
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + (60 if i % 2 == 0 else -60), y + 20, steps=2)
    page.mouse.up()


def _budget(page: Page, i: int) -> None:
    """Another budget, in the form at the side."""
    form = page.get_by_test_id("stSidebar")
    if not form.is_visible():
        page.get_by_test_id("stExpandSidebarButton").press("Enter")
    field = form.get_by_role("spinbutton", name="Budget, % of float32")
    if not field.count():
        form.get_by_role("radio", name="Budget", exact=True).press("Space")
        settled(page)
    field.fill(str(6 + i % 2))
    page.evaluate(WATCH, [SIZE, "keydown", ""])  # only now: it has already changed once
    field.press("Enter")


def _step(page: Page, i: int) -> None:
    page.locator("#step").press("ArrowLeft" if i % 2 == 0 else "ArrowRight")


def _bar(page: Page, i: int) -> None:
    """A click on one bar of the buckets, then on another."""
    page.locator(f"{BUCKETS} g.bars > g").nth(2 + i % 2).click(force=True)


def _theme(page: Page, i: int) -> None:
    page.emulate_media(color_scheme="light" if i % 2 else "dark")


def _follow(page: Page, i: int) -> None:
    """A click on a pixel of the first digit."""
    page.locator(PIXELS).click(position={"x": 10 + 7 * (i % 5), "y": 40})


CONTROLS: dict[str, Control] = {
    "Live, x, on the buckets": Control(BARS, _bits, "pointerdown", goal=EFFECT, runs=RUNS),
    "Live, x, on the size": Control(SIZE, _bits, "pointerdown", goal=EFFECT, runs=RUNS),
    "Live, x, on the whole run": Control(
        SIZE, _bits, "pointerdown", goal=WHOLE, when=".board[data-settled]"
    ),
    "Live, cut by key, on the buckets": Control(
        BARS, _slider(BUCKETS, "ArrowRight", "ArrowLeft"), goal=EFFECT, runs=RUNS
    ),
    "Live, cut by key, on the size": Control(
        SIZE, _slider(BUCKETS, "ArrowRight", "ArrowLeft"), goal=EFFECT, runs=RUNS
    ),
    "Live, cut let go, on the size": Control(SIZE, _drag, "pointerup", goal=EFFECT, runs=RUNS),
    "Live, budget, on the size": Control(SIZE, _budget, goal=EFFECT, runs=RUNS),
    "Live, step shown": Control(BARS, _step, goal=EFFECT),
    "Live, bar clicked, on the buckets": Control(BARS, _bar, "pointerdown"),
    "Live, pixel clicked, on the pixels": Control(RING, _follow, "pointerdown", ready=BARS),
    "Live, pixel clicked, on the weight": Control(
        FOLLOWED, _follow, "pointerdown", goal=EFFECT, ready=BARS
    ),
    "Live, theme": Control(".stApp", _theme, "theme"),
}


def seconds(page: Page, control: Control, times: int) -> Iterator[float]:
    """How long each of so many uses of a control took."""
    page.locator(control.ready or control.target).first.wait_for()
    settled(page)
    for i in range(times):
        page.evaluate(WATCH, [control.target, control.event, control.when])
        control.act(page, i)
        page.wait_for_function(CHANGED)
        yield page.evaluate(SECONDS)
        settled(page)


def _open(browser: Browser, url: str, control: Control, run: str) -> Page:
    """The control's page, with such a run."""
    page = new_context(browser, 1400, 1000).new_page()
    page.set_default_timeout(PATIENCE)
    if run == "example":
        page.goto(f"{url}/{control.path}")
    else:
        page.goto(f"{url}/{control.path}?{LENET}")
        page.get_by_role("button", name="Start live training").click()
        page.get_by_role("button", name="Pause").wait_for()
        page.locator(BARS).wait_for()
        if run == "training":  # the step shown stays; the training goes on
            page.wait_for_function("nodesOf('#step')[0].value >= 600")  # iterations
            page.locator("#step").press("ArrowLeft")
        else:
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Play").wait_for()
    return page


def settled(page: Page) -> None:
    """No script is running, and what the last one sent is drawn; a page that ticks has a moment."""
    app = page.get_by_test_id("stApp")
    ticks = page.get_by_role("button", name="Pause").count()
    if not ticks:
        expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=PATIENCE)
    page.wait_for_timeout(1500 if ticks else 500)


def report(browser: Browser, ours: Server, rounds: int) -> None:
    """Use every control `rounds` times, after one that does not count, and print."""
    missed = []
    for name, control in CONTROLS.items():
        for run in control.runs:
            page = _open(browser, ours.url, control, run)
            found = list(seconds(page, control, rounds + 1))[1:]
            if run != "example":  # room for the next one
                page.get_by_role("button", name="Reset", exact=True).click()
                page.get_by_role("button", name=SURE).click()
                page.get_by_role("button", name=SURE).wait_for(state="hidden")
                page.get_by_role("button", name="Pause").click()
                page.get_by_role("button", name="Play").wait_for()
            page.context.close()
            met = statistics.median(found) <= control.goal
            missed += [] if met else [f"{name} ({run})"]
            print(
                f"{name}, {run}: {summary(found)} s, goal {control.goal:g}: "
                f"{'met' if met else 'not met'}",
                flush=True,
            )
    print(f"goals not met: {', '.join(missed) or 'none'}")
