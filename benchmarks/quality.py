"""What a restart from a chain costs in loss, by the interval between saves and the setting.

    PYTHONPATH=. python benchmarks/quality.py [--trainings lenet5-sgd,…] [--seeds 3]

Each training warms up, begins a chain with an exact base, and saves at an interval with all
settings at once, each with its own track. At the end it is restarted from each track, with the
optimizer's exact state, so that only the weights differ. Then it trains on with the same batches.
Figures are means over seeds; losses are on held-out examples, in thousandths of a nat (mnat) above
a restart from exact weights.

bytes: of a delta, as a share of the float32 bytes of the weights. behind: ||track - weights|| /
||weights - weights at the base|| when the training restarts. at restart: the loss at once. over 40:
the mean loss of the next 40 iterations, measured at every fifth one. encode: median time to encode
a delta, as a multiple of the budget's.

The row CONTROL restarts from exact weights, each changed by a millionth of itself. It shows how
much the training itself magnifies a tiny difference.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

import codec
from benchmarks.markdown import table
from codec.scheme.coding import DEFAULT_DISTANCE
from demo_models.catalog import MODELS
from demo_models.optimizers import make_optimizer
from demo_models.task import Task, make_task

WARM_UP = 100  # iterations before the base
AFTER = 40  # iterations after the restart
LOOK_EVERY = 5
HELD_OUT = 512  # examples, at most
INTERVALS = {1: 66, 10: 12, 50: 4, 200: 4}  # iterations between saves -> deltas
EXACT, CONTROL, BUDGET = "exact", "exact but for 1e-6", "budget 5 %"
SETTINGS: dict[str, dict[str, float]] = {
    "2 bits": {"bits": 2},
    "3 bits": {"bits": 3},
    BUDGET: {"budget": 0.05},
    f"distance {DEFAULT_DISTANCE:g} (default)": {"distance": DEFAULT_DISTANCE},
    "distance 0.1": {"distance": 0.1},
}
TRAININGS = {
    "byte-transformer-adamw": ("byte-transformer", "python-sources", "adamw"),
    "byte-transformer-adafactor": ("byte-transformer", "python-sources", "adafactor"),
    "alexnet-sgd": ("alexnet", "digits", "sgd"),
    "lenet5-sgd": ("lenet5", "digits", "sgd"),
}


Weights = dict[str, NDArray[np.float32]]


class Trained:
    """A task, its optimizer, and the iteration it is at."""

    def __init__(self, name: str, seed: int) -> None:
        model, data, optimizer = TRAININGS[name]
        self.task: Task = make_task(model, data, seed=seed)
        self.batch_size = MODELS[model].batch_size
        parameters = self.task.model.parameters()
        if optimizer == "adafactor":
            self.optimizer: torch.optim.Optimizer = torch.optim.Adafactor(parameters, lr=0.01)
        else:
            key = "adam" if optimizer == "adamw" else optimizer
            lr, momentum = MODELS[model].optimizers[key]
            self.optimizer = make_optimizer(optimizer, parameters, lr, momentum)
        self.iteration = 0

    def train(self, n: int) -> None:
        """Train n iterations."""
        for _ in range(n):
            self.iteration += 1
            self.optimizer.zero_grad()
            self.task.loss(self.task.batch(self.iteration, self.batch_size)).backward()
            self.optimizer.step()

    def weights(self) -> Weights:
        """A copy of the weights, by name."""
        parameters = self.task.model.named_parameters()
        return {name: p.detach().numpy().copy() for name, p in parameters}

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """The mean loss on held-out examples, in nats."""
        return float(self.task.loss(tuple(c[:HELD_OUT] for c in self.task.dataset.held_out)))

    def restarted(self, weights: Weights) -> Iterator[float]:
        """The held-out loss at a restart from these weights and during the iterations after it.

        Afterwards the training is where it was before.
        """
        before = copy.deepcopy((self.task.model.state_dict(), self.optimizer.state_dict()))
        iteration = self.iteration
        with torch.no_grad():
            for name, parameter in self.task.model.named_parameters():
                parameter.copy_(torch.from_numpy(np.array(weights[name])))
        yield self.held_out_loss()
        for _ in range(AFTER // LOOK_EVERY):
            self.train(LOOK_EVERY)
            yield self.held_out_loss()
        self.task.model.load_state_dict(before[0])
        self.optimizer.load_state_dict(before[1])
        self.iteration = iteration


@dataclass
class Row:
    """The figures of one setting at one interval; each list has one for each seed or delta."""

    nbytes: list[float] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)
    at_restart: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, training: Trained, weights: Weights, exact: list[float]) -> None:
        """The losses of a restart. exact: those of one from exact weights."""
        losses = list(training.restarted(weights))
        self.at_restart.append(losses[0] - exact[0])
        self.after.append(statistics.mean(losses[1:]) - statistics.mean(exact[1:]))

    def cells(self, budget: Row) -> list[str]:
        """The row's cells in a table. budget: the row of the budget."""
        losses = [f"{1e3 * statistics.mean(kind):+.1f}" for kind in (self.at_restart, self.after)]
        if not self.nbytes:  # nothing was encoded
            return ["100 %", "0.000", *losses, ""]
        time_ratio = statistics.median(self.seconds) / statistics.median(budget.seconds)
        share, behind = statistics.mean(self.nbytes), statistics.mean(self.behind)
        return [f"{100 * share:.2f} %", f"{behind:.3f}", *losses, f"{time_ratio:.2f}"]


def nearly(weights: Weights, signs: NDArray[np.float64]) -> Weights:
    """The weights, each changed by a millionth of itself. signs: 1 or -1 for each."""
    parts = np.split(signs, np.cumsum([w.size for w in weights.values()])[:-1])
    return {
        name: (w * (1 + 1e-6 * part.reshape(w.shape))).astype(np.float32)
        for (name, w), part in zip(weights.items(), parts)
    }


def distance(a: Weights, b: Weights) -> float:
    """||a - b||, over all weights."""
    return float(np.sqrt(sum(((a[name] - b[name].astype(np.float64)) ** 2).sum() for name in a)))


def measure(name: str, seed: int, interval: int, rows: dict[str, Row]) -> None:
    """Add the figures of one training."""
    training = Trained(name, seed)
    training.train(WARM_UP)
    base = training.weights()
    trackers = {key: codec.Tracker(base, **setting) for key, setting in SETTINGS.items()}
    whole = sum(array.nbytes for array in base.values())
    for _ in range(INTERVALS[interval]):
        training.train(interval)
        weights = training.weights()
        for key, tracker in trackers.items():
            begun = time.perf_counter()
            delta = tracker.step(weights)
            rows[key].seconds.append(time.perf_counter() - begun)
            rows[key].nbytes.append(delta.nbytes / whole)
    exact = list(training.restarted(weights))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], sum(w.size for w in weights.values()))
    rows[CONTROL].add(training, nearly(weights, signs), exact)
    for key, tracker in trackers.items():
        rows[key].behind.append(distance(tracker.state, weights) / distance(weights, base))
        rows[key].add(training, tracker.state, exact)


def main() -> None:
    """Print one table a training."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--trainings", default=",".join(TRAININGS))
    parser.add_argument("--intervals", default=",".join(map(str, INTERVALS)))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    codec.warm_up()
    head = ["saved every", "kept", "bytes", "behind", "at restart", f"over {AFTER}", "encode"]
    for name in options.trainings.split(","):
        cells = []
        for interval in map(int, options.intervals.split(",")):
            rows = {key: Row() for key in (CONTROL, *SETTINGS)}
            for seed in range(options.seeds):
                measure(name, seed, interval, rows)
            cells.append([f"{interval}", EXACT, "100 %", "0.000", "0", "0", ""])
            cells += [[f"{interval}", key, *row.cells(rows[BUDGET])] for key, row in rows.items()]
        print(name)
        print(table(head, cells), flush=True)


if __name__ == "__main__":
    main()
