"""What watching costs the training: iterations a second of LeNet-5, a checkpoint at every one.

Three ways in turn: a plain loop that trains and saves and knows nothing of the dashboard; the
dashboard's own run in a process without a page, which also takes deltas apart and measures
losses; and that run in the server while Chromium, on the same machine, watches it. Remounts:
chart nodes of the watched page that were replaced between ticks.
"""

from __future__ import annotations

import subprocess
import sys

from playwright.sync_api import Browser

from .first import summary
from .serving import PATIENCE, ROOT, Server

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


def watched_run(browser: Browser, url: str) -> tuple[float, int, int]:
    """Iterations a second of a watched run, remounted chart nodes, and ticks looked at."""
    context = browser.new_context(viewport={"width": 1400, "height": 2400})
    page = context.new_page()
    page.goto(f"{url}/?iterations={ITERATIONS}")
    page.get_by_role("button", name="Start live training").click(timeout=PATIENCE)
    page.get_by_role("button", name="Pause").wait_for(timeout=PATIENCE)
    for panel in ("loss", "size", "buckets", "bits", "huffman"):
        page.locator(f".st-key-panel-{panel} .stEChartsChart svg").wait_for(timeout=PATIENCE)
    page.evaluate(REMOUNTS)
    remounted = ticks = 0
    while page.get_by_role("button", name="Pause").count():
        page.wait_for_timeout(1000)
        if page.get_by_role("button", name="Pause").count():
            remounted += page.evaluate(REMOUNTS)
            ticks += 1
    page.get_by_text("finished").wait_for(timeout=PATIENCE)
    text = page.locator(".st-key-controls").inner_text()
    rate = float(text.split(f"of {ITERATIONS}, ")[1].split(" iterations/s")[0])
    context.close()
    return rate, remounted, ticks


def measured_by(code: str) -> float:
    """Iterations a second as printed by a process of its own."""
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def report(browser: Browser, ours: Server, rounds: int) -> None:
    """Measure the three ways in turn, `rounds` times, and print."""
    loop, plain, watched, remounted, ticks = [], [], [], 0, 0
    for _ in range(rounds):
        loop.append(measured_by(PLAIN_LOOP))
        plain.append(measured_by(PLAIN_RUN))
        rate, nodes, seen = watched_run(browser, ours.url)
        watched.append(rate)
        remounted, ticks = remounted + nodes, ticks + seen
    print(f"iterations a second: plain loop {summary(loop)}")
    print(f"iterations a second: run without a page {summary(plain)}")
    print(f"iterations a second: run watched in Chromium {summary(watched)}")
    print(f"watched / without a page: {summary([w / p for w, p in zip(watched, plain)])}")
    print(f"watched / plain loop: {summary([w / p for w, p in zip(watched, loop)])}")
    print(f"chart nodes replaced in {ticks} ticks: {remounted}")
