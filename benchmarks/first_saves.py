"""A training's first saves after an installation, when no kernel is compiled yet.

    PYTHONPATH=. python benchmarks/first_saves.py [--saves 5]

Each row is a new process with an empty cache for compiled kernels. It trains a model with AdamW, on
one processor, and saves model and optimizer after every iteration: the first is a base. Another
process compiles meanwhile. Needs two processors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import codec
from benchmarks.markdown import table
from codec import child
from lcviz.lab.machine import machine

WIDTHS = {"267,000": (784, 300, 100, 10), "5 million": (784, 2000, 1600, 100, 10)}
COMPUTE = "from benchmarks.first_saves import train; train({widths}, {saves})"


def main() -> None:
    """Measure, and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--saves", type=int, default=5)
    options = parser.parse_args()
    print(machine(("numpy", "numba", "llvmlite")))
    rows = []
    for name, widths in WIDTHS.items():
        with tempfile.TemporaryDirectory() as cache:
            answer = subprocess.run(
                child.command(COMPUTE.format(widths=widths, saves=options.saves)),
                env=os.environ | {"NUMBA_CACHE_DIR": cache},
                stdout=subprocess.PIPE,
                check=True,
            )
        saves = json.loads(answer.stdout)
        shown = " ".join(f"{seconds:.2f}" for seconds, _, _ in saves)
        kinds = " ".join(kind for _, kind, _ in saves)
        rows.append([name, shown, kinds, saves[-1][2] or ""])
    print(table(["parameters", "seconds of each save", "kinds", "why the last is a base"], rows))


def train(widths: tuple[int, ...], n_saves: int) -> None:
    """Train, save, and print the seconds, kind and reason of each save as JSON."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(*pair) for pair in itertools.pairwise(widths)))
    optimizer = torch.optim.AdamW(model.parameters())
    saves = []
    with tempfile.TemporaryDirectory() as folder, codec.Checkpointer(Path(folder, "c")) as chain:
        for step in range(n_saves):
            loss = model(torch.randn(64, widths[0])).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            start = time.perf_counter()
            saved = chain.save(step, state)
            saves.append((time.perf_counter() - start, saved.kind, saved.reason))
    json.dump(saves, sys.stdout)


if __name__ == "__main__":
    main()
