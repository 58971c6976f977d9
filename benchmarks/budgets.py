"""How much of its budget each checkpoint of many small trainings uses.

    python -m benchmarks.budgets [CHECKPOINTS]

A share above 1 would break the promise. Deltas that a smaller record holds nearly exactly do not
count: for example values of one magnitude only, as after Adam's first step.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

import codec
from codec.errors import BudgetError

BUDGETS = (0.01, 0.02, 0.05, 0.1)
EXACT_BELOW = 0.002  # share of the change: with a smaller rest a delta counts as exact
STEPS = 8
Arrays = dict[str, np.ndarray]


def main(checkpoints: int) -> None:
    """Print a line for each coder, scope and budget."""
    all_shares: list[float] = []
    kinds = list(itertools.product(("runlength", "huffman"), ("model", "tensor"), BUDGETS))
    kinds = [kind for kind in kinds if kind[0] == "runlength" or kind[2] > 1 / 32]
    print("coder      scope   budget  checkpoints  mean   least  most")
    for coder, scope, budget in kinds:
        n = -(-checkpoints // len(kinds))
        shares = list(itertools.islice(used_shares(coder, scope, budget), n))
        all_shares += shares
        print(
            f"{coder:9}  {scope:6}  {budget:6}  {len(shares):11}  "
            f"{np.mean(shares):.3f}  {min(shares):.3f}  {max(shares):.4f}"
        )
    mean, most = np.mean(all_shares), max(all_shares)
    print(f"all: {len(all_shares):,}, mean {mean:.4f}, most {most:.5f}")


def used_shares(coder: str, scope: str, budget: float) -> Iterator[float]:
    """The share of its budget that each checkpoint uses, of one training after another."""
    for seed in itertools.count():
        states = training(seed)
        tracker = codec.Tracker(next(states), scope=scope, coder=coder, budget=budget)
        limit = budget * tracker.track.layout.lossy_nbytes
        for state in states:
            before = distance(tracker, state)
            try:
                share = tracker.step(state).nbytes / limit
            except BudgetError:
                continue
            assert share <= 1, f"training {seed}: {share}"
            if distance(tracker, state) > EXACT_BELOW * before:
                yield share


def distance(tracker: codec.Tracker, state: Arrays) -> float:
    """Sum of all errors of the track."""
    return sum(float(np.abs(tracker.state[name] - a).sum()) for name, a in state.items())


def training(seed: int) -> Iterator[Arrays]:
    """The states that a training of two layers on random data saves.

    The seed chooses its sizes, optimizer, learning rate and the steps between saves.
    """
    rng = np.random.default_rng(seed)
    inputs, hidden, outputs = (int(rng.integers(*ends)) for ends in ((20, 90), (50, 400), (2, 12)))
    rate, interval = 10 ** rng.uniform(-3, -1), int(rng.choice([1, 1, 3, 10]))
    optimizer = ("sgd", "momentum", "adam")[seed % 3]
    x, y = rng.normal(size=(256, inputs)), rng.normal(size=(256, outputs))
    x *= rng.random(x.shape) < rng.choice([1.0, 0.1])  # sparse inputs: sparse gradients
    w: Arrays = {
        "first": rng.normal(size=(inputs, hidden)) / np.sqrt(inputs),
        "bias": np.zeros(hidden),
        "last": rng.normal(size=(hidden, outputs)) / np.sqrt(hidden),
    }
    m, v = ({name: np.zeros_like(a) for name, a in w.items()} for _ in range(2))
    for t in range(1, STEPS * interval + 1):
        if t % interval == 1 or interval == 1:
            yield {name: a.astype(np.float32) for name, a in w.items()}
        at = rng.integers(0, 256, 16)
        h = np.maximum(x[at] @ w["first"] + w["bias"], 0)
        off = (h @ w["last"] - y[at]) / 16
        back = off @ w["last"].T * (h > 0)
        for name, g in (("first", x[at].T @ back), ("bias", back.sum(0)), ("last", h.T @ off)):
            g = g / max(1.0, float(np.linalg.norm(g)))
            m[name] = (0.9 if optimizer != "sgd" else 0) * m[name] + g
            step = m[name]
            if optimizer == "adam":
                v[name] = 0.99 * v[name] + g * g
                step = 0.1 * step / (1 - 0.9**t) / (np.sqrt(v[name]) + 1e-8)
            w[name] = w[name] - rate * step


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
