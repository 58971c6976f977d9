"""Ten thousand records in one chain: what an append and opening cost must not grow with it.

    PYTHONPATH=. python tests/faults/length.py

Prints the median time of an append over the first and the last records, and what it takes to open
the chain beside a plain listing of its directory: opening has to list it, and nothing else. As a
machine may be busier at the end than at the beginning, it is not those medians that are judged: the
last records are appended in turn with those of a young chain, and its median is what theirs must
be. With --count times are only told, and judged is how many lines of Python are run, which is the
same on every machine. What is told of restoring is for information: it replays all records since
the last base.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import codec

APPEND = 1.25  # a late append takes so many times one to a young chain, at most
OPEN = 40.0  # microseconds a record: a stat, a name and an entry
GROWTH = 1.25  # lines of Python for each record of a long chain are so many times a short one's


def main(arguments: list[str] | None = None) -> int:
    """Run; returns how many figures are beyond their limit."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--restore", action="store_true", help="verify and resume, which replays")
    parser.add_argument("--count", action="store_true", help="judge lines instead of times")
    options = parser.parse_args(arguments)
    codec.warm_up()
    n, tenth = options.records, options.records // 10
    states = walk()
    late: list[float] = []
    young: list[float] = []
    opening = {}
    with tempfile.TemporaryDirectory() as folder:
        path, beside = Path(folder) / "run.lcc", Path(folder) / "young.lcc"
        with codec.Checkpointer(path) as checkpoints, codec.Checkpointer(beside) as others:
            for step in range(n):
                state = next(states)
                late.append(append(checkpoints, step, state))
                if step >= n - tenth:
                    young.append(append(others, step, state))
                if step + 1 in (tenth, n):
                    chain, listing = best(lambda: codec.Chain(path)), best(lambda: listed(path))
                    opening[step + 1] = chain, listing
        first, last, own = (statistics.median(x[1:]) for x in (late[:tenth], late[-tenth:], young))
        print(
            f"append: {1000 * first:.2f} ms, median of the first {tenth:,} records; "
            f"{1000 * last:.2f} ms of the last: {last / first:.2f} times"
        )
        ratio = last / own
        print(
            f"append to a young chain: {1000 * own:.2f} ms in turn with the last; these take "
            f"{ratio:.2f} times that"
        )
        for records, (chain, listing) in opening.items():
            each = 1e6 * chain / records
            print(
                f"open: {1000 * chain:.1f} ms at {records:,} records, {each:.1f} us a record; "
                f"{chain / listing:.1f} times os.scandir and a stat of each"
            )
        if options.restore:
            told("restore of the newest", lambda: codec.restore(path))
            told("resume", lambda: codec.Checkpointer(path, resume=True).close())
            told("verify", lambda: codec.verify(path))
        if options.count:
            wrong = counted(path, n, tenth)
        else:
            wrong = int(ratio > APPEND)
            wrong += sum(1e6 * chain / records > OPEN for records, (chain, _) in opening.items())
    print(f"{wrong} figures beyond their limit")
    return wrong


def counted(path: Path, n: int, tenth: int) -> int:
    """Lines that an append and opening run, for a chain of n records and one of a tenth of them;
    returns how many figures grow beyond their limit."""
    found: dict[str, list[float]] = {"append": [], "open, a record": []}
    states = walk()
    with tempfile.TemporaryDirectory() as folder:
        short = Path(folder) / "short.lcc"
        with codec.Checkpointer(short) as checkpoints:
            for step in range(tenth):
                checkpoints.save(step, next(states))
        for place, records in ((short, tenth), (path, n)):
            with codec.Checkpointer(place, resume=True) as checkpoints:
                checkpoints.save(n, next(states))  # what the first one after opening does besides
                each = [
                    lines_of(lambda s=s: checkpoints.save(s, next(states)))  # type: ignore[misc]
                    for s in range(n + 1, n + 10)
                ]
            found["append"].append(statistics.median(each))
            opened = lines_of(lambda: codec.Chain(place))  # noqa: B023
            found["open, a record"].append(opened / records)
    wrong = 0
    for what, (few, many) in found.items():
        print(f"{what}: {few:.1f} lines in a chain of {tenth:,} records, {many:.1f} of {n:,}")
        wrong += not 0 < many <= GROWTH * few
    return wrong


def lines_of(work: Callable[[], object]) -> int:
    """Lines of Python that are run."""
    n = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal n
        n += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return n


def walk() -> Iterator[dict[str, Any]]:
    """States of a small model."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=200).astype(np.float32)
    for step in itertools.count():
        w = w + (rng.normal(size=200) * 0.01).astype(np.float32)
        yield {"w": w, "step": step}


def append(checkpoints: codec.Checkpointer, step: int, state: dict[str, Any]) -> float:
    """Seconds of a save."""
    started = time.perf_counter()
    checkpoints.save(step, state)
    return time.perf_counter() - started


def listed(path: Path) -> list[tuple[str, int]]:
    """Names and sizes, as cheap as Python has them."""
    with os.scandir(path) as entries:
        return [(entry.name, entry.stat().st_size) for entry in entries]


def best(work: Callable[[], Any]) -> float:
    """Seconds, the least of five."""
    found = []
    for _ in range(5):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def told(what: str, work: Callable[[], Any]) -> None:
    """Print how long it takes."""
    started = time.perf_counter()
    work()
    print(f"{what}: {time.perf_counter() - started:.2f} s", flush=True)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
