"""What each way to save a training costs, on one training: bytes, disk, stall, restore, loss.

    PYTHONPATH=. python benchmarks/comparison.py [--saves 100] [--ways torch,int8,…] [--width 256]

A byte transformer (5 million parameters with --width 256, 1.2 million with 128) is trained with
AdamW and saved whole after every iteration: weights, both moments, steps. Each way saves the same
states in turn; all files are fsynced. zstd and zipnn need `pip install zstandard zipnn`.

    torch      torch.save, the newest 3 files kept
    int8       one file: int8 with a scale for each row, second moments as roots; 3 kept
    xor        all bytes ^ those of the save before, shuffled, zstd -1; every 50th save is whole;
               all are kept
    zipnn      one file of zipnn; 3 kept
    dcp        torch.distributed.checkpoint, 3 kept
    lcviz      codec.Checkpointer
    lcviz-3    ... with keep_steps=3
    lcviz-x    ... with policy={"*": "exact"}

bytes: of a save, as a share of the state in float32; the mean of all. disk: after the last save, in
states; most: after any save. stall: median seconds that a save takes. restore: seconds to read the
newest step back, the median of 5. at: held-out loss of the restored model above the live one's,
mnat; after: the same after 20 more iterations from the restored weights and moments. worst: the
longest restore, of the newest step and those just before a base, each the median of 5, and by how
much it is longer than loading a base; only for chains, of which lcviz and lcviz-x keep all steps.
"""

from __future__ import annotations

import argparse
import copy
import logging
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp

import codec
from benchmarks.markdown import table
from codec.state.tree import leaves
from demo_models.byte_transformer import ByteTransformer
from demo_models.task import make_task

KEPT, WHOLE_EVERY, MORE, RESTORES = 3, 50, 20, 5
State = dict[str, Any]


class Training:
    """The training; it goes on from a state."""

    def __init__(self, width: int) -> None:
        self.task = make_task("byte-transformer", "python-sources", seed=0)
        self.task.model = model = ByteTransformer(width, 6, 8)
        model.initialise(torch.Generator().manual_seed(0))
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(self, iteration: int) -> None:
        self.optimizer.zero_grad()
        self.task.loss(self.task.batch(iteration, 16)).backward()
        self.optimizer.step()

    @property
    def state(self) -> State:
        return {"model": self.task.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: State) -> None:
        self.task.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])

    def loss_after(self, state: State, first: int, n: int) -> float:
        """The held-out loss n iterations after a state."""
        self.load(copy.deepcopy(state))
        for iteration in range(first, first + n):
            self.step(iteration)
        with torch.no_grad():
            return float(self.task.loss(self.task.probe))


class Way:
    """Saves into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def save(self, step: int, state: State) -> int:
        """Save; returns the bytes that were written."""
        raise NotImplementedError

    def restore(self) -> State:
        """The newest state."""
        raise NotImplementedError

    def close(self) -> None:
        """Before the last restore."""


class Files(Way):
    """A file for each save, of which the newest are kept."""

    kept: int | None = KEPT

    def write(self, state: State, file: Any) -> None:
        torch.save(state, file)

    def read(self, path: Path) -> State:
        loaded: State = torch.load(path)
        return loaded

    def save(self, step: int, state: State) -> int:
        path = self.folder / f"{step:06d}.pt"
        with open(path.with_suffix(".new"), "wb") as file:
            self.write(state, file)
            file.flush()
            os.fsync(file.fileno())
        path.with_suffix(".new").rename(path)
        if self.kept:
            for old in sorted(self.folder.glob("*.pt"))[: -self.kept]:
                old.unlink()
        return path.stat().st_size

    def restore(self) -> State:
        return self.read(max(self.folder.glob("*.pt")))


class Int8(Files):
    """Rows of int8 with a scale each."""

    def write(self, state: State, file: Any) -> None:
        packed = {}
        for name, x in tensors_of(state).items():
            rows = (x.sqrt() if name.endswith("_sq") else x).reshape(len(x) if x.ndim else 1, -1)
            scale = rows.abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / 127
            packed[name] = (rows / scale).round().to(torch.int8), scale
        torch.save((packed, state["optimizer"]["param_groups"]), file)
        self.like = state

    def read(self, path: Path) -> State:
        packed, _groups = torch.load(path)
        state = copy.deepcopy(self.like)
        for name, x in tensors_of(state).items():
            rows = packed[name][0] * packed[name][1]
            x.copy_((rows.square() if name.endswith("_sq") else rows).reshape(x.shape))
        return state


class Xor(Files):
    """Differences of bits, compressed."""

    kept = None

    def __init__(self, folder: Path) -> None:
        import zstandard

        super().__init__(folder)
        self.zstd = zstandard.ZstdCompressor(level=1)
        self.last: dict[str, np.ndarray] = {}
        self.n = 0

    def write(self, state: State, file: Any) -> None:
        bits = {n: x.reshape(-1).numpy().view(np.uint32) for n, x in tensors_of(state).items()}
        whole, self.n = self.n % WHOLE_EVERY == 0, self.n + 1
        for name, x in bits.items():
            changed = x if whole else x ^ self.last[name]
            shuffled = changed.view(np.uint8).reshape(-1, 4).T.copy()
            data = self.zstd.compress(shuffled.data)
            file.write(len(data).to_bytes(8, "little") + data)
        self.last = {name: x.copy() for name, x in bits.items()}
        self.like = state

    def restore(self) -> State:
        import zstandard

        unzip, state = zstandard.ZstdDecompressor(), copy.deepcopy(self.like)
        paths = sorted(self.folder.glob("*.pt"))
        track = {n: np.zeros(x.numel(), np.uint32) for n, x in tensors_of(state).items()}
        for path in paths[(len(paths) - 1) // WHOLE_EVERY * WHOLE_EVERY :]:
            whole = (int(path.stem) - 1) % WHOLE_EVERY == 0
            with open(path, "rb") as file:
                for name, x in track.items():
                    data = unzip.decompress(file.read(int.from_bytes(file.read(8), "little")))
                    planes = np.frombuffer(data, np.uint8).reshape(4, -1)
                    changed = planes.T.copy().view(np.uint32).reshape(-1)
                    track[name] = changed if whole else x ^ changed
        for name, x in tensors_of(state).items():
            x.copy_(torch.from_numpy(track[name].view(np.float32)).reshape(x.shape))
        return state


class ZipNN(Files):
    """zipnn, which overwrites what it is given."""

    def __init__(self, folder: Path) -> None:
        import zipnn

        super().__init__(folder)
        self.coder = zipnn.ZipNN(input_format="byte", bytearray_dtype="float32")

    def write(self, state: State, file: Any) -> None:
        for x in tensors_of(state).values():
            data = self.coder.compress(bytearray(x.numpy().tobytes()))
            file.write(len(data).to_bytes(8, "little") + data)
        self.like = state

    def read(self, path: Path) -> State:
        state = copy.deepcopy(self.like)
        with open(path, "rb") as file:
            for x in tensors_of(state).values():
                data = self.coder.decompress(file.read(int.from_bytes(file.read(8), "little")))
                x.copy_(torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(x.shape))
        return state


class Distributed(Way):
    """torch.distributed.checkpoint, in one process."""

    def save(self, step: int, state: State) -> int:
        path = self.folder / f"{step:06d}"
        dcp.save(state, storage_writer=dcp.FileSystemWriter(path), no_dist=True)
        for old in sorted(self.folder.iterdir())[:-KEPT]:
            shutil.rmtree(old)
        self.like = state
        return size_of(path)

    def restore(self) -> State:
        state = copy.deepcopy(self.like)
        dcp.load(
            state, storage_reader=dcp.FileSystemReader(max(self.folder.iterdir())), no_dist=True
        )
        return state


class Chain(Way):
    """This package."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder)
        self.checkpoints = codec.Checkpointer(folder, **settings)

    def save(self, step: int, state: State) -> int:
        return self.checkpoints.save(step, state).nbytes

    def restore(self) -> State:
        return self.checkpoints.restore() or {}  # closed: from the disk

    def close(self) -> None:
        self.checkpoints.close()

    def worst(self) -> str:
        """The longest restore, of steps just before a base, beside that of a base."""
        chain = codec.Chain(self.folder)
        steps = [e.step for e in chain.entries]
        bases = [i for i, e in enumerate(chain.entries) if e.kind == "base"]
        ends = [steps[i - 1] for i in bases[1:]] + steps[-1:]
        base, *others = (
            statistics.median(seconds_of(partial(chain.restore, step)) for _ in range(RESTORES))
            for step in (steps[bases[0]], *ends)
        )
        longest = max(others)
        return f"{longest:.3f} s, {longest / base:.1f} ×"


WAYS: dict[str, Callable[[Path], Way]] = {
    "torch": Files,
    "int8": Int8,
    "xor": Xor,
    "zipnn": ZipNN,
    "dcp": Distributed,
    "lcviz": Chain,
    "lcviz-3": lambda folder: Chain(folder, keep_steps=3),
    "lcviz-x": lambda folder: Chain(folder, policy={"*": "exact"}),
}


def tensors_of(state: State) -> dict[str, torch.Tensor]:
    """Name -> each float32 tensor, as saved: tied ones once."""
    found = {n: x for n, x in leaves(state) if isinstance(x, torch.Tensor)}
    unique = {x.data_ptr(): n for n, x in reversed(found.items())}
    return {n: x.detach() for n, x in found.items() if unique[x.data_ptr()] == n}


def seconds_of(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--saves", type=int, default=100)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--folder", type=Path, help="where all is written (default: temporary)")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    codec.warm_up()
    training = Training(options.width)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        ways = {name: WAYS[name](Path(folder, name)) for name in options.ways.split(",")}
        written: dict[str, list[int]] = {name: [] for name in ways}
        stalls: dict[str, list[float]] = {name: [] for name in ways}
        most = dict.fromkeys(ways, 0)
        for iteration in range(1, options.saves + 1):
            training.step(iteration)
            names = list(ways)
            for name in names if iteration % 2 else names[::-1]:
                begin = time.perf_counter()
                written[name].append(ways[name].save(iteration, training.state))
                stalls[name].append(time.perf_counter() - begin)
                most[name] = max(most[name], size_of(ways[name].folder))
        end = copy.deepcopy(training.state)
        whole = sum(4 * x.numel() for x in tensors_of(end).values())
        at, after = (training.loss_after(end, options.saves + 1, n) for n in (0, MORE))
        rows = []
        for name, way in ways.items():
            way.close()
            seconds = []
            for _ in range(RESTORES):
                begin = time.perf_counter()
                state = way.restore()
                seconds.append(time.perf_counter() - begin)
            losses = (training.loss_after(state, options.saves + 1, n) for n in (0, MORE))
            rows.append([name, f"{100 * statistics.mean(written[name]) / whole:.1f} %"])
            rows[-1] += [f"{n / whole:.2f}" for n in (size_of(way.folder), most[name])]
            rows[-1] += [f"{statistics.median(x):.3f} s" for x in (stalls[name], seconds)]
            rows[-1] += [f"{1e3 * (loss - own):+.1f}" for loss, own in zip(losses, (at, after))]
            rows[-1].append(way.worst() if isinstance(way, Chain) else "")
            print(*rows[-1], file=sys.stderr, flush=True)
        parameters = sum(p.numel() for p in training.task.model.parameters())
        print(f"{parameters:,} parameters, {options.saves} saves of {whole / 1e6:.1f} MB")
        head = ["way", "bytes", "disk", "most", "stall", "restore", "at", "after", "worst"]
        print(table(head, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
