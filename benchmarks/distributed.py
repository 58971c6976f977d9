"""Plain DCP beside the codec's writer and reader, on 1, 2 and 4 ranks of this machine.

    PYTHONPATH=. python benchmarks/distributed.py --parameters 4000000

The same state, sharded by rows, is saved by both after each step, by turns, and loaded by both from
the last one: the codec's then reads a base and a chain of deltas. Weights are drawn from a normal
distribution of deviation 0.02, and each step adds one of deviation 0.0002: no training, but the
paths can be compared. Bytes are all files of a step's directory, the median of those after the
base; seconds are medians, of the slowest rank, with one thread a rank. "equal": what plain DCP
loads are the weights, what the codec's reader loads are tracks that codec.Tracker has kept beside
it, both to the last bit. Whatever is to be loaded lies in the page cache.
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
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import codec
from codec.bench import markdown
from codec.dcp import ChainReader, ChainWriter

COLUMNS = 512
TENSORS = 8
HEADER = ("ranks", "saved by", "first step", "a step", "save, s", "load, s", "equal")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parameters", type=int, default=4_000_000)
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--steps", type=int, default=8, help="after the base")
    parser.add_argument("--bits", type=int, default=2)
    parser.add_argument("--moments", action="store_true", help="and two of an optimizer, exact")
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
            found = json.loads(out.stdout.strip().splitlines()[-1])
        for name, each in found.items():
            equal = "yes" if each["equal"] else "NO"
            sizes = f"{each['first']:,}", f"{each['step']:,}"
            rows.append((str(n), name, *sizes, f"{each['save']:.3f}", f"{each['load']:.3f}", equal))
        plain, ours = found.values()
        times = [f"{ours[key] / plain[key]:.2f} x" for key in ("save", "load")]
        rows.append(("", "", "", f"{plain['step'] / ours['step']:.1f} x fewer", *times, ""))
    print(markdown.table(HEADER, rows))
    return 0


def measure(options: argparse.Namespace) -> None:
    """One rank's part; the first one prints what was found, as JSON."""
    warnings.simplefilter("ignore")  # torch's own
    dist.init_process_group("gloo")
    codec.set_threads(1)
    codec.warm_up()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    rows = options.parameters // (COLUMNS * TENSORS)
    rng = torch.Generator().manual_seed(0)

    def drawn(scale: float) -> list[torch.Tensor]:
        return [torch.randn((rows, COLUMNS), generator=rng) * scale for _ in range(TENSORS)]

    def shards(scale: float) -> dict[str, DTensor]:
        each = enumerate(drawn(scale))
        return {f"layers.{i}.weight": distribute_tensor(t, mesh, [Shard(0)]) for i, t in each}

    model = shards(0.02)
    state: dict[str, Any] = {"model": model}
    if options.moments:
        state["optim"] = {"state": {name: {"exp_avg": t.clone()} for name, t in model.items()}}
        for each in state["optim"]["state"].values():
            each["exp_avg_sq"] = each["exp_avg"] ** 2
    writer, tracks = ChainWriter(bits=options.bits), {}
    names = ("plain DCP", f"codec, {options.bits} bits")
    saves: dict[str, list[float]] = {name: [] for name in names}
    sizes: dict[str, list[int]] = {name: [] for name in names}
    for step in range(options.steps + 1):
        for name, tensor in shards(0.0002).items() if step else ():
            model[name] += tensor
            for moment in state.get("optim", {"state": {name: {}}})["state"][name].values():
                moment += tensor
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
    found = {}
    for i, (name, path) in enumerate(zip(names, paths)):
        into = {"model": {key: torch.zeros_like(t) for key, t in model.items()}}
        reader = ChainReader(path) if i else dcp.FileSystemReader(path)
        loads = [timed(partial(dcp.load, into, storage_reader=reader)) for _ in range(3)]
        live = {key: tensor.to_local() for key, tensor in model.items()}
        kept = {key: torch.from_numpy(t.state["w"]) for key, t in tracks.items()}
        expected = kept if i else live
        equal = [torch.equal(t.to_local(), expected[key]) for key, t in into["model"].items()]
        everywhere: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everywhere, all(equal))
        found[name] = {
            "first": sizes[name][0],
            "step": int(statistics.median(sizes[name][1:])),
            "save": statistics.median(saves[name][1:]),
            "load": statistics.median(loads),
            "equal": all(everywhere),
        }
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def timed(run: Callable[[], object]) -> float:
    """Seconds, until the last rank has done its part."""
    dist.barrier()
    began = time.perf_counter()
    run()
    dist.barrier()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
