"""Seconds from a key or a click to what it changes on the page, LeNet-5, on Live and Tune.

Learn's pictures answer by themselves.

Measured in the page: from the event to the first mutation after which the watched part differs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from playwright.sync_api import Browser, Page, expect

from .first import summary
from .serving import PATIENCE, Server

# Remembers when the next key or click comes, and when after it the part is no longer as it was.
WATCH = """selector => {
    const html = () => document.querySelector(selector)?.innerHTML;
    const before = html();
    window.acted = window.changed = undefined;
    const act = () => { window.acted ??= performance.now() };
    for (const event of ['keydown', 'pointerdown'])
        window.addEventListener(event, act, {capture: true, once: true});
    const observer = new MutationObserver(() => {
        if (window.acted === undefined || html() === undefined || html() === before) return;
        window.changed = performance.now();
        observer.disconnect();
    });
    const all = {subtree: true, childList: true, characterData: true, attributes: true};
    observer.observe(document.body, all);
}"""
CHANGED = "() => window.changed"
SECONDS = "() => (window.changed - window.acted) / 1000"
Act = Callable[[Page, int], None]  # the page, and how often it was done before


def _slider(place: str, *keys: str) -> Act:
    """Keys pressed in turn on the slider of a part of the page."""

    def act(page: Page, i: int) -> None:
        page.locator(place).get_by_role("slider").first.press(keys[i % len(keys)])

    return act


def _radio(selector: str) -> Act:
    """The two choices in turn, the second first."""

    def act(page: Page, i: int) -> None:
        page.locator(selector).get_by_role("radio").nth(1 - i % 2).press("Space")

    return act


def _switch(name: str) -> Act:
    return lambda page, _: page.get_by_role("switch", name=name).press("Space")


def _bucket(page: Page, i: int) -> None:
    """A click on one bar of the histogram, then on another."""
    bars = page.locator("[data-picture=buckets] g.bars > g")
    bars.nth(2 + i % 2).click(force=True)


CONTROLS: dict[str, tuple[str, str, Act]] = {  # name -> page and view, what changes, what is done
    "Live, step looked into": (
        "",
        "[data-picture=buckets] svg",
        _slider("[data-testid=stMain]", "ArrowLeft"),
    ),
    "Live, paper's code": (
        "?details=true",
        ".st-key-panel-huffman .stEChartsChart svg",
        _switch("Show the paper's code"),
    ),
    "Live, data tables": ("?details=true", ".st-key-checkpoint", _switch("Show data tables")),
    "Live, a bucket highlighted": ("", "[data-picture=buckets] svg", _bucket),
    "Tune, bits of B": (
        "tune|A against B",
        ".st-key-tune-ab",
        _slider(".st-key-tune_b_bits", "ArrowRight", "ArrowLeft"),
    ),
    "Tune, coder of B": ("tune|A against B", ".st-key-tune-ab", _radio(".st-key-tune_b_coder")),
    "Tune, buckets kept": (
        "tune|Bucket by bucket",
        ".st-key-tune-by-bucket-numbers",
        _slider("[data-testid=stMain]", "ArrowRight", "ArrowLeft"),
    ),
}


def seconds(browser: Browser, url: str, name: str, times: int) -> Iterator[float]:
    """How long each of so many uses of a control took, on the finished example."""
    path, target, act = CONTROLS[name]
    path, _, view = path.partition("|")
    context = browser.new_context(viewport={"width": 1400, "height": 2400})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}/{path}")
    if view:
        page.get_by_role("radio", name=view, exact=True).press("Space")
    page.locator(target).first.wait_for()
    settled(page)
    for i in range(times):
        page.evaluate(WATCH, target)
        act(page, i)
        page.wait_for_function(CHANGED)
        yield page.evaluate(SECONDS)
        settled(page)
    context.close()


def settled(page: Page) -> None:
    """No script is running, and what the last one sent is drawn."""
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=PATIENCE)
    page.wait_for_timeout(500)


def report(browser: Browser, ours: Server, rounds: int) -> None:
    """Use every control `rounds` times, after one that does not count, and print."""
    medians = []
    for name in CONTROLS:
        found = list(seconds(browser, ours.url, name, rounds + 1))[1:]
        medians.append(statistics.median(found))
        print(f"{name}: {summary(found)} s", flush=True)
    print(f"slowest median: {max(medians):.2f} s")
