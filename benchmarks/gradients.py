"""Chains of gradients, saved at every step of a byte transformer: their size, cost and restore.

    PYTHONPATH=. python benchmarks/gradients.py                 four trainings of 300 steps
    PYTHONPATH=. python benchmarks/gradients.py --steps 100 --width 128

The model and its text (Python's own sources) are the demo's; AdamW, batches of 32 windows. The
restored newest step is compared with the training, bit by bit. A share is the mean size of all
records, bases included, divided by the bytes of parameters and both moments (12 bytes a parameter
in float32). Steps with and without a save alternate in groups of ten; "in the loop" is the
difference of their medians. Beside it, a Checkpointer saves the same state exactly: it stores
residuals to the last state.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import codec
from codec.chain.chain import Chain
from codec.rerun import GradientCheckpointer, restore
from codec.rerun.optimizer import tensors_of
from codec.rerun.steps import same_bits
from demo_models.byte_transformer import ByteTransformer
from demo_models.texts import load_text

WAYS = ("float32", "autocast, clipped", "float32 masters", "bfloat16")
GROUP = 10  # steps in a row with or without a save
BATCH = 32


@dataclass
class Training:
    """A model, its optimizer, and float32 masters of the weights if the optimizer changes those."""

    way: str
    width: int

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.model = ByteTransformer(self.width)
        self.model.initialise(torch.Generator().manual_seed(0))
        weights = list(self.model.parameters())
        if self.way in ("float32 masters", "bfloat16"):
            self.model.bfloat16()
        self.masters = []
        if self.way == "float32 masters":
            self.masters = [torch.nn.Parameter(p.detach().float()) for p in weights]
        self.optimizer = torch.optim.AdamW(self.masters or weights, 1e-3)
        self.x, self.y = load_text().train

    def step(self, number: int) -> None:
        """Train on the batch of this number."""
        weights = list(self.model.parameters())
        rows = torch.randint(len(self.x), (BATCH,), generator=torch.Generator().manual_seed(number))
        self.model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.way.startswith("autocast")):
            scores = self.model(self.x[rows])
        cross_entropy(scores.float(), self.y[rows]).backward()
        for master, weight in zip(self.masters, weights):
            assert weight.grad is not None
            master.grad = weight.grad.float()
        if self.way.endswith("clipped"):
            torch.nn.utils.clip_grad_norm_(weights, 0.5)
        self.optimizer.step()
        with torch.no_grad():
            for master, weight in zip(self.masters, weights):
                weight.copy_(master)

    @property
    def state(self) -> dict[str, Any]:
        """What a resume needs."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "masters": [m.detach() for m in self.masters],
        }

    @property
    def raw(self) -> int:
        """Bytes of parameters and moments."""
        tensors = tensors_of(self.optimizer).values()
        return sum(t.numel() * t.element_size() for t in tensors if t.ndim)


def main() -> None:
    """Print a line for each way to train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()
    codec.warm_up()
    print(
        f"{'training':<20} parameters  gradients   exact     step  in the loop     exact    restore"
    )
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            print(row(way, options.width, options.steps, Path(folder)), flush=True)


def row(way: str, width: int, steps: int, folder: Path) -> str:
    """A line of the table: both chains of one way to train."""
    training = Training(way, width)
    opened = GradientCheckpointer(folder / "gradients", training.optimizer)
    share, _, loop = chain_of(training, opened, steps)
    begin = time.perf_counter()
    state = restore(folder / "gradients", Training(way, width).optimizer)
    seconds = time.perf_counter() - begin
    other = Training(way, width)
    exact = codec.Checkpointer(folder / "exact", policy={"*": "exact"}, base_every=200)
    exact_share, alone, exact_loop = chain_of(other, exact, steps)
    same = all(same_bits(a, b) for s in (state, other.state) for a, b in pairs(s, training.state))
    n_bases = sum(entry.kind == "base" for entry in Chain(folder / "gradients").entries)
    n = sum(p.numel() for p in training.model.parameters())
    return (
        f"{way:<20}{n:>11,}{share:>11.3f}{exact_share:>8.3f}{1e3 * alone:>6.0f} ms"
        f"{1e3 * loop:>10.1f} ms{1e3 * exact_loop:>7.1f} ms{seconds:>9.2f} s"
        f"   {'the same to the last bit' if same else 'DIFFERENT'}, {n_bases} bases"
    )


def chain_of(
    training: Training, checkpoints: codec.Checkpointer, steps: int
) -> tuple[float, float, float]:
    """Train and save. Returns the mean share of raw, the seconds of a step, and the seconds that a
    save adds to it.

    The steps without a save run in a second training that starts from the same state.
    """
    beside = Training(training.way, training.width)
    times: dict[bool, list[float]] = {False: [], True: []}
    nbytes = 0
    with checkpoints:
        for first in range(0, steps, GROUP):
            for saves in (True, False):
                for number in range(first, min(first + GROUP, steps)):
                    started = time.perf_counter()
                    if saves:
                        training.step(number)
                        nbytes += checkpoints.save(number, training.state).nbytes
                    else:
                        beside.step(number)
                    times[saves].append(time.perf_counter() - started)
    alone = median(times[False])
    return nbytes / steps / training.raw, alone, median(times[True]) - alone


def pairs(a: Any, b: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The tensors of two states of the same nesting."""
    if isinstance(a, torch.Tensor):
        return [(a, b)]
    keys: Any = a if isinstance(a, dict) else range(len(a)) if isinstance(a, list) else ()
    return [pair for key in keys for pair in pairs(a[key], b[key])]


if __name__ == "__main__":
    main()
