"""What saving costs a training loop: iterations with and without it, side by side.

    PYTHONPATH=. python benchmarks/saving.py --threads 1

Each round trains the same model from the same seed without saving, then with a Checkpointer that
saves every iteration: in the loop, and asynchronously (waiting for the save before, or skipping).
For comparison, it also trains without saving beside a process that only counts, and beside one that
only writes small files and waits for the disk. Ratios are taken within a round; medians of rounds
are shown. "in save" is the median time of a call.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import codec
from benchmarks.experiments.overhead import MODES, NONE, SavingCost, round_of, train
from benchmarks.markdown import table
from lcviz.lab.workload import Workload

MODELS = ("lenet5", "alexnet")
BESIDE = {
    "counts": "while True: pass",
    "writes": "import os, sys\n"
    "while True:\n"
    "    file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)\n"
    "    os.write(file, b'x' * 1000), os.fsync(file), os.close(file)",
}


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
    """The table of one model, with the dashboard's settings."""
    workload = Workload(model, "digits", lr=0.05)
    costs_by_mode: dict[str, list[SavingCost]] = {}
    for _ in range(options.rounds):
        plain, *costs = round_of(workload, 0, options.iterations, {}, folder=options.folder)
        for cost in (plain, *beside(workload, plain.iteration, options), *costs):
            costs_by_mode.setdefault(cost.mode, []).append(cost)
    rows = []
    for mode, runs in costs_by_mode.items():
        over = statistics.median(run.above for run in runs)
        rows.append([mode, f"{1e3 * statistics.median(r.iteration for r in runs):.2f}"])
        rows[-1] += [f"{over:+.1%}"]
        saves = mode in MODES and mode != NONE
        rows[-1] += [f"{1e3 * statistics.median(r.call for r in runs):.2f}"] if saves else ["–"]
        rows[-1] += [f"{statistics.median(r.saved for r in runs):.0%}"] if saves else ["–"]
    head = [f"{model}, saved every iteration", "ms an iteration", "above it", "ms in save", "saved"]
    return table(head, rows)


def beside(workload: Workload, plain: float, options: argparse.Namespace) -> list[SavingCost]:
    """The same training without saving, beside another process."""
    costs = []
    for what, code in BESIDE.items():
        with (
            tempfile.TemporaryDirectory(dir=options.folder) as folder,
            subprocess.Popen([sys.executable, "-c", code, f"{folder}/file"]) as busy,
        ):
            seconds, _ = train(workload, 0, options.iterations, lambda _step, _state: None)
            busy.kill()
        mode = f"the same, beside a process that {what}"
        costs.append(SavingCost(mode, seconds, seconds / plain - 1))
    return costs


if __name__ == "__main__":
    sys.exit(main())
