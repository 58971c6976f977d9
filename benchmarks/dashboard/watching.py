"""What watching costs the training: iterations a second of LeNet-5, a checkpoint at every one.

A plain loop that trains and saves and knows nothing of the dashboard; then the dashboard's own
run, which also takes deltas apart and measures losses, its page open in Chromium on the same
machine and closed in turn: a machine that is slower for a while is so for both. Remounts: chart
nodes of the watched page that were replaced between ticks.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import Browser, Page

from .crowd import SURE
from .first import summary
from .in_page import new_context
from .serving import PATIENCE, ROOT, Server

ITERATIONS = 2000  # of the plain loop
ENDLESS = 20_000  # the most there are, and more than there is time for
PAIRS, SECONDS = 4, 6  # stretches a run, and how long each is
LEAST = 0.92  # goal: watched at full speed, of the rate while nobody looks
PICTURES = ("headline", "weights", "buckets", "bits", "curves", "examples")
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
RUN = f"model=LeNet-5&interval=1&speed=full&iterations={ENDLESS}"
# Marks every node of a picture; counts those that took the place of a marked one.
REMOUNTS = """() => {
    window.known ??= new Set();
    let replaced = 0;
    for (const figure of window.nodesOf('[data-picture]'))
        for (const node of [figure, ...figure.querySelectorAll('svg, canvas')]) {
            const key = figure.dataset.picture + node.tagName + node.className;
            if (!node.marked && window.known.has(key)) replaced += 1;
            node.marked = true;
            window.known.add(key);
        }
    return replaced;
}"""


@dataclass
class Stretch:
    """A few seconds of a run. rate: iterations a second. remounted: nodes of pictures that others
    took the place of, in so many looks."""

    rate: float
    remounted: int = 0
    looks: int = 0


def stretches(browser: Browser, ours: Server) -> Iterator[tuple[Stretch, float]]:
    """One live run, its page open and closed in turn.

    Each watched stretch, and the mean rate of the stretches just before and after it.
    """
    context = new_context(browser, 1280, 720)
    page = context.new_page()
    page.goto(f"{ours.url}/?{RUN}")
    page.get_by_role("button", name="Start live training").click(timeout=PATIENCE)
    _ticks(page)
    page.wait_for_url("**run=**")
    address = page.url
    _ticks(page)  # until the pace of the looks is that of a training that goes on
    before = _unseen(ours, page)
    for _ in range(PAIRS):
        page.goto(address)
        _ticks(page)
        watched = _stretch(ours, page)
        after = _unseen(ours, page)
        yield watched, (before + after) / 2
        before = after
    page.goto(address)
    page.get_by_role("button", name="Reset", exact=True).click(timeout=PATIENCE)
    page.get_by_role("button", name=SURE).click(timeout=PATIENCE)
    page.get_by_role("button", name=SURE).wait_for(state="hidden", timeout=PATIENCE)
    page.get_by_role("button", name="Pause").click(timeout=PATIENCE)
    page.get_by_role("button", name="Play").wait_for(timeout=PATIENCE)
    context.close()


def _ticks(page: Page) -> None:
    """Wait until every picture is there and moves."""
    page.get_by_role("button", name="Pause").wait_for(timeout=PATIENCE)
    for name in PICTURES:
        page.locator(f"[data-picture={name}]").first.wait_for(timeout=PATIENCE)
    page.wait_for_timeout(3000)
    page.evaluate(REMOUNTS)


def _unseen(ours: Server, page: Page) -> float:
    """Iterations a second while nobody looks."""
    page.goto("about:blank")
    page.wait_for_timeout(1000)
    return _stretch(ours).rate


def _stretch(ours: Server, page: Page | None = None) -> Stretch:
    """As many seconds as it takes, the page looked at every second if there is one."""
    found = Stretch(0.0)
    first, started = newest_step(ours), time.perf_counter()
    for _ in range(SECONDS):
        if page is None:
            time.sleep(1)
        else:
            page.wait_for_timeout(1000)
            found.remounted += page.evaluate(REMOUNTS)
            found.looks += 1
    found.rate = (newest_step(ours) - first) / (time.perf_counter() - started)
    return found


def newest_step(ours: Server) -> int:
    """Of the run that was started last; a checkpoint at every iteration."""
    chains = list(ours.temporary.glob("lcviz-scratch-runs-*/*/*.lcc"))
    newest = max(chains, key=lambda path: path.stat().st_ctime)
    return max(int(path.name.split(".")[0]) for path in newest.glob("*.safetensors"))


def measured_by(code: str) -> float:
    """Iterations a second as printed by a process of its own."""
    command = [sys.executable, "-c", code]
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)


def report(browser: Browser, ours: Server, rounds: int) -> None:
    """Measure the three ways in turn, `rounds` times, and print."""
    loop, alone, watched, remounted, looks = [], [], [], 0, 0
    for _ in range(rounds):
        rate = measured_by(PLAIN_LOOP)
        for seen, unseen in stretches(browser, ours):
            loop.append(rate)
            alone.append(unseen)
            watched.append(seen.rate)
            remounted, looks = remounted + seen.remounted, looks + seen.looks
    print(f"iterations a second: plain loop {summary(loop)}")
    print(f"iterations a second: run whose page is closed {summary(alone)}")
    print(f"iterations a second: run watched in Chromium {summary(watched)}")
    kept = [w / a for w, a in zip(watched, alone)]
    mean, error = statistics.mean(kept), statistics.stdev(kept) / math.sqrt(len(kept))
    met = "met" if mean >= LEAST else "not met"
    print(f"watched / page closed: {mean:.3f} +- {error:.3f}, goal {LEAST:g}: {met}")
    print(f"page closed / plain loop: {summary([a / p for a, p in zip(alone, loop)])}")
    print(f"nodes of pictures replaced in {looks} looks: {remounted}")
