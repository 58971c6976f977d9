"""Residuals of exact tensors beside XOR + zstd level 1: bytes and times.

    python benchmarks/exact.py                    4 and 16 million values, 1 thread and all
    python benchmarks/exact.py --values 1000000 --rounds 5
    python benchmarks/exact.py --states 1200000 5000000      saves of AdamW's states

With --states, a network of so many parameters is trained in float32. Each step is saved in four
ways in turn, each into a new file with an fsync: all of it exactly, as residuals; by default; the
XOR with the last state, its bytes shuffled, with zstd level 1 in one thread; and by torch.save.
Encoding is without hashes, check and disk for zstd, and with the file's hashes for the codec.

Without it, bfloat16 weights of two kinds. "Gaussian": of standard deviation 0.02, they move by
normal updates. "trained": those of a network of six layers that AdamW trains in float32 while its
bfloat16 copies are saved, as mixed-precision training does. The size of the updates is chosen so
that a given share of the bfloat16 values changes.

Each round times each method once, in turn; medians are reported, and medians of the rounds' ratios.
Needs the `bench` extra.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np
import torch
import zstandard
from numpy.typing import NDArray

import codec
from codec.scheme.residual import Residual, residual_of
from codec.state.tensors import TensorSpec

SHARES = (0.01, 0.025, 0.08)
Bits = NDArray[np.uint16]


def main() -> None:
    """Print a table for each number of threads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--values", type=int, nargs="+", default=[2**22, 2**24])
    parser.add_argument("--states", type=int, nargs="+", metavar="PARAMETERS")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    codec.warm_up()
    if options.states:
        print("parameters  way        bytes  encode, ms    save, ms  ÷ zstd  ÷ torch.save")
        for n in options.states:
            states(n, options.rounds)
        return
    all_threads = codec.threads()
    for n in options.values:
        kinds = {"Gaussian": gaussian(n), "trained": trained(n)}
        for threads in dict.fromkeys((1, all_threads)):
            codec.set_threads(threads)
            print(f"\n{n:,} values, threads: {threads}")
            print(
                "data      changed  of them ±1   bits a value           bytes     "
                "encode, ns a value     decode, ns a value"
            )
            for name, (weights, update) in kinds.items():
                for share in SHARES:
                    old, new = to_bfloat16(weights), moved(weights, update, share)
                    print(f"{name:<9} {row(old, new, threads, options.rounds)}")


def gaussian(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights, and an update of size 1."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(n, dtype=np.float32) * np.float32(0.02)
    return weights, rng.standard_normal(n, dtype=np.float32)


def training(n: int) -> Iterator[tuple[torch.nn.Module, torch.optim.Optimizer]]:
    """A network of about n parameters and its AdamW, after each step."""
    torch.manual_seed(0)
    width = int((n / 6) ** 0.5)
    layers = [m for _ in range(6) for m in (torch.nn.Linear(width, width, False), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    teacher = torch.randn(width, width) / width**0.5
    while True:
        x = torch.randn(64, width)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), torch.tanh(x @ teacher)).backward()
        optimizer.step()
        yield model, optimizer


def trained(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights of a network after 50 steps of AdamW, and what the next step adds to them."""
    now = before = np.zeros(0, np.float32)
    for _, (model, _) in zip(range(51), training(n)):
        before, now = now, torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()
    return before, now - before


def states(n: int, rounds: int) -> None:
    """Print a line for each way to save a training's states."""
    times: dict[str, list[tuple[float, float]]] = {}
    sizes: dict[str, int] = {}
    last: list[NDArray[np.uint32]] = []
    with tempfile.TemporaryDirectory() as folder:
        chains = {
            "exact": codec.Checkpointer(f"{folder}/exact.lcc", policy={"*": "exact"}),
            "default": codec.Checkpointer(f"{folder}/default.lcc"),
        }
        for step, (model, optimizer) in zip(range(rounds + 4), training(n)):
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            for way, chain in chains.items():
                os.sync()
                begin = time.perf_counter()
                saved = chain.save(step, state)
                took = saved.stages["encode"], time.perf_counter() - begin
                times.setdefault(way, []).append(took)
                sizes[way] = saved.nbytes
            now = [t.numpy().reshape(-1).view(np.uint32).copy() for t in tensors(state)]
            for way in ("zstd", "torch"):
                os.sync()
                begin = time.perf_counter()
                with Path(folder, f"{step}.{way}").open("wb") as file:
                    encoded = write(way, file, state, now, last or now)
                    file.flush()
                    os.fsync(file.fileno())
                    times.setdefault(way, []).append((encoded, time.perf_counter() - begin))
                    sizes[way] = file.tell()
            last = now
    settled = {way: own[4:] for way, own in times.items()}  # moments that begin are larger
    for way, own in settled.items():
        encode, save = (median(column) for column in zip(*own))
        cells = f"{sizes[way] / sizes['torch']:9.4f}{1e3 * encode:12.0f}{1e3 * save:12.0f}"
        for other in ("zstd", "torch"):
            cells += f"{median(a / b for (_, a), (_, b) in zip(own, settled[other])):8.2f}"
        ratio = median(a / b for (a, _), (b, _) in zip(own, settled["zstd"]))
        print(f"{n:10,}  {way:<8} {cells}   encode ÷ zstd {ratio:.2f}")


def tensors(state: Any) -> list[torch.Tensor]:
    """Those of a state that are not numbers."""
    if isinstance(state, dict):
        return [t for value in state.values() for t in tensors(value)]
    return [state] if isinstance(state, torch.Tensor) and state.ndim else []


def write(way: str, file: IO[bytes], state: Any, now: list[Any], last: list[Any]) -> float:
    """Write a state to a file, or its change. Returns the seconds that encoding took."""
    begin = time.perf_counter()
    if way == "torch":
        torch.save(state, file)
        return time.perf_counter() - begin
    frames = []
    for old, new in zip(last, now):
        shuffled = np.ascontiguousarray((old ^ new).view(np.uint8).reshape(-1, 4).T)
        frames.append(zstandard.ZstdCompressor(level=1).compress(shuffled))
    seconds = time.perf_counter() - begin
    file.writelines(frames)
    return seconds


def to_bfloat16(values: NDArray[np.float32]) -> Bits:
    """The bits of the nearest bfloat16 values."""
    return torch.from_numpy(values).bfloat16().view(torch.int16).numpy().view(np.uint16)


def moved(weights: NDArray[np.float32], update: NDArray[np.float32], share: float) -> Bits:
    """The weights after the update, scaled so that this share of them changes."""
    sample = slice(None, None, max(weights.size >> 20, 1))  # about a million values are enough
    near, step = weights[sample], update[sample]

    def changed(size: float) -> float:
        return float(np.mean(to_bfloat16(near) != to_bfloat16(near + np.float32(size) * step)))

    low, high = 0.0, 1e-9
    while changed(high) < share:
        low, high = high, 2 * high
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if changed(middle) < share else (low, middle)
    return to_bfloat16(weights + np.float32(high) * update)


class Zstd:
    """XOR + zstd -1, with as many threads, each on an equal part."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._threads = threads

    def encode(self, old: Bits, new: Bits) -> list[bytes]:
        """One frame for each thread."""

        def compress(part: tuple[Bits, Bits]) -> bytes:
            return zstandard.ZstdCompressor(level=1).compress(np.bitwise_xor(*part))

        parts = zip(*(np.array_split(a, self._threads) for a in (old, new)))
        return list(self._pool.map(compress, parts))

    def decode(self, old: Bits, frames: list[bytes]) -> Bits:
        """The new array."""
        new = np.empty_like(old)

        def decompress(part: tuple[Bits, bytes, Bits]) -> None:
            before, frame, after = part
            difference = zstandard.ZstdDecompressor().decompress(frame)
            np.bitwise_xor(before, np.frombuffer(difference, np.uint16), out=after)

        olds, news = (np.array_split(a, self._threads) for a in (old, new))
        list(self._pool.map(decompress, zip(olds, frames, news)))
        return new


def row(old: Bits, new: Bits, threads: int, rounds: int) -> str:
    """One line of the table. Raises AssertionError if a bit differs."""
    spec, zstd = TensorSpec("w", "BF16", old.shape, False), Zstd(threads)
    times: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[[], object]) -> object:
        begin = time.perf_counter()
        answer = call()
        times.setdefault(name, []).append(1e9 * (time.perf_counter() - begin) / old.size)
        return answer

    for _ in range(rounds + 1):
        residual = timed("encode", lambda: residual_of(old, new, spec))
        frames = timed("zstd encode", lambda: zstd.encode(old, new))
        assert isinstance(residual, Residual)
        assert isinstance(frames, list)
        ours = timed("decode", lambda r=residual: r.applied(old))
        theirs = timed("zstd decode", lambda f=frames: zstd.decode(old, f))
        assert np.array_equal(ours, new)  # type: ignore[arg-type]
        assert np.array_equal(theirs, new)  # type: ignore[arg-type]
    bits = [8 * nbytes / old.size for nbytes in (residual.nbytes, sum(map(len, frames)))]
    steps = np.abs((new & 0x7FFF).astype(int) - (old & 0x7FFF))[old != new]
    cells = [f"{np.mean(old != new):6.2%}  {np.mean(steps == 1):8.0%}      "]
    cells += [f"{bits[0]:.4f} / {bits[1]:.4f}  {bits[0] / bits[1]:5.3f} ×  "]
    for way in ("encode", "decode"):
        pairs = list(zip(times[way], times[f"zstd {way}"]))[1:]
        residual_ns, zstd_ns = map(median, zip(*pairs))
        times_as_fast = median(theirs / ours for ours, theirs in pairs)
        cells.append(f"  {residual_ns:5.2f} / {zstd_ns:5.2f}  {times_as_fast:4.2f} ×")
    return "".join(cells)


if __name__ == "__main__":
    main()
