"""A training that fails and is restored many times, and how accurate it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demo_models import Training
from lcviz.lab.progress import Progress, unreported
from lcviz.lab.recovery.methods import Method
from lcviz.lab.recovery.recovery import ProtocolError
from lcviz.lab.recovery.savers import TimedSaver, savers_of
from lcviz.lab.workload import Workload


@dataclass(frozen=True)
class RepeatedOutcome:
    """A training that failed several times.

    metric: over all held-out examples at its end. undisturbed: the same for a training that never
    failed. Both are a fraction of right answers ("accuracy") or in rating units ("RMSE"). share: of
    float32, the mean size on disk of a checkpoint after the first.
    """

    method: Method
    seed: int
    metric_name: str
    metric: float
    undisturbed: float
    share: float


def fail_repeatedly(
    workload: Workload,
    seed: int,
    methods: Sequence[Method],
    failures: int,
    iterations: int,
    progress: Progress = unreported,
) -> list[RepeatedOutcome]:
    """Train once with each method, saving after every iteration and failing at even distances.

    After each failure a training goes on from the restored state with the next batch, so it sees
    every batch once. (After Agrawal et al., "Inshrinkerator", SoCC 2024, who restore 10 times in a
    training.) Raises demo_models.DataError, codec.LccError, ProtocolError.
    """
    if not 1 <= failures < iterations:
        raise ProtocolError(
            f"give at least 1 failure, and fewer than iterations; got {failures} failures in "
            f"{iterations} iterations"
        )
    failing_steps = {round(iterations * i / (failures + 1)) for i in range(1, failures + 1)}
    done, total = 0, iterations * (len(methods) + 1)

    def train(saver: TimedSaver | None = None) -> Training:
        nonlocal done
        training = workload.training(seed)
        if saver:
            saver.save(0, training.state())
        for step in range(1, iterations + 1):
            training.iterate(step)
            if saver:
                saver.save(step, training.state())
                if step in failing_steps:
                    training.load(saver.restore())
            done += 1
            progress(done, total)
        return training

    task = train().task
    undisturbed = task.held_out_metric()
    full_nbytes = 4 * sum(p.numel() for p in task.model.parameters())
    outcomes = []
    for method in methods:
        with savers_of([method]) as (saver,):
            metric = train(saver).task.held_out_metric()
        share = saver.nbytes / full_nbytes
        outcomes.append(RepeatedOutcome(method, seed, task.metric_name, metric, undisturbed, share))
    return outcomes
