"""What a save costs a training: the loop waits for it, and the steps after it are slower.

    PYTHONPATH=. python benchmarks/contention.py [--values 8M] [--every 10] [--saves 12]

A network trains with AdamW on all cores. Every few steps its weights and the optimizer's state are
saved, in turn by

    torch.save            a whole file, fsynced
    dcp.async_save        PyTorch's own writer, whole states, in a thread
    Checkpointer          the default settings
    asynchronous          the same with asynchronous=True
    dcp.async_save, LC    `codec.dcp.ChainWriter`, in a thread

*Stall* is the time that the call takes. *Slowdown* is what the steps until the next save take
longer, together, than as many steps of the same training without saves. Trainings with and without
saves take turns; each pair gives one figure, and the median is shown. The first save of a training,
a whole state, is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

import codec
from benchmarks.codec_speed import samples
from benchmarks.follow import LAYERS, Training
from benchmarks.markdown import table
from codec.dcp import ChainWriter

BATCH = 256
Save = Callable[[int, dict[str, Any]], object]
Close = Callable[[], object]


def whole_file(folder: Path) -> tuple[Save, Close]:
    """torch.save."""

    def save(step: int, state: dict[str, Any]) -> None:
        with open(folder / f"{step}.pt", "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())

    return save, lambda: None


def in_a_thread(folder: Path, writer: Callable[[Path], Any]) -> tuple[Save, Close]:
    """dcp.async_save, which waits for the save before."""
    last: list[Any] = []

    def save(step: int, state: dict[str, Any]) -> None:
        if last:
            last.pop().result()
        path = folder / f"{step}"
        last.append(dcp.async_save(state, storage_writer=writer(path), checkpoint_id=path))

    return save, lambda: last.pop().result()


def torch_dcp(folder: Path) -> tuple[Save, Close]:
    """PyTorch's own writer."""
    return in_a_thread(folder, dcp.FileSystemWriter)


def chain_dcp(folder: Path) -> tuple[Save, Close]:
    """Ours."""
    writer = ChainWriter()
    return in_a_thread(folder, lambda _path: writer)


def checkpointer(folder: Path, **settings: Any) -> tuple[Save, Close]:
    """A Checkpointer."""
    checkpoints = codec.Checkpointer(folder / "run.lcc", **settings)
    return checkpoints.save, checkpoints.close


WAYS: dict[str, Callable[[Path], tuple[Save, Close]]] = {
    "torch.save": whole_file,
    "dcp.async_save": torch_dcp,
    "Checkpointer": checkpointer,
    "asynchronous": lambda folder: checkpointer(folder, asynchronous=True),
    "dcp.async_save, LC": chain_dcp,
}


def train(
    width: int, saves: int, every: int, open_way: Callable[[], tuple[Save, Close]] | None
) -> tuple[list[float], list[float]]:
    """Seconds of each save but the first, and of the steps after each of them."""
    torch.manual_seed(0)
    training = Training(width, 3e-4, BATCH)
    model, optimizer = training.model, training.optimizer
    save, close = open_way() if open_way else (None, None)
    stalls, steps = [], []
    try:
        for number in range(saves + 1):
            begin = time.perf_counter()
            if save:
                save(number, {"model": model.state_dict(), "optim": optimizer.state_dict()})
            stalls.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            for _ in range(every):
                training.step()
            steps.append(time.perf_counter() - begin)
    finally:
        if close:
            close()
    return stalls[2:], steps[2:]  # the first state has no moments, the second has many new tensors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--values", default="8M", help="weights; the state is three times larger")
    parser.add_argument("--every", type=int, default=10, help="steps between saves")
    parser.add_argument("--saves", type=int, default=8, help="of a training")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    (n,) = samples.parse_sizes(arguments.values)
    codec.warm_up()
    width = int((n / LAYERS) ** 0.5)
    stalls: dict[str, list[float]] = {name: [] for name in WAYS}
    slowdowns: dict[str, list[float]] = {name: [] for name in WAYS}
    sizes: dict[str, float] = {}
    plains: list[float] = []
    train(width, 1, arguments.every, None)  # warm
    for number in range(arguments.rounds):
        for name, way in list(WAYS.items())[:: 1 if number % 2 else -1]:
            _, plain = train(width, arguments.saves, arguments.every, None)
            with tempfile.TemporaryDirectory() as folder:
                opened = lambda: way(Path(folder))  # noqa: B023, E731 - called before the next one
                waited, slowed = train(width, arguments.saves, arguments.every, opened)
                files = [p for p in Path(folder).rglob("*") if p.is_file()]
                sizes[name] = sum(p.stat().st_size for p in files) / (arguments.saves + 1)
                shutil.rmtree(folder, ignore_errors=True)
                Path(folder).mkdir()
            plains.append(statistics.median(plain))
            stalls[name].append(statistics.median(waited))
            slowdowns[name].append(statistics.median(slowed) - statistics.median(plain))
    plain = statistics.median(plains)
    print(
        f"{n:,} weights, {torch.get_num_threads()} threads; {arguments.every} steps take "
        f"{plain:.2f} s without saves. Medians of {arguments.rounds} pairs of trainings.\n"
    )
    rows = []
    for name in WAYS:
        stall, slowdown = statistics.median(stalls[name]), statistics.median(slowdowns[name])
        rows.append(
            [
                name,
                f"{sizes[name] / 1e6:.1f} MB",
                f"{1000 * stall:.0f} ms",
                f"{1000 * slowdown:.0f} ms",
                f"{1000 * (stall + slowdown):.0f} ms",
                f"{100 * (stall + slowdown) / plain:.1f} %",
            ]
        )
    print(table(["", "bytes a save", "stall", "slowdown", "both", "of the steps"], rows))


if __name__ == "__main__":
    with warnings.catch_warnings(action="ignore"):
        main()
