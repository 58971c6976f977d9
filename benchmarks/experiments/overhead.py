"""What saving costs a training: seconds of an iteration with and without it, and of each stage.

Ratios are taken within a round, which runs the same training once in every mode: the load of the
machine differs between rounds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import codec
from codec import Saved
from codec.inspect import STAGES
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.workload import Workload

NONE, SYNCHRONOUS, ASYNCHRONOUS, SKIPPING = MODES = (
    "without saving",
    "in the loop",
    "asynchronous",
    "asynchronous, skip",
)
SETTINGS: Mapping[str, dict[str, Any]] = {
    SYNCHRONOUS: {},
    ASYNCHRONOUS: {"asynchronous": True},
    SKIPPING: {"asynchronous": True, "when_busy": "skip"},
}
WARM_UP = 20  # iterations before the clock starts


@dataclass(frozen=True)
class SavingCost:
    """One training in one mode.

    iteration: mean seconds, the wait for the last save included. above: the excess over the
    training without saving of the same round, as a share. call: seconds in `save`, the median.
    stages: seconds, medians of deltas, by `codec.inspect.STAGES`. nbytes: of a delta, the mean.
    saved: share of the steps that were saved, as deltas or bases.
    """

    mode: str
    iteration: float
    above: float
    call: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    nbytes: float = 0.0
    saved: float = 0.0


def round_of(
    workload: Workload,
    seed: int,
    iterations: int,
    settings: Mapping[str, Any],
    progress: Progress = unreported,
    folder: Path | None = None,
) -> list[SavingCost]:
    """Run the same training from its start once in every mode.

    settings: of the `codec.Checkpointer`. folder: where chains are written, None for a temporary
    one. Raises demo_models.DataError, codec.LccError.
    """
    plain, _ = train(workload, seed, iterations, lambda _step, _state: None)
    progress(1, len(MODES))
    costs = [SavingCost(NONE, plain, 0.0)]
    for mode, extra in SETTINGS.items():
        with tempfile.TemporaryDirectory(dir=folder) as chain_folder:
            saves: list[Saved] = []

            def save(step: int, state: Any, saves: list[Saved] = saves) -> Saved:
                saves.append(checkpoints.save(step, state))
                return saves[-1]

            path, arguments = Path(chain_folder) / "run.lcc", dict(settings) | extra
            with codec.Checkpointer(path, **arguments) as checkpoints:
                iteration, call = train(workload, seed, iterations, save)
                kinds = [saved.kind for saved in saves[WARM_UP:]]
                deltas = [saved for saved in saves[WARM_UP:] if saved.kind == "delta"]
        share = 1 - kinds.count("skipped") / len(kinds)  # bases count as saved
        names = STAGES if deltas else ()
        stages = {n: statistics.median(saved.stages[n] for saved in deltas) for n in names}
        nbytes = statistics.fmean(saved.nbytes for saved in deltas) if deltas else 0.0
        excess = iteration / plain - 1
        costs.append(SavingCost(mode, iteration, excess, call, stages, nbytes, share))
        progress(len(costs), len(MODES))
    return costs


def train(
    workload: Workload, seed: int, iterations: int, save: Callable[[int, Any], object]
) -> tuple[float, float]:
    """Mean seconds of an iteration, saving included, and the median seconds of a save call.

    The first WARM_UP iterations are left out.
    """
    training = workload.training(seed)
    begin, calls = 0.0, []
    for step in range(WARM_UP + iterations):
        if step == WARM_UP:
            begin = time.perf_counter()
        training.iterate(step + 1)
        state = training.state()["model"]
        called_at = time.perf_counter()
        saved = save(step, state)
        calls.append(time.perf_counter() - called_at)
        if step == 0:
            getattr(saved, "nbytes", None)  # waits until the background process has started
    getattr(saved, "nbytes", None)  # waits for the last save
    return (time.perf_counter() - begin) / iterations, statistics.median(calls[WARM_UP:])
