"""Seconds until the first chart of each page, by deep link, against a bare page with one chart.

On a warm server, in a new browser context with an empty cache; the pages and the bare one take
turns, ratios are of medians. Recover has no chart before a button is pressed, and the glossary has
none: there it is the first field, or the heading. Learn has charts once its steps are open.
"""

from __future__ import annotations

import statistics
import time

from playwright.sync_api import Browser

from .serving import PATIENCE, Server

CHART = ".stEChartsChart svg, .js-plotly-plot .main-svg"
PAGES = {  # path -> what a visitor sees at once, and what it is
    "": (CHART, "chart"),
    "learn": ("[data-picture=delta] svg", "chart"),
    "tune": (CHART, "chart"),
    "recover": (".st-key-recover-parameters input", "content"),
    "inspect": (CHART, "chart"),
    "export": (CHART, "chart"),
    "glossary": ("[data-testid=stMain] h1", "content"),
}


def first(browser: Browser, url: str, what: str) -> float:
    """Seconds from opening an address to something being visible, with an empty cache."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    started = time.perf_counter()
    page.goto(url)
    page.locator(what).first.wait_for(state="visible", timeout=PATIENCE)
    seconds = time.perf_counter() - started
    context.close()
    return seconds


def warm(browser: Browser, url: str) -> None:
    """Wait until a server that was just started has its example: the codec is compiled first."""
    page = browser.new_page()
    page.goto(url)
    page.locator(CHART).first.wait_for(timeout=5 * PATIENCE)
    page.close()


def report(browser: Browser, ours: Server, bare: Server, rounds: int) -> None:
    """Measure every page in turn, `rounds` times, and print."""
    addresses = {name or "live": (f"{ours.url}/{name}", *what) for name, what in PAGES.items()}
    addresses["bare page"] = (bare.url, CHART, "chart")
    for url, what, _ in addresses.values():
        first(browser, url, what)  # warms the server
    seconds: dict[str, list[float]] = {name: [] for name in addresses}
    for _ in range(rounds):
        for name, (url, what, _) in addresses.items():
            seconds[name].append(first(browser, url, what))
    least = statistics.median(seconds["bare page"])
    for name, (_, _, kind) in addresses.items():
        ratio = statistics.median(seconds[name]) / least
        print(f"first {kind}, {name}: {summary(seconds[name])} s, {ratio:.2f} x the bare page")


def summary(values: list[float]) -> str:
    """Median, with the range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
