"""What saving costs a training loop: iterations with and without it, side by side.

    PYTHONPATH=. python benchmarks/saving.py --threads 1

Each round trains the same model from the same seed without saving, then with a Checkpointer that
saves every iteration: in the loop, and asynchronously (waiting for the save before, or skipping).
How much a process that does nothing but count slows the loop down is shown beside it: less than
that no process can cost. Ratios are taken within a round; medians of rounds are shown.
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
    found: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in MODES}
    plain = []
    beside: list[float] = []
    for _ in range(options.rounds):
        plain.append(train(model, options.iterations, lambda step, state: None))
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            beside.append(train(model, options.iterations, lambda step, state: None))
            busy.kill()
        for mode, settings in MODES.items():
            found[mode].append((*saving(model, options, settings), plain[-1]))
    rows = [["without saving", f"{1e3 * statistics.median(plain):.2f}", "–", "–"]]
    over = statistics.median(own / base - 1 for own, base in zip(beside, plain))
    rows.append(
        ["the same beside a busy process", f"{1e3 * statistics.median(beside):.2f}",
         f"{over:+.1%}", "–"]
    )  # fmt: skip
    for mode, runs in found.items():
        seconds, share = (statistics.median(values) for values in list(zip(*runs))[:2])
        over = statistics.median(own / base - 1 for own, _, base in runs)
        rows.append([mode, f"{1e3 * seconds:.2f}", f"{over:+.1%}", f"{share:.0%}"])
    head = [f"{model}, saved every iteration", "ms an iteration", "above it", "saved"]
    return markdown.table(head, rows)


def saving(
    model: str, options: argparse.Namespace, settings: dict[str, Any]
) -> tuple[float, float]:
    """Seconds of an iteration, and the share of them that were saved."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "run.lcc"
        with codec.Checkpointer(path, **settings) as checkpoints:
            seconds = train(model, options.iterations, checkpoints.save)
        return seconds, len(codec.Chain(path).steps) / options.iterations


def train(model: str, iterations: int, save: Callable[[int, Any], object]) -> float:
    """Mean seconds of an iteration, that of the last save included as far as it is waited for."""
    task = demo_models.make_task(model, "digits", seed=0)
    optimizer = torch.optim.SGD(task.model.parameters(), 0.05)
    started = 0.0
    for step in range(1, iterations + 1):
        if step == WARM_UP:
            started = time.perf_counter()
        optimizer.zero_grad()
        task.loss(task.batch(step, 32)).backward()
        optimizer.step()
        saved = save(step, task.model.state_dict())
        if step == 1:
            getattr(saved, "nbytes", None)  # the other process has started once it is told
    return (time.perf_counter() - started) / (iterations + 1 - WARM_UP)


if __name__ == "__main__":
    sys.exit(main())
