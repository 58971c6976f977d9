"""Many visitors for many minutes: nothing mixed up, nothing crashed, memory bounded."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
from playwright.sync_api import Browser

from .crowd import Visitor, tracebacks
from .serving import Held, Server

WARM_UP = 0.2  # share of the time, before growth counts
EVERY = 20.0  # seconds between two looks at the server's process
MOST_GROWTH = 0.10


def soak(browser: Browser, ours: Server, visitors: int, minutes: float) -> None:
    """Print what the visitors did and what the server held; raises AssertionError on a fault.

    Growth is the mean of the last quarter of the looks against the first quarter after warm-up.
    """
    said: Counter[str] = Counter()
    started = looked = time.monotonic()
    crowd = [Visitor(browser, ours.url, number, said) for number in range(visitors)]
    looks: list[Held] = []
    looked_at: list[float] = []  # minutes
    while (elapsed := time.monotonic() - started) < 60 * minutes:
        for visitor in crowd:
            try:
                visitor.act()
            except Exception:
                print(visitor.seen(), flush=True)
                raise
        if time.monotonic() - looked >= EVERY:
            looked = time.monotonic()
            held = ours.held()
            print(f"after {elapsed / 60:5.1f} minutes: {held}", flush=True)
            if elapsed > 60 * minutes * WARM_UP:
                looks.append(held)
                looked_at.append(elapsed / 60)
            assert not tracebacks(ours.log()), ours.log()[-4000:]
    for visitor in crowd:
        visitor.look()
        visitor.close()
    assert not tracebacks(ours.log()), ours.log()[-4000:]
    print("done: " + ", ".join(f"{what} {n}" for what, n in said.most_common()))
    print(f"no mix-up, no error box, no traceback in {sum(said.values())} actions")
    quarter = len(looks) // 4
    if not quarter:
        print("too short to speak of growth: it takes 4 looks after warm-up")
        return
    _report_memory_and_disk(looks, looked_at)
    for what in ("rss", "threads", "files", "disk"):
        first, last = (
            sum(getattr(h, what) for h in part) / quarter
            for part in (looks[:quarter], looks[-quarter:])
        )
        print(f"{what}: {first:,.0f} -> {last:,.0f} ({100 * (last / first - 1):+.1f} %)")
        if what == "rss":
            assert last <= (1 + MOST_GROWTH) * first, "memory has grown by more than 10 %"


def _report_memory_and_disk(looks: list[Held], minutes: list[float]) -> None:
    """Print how much of the memory goes with the bytes on disk, and how the rest drifts.

    A least-squares fit. The temporary files are mostly the runs' chains, and a run keeps more steps
    in memory as its chain grows. minutes: when each look was taken.
    """
    memory = np.array([held.rss for held in looks])
    disk = np.array([held.disk for held in looks])
    factors = np.stack([disk, np.array(minutes), np.ones(len(looks))], axis=1)
    (per_byte, drift, rest), *_ = np.linalg.lstsq(factors, memory)
    print(
        f"memory against temporary disk: correlation {np.corrcoef(memory, disk)[0, 1]:.2f}, "
        f"{per_byte:.0f} bytes for one on disk; the rest is {rest / 1e6:.0f} MB and drifts by "
        f"{drift / 1e6:+.1f} MB a minute"
    )
