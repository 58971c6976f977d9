"""Seconds until the first picture of each page, by deep link, against a bare page with one chart.

fresh: a server that was just installed. It runs a clean copy of the tree, of which nothing is
compiled, neither byte code nor the codec's kernels; libraries are as pip has left them, with byte
code. restart: a new process, everything compiled. warm: a server that has been visited before. The
bare page's server is treated alike. Each visit has a new browser context with an empty cache; the
pages and the bare one take turns, ratios are of medians.

For fresh and restart, "answers" says when Live's example answers: the seconds from opening the
address until x = 1 has changed the size on the page. For warm, "start" says how long a run takes
from the click on Start until its pictures stand there.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Browser, expect

from .in_page import new_context
from .serving import PATIENCE, ROOT, Server, server

PICTURE = "[data-picture]:not([data-picture=headline]), .js-plotly-plot .main-svg"
PAGES = ("live", "learn", "tune", "recover", "inspect")  # that open with pictures
BARE = "bare page"
SITUATIONS = ("fresh", "restart", "warm")
ANSWERS = 3  # goal, seconds: from opening Live until its example answers
STARTS = 2  # goal, seconds: from Start until a run has pictures
SIZE = "[data-picture=headline] [data-quantity=checkpoint-bytes]"
Measure = Callable[[Browser, str], float]
# A frame is drawn with it: milliseconds since the address was opened.
IS_DRAWN = """selector => window.nodesOf?.(selector)
    .some(node => node.checkVisibility() && node.getBoundingClientRect().width > 0)
    && performance.now()"""


def most(situation: str, page: str) -> float:
    """The goal: how many times the bare page a page may take."""
    if situation == "warm":
        return 1.0 if page in ("live", "learn") else 1.25
    return {"fresh": 3.0, "restart": 2.0}[situation]


def first(browser: Browser, url: str) -> float:
    """Seconds from opening an address to its first picture, with an empty cache."""
    context = new_context(browser, 1280, 720)
    page = context.new_page()
    page.set_default_timeout(5 * PATIENCE)
    page.goto(url, wait_until="commit")
    milliseconds = page.wait_for_function(IS_DRAWN, arg=PICTURE).json_value()
    context.close()
    return float(milliseconds) / 1000


def warm(browser: Browser, url: str) -> None:
    """Wait until a server that was just started has imported everything."""
    page = browser.new_page()
    page.goto(url)
    page.get_by_test_id("stExpandSidebarButton").wait_for(timeout=5 * PATIENCE)
    page.close()


def answering(browser: Browser, url: str) -> float:
    """Seconds from opening Live until x = 1 has changed the size of the example's checkpoint."""
    context = new_context(browser, 1280, 720)
    page = context.new_page()
    page.set_default_timeout(5 * PATIENCE)
    begin = time.perf_counter()
    page.goto(url, wait_until="commit")
    before = page.locator(SIZE).inner_text()
    page.get_by_role("button", name="1", exact=True).click()
    expect(page.locator(SIZE)).not_to_have_text(before, timeout=PATIENCE)
    seconds = time.perf_counter() - begin
    context.close()
    return seconds


def starting(browser: Browser, url: str) -> float:
    """Seconds from a click on Start until the run's pictures stand there."""
    context = new_context(browser, 1280, 720)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    start = page.locator("#start")
    expect(start).to_be_enabled(timeout=PATIENCE)
    begin = time.perf_counter()
    start.click()
    page.locator(".board.served [data-picture=bits]").wait_for()
    seconds = time.perf_counter() - begin
    context.close()
    return seconds


def report(browser: Browser, situation: str, rounds: int, pages: tuple[str, ...] = PAGES) -> None:
    """Measure every page in turn, `rounds` times, and print."""
    with contextlib.ExitStack() as stack:
        visit = _warm(browser, stack, pages) if situation == "warm" else _started
        if situation == "restart":  # what is compiled is kept from here on
            for name in (*pages, BARE):
                _started(browser, situation, name)
        seconds: dict[str, list[float]] = {name: [] for name in (*pages, BARE)}
        for _ in range(rounds):
            for name, found in seconds.items():
                found.append(visit(browser, situation, name))
        if situation == "warm" and "live" in pages:
            starts = [visit(browser, situation, "live", starting) for _ in range(rounds)]
            met = "met" if statistics.median(starts) <= STARTS else "not met"
            print(f"run, warm: start {summary(starts)} s, goal {STARTS}: {met}")
    least = statistics.median(seconds[BARE])
    print(f"first picture, {situation}: {BARE} {summary(seconds[BARE])} s")
    for name in pages:
        ratio, goal = statistics.median(seconds[name]) / least, most(situation, name)
        met = "met" if ratio <= goal else "not met"
        print(
            f"first picture, {situation}: {name} {summary(seconds[name])} s, {ratio:.2f} x the "
            f"{BARE}, goal {goal:g}: {met}",
            flush=True,
        )
    if situation != "warm" and "live" in pages:
        waits = [_started(browser, situation, "live", answering) for _ in range(rounds)]
        met = "met" if statistics.median(waits) <= ANSWERS else "not met"
        print(f"example, {situation}: answers after {summary(waits)} s, goal {ANSWERS}: {met}")


def _warm(browser: Browser, stack: contextlib.ExitStack, pages: tuple[str, ...]):
    """Two servers for all visits, every page visited once."""
    ours, bare = (stack.enter_context(server(_script(name))) for name in ("live", BARE))
    warm(browser, ours.url)

    def visit(browser: Browser, _: str, name: str, measure: Measure = first) -> float:
        return measure(browser, _address(bare if name == BARE else ours, name))

    for name in (*pages, BARE):
        visit(browser, "warm", name)
    return visit


def _started(browser: Browser, situation: str, name: str, measure: Measure = first) -> float:
    """Seconds of the first visit of a server of its own, once that answers."""
    place = _clean_copy() if situation == "fresh" else contextlib.nullcontext((ROOT, {}))
    with place as (root, environment), server(_script(name), root, environment) as one:
        return measure(browser, _address(one, name))


@contextlib.contextmanager
def _clean_copy() -> Iterator[tuple[Path, dict[str, str]]]:
    """A copy of the tree without anything compiled, and the environment that keeps it so."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "lcviz"
        for name in (".streamlit", "benchmarks", "codec", "demo_models", "lcviz"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "app.py", root)
        yield root, {"NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}


def _script(name: str) -> str:
    return "benchmarks/bare_page.py" if name == BARE else "app.py"


def _address(one: Server, name: str) -> str:
    return one.url if name in (BARE, "live") else f"{one.url}/{name}"


def summary(values: list[float]) -> str:
    """Median, with the range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
