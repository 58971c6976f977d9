"""How a follower catches up: bytes and seconds with a base every 8 saves, and with the default.

    PYTHONPATH=. python benchmarks/catch_up.py [--values 4M] [--steps 230] [--rate 3e-5] [--lossy]
                                               [--network 50]

AdamW trains the network of benchmarks/follow.py. Each step its weights are saved exactly in
bfloat16; --lossy saves them as float32 with the default settings. Followers that are a number of
saves behind the newest step update once, from several steps each. *Bytes* are those that they read,
as a share of the deltas between; *time* is that of loading a base of the same step. Median and, in
brackets, the largest of the followers. Files are read from the disk's cache, or with --network
through a line of so many MB/s on which each request takes another millisecond.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from fsspec import register_implementation
from fsspec.implementations.local import LocalFileSystem

import codec
from benchmarks.codec_speed import samples
from benchmarks.follow import FIRST, LAYERS, Training
from benchmarks.markdown import table
from codec.storage.source import Entry

BEHIND = (1, 10, 30, 100)
ENDS = (0, 1, 5, 13, 22, 29)  # saves that a follower's last step lies before the chain's end
TIMES = 3  # the fastest of so many loads of a base counts
LATENCY = 0.001  # seconds that a request takes without its bytes
OFTEN = 8  # saves from one base to the next, in the chain with many of them
WAYS = {"bases": {"base_every": OFTEN - 1}, "default": {}}  # settings of the chains


class Line(LocalFileSystem):  # type: ignore[misc]
    """Files of this machine, read through one line. rate: its bytes a second; shared by all."""

    protocol = "line"
    rate = float("inf")
    _free_at = 0.0
    _lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return LocalFileSystem._strip_protocol(str(path).removeprefix("line://"))

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        """A file's bytes, once the line has carried them."""
        data: bytes = super().cat_file(path, *args, **kwargs)
        self._carry(len(data))
        return data

    def ls(self, path: str, *args: Any, **kwargs: Any) -> Any:
        """A directory's entries."""
        self._carry(0)
        return super().ls(path, *args, **kwargs)

    def _carry(self, nbytes: int) -> None:
        with Line._lock:
            Line._free_at = max(Line._free_at, time.monotonic()) + nbytes / Line.rate
            arrival = Line._free_at + LATENCY
        time.sleep(max(arrival - time.monotonic(), 0))


def place(folder: Path) -> str:
    """The path of a chain, or its URL behind the line."""
    return f"line://{folder}" if Line.rate < float("inf") else str(folder)


def link(entries: Iterable[Entry], source: Path, folder: Path) -> None:
    """Put records into a folder."""
    folder.mkdir(exist_ok=True)
    for entry in entries:
        if not (folder / entry.name).exists():
            os.link(source / entry.name, folder / entry.name)


def caught_up(chain: codec.Chain, begin: int, end: int) -> tuple[int, float]:
    """Bytes and seconds of a follower that goes from one step to another."""
    source = Path(chain.where)
    records = [e for e in chain.entries if e.step <= end]
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        folder = Path(name) / "run.lcc"
        link([e for e in records if e.step <= begin], source, folder)
        follower = codec.Follower(place(folder))
        follower.update()
        assert follower.step == begin
        link(records, source, folder)
        update = follower.update()
        assert update is not None
        assert update.step == end
        return update.nbytes, update.seconds


def base_seconds(chain: codec.Chain, end: int) -> float:
    """Seconds of a new follower of a base alone."""
    state = chain.restore(end)
    with tempfile.TemporaryDirectory() as name:
        policy = {"*": "exact"}
        with codec.Checkpointer(Path(name) / "run.lcc", policy=policy) as checkpoints:
            checkpoints.save(0, state)
        times = []
        for _ in range(TIMES):
            begin = time.perf_counter()
            codec.Follower(place(Path(name) / "run.lcc")).update()
            times.append(time.perf_counter() - begin)
    return min(times)


def train(
    folder: Path, training: Training, steps: int, settings: dict[str, Any]
) -> dict[str, list[float]]:
    """Save each step into a chain for each way; returns the seconds of their saves."""
    stalls: dict[str, list[float]] = {way: [] for way in WAYS}
    with ExitStack() as stack:
        ways = {
            way: stack.enter_context(codec.Checkpointer(folder / f"{way}.lcc", **more, **settings))
            for way, more in WAYS.items()
        }
        for step in range(steps):
            if step:
                training.step()
            state = training.model.state_dict()
            if settings:  # a policy: exact
                state = {name: tensor.bfloat16() for name, tensor in state.items()}
            for way, checkpoints in ways.items():
                begin = time.perf_counter()
                checkpoints.save(step, state)
                stalls[way].append(time.perf_counter() - begin)
    return stalls


def deltas_nbytes(chain: codec.Chain, begin: int, end: int) -> float:
    """Bytes of the deltas after one step, up to another; a base counts as a delta of mean size."""
    sizes = [e.nbytes for e in chain.entries if begin < e.step <= end and e.kind == "delta"]
    return statistics.mean(sizes or [e.nbytes for e in chain.entries if e.step]) * (end - begin)


def print_costs(chains: dict[str, codec.Chain], stalls: dict[str, list[float]]) -> None:
    """What the chains take without their first bases, as a share of as many deltas."""
    plain = deltas_nbytes(chains["default"], 0, chains["default"].steps[-1])
    rows = []
    for way, chain in chains.items():
        nbytes = chain.nbytes - chain.entries[0].nbytes
        often = [s for i, s in enumerate(stalls[way]) if i > FIRST and i % OFTEN == 0]
        others = [s for i, s in enumerate(stalls[way]) if i > FIRST and i % OFTEN]
        medians = [f"{1000 * statistics.median(s):.0f}" for s in (others, often)]
        rows.append([way, f"{nbytes / plain:.2f}", *medians])
    print(table(["chain with", "bytes", "a save, ms", f"each {OFTEN}th save, ms"], rows))
    print()


def spread(values: list[float]) -> str:
    """Median and maximum."""
    return f"{statistics.median(values):.2f} ({max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--values", default="4M")
    parser.add_argument("--steps", type=int, default=230)
    parser.add_argument("--rate", type=float, default=3e-5, help="AdamW's learning rate")
    parser.add_argument("--lossy", action="store_true")
    parser.add_argument("--network", type=float, help="MB/s of the line to the chain")
    arguments = parser.parse_args()
    if arguments.network:
        Line.rate = 1e6 * arguments.network
        register_implementation("line", Line)
    (n,) = samples.parse_sizes(arguments.values)
    codec.warm_up()
    torch.manual_seed(0)
    width = int((n / LAYERS) ** 0.5)
    settings: dict[str, Any] = {} if arguments.lossy else {"policy": {"*": "exact"}}
    with tempfile.TemporaryDirectory() as name:
        stalls = train(Path(name), Training(width, arguments.rate), arguments.steps, settings)
        chains = {way: codec.Chain(Path(name) / f"{way}.lcc") for way in WAYS}
        kind = "float32, lossy" if arguments.lossy else "bfloat16, exact"
        line = f" through a line of {arguments.network:g} MB/s" if arguments.network else ""
        print(f"{n:,} weights, {kind}{line}; {codec.threads()} threads.\n")
        print_costs(chains, stalls)
        rows = []
        for behind in BEHIND:
            shares: dict[str, list[float]] = {way: [] for way in WAYS}
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            for before in ENDS:
                end = arguments.steps - 1 - before
                deltas = deltas_nbytes(chains["default"], end - behind, end)
                seconds = base_seconds(chains["default"], end)
                for way, chain in chains.items():
                    nbytes, taken = caught_up(chain, end - behind, end)
                    shares[way].append(nbytes / deltas)
                    times[way].append(taken / seconds)
            columns = itertools.chain(*((shares[way], times[way]) for way in WAYS))
            rows.append([str(behind), *map(spread, columns)])
        names = [f"{what}, {way}" for way in WAYS for what in ("bytes", "time")]
        print(table(["saves behind", *names], rows))


if __name__ == "__main__":
    main()
