"""What a step and a save of a small model take: LeNet-5's tensors, 61,706 parameters.

    PYTHONPATH=. python benchmarks/small.py [--against CHECKOUT] [--rounds 5]

A save is one in the loop, without the wait for the disk: fsync does nothing here. The states are
random walks with heavy tails. Each round is a process of its own; with --against, processes of this
version and of another checkout take turns, and the table has their ratios too.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

import codec

SHAPES = ((6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,), (10, 84))
SHAPES += ((10,),)
CASES: dict[str, dict[str, Any]] = {
    "2 bits": {"bits": 2},
    "3 bits": {"bits": 3},
    "2 bits, each tensor": {"bits": 2, "scope": "tensor"},
    "2 bits, context": {"bits": 2, "coder": "context"},
    "distance 0.3": {"distance": 0.3},
}
STEPS, FIRST = 60, 10  # the first steps warm up caches


def states() -> list[dict[str, np.ndarray]]:
    """A random walk."""
    rng = np.random.default_rng(0)
    walk = [{f"l{i}": rng.normal(size=s).astype(np.float32) for i, s in enumerate(SHAPES)}]
    for _ in range(STEPS):
        moves = ((k, a, rng.standard_t(2, size=a.shape)) for k, a in walk[-1].items())
        walk.append({k: a + (1e-4 * move).astype(np.float32) for k, a, move in moves})
    return walk


def save_next(checkpoints: codec.Checkpointer, state: dict[str, torch.Tensor]) -> None:
    """Save a state as the step after the newest one."""
    checkpoints.save(0 if checkpoints.step is None else checkpoints.step + 1, state)


def timed(save: Callable[[Any], object], walk: list[Any]) -> float:
    """Median milliseconds of a call, after the first ones."""
    times = []
    for state in walk:
        begin = time.perf_counter()
        save(state)
        times.append(time.perf_counter() - begin)
    return 1000 * statistics.median(times[FIRST:])


def measured() -> dict[str, tuple[float, float]]:
    """Case -> milliseconds of a step, and of a save."""
    codec.warm_up()
    walk = states()
    tensors = [{k: torch.from_numpy(a) for k, a in state.items()} for state in walk]
    result = {}
    for case, settings in CASES.items():
        step_ms = timed(codec.Tracker(walk[0], **settings).step, walk[1:])
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(os, "fsync"),
            codec.Checkpointer(Path(folder, "run.lcc"), **settings) as checkpoints,
        ):
            save_ms = timed(partial(save_next, checkpoints), tensors)
        result[case] = step_ms, save_ms
    return result


def in_a_process(folder: Path) -> dict[str, tuple[float, float]]:
    """What `measured` returns with the codec of this checkout."""
    done = subprocess.run(
        [sys.executable, __file__, "--only"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.only:
        print(json.dumps(measured()))
        return
    here = Path(__file__).resolve().parents[1]
    rounds = []
    for i in range(arguments.rounds):
        folders = [here, arguments.against] if arguments.against else [here]
        results = {folder: in_a_process(folder) for folder in folders[:: 1 if i % 2 else -1]}
        rounds.append([results[folder] for folder in folders])
    print("| | step, ms | save, ms |" + (" step, ratio | save, ratio |" * bool(arguments.against)))
    print("|---|---|---|" + "---|---|" * bool(arguments.against))
    for case in CASES:
        cells = [f"{statistics.median(r[0][case][i] for r in rounds):.2f}" for i in (0, 1)]
        if arguments.against:
            ratios = ([r[1][case][i] / r[0][case][i] for r in rounds] for i in (0, 1))
            cells += [f"{statistics.median(ratio):.2f}" for ratio in ratios]
        print(f"| {case} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
