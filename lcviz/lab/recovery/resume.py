"""What a restart costs that has its optimizer's moments only roughly, or not at all.

A training with Adam is saved in several ways, then goes on from each of them with the same batches.
All ways hold the same track of the weights; they differ in what they hold of the moments.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import codec
from codec import Coding
from lcviz.lab.intervals import mean
from lcviz.lab.progress import Progress
from lcviz.lab.workload import Workload

from .recovery import ProtocolError

WEIGHTS = Coding(2)
EXACT = "exact"  # the way that the others are compared with


@dataclass(frozen=True)
class Way:
    """How the optimizer's state is saved.

    policy: see `codec.Checkpointer`. kept: False for a new optimizer after the restart.
    """

    name: str
    policy: Mapping[str, str]
    kept: bool = True


WAYS = (
    Way(EXACT, {"optimizer/*": "exact"}),
    Way("all buckets", {"optimizer/*": "lossy"}),
    Way("3 bits", {"optimizer/*": "bits=3"}),
    Way("2 bits", {"optimizer/*": "bits=2"}),
    Way("new optimizer", {"optimizer/*": "skip"}, kept=False),
)


@dataclass(frozen=True)
class Restart:
    """A training that went on from one way.

    share: mean bytes of a delta record, of the weights and moments in float32. losses: on held-out
    examples, after each iteration since the restart.
    """

    way: Way
    share: float
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Stop:
    """When a training stops and goes on.

    at: the last iteration before. interval: iterations between saves. saves: deltas before the
    stop; the base lies before them. horizon: iterations after it.
    """

    at: int = 300
    interval: int = 1
    saves: int = 60
    horizon: int = 100


def restarts(
    workload: Workload,
    seed: int,
    stop: Stop,
    ways: Sequence[Way] = WAYS,
    coding: Coding = WEIGHTS,
    progress: Progress = lambda _done, _total: None,
) -> list[Restart]:
    """Train, save in every way, and go on from each.

    Raises demo_models.DataError, codec.LccError, ProtocolError for a stop before its first save.
    """
    first = stop.at - stop.saves * stop.interval
    if first < 1 or stop.horizon < 1:
        raise ProtocolError(
            f"{stop.saves} checkpoints, one every {stop.interval}, do not fit before {stop.at}"
        )
    training = workload.training(seed)
    total = stop.at + len(ways) * stop.horizon
    sizes: list[list[int]] = [[] for _ in ways]
    with ExitStack() as stack:
        chains = []
        for way in ways:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run.lcc"
            chain = codec.Checkpointer(path, **coding.header(), policy=way.policy, base_every=None)
            chains.append(stack.enter_context(closing(chain)))
        full = 0
        for t in range(1, stop.at + 1):
            training.iterate(t)
            if t >= first and (t - first) % stop.interval == 0:
                state = training.state()
                for nbytes, chain in zip(sizes, chains):
                    saved = chain.save(t, state)
                    full = max(full, saved.full_nbytes)
                    if saved.kind == "delta":
                        nbytes.append(saved.nbytes)
            progress(t, total)
        found = []
        for i, (way, chain) in enumerate(zip(ways, chains)):
            again = workload.training(seed)
            state = chain.restore() or {}
            again.load(state if way.kept else {"model": state["model"]})
            losses = []
            for k in range(1, stop.horizon + 1):
                again.iterate(stop.at + k)
                losses.append(again.task.probe_loss())
                progress(stop.at + i * stop.horizon + k, total)
            found.append(Restart(way, mean(sizes[i]).value / full, tuple(losses)))
    return found
