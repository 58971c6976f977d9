"""What saving many small parameter tensors costs, with and without an optimizer's moments.

    PYTHONPATH=. python benchmarks/moments.py --tensors 1000 5000

Parameters have 64 to 1,000 elements; AdamW makes real steps with random gradients. Each round saves
the weights alone, the weights with AdamW's state, and all of it with torch.save, to a file that is
synced as records are. Medians of the saves after the first two, which are a base and the first
delta.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import codec
from benchmarks.markdown import table

SMALLEST, LARGEST = 64, 1000  # elements of a parameter tensor
LARGE = 2**20  # elements of one of a few large tensors


def training(sizes: list[int]) -> tuple[list[torch.nn.Parameter], torch.optim.AdamW]:
    """Parameters of these sizes, and their optimizer."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(size) * 0.05) for size in sizes]
    return parameters, torch.optim.AdamW(parameters, lr=1e-3)


def step(parameters: list[torch.nn.Parameter], optimizer: torch.optim.AdamW) -> None:
    """Take one step with random gradients, whose scale differs from tensor to tensor."""
    for i, parameter in enumerate(parameters):
        parameter.grad = torch.randn_like(parameter) * 10.0 ** -(i % 5)
    optimizer.step()


def measured(sizes: list[int], saves: int, *, moments: bool, bits: int) -> tuple[float, float]:
    """Median seconds of a save, and bytes of its record."""
    parameters, optimizer = training(sizes)
    times, nbytes = [], []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with codec.Checkpointer(Path(folder, "run.lcc"), bits=bits) as checkpoints:
            for i in range(saves + 2):
                step(parameters, optimizer)
                weights = {str(n): p for n, p in enumerate(parameters)}
                state: dict[str, Any] = {"model": weights}
                if moments:
                    state["optimizer"] = optimizer.state_dict()
                begin = time.perf_counter()
                saved = checkpoints.save(i, state)
                times.append(time.perf_counter() - begin)
                nbytes.append(saved.nbytes)
    return statistics.median(times[2:]), statistics.median(nbytes[2:])


def torch_save(sizes: list[int], saves: int) -> float:
    """Median seconds of torch.save with a sync."""
    parameters, optimizer = training(sizes)
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(saves):
            step(parameters, optimizer)
            weights = {str(n): p for n, p in enumerate(parameters)}
            begin = time.perf_counter()
            with open(Path(folder, f"{i}.pt"), "wb") as file:
                torch.save({"model": weights, "optimizer": optimizer.state_dict()}, file)
                os.fsync(file.fileno())
            times.append(time.perf_counter() - begin)
    return statistics.median(times)


def row(name: str, sizes: list[int], saves: int, bits: int) -> list[str]:
    """One row of the table."""
    weights, weights_nbytes = measured(sizes, saves, moments=False, bits=bits)
    whole, whole_nbytes = measured(sizes, saves, moments=True, bits=bits)
    peer = torch_save(sizes, min(saves, 5))
    return [
        name,
        f"{1e3 * weights:.1f}",
        f"{1e3 * whole:.1f}",
        f"{whole / weights:.1f}",
        f"{1e3 * peer:.1f}",
        f"{weights_nbytes:,.0f}",
        f"{whole_nbytes:,.0f}",
        f"{(whole_nbytes - weights_nbytes) / len(sizes):.1f}",
    ]


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tensors", type=int, nargs="*", default=[1000, 5000])
    parser.add_argument("--large", type=int, default=4, help="tensors of 2**20 elements")
    parser.add_argument("--saves", type=int, default=9)
    parser.add_argument("--bits", type=int, default=2, help="of the weights")
    options = parser.parse_args(arguments)
    codec.warm_up()
    lenet5 = [150, 6, 2400, 16, 48_000, 120, 10_080, 84, 840, 10]
    random = np.random.default_rng(0)
    cases = [
        (f"{n:,} small tensors", random.integers(SMALLEST, LARGEST + 1, n).tolist())
        for n in options.tensors
    ]
    cases += [("LeNet-5's sizes", lenet5)]
    cases += [(f"{options.large} tensors of 2^20", [LARGE] * options.large)] * (options.large > 0)
    head = ["parameters", "weights, ms", "and moments, ms", "ratio", "torch.save, ms"]
    head += ["weights, bytes", "and moments, bytes", "bytes a tensor of moments and step"]
    rows = [row(name, sizes, options.saves, options.bits) for name, sizes in cases]
    print(table(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
