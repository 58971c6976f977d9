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
from common import options_of

import codec

APPEND = 1.25  # a late append takes so many times one to a young chain, at most
OPEN = 40.0  # microseconds a record: a stat, a name and an entry
GROWTH = 1.25  # lines of Python for each record of a long chain are so many times a short one's


def main(arguments: list[str] | None = None) -> int:
    """Run; returns how many figures are beyond their limit."""
    options = options_of(
        __doc__,
        arguments,
        records=(10_000, "in the chain"),
        restore=(False, "verify and resume, which replays"),
        count=(False, "judge lines instead of times"),
    )
    codec.warm_up()
    n, tenth, states = options.records, options.records // 10, walk()
    late, young, opening = list[float](), list[float](), dict[int, float]()
    with tempfile.TemporaryDirectory() as folder:
        path, beside = Path(folder) / "run.lcc", Path(folder) / "young.lcc"
        with codec.Checkpointer(path) as checkpoints, codec.Checkpointer(beside) as others:
            for step in range(n):
                state = next(states)
                late.append(seconds(lambda: checkpoints.save(step, state)))  # noqa: B023
                if step >= n - tenth:
                    young.append(seconds(lambda: others.save(step, state)))  # noqa: B023
                if step + 1 in (tenth, n):
                    opening[step + 1] = least = best(lambda: codec.Chain(path))
                    print(
                        f"open: {1000 * least:.1f} ms at {step + 1:,} records, "
                        f"{1e6 * least / (step + 1):.1f} us a record; "
                        f"{least / best(lambda: listed(path)):.1f} times os.scandir and a stat"
                    )
        first, last, new = (statistics.median(x[1:]) for x in (late[:tenth], late[-tenth:], young))
        print(
            f"append: {1000 * first:.2f} ms, median of the first {tenth:,} records; "
            f"{1000 * last:.2f} ms of the last, and {1000 * new:.2f} ms to a young chain in turn "
            f"with these: {last / new:.2f} times that"
        )
        if options.restore:
            for what, work in {
                "restore of the newest": lambda: codec.restore(path),
                "resume": lambda: codec.Checkpointer(path, resume=True).close(),
                "verify": lambda: codec.verify(path),
            }.items():
                print(f"{what}: {seconds(work):.2f} s", flush=True)
        if options.count:
            wrong = counted(path, n, tenth)
        else:
            wrong = int(last / new > APPEND)
            wrong += sum(1e6 * least / records > OPEN for records, least in opening.items())
    print(f"{wrong} figures beyond their limit")
    return wrong


def counted(path: Path, n: int, tenth: int) -> int:
    """Lines that an append and opening run, for a chain of n records and one of a tenth of them;
    returns how many figures grow beyond their limit."""
    figures: dict[str, list[float]] = {"append": [], "open, a record": []}
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
            figures["append"].append(statistics.median(each))
            opened = lines_of(lambda: codec.Chain(place))  # noqa: B023
            figures["open, a record"].append(opened / records)
    for what, (few, many) in figures.items():
        print(f"{what}: {few:.1f} lines in a chain of {tenth:,} records, {many:.1f} of {n:,}")
    return sum(not 0 < many <= GROWTH * few for few, many in figures.values())


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


def listed(path: Path) -> list[tuple[str, int]]:
    """Names and sizes, as cheap as Python has them."""
    with os.scandir(path) as entries:
        return [(entry.name, entry.stat().st_size) for entry in entries]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(work: Callable[[], object]) -> float:
    """Seconds, the least of five."""
    return min(seconds(work) for _ in range(5))


if __name__ == "__main__":
    sys.exit(min(main(), 1))
