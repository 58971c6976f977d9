"""Residuals of exact bfloat16 weights beside XOR + zstd level 1: bytes and times.

    python benchmarks/exact.py                    4 and 16 million values, 1 thread and all
    python benchmarks/exact.py --values 1000000 --rounds 5

Two kinds of data. "Gaussian": weights of standard deviation 0.02 that move by normal updates.
"trained": the weights of a network of six layers that AdamW trains in float32 while its bfloat16
copies are saved, as mixed-precision training does. The size of the updates is chosen so that a
given share of the bfloat16 values changes. Each round times each method once, in turn; medians are
reported, and medians of the rounds' ratios. Needs the `bench` extra.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

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
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    codec.warm_up()
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


def trained(n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights of a network after 50 steps of AdamW, and what the next step adds to them."""
    torch.manual_seed(0)
    width = int((n / 6) ** 0.5)
    layers = [m for _ in range(6) for m in (torch.nn.Linear(width, width, False), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    teacher = torch.randn(width, width) / width**0.5

    def flat() -> NDArray[np.float32]:
        return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()

    before = flat()
    for _ in range(51):
        before = flat()
        x = torch.randn(64, width)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), torch.tanh(x @ teacher)).backward()
        optimizer.step()
    return before, flat() - before


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
