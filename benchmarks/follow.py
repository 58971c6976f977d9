"""A model server that follows a training: bytes, stall and seconds of four ways.

    PYTHONPATH=. python benchmarks/follow.py [--values 4M] [--steps 30]

AdamW trains a network of six layers in float32. After each step its weights in bfloat16 reach a
second module, in turn by

    full      a safetensors file of all weights
    XOR       XOR with the weights before, zstd level 1
    sparse    indices (int32) and new values of the weights that changed
    codec     `Checkpointer` with policy {"*": "exact"}, and `Follower`

Each file is fsynced. *Stall* is what the training waits for, with the conversion to bfloat16;
*update* goes from the finished file to the new weights in the module. Only the codec checks what it
has written and what it reads. Medians of the steps after the first five. Needs the `bench` extra.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard
from safetensors.torch import load_file, save

import codec
from benchmarks.codec_speed import samples
from benchmarks.markdown import table

FIRST = 5  # steps that are not measured
LAYERS = 6
Bits = np.ndarray
State = dict[str, torch.Tensor]


def network(width: int) -> torch.nn.Sequential:
    """Linear layers."""
    layers = (m for _ in range(LAYERS) for m in (torch.nn.Linear(width, width), torch.nn.Tanh()))
    return torch.nn.Sequential(*layers)


class Training:
    """A network that AdamW trains to do what another one does."""

    def __init__(self, width: int, rate: float, batch: int = 64) -> None:
        self.model = network(width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate)
        self._teacher, self._shape = torch.randn(width, width) / width**0.5, (batch, width)

    def step(self) -> None:
        """One step of the optimizer."""
        x = torch.randn(self._shape)
        self.optimizer.zero_grad()
        torch.nn.functional.mse_loss(self.model(x), torch.tanh(x @ self._teacher)).backward()
        self.optimizer.step()


def bits_of(tensor: torch.Tensor) -> Bits:
    """The bits of bfloat16 values, in the memory of the tensor."""
    return tensor.detach().view(torch.int16).numpy().view(np.uint16).reshape(-1)


def write(path: Path, data: bytes) -> None:
    """Write a durable file."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class Full:
    """All weights in a file."""

    def __init__(self, folder: Path, module: torch.nn.Module, state: State) -> None:
        self._path, self._module = folder / "full.safetensors", module

    def send(self, state: State, step: int) -> int:
        """Save the weights; returns the bytes."""
        data = save(state)
        write(self._path, data)
        return len(data)

    def receive(self) -> None:
        """Load them."""
        self._module.load_state_dict(load_file(self._path))


class Differences:
    """What is common to XOR and sparse patches: the weights before, on both sides."""

    def __init__(self, folder: Path, module: torch.nn.Module, state: State) -> None:
        self._folder = folder
        self._before = {name: tensor.clone() for name, tensor in state.items()}
        self._own = dict(module.state_dict())

    def send(self, state: State, step: int) -> int:
        """Save the differences; returns the bytes."""
        parts = [
            self.encoded(bits_of(self._before[name]), bits_of(tensor))
            for name, tensor in state.items()
        ]
        sizes = np.array([len(part) for part in parts], np.int64).tobytes()
        data = b"".join((sizes, *parts))
        write(self._folder / type(self).__name__, data)
        self._before = {name: tensor.clone() for name, tensor in state.items()}
        return len(data)

    def receive(self) -> None:
        """Change the weights."""
        data = memoryview((self._folder / type(self).__name__).read_bytes())
        sizes = np.frombuffer(data[: 8 * len(self._own)], np.int64).tolist()
        at = 8 * len(self._own)
        for tensor, size in zip(self._own.values(), sizes):
            self.apply(data[at : at + size], bits_of(tensor))
            at += size

    def encoded(self, before: Bits, after: Bits) -> bytes:
        """The difference."""
        raise NotImplementedError

    def apply(self, data: memoryview, own: Bits) -> None:
        """Change weights by a difference."""
        raise NotImplementedError


class Xor(Differences):
    """XOR and zstd -1."""

    def encoded(self, before: Bits, after: Bits) -> bytes:
        """One frame."""
        return zstandard.ZstdCompressor(level=1).compress(np.bitwise_xor(before, after))

    def apply(self, data: memoryview, own: Bits) -> None:
        """XOR in place."""
        own ^= np.frombuffer(zstandard.ZstdDecompressor().decompress(data), np.uint16)


class Sparse(Differences):
    """Indices and values."""

    def encoded(self, before: Bits, after: Bits) -> bytes:
        """Indices, then values."""
        changed = np.flatnonzero(before != after)
        return changed.astype(np.int32).tobytes() + after[changed].tobytes()

    def apply(self, data: memoryview, own: Bits) -> None:
        """Put the values."""
        n = len(data) // 6
        own[np.frombuffer(data[: 4 * n], np.int32)] = np.frombuffer(data[4 * n :], np.uint16)


class Codec:
    """A chain of exact weights."""

    def __init__(self, folder: Path, module: torch.nn.Module, state: State) -> None:
        self._checkpoints = codec.Checkpointer(folder / "run.lcc", policy={"*": "exact"})
        self._checkpoints.save(0, state)
        self._follower = codec.Follower(folder / "run.lcc", module)
        self._follower.update()

    def send(self, state: State, step: int) -> int:
        """Save a record; returns its bytes."""
        return self._checkpoints.save(step, state).nbytes

    def receive(self) -> None:
        """Follow."""
        if self._follower.update() is None:
            raise AssertionError("a record is there")


WAYS: dict[str, Callable[..., Any]] = {
    "full": Full,
    "XOR + zstd -1": Xor,
    "sparse": Sparse,
    "codec": Codec,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--values", default="4M")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rate", type=float, default=3e-5, help="AdamW's learning rate")
    arguments = parser.parse_args()
    (n,) = samples.parse_sizes(arguments.values)
    codec.warm_up()
    torch.manual_seed(0)
    width = int((n / LAYERS) ** 0.5)
    training = Training(width, arguments.rate)

    def state() -> State:
        return {name: tensor.bfloat16() for name, tensor in training.model.state_dict().items()}

    measured: dict[str, list[tuple[int, float, float]]] = {name: [] for name in WAYS}
    shares = []
    with tempfile.TemporaryDirectory() as folder:
        modules = {name: network(width).bfloat16() for name in WAYS}
        for module in modules.values():
            module.load_state_dict(state())
        ways = {name: way(Path(folder), modules[name], state()) for name, way in WAYS.items()}
        before = state()
        for step in range(1, arguments.steps + 1):
            training.step()
            now = state()
            changed = sum(int((bits_of(before[k]) != bits_of(now[k])).sum()) for k in now)
            before = now
            shares.append(changed / sum(t.numel() for t in now.values()))
            for name in list(WAYS)[:: 1 if step % 2 else -1]:
                begin = time.perf_counter()
                nbytes = ways[name].send(state(), step)
                sent = time.perf_counter()
                ways[name].receive()
                received = time.perf_counter()
                for key, tensor in modules[name].state_dict().items():
                    assert torch.equal(tensor, now[key]), (name, step, key)
                measured[name].append((nbytes, sent - begin, received - sent))
    n = sum(t.numel() for t in before.values())
    share = statistics.median(shares[FIRST:])
    print(
        f"{n:,} weights in bfloat16, of which {100 * share:.1f} % change in a step; "
        f"{codec.threads()} threads, medians of {arguments.steps - FIRST} steps\n"
    )
    whole = [statistics.median(column) for column in zip(*measured["full"][FIRST:])]
    rows = []
    for name, steps in measured.items():
        medians = [statistics.median(column) for column in zip(*steps[FIRST:])]
        rows.append(
            [
                name,
                f"{medians[0] / 1e6:.3f} MB",
                f"{medians[0] / whole[0]:.4f}",
                f"{1000 * medians[1]:.0f} ms",
                f"{1000 * medians[2]:.0f} ms",
            ]
        )
    print(table(["", "bytes a step", "of full", "stall", "update"], rows))


if __name__ == "__main__":
    main()
