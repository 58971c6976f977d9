"""Kill a training in a loop of ten lines at random moments: it goes on by itself.

    PYTHONPATH=. python tests/faults/training_kills.py --kills 200

A process trains and saves every step; it is killed (SIGKILL) or asked to end (SIGTERM), and another
one runs the same lines. At most the step under way may be lost, and the chain needs no repair. With
everything exact, each loss and the last weights have the bits of a training that was left alone.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import chain, cycle
from pathlib import Path

import numpy as np
import torch
from common import Child, Tell, attempt, in_words, new_path, options_of
from torch import nn

import codec

STEPS = 40  # of a training
LIFE = 30  # messages, of 80, after which a process is killed, at most
LATEST = 0.01  # seconds after such a message
WAYS: dict[str, dict[str, str]] = {"exact": {"*": "exact"}, "lossy": {}}
Told = tuple[str, int, float]  # "done" or "saved", a step, and its loss


def train(path: Path, policy: Mapping[str, str], tell: Callable[..., object]) -> bytes:
    """The loop; returns the last weights. tell: gets `Told`."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(0)
    data = torch.randn(64, 12)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7)
    shuffle = torch.Generator().manual_seed(1)
    named = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "shuffle": shuffle}
    with codec.Checkpointer.of(path, policy=policy, **named) as checkpoints:
        for step in range(checkpoints.next_step, STEPS):
            batch = data[torch.randperm(64, generator=shuffle)[:16]]
            batch = batch * random.uniform(0.9, 1.1) + np.random.normal()
            loss = (model(batch).squeeze() - batch.sum(1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            tell("done", step, loss.item())
            checkpoints.save(step)
            tell("saved", step, loss.item())
    return b"".join(p.detach().numpy().tobytes() for p in model.parameters())


def main(arguments: list[str] | None = None) -> int:
    """Train and kill, until there were as many kills; returns how many trainings went wrong."""
    options = options_of(__doc__, arguments, kills=(20, "at least"), seed=(0, "of the moments"))
    codec.warm_up()
    torch.set_num_threads(1)
    rng, met = random.Random(options.seed), Counter[str]()
    alone: list[Told] = []
    with new_path() as path:
        weights = train(path, {}, lambda *told: alone.append(told))
    losses = {step: loss for _, step, loss in alone}
    for way in cycle(WAYS):
        if met["killed by SIGKILL"] + met["killed by SIGTERM"] >= options.kills:
            break
        with new_path() as path, attempt(met, way):
            seen, end = killed_often(path, WAYS[way], rng, met)
            if way == "exact":
                assert seen == losses, "losses differ"
                assert end == weights, "weights differ"
            assert codec.verify(path).ok, codec.verify(path).problems
            assert codec.Chain(path).steps == (*range(STEPS),)
            assert not list(path.glob(".lcc-*")), "a temporary file was left behind"
            met[f"trainings that ended, {way}"] += 1
    print(in_words(met))
    return met["WRONG"]


def killed_often(
    path: Path, policy: Mapping[str, str], rng: random.Random, met: Counter[str]
) -> tuple[dict[int, float], bytes]:
    """Train to the end, with kills; returns the losses and the last weights."""
    losses: dict[int, float] = {}
    saved = done = -1
    while True:
        number = rng.choice((signal.SIGKILL, signal.SIGTERM))
        code, told = run_and_kill(path, policy, number, rng.randrange(LIFE), rng.random())
        for what, step, loss in told:
            if what == "saved":
                saved = max(saved, step)
                continue
            assert saved < step <= done + 1, f"{step} follows {done}, and {saved} was saved"
            assert not policy or losses.setdefault(step, loss) == loss, f"another loss at {step}"
            done = max(done, step)
        assert code in (0, -number), "the training failed"
        if not code:
            return losses, path.with_suffix(".end").read_bytes()
        met[f"killed by {number.name}"] += 1


def run_and_kill(
    path: Path, policy: Mapping[str, str], number: signal.Signals, life: int, late: float
) -> tuple[int, list[Told]]:
    """Train in a fork; returns how it ended, and all that it has told.

    number, life, late: the signal that it gets, after it has told so often, and so much later, as a
    share of LATEST.
    """

    def trained(tell: Tell) -> None:
        path.with_suffix(".end").write_bytes(train(path, policy, tell))

    child, told = Child(trained), list[Told]()
    parts = iter(lambda: child.lines(wait=True), [])
    for line in chain([""], chain.from_iterable(parts)):
        if line:
            what, step, loss = line.split()
            told.append((what, int(step), float(loss)))
        if len(told) == life:
            time.sleep(late * LATEST)
            child.kill(number)
    return child.code(), told


if __name__ == "__main__":
    sys.exit(min(main(), 1))
