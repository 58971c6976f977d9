"""Saving a transformer of 100 million parameters, trained a few steps with AdamW on a CPU.

    PYTHONPATH=. python benchmarks/transformer.py [--steps 6] [--layers 12] [--threads 2]

Measures how long a save takes beside a training step, how large a record is, and how much memory
saving needs. The input and output embeddings are tied. The text is random (word frequencies by
Zipf's law), so the loss means nothing. The same training is saved in several ways side by side,
each with its own track and chain:

    float32             weights alone
    bfloat16            the weights rounded to bfloat16, as a run in low precision has them
    ... by tensor       the same with scope="tensor": an alphabet for each
    float8              the weights as float8_e4m3fn, each tensor with a scale: exact, no delta
    with moments        weights, and AdamW's state: its moments in steps, the default
    moments exact       weights, and AdamW's state with policy={"optimizer/*": "exact"}

"Distance" is the track's distance from the weights, divided by the distance trained since the base.

With --every K, another table shows what asynchronous saving adds to the training: --steps blocks of
K steps without a save alternate with as many blocks with one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import codec
from benchmarks.codec_speed.scaling import forget_peak, resident
from benchmarks.markdown import table

FEATURES, HEADS, WORDS, CONTEXT = 768, 12, 32_768, 128
FLOAT8 = torch.float8_e4m3fn
SCALED = 448.0  # float8_e4m3fn's largest


class Transformer(nn.Module):
    """A decoder like GPT-2, whose input and output embeddings are one table."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, FEATURES)
        self.places = nn.Embedding(CONTEXT, FEATURES)
        layer = nn.TransformerEncoderLayer(
            FEATURES, HEADS, 4 * FEATURES, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(FEATURES)
        self.head = nn.Linear(FEATURES, WORDS, bias=False)
        self.head.weight = self.words.weight
        for embedding in (self.words, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Logits (n, length, WORDS) of the next words. words: int64 (n, length)."""
        n = words.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        hidden = self.words(words) + self.places(torch.arange(n))
        return self.head(self.norm(self.layers(hidden, mask, is_causal=True)))


State = Callable[[nn.Module, torch.optim.Optimizer], dict[str, Any]]


def weights(model: nn.Module, _optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The weights as they are."""
    return {"model": model.state_dict()}


def rounded(model: nn.Module, _optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The weights as bfloat16; tied weights remain one tensor."""
    tensors: dict[int, torch.Tensor] = {}
    state = model.state_dict()
    return {
        "model": {k: tensors.setdefault(v.data_ptr(), v.bfloat16()) for k, v in state.items()},
    }


def scaled(model: nn.Module, _optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Each weight tensor as float8, and its scale; tied weights remain one tensor."""
    state, scales, pairs = {}, {}, {}
    for name, weight in model.state_dict().items():
        if weight.data_ptr() not in pairs:
            scale = weight.abs().max().clamp(min=1e-12) / SCALED
            pairs[weight.data_ptr()] = (weight / scale).to(FLOAT8), scale
        state[name], scales[name] = pairs[weight.data_ptr()]
    return {"model": state, "scales": scales}


def everything(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The weights with AdamW's moments."""
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


WAYS: dict[str, tuple[State, dict[str, Any]]] = {
    "float32": (weights, {}),
    "float32 by tensor": (weights, {"scope": "tensor"}),
    "bfloat16": (rounded, {}),
    "bfloat16 by tensor": (rounded, {"scope": "tensor"}),
    "float8": (scaled, {}),
    "with moments": (everything, {}),
    "moments exact": (everything, {"policy": {"optimizer/*": "exact"}}),
}


class Way:
    """One way of saving, and its measurements."""

    def __init__(self, name: str, folder: Path, bits: int) -> None:
        self.name = name
        self._state, settings = WAYS[name]
        self.path = folder / f"{name.replace(' ', '-')}.lcc"
        self._checkpoints = codec.Checkpointer(self.path, bits, **settings)
        self.saved: list[codec.Saved] = []
        self.distance = 0.0
        self.extra = 0  # peak bytes while a delta was saved
        self.state_nbytes = 0

    def save(self, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Save one record. The second delta's memory is measured: by then all buffers exist."""
        state = self._state(model, optimizer)
        before = resident("VmRSS") if forget_peak() else None
        self.saved.append(self._checkpoints.save(step, state))
        if step == 2 and before is not None:
            self.extra = resident("VmHWM") - before
        self.state_nbytes = nbytes(state)

    def check(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Set the distance. Raises AssertionError unless the chain is valid and its newest step
        restores the track."""
        tracker = self._checkpoints.tracker
        assert tracker is not None
        self._checkpoints.close()
        assert codec.verify(self.path).ok
        restored, base = (codec.restore(self.path, step)["model"] for step in (None, 0))
        off, trained = 0.0, 0.0
        for name, tensor in self._state(model, optimizer)["model"].items():
            assert restored[name].dtype == tensor.dtype
            if f"model/{name}" in tracker.state and tensor.dtype != FLOAT8:  # of tied ones, one
                track = torch.from_numpy(tracker.state[f"model/{name}"])
                assert torch.equal(restored[name], track.to(tensor.dtype))
                off += float((tensor.float() - track).norm() ** 2)
                trained += float((tensor.float() - base[name].float()).norm() ** 2)
        assert restored["head.weight"] is restored["words.weight"]
        self.distance = (off / trained) ** 0.5 if trained else 0.0


def main(arguments: list[str] | None = None) -> int:
    """Train, save, print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=4, help=f"sequences of {CONTEXT} words")
    parser.add_argument("--bits", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--folder", type=Path, help="where chains are written (default: temporary)")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--every", type=int, help="save asynchronously, once in this many steps")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    codec.warm_up()
    model = Transformer(options.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    n = sum(p.numel() for p in model.parameters())
    print(f"{n / 1e6:.1f} million parameters, {options.bits} bits, batches of {options.batch}\n")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.every:
            print(asynchronous(model, optimizer, options, Path(folder)))
            return 0
        ways = [Way(name, Path(folder), options.bits) for name in options.ways.split(",")]
        took = [train(step, model, optimizer, ways, options.batch) for step in range(options.steps)]
        for way in ways:
            way.check(model, optimizer)
        print(ways_table(ways, statistics.median(took[1:])))
    print(f"\nA training step takes {statistics.median(took[1:]):.2f} s (median).")
    return 0


def train(
    step: int, model: nn.Module, optimizer: torch.optim.Optimizer, ways: list[Way], batch: int
) -> float:
    """One step, saved in every way; seconds of the step itself."""
    started = time.perf_counter()
    ranks = torch.arange(1, WORDS + 1, dtype=torch.float32)
    text = torch.multinomial(1 / ranks, batch * (CONTEXT + 1), replacement=True)
    text = text.view(batch, CONTEXT + 1)
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, WORDS), text[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    took = time.perf_counter() - started
    for way in ways:
        way.save(step, model, optimizer)
    return took


def asynchronous(
    model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace, folder: Path
) -> str:
    """A table with a row a way: blocks of steps with an asynchronous save beside blocks without."""
    rows = []
    for name in options.ways.split(","):
        state, settings = WAYS[name]
        path = folder / f"{name.replace(' ', '-')}.lcc"
        train(0, model, optimizer, [], options.batch)  # the optimizer gets its state
        with codec.Checkpointer(path, options.bits, asynchronous=True, **settings) as saving:
            for step in (0, 1):  # a base, and the first delta, for which memory is allocated
                saving.save(step, state(model, optimizer)).nbytes  # noqa: B018 - waits
            plain, saved, calls = [], [], []
            for block in range(2, 2 + options.steps):
                for seconds in (plain, saved):
                    started = time.perf_counter()
                    if seconds is saved:
                        written = saving.save(block, state(model, optimizer))
                        calls.append(time.perf_counter() - started)
                    for step in range(options.every):
                        train(step, model, optimizer, [], options.batch)
                    if seconds is saved:
                        assert written.kind == "delta"  # waits if it is still being written
                    seconds.append(time.perf_counter() - started)
        assert codec.verify(path).ok
        ratios = [100 * (b / a - 1) for a, b in zip(plain, saved)]
        row = [name, *(f"{statistics.median(s):.2f}" for s in (plain, saved, calls))]
        rows.append([*row, f"{statistics.median(ratios):+.1f} %", f"{min(ratios):+.1f} %"])
        rows[-1].append(f"{max(ratios):+.1f} %")
    blocks = (f"{options.every} steps, s", "with one save, s", "in save, s")
    return table(("saved", *blocks, "median", "least", "most"), rows)


def ways_table(ways: list[Way], step: float) -> str:
    """A table with a row a way: medians of the deltas."""
    rows = []
    for way in ways:
        deltas = way.saved[1:]
        size = statistics.median(s.nbytes for s in deltas)
        seconds = statistics.median(s.seconds for s in deltas)
        rows.append(
            (
                way.name,
                f"{way.state_nbytes / 1e6:,.0f}",
                f"{way.saved[0].nbytes / 1e6:,.0f}",
                f"{size / 1e6:,.2f}",
                f"{way.state_nbytes / size:,.1f}",
                f"{way.distance:.2f}",
                f"{way.saved[0].seconds:.2f}",
                f"{seconds:.2f}",
                f"{100 * seconds / step:.0f} %",
                f"{way.extra / 1e6:,.0f}",
            )
        )
    heads = (
        "saved",
        "state, MB",
        "base, MB",
        "delta, MB",
        "state ÷ delta",
        "distance",
        "base, s",
        "delta, s",
        "of a step",
        "extra memory, MB",
    )
    return table(heads, rows)


def nbytes(state: dict[str, Any]) -> int:
    """Bytes of all tensors in their dtypes, tied ones once."""
    sizes: dict[int, int] = {}
    for _, leaf in codec.state.tree.leaves(state):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            sizes[leaf.data_ptr()] = leaf.numel() * leaf.element_size()
    return sum(sizes.values())


if __name__ == "__main__":
    raise SystemExit(main())
