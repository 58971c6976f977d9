"""A training's first two saves after an installation, when no kernel is compiled yet.

    PYTHONPATH=. python benchmarks/first_saves.py [--before 0 3 8 20] [--alone]

Each row is a new process with an empty cache. It saves a model of 267,000 parameters twice, a base
and a delta, and computes for so many seconds before each save, on one processor. Another process
compiles meanwhile, unless --alone. Needs two processors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import codec
from codec import child
from codec.saving import checkpointer
from lcviz.lab.machine import machine
from lcviz.lab.markdown import table

SHAPES = [(784, 300), (300,), (300, 100), (100,), (100, 10), (10,)]
COMPUTE = "from benchmarks.first_saves import train; train({seconds}, {alone})"


def main() -> None:
    """Measure, and print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=float, nargs="+", default=[0, 3, 8, 20])
    parser.add_argument(
        "--alone", action="store_true", help="compile in the training's process only"
    )
    options = parser.parse_args()
    print(machine(("numpy", "numba", "llvmlite")))
    rows = []
    for seconds in options.before:
        with tempfile.TemporaryDirectory() as cache:
            answer = subprocess.run(
                child.command(COMPUTE.format(seconds=seconds, alone=options.alone)),
                env=os.environ | {"NUMBA_CACHE_DIR": cache},
                stdout=subprocess.PIPE,
                check=True,
            )
        base, delta = json.loads(answer.stdout)
        rows.append([f"{seconds:g}", f"{base:.1f}", f"{delta:.1f}"])
    print(table(["computed before each save, s", "first save, s", "second save, s"], rows))


def train(seconds: float, alone: bool) -> None:
    """Compute, save, and print the seconds of each save as JSON."""
    if alone:
        checkpointer.load_beside = lambda: None
    rng = np.random.default_rng(0)
    state = {f"{i}": rng.standard_normal(shape, np.float32) for i, shape in enumerate(SHAPES)}
    took = []
    with tempfile.TemporaryDirectory() as folder, codec.Checkpointer(Path(folder, "c")) as chain:
        for step in range(2):
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                state = {name: array + np.float32(1e-6) for name, array in state.items()}
            state = {
                name: array + np.float32(1e-3) * rng.standard_normal(array.shape, np.float32)
                for name, array in state.items()
            }
            start = time.perf_counter()
            chain.save(step, state)
            took.append(time.perf_counter() - start)
    json.dump(took, sys.stdout)


if __name__ == "__main__":
    main()
