"""Bytes and seconds of distributed checkpoints at a large size: 1,000 ranks, 70 B parameters.

    PYTHONPATH=. python benchmarks/plan.py [--weights]

First, rates are measured on this machine with one thread and a chunk of parameters: bytes of a base
and of a delta, seconds that a save computes (without fsync), and seconds to load a base and to
apply a delta. AdamW moves the weights, with gradients drawn at random; its two moments are saved
too, lossy as is the default. --weights saves the weights alone.

Then a step is simulated. Each rank encodes its share in a time drawn from the measured saves. Then
it writes to a storage whose bandwidth all writing ranks share evenly; no rank is faster than its
link. Plain DCP computes nothing. The step is done when the last rank is. A restore reads base and
deltas from the same storage and rebuilds the track.

The simulation leaves out the storage's network, metadata and its collectives, and fsync.
"""

from __future__ import annotations

import argparse
import heapq
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp

import codec
from benchmarks.markdown import table
from codec.chain.replay import Replay
from codec.dcp import ChainWriter
from codec.record import record as records
from codec.storage.source import Entry

FLOAT = 4  # bytes
RATE, BETAS, GRADIENT = 1e-4, (0.9, 0.999), 1e-3  # of AdamW; the size of gradients


@dataclass(frozen=True)
class Rates:
    """Measured costs of one parameter. plain: bytes in float32. base, delta: bytes. saves (of each
    measured delta), load (of a base), apply (of a delta): seconds."""

    plain: float
    base: float
    delta: float
    saves: tuple[float, ...]
    load: float
    apply: float


def main() -> int:
    """Measure, simulate, print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--chunk", type=int, default=70_000_000, help="parameters to measure with")
    parser.add_argument("--steps", type=int, default=8, help="to measure with")
    parser.add_argument("--weights", action="store_true", help="leave the moments out")
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--parameters", type=float, default=70e9)
    parser.add_argument("--base-every", type=int, default=50)
    parser.add_argument("--bandwidths", default="10,50,200", help="of all the storage, GB/s")
    parser.add_argument("--link", type=float, default=1.0, help="of a rank, GB/s")
    options = parser.parse_args()
    rates = measure(options.chunk, options.steps, not options.weights)
    share = options.parameters / options.ranks
    bandwidths = [float(text) * 1e9 for text in options.bandwidths.split(",")]
    print(measured(rates))
    print(sizes(rates, options.parameters, options.ranks, options.base_every))
    print(writing(rates, share, options.ranks, bandwidths, options.link * 1e9))
    print(restoring(rates, share, options.ranks, bandwidths, options.link * 1e9))
    return 0


def measure(n: int, steps: int, moments: bool) -> Rates:
    """Measure with one process and one thread, files in the page cache."""
    warnings.simplefilter("ignore")  # of torch: there are no ranks
    codec.set_threads(1)
    torch.set_num_threads(1)
    codec.warm_up()
    rng = torch.Generator().manual_seed(0)

    def drawn() -> torch.Tensor:
        return torch.randn((n // 512, 512), generator=rng)

    weight, (b1, b2) = drawn() * 0.02, BETAS
    first = drawn() * GRADIENT * ((1 - b1) / (1 + b1)) ** 0.5
    second = torch.full_like(weight, GRADIENT**2)
    state: dict[str, Any] = {"model": {"w": weight}}
    if moments:
        state["optim"] = {"state": {"w": {"exp_avg": first, "exp_avg_sq": second}}}
    n = weight.numel()
    nbytes, saves, applied = [], [], []
    fsync, os.fsync = os.fsync, lambda descriptor: None
    try:
        with tempfile.TemporaryDirectory() as folder:
            writer, walks = ChainWriter(), dict[str | None, Replay]()
            for step in range(steps + 1):
                path = Path(folder) / f"{step}"
                began = time.perf_counter()
                dcp.save(state, storage_writer=writer, checkpoint_id=path)
                saves.append(time.perf_counter() - began)
                files = sorted(path.glob("*.safetensors"))  # each has a chain of its own
                nbytes.append(sum(file.stat().st_size for file in files))
                began = time.perf_counter()  # what a reader does with each record of the chain
                for file in files:
                    record = records.load(file.read_bytes(), file.name)
                    walk = walks.pop(record.parent, None) or Replay()
                    walk.advance(Entry(step, record.kind, file.name, 0), record)
                    walks[walk.identity] = walk
                applied.append(time.perf_counter() - began)
                gradient = GRADIENT * drawn()
                first.mul_(b1).add_(gradient, alpha=1 - b1)
                second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
                weight.addcdiv_(first, second.sqrt(), value=-RATE)
    finally:
        os.fsync = fsync
    # The first delta's track is committed by the second, so the first is left out.
    delta, apply = statistics.median(nbytes[1:]), statistics.median(applied[1:])
    plain = FLOAT * (3 if moments else 1)
    return Rates(
        plain, nbytes[0] / n, delta / n, tuple(s / n for s in saves[2:]), applied[0] / n, apply / n
    )


def last_end(starts: Sequence[float], nbytes: float, bandwidth: float, link: float) -> float:
    """The time at which the last rank has written its bytes, seconds.

    Ranks that write at the same time share the bandwidth evenly, each at most its link; so the rank
    that begins first ends first.

    Args:
        starts: When each rank begins to write, seconds.
        nbytes: What each rank writes.
        bandwidth: Of the storage, bytes a second.
        link: Of a rank, bytes a second.
    """
    waiting = sorted(starts)
    ends: list[float] = []  # of the writing ranks, as values of `written`
    now = written = 0.0  # written: bytes of a rank that writes from the first start on
    i = 0
    while i < len(waiting) or ends:
        rate = min(link, bandwidth / len(ends)) if ends else 0.0
        finish = now + (ends[0] - written) / rate if ends else float("inf")
        begin = waiting[i] if i < len(waiting) else float("inf")
        until = min(finish, begin)
        written += (until - now) * rate
        now = until
        if begin <= finish:
            heapq.heappush(ends, written + nbytes)
            i += 1
        else:
            written = heapq.heappop(ends)
    return now


def measured(rates: Rates) -> str:
    """A table of the rates."""
    save = statistics.median(rates.saves)
    rows = [
        ("bytes of a base, a parameter", f"{rates.base:.3f}"),
        ("bytes of a delta, a parameter", f"{rates.delta:.4f}"),
        ("saving a delta, million parameters a second", f"{1e-6 / save:.0f}"),
        ("slowest of the measured saves ÷ their median", f"{max(rates.saves) / save:.2f}"),
        ("loading a base, million parameters a second", f"{1e-6 / rates.load:.0f}"),
        ("applying a delta, million parameters a second", f"{1e-6 / rates.apply:.0f}"),
    ]
    return table(("measured here, one thread", ""), rows)


def sizes(rates: Rates, parameters: float, ranks: int, base_every: int) -> str:
    """Bytes of all ranks, and memory of one."""
    full, base, delta = (x * parameters for x in (rates.plain, rates.base, rates.delta))
    mean = (base + base_every * delta) / (base_every + 1)
    track = rates.plain * parameters / ranks
    rows = [
        ("plain DCP, float32", f"{full / 1e9:.1f} GB"),
        ("a base", f"{base / 1e9:.1f} GB"),
        ("a delta", f"{delta / 1e9:.2f} GB, {full / delta:.1f} x fewer"),
        (
            f"mean, one base and {base_every} deltas",
            f"{mean / 1e9:.1f} GB, {full / mean:.1f} x fewer",
        ),
        ("a delta, of one rank", f"{delta / ranks / 1e6:.2f} MB"),
        ("track, memory of one rank", f"{track / 1e6:.0f} MB"),
    ]
    return table((f"{parameters / 1e9:g} B parameters, {ranks:,} ranks", ""), rows)


def writing(
    rates: Rates, share: float, ranks: int, bandwidths: Sequence[float], link: float
) -> str:
    """Seconds until the last rank has written its part."""
    rng = np.random.default_rng(0)
    computed = share * rng.choice(rates.saves, ranks)
    rows = []
    for bandwidth in bandwidths:
        plain = last_end([0.0] * ranks, share * rates.plain, bandwidth, link)
        base = last_end([0.0] * ranks, share * rates.base, bandwidth, link)
        delta = last_end(computed.tolist(), share * rates.delta, bandwidth, link)
        rows.append((f"{bandwidth / 1e9:g} GB/s", *(f"{t:.2f}" for t in (plain, base, delta))))
    return table(("storage", "plain DCP, s", "a base, writing, s", "a delta, s"), rows)


def restoring(
    rates: Rates, share: float, ranks: int, bandwidths: Sequence[float], link: float
) -> str:
    """Seconds until the last rank has its track, by length of the chain."""
    lengths = (0, 10, 50, 200)
    rows = []
    for bandwidth in bandwidths:
        times = [last_end([0.0] * ranks, share * rates.plain, bandwidth, link)]
        for n in lengths:
            nbytes = share * (rates.base + n * rates.delta)
            read = last_end([0.0] * ranks, nbytes, bandwidth, link)
            times.append(read + share * (rates.load + n * rates.apply))
        rows.append((f"{bandwidth / 1e9:g} GB/s", *(f"{t:.2f}" for t in times)))
    head = ("storage", "plain DCP, s", *(f"{n} deltas, s" for n in lengths))
    return table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
