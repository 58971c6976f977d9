"""States on a GPU: how long the copy to main memory takes, and how long a save holds up a training.

    PYTHONPATH=. python benchmarks/cuda.py [--mib 1024] [--rounds 5]

Needs CUDA. The copy of all tensors at once, which a save makes and which converts bfloat16 to
float32, is compared with `tensor.to("cpu")` for one tensor after the other.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

import codec
from codec.inspect import layout_of, to_arrays

TENSORS = 16


def seconds(work: Callable[[], Any], rounds: int) -> float:
    """The median of so many rounds, after one that is not counted."""
    took = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        kept = work()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - begin)
        del kept
    return statistics.median(took[1:])


def copies(title: str, state: dict[str, torch.Tensor], rounds: int) -> None:
    """Print a row: how long the copies of a state take."""
    layout = layout_of(state)
    alone = seconds(lambda: [tensor.to("cpu") for tensor in state.values()], rounds)
    together = seconds(lambda: to_arrays(state, layout), rounds)
    print(f"| {title} | {1e3 * alone:.1f} ms | {1e3 * together:.1f} ms |", flush=True)


def stall(weights: dict[str, torch.Tensor], rounds: int, asynchronous: bool) -> float:
    """Seconds that a save holds up a training; a background save is waited for afterwards."""
    took = []
    with (
        tempfile.TemporaryDirectory() as folder,
        codec.Checkpointer(f"{folder}/run.lcc", asynchronous=asynchronous) as checkpoints,
    ):
        for step in range(rounds + 1):
            for tensor in weights.values():
                tensor.add_(torch.randn_like(tensor), alpha=0.01)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            saved = checkpoints.save(step, {"model": weights})
            took.append(time.perf_counter() - begin)
            if asynchronous:
                saved.result()
    return statistics.median(took[1:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=1024, help="of weights in float32")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    n = arguments.mib * 2**18 // TENSORS
    torch.manual_seed(0)
    weights = {f"w{i}": torch.randn(n, device="cuda") for i in range(TENSORS)}
    small = {f"s{i}": torch.randn(64, device="cuda") for i in range(1000)}
    print(f"{torch.cuda.get_device_name()}, medians of {arguments.rounds} rounds\n")
    print("| copy to main memory | one by one | all at once |\n|---|---|---|")
    copies(f"{arguments.mib} MiB of float32", weights, arguments.rounds)
    halves = {name: tensor.bfloat16() for name, tensor in weights.items()}
    copies(f"{arguments.mib // 2} MiB of bfloat16", halves, arguments.rounds)
    copies("1,000 tensors of 64 values", small, arguments.rounds)
    codec.warm_up()
    print("\n| save | the training waits |\n|---|---|")
    for asynchronous, title in ((False, "in the loop"), (True, "asynchronous")):
        waits = stall(weights, arguments.rounds, asynchronous)
        print(f"| {title} | {waits:.3f} s |", flush=True)


if __name__ == "__main__":
    main()
