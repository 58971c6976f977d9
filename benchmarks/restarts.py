"""What restarts from a chain cost in loss, by how many there are.

    PYTHONPATH=. python benchmarks/restarts.py [--trainings lenet5-sgd,…] [--seeds 5]

A training saves its whole state at every iteration with the default settings. At each restart a new
process would begin: the model and its optimizer are made anew and load what the chain restores. The
data go on as if nothing had happened. The same training with exact states is the measure: losses
are held-out, of every third of the last 30 iterations, in thousandths of a nat (mnat) above it:
mean over seeds ± its standard error, seed by seed.

bytes: of a delta, as a share of the state in float32, in the iterations up to 20, from 21 to 60,
and after.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import codec
from benchmarks.markdown import table
from codec.inspect import rules
from demo_models.catalog import MODELS
from demo_models.task import make_task

ITERATIONS, TAIL, LOOK_EVERY = 120, 30, 3
RESTARTS = {1: [20], 5: [2, 15, 20, 32, 40], 20: list(range(5, 101, 5))}
STRETCHES = ((1, 20), (21, 60), (61, ITERATIONS))
AVERAGED = 0.95  # of the EMA copy
POLICY = {"ema/*": "distance=0.3?"}  # the copy of weights is as lossy as they are
Optimizers = Callable[[torch.nn.Module], list[torch.optim.Optimizer]]


def muon(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for matrices, AdamW for all else."""
    parameters = list(model.parameters())
    others = [p for p in parameters if p.ndim != 2]
    matrices = [p for p in parameters if p.ndim == 2]
    return [torch.optim.Muon(matrices, lr=0.01), torch.optim.AdamW(others, lr=0.002)]


def sgd(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    return [torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)]


def adamw(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    return [torch.optim.AdamW(model.parameters(), lr=0.002)]


def adafactor(model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    return [torch.optim.Adafactor(model.parameters(), lr=0.02)]


# Model, data, optimizers, and whether an average of the weights is what counts.
TRAININGS: dict[str, tuple[str, str, Optimizers, bool]] = {
    "lenet5-sgd": ("lenet5", "digits", sgd, False),
    "byte-transformer-adamw": ("byte-transformer", "python-sources", adamw, False),
    "byte-transformer-adafactor": ("byte-transformer", "python-sources", adafactor, False),
    "lenet5-muon": ("lenet5", "digits", muon, False),
    "lenet5-adamw-ema": ("lenet5", "digits", adamw, True),
}


class Run:
    """A training with its state."""

    def __init__(self, name: str, seed: int) -> None:
        self.model, self.data, self.optimizers_of, self.is_averaged = TRAININGS[name]
        self.seed = seed
        self.begin(None)

    def begin(self, state: dict[str, Any] | None) -> None:
        """Make everything anew, and load a state."""
        self.task = make_task(self.model, self.data, seed=self.seed)
        self.optimizers = self.optimizers_of(self.task.model)
        self.ema = copy.deepcopy(self.task.model.state_dict())
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR
        schedules = [cosine(optimizer, ITERATIONS) for optimizer in self.optimizers]
        self.parts: list[Any] = [*self.optimizers, *schedules]
        if state is not None:
            self.task.model.load_state_dict(state["model"])
            self.ema = state.get("ema", self.ema)
            for each, its_state in zip(self.parts, state["parts"], strict=True):
                each.load_state_dict(its_state)

    def train(self, iteration: int) -> None:
        batch = self.task.batch(iteration, MODELS[self.model].batch_size)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.task.loss(batch).backward()
        for each in self.parts:
            each.step()
        for name, value in self.task.model.state_dict().items():
            self.ema[name] = AVERAGED * self.ema[name] + (1 - AVERAGED) * value

    @property
    def state(self) -> dict[str, Any]:
        state = {"model": self.task.model.state_dict()}
        state |= {"ema": self.ema} if self.is_averaged else {}
        return state | {"parts": [part.state_dict() for part in self.parts]}

    def loss(self) -> float:
        return self.task.probe_loss(self.ema if self.is_averaged else None)


def final_loss(
    name: str, seed: int, restarts: list[int], settings: dict[str, Any] | None
) -> tuple[float, list[float]]:
    """The mean of the last losses, and each delta's share of the state. settings: of a
    `Checkpointer`; None for exact states."""
    run, losses, shares = Run(name, seed), [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.lcc")
        checkpoints = codec.Checkpointer(path, **settings) if settings is not None else None
        for iteration in range(1, ITERATIONS + 1):
            run.train(iteration)
            if checkpoints:
                saved = checkpoints.save(iteration, run.state)
                shares.append(saved.nbytes / saved.full_nbytes)
            if iteration in restarts:
                if checkpoints:
                    checkpoints.close()
                    checkpoints = codec.Checkpointer(path, resume="required", **settings or {})
                run.begin(checkpoints.restore() if checkpoints else copy.deepcopy(run.state))
            if iteration > ITERATIONS - TAIL and iteration % LOOK_EVERY == 0:
                losses.append(run.loss())
        if checkpoints:
            checkpoints.close()
    return statistics.mean(losses), shares


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trainings", default=",".join(TRAININGS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--policy", nargs="*", default=[], metavar="PATTERN=MODE")
    parser.add_argument("--scope", default="model")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    codec.warm_up()
    settings = {"policy": rules(options.policy) | POLICY, "scope": options.scope}
    rows = []
    for name in options.trainings.split(","):
        exact = [final_loss(name, seed, [], None)[0] for seed in range(options.seeds)]
        cells, shares = [], np.zeros(ITERATIONS)
        for restarts in RESTARTS.values():
            runs = [final_loss(name, seed, restarts, settings) for seed in range(options.seeds)]
            above = 1e3 * np.array([loss - base for (loss, _), base in zip(runs, exact)])
            error = above.std(ddof=1) / above.size**0.5 if above.size > 1 else np.nan
            cells.append(f"{above.mean():+.1f} ± {error:.1f}")
            shares = np.mean([its for _, its in runs], axis=0)
        cells += [f"{100 * shares[max(a - 1, 1) : b].mean():.1f} %" for a, b in STRETCHES]
        rows.append([name, *cells])
        print(*rows[-1], file=sys.stderr, flush=True)
    head = ["training", *(f"{n} restart{'s' * (n > 1)}, mnat" for n in RESTARTS)]
    print(table([*head, *(f"bytes, {a} to {b}" for a, b in STRETCHES)], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
