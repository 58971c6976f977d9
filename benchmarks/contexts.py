"""What context codes save, and what they cost, over models, optimizers and settings.

    PYTHONPATH=. python benchmarks/contexts.py [--mnist FOLDER] [--speed] [--models lenet5,…]

Each model is trained with SGD, momentum and AdamW, from seed 0, with a checkpoint at every
iteration (with momentum at every tenth). Every setting saves them with a track of its own, coded as
run lengths. The checkpoints AT are then coded once more, the same levels, as a context code where
that is smaller. Sizes are those of whole records on disk, header included. Run lengths are those of
large alphabets, without the context code that `coder="runlength"` has for small ones in equal
steps, and reuse tables as in a real chain.

--speed also times whole steps of a tracker, and decoding in place, of AlexNet and the transformer
with both coders in turn. The speed of context codes is shown, that of run lengths is 1: the median
of ratios within a round.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import relu

import codec
from benchmarks.markdown import table
from codec import Delta
from codec.inspect import CODERS, Group, record_nbytes
from codec.scheme.payload import CHANGE
from codec.scheme.stream import advance
from codec.scheme.survivors import Segments
from demo_models import MODELS, Task, Training
from demo_models.byte_transformer import ByteTransformer
from demo_models.images import load_images
from demo_models.model import Model, ModelCard
from demo_models.ratings import load_ratings
from demo_models.texts import load_text

SAVES, AT = 24, (12, 24)
EVERY = {"sgd": 1, "momentum": 10, "adamw": 1}  # iterations between checkpoints
RATES = {  # model -> learning rates of SGD, with momentum, of AdamW
    "logistic-regression": (0.1, 0.02, 0.001),
    "lenet5": (0.05, 0.02, 0.001),
    "alexnet": (0.01, 0.01, 0.0005),
    "matrix-factorization": (2.0, 0.5, 0.02),
    "residual": (0.1, 0.05, 0.001),
    "transformer": (0.1, 0.05, 0.0005),
}
SETTINGS: dict[str, dict[str, Any]] = {
    f"{bits} bits, {scope}": {"bits": bits, "scope": scope}
    for bits in (2, 3, 4)
    for scope in ("model", "tensor")
} | {f"{100 * budget:g} % in steps": {"budget": budget} for budget in (0.01, 0.02, 0.05)}


class Residual(Model):
    """A small residual network of convolutions, without batch norms: a model has no buffers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        w = width
        self.first = nn.Conv2d(1, w, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                (nn.Conv2d(a, b, 3, s, 1), nn.Conv2d(b, b, 3, 1, 1), nn.Conv2d(a, b, 1, s))
            )
            for a, b, s in ((w, w, 1), (w, 2 * w, 2), (2 * w, 4 * w, 2))
        )
        self.last = nn.Linear(4 * w, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = relu(self.first(x))
        for one, two, short in self.blocks:  # type: ignore[misc]
            x = relu(short(x) + two(relu(one(x))))
        return self.last(x.mean(dim=(2, 3)))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.kaiming_normal_(p, generator=generator)
            else:
                nn.init.zeros_(p)


def task_of(model: str, mnist: Path | None) -> Task:
    """The task of training a model."""
    images = "mnist" if mnist else "digits"
    if model == "residual":
        card: ModelCard = replace(MODELS["lenet5"], name=model, build=lambda _: Residual(32))
        return Task(card, load_images(images, mnist, 28), 0)
    if model == "transformer":
        card = MODELS["byte-transformer"]
        return Task(replace(card, build=lambda _: ByteTransformer(192, 3, 6)), load_text(), 0)
    card = MODELS[model]
    if card.side is None:
        return Task(card, load_ratings("synthetic-ratings", None), 0)
    return Task(card, load_images(images, mnist, card.side), 0)


def states(model: str, optimizer: str, mnist: Path | None) -> Iterator[dict[str, np.ndarray]]:
    """The weights before the first iteration, and at every checkpoint. They change in place."""
    name, momentum = ("sgd", 0.9) if optimizer == "momentum" else (optimizer, 0.0)
    rate = RATES[model][list(EVERY).index(optimizer)]
    training = Training(task_of(model, mnist), name, rate, momentum, 32)
    weights = {name: p.detach().numpy() for name, p in training.task.model.named_parameters()}
    yield weights
    for i in range(1, SAVES * EVERY[optimizer] + 1):
        training.iterate(i)
        if i % EVERY[optimizer] == 0:
            yield weights


@dataclass(frozen=True)
class Size:
    """A record of a model of n parameters, with run lengths and with a context code."""

    model: str
    optimizer: str
    setting: str
    n: int
    runs: int
    context: int

    @property
    def ratio(self) -> float:
        """Context code over run lengths."""
        return self.context / self.runs


def sizes_of(model: str, optimizer: str, mnist: Path | None) -> Iterator[Size]:
    """The sizes of the checkpoints AT, in every setting."""
    following = states(model, optimizer, mnist)
    first = next(following)
    trackers = {name: codec.Tracker(first, **s) for name, s in SETTINGS.items()}
    n = sum(array.size for array in first.values())
    for step, state in enumerate(following, 1):
        for name, tracker in trackers.items():
            delta = tracker.step(state)
            if step in AT:
                layout = tracker.track.layout
                coded = replace(
                    delta,
                    groups=tuple(map(recoded, delta.groups)),
                    coding=replace(delta.coding, coder="context"),
                )
                pair = (record_nbytes(step, d, layout) for d in (delta, coded))
                yield Size(model, optimizer, name, n, *pair)


def recoded(group: Group) -> Group:
    """The same levels as a context code, or as they were where that is smaller."""
    shapes = [t.shape for t in group.tensors]
    encoded = codec.encode(codec.decode(group.encoded), "context", shapes)
    return group if encoded.nbytes >= group.encoded.nbytes else replace(group, encoded=encoded)


def mean(sizes: list[Size]) -> float:
    """Geometric mean of the ratios."""
    return math.exp(statistics.mean(math.log(size.ratio) for size in sizes)) if sizes else math.nan


def table_by(sizes: list[Size], key: Callable[[Size], str]) -> str:
    """A row for each value of the key: the mean ratio, the smallest and the largest."""
    rows = []
    for value in dict.fromkeys(map(key, sizes)):
        own = [size for size in sizes if key(size) == value]
        ratios = [size.ratio for size in own]
        rows.append([value, f"{len(own)}", f"{mean(own):.3f}", f"{min(ratios):.3f}"])
        rows[-1].append(f"{max(ratios):.3f}")
    return table(["", "records", "mean", "least", "most"], rows)


def size_class(size: Size) -> str:
    """Its model's size, as a class."""
    return "below 20,000" if size.n < 20_000 else "to 500,000" if size.n < 500_000 else "above"


def speeds(model: str, optimizer: str, mnist: Path | None, rounds: int) -> list[list[str]]:
    """Rows of a table: run lengths over context code, in time."""
    following = states(model, optimizer, mnist)
    first = {name: array.copy() for name, array in next(following).items()}
    for _ in range(AT[0] - 1):
        before = {name: array.copy() for name, array in next(following).items()}
    after = {name: array.copy() for name, array in next(following).items()}
    n = sum(array.size for array in first.values())
    rows = []
    for setting in ("2 bits, model", "3 bits, model", "4 bits, model"):
        ratios: dict[str, list[float]] = {"step": [], "decode": []}
        for _ in range(rounds + 1):
            took: dict[str, list[float]] = {}
            for coder in ("runlength", "context"):
                tracker = codec.Tracker(before, coder=coder, **SETTINGS[setting])
                started = time.perf_counter()
                delta: Delta = tracker.step(after)
                took.setdefault("step", []).append(time.perf_counter() - started)
                (group,) = delta.groups
                tracks = [before[t.name].copy() for t in group.tensors]
                started = time.perf_counter()
                advance(group.encoded, Segments(tracks), CHANGE)
                took.setdefault("decode", []).append(time.perf_counter() - started)
            for what, (runs, context) in took.items():
                ratios[what].append(runs / context)
        zeros = 1 - np.count_nonzero(codec.decode(group.encoded).codes) / n
        medians = [f"{statistics.median(ratios[what][1:]):.2f}" for what in ratios]
        rows.append([f"{model}, {optimizer}", setting, f"{zeros:.1%}", *medians])
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--mnist", type=Path, help="folder with the MNIST IDX files (default: digits)"
    )
    parser.add_argument("--models", default=",".join(RATES))
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    codec.warm_up()
    CODERS["runlength"] = replace(CODERS["runlength"], direct=None)
    models = options.models.split(",")
    sizes = [s for m in models for o in EVERY for s in sizes_of(m, o, options.mnist)]
    print(f"all {len(sizes)}: mean {mean(sizes):.3f}, most {max(s.ratio for s in sizes):.4f}\n")
    for key in (size_class, lambda s: f"{s.model} ({s.n:,})"):
        print(table_by(sizes, key))
    for key in (lambda s: s.optimizer, lambda s: s.setting):
        print(table_by(sizes, key))
    if options.speed:
        large = [m for m in ("alexnet", "transformer") if m in models]
        rows = [
            r for m in large for o in EVERY for r in speeds(m, o, options.mnist, options.rounds)
        ]
        print(
            table(
                ["speed, run lengths = 1", "setting", "zeros", "whole step", "decode in place"],
                rows,
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
