"""The play page: its first picture, its checkpoints a second, its frames while a cut is dragged.

The first picture is compared with the bare Streamlit page of `first`, in turns, each with an empty
cache. Checkpoints a second: of the training at full speed, on the screen. Frames: the longest time
between two of them, and the longest task of the page's own thread, while the cut is dragged to and
fro and the whole run is saved once more for each place.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from lcviz.play.one_file import play_html

from .first import BARE, first, summary
from .in_page import new_context
from .serving import PATIENCE, server

# Goals:
BARE_PAGES = 0.5  # times the bare page's first picture
CHECKPOINTS = 60  # a second
TASK = 50  # milliseconds
DRAGS = 40  # places of the cut
MEASURE_RATE = """async () => {
    say("speed", null);
    const until = (done) => new Promise((go) => {
        const look = () => (done() ? go(performance.now()) : setTimeout(look, 1));
        look();
    });
    say("play");
    const began = await until(() => state.playing && state.iteration > 20 && !state.finished);
    const from = state.iteration;
    const ended = await until(() => state.finished);
    return (600 - from) / 10 / ((ended - began) / 1000);
}"""
RECORD_FRAMES = """() => {
    window.tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((one) => one.duration)))
        .observe({ type: "longtask" });
    window.gaps = [];
    let last = performance.now();
    const frame = (now) => { gaps.push(now - last); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
}"""


def report(browser: Browser, rounds: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "play.html"
        path.write_text(play_html(), encoding="utf-8")
        url = f"{path.as_uri()}#seed=0"  # without the guide
        seconds: dict[str, list[float]] = {"play": [], BARE: []}
        with server("benchmarks/bare_page.py") as bare:
            first(browser, bare.url)
            for _ in range(rounds):
                seconds["play"].append(first(browser, url))
                seconds[BARE].append(first(browser, bare.url))
        ratio = statistics.median(seconds["play"]) / statistics.median(seconds[BARE])
        print(f"first picture: {BARE} {summary(seconds[BARE])} s")
        print(
            f"first picture: play {summary(seconds['play'])} s, {ratio:.2f} x the {BARE}, goal "
            f"{BARE_PAGES:g}: {'met' if ratio <= BARE_PAGES else 'not met'}"
        )
        rates = [_rate(browser, url) for _ in range(rounds)]
        met = "met" if statistics.median(rates) >= CHECKPOINTS else "not met"
        print(f"checkpoints a second: {summary(rates)}, goal {CHECKPOINTS}: {met}")
        gaps, tasks = _drag(browser, url)
        met = "met" if max(tasks, default=0.0) <= TASK else "not met"
        print(
            f"dragging: longest task {max(tasks, default=0.0):.0f} ms of {len(tasks)} above 50 ms, "
            f"goal {TASK}: {met}; frames {statistics.median(gaps):.0f} ms apart, at most "
            f"{max(gaps):.0f}"
        )


def _rate(browser: Browser, url: str) -> float:
    context = new_context(browser, 1280, 720)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_function("state?.finished")
    rate = float(page.evaluate(MEASURE_RATE))
    context.close()
    return rate


def _drag(browser: Browser, url: str) -> tuple[list[float], list[float]]:
    """Milliseconds between frames, and of each task above 50."""
    context = new_context(browser, 1280, 720)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_function("state?.finished")
    page.evaluate(RECORD_FRAMES)
    box = page.locator("circle.handle").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for i in range(DRAGS):
        page.mouse.move(x + 200 * (i % 20) / 20, y)
        page.wait_for_timeout(60)
    page.mouse.up()
    gaps, tasks = page.evaluate("[gaps, tasks]")
    context.close()
    return gaps, tasks
