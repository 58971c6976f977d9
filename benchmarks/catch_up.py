"""How a follower catches up: bytes and seconds with jumps, without, and from a base.

    PYTHONPATH=. python benchmarks/catch_up.py [--values 4M] [--steps 230] [--rate 3e-5] [--lossy]

AdamW trains the network of benchmarks/follow.py. Each step its weights are saved exactly in
bfloat16, with jumps; --lossy saves them as float32 with the default settings. Followers that are a
number of saves behind the newest step update once, from several steps each. *Bytes* are those that
they read, as a share of the deltas between; *time* is that of loading a base of the same step.
Median and, in brackets, the largest of the followers. Files are read from the disk's cache.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import codec
from benchmarks.codec_speed import samples
from benchmarks.follow import LAYERS, Training
from codec.storage.source import Entry
from lcviz.lab.markdown import table

BEHIND = (1, 10, 30, 100)
ENDS = (0, 1, 5, 13, 22, 29)  # saves that a follower's last step lies before the chain's end
TIMES = 3  # the fastest of so many loads of a base counts


def link(entries: Iterable[Entry], source: Path, folder: Path) -> None:
    """Put records into a folder."""
    folder.mkdir(exist_ok=True)
    for entry in entries:
        if not (folder / entry.name).exists():
            os.link(source / entry.name, folder / entry.name)


def caught_up(chain: codec.Chain, begin: int, end: int, jumps: bool) -> tuple[int, float]:
    """Bytes and seconds of a follower that goes from one step to another."""
    source = Path(chain.where)
    records = [e for e in chain.entries if e.step <= end]
    if jumps:
        records += [e for e in chain.jumps if e.step <= end]
    with tempfile.TemporaryDirectory(dir=source.parent) as name:
        folder = Path(name) / "run.lcc"
        link([e for e in records if e.step <= begin], source, folder)
        follower = codec.Follower(folder)
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
            codec.Follower(Path(name) / "run.lcc").update()
            times.append(time.perf_counter() - begin)
    return min(times)


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
    arguments = parser.parse_args()
    (n,) = samples.parse_sizes(arguments.values)
    codec.warm_up()
    torch.manual_seed(0)
    width = int((n / LAYERS) ** 0.5)
    training = Training(width, arguments.rate)
    settings: dict[str, Any] = {} if arguments.lossy else {"policy": {"*": "exact"}}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "run.lcc"
        stalls: dict[bool, list[float]] = {True: [], False: []}  # by whether a jump is due
        with codec.Checkpointer(path, jumps=True, **settings) as checkpoints:
            for step in range(arguments.steps):
                if step:
                    training.step()
                state = training.model.state_dict()
                if not arguments.lossy:
                    state = {name: tensor.bfloat16() for name, tensor in state.items()}
                begin = time.perf_counter()
                checkpoints.save(step, state)
                stalls[step % 8 == 0].append(time.perf_counter() - begin)
        chain = codec.Chain(path)
        deltas, jumps = (sum(e.nbytes for e in es if e.step) for es in (chain.entries, chain.jumps))
        medians = [1000 * statistics.median(stalls[due][5:]) for due in (False, True)]
        kind = "float32, lossy" if arguments.lossy else "bfloat16, exact"
        print(
            f"{n:,} weights, {kind}; {codec.threads()} threads. {len(chain.jumps)} jumps take "
            f"{jumps / deltas:.2f} of the bytes of the other records without the first base. A "
            f"save takes {medians[0]:.0f} ms, one with a jump {medians[1]:.0f} ms.\n"
        )
        rows = []
        for behind in BEHIND:
            shares: dict[bool, list[float]] = {True: [], False: []}
            times: dict[bool, list[float]] = {True: [], False: []}
            for before in ENDS:
                end = arguments.steps - 1 - before
                between = [e.nbytes for e in chain.entries if end - behind < e.step <= end]
                seconds = base_seconds(chain, end)
                for with_jumps in (True, False):
                    nbytes, taken = caught_up(chain, end - behind, end, with_jumps)
                    shares[with_jumps].append(nbytes / sum(between))
                    times[with_jumps].append(taken / seconds)
            columns = itertools.chain(*((shares[j], times[j]) for j in (True, False)))
            rows.append([str(behind), *map(spread, columns)])
        print(
            table(
                ["saves behind", "bytes, jumps", "time, jumps", "bytes, none", "time, none"], rows
            )
        )


if __name__ == "__main__":
    main()
