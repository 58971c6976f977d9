"""What saving costs a training loop: iterations with and without it, side by side.

    PYTHONPATH=. python benchmarks/saving.py --threads 1

Each round trains the same model from the same seed without saving, then with a Checkpointer that
saves every iteration: in the loop, and asynchronously (waiting for the save before, or skipping).
What a process beside it costs the loop is shown too: one that only counts, and one that only writes
small files and waits for the disk. Ratios are taken within a round; medians of
rounds are shown. "in save" is the median time of a call.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import codec
import demo_models
from codec.bench import markdown

MODELS = ("lenet5", "alexnet")
MODES: dict[str, dict[str, Any]] = {
    "in the loop": {},
    "asynchronous": {"asynchronous": True},
    "asynchronous, skip": {"asynchronous": True, "when_busy": "skip"},
}
BESIDE = {
    "counts": "while True: pass",
    "writes": "import os, sys\n"
    "while True:\n"
    "    file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
    "    os.write(file, b'x' * 1000), os.fsync(file), os.close(file)",
}
WARM_UP = 20  # iterations before the clock starts


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1, help="of torch; the dashboard uses 1")
    parser.add_argument("--folder", type=Path, help="where chains are written (default: temporary)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    codec.warm_up()
    for model in options.models.split(","):
        print(compare(model, options))
    return 0


def compare(model: str, options: argparse.Namespace) -> str:
    """The table of one model."""
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for _ in range(options.rounds):
        plain, _ = train(model, options.iterations, lambda step, state: None)
        found.setdefault("without saving", []).append((plain, plain, 0.0, 0.0))
        for what, code in BESIDE.items():
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                command = [sys.executable, "-c", code, f"{folder}/file"]
                with subprocess.Popen(command) as busy:
                    seconds, _ = train(model, options.iterations, lambda step, state: None)
                    busy.kill()
            own = found.setdefault(f"the same, beside a process that {what}", [])
            own.append((seconds, plain, 0.0, 0.0))
        for mode, settings in MODES.items():
            own = found.setdefault(mode, [])
            own.append(saving(model, options, settings, plain))
    rows = []
    for mode, runs in found.items():
        over = statistics.median(own / base - 1 for own, base, _, _ in runs)
        seconds, _, held, share = (statistics.median(values) for values in zip(*runs))
        rows.append([mode, f"{1e3 * seconds:.2f}", f"{over:+.1%}"])
        rows[-1] += [f"{1e3 * held:.2f}", f"{share:.0%}"] if mode in MODES else ["–", "–"]
    head = [f"{model}, saved every iteration", "ms an iteration", "above it", "ms in save", "saved"]
    return markdown.table(head, rows)


def saving(
    model: str, options: argparse.Namespace, settings: dict[str, Any], plain: float
) -> tuple[float, float, float, float]:
    """Seconds of an iteration, those without saving, those in save, and the share saved."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "run.lcc"
        with codec.Checkpointer(path, **settings) as checkpoints:
            seconds, held = train(model, options.iterations, checkpoints.save)
        return seconds, plain, held, len(codec.Chain(path).steps) / options.iterations


def train(model: str, iterations: int, save: Callable[[int, Any], object]) -> tuple[float, float]:
    """Mean seconds of an iteration, the last save included as far as it is waited for, and the
    median of those in save."""
    task = demo_models.make_task(model, "digits", seed=0)
    optimizer = torch.optim.SGD(task.model.parameters(), 0.05)
    started, held = 0.0, []
    for step in range(1, iterations + 1):
        if step == WARM_UP:
            started = time.perf_counter()
        optimizer.zero_grad()
        task.loss(task.batch(step, 32)).backward()
        optimizer.step()
        state, begin = task.model.state_dict(), time.perf_counter()
        saved = save(step, state)
        held.append(time.perf_counter() - begin)
        if step == 1:
            getattr(saved, "nbytes", None)  # the other process has started once it is told
    seconds = (time.perf_counter() - started) / (iterations + 1 - WARM_UP)
    return seconds, statistics.median(held[WARM_UP:])


if __name__ == "__main__":
    sys.exit(main())
