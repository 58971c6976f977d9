"""Plain DCP beside the codec's writer and reader, on 1, 2 and 4 ranks of this machine.

    PYTHONPATH=. python benchmarks/distributed.py --parameters 4000000

Both save the same state, sharded by rows, after each step, and load the last step; the codec's
reader then reads a base and a chain of deltas. Weights are drawn from a normal distribution of
standard deviation 0.02, and each step adds noise of standard deviation 0.0002. Bytes are those of a
step's directory, the median of the steps after the base. Seconds are medians of the slowest rank,
with one thread a rank and files in the page cache. "equal": plain DCP loads the weights, the codec
the tracks of a codec.Tracker, bit by bit. "behind": the distance from the loaded to the live
weights, in per cent of the distance trained since the base.

With --trained the weights are those of a perceptron that AdamW trains on scikit-learn's digits, ten
iterations a step. With --moments, two moments of an optimizer are saved exactly beside the weights:
AdamW's, or without --trained a random walk.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import codec
from benchmarks.markdown import table
from codec.dcp import ChainReader, ChainWriter

Tensors = dict[str, torch.Tensor]
COLUMNS = 512
TENSORS = 8
HEADER = ("ranks", "saved by", "first step", "a step", "save, s", "load, s", "equal", "behind")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parameters", type=int, default=4_000_000)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--steps", type=int, default=8, help="after the base")
    parser.add_argument("--bits", type=int, default=2)
    parser.add_argument("--trained", action="store_true", help="weights of a training")
    parser.add_argument("--moments", action="store_true", help="and two moments, exact")
    parser.add_argument("--folder", type=Path, help="where steps are written (default: temporary)")
    options = parser.parse_args()
    if "RANK" in os.environ:
        measure(options)
        return 0
    rows: list[tuple[str, ...]] = []
    for n in map(int, options.ranks.split(",")):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            command += ["--nproc-per-node", str(n), *sys.argv, "--folder", folder]
            threads = {"OMP_NUM_THREADS": "1"}
            out = subprocess.run(
                command, env=os.environ | threads, check=True, stdout=subprocess.PIPE, text=True
            )
            measured = json.loads(out.stdout.strip().splitlines()[-1])
        for name, figures in measured.items():
            equal = "yes" if figures["equal"] else "NO"
            sizes = f"{figures['first']:,}", f"{figures['step']:,}"
            rows.append(
                (
                    str(n),
                    name,
                    *sizes,
                    f"{figures['save']:.3f}",
                    f"{figures['load']:.3f}",
                    equal,
                    f"{100 * figures['behind']:.0f}%",
                )
            )
        plain, ours = measured.values()
        times = [f"{ours[key] / plain[key]:.2f} x" for key in ("save", "load")]
        rows.append(("", "", "", f"{plain['step'] / ours['step']:.1f} x fewer", *times, "", ""))
    print(table(HEADER, rows))
    return 0


def measure(options: argparse.Namespace) -> None:
    """One rank's part; the first rank prints the figures as JSON."""
    warnings.simplefilter("ignore")  # torch's own
    dist.init_process_group("gloo")
    codec.set_threads(1)
    codec.warm_up()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    make = trained if options.trained else drawn

    def sharded(whole: Tensors) -> Tensors:
        return {name: distribute_tensor(t, mesh, [Shard(0)]) for name, t in whole.items()}

    states = (tuple(map(sharded, state)) for state in make(options.parameters))
    model, moments = next(states)
    state: dict[str, Any] = {"model": model}
    if options.moments:
        state["optim"] = moments
    first = {name: tensor.to_local().clone() for name, tensor in model.items()}
    writer, tracks = ChainWriter(bits=options.bits, policy={"optim.*": "exact?"}), {}
    names = ("plain DCP", f"codec, {options.bits} bits")
    saves: dict[str, list[float]] = {name: [] for name in names}
    sizes: dict[str, list[int]] = {name: [] for name in names}
    for step in range(options.steps + 1):
        if step:
            for old, new in zip((model, moments), next(states)):
                for name, tensor in new.items():
                    old[name].copy_(tensor)
        for name, tensor in model.items():
            value = {"w": tensor.to_local().clone()}
            if name in tracks:
                tracks[name].step(value)
            else:
                tracks[name] = codec.Tracker(value, options.bits, "tensor")
        paths = [options.folder / f"{kind}-{step}" for kind in ("plain", "codec")]
        writers = [dcp.FileSystemWriter(paths[0]), writer]
        order = (0, 1) if step % 2 else (1, 0)
        for i in order:
            save = partial(dcp.save, storage_writer=writers[i], checkpoint_id=paths[i])
            saves[names[i]].append(timed(partial(save, state)))
            sizes[names[i]].append(sum(file.stat().st_size for file in paths[i].iterdir()))
    measured = {}
    for i, (name, path) in enumerate(zip(names, paths)):
        into = {key: {n: torch.zeros_like(t) for n, t in ts.items()} for key, ts in state.items()}
        reader = ChainReader(path) if i else dcp.FileSystemReader(path)
        loads = [timed(partial(dcp.load, into, storage_reader=reader)) for _ in range(3)]
        live = {key: tensor.to_local() for key, tensor in model.items()}
        tracked = {key: torch.from_numpy(t.state["w"]) for key, t in tracks.items()}
        expected = tracked if i else live
        equal = [torch.equal(t.to_local(), expected[key]) for key, t in into["model"].items()]
        loaded = {key: tensor.to_local() for key, tensor in into["model"].items()}
        for key, tensor in into.get("optim", {}).items():
            equal.append(torch.equal(tensor.to_local(), moments[key].to_local()))
        off = sum(float((live[key] - loaded[key]).double().square().sum()) for key in live)
        gone = sum(float((live[key] - first[key]).double().square().sum()) for key in live)
        everywhere: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, (all(equal), off, gone))
        equals, offs, ways = zip(*everywhere)
        measured[name] = {
            "first": sizes[name][0],
            "step": int(statistics.median(sizes[name][1:])),
            "save": statistics.median(saves[name][1:]),
            "load": statistics.median(loads),
            "equal": all(equals),
            "behind": (sum(offs) / sum(ways)) ** 0.5,
        }
    if dist.get_rank() == 0:
        print(json.dumps(measured), flush=True)
    dist.destroy_process_group()


def drawn(parameters: int) -> Iterator[tuple[Tensors, Tensors]]:
    """A random walk: weights, and two moments of each that walk as far."""
    rng = torch.Generator().manual_seed(0)
    shape = parameters // (COLUMNS * TENSORS), COLUMNS
    model = {f"{i}.weight": torch.randn(shape, generator=rng) * 0.02 for i in range(TENSORS)}
    moments = {f"{name}.exp_avg": t.clone() for name, t in model.items()}
    moments |= {f"{name}.exp_avg_sq": t**2 for name, t in model.items()}
    while True:
        yield model, moments
        for name, tensor in model.items():
            step = torch.randn(shape, generator=rng) * 0.0002
            for walker in (tensor, moments[f"{name}.exp_avg"], moments[f"{name}.exp_avg_sq"]):
                walker += step


def trained(parameters: int) -> Iterator[tuple[Tensors, Tensors]]:
    """Weights and AdamW's moments of a net with about this many parameters, from the hundredth
    iteration on, every ten."""
    from sklearn.datasets import load_digits

    images, labels = map(torch.from_numpy, load_digits(return_X_y=True))
    torch.manual_seed(0)
    wide = int(parameters**0.5)
    net = torch.nn.Sequential(
        torch.nn.Linear(64, wide),
        torch.nn.ReLU(),
        torch.nn.Linear(wide, wide),
        torch.nn.ReLU(),
        torch.nn.Linear(wide, 10),
    )
    optimizer = torch.optim.AdamW(net.parameters())
    for iteration in itertools.count():
        if iteration >= 100 and iteration % 10 == 0:
            weights = {name: tensor.detach().clone() for name, tensor in net.named_parameters()}
            yield (
                weights,
                {
                    f"{name}.{key}": optimizer.state[tensor][key].clone()
                    for name, tensor in net.named_parameters()
                    for key in ("exp_avg", "exp_avg_sq")
                },
            )
        chosen = torch.randint(len(labels), (32,))
        loss = torch.nn.functional.cross_entropy(net(images[chosen].float() / 16), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def timed(run: Callable[[], object]) -> float:
    """Seconds until the last rank has done its part."""
    dist.barrier()
    begin = time.perf_counter()
    run()
    dist.barrier()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
