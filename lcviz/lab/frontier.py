"""Bytes against distance: how close a track stays to a running training at each size."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import codec
from codec import Coding
from codec.errors import BudgetError
from codec.inspect import copy_arrays, layout_of, to_arrays

from .intervals import mean
from .measures import distance
from .progress import Progress
from .workload import Workload

WARM_UP = 0.25  # share of the saves: before, too little is trained to compare a distance with


@dataclass(frozen=True)
class Point:
    """One setting in one training: means over its saves, without the first quarter.

    share: bytes on disk over float32. distance: of the restored model from the live one, as a share
    of the distance trained. gap: loss on held-out examples, restored minus live. failed: number of
    saves that the budget did not allow. changed: share of the values that change between saves.
    """

    coding: Coding
    share: float
    distance: float
    gap: float
    failed: int
    changed: float


def points(
    workload: Workload,
    seed: int,
    codings: Sequence[Coding],
    saves: int,
    interval: int,
    progress: Progress = lambda _done, _total: None,
) -> list[Point]:
    """Train once, save with every setting, and measure each track after each save.

    Raises demo_models.DataError, codec.LccError.
    """
    training = workload.training(seed)
    task = training.task

    def live() -> codec.inspect.Arrays:
        state = task.model.state_dict()
        return copy_arrays(to_arrays(state, layout_of(state)))

    start, first = live(), int(WARM_UP * saves)
    n = sum(a.size for a in start.values())
    before, changed_shares = start, list[float]()
    shares: list[list[float]] = [[] for _ in codings]
    distances: list[list[float]] = [[] for _ in codings]
    gaps: list[list[float]] = [[] for _ in codings]
    failed = [0] * len(codings)
    with ExitStack() as stack:
        chains = []
        for coding in codings:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run.lcc"
            chain = codec.Checkpointer(path, **coding.header(), base_every=None)
            chains.append(stack.enter_context(closing(chain)))
            chain.save(0, start)
        for i in range(1, saves + 1):
            for t in range((i - 1) * interval + 1, i * interval + 1):
                training.iterate(t)
            state, loss = live(), task.probe_loss()
            if i > first:
                n_changed = sum(int((state[name] != before[name]).sum()) for name in state)
                changed_shares.append(n_changed / n)
            before = state
            for k, chain in enumerate(chains):
                nbytes = 0
                try:
                    nbytes = chain.save(i * interval, state).nbytes
                except BudgetError:  # go on without this checkpoint, as a user would
                    failed[k] += 1
                if i > first:
                    track = chain.restore() or {}
                    shares[k].append(nbytes / (4 * n))
                    distances[k].append(distance(track, state) / distance(state, start))
                    gaps[k].append(task.probe_loss(track) - loss)
            progress(i, saves)
    return [
        Point(
            coding,
            share=mean(shares[k]).value,
            distance=mean(distances[k]).value,
            gap=mean(gaps[k]).value,
            failed=failed[k],
            changed=mean(changed_shares).value,
        )
        for k, coding in enumerate(codings)
    ]
