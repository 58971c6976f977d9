"""Clicks on the buttons of a training that ticks: each must do what it says, under load too."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser

from .crowd import Visitor, tracebacks
from .serving import Server

BUSY = 2  # processes that compute beside the server


def clicks(visitor: Visitor, n: int) -> Iterator[str]:
    """Press Pause, Play, Step and Reset n times in all, in any order, and say which.

    Args:
        visitor: One with a run.
        n: How many clicks.

    Raises:
        AssertionError: A click did nothing.
    """
    choose = random.Random(visitor.seed)
    for _ in range(n):
        name = choose.choice(["Pause"] * 4 + ["Reset"] if visitor.plays() else ["Play", "Step"])
        visitor.press(name)
        yield name


@contextmanager
def busy(n: int = BUSY) -> Iterator[None]:
    """So many processes that only compute."""
    processes = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(n)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def _compute() -> None:
    while True:
        sum(range(10_000))


def report(browser: Browser, ours: Server, n: int) -> None:
    """Press and print how often; raises AssertionError for a click that is lost."""
    said: Counter[str] = Counter()
    visitor = Visitor(browser, ours.url, 1, said)
    visitor.start()
    started = time.monotonic()
    with busy():
        done = Counter(clicks(visitor, n))
    visitor.look()
    visitor.close()
    assert not tracebacks(ours.log()), ours.log()[-4000:]
    seconds = time.monotonic() - started
    each = ", ".join(f"{name} {count}" for name, count in done.most_common())
    print(f"{n} clicks in {seconds:.0f} s beside {BUSY} busy processes, none lost: {each}")
