"""How long until the first chart, and what watching costs the training.

    python benchmarks/page.py [--chromium /usr/bin/chromium] [--rounds 5]

First chart: seconds from opening the page to a chart's drawing being visible, on a warm
server, in a new browser context with an empty cache; the dashboard and a bare page with one
Plotly chart take turns, the ratio is of medians. Watching: iterations a second of LeNet-5
with a checkpoint every iteration, three ways in turn: a plain loop that trains and saves and
knows nothing of the dashboard; the dashboard's own run in a process without a page, which
also takes deltas apart and measures losses; and that run in the server while Chromium, on
the same machine, watches it. Remounts: chart nodes of the watched page that were replaced
between ticks. Needs playwright (requirements-dev.txt) and a Chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHART = ".stEChartsChart svg, .js-plotly-plot .main-svg"
ITERATIONS = 2000
PLAIN_LOOP = f"""
import tempfile, time, torch, codec, demo_models
torch.set_num_threads(1)
codec.warm_up()
task = demo_models.make_task("lenet5", "digits", seed=0)
optimizer = demo_models.make_optimizer("sgd", task.model.parameters(), 0.05)
with tempfile.TemporaryDirectory() as folder, codec.Checkpointer(folder + "/run.lcc") as chain:
    chain.save(0, task.model.state_dict())
    started = time.perf_counter()
    for i in range(1, {ITERATIONS} + 1):
        optimizer.zero_grad()
        task.loss(task.batch(i, 32)).backward()
        optimizer.step()
        chain.save(i, task.model.state_dict())
    print({ITERATIONS} / (time.perf_counter() - started))
"""
# Marks every chart node; counts those that took the place of a marked one of the same chart.
REMOUNTS = """() => {
    window.known ??= new Set();
    let replaced = 0;
    for (const node of document.querySelectorAll('.stEChartsChart, .stEChartsChart svg')) {
        const key = node.closest('[class*=st-key-panel-]').className + node.tagName;
        if (!node.marked && window.known.has(key)) replaced += 1;
        node.marked = true;
        window.known.add(key);
    }
    return replaced;
}"""
PLAIN_RUN = f"""
import sys, tempfile
from pathlib import Path
import codec
from lcviz.pages.settings import LOSS_SHARE
from lcviz.session import Run
from lcviz.snapshot import Settings
codec.warm_up()
settings = Settings(stop_after={ITERATIONS}, loss_share=LOSS_SHARE)
with tempfile.TemporaryDirectory() as folder:
    run = Run("plain", settings, Path(folder) / "run.lcc")
    run.play()
    while (snapshot := run.wait(5)).status == "playing":
        run.watch()
    print(snapshot.rate)
    run.close()
"""


@contextlib.contextmanager
def server(script: str) -> Iterator[str]:
    """A Streamlit server for one script; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", script, "--server.headless", "true"]
    process = subprocess.Popen(
        [*command, "--server.port", str(port)], cwd=ROOT, stdout=subprocess.DEVNULL
    )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{address}/_stcore/health", timeout=1)
                break
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()


def first_chart(browser: Browser, address: str) -> float:
    """Seconds until a chart is visible, with an empty cache."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    started = time.perf_counter()
    page.goto(address)
    page.locator(CHART).first.wait_for(state="visible", timeout=60_000)
    seconds = time.perf_counter() - started
    context.close()
    return seconds


def watched_run(browser: Browser, address: str) -> tuple[float, int, int]:
    """Iterations a second of a watched run, remounted chart nodes, and ticks looked at."""
    context = browser.new_context(viewport={"width": 1400, "height": 2400})
    page = context.new_page()
    page.goto(f"{address}/?iterations={ITERATIONS}")
    page.get_by_role("button", name="Start live training").click(timeout=60_000)
    page.get_by_role("button", name="Pause").wait_for(timeout=60_000)
    for panel in ("loss", "size", "buckets", "bits", "huffman"):
        page.locator(f".st-key-panel-{panel} .stEChartsChart svg").wait_for(timeout=60_000)
    page.evaluate(REMOUNTS)
    remounted = ticks = 0
    while page.get_by_role("button", name="Pause").count():
        page.wait_for_timeout(1000)
        if page.get_by_role("button", name="Pause").count():
            remounted += page.evaluate(REMOUNTS)
            ticks += 1
    page.get_by_text("finished").wait_for(timeout=60_000)
    text = page.locator(".st-key-controls").inner_text()
    rate = float(text.split(f"of {ITERATIONS}, ")[1].split(" iterations/s")[0])
    context.close()
    return rate, remounted, ticks


def measured_by(code: str) -> float:
    """Iterations a second as printed by a process of its own."""
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def summary(values: list[float]) -> str:
    """Median, with the range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with sync_playwright() as playwright, server("app.py") as ours:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=FLAGS)
        with server("benchmarks/bare_page.py") as bare:
            for address in (ours, bare):
                first_chart(browser, address)  # warms the server
            ours_seconds, bare_seconds = [], []
            for _ in range(options.rounds):
                ours_seconds.append(first_chart(browser, ours))
                bare_seconds.append(first_chart(browser, bare))
        ratio = statistics.median(ours_seconds) / statistics.median(bare_seconds)
        print(f"first chart, s: dashboard {summary(ours_seconds)}, bare {summary(bare_seconds)}")
        print(f"first chart, dashboard / bare: {ratio:.2f}")
        loop, plain, watched, remounted, ticks = [], [], [], 0, 0
        for _ in range(options.rounds):
            loop.append(measured_by(PLAIN_LOOP))
            plain.append(measured_by(PLAIN_RUN))
            rate, nodes, seen = watched_run(browser, ours)
            watched.append(rate)
            remounted, ticks = remounted + nodes, ticks + seen
        print(f"iterations a second: plain loop {summary(loop)}")
        print(f"iterations a second: run without a page {summary(plain)}")
        print(f"iterations a second: run watched in Chromium {summary(watched)}")
        print(f"watched / without a page: {summary([w / p for w, p in zip(watched, plain)])}")
        print(f"watched / plain loop: {summary([w / p for w, p in zip(watched, loop)])}")
        print(f"chart nodes replaced in {ticks} ticks: {remounted}")


if __name__ == "__main__":
    main()
