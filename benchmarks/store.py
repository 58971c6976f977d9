"""What keeping a chain costs and saves: compaction, digests.

    PYTHONPATH=. python benchmarks/store.py [--iterations 256]

Compaction: models trained on the digits with the codec in the loop, one checkpoint an iteration and
no base but the first; bytes of the deltas alone, and the time to restore the newest step, which
checks all digests of its chain. After compaction the newest step is a base.

Digests: the time to compute the digest of all values of a state, beside the time of Tracker.step,
which updates it from the changes; medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import codec
import demo_models
from benchmarks.codec_speed.samples import make
from benchmarks.markdown import table
from codec.scheme.track import digest_sums

RUNS = (("lenet5", 2), ("lenet5", 3), ("alexnet", 2), ("alexnet", 3))
TIMES = 9


def main(arguments: list[str] | None = None) -> int:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=256)
    options = parser.parse_args(arguments)
    codec.warm_up()
    rows = [row for model, bits in RUNS for row in chain_rows(model, bits, options.iterations)]
    head = ["chain", "records", "bytes", "ms to restore the newest"]
    print(table(head, rows))
    rows = [digests(n) for n in (2**20, 2**24, 2**26)]
    print(table(["94 % zeros", "digest of all values, ms", "a step, ms", "ratio"], rows))
    return 0


def chain_rows(model: str, bits: int, iterations: int) -> list[list[str]]:
    """Cells for one chain, before and after a compaction."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.lcc"
        task = demo_models.make_task(model, "digits", seed=0)
        optimizer = torch.optim.SGD(task.model.parameters(), 0.05)
        with codec.Checkpointer(path, bits, restore_work=None) as checkpoints:
            checkpoints.save(0, task.model.state_dict())
            for step in range(1, iterations + 1):
                optimizer.zero_grad()
                task.loss(task.batch(step, 32)).backward()
                optimizer.step()
                checkpoints.save(step, task.model.state_dict())
        seconds = [seconds_to_restore(path)]
        change = codec.compact(path)
        seconds.append(seconds_to_restore(path))
    names = f"{model}, {bits} bits, {iterations} steps", "… compacted"
    return [
        [name, str(n), f"{nbytes:,}", f"{1000 * took:.1f}"]
        for name, n, nbytes, took in zip(names, change.records, change.nbytes, seconds)
    ]


def seconds_to_restore(path: Path) -> float:
    """The least of five restores of the newest step."""
    seconds = []
    for _ in range(5):
        begin = time.perf_counter()
        codec.restore(path)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def digests(n: int) -> list[str]:
    """Cells for a state of n parameters: the digest of all values, and a whole step."""
    sample = make("lap", n)
    tracker = codec.Tracker(sample.tensors(sample.track), bits=3)
    ratios, whole, steps = [], [], []
    for _ in range(TIMES):
        for name, array in sample.tensors(sample.track).items():
            tracker.state[name][...] = array
        whole.append(timed(lambda: digest_sums(tracker.track.layout, tracker.state)))
        steps.append(timed(lambda: tracker.step(sample.tensors(sample.state))))
        ratios.append(whole[-1] / steps[-1])
    ms = [f"{1000 * statistics.median(times):.2f}" for times in (whole, steps)]
    return [f"{n:,} parameters", *ms, f"{statistics.median(ratios):.2f}"]


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
